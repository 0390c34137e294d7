"""What to minimise when training on a bound, in torch: :mod:`bounds.objectives` has the formulas.

Its ``f_classic`` and ``f_quad`` take tensors as they are. ``f_kl`` is the certificate itself, whose derivatives are
numbers there. None is a certificate.
"""

from collections.abc import Callable

from jaxtyping import Float
from torch import Tensor

import bounds

_LEAST_RISK = 1e-9
"""Where the derivative of kl⁻¹ by the risk, infinite at 0, is taken instead."""


Objective = Callable[..., Tensor]
"""What ``train_posterior`` minimises: from (risk, kl_nats, *, n, failure_prob) to a scalar."""


def f_kl(
    risk: Float[Tensor, ""], kl_nats: Float[Tensor, ""], *, n: int, failure_prob: float
) -> Float[Tensor, ""]:
    """kl⁻¹(R̂, c) with c = [KL(Q‖P) + ln ξ(n) + ln(1/failure_prob)]/n, derivatives by the implicit function theorem.

    Where it is 1 and its derivatives vanish, the gradient of ``f_quad`` stands in, so that training can leave that
    region; below risk 1e-9 the derivative by the risk is that at 1e-9.
    """
    given = {"n": n, "failure_prob": failure_prob}
    exact, nats = min(1.0, max(0.0, float(risk.detach()))), float(kl_nats.detach())
    found = bounds.objectives.f_kl(max(_LEAST_RISK, exact), nats, **given)
    value = risk.new_tensor(float(bounds.objectives.f_kl(exact, nats, **given).value))
    if float(found.value) >= 1.0:
        relaxed = bounds.objectives.f_quad(risk, kl_nats, **given)
        return value + relaxed - relaxed.detach()
    by_risk, by_kl = float(found.by_risk), float(found.by_kl_nats)
    return value + by_risk * (risk - risk.detach()) + by_kl * (kl_nats - kl_nats.detach())
