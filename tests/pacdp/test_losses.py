"""A loss stays in its interval for any network, and what counts as an error costs at least ln 2."""

import dataclasses
import math

import mpmath
import pytest
import torch
from toys import seeded

from pacdp.losses import (
    Loss,
    bounded_cross_entropy,
    error_count,
    in_error,
    margins,
    ramp,
    sums,
    zero_one,
)

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


def slopes_by_autograd(loss: Loss, logits: torch.Tensor, labels: torch.Tensor) -> tuple[float, float, torch.Tensor]:
    return dataclasses.replace(loss, compiled=None).slope(logits, labels)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("classes", [2, 10])
def test_compiled_slopes_are_those_of_autograd(classes: int, dtype: torch.dtype) -> None:
    loss, outputs = bounded_cross_entropy(classes=classes), 1 if classes == 2 else classes
    logits = torch.randn(300, outputs, generator=seeded(3), dtype=torch.float64) * torch.logspace(-2, 2, 300)[:, None]
    logits = logits.to(dtype)
    logits[:3], logits[3], logits[4] = 0.0, 100.0, -100.0  # ties and extremes
    logits[5:7, 0] = torch.tensor([100.0, -100.0])
    labels = torch.arange(300) % classes
    tolerance = 1e-5 if dtype == torch.float32 else 1e-12
    parts = [slice(0, 300), slice(0, 3), *(slice(i, i + 1) for i in range(10))]
    for part in parts:
        found, exact = loss.slope(logits[part], labels[part]), slopes_by_autograd(loss, logits[part], labels[part])
        assert found[0] == pytest.approx(exact[0], rel=tolerance)
        assert found[1] == exact[1]
        assert found[2].shape == exact[2].shape
        assert found[2].dtype == dtype
        torch.testing.assert_close(found[2], exact[2], rtol=10 * tolerance, atol=tolerance * 1e-2)


@pytest.mark.parametrize("classes", [2, 10])
def test_compiled_slopes_of_nan_are_nan_and_an_error(classes: int) -> None:
    loss, outputs = bounded_cross_entropy(classes=classes), 1 if classes == 2 else classes
    for place in range(outputs):
        for label in range(classes):
            logits = torch.zeros(4, outputs)
            logits[:, label % outputs] = 5.0 if label or classes > 2 else -5.0
            logits[2, place] = torch.nan
            labels = torch.full((4,), label)
            mean, error, slope = loss.slope(logits, labels)
            exact = slopes_by_autograd(loss, logits, labels)
            assert math.isnan(mean)
            assert math.isnan(exact[0])
            assert error == exact[1] == 0.25
            assert torch.equal(torch.isnan(slope), torch.isnan(exact[2]))
            assert not torch.isnan(slope[[0, 1, 3]]).any()


def test_a_flat_logit_a_example_has_a_flat_slope() -> None:
    loss, logits, labels = bounded_cross_entropy(classes=2), torch.linspace(-3, 3, 7), torch.arange(7) % 2
    flat, column = loss.slope(logits, labels), loss.slope(logits[:, None], labels)
    assert flat[:2] == column[:2]
    assert torch.equal(flat[2], column[2][:, 0])


def test_a_pair_of_logits_for_two_classes_has_the_slope_of_autograd() -> None:
    loss, logits = bounded_cross_entropy(classes=2), torch.randn(20, 2, generator=seeded(0), dtype=torch.float64)
    labels = torch.arange(20) % 2
    found, exact = loss.slope(logits, labels), slopes_by_autograd(loss, logits, labels)
    assert found[:2] == pytest.approx(exact[:2], rel=1e-12)
    torch.testing.assert_close(found[2], exact[2])


@pytest.mark.parametrize("loss", [ramp(slope=0.3), zero_one()], ids=["ramp", "zero-one"])
def test_other_losses_have_slopes_by_autograd(loss: Loss) -> None:
    assert loss.compiled is None
    if loss.name == "zero-one":
        return
    logits = torch.tensor([[0.5], [-2.0], [9.0]])
    mean, error, slope = loss.slope(logits, torch.tensor([1, 1, 1]))
    assert (round(mean, 6), error) == (round((0.85 + 1.0 + 0.0) / 3, 6), pytest.approx(1 / 3))
    torch.testing.assert_close(slope, torch.tensor([[-0.1], [0.0], [0.0]]))


def loss_of(function, **interval) -> Loss:
    return Loss(name="mine", **({"low": 0.0, "high": 1.0} | interval), function=function)


REDUCED = {
    "mean": lambda logits, labels: zero_one().function(logits, labels).mean(),
    "sum": lambda logits, labels: zero_one().function(logits, labels).sum(),
    "column": lambda logits, labels: zero_one().function(logits, labels)[:, None],
    "pairs": lambda logits, labels: zero_one().function(logits, labels)[:, None] * torch.ones(len(labels)),
    "half": lambda logits, labels: zero_one().function(logits, labels)[::2],
    "number": lambda logits, labels: float(zero_one().function(logits, labels).mean()),
    "torch's default": lambda logits, labels: torch.nn.functional.cross_entropy(logits, labels).clamp(0, 1),
}


@pytest.mark.parametrize("name", REDUCED)
@pytest.mark.parametrize("n", [1, 8])
def test_a_loss_that_is_not_one_value_an_example_is_refused_at_every_call(name: str, n: int) -> None:
    if (name, n) == ("half", 1):
        return
    loss, logits, labels = loss_of(REDUCED[name]), torch.randn(n, 3, generator=seeded(0)), torch.arange(n) % 3
    for call in (loss, loss.judge, loss.slope, lambda logits, labels: sums((zero_one(), loss), logits, labels)):
        with pytest.raises(ValueError, match=rf"loss mine returned .* expected one value an example, shape \({n},\)"):
            call(logits, labels)


@pytest.mark.parametrize(
    "logits", [torch.ones(1, 1), torch.ones(()), torch.ones(4, 1), torch.ones(9)], ids=["1x1", "", "4x1", "9"]
)
def test_outputs_that_are_not_one_row_an_example_are_refused(logits: torch.Tensor) -> None:
    """A single output would be broadcast over all labels."""
    labels = torch.arange(8) % 2
    for loss in (zero_one(), ramp(), bounded_cross_entropy(classes=2)):
        for call in (loss, loss.judge, loss.slope):
            with pytest.raises(ValueError, match=r"must return one row an example"):
                call(logits, labels)


def test_judged_losses_are_numbers_in_the_interval() -> None:
    labels = torch.zeros(3, dtype=torch.int64)
    logits = torch.tensor([[0.2], [0.4], [0.9]])
    assert torch.equal(loss_of(lambda f, y: f[:, 0]).judge(logits, labels), logits[:, 0])
    with pytest.raises(ValueError, match="loss mine declares the interval"):
        loss_of(lambda f, y: f[:, 0], high=0.5).judge(logits, labels)
    for wrong in (math.nan, math.inf, -math.inf):
        with pytest.raises(ValueError, match="loss mine is NaN or infinite"):
            loss_of(lambda f, y, wrong=wrong: torch.where(f[:, 0] > 0.5, wrong, f[:, 0])).judge(logits, labels)
    assert zero_one().judge(logits[:0], labels[:0]).shape == (0,)


def test_errors_are_counted_exactly_in_one_place() -> None:
    logits, labels = logits_of(3, torch.float32), torch.arange(len(logits_of(3))) % 3
    slow = sum(
        not all(row[label] > other for k, other in enumerate(row) if k != label)
        for row, label in zip(logits.tolist(), labels.tolist(), strict=True)
    )
    assert error_count(logits, labels) == slow == int(in_error(logits, labels).sum())
    assert sums((zero_one(), ramp(slope=2.0)), logits, labels).dtype == torch.float64
    many = torch.ones(2**24 + 3, dtype=torch.float16)  # more errors than half and single precision count
    assert error_count(many, torch.zeros(1, dtype=torch.int64).expand(len(many))) == len(many)
