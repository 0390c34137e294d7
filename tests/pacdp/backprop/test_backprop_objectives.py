"""Objectives in torch: the values of bounds, and gradients by differences."""

from functools import partial

import torch
from torch.autograd import grad

import bounds
from pacdp.backprop import OBJECTIVES, f_kl, f_lambda, f_quad
from tests.marks import every_case, near, parametrize

CASES = [
    (0.1, 5.0, 300, 0.05, 0.0), (0.01, 0.3, 300, 0.05, 0.0), (0.0, 2.0, 60, 0.2, 1.0), (0.02, 300.0, 400, 0.05, 12.5),
    (0.01, 0.0, 300, 0.05, 0.0), (0.4, 40.0, 120, 0.01, 3.0), (1e-6, 0.5, 250, 0.025, 0.0),
]  # fmt: skip


def by_bounds(name, risk, kl, **given):
    """The same number without torch, at the best λ."""
    lam = [bounds.objectives.best_lambda(risk, kl, **given)] if name == "f_lambda" else []
    found = getattr(bounds.objectives, name)(risk, kl, *lam, **given)
    return float(found.value if name == "f_kl" else found)


@every_case("name", OBJECTIVES)
@parametrize(("risk", "kl", "n", "failure_prob", "extra"), CASES)
def test_values_are_those_of_bounds_in_order_and_gradients_their_differences(name, risk, kl, n, failure_prob, extra):
    r, k = (torch.tensor(value, dtype=torch.float64, requires_grad=True) for value in (risk, kl))
    given = {"n": n, "failure_prob": failure_prob, "extra_nats": extra}
    value = OBJECTIVES[name](r, k, **given)
    value.backward()
    assert f_kl(r, k, **given) <= value
    assert f_quad(r, k, **given) <= f_lambda(r, k, lam=0.5, **given)
    twin = partial(by_bounds, name, n=n, failure_prob=failure_prob)
    assert float(value.detach()) == near(twin(risk, kl + extra), rel=1e-14)
    h = 1e-5
    at = max(kl + extra, h)
    by_kl = (twin(risk, at + h) - twin(risk, at - h)) / (2 * h)
    assert float(k.grad) == near(by_kl, rel=1e-5)
    if risk > 0:
        by_risk = (twin(risk + h * risk, kl + extra) - twin(risk - h * risk, kl + extra)) / (2 * h * risk)
        assert float(r.grad) == near(by_risk, rel=1e-5)


def test_lambda_may_be_trained():
    lam = torch.tensor(1.3, dtype=torch.float64, requires_grad=True)
    risk, kl = torch.tensor(0.05, dtype=torch.float64), torch.tensor(7.0, dtype=torch.float64)
    f_lambda(risk, kl, n=500, failure_prob=0.05, lam=lam).backward()
    at = {"risk": 0.05, "kl_nats": 7.0, "n": 500, "failure_prob": 0.05}
    slope = (bounds.objectives.f_lambda(**at, lam=1.3 + 1e-5) - bounds.objectives.f_lambda(**at, lam=1.3 - 1e-5)) / 2e-5
    assert float(lam.grad) == near(slope, rel=1e-6)


def test_where_the_bound_says_nothing_the_quadratic_shows_the_way():
    r, k = torch.tensor(0.6, requires_grad=True), torch.tensor(1e4, requires_grad=True)
    value = f_kl(r, k, n=50, failure_prob=0.05)
    found = grad(value, (r, k))
    assert float(value.detach()) == 1.0
    assert found == grad(f_quad(r, k, n=50, failure_prob=0.05), (r, k))
    assert float(found[1]) > 0
