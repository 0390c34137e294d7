"""Log partition functions along a path of temperatures: annealed importance weights, thermodynamic integration.

    Z = E_{w~P} e^(-loss(w)),    loss in nats

The weights have expectation Z for any path whatever, so Markov's inequality makes a guaranteed bound of them. The
integral needs the mean loss at every temperature, which a Markov chain only estimates.
"""

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bounds import _check
from bounds.gibbs import GibbsKL, gibbs_kl
from bounds.hypotheses import Hypothesis, unproved

_LARGEST = 1e300


def annealed_log_weights(
    *,
    start_log_prior: ArrayLike,
    forward_log_densities: ArrayLike,
    backward_log_densities: ArrayLike,
    end_log_prior: ArrayLike,
    end_loss_nats: ArrayLike,
) -> NDArray[np.float64]:
    """ln W of annealed importance sampling without Metropolis corrections, rounded down; one number a path.

        W = e^(-loss(w_T)) · p(w_T)/p(w_0) · Π_t B_t(w_(t-1)|w_t) / F_t(w_t|w_(t-1)),    E W ≤ Z

    for w_0 drawn from the prior density p and w_t from the density F_t(·|w_(t-1)). For unadjusted Langevin steps F_t is
    Gaussian around the gradient step, and B_t usually the same kernel from w_t at the same temperature: a choice, not a
    reversibility that is assumed. Proof in docs/guarantees.md, "Annealed importance weights".

    Formal guarantee: E W ≤ Z for every path, so ``log_partition_lower`` of the log mean of W over paths (``push`` them
    to ``StreamingLogMeanExp``) bounds ln Z, if the following holds exactly.

    1. w_0 is an exact draw of p, and the one at which ``start_log_prior`` is taken.
    2. F_t is the very density the step was drawn from, B_t any density, both normalised in their first argument.
    3. Step sizes, temperatures and mini-batches do not depend on the path's own draws: fixed, or random and drawn
       beforehand, in which case densities are those given the mini-batches.
    4. ``end_loss_nats`` is the loss on all the data, at w_T; the steps may use mini-batches of it.

    Densities of steps have the shape (steps, paths), everything else is one number a path. Backward densities and the
    prior at the end may vanish, the loss may be infinite; any other density that is zero or infinite, NaN, and shapes
    that do not fit raise ValueError.
    """
    start, end = _check.array("start_log_prior", start_log_prior), _check.array("end_log_prior", end_log_prior)
    loss = _check.array("end_loss_nats", end_loss_nats)
    forward = _check.array("forward_log_densities", forward_log_densities)
    backward = _check.array("backward_log_densities", backward_log_densities)
    if forward.ndim != 2 or forward.shape != backward.shape:
        raise ValueError(
            f"forward_log_densities must have shape (steps, paths), as backward_log_densities, "
            f"got {forward.shape} and {backward.shape}."
        )
    if not start.shape == end.shape == loss.shape == forward.shape[1:]:
        raise ValueError(
            f"start_log_prior, end_log_prior and end_loss_nats must have one number for each of {forward.shape[1]} "
            f"paths, got shapes {start.shape}, {end.shape} and {loss.shape}."
        )
    for name, values in (("start_log_prior", start), ("forward_log_densities", forward)):
        if not np.isfinite(values).all():
            raise ValueError(f"{name} must be finite, got a number that is not: no draw falls where its density is 0.")
    for name, values in (("backward_log_densities", backward), ("end_log_prior", end), ("end_loss_nats", -loss)):
        if not (values < math.inf).all():
            raise ValueError(f"{name} must not be NaN or make the weight infinite; has the path diverged?")
    terms: Any = np.vstack([backward, -forward, end, -start, -loss])
    with np.errstate(over="ignore", invalid="ignore"):
        size: Any = np.abs(np.where(np.isfinite(terms), terms, 0.0)).sum(axis=0)
        return np.where(size < math.inf, terms.sum(axis=0) - len(terms) * 2.0**-51 * size, -math.inf)


@dataclass(frozen=True, slots=True, kw_only=True)
class ThermodynamicEstimate:
    """ln Z and KL(Q‖P) by integration over temperatures: estimates, whatever their digits.

    ``log_partition_nats`` is below ln Z at the last temperature if every mean is exact, and ``kl`` is the KL(Q‖P) that
    goes with it. ``largest_rise`` is by how much the mean loss rose from one temperature to a higher one: exact means
    never rise, so it is the least error that they are known to have. A certificate that uses this rests on
    ``hypotheses`` (``Certificate.resting_on``).
    """

    log_partition_nats: float
    kl: GibbsKL
    largest_rise: float
    hypotheses: tuple[Hypothesis, ...] = (
        unproved("averages exact", "the mean losses along the grid of temperatures are estimates from Markov chains"),
    )

    @property
    def status(self) -> Literal["optimistic"]:
        """What a certificate that uses this is."""
        return "optimistic"


def thermodynamic_integration(*, taus: ArrayLike, mean_losses: ArrayLike) -> ThermodynamicEstimate:
    """-ln Z(τ) = ∫₀^τ E_{Q_t} R̂ dt by its left Riemann sum, for Q_t ∝ P e^(-t R̂).

        -ln Z ≤ Σ_j (τ_(j+1) - τ_j) E_{Q_τj} R̂,    KL(Q_τ‖P) = -ln Z - τ E_{Q_τ} R̂

    E_{Q_t} R̂ decreases in t, so the left sum errs upward ("Log partition function" in docs/guarantees.md).

    Formal guarantee: none, as the means come from chains. If every ``mean_losses`` is at least the true mean of its
    Gibbs posterior (say, by ``gibbs_risk_upper`` from exact draws), ``log_partition_nats`` ≤ ln Z up to rounding.

    Raises ValueError when the grid does not increase from 0, lengths differ, or a number is not finite.
    """
    grid, means = _check.array("taus", taus), _check.array("mean_losses", mean_losses)
    if grid.ndim != 1 or grid.size < 2 or grid.shape != means.shape:
        raise ValueError(f"taus must be a list of two or more, as mean_losses, got {grid.shape} and {means.shape}.")
    if not (np.isfinite(grid).all() and grid[0] == 0.0 and (np.diff(grid) > 0.0).all()):
        raise ValueError("taus must increase from 0 and be finite; sort them and begin with the prior.")
    if not np.isfinite(means).all():
        raise ValueError("mean_losses must be finite, got a NaN or an infinity; has a chain diverged?")
    with np.errstate(over="ignore"):
        parts, last, rise = np.diff(grid) * means[:-1], float(grid[-1] * means[-1]), float(np.diff(means).max())
    if not np.abs(parts).sum() < _LARGEST:
        raise ValueError("taus and mean_losses must have products below 1e300, got larger ones; rescale the loss.")
    integral = math.fsum(parts)
    kl = gibbs_kl(mean_loss_nats=last, log_partition_nats=-integral)
    return ThermodynamicEstimate(log_partition_nats=-integral, kl=kl, largest_rise=max(0.0, rise))
