"""Objectives in torch: the values of bounds, and gradients by differences."""

from functools import partial

import torch
from torch.autograd import grad

import bounds
from pacdp.backprop import f_kl
from tests.marks import every_case, near, parametrize

CASES = [
    (0.1, 5.0, 300, 0.05), (0.01, 0.3, 300, 0.05), (0.0, 3.0, 60, 0.2), (0.02, 312.5, 400, 0.05),
    (0.01, 0.0, 300, 0.05), (0.4, 43.0, 120, 0.01), (1e-6, 0.5, 250, 0.025),
]  # fmt: skip
OBJECTIVES = {"f_classic": bounds.objectives.f_classic, "f_quad": bounds.objectives.f_quad, "f_kl": f_kl}


def by_bounds(name, risk, kl, **given):
    """The same number without torch."""
    found = getattr(bounds.objectives, name)(risk, kl, **given)
    return float(found.value if name == "f_kl" else found)


@every_case("name", OBJECTIVES)
@parametrize(("risk", "kl", "n", "failure_prob"), CASES)
def test_values_are_those_of_bounds_in_order_and_gradients_their_differences(name, risk, kl, n, failure_prob):
    r, k = (torch.tensor(value, dtype=torch.float64, requires_grad=True) for value in (risk, kl))
    given = {"n": n, "failure_prob": failure_prob}
    value = OBJECTIVES[name](r, k, **given)
    value.backward()
    assert f_kl(r, k, **given) <= value
    twin = partial(by_bounds, name, **given)
    assert float(value.detach()) == near(twin(risk, kl), rel=1e-14)
    h = 1e-5
    at = max(kl, h)
    by_kl = (twin(risk, at + h) - twin(risk, at - h)) / (2 * h)
    assert float(k.grad) == near(by_kl, rel=1e-5)
    if risk > 0:
        by_risk = (twin(risk + h * risk, kl) - twin(risk - h * risk, kl)) / (2 * h * risk)
        assert float(r.grad) == near(by_risk, rel=1e-5)


def test_where_the_bound_says_nothing_the_quadratic_shows_the_way():
    r, k = torch.tensor(0.6, requires_grad=True), torch.tensor(1e4, requires_grad=True)
    value = f_kl(r, k, n=50, failure_prob=0.05)
    found = grad(value, (r, k))
    assert float(value.detach()) == 1.0
    assert found == grad(bounds.objectives.f_quad(r, k, n=50, failure_prob=0.05), (r, k))
    assert float(found[1]) > 0
