"""A loss stays in its interval for any network, and what counts as an error costs at least ln 2."""

import itertools
import math
from dataclasses import replace
from math import inf, log

import mpmath
import torch
from torch.testing import assert_close
from toys import dtypes, seeded

from pacdp.losses import Loss, Totals, bounded_cross_entropy, double_sum, error_count, in_error, ramp, zero_one
from tests.marks import near, parametrize, refusal

EXTREMES = [0.0, 1e-30, -1e-30, 1e-3, 1.0, -1.0, 20.0, -20.0, 1e4, -1e4, 3e38, -3e38]


def logits_of(classes, dtype=torch.float64):
    """Logits of all magnitudes, ties and corners among them."""
    extremes = torch.tensor(EXTREMES, dtype=dtype)
    if classes == 2:
        return torch.cat([extremes, torch.randn(200, generator=seeded(0), dtype=dtype) * 5])[:, None]
    corners = torch.cartesian_prod(extremes, extremes)
    corners = torch.cat([corners, extremes[:1].expand(len(corners), classes - 2)], dim=1)
    spread = 10 ** torch.linspace(-3, 3, 200, dtype=dtype)[:, None]
    return torch.cat([corners, torch.randn(200, classes, generator=seeded(0), dtype=dtype) * spread])


def sums(losses, logits, labels):
    found = Totals(losses)
    found.add(logits, labels, double_sum)
    return torch.tensor(found.read(), dtype=torch.float64)


def labels_of(y, logits):
    return torch.full((len(logits),), y)


@dtypes
@parametrize("classes", [2, 3, 10])
def test_extreme_logits_reach_both_ends_and_leave_neither_and_errors_cost_ln_two(classes, dtype):
    loss = bounded_cross_entropy(classes=classes)
    with mpmath.workdps(50):
        low = -mpmath.log(1 - (classes - 1) * mpmath.exp(-4))
        assert abs(loss.low - low) < 1e-16
        assert 0 <= loss.oscillation - (4 - low) < 1e-15
    assert loss.high == 4.0
    logits = logits_of(classes, dtype)
    values = torch.stack([loss(logits, labels_of(y, logits)) for y in range(classes)])
    wrong = torch.stack([zero_one()(logits, labels_of(y, logits)) for y in range(classes)]) == 1
    tolerance = 4 * torch.finfo(dtype).eps
    assert loss.low - tolerance <= values.min() <= loss.low + tolerance
    assert loss.high - tolerance <= values.max() <= loss.high + tolerance
    assert wrong.any(dim=1).all()
    assert values[wrong].min() >= log(2) - tolerance
    loss.require(float(values.min()), float(values.max()))
    for outside in ((loss.low - 1e-3, loss.high), (loss.low, loss.high + 1e-3)):
        with refusal(r"declares the interval .* but took values in"):
            loss.require(*outside)


@parametrize(("classes", "high"), [(2, 4.0), (2, 0.7), (10, 12.0)])
def test_values_are_those_of_the_formula(classes, high):
    logits = torch.randn(20, 1 if classes == 2 else classes, generator=seeded(2), dtype=torch.float64) * 3
    labels = torch.arange(20) % classes
    values = bounded_cross_entropy(classes=classes, max_loss=high)(logits, labels)
    with mpmath.workdps(30):
        for row, label, value in zip(logits.tolist(), labels.tolist(), values.tolist(), strict=True):
            row = [0.0, *row] if classes == 2 else row
            p = mpmath.exp(row[label]) / sum(mpmath.exp(logit) for logit in row)
            expected = -mpmath.log(mpmath.exp(-high) + (1 - classes * mpmath.exp(-high)) * p)
            assert abs(value - expected) < 1e-13


@parametrize("classes", [2, 3])
@dtypes
def test_ramp_is_never_below_zero_one(classes, dtype):
    logits = logits_of(classes, dtype)
    for y, slope in itertools.product(range(classes), (0.5, 1.0, 1e6)):
        labels = labels_of(y, logits)
        gap = ramp(slope=slope)(logits, labels) - zero_one()(logits, labels)
        assert gap.min() >= 0
        if slope == 1.0:
            assert gap.max() > 0.5


def test_ramp_is_one_minus_slope_times_margin_in_between():
    logits, loss = torch.tensor([-0.1, 0.0, 0.125, 0.25, 0.5, 3.0]), ramp(slope=2.0)
    one = labels_of(1, logits)
    expected = torch.tensor([1.0, 1.0, 0.75, 0.5, 0.0, 0.0])
    assert torch.equal(loss(logits, one), expected)
    assert torch.equal(loss(-logits[:, None], 0 * one), expected)
    mean, error, slope = loss.slope(logits[:, None], one)
    assert (mean, error) == (near(3.25 / 6), near(2 / 6))
    assert slope.flatten()[[0, 2, 3, 5]].tolist() == near([0, -2 / 6, -2 / 6, 0])


def test_ties_and_nans_are_errors():
    nan = math.nan
    one = zero_one()(torch.tensor([0.0, -0.0, nan, 1.0]), torch.tensor([0, 1, 1, 1]))
    assert one.tolist() == [1.0, 1.0, 1.0, 0.0]
    rows = torch.tensor([[1.0, 1.0, 0.0], [2.0, 0.0, nan], [nan, 0.0, 0.0], [nan, nan, nan], [2.0, 0.0, 1.0]])
    assert zero_one()(rows, labels_of(0, rows)).tolist() == [1.0, 1.0, 1.0, 1.0, 0.0]


@dtypes
@parametrize(("classes", "outputs"), [(2, 1), (2, 2), (10, 10)])
def test_compiled_slopes_are_those_of_autograd(classes, outputs, dtype):
    """A pair of logits for two classes, and a flat logit an example, are as good as one."""
    loss = bounded_cross_entropy(classes=classes)
    by_autograd = replace(loss, compiled=None)
    logits = torch.randn(300, outputs, generator=seeded(3), dtype=torch.float64) * torch.logspace(-2, 2, 300)[:, None]
    logits = logits.to(dtype)
    logits[:3], logits[3], logits[4] = 0.0, 100.0, -100.0  # ties and extremes
    logits[5:7, 0] = torch.tensor([100.0, -100.0])
    labels = torch.arange(300) % classes
    tolerance = 1e-5 if dtype == torch.float32 else 1e-12

    def compared(logits, labels):
        found, exact = loss.slope(logits, labels), by_autograd.slope(logits, labels)
        assert found[0] == near(exact[0], rel=tolerance, nan_ok=True)
        assert found[1] == exact[1]
        assert found[2].dtype == dtype
        assert_close(found[2], exact[2], rtol=10 * tolerance, atol=tolerance * 1e-2, equal_nan=True)
        return found

    for part in (slice(0, 300), slice(0, 3), *(slice(i, i + 1) for i in range(3, 7))):
        compared(logits[part], labels[part])
    if outputs == 1:
        flat, column = loss.slope(logits[:, 0], labels), loss.slope(logits, labels)
        assert flat[:2] == column[:2]
        assert torch.equal(flat[2], column[2][:, 0])
    logits[2, -1] = torch.nan
    assert math.isnan(compared(logits, labels)[0])


def loss_of(function, **interval):
    return Loss(name="mine", **({"low": 0.0, "high": 1.0} | interval), function=function)


REDUCED = {
    "mean": lambda losses: losses.mean(),
    "column": lambda losses: losses[:, None],
    "number": lambda losses: float(losses.mean()),
}


@parametrize("name", REDUCED)
@parametrize("n", [1, 8])
def test_a_loss_that_is_not_one_value_an_example_is_refused_at_every_call(name, n):
    loss = loss_of(lambda *given: REDUCED[name](zero_one().function(*given)))
    logits, labels = torch.randn(n, 3, generator=seeded(0)), torch.arange(n) % 3
    for call in (loss, loss.slope, lambda *given: sums((zero_one(), loss), *given)):
        with refusal(rf"loss mine returned .* expected one value an example, shape \({n},\)"):
            call(logits, labels)


def test_judged_losses_are_numbers_in_the_interval():
    logits = torch.tensor([[0.2], [0.4], [0.9]])
    labels = labels_of(0, logits)
    assert sums((loss_of(lambda f, y: f[:, 0]),), logits, labels) == logits.double().sum()
    with refusal("loss mine declares the interval"):
        sums((loss_of(lambda f, y: f[:, 0], high=0.5),), logits, labels)
    for wrong in (math.nan, inf, -inf):
        with refusal("loss mine is NaN or infinite"):
            sums((loss_of(lambda f, y, wrong=wrong: torch.where(f[:, 0] > 0.5, wrong, f[:, 0])),), logits, labels)
    assert sums((zero_one(),), logits[:0], labels[:0]) == 0.0


def test_errors_are_counted_exactly_in_one_place():
    logits, labels = logits_of(3, torch.float32), torch.arange(len(logits_of(3))) % 3
    slow = sum(
        not all(row[label] > other for k, other in enumerate(row) if k != label)
        for row, label in zip(logits.tolist(), labels.tolist(), strict=True)
    )
    assert error_count(logits, labels) == slow == int(in_error(logits, labels).sum())
    assert sums((zero_one(), ramp(slope=2.0)), logits, labels).dtype == torch.float64
    many = torch.ones(2**24 + 3, dtype=torch.float16)  # more errors than half and single precision count
    assert error_count(many, labels_of(0, many)) == len(many)
