"""Training objectives: the values of the bounds, and gradients by differences. In torch: pacdp/backprop."""

import pytest

from bounds import maurer, mcallester, quadratic, thiemann
from bounds.objectives import f_classic, f_kl, f_quad

AT = {"n": 1000, "failure_prob": 0.05}
CASE = {"risk": 0.07, "kl_nats": 12.0, **AT}


def test_objectives_are_the_bounds_before_rounding():
    assert f_classic(**CASE) == pytest.approx(mcallester(**CASE).value, rel=1e-13)
    assert f_quad(**CASE) == pytest.approx(quadratic(**CASE).value, rel=1e-13)
    assert f_kl(**CASE).value == pytest.approx(maurer(**CASE).value, rel=1e-13)
    lam, made = thiemann(**CASE).terms["lam"], [thiemann(**CASE, lam=lam).value for lam in (0.4, 0.6)]
    assert min(made) > thiemann(**CASE, lam=lam).value == pytest.approx(f_quad(**CASE), rel=1e-13)


def test_kl_objective_derivatives_against_differences():
    found = f_kl(**CASE)
    for name, h, slope in (("risk", 1e-7, found.by_risk), ("kl_nats", 1e-4, found.by_kl_nats)):
        high, low = (f_kl(**{**CASE, name: CASE[name] + sign * h}).value for sign in (1, -1))
        assert slope == pytest.approx((high - low) / (2 * h), rel=1e-6)
