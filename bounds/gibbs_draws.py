"""What a draw from a Gibbs law costs: the tilts of its records, by range, by the losses reached, or by convexity.

Y is drawn from the density ∝ exp(-F(y) - Σ_i ℓ_i(y)) with ℓ_i(y) = (τ/N) · loss of record i, N a constant. F, τ, N,
base measure and orders look at no record but through what earlier stages released. Each record pays a tilt c_i ("Gibbs
draws" in docs/guarantees.md):

    range        (α-1) Δ²/8,  Δ = sup_y ℓ_i - inf_y ℓ_i
    losses       ψ_α(ℓ_i(Y) - m_i),  ψ_α(t) = -t - (1/α) ln(1 + α(e^(-t) - 1)),  where ℓ_i - m_i < ln(α/(α-1)) for all y
    gradients    (α-1) ‖∇ℓ_i(Y)‖²/(2 (κ - (α-1) M)),  ℓ_i convex and M-smooth, F κ-strongly convex

Covered is the one Y that was drawn, and every function of it: no average of draws or of a chain, no best draw.
"""

from collections.abc import Sequence
from math import inf, log1p, sqrt
from typing import Unpack

import numpy as np
from numpy.typing import ArrayLike

from bounds._arithmetic import inward, outward, total
from bounds._check import Array, door, doubles, nonnegative, positive, records, vector
from bounds.hypotheses import Hypothesis
from bounds.noisy import GibbsGradients, GibbsLosses, GibbsRange, Known
from bounds.noisy_steps import of_records

_ULP = 2.0**-52
DRAW_ORDERS = tuple(1.0 + 0.05 * 1.5**k for k in range(12))
"""Orders α of a realised draw, from 1.05 to 5.3: within 2% of the best where Σ_i (ℓ_i - m_i)² is 0.11 to 800 times
ln(1/failure_prob)."""


@door(tau=nonnegative, loss_range=nonnegative, beta=nonnegative)
def gibbs_range(
    *,
    tau: float,
    loss_range: float,
    normaliser: int,
    draws: int = 1,
    beta: float | None = None,
    hypotheses: Sequence[Hypothesis] = (),
) -> GibbsRange:
    """(√ln(1/failure_prob) + κ x)², x = τ · loss_range √n/(√8 N): one exact draw of exp(-τ R̂) at a tempered base.

    With ``beta`` the law is Entropy-SGLD's own, P(w) Z(w)^β for the local entropy ln Z of temperature τ, and κ is
    min{2β, max(β, √β)}; otherwise κ = 1. Several exact draws multiply x by the root of their number.

    Formal guarantee: "Gibbs draws" in docs/guarantees.md, for a draw from exactly this law.

    Args:
        tau: inverse temperature τ, in nats per unit of mean loss.
        loss_range: largest minus smallest possible loss of a record, over the weights.
        normaliser: N, the constant by which the sum of losses is divided; usually n.
        draws: how many draws there are, each free to depend on those before it.
        beta: β of Entropy-SGLD; left out for SGLD, for copies, and for weights drawn jointly with w'.
    """
    spread = outward(outward(tau * loss_range) / normaliser) * sqrt(draws)
    if beta is not None:
        spread *= min(2.0 * beta, max(beta, outward(sqrt(beta))))
    return GibbsRange(spread=outward(spread), hypotheses=records("hypotheses", hypotheses, Hypothesis))


@door(tau=nonnegative)
def gibbs_losses(
    *,
    losses: ArrayLike,
    pivots: ArrayLike = 0.0,
    largest: float,
    tau: float,
    normaliser: int,
    **known: Unpack[Known],
) -> GibbsLosses:
    """The price of a Gibbs draw in proportion to the squared losses that it reached, M_j = α_j Σ_i ψ_α_j(ℓ_i - m_i).

    Formal guarantee: "Gibbs draws" in docs/guarantees.md, for a draw from exactly this law.

    Args:
        losses: of the weights that were drawn, on each record; the loss is that of the law.
        pivots: a number for each record that does not depend on the draw: its least loss, or its loss at an anchor or
            at an earlier, paid stage.
        largest: no loss exceeds its pivot by more, at any weights.
        tau, normaliser: τ and N, as for ``gibbs_range``.
        known: orders (by default ``DRAW_ORDERS``), weights and hypotheses, as for ``RealisedSum``; fixed beforehand. An
            order serves where τ · largest/N < ln(α/(α-1)).

    Raises:
        ValueError: an order does not serve, a loss is above its pivot and ``largest``, or a number is out of range.
    """
    over = _over(losses, pivots)
    if over.max() > largest:
        raise ValueError(
            f"largest must be at least every loss less its pivot, got {largest!r} for one of {float(over.max())!r}; "
            f"pass the largest that any weights may have, which only then is known beforehand."
        )
    scale = outward(tau / normaliser)
    ceiling = outward(scale * largest)
    away = over * (scale * (1.0 + 8 * _ULP))  # ψ grows with the distance from 0

    def moment(order: float) -> float:
        if not ceiling < inward(-log1p(-inward(1.0 / order))):
            raise ValueError(
                f"orders must be below 1/(1 - e^(-t)) for t = tau · largest/normaliser = {ceiling!r}, got {order!r}; "
                f"leave it out, or raise the pivots by a constant."
            )
        return total(*(order * pivot_tilt(order, away)).tolist())

    return GibbsLosses.of(moment, len(over), known, DRAW_ORDERS)


@door(strong_convexity=positive)
def gibbs_gradients(
    *,
    squared_gradients: ArrayLike,
    strong_convexity: float,
    smoothness: ArrayLike = 0.0,
    squared_lipschitz: ArrayLike = inf,
    **known: Unpack[Known],
) -> GibbsGradients:
    """The price of a draw with convex potentials by their gradients where it lies, or their Lipschitz constants.

    Of the two tilts, (α-1)‖∇ℓ_i‖²/(2(κ - (α-1)M_i)) and (α-1)C_i²/(2κ), each record pays the lesser.

    Formal guarantee: "Gibbs draws" in docs/guarantees.md, for a draw from exactly this law on all of R^d.

    Args:
        squared_gradients: ‖∇ℓ_i(Y)‖², of each record's potential (τ/N) · loss, in the dual norm.
        strong_convexity: κ of F, in the norm.
        smoothness: M_i; a potential that is not smooth has infinity, and the tilt of its Lipschitz constant.
        squared_lipschitz: C_i², the most that the squared gradient is anywhere.
        known: orders (by default ``DRAW_ORDERS``), weights and hypotheses, as for ``RealisedSum``; fixed beforehand.
    """
    gradients, smooth, lipschitz = np.broadcast_arrays(
        of_records("squared_gradients", squared_gradients),
        of_records("smoothness", smoothness),
        of_records("squared_lipschitz", squared_lipschitz),
    )

    def moment(order: float) -> float:
        left = (strong_convexity - (order - 1.0) * smooth * (1.0 + 4 * _ULP)) * (1.0 - 4 * _ULP)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            local = np.where(left > 0.0, gradients / left, np.inf)
        tilts = 0.5 * order * (order - 1.0) * np.minimum(local, lipschitz / strong_convexity)
        return total(*(tilts * (1.0 + 16 * _ULP)).tolist())

    return GibbsGradients.of(moment, len(gradients), known, DRAW_ORDERS)


def pivot_tilt(order: float, t: Array) -> Array:
    """ψ_α(t) = -t - (1/α) ln(1 + α(e^(-t) - 1)) ≥ 0, elementwise, rounded up; infinite from ln(α/(α-1)) on."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        inner = np.log1p(order * np.expm1(-t) * (1.0 + 4 * _ULP * np.sign(t))) / order
        found = -t - inner + 8 * _ULP * (np.abs(t) + np.abs(inner))
    return np.where(np.isfinite(found), np.maximum(found, 0.0), np.inf)


def _over(losses: ArrayLike, pivots: ArrayLike) -> Array:
    """Losses less their pivots, if they are numbers, one for each record."""
    found, less = vector("losses", losses), doubles("pivots", pivots)
    if less.shape not in ((), found.shape) or not bool(np.all(np.isfinite(found - less))):
        raise ValueError("losses and pivots must be finite numbers, one for each record; pass those of the draw.")
    return found - less
