"""A loss stays in its interval for any network, and what counts as an error costs at least ln 2."""

import math

import mpmath
import pytest
import torch
from toys import seeded

from pacdp.losses import Loss, bounded_cross_entropy, margins, ramp, zero_one

LOSSES = [
    *(bounded_cross_entropy(classes=k, max_loss=high) for k, high in ((2, 4.0), (10, 4.0), (2, 0.7), (5, 12.0))),
    ramp(),
    ramp(slope=2.0),
    zero_one(),
]
EXTREMES = [0.0, 1e-30, -1e-30, 1e-3, 1.0, -1.0, 20.0, -20.0, 1e4, -1e4, 3e38, -3e38]


def logits_of(classes: int, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    """Logits of all magnitudes, ties and corners among them."""
    extremes = torch.tensor(EXTREMES, dtype=dtype)
    if classes == 2:
        return torch.cat([extremes, torch.randn(200, generator=seeded(0), dtype=dtype) * 5])[:, None]
    corners = torch.cartesian_prod(extremes, extremes)
    corners = torch.cat([corners, extremes[:1].expand(len(corners), classes - 2)], dim=1)
    spread = 10 ** torch.linspace(-3, 3, 200, dtype=dtype)[:, None]
    return torch.cat([corners, torch.randn(200, classes, generator=seeded(0), dtype=dtype) * spread])


@pytest.mark.parametrize(
    ("classes", "oscillation"), [(2, 3.981514553174), (10, 3.819867146249)], ids=["two classes", "ten classes"]
)
def test_intervals_and_oscillations(classes: int, oscillation: float) -> None:
    loss = bounded_cross_entropy(classes=classes)
    with mpmath.workdps(50):
        low = -mpmath.log(1 - (classes - 1) * mpmath.exp(-4))
        assert abs(loss.low - low) < 1e-16
        assert loss.high == 4.0
        assert 0 <= loss.oscillation - (4 - low) < 1e-15
    assert abs(loss.oscillation - oscillation) < 1e-12


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("classes", [2, 3, 10])
def test_extreme_logits_reach_both_ends_and_leave_neither(classes: int, dtype: torch.dtype) -> None:
    loss = bounded_cross_entropy(classes=classes)
    logits = logits_of(classes, dtype)
    values = torch.stack([loss(logits, torch.full((len(logits),), y)) for y in range(classes)])
    tolerance = 4 * torch.finfo(dtype).eps
    assert loss.low - tolerance <= values.min() <= loss.low + tolerance
    assert loss.high - tolerance <= values.max() <= loss.high + tolerance
    loss.check(float(values.min()), float(values.max()))


@pytest.mark.parametrize("classes", [2, 3, 10])
def test_pulled_probabilities_add_up_to_one(classes: int) -> None:
    loss = bounded_cross_entropy(classes=classes)
    logits = logits_of(classes)
    total = sum(torch.exp(-loss(logits, torch.full((len(logits),), y))) for y in range(classes))
    torch.testing.assert_close(total, torch.ones_like(total), rtol=1e-13, atol=0)


@pytest.mark.parametrize("classes", [2, 10])
def test_values_are_those_of_the_formula(classes: int) -> None:
    logits = torch.randn(20, 1 if classes == 2 else classes, generator=seeded(2), dtype=torch.float64) * 3
    labels = torch.arange(20) % classes
    values = bounded_cross_entropy(classes=classes)(logits, labels)
    with mpmath.workdps(30):
        for row, label, value in zip(logits.tolist(), labels.tolist(), values.tolist(), strict=True):
            row = [0.0, *row] if classes == 2 else row
            p = mpmath.exp(row[label]) / sum(mpmath.exp(logit) for logit in row)
            expected = -mpmath.log(mpmath.exp(-4) + (1 - classes * mpmath.exp(-4)) * p)
            assert abs(value - expected) < 1e-13


@pytest.mark.parametrize("classes", [2, 3, 10])
def test_an_error_costs_at_least_ln_two(classes: int) -> None:
    loss, logits = bounded_cross_entropy(classes=classes), logits_of(classes)
    for y in range(classes):
        labels = torch.full((len(logits),), y)
        wrong = zero_one()(logits, labels) == 1
        assert wrong.any()
        assert loss(logits, labels)[wrong].min() >= math.log(2) - 1e-15


@pytest.mark.parametrize("slope", [0.5, 1.0, 1e6])
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_ramp_is_never_below_zero_one(slope: float, classes: int, dtype: torch.dtype) -> None:
    logits = logits_of(classes, dtype)
    for y in range(classes):
        labels = torch.full((len(logits),), y)
        gap = ramp(slope=slope)(logits, labels) - zero_one()(logits, labels)
        assert gap.min() >= 0
        if slope == 1.0:
            assert gap.max() > 0.5


def test_ramp_is_one_minus_slope_times_margin_in_between() -> None:
    logits = torch.tensor([-0.1, 0.0, 0.125, 0.25, 0.5, 3.0])
    expected = torch.tensor([1.0, 1.0, 0.75, 0.5, 0.0, 0.0])
    assert torch.equal(ramp(slope=2.0)(logits, torch.ones(6, dtype=torch.int64)), expected)
    assert torch.equal(ramp(slope=2.0)(-logits[:, None], torch.zeros(6, dtype=torch.int64)), expected)


def test_ties_and_nans_are_errors() -> None:
    nan = math.nan
    one = zero_one()(torch.tensor([0.0, -0.0, nan, 1.0]), torch.tensor([0, 1, 1, 1]))
    assert one.tolist() == [1.0, 1.0, 1.0, 0.0]
    rows = torch.tensor([[1.0, 1.0, 0.0], [2.0, 0.0, nan], [nan, 0.0, 0.0], [nan, nan, nan], [2.0, 0.0, 1.0]])
    assert zero_one()(rows, torch.zeros(5, dtype=torch.int64)).tolist() == [1.0, 1.0, 1.0, 1.0, 0.0]


def test_one_logit_is_softmax_with_zero_for_label_zero() -> None:
    loss = bounded_cross_entropy(classes=2)
    logit = logits_of(2)
    pair = torch.cat([torch.zeros_like(logit), logit], dim=1)
    for y in (0, 1):
        labels = torch.full((len(logit),), y)
        torch.testing.assert_close(loss(logit, labels), loss(pair, labels), rtol=0, atol=0)
        torch.testing.assert_close(loss(logit[:, 0], labels), loss(logit, labels), rtol=0, atol=0)
        torch.testing.assert_close(margins(logit, labels), margins(pair, labels), rtol=0, atol=0)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: f"{loss.name} from {loss.low:.3f}")
def test_check_takes_the_interval_and_nothing_outside(loss: Loss) -> None:
    loss.check(loss.low, loss.high)
    for smallest, largest in (
        (loss.low - 1e-3, loss.high),
        (loss.low, loss.high + 1e-3),
        (math.nan, loss.high),
        (loss.low, math.nan),
        (-math.inf, math.inf),
    ):
        with pytest.raises(ValueError, match=r"declares the interval .* but took values in"):
            loss.check(smallest, largest)


@pytest.mark.parametrize(("low", "high"), [(0.0, math.inf), (-math.inf, 0.0), (1.0, 1.0), (2.0, 1.0), (math.nan, 1.0)])
def test_an_interval_must_be_bounded_and_ordered(low: float, high: float) -> None:
    with pytest.raises(ValueError, match="expected a bounded interval"):
        Loss(name="odd", low=low, high=high, function=lambda logits, labels: logits)


@pytest.mark.parametrize(("classes", "max_loss"), [(1, 4.0), (2, math.log(2)), (10, 2.0), (60, 4.0), (2, math.nan)])
def test_a_psi_that_does_not_increase_is_refused(classes: int, max_loss: float) -> None:
    with pytest.raises(ValueError, match=r"expected classes >= 2 and max_loss > ln\(classes\)"):
        bounded_cross_entropy(classes=classes, max_loss=max_loss)
