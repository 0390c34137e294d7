"""Certificates of finitely many networks: a random one for every answer, one of them alone, or their vote.

The K networks saw none of the bound's examples; weights π over them are fixed. With k_j errors of network j among n:

    R(Q) ≤ kl⁻¹(Σ q_j k_j/n, [KL(q‖π) + ln ξ(n) + ln(1/δ)]/n)          for all q at once (Maurer 2004),
    R(j) ≤ Clopper-Pearson(k_j, n, δ π_j)                               for all j at once (a union bound).

Both may therefore be used at the q or j that the bound's own examples prefer. No draw is estimated: Σ q_j k_j is
exact. Where q's vote errs, at least half of q errs: its risk is at most 2 R(Q) (Langford and Shawe-Taylor 2002).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Float64, Int64
from scipy.optimize import minimize_scalar
from torch import nn

import bounds
from pacdp.certify.assessment import Measured
from pacdp.certify.examples import BoundSet
from pacdp.certify.gaussian import Found
from pacdp.certify.networks import about, clopper_pearson, error_share, judge, outputs_of
from pacdp.exponential import Selection, log_probabilities, select


@dataclass(frozen=True, slots=True, kw_only=True)
class Finite:
    """Finitely many networks, in eval mode, that saw none of the bound's examples.

    Attributes:
        networks: the networks.
        weights: π over them, in any unit, fixed beforehand; equal by default.
        epsilon: where given, one network is also chosen by the exponential mechanism with this replace-one privacy.
        seed: of that choice.
    """

    networks: Sequence[nn.Module]
    weights: Float64[np.ndarray, " networks"] | None = None
    epsilon: float | None = None
    seed: int = 0


def finite_parts(
    law: Finite, data: BoundSet, test: BoundSet | None, failure_prob: float, device: torch.device | str
) -> list[Found]:
    """The ensemble, its vote, the best network and the private choice, as far as they are asked for."""
    if data.unit == "person":
        raise ValueError("certificates of finitely many networks count examples: give data without people")
    networks = list(law.networks)
    errors = np.array([judge(one, data, device).errors for one in networks], dtype=np.int64)
    found = assess_finite(errors, n=data.n, failure_prob=failure_prob, weights=law.weights)
    chosen: list[tuple[str, int | None, bounds.Certificate]] = [
        ("ensemble", None, found.ensemble),
        ("vote", None, found.vote),
    ]
    chosen.append(("best network", found.best, found.one))
    if law.epsilon is not None:
        drawn = select(errors, epsilon=law.epsilon, generator=np.random.default_rng(law.seed), weights=law.weights)
        private = selected_certificate(drawn, errors=errors, n=data.n, failure_prob=failure_prob)
        chosen.append(("private choice", drawn.index, private))
    measured = []
    for of, index, made in chosen:
        mean = made.terms["empirical_risk"]
        own = None if index is None else int(errors[index])
        measured.append(Measured(of=of, on="bound", loss="zero-one", mean=mean, errors=own, n=data.n))
        if test is not None:
            measured.append(_tested(of, index, networks, found.weights, test, device))
    return [Found(certificates=[made for _, _, made in chosen], measured=measured)]


def _tested(
    of: str,
    index: int | None,
    networks: list[nn.Module],
    weights: np.ndarray,
    test: BoundSet,
    device: torch.device | str,
) -> Measured:
    if index is not None:
        errors = judge(networks[index], test, device).errors
        return Measured(of=of, on="test", loss="zero-one", mean=errors / test.n, errors=errors, n=test.n)
    if of == "ensemble":
        mean = float(weights @ [judge(one, test, device).errors / test.n for one in networks])
        return Measured(of=of, on="test", loss="zero-one", mean=mean, errors=None, n=test.n)
    errors = _vote_errors(networks, weights, test, device)
    return Measured(of=of, on="test", loss="zero-one", mean=errors / test.n, errors=errors, n=test.n)


def _vote_errors(networks: list[nn.Module], weights: np.ndarray, test: BoundSet, device: torch.device | str) -> int:
    """How often the vote errs; a tie for the most votes is an error."""
    votes: torch.Tensor | None = None
    for network, weight in zip(networks, weights, strict=True):
        outputs = outputs_of(network, test, device)
        said = outputs.argmax(1, keepdim=True) if outputs.shape[1] > 1 else (outputs > 0).long()
        votes = torch.zeros(test.n, max(2, outputs.shape[1]), dtype=torch.float64) if votes is None else votes
        votes.scatter_add_(1, said, torch.full(said.shape, float(weight), dtype=torch.float64))
    assert votes is not None
    own = votes.gather(1, test.labels[:, None])
    return int((votes.scatter(1, test.labels[:, None], -1.0).amax(1, keepdim=True) >= own).sum())


def selected_certificate(
    selection: Selection, *, errors: Int64[np.ndarray, " networks"], n: int, failure_prob: float
) -> bounds.Certificate:
    """The risk of the network that the exponential mechanism drew, used as it is: :func:`bounds.dp_kl_chernoff`.

    Formal guarantee: at least its risk with probability 1 - failure_prob over n independent examples and the draw.
    """
    risk = error_share(int(errors[selection.index]), n)
    made = bounds.dp_kl_chernoff(risk=risk, n=n, epsilon=selection.epsilon, failure_prob=failure_prob)
    return about(made, of="private choice", measures="0-1 risk")


@dataclass(frozen=True, slots=True, kw_only=True)
class FiniteAssessment:
    """Certificates of the ensemble, of one network and of the vote, each by itself."""

    weights: Float64[np.ndarray, " networks"]
    """q, found on the bound's examples."""
    best: int
    """The one network: fewest errors."""
    ensemble: bounds.Certificate
    vote: bounds.Certificate
    one: bounds.Certificate


def assess_finite(
    errors: np.ndarray, *, n: int, failure_prob: float = 0.05,
    weights: Float64[np.ndarray, " networks"] | None = None,
) -> FiniteAssessment:  # fmt: skip
    """Certificates of networks that were learnt without the n examples on which ``errors`` were counted.

    q ∝ π exp(-λ k) with the λ that makes the first bound smallest.

    Formal guarantee: each certificate holds with probability 1 - failure_prob over the n examples, if they are
    independent of one law, and networks and ``weights`` do not depend on them.

    Args:
        errors: counts of each network, as from :func:`pacdp.exponential.error_counts`.
        weights: π; equal by default.

    Raises:
        ValueError: no network, counts outside 0 ... n, weights that are not positive.
    """
    if not np.issubdtype(errors.dtype, np.integer):
        raise ValueError(f"expected whole numbers of errors, got {errors.dtype}: round them up")
    if errors.ndim != 1 or not len(errors) or errors.min() < 0 or errors.max() > n:
        raise ValueError(f"expected counts of 0 to n = {n} errors of at least one network, got {errors!r}")
    base = log_probabilities(errors * 0, epsilon=0.0, weights=weights)

    def at(log_strength: float) -> tuple[Float64[np.ndarray, " networks"], bounds.Certificate]:
        found = base - math.exp(log_strength) * (errors - errors.min())
        q = np.exp(found - np.logaddexp.reduce(found))
        q = q / math.fsum(q)
        return q, _ensemble(q, base, errors, n=n, failure_prob=failure_prob)

    best: Any = minimize_scalar(lambda s: at(s)[1].value, bounds=(-12.0, 4.0), method="bounded")
    q, ensemble = min((at(s) for s in (-700.0, float(best.x), 4.0)), key=lambda pair: pair[1].value)
    vote = replace(ensemble, name="vote_" + ensemble.name, value=min(1.0, 2.0 * ensemble.value), of="vote")
    tails = [failure_prob * math.exp(ln) * (1.0 - 1e-12) for ln in base]
    values = [bounds.clopper_pearson_upper(int(k), n, tail) for k, tail in zip(errors, tails, strict=True)]
    chosen = int(np.argmin(values))
    one = clopper_pearson(int(errors[chosen]), n, tails[chosen])
    one = replace(
        about(one, "one_of_finitely_many", of="best network", measures="0-1 risk"),
        failure_prob=failure_prob,
        budget={"union over networks": failure_prob},
        inputs={**one.inputs, "failure_prob": failure_prob, "networks": len(errors), "tail": tails[chosen]},
    )
    return FiniteAssessment(weights=q, best=chosen, ensemble=ensemble, vote=vote, one=one)


def _ensemble(
    q: Float64[np.ndarray, " networks"], base: Float64[np.ndarray, " networks"], errors: Int64[np.ndarray, " networks"],
    *, n: int, failure_prob: float,
) -> bounds.Certificate:  # fmt: skip
    used = q > 0
    kl_nats = math.fsum(q[used] * (np.log(q[used]) - base[used]))
    kl_nats = max(0.0, kl_nats) + 1e-12 * (1.0 + abs(kl_nats)) + len(q) * 1e-15  # sums and logarithms of doubles
    risk = min(1.0, math.fsum(q * errors) / n * (1.0 + 1e-12))
    made = bounds.maurer(risk=risk, kl_nats=kl_nats, n=n, failure_prob=failure_prob)
    return about(made, "finite_ensemble", of="ensemble", measures="0-1 risk")
