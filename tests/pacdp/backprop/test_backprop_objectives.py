"""Objectives in torch and their gradients against mpmath."""

import functools

import mpmath as mp
import pytest
import torch

from pacdp.backprop import OBJECTIVES, f_kl, f_lambda, f_quad

CASES = [
    (0.1, 5.0, 300, 0.05, 0.0), (0.01, 0.0, 300, 0.05, 0.0), (0.0, 2.0, 60, 0.2, 1.0), (0.02, 300.0, 400, 0.05, 12.5),
]  # fmt: skip


def xi(n):
    """By its definition."""
    return mp.fsum(mp.binomial(n, k) * (mp.mpf(k) / n) ** k * (1 - mp.mpf(k) / n) ** (n - k) for k in range(n + 1))


def cost(kl, n, failure_prob, extra):
    return (kl + extra + mp.log(xi(n)) - mp.log(failure_prob)) / n


def classic(risk, c):
    return risk + mp.sqrt(c / 2)


def quad(risk, c):
    return (mp.sqrt(risk + c / 2) + mp.sqrt(c / 2)) ** 2


def least_lambda(risk, c):
    if not risk:
        return quad(risk, c)
    lam = 2 / (mp.sqrt(2 * risk / c + 1) + 1)
    return (risk + c / lam) / (1 - lam / 2)


def inverse_kl(risk, c):
    def kl(p):
        return (risk * mp.log(risk / p) if risk else 0) + (1 - risk) * mp.log((1 - risk) / (1 - p))

    low, high = mp.mpf(risk), mp.mpf(1)
    for _ in range(140):
        middle = (low + high) / 2
        low, high = (middle, high) if kl(middle) <= c else (low, middle)
    return low


TWINS = {"f_classic": classic, "f_quad": quad, "f_lambda": least_lambda, "f_kl": inverse_kl}


@pytest.mark.every_case
@pytest.mark.parametrize("name", TWINS)
@pytest.mark.parametrize(("risk", "kl", "n", "failure_prob", "extra"), CASES)
def test_values_and_gradients(name, risk, kl, n, failure_prob, extra):
    r, k = (torch.tensor(value, dtype=torch.float64, requires_grad=True) for value in (risk, kl))
    value = OBJECTIVES[name](r, k, n=n, failure_prob=failure_prob, extra_nats=extra)
    value.backward()
    value = value.detach()
    with mp.workdps(45):
        twin = TWINS[name]
        c = functools.partial(cost, n=n, failure_prob=mp.mpf(failure_prob), extra=mp.mpf(extra))
        assert float(value) == pytest.approx(float(twin(mp.mpf(risk), c(mp.mpf(kl)))), rel=1e-9, abs=1e-9)
        step = mp.mpf(10) ** -12
        by_kl = (twin(mp.mpf(risk), c(kl + step)) - twin(mp.mpf(risk), c(kl - step))) / (2 * step)
        assert float(k.grad) == pytest.approx(float(by_kl), rel=1e-6)
        if risk > 0:
            by_risk = (twin(risk + step, c(mp.mpf(kl))) - twin(risk - step, c(mp.mpf(kl)))) / (2 * step)
            assert float(r.grad) == pytest.approx(float(by_risk), rel=1e-6)


def test_lambda_may_be_trained():
    lam = torch.tensor(1.3, dtype=torch.float64, requires_grad=True)
    risk, kl = torch.tensor(0.05, dtype=torch.float64), torch.tensor(7.0, dtype=torch.float64)
    f_lambda(risk, kl, n=500, failure_prob=0.05, lam=lam).backward()
    with mp.workdps(30):
        c = cost(mp.mpf(7), 500, mp.mpf("0.05"), 0)
        slope = mp.diff(lambda at: (mp.mpf("0.05") + c / at) / (1 - at / 2), mp.mpf("1.3"))
    assert float(lam.grad) == pytest.approx(float(slope), rel=1e-8)


def test_where_the_bound_says_nothing_the_quadratic_shows_the_way():
    r, k = torch.tensor(0.6, requires_grad=True), torch.tensor(1e4, requires_grad=True)
    value = f_kl(r, k, n=50, failure_prob=0.05)
    found = torch.autograd.grad(value, (r, k))
    assert float(value.detach()) == 1.0
    assert found == torch.autograd.grad(f_quad(r, k, n=50, failure_prob=0.05), (r, k))
    assert float(found[1]) > 0
