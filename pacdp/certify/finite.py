"""Certificates of finitely many networks: a random one for every answer, one of them alone, or their vote.

The K networks saw none of the bound's examples; weights π over them are fixed. With k_j errors of network j among n:

    R(Q) ≤ kl⁻¹(Σ q_j k_j/n, [KL(q‖π) + ln ξ(n) + ln(1/δ)]/n)          for all q at once (Maurer 2004),
    R(j) ≤ Clopper-Pearson(k_j, n, δ π_j)                               for all j at once (a union bound).

Both may therefore be used at the q or j that the bound's own examples prefer. No draw is estimated: Σ q_j k_j is
exact. Where q's vote errs, at least half of q errs: its risk is at most 2 R(Q) (Langford and Shawe-Taylor 2002).

One of them may also be chosen by the exponential mechanism,

    P(j) ∝ π_j exp(-epsilon k_j / 2).

Replacing one example changes each k_j by at most 1, so the unnormalised weights move by a factor of at most
exp(epsilon/2), and so does their sum: epsilon-DP for replace-one neighbours (McSherry and Talwar 2007, Theorem 6).
This is the Gibbs distribution at inverse temperature n epsilon / 2 per unit of mean error.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float64, Int64
from torch import nn

import bounds
from bounds.fresh import about, clopper_pearson
from bounds.hypotheses import declared, proved
from pacdp.certify.examples import MAX, BoundSet, Device, require_kinds
from pacdp.certify.networks import Question
from pacdp.certify.outputs import error_share
from pacdp.certify.priors import Private
from pacdp.certify.reading import Network, Reading
from pacdp.predictions.report import Measured, Report
from pacdp.store.record import record

Weights = Float64[np.ndarray, " networks"]
Counts = Int64[np.ndarray, " networks"]
_CHOSEN = (
    proved(
        "privacy covers these rows",
        "the exponential mechanism, run here on the errors on these examples",
    ),
    declared("noise secret or independent", "whoever fixed the seed of the choice"),
    declared("prior saw none of these rows", "the caller"),
)


@record
class Finite:
    """Finitely many networks, in eval mode, that saw none of the bound's examples.

    Attributes:
        networks: the networks.
        weights: π over them, in any unit, fixed beforehand; equal by default.
        epsilon: where given, one network is also chosen by the exponential mechanism with this replace-one privacy.
        seed: of that choice.
    """

    networks: Sequence[nn.Module]
    weights: Weights | None = None
    epsilon: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if (
            not isinstance(self.networks, Sequence)
            or not self.networks
            or not all(map(callable, self.networks))
        ):
            raise ValueError("expected Finite.networks to be a list of networks, at least one")
        require_kinds(self, weights=np.ndarray | None, epsilon=float | int | None, seed=int)
        if self.epsilon is not None and not 0.0 <= self.epsilon <= MAX:
            raise ValueError(
                f"expected Finite.epsilon to be a finite number >= 0, got {self.epsilon}"
            )
        if self.seed < 0:
            raise ValueError(f"expected Finite.seed >= 0, got {self.seed}")


def assess(asked: Question) -> Report:
    """The ensemble, its vote, the best network and the private choice, as far as they are asked for."""
    law, data, test, failure_prob = asked.law, asked.data, asked.test, asked.failure_prob
    if isinstance(asked.source, Private):
        raise ValueError(
            "networks that saw the bound's examples, even privately, need a prior of their own"
        )
    if data.unit == "person":
        raise ValueError(
            "certificates of finitely many networks count examples: give data without people"
        )
    answers = said(law.networks, data, asked.device)
    errors = (answers != data.labels.numpy()).sum(1)
    found = assess_finite(errors, n=data.n, failure_prob=failure_prob, weights=law.weights)
    made, chosen = [found.ensemble, found.vote, found.one], {"best network": found.best}
    if law.epsilon is not None:
        generator = np.random.default_rng(law.seed)
        drawn = select(errors, epsilon=law.epsilon, generator=generator, weights=law.weights)
        chosen["private choice"] = drawn
        own = selected_certificate(
            int(errors[drawn]), n=data.n, epsilon=law.epsilon, failure_prob=failure_prob
        )
        made.append(own.resting_on(*_CHOSEN))
    measured = [*_measured(answers, found.weights, chosen, data, "bound")]
    if test is not None:
        answers = said(law.networks, test, asked.device)
        measured += _measured(answers, found.weights, chosen, test, "test")
    return asked.report("finite", [*made, *measured])


def said(
    networks: Sequence[nn.Module], data: BoundSet, device: Device
) -> Int64[np.ndarray, "networks n"]:
    """The class that each network names for each example; -1 where it does not name one alone."""
    readings = (Reading(law=Network(network=one), device=device) for one in networks)
    found: list[Any] = [one.seen(data, "the", held=False).answers.predicted for one in readings]
    return np.stack(found)


def _measured(
    said: Int64[np.ndarray, "networks n"],
    weights: Weights,
    chosen: dict[str, int],
    data: BoundSet,
    on: str,
) -> Iterator[Measured]:
    """The errors of a network drawn anew for every answer, of the vote, in which a tie errs, and of single networks."""
    right = said == data.labels.numpy()
    yield Measured(of="ensemble", on=on, mean=float(weights @ (~right).mean(1)), n=data.n)
    others = np.stack(
        [weights @ ((said == k) & ~right) for k in range(max(0, int(said.max())) + 1)]
    )
    wrong = {
        "vote": weights @ right <= others.max(0),
        **{of: ~right[index] for of, index in chosen.items()},
    }
    for of, each in wrong.items():
        errors = int(each.sum())
        yield Measured(of=of, on=on, mean=errors / data.n, errors=errors, n=data.n)


def log_probabilities(errors: Counts, *, epsilon: float, weights: Weights | None = None) -> Weights:
    """ln P(j).

    Args:
        errors: counts k_j.
        epsilon: replace-one privacy of a draw; 0 ignores the errors.
        weights: π_j > 0, in any unit; equal by default. They may not depend on the examples.

    Raises:
        ValueError: no network, a negative count, an epsilon that is no finite number >= 0, or weights not positive.
    """
    if errors.ndim != 1 or not len(errors) or errors.min() < 0:
        raise ValueError(f"expected errors of at least one network, counts >= 0, got {errors!r}")
    if not (math.isfinite(epsilon) and epsilon >= 0.0):
        raise ValueError(f"expected epsilon to be a finite number >= 0, got {epsilon}")
    base = np.ones(len(errors)) if weights is None else np.asarray(weights, dtype=np.float64)
    if base.shape != errors.shape or not (np.isfinite(base) & (base > 0.0)).all():
        raise ValueError(
            f"expected one positive weight for each of {len(errors)} networks, got {base!r}"
        )
    exponent = np.log(base) - 0.5 * epsilon * (errors - errors.min())
    return exponent - np.logaddexp.reduce(exponent)


def select(
    errors: Counts,
    *,
    epsilon: float,
    generator: np.random.Generator,
    weights: Weights | None = None,
) -> int:
    """The place of the network that the exponential mechanism draws.

    Formal guarantee: it is epsilon-DP for replace-one neighbours if ``errors`` moves by at most 1 in each coordinate
    between them, up to the rounding of double precision.

    Raises:
        ValueError: as for :func:`log_probabilities`.
    """
    probabilities = np.exp(log_probabilities(errors, epsilon=epsilon, weights=weights))
    return int(generator.choice(len(errors), p=probabilities / probabilities.sum()))


def selected_certificate(
    errors: int, *, n: int, epsilon: float, failure_prob: float
) -> bounds.Certificate:
    """The risk of the network that the exponential mechanism drew, used as it is, by ``bounds.printed.dp_kl_chernoff``.

    Formal guarantee: at least its risk with probability 1 - failure_prob over n independent examples and the draw.
    """
    risk = error_share(errors, n)
    made = bounds.printed.dp_kl_chernoff(risk=risk, n=n, epsilon=epsilon, failure_prob=failure_prob)
    return about(made, of="private choice")


class FiniteAssessment(NamedTuple):
    """Certificates of the ensemble, of one network and of the vote, each by itself."""

    weights: Weights
    """q, found on the bound's examples."""
    best: int
    """The one network: fewest errors."""
    ensemble: bounds.Certificate
    vote: bounds.Certificate
    one: bounds.Certificate


def assess_finite(
    errors: Counts, *, n: int, failure_prob: float = 0.05, weights: Weights | None = None
) -> FiniteAssessment:
    """Certificates of networks that were learnt without the n examples on which ``errors`` were counted.

    q ∝ π exp(-λ k) with the λ that makes the first bound smallest.

    Formal guarantee: each certificate holds with probability 1 - failure_prob over the n examples, if they are
    independent of one law, and networks and ``weights`` do not depend on them.

    Args:
        errors: counts of each network.
        weights: π; equal by default.

    Raises:
        ValueError: no network, counts outside 0 ... n, weights that are not positive.
    """
    from scipy.optimize import minimize_scalar  # a good part of the time of importing pacdp

    if not np.issubdtype(errors.dtype, np.integer):
        raise ValueError(f"expected whole numbers of errors, got {errors.dtype}: round them up")
    base = log_probabilities(errors, epsilon=0.0, weights=weights)
    if errors.max() > n:
        raise ValueError(f"expected counts of 0 to n = {n} errors, got {errors!r}")

    def at(log_strength: float) -> tuple[Weights, bounds.Certificate]:
        found = base - math.exp(log_strength) * (errors - errors.min())
        q = np.exp(found - np.logaddexp.reduce(found))
        q = q / math.fsum(q)
        used = q > 0
        nats = math.fsum(q[used] * (np.log(q[used]) - base[used]))
        nats = max(0.0, nats) + 1e-12 * (1.0 + abs(nats)) + len(q) * 1e-15  # rounding of doubles
        risk = min(1.0, math.fsum(q * errors) / n * (1.0 + 1e-12))
        made = bounds.maurer(risk=risk, kl_nats=nats, n=n, failure_prob=failure_prob)
        return q, about(made, "finite_ensemble", of="ensemble")

    best: Any = minimize_scalar(lambda s: at(s)[1].value, bounds=(-12.0, 4.0), method="bounded")
    q, ensemble = min((at(s) for s in (-700.0, float(best.x), 4.0)), key=lambda pair: pair[1].value)
    twice = min(1.0, 2.0 * ensemble.value)
    vote = replace(about(ensemble, f"vote_{ensemble.name}", of="vote"), value=twice)
    tails = [failure_prob * math.exp(ln) * (1.0 - 1e-12) for ln in base]
    pairs = zip(errors.tolist(), tails, strict=True)
    chosen = int(np.argmin([bounds.clopper_pearson_upper(k, n, tail) for k, tail in pairs]))
    one = clopper_pearson(int(errors[chosen]), n, tails[chosen])
    inputs = {
        **one.inputs,
        "failure_prob": failure_prob,
        "networks": len(errors),
        "tail": tails[chosen],
    }
    if np.ptp(base) > 0.0:
        listed = ",".join(repr(math.exp(ln)) for ln in base)
        inputs |= {"weights": listed, "chosen_network": chosen}
    one = replace(
        about(one, "one_of_finitely_many", of="best network"),
        failure_prob=failure_prob,
        budget={"union over networks": failure_prob},
        inputs=inputs,
    )
    return FiniteAssessment(q, chosen, ensemble, vote, one)
