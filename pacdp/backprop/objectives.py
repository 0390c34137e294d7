"""Training objectives as differentiable functions of the empirical surrogate risk and the divergence, in torch.

c = [KL(Q‖P) + extra + ln ξ(n) + ln(1/failure_prob)]/n with n the number of examples of the bound; ``extra_nats`` is
what else the certificate will pay in nats: the choice of a prior scale, or what a private prior costs beyond
ln(1/failure_prob).

- ``f_classic``: R̂ + √(c/2) (McAllester 1999);
- ``f_quad``: (√(R̂ + c/2) + √(c/2))² (Rivasplata et al. 2019; Pérez-Ortiz et al. 2021);
- ``f_lambda``: (R̂ + c/λ)/(1 - λ/2) (Thiemann et al. 2017);
- ``f_kl``: kl⁻¹(R̂, c), the certificate itself.

The formulas are those of :mod:`bounds.objectives`. None is a certificate.
"""

from collections.abc import Callable

from jaxtyping import Float
from torch import Tensor

import bounds

_LEAST_RISK = 1e-9
"""Where the derivative of kl⁻¹ by the risk, infinite at 0, is taken instead."""


Objective = Callable[..., Tensor]
"""What ``train_posterior`` minimises: from (risk, kl_nats, *, n, failure_prob, extra_nats) to a scalar."""


def f_classic(
    risk: Float[Tensor, ""],
    kl_nats: Float[Tensor, ""],
    *,
    n: int,
    failure_prob: float,
    extra_nats: float = 0.0,
) -> Float[Tensor, ""]:
    """R̂ + √(c/2). The least attention to the risk: its derivative by the risk is 1."""
    return bounds.objectives.f_classic(risk, kl_nats + extra_nats, n=n, failure_prob=failure_prob)


def f_quad(
    risk: Float[Tensor, ""],
    kl_nats: Float[Tensor, ""],
    *,
    n: int,
    failure_prob: float,
    extra_nats: float = 0.0,
) -> Float[Tensor, ""]:
    """(√(R̂ + c/2) + √(c/2))², close to kl⁻¹(R̂, c) for small risks, and defined where that is 1."""
    return bounds.objectives.f_quad(risk, kl_nats + extra_nats, n=n, failure_prob=failure_prob)


def f_lambda(
    risk: Float[Tensor, ""],
    kl_nats: Float[Tensor, ""],
    *,
    n: int,
    failure_prob: float,
    extra_nats: float = 0.0,
    lam: Float[Tensor, ""] | float | None = None,
) -> Float[Tensor, ""]:
    """(R̂ + c/λ)/(1 - λ/2), linear in risk and divergence at a given λ in (0, 2).

    ``lam=None`` takes the best λ for these numbers, as a constant of differentiation: there the derivative by λ is 0,
    so value and gradient are those of ``f_quad``.
    """
    whole = kl_nats + extra_nats
    if lam is None:
        lam = bounds.objectives.best_lambda(
            risk.detach(), whole.detach(), n=n, failure_prob=failure_prob
        )
    return bounds.objectives.f_lambda(risk, whole, lam, n=n, failure_prob=failure_prob)


def f_kl(
    risk: Float[Tensor, ""],
    kl_nats: Float[Tensor, ""],
    *,
    n: int,
    failure_prob: float,
    extra_nats: float = 0.0,
) -> Float[Tensor, ""]:
    """kl⁻¹(R̂, c), with derivatives by the implicit function theorem.

    Where it is 1 and its derivatives vanish, the gradient of ``f_quad`` stands in, so that training can leave that
    region; below risk 1e-9 the derivative by the risk is that at 1e-9.
    """
    whole = kl_nats + extra_nats
    given = {"n": n, "failure_prob": failure_prob}
    exact, nats = min(1.0, max(0.0, float(risk.detach()))), float(whole.detach())
    found = bounds.objectives.f_kl(max(_LEAST_RISK, exact), nats, **given)
    value = risk.new_tensor(float(bounds.objectives.f_kl(exact, nats, **given).value))
    if float(found.value) >= 1.0:
        relaxed = f_quad(risk, whole, **given)
        return value + relaxed - relaxed.detach()
    by_risk, by_kl = float(found.by_risk), float(found.by_kl_nats)
    return value + by_risk * (risk - risk.detach()) + by_kl * (whole - whole.detach())


OBJECTIVES: dict[str, Objective] = {
    "f_classic": f_classic,
    "f_quad": f_quad,
    "f_lambda": f_lambda,
    "f_kl": f_kl,
}
"""By name, for configurations."""
