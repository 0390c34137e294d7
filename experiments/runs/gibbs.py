"""What the weights that a chain was at are certified at, if they are one exact draw of the Gibbs law that it targets.

SGLD draws w, and the law is the one of w. Entropy-SGLD's own law has the density P(w) Z(w)^β. At a whole β it is that
of w beside β independent copies of the inner weights w', each from exp(-τ R̂(w')) N(w'; w, (γτ)⁻¹ I): the first copy is
then certified by the range of the loss, or by the losses that the copies reached on all records. At any β w itself is,
by the range. The averages that the algorithm keeps of its inner weights are no such draw, and have no certificate here.
Copies are made from the last w by as many more inner loops.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

import bounds
from bounds.gibbs_draws import gibbs_losses, gibbs_range
from bounds.noisy import Known
from bounds.prices import Price, Printed2018, Sharp
from pacdp.algorithms import SGLD, EntropySGD
from pacdp.algorithms.sampler import Sampler
from pacdp.certify.networks import released_certificate
from pacdp.chains import Keys
from pacdp.objective import Objective

FAILURE_PROB = 0.05
"""Of each bound."""
STATIONARY = bounds.unproved(
    "drawn from the law that is paid for", "the chain is taken to be stationary, which nothing shows"
)
WEIGHTS, INNER, COPIES, OUTER = "w", "inner weights", "copies of inner weights", "w, any β"
"""What the law is of: of SGLD, of Entropy-SGLD at β = 1 and at other whole β, and at any β."""
_ORDERS = tuple(1.0 + 0.001 * 1.5**k for k in range(22))
"""Orders α from 1.001 to 6, of which those serve that τ, n and the loss's range allow."""


def drawn(every: Sequence[SGLD | EntropySGD], sampler: Sampler, state: Any, keys: Keys) -> list[Tensor]:
    """What the chains drew: [chains, dim] of SGLD's weights, or of each copy of Entropy-SGLD's inner weights."""
    first = every[0]
    if isinstance(first, SGLD):
        return [state.weights]
    inside = {name: np.full(len(every), value) for name, value in first.ending_inside.items()}
    numbers = {**sampler.coefficients(state.step), **inside}
    return [sampler.transition(state, numbers, keys, state.step + copy)[0].weights for copy in range(_copies(first))]


def _copies(settings: EntropySGD) -> int:
    """β where it is whole, else 0."""
    beta = settings.beta or 0.0
    return int(beta) if beta == int(beta) else 0


def certified(
    settings: SGLD | EntropySGD, at: Tensor, draws: list[Tensor], objective: Objective, test: Objective
) -> list[dict[str, Any]]:
    """A row for each law that is covered: what is certified, its errors, and the certificate and nats of each price.

    Args:
        settings: of the chain.
        at: the weights [dim] that it ended at.
        draws: what it drew.
        test: the same network on records that training did not see.
    """
    beta = (settings.beta or 0.0) if isinstance(settings, EntropySGD) else 1.0
    loss, n = objective.loss, objective.n
    privacy = settings.target_privacy(oscillation=loss.oscillation, n=n, step=1)
    assert isinstance(privacy, bounds.PureDP)
    known: dict[str, Price] = {"printed": Printed2018(epsilon=privacy.epsilon), "today": Sharp(epsilon=privacy.epsilon)}
    law: dict[str, Any] = {"tau": settings.tau, "normaliser": n, "hypotheses": (STATIONARY,)}
    found = list[dict[str, Any]]()
    if draws:
        whole = torch.stack([objective.losses(one[None])[0] for one in draws]).sum(dim=0)
        prices: dict[str, Price] = known | {"range": gibbs_range(**law, loss_range=len(draws) * loss.oscillation)}
        if (realised := _by_losses(whole, len(draws), objective, law)) is not None:
            prices["losses"] = realised
        named = WEIGHTS if isinstance(settings, SGLD) else INNER if len(draws) == 1 else COPIES
        found.append(_row(named, draws[0], prices, objective, test))
    if isinstance(settings, EntropySGD):
        nested = gibbs_range(**law, loss_range=loss.oscillation, beta=beta)
        found.append(_row(OUTER, at, known | {"nested": nested}, objective, test))
    return found


def _by_losses(whole: Tensor, copies: int, objective: Objective, law: dict[str, Any]) -> Price | None:
    """The price by the losses, each record's summed over the copies, above the least that they can be."""
    loss, scale = objective.loss, law["tau"] / objective.n
    largest = copies * loss.oscillation
    orders = [order for order in _ORDERS if order * -np.expm1(-1.0001 * scale * largest) < 1.0]
    if not orders:
        return None
    over = (whole - copies * loss.low).clamp(0.0, largest)
    given: Known = {"orders": orders, "hypotheses": law["hypotheses"]}
    return gibbs_losses(losses=over.numpy(), largest=largest, tau=law["tau"], normaliser=law["normaliser"], **given)


def _row(
    law: str, weights: Tensor, prices: Mapping[str, Price], objective: Objective, test: Objective
) -> dict[str, Any]:
    """Certificates of the 0-1 risk, whose failure probability is of each by itself."""
    (here,), (there,) = objective.risks(weights[None]), test.risks(weights[None])
    row: dict[str, Any] = {"law": law, "drawn_loss": here.loss, "drawn_error": here.error}
    row["drawn_test_error"] = there.error
    at: dict[str, Any] = {"n": objective.n, "failure_prob": FAILURE_PROB}
    for name, price in prices.items():
        made = released_certificate(here.error, price=price, **at)
        row |= {name: made.value, f"{name}_nats": price.charge(**at).nats, "status": made.status}
    return row
