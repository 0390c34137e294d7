"""Training objectives: the values of the bounds, gradients by differences, and torch tensors unchanged."""

import math

import numpy as np
import pytest

from bounds import (
    best_lambda,
    cost_per_example,
    f_classic,
    f_kl,
    f_lambda,
    f_quad,
    log_xi,
    maurer,
    mcallester,
    quadratic,
    thiemann,
)

AT = {"n": 1000, "failure_prob": 0.05}
CASE = {"risk": 0.07, "kl_nats": 12.0}


def test_objectives_are_the_bounds_before_rounding():
    assert f_classic(**CASE, **AT) == pytest.approx(mcallester(**CASE, **AT).value, rel=1e-13)
    assert f_quad(**CASE, **AT) == pytest.approx(quadratic(**CASE, **AT).value, rel=1e-13)
    assert f_lambda(**CASE, lam=0.6, **AT) == pytest.approx(thiemann(**CASE, **AT, lam=0.6).value, rel=1e-13)
    assert f_kl(**CASE, **AT).value == pytest.approx(maurer(**CASE, **AT).value, rel=1e-13)
    lam = best_lambda(**CASE, **AT)
    assert f_lambda(**CASE, lam=lam, **AT) == pytest.approx(f_quad(**CASE, **AT), rel=1e-13)
    assert (
        f_lambda(**CASE, lam=lam * 1.01, **AT) > f_lambda(**CASE, lam=lam, **AT) < f_lambda(**CASE, lam=0.9 * lam, **AT)
    )


def test_check_values_at_one_cent_a_nat():
    n = 10_000
    kl = 0.01 * n - log_xi(n) - math.log(20)
    at = {"n": n, "failure_prob": 0.05}
    assert cost_per_example(kl, **at) == pytest.approx(0.01, rel=1e-12)
    assert f_quad(0.05, kl, **at) == pytest.approx(0.09316624790355, rel=1e-11)
    assert f_lambda(0.05, kl, 0.5, **at) == pytest.approx(0.09333333333333, rel=1e-11)
    assert f_classic(0.05, kl, **at) == pytest.approx(0.1207106781187, rel=1e-11)
    assert f_kl(0.05, kl, **at).value == pytest.approx(0.08690214907386, rel=1e-11)


def test_kl_objective_derivatives_against_differences():
    found = f_kl(**CASE, **AT)
    for name, h, slope in (("risk", 1e-7, found.by_risk), ("kl_nats", 1e-4, found.by_kl_nats)):
        high, low = (f_kl(**{**CASE, name: CASE[name] + sign * h}, **AT).value for sign in (1, -1))
        assert slope == pytest.approx((high - low) / (2 * h), rel=1e-6)


def test_arrays_go_through():
    risks, kls = np.array([[0.0], [0.1]]), np.array([1.0, 10.0, 100.0])
    for objective in (f_classic, f_quad):
        assert objective(risks, kls, **AT).shape == (2, 3)
        assert objective(risks, kls, **AT)[1, 2] == objective(0.1, 100.0, **AT)
    assert f_kl(risks, kls, **AT).by_kl_nats.shape == (2, 3)


def test_tensors_go_through_with_their_gradients():
    torch = pytest.importorskip("torch")
    for objective in (f_classic, f_quad, lambda r, k, **at: f_lambda(r, k, 0.6, **at)):
        risk, kl = (torch.tensor(value, dtype=torch.float64, requires_grad=True) for value in (0.07, 12.0))
        value = objective(risk, kl, **AT)
        value.backward()
        assert value.item() == pytest.approx(objective(0.07, 12.0, **AT), rel=1e-14)
        h = 1e-6
        by_risk = (objective(0.07 + h, 12.0, **AT) - objective(0.07 - h, 12.0, **AT)) / (2 * h)
        by_kl = (objective(0.07, 12.0 + h, **AT) - objective(0.07, 12.0 - h, **AT)) / (2 * h)
        assert risk.grad.item() == pytest.approx(by_risk, rel=1e-7)
        assert kl.grad.item() == pytest.approx(by_kl, rel=1e-6)


def test_bad_settings_are_refused():
    with pytest.raises(ValueError, match=r"^n must"):
        f_quad(0.1, 1.0, n=0, failure_prob=0.05)
    with pytest.raises(ValueError, match=r"^failure_prob must"):
        f_quad(0.1, 1.0, n=10, failure_prob=math.nan)
