"""Risk and KL of a local Gibbs posterior by a fresh SGLD run (Dziugaite and Roy 2018, Appendix C.3.2).

With ℓ = τ R̂ and Q ∝ exp(-ℓ) P: KL(Q‖P) = -E_Q ℓ - ln E_P exp(-ℓ). The first mean is taken along an SGLD run that
targets Q, from its minibatches (each is drawn after the weights it judges, so its loss is unbiased for R̂ there); the
second over independent draws from P, each judged on all examples. Neither is corrected for Monte Carlo error, and the
run is not Q: what rests on these numbers is optimistic. E ln Ẑ <= ln Z (Jensen), so the KL errs upwards on average.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np
import torch

from bounds import _check
from bounds.monte_carlo import effective_sample_size, weighted_average_size
from bounds.partition import log_mean_exp
from pacdp.chains import NOISE, PRIOR, Keys, langevin
from pacdp.errors import Diverged
from pacdp.objective import Objective
from pacdp.posterior import LocalGibbs
from pacdp.store.record import record

Progress = Callable[[int, int], None]

# the effective sample size is undefined for shorter chains
_FEWEST = 4


@record
class GibbsSettings:
    """How hard to look at a Gibbs posterior."""

    epochs: float = 10.0
    """Length of the SGLD run in passes over the data (batches of the objective's size); at least 4 steps are made."""
    burn_in: float = 0.2
    """Share of the run that is thrown away; the last 4 steps never are."""
    alpha: float = 0.0
    """Weight of the newest draw in the running averages; 0 weighs all draws after burn-in alike. The paper's 0.005
    has an effective size of 399 draws however long the run."""
    step_size: float = 1.0
    step_decay: float = 1.0
    """Steps are max(step_size i^-step_decay, step_floor), in units where a gradient step of length 1 is 1."""
    step_floor: float = 0.02
    """0 gives the paper's schedule, whose late steps hardly move."""
    prior_draws: int = 20
    """Independent draws from the prior, each a pass over all examples, for the log-partition function."""
    test_draws: int = 20
    """Weights along the run, evenly spaced after burn-in, that are judged on all test examples."""

    def __post_init__(self) -> None:
        _check.positive(epochs=self.epochs)
        _check.probability(alpha=self.alpha)
        if not 0.0 <= self.burn_in < 1.0:
            raise ValueError(f"expected 0 <= burn_in < 1, got {self.burn_in!r}")
        _check.count(prior_draws=self.prior_draws, test_draws=self.test_draws)


@record
class GibbsEstimate:
    """What the run saw. All are estimates."""

    error: float
    """E_Q of the 0-1 risk on the training set."""
    loss: float
    """E_Q of the bounded training loss on the training set."""
    test_error: float | None
    tau: float
    prior_loss: float
    """E_P of the bounded training loss, over the prior draws."""
    mean_loss_nats: float
    """E_Q ℓ = τ E_Q R̂."""
    log_partition_nats: float
    """ln of the mean over prior draws of exp(-τ R̂)."""
    kl_raw_nats: float
    """-mean_loss_nats - log_partition_nats; noise can make it negative."""
    kl_error_nats: float
    """Its standard error, as far as the run's own scatter tells: that of the mean loss over the effective draws, and
    that of ln Z over the prior draws, of which the spread of -τ R̂ is the most it can be."""
    kl_nats: float
    """max(0, kl_raw_nats): what certificates use."""
    kl_clipped: bool
    """Whether the estimate was negative and is reported as 0."""
    steps: int
    draws: int
    """Weights after burn-in."""
    effective_draws: float
    """Effective sample size of the run's 0-1 risk, at most (2 - alpha)/alpha."""
    prior_draws: int


def estimate_gibbs(
    posteriors: Sequence[LocalGibbs],
    train: Objective,
    test: Objective | None,
    settings: GibbsSettings,
    keys: Keys,
    progress: Progress | None = None,
) -> list[GibbsEstimate]:
    """Run SGLD from each prior's mean towards its posterior, as one batch of chains, and average along it.

    ``test`` shares the network's architecture; only its full-set risks are used. ``keys`` are those of the runs, one a
    posterior. ``progress(done, total)`` is called about a hundred times.

    Raises:
        Diverged: a minibatch loss is NaN or infinite.
    """
    centre = torch.stack([posterior.weights for posterior in posteriors])
    tau, gamma = (
        np.array([getattr(p, name) for p in posteriors], dtype=np.float64)
        for name in ("tau", "gamma")
    )
    steps = max(_FEWEST, round(settings.epochs * train.n / train.batch_size))
    burn_in = min(int(settings.burn_in * steps), steps - _FEWEST)
    tested = {
        burn_in + (k + 1) * (steps - burn_in) // settings.test_draws
        for k in range(settings.test_draws)
    }
    total, std = steps + settings.prior_draws, np.array([one.prior_std for one in posteriors])
    drawn = (
        langevin(centre, scale=std, keys=keys, stream=PRIOR, tick=draw)
        for draw in range(settings.prior_draws)
    )
    prior = np.array([[risks.loss for risks in train.risks(weights)] for weights in drawn])
    trace = centre.new_empty((2, len(centre), steps))
    test_errors = list[list[float]]()
    local, spare = centre.clone(), torch.empty_like(centre)
    for i in range(1, steps + 1):
        estimate = train.estimate(local, keys, i)
        trace[0, :, i - 1] = estimate.loss
        trace[1, :, i - 1] = estimate.error
        rate = max(settings.step_size * i**-settings.step_decay, settings.step_floor)
        langevin(local, keep=1.0 - rate * gamma, gradient=estimate.gradient, rate=rate, centre=centre,
                 pull=rate * gamma, scale=np.sqrt(2.0 * rate / tau), keys=keys, stream=NOISE, tick=i,
                 out=spare)  # fmt: skip
        local, spare = spare, local
        if test is not None and i in tested:
            test_errors.append([risks.error for risks in test.risks(local)])
        if progress is not None and (i % max(1, steps // 100) == 0 or i == steps):
            progress(settings.prior_draws + i, total)
    seen = trace.double().cpu().numpy()
    bad = ~np.isfinite(seen[0])
    if bad.any():
        step = int(np.argmax(bad.any(axis=0))) + 1
        raise Diverged(step, "the loss of the SGLD run on the Gibbs posterior")
    return [
        _estimate(
            posterior,
            seen[:, k, burn_in:],
            [row[k] for row in test_errors],
            prior[:, k],
            steps,
            settings.alpha,
        )
        for k, posterior in enumerate(posteriors)
    ]


def _estimate(
    posterior: LocalGibbs, seen: np.ndarray, test_errors: list[float], prior: np.ndarray, steps: int, alpha: float
) -> GibbsEstimate:  # fmt: skip
    """What losses and errors along the run, and the losses of draws from the prior, say of one posterior."""
    tau, (losses, errors) = posterior.tau, seen
    log_partition = log_mean_exp(-tau * prior)
    loss = _average(losses, alpha)
    raw = -tau * loss - log_partition
    spread = float(losses.std()) / math.sqrt(effective_sample_size(losses))
    effective = effective_sample_size(errors)
    if alpha > 0:
        effective = min(effective, weighted_average_size(alpha))
    return GibbsEstimate(
        error=_average(errors, alpha),
        loss=loss,
        test_error=float(np.mean(test_errors)) if test_errors else None,
        tau=tau,
        prior_loss=math.fsum(prior) / len(prior),
        mean_loss_nats=tau * loss,
        log_partition_nats=log_partition,
        kl_raw_nats=raw,
        kl_error_nats=math.hypot(tau * spread, tau * float(np.std(prior))),
        kl_nats=max(0.0, raw),
        kl_clipped=raw < 0.0,
        steps=steps,
        draws=len(errors),
        effective_draws=effective,
        prior_draws=len(prior),
    )


def _average(values: np.ndarray, alpha: float) -> float:
    """The plain mean, or μ ← (1-α) μ + α x started at the first value."""
    if alpha == 0:
        return float(values.mean())
    weights = alpha * (1 - alpha) ** np.arange(len(values) - 1, -1, -1.0)
    weights[0] = (1 - alpha) ** (len(values) - 1)
    return math.fsum(weights * values)
