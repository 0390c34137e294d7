"""Certificates of finitely many networks: a random one for every answer, one of them alone, or their vote.

The K networks saw none of the bound's examples. With k_j errors of network j among n, and π_j = 1/K:

    R(Q) ≤ kl⁻¹(Σ q_j k_j/n, [KL(q‖π) + ln ξ(n) + ln(1/δ)]/n)          for all q at once (Maurer 2004),
    R(j) ≤ Clopper-Pearson(k_j, n, δ/K)                                 for all j at once (a union bound).

Both may therefore be used at the q or j that the bound's own examples prefer. No draw is estimated: Σ q_j k_j is
exact. Where q's vote errs, at least half of q errs: its risk is at most 2 R(Q) (Langford and Shawe-Taylor 2002).
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float64, Int64
from torch import nn

import bounds
from pacdp.certify.examples import BoundSet, Device
from pacdp.certify.networks import Question
from pacdp.certify.priors import Private
from pacdp.certify.reading import Network, Reading
from pacdp.predictions.bounding import about, clopper_pearson
from pacdp.predictions.report import Measured, Report
from pacdp.store.record import record

Weights = Float64[np.ndarray, " networks"]
Counts = Int64[np.ndarray, " networks"]


_NO_MEAN = (
    "of the ensemble one network answers, drawn by details['weights'], or all vote with these; best is "
    "networks[details['best']]; a mean of their outputs is another predictor, which may err on more"
)


@record
class Finite:
    """Finitely many networks, in eval mode, that saw none of the bound's examples."""

    networks: Sequence[nn.Module]

    def __post_init__(self) -> None:
        given: Any = self.networks
        if not isinstance(given, Sequence) or not given or not all(map(callable, given)):
            raise ValueError("expected Finite.networks to be a list of networks, at least one")


def assess(asked: Question) -> Report:
    """The ensemble, its vote and the best network."""
    data = asked.data
    if isinstance(asked.source, Private):
        raise ValueError(
            "networks that saw the bound's examples, even privately, need a prior of their own"
        )
    if data.unit == "person":
        raise ValueError(
            "certificates of finitely many networks count examples: give data without people"
        )
    answers = said(asked.law.networks, data, asked.device)
    errors = (answers != data.labels.numpy()).sum(1)
    found = assess_finite(errors, n=data.n, failure_prob=asked.failure_prob)
    measured = [*_measured(answers, found, data, "bound")]
    if asked.test is not None:
        answers = said(asked.law.networks, asked.test, asked.device)
        measured += _measured(answers, found, asked.test, "test")
    return asked.report(
        "finite", [found.ensemble, found.vote, found.one, *measured], remarks=(_NO_MEAN,),
        details={"weights": found.weights.tolist(), "best": found.best},
    )  # fmt: skip


def said(
    networks: Sequence[nn.Module], data: BoundSet, device: Device
) -> Int64[np.ndarray, "networks n"]:
    """The class that each network names for each example; -1 where it does not name one alone."""
    readings = (Reading(law=Network(network=one), device=device) for one in networks)
    found: list[Any] = [one.seen(data, "the", held=False).answers.predicted for one in readings]
    return np.stack(found)


class FiniteAssessment(NamedTuple):
    """Certificates of the ensemble, of one network and of the vote, each by itself."""

    weights: Weights
    """q, found on the bound's examples."""
    best: int
    """The one network: fewest errors."""
    ensemble: bounds.Certificate
    vote: bounds.Certificate
    one: bounds.Certificate


def _measured(
    said: Int64[np.ndarray, "networks n"], found: FiniteAssessment, data: BoundSet, on: str
) -> Iterator[Measured]:
    """The errors of a network drawn anew for every answer, of the vote, in which a tie errs, and of the best."""
    weights, right = found.weights, said == data.labels.numpy()
    yield Measured(of="ensemble", on=on, mean=float(weights @ (~right).mean(1)), n=data.n)
    others = [weights @ ((said == k) & ~right) for k in range(max(0, int(said.max())) + 1)]
    wrong = {"vote": weights @ right <= np.max(others, axis=0), "best network": ~right[found.best]}
    for of, each in wrong.items():
        errors = int(each.sum())
        yield Measured(of=of, on=on, mean=errors / data.n, errors=errors, n=data.n)


def assess_finite(errors: Counts, *, n: int, failure_prob: float = 0.05) -> FiniteAssessment:
    """Certificates of networks that were learnt without the n examples on which ``errors`` were counted.

    q ∝ exp(-λ k) with the λ that makes the first bound smallest.

    Formal guarantee: each certificate holds with probability 1 - failure_prob over the n examples, if they are
    independent of one law, and the networks do not depend on them.
    """
    from scipy.optimize import minimize_scalar  # a good part of the time of importing pacdp

    equal = -np.logaddexp.reduce(np.zeros(len(errors)))  # ln π_j

    def at(log_strength: float) -> tuple[Weights, bounds.Certificate]:
        found = equal - math.exp(log_strength) * (errors - errors.min())
        q = np.exp(found - np.logaddexp.reduce(found))
        q = q / math.fsum(q)
        used = q > 0
        nats = math.fsum(q[used] * (np.log(q[used]) - equal))
        nats = max(0.0, nats) + 1e-12 * (1.0 + abs(nats)) + len(q) * 1e-15  # rounding of doubles
        risk = min(1.0, math.fsum(q * errors) / n * (1.0 + 1e-12))
        made = bounds.maurer(risk=risk, kl_nats=nats, n=n, failure_prob=failure_prob)
        return q, about(made, "finite_ensemble", of="ensemble")

    found: Any = minimize_scalar(lambda s: at(s)[1].value, bounds=(-12.0, 4.0), method="bounded")
    q, ensemble = min((at(s) for s in (-700.0, float(found.x), 4.0)), key=lambda one: one[1].value)
    twice = min(1.0, 2.0 * ensemble.value)
    vote = replace(about(ensemble, f"vote_{ensemble.name}", of="vote"), value=twice)
    best, tail = int(np.argmin(errors)), failure_prob * math.exp(equal) * (1.0 - 1e-12)
    one = about(
        clopper_pearson(int(errors[best]), n, tail), "one_of_finitely_many", of="best network"
    )
    told = {"failure_prob": failure_prob, "networks": len(errors), "tail": tail}
    one = replace(one, failure_prob=failure_prob, budget={"union over networks": failure_prob},
                  inputs={**one.inputs, **told})  # fmt: skip
    return FiniteAssessment(q, best, ensemble, vote, one)
