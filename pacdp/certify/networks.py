"""Networks as they are: outputs, errors and calibration on examples, and the certificates of fresh examples.

Every route judges networks here: the mean of a posterior, one draw of it, the mean of a prior, a user's own network.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from jaxtyping import Bool
from torch import Tensor, nn

import bounds
from bounds.needs import declared_by
from bounds.prices import Accounted, Price
from pacdp.certify.bounded import ClippedError
from pacdp.certify.evidence import evidence_of
from pacdp.certify.examples import BoundSet, Device, Unit, require_counts, require_kinds
from pacdp.certify.priors import DataFree, HeldOut, Private, source_to_dict
from pacdp.certify.reading import BATCH, AtWeights, Function, LossOf, Reading, Seen, answers_of
from pacdp.certify.released_counts import ReleasedErrors, sum_of_rates
from pacdp.certify.resting import resting
from pacdp.certify.settings import Settings
from pacdp.predictions.calibration import EDGES
from pacdp.predictions.certify import certified
from pacdp.predictions.report import Measured, Refusal, Report
from pacdp.stochastic import MonteCarloRisk
from pacdp.stochastic.risk import at_or_above

_FOR_PEOPLE = (bounds.new_person_betting, bounds.new_person_kl)
_NOISE_SHARE = (
    0.02  # of a failure probability, for noise on counts: near the best on 60,000 examples
)
Finding = bounds.Certificate | Refusal | Measured | MonteCarloRisk
"""One thing that a route has to say."""
Release = Callable[[float, int, Unit], ReleasedErrors]
"""Releases the errors (the sum of people's rates) and the number of records, with noise that a ledger counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """One network as it is: a module in eval mode, or any function from inputs to one row of logits an example.

    Attributes:
        network: the function.
        of: what it is called in certificates.
        scores: whether it returns probabilities in place of logits.
        batch_size: examples at a time.
    """

    network: Function
    of: str = "your network"
    scores: bool = False
    batch_size: int = BATCH

    def __post_init__(self) -> None:
        if not callable(self.network):
            raise ValueError(
                f"expected Network.network to be a function of inputs, got {type(self.network).__name__}"
            )
        require_kinds(self, of=str)
        require_counts(self, "batch_size")


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """What one network did on some examples.

    Attributes:
        wrong: which are in error; a tie is an error.
        error: their share, or the mean over people of their own shares, rounded up.
        calibration: what bounds on the calibration error need, where people are not counted and all outputs are finite.
    """

    data: BoundSet
    wrong: Bool[np.ndarray, " n"]
    error: float
    calibration: bounds.CalibrationSample | None

    @property
    def errors(self) -> int:
        """How many examples are in error."""
        return int(self.wrong.sum())

    @property
    def sum_of_rates(self) -> float:
        """The same, or the sum of people's own rates, which a person moves by at most one."""
        return (
            float(self.errors)
            if self.data.people is None
            else sum_of_rates(self.wrong, self.data.people)
        )


def with_weights(
    module: nn.Module, weights: Mapping[str, Tensor], buffers: Mapping[str, Tensor], device: Device
) -> Function:
    """The module as a function, at these weights and buffers."""
    return AtWeights(
        module, {name: value.to(device) for name, value in {**buffers, **weights}.items()}
    )


def judge(
    network: Function,
    data: BoundSet,
    device: Device = "cpu",
    *,
    scores: bool = False,
    batch_size: int = BATCH,
) -> Judged:
    """Errors and calibration of a network on examples.

    Args:
        scores: the outputs are probabilities, not logits.

    Raises:
        ValueError: outputs that are not one row an example.
    """
    reading = Reading(network=network, scores=scores, device=device, batch_size=batch_size)
    outputs = reading.outputs(data.inputs)
    answers = answers_of(outputs, data.labels, scores=scores)
    wrong, sample = answers.predicted != data.labels.numpy(), None
    if data.unit == "example" and answers.confidence is not None:
        sample = bounds.calibration_sample(
            confidence=answers.confidence, correct=~wrong, edges=EDGES
        )
    return Judged(data=data, wrong=wrong, error=mean_of(wrong, data), calibration=sample)


def judged(
    network: Function, data: BoundSet, test: BoundSet | None, device: Device, **how: Any
) -> dict[str, Judged]:
    """What a network did on the bound's examples, "bound", and, where there is one, on the test set, "test"."""
    sets = {"bound": data} if test is None else {"bound": data, "test": test}
    return {on: judge(network, each, device, **how) for on, each in sets.items()}


def measured(seen: Mapping[str, Judged], of: str) -> Iterator[Measured]:
    """The errors as lines of a report."""
    for on, one in seen.items():
        yield Measured(of=of, on=on, mean=one.error, errors=one.errors, n=one.data.units)


def mean_of(wrong: Bool[np.ndarray, " n"], data: BoundSet) -> float:
    """The share of errors, or the mean over people of their own shares, rounded up."""
    if data.people is None:
        return error_share(int(wrong.sum()), data.n)
    _, owner, sizes = np.unique(data.people, return_inverse=True, return_counts=True)
    counts = np.bincount(owner, weights=wrong)
    return at_or_above(
        sum((Fraction(int(k), int(m)) for k, m in zip(counts, sizes, strict=True)), Fraction(0))
        / len(sizes)
    )


def error_share(errors: int, n: int) -> float:
    """errors/n, rounded up."""
    return at_or_above(Fraction(errors, n))


def about(
    made: bounds.Certificate, name: str = "", *, of: str, measures: str = "0-1 risk"
) -> bounds.Certificate:
    """The certificate under the name of the predictor and the risk that it is about."""
    return replace(made, name=name or made.name, of=of, measures=measures)


def as_it_is(
    law: Network,
    data: Any,
    source: DataFree | HeldOut | None,
    *,
    test: Any,
    loss: LossOf | ClippedError | None,
    ask: Sequence[str] | str | None,
    failure_prob: float,
    settings: Settings,
    device: Device,
) -> Report:
    """What examples that are new to a network say of it: the report of their predictions, with what is known of rows.

    Formal guarantee: that of :func:`pacdp.certify_predictions`.
    """
    reading = Reading(
        network=law.network, loss=loss, scores=law.scores, device=device, batch_size=law.batch_size
    )
    seen = reading.seen(data, "the bound's")
    fresh = None if test is None else reading.seen(test, "the test set's")
    tested = None if fresh is None else fresh.examples
    evidence, _ = evidence_of(source, seen.examples, tested)
    fixed = settings.standing(seen.examples, tested)
    clips = "pacdp.ClippedError, which clips" if isinstance(loss, ClippedError) else ""
    found = certified(seen.table(law.of, range_by=clips), failure_prob=failure_prob, ask=ask)
    rows = {
        "bound": seen.examples.rows.summary(),
        "test": tested and tested.rows.summary(),
        "prior": None,
    }
    return replace(
        found,
        certificates=tuple(resting(one, evidence, fixed) for one in found.certificates),
        measured=tuple(_mean_losses({"bound": seen, "test": fresh}, law.of)),
        rows=rows,
        prior=None if source is None else {**source_to_dict(source), "choice_nats": 0.0},
        choices={"count": settings.count},
    )


def _mean_losses(sets: Mapping[str, Seen | None], of: str) -> Iterator[Measured]:
    """The error, or the mean loss, on each set of examples."""
    for on, one in sets.items():
        if one is None:
            continue
        data = one.examples
        if one.labels is not None:
            wrong = one.answers.predicted != one.labels
            about_it = {"mean": mean_of(wrong, data), "errors": int(wrong.sum())}
        else:
            ((name, losses),) = one.answers.losses.items()
            whose = np.arange(data.n) if data.people is None else data.people
            sample = bounds.people_sample(losses=losses.astype(np.float64), people=whose)
            about_it = {"loss": name, "mean": sample.person_risk}
        yield Measured(of=of, on=on, n=data.units, **about_it)


def released(
    law: Network,
    source: Private,
    *,
    data: BoundSet,
    test: BoundSet | None,
    failure_prob: float,
    device: Device,
) -> Iterator[Finding]:
    """Everything that applies to a network as it is, which was released privately."""
    how: dict[str, Any] = {"scores": law.scores, "batch_size": law.batch_size}
    seen, of = judged(law.network, data, test, device, **how), law.of
    yield from measured(seen, of)
    about_it: dict[str, Any] = {
        "n": data.units,
        "failure_prob": failure_prob,
        "of": of,
        "measures": data.risk(),
    }
    if source.sums is not None:
        yield released_certificate(seen["bound"].error, price=source.sums, **about_it)
    price = Accounted(privacy=source.privacy)
    yield released_certificate(seen["bound"].error, price=price, **about_it)
    if "test" in seen:
        yield from fresh_certificates(seen["test"], of=of, failure_prob=failure_prob)


def released_noisily(
    law: Network,
    source: Private,
    release: Release,
    *,
    data: BoundSet,
    failure_prob: float,
    device: Device,
) -> bounds.Certificate | Refusal:
    """The certificate of a network that was released privately, from counts that are released here, with noise."""
    seen = judge(law.network, data, device, scores=law.scores, batch_size=law.batch_size)
    counts = release(seen.sum_of_rates, data.units, data.unit)
    about_it: dict[str, Any] = {"of": law.of, "measures": data.risk()}
    return noisy_certificate(counts, privacy=source.privacy, failure_prob=failure_prob, **about_it)


def noisy_certificate(
    counts: ReleasedErrors,
    *,
    privacy: bounds.PrivacyClaim,
    failure_prob: float,
    of: str,
    measures: str,
) -> bounds.Certificate | Refusal:
    """:func:`released_certificate` at the most errors and the fewest records that released counts leave possible.

    Formal guarantee: that of :func:`bounds.printed.private_kl_chernoff` at 0.98 ``failure_prob``; the noise on the
    counts has the rest. Where there are m or more records, the first m of them are independent records, the mechanism
    is as private towards them as towards all, and they have no more errors than all have: the bound for m records and
    that many errors holds ("Certificates from counts with noise" in docs/guarantees.md).
    """
    own = _NOISE_SHARE * failure_prob
    errors, n = counts.at_worst(failure_prob=own)
    if n < 1:
        why = f"n with noise of standard deviation {counts.std_n:g} may be 0: release it with less noise"
        return Refusal(name="private_kl_chernoff", reason=why)
    risk = at_or_above(Fraction(min(errors, n)) / n)
    made = released_certificate(
        risk,
        n=n,
        price=Accounted(privacy=privacy),
        failure_prob=failure_prob - own,
        of=of,
        measures=measures,
    ).charged("noise on the counts", own)
    said = {f"released_{name}": getattr(counts, name) for name in ("errors", "n")}
    noises = {name: getattr(counts, name) for name in ("std_errors", "std_n")}
    return replace(made, inputs={**made.inputs, "errors_at_most": errors, **said, **noises})


def fresh_certificates(
    judged: Judged, *, of: str, failure_prob: float, name: str = "test_set"
) -> list[bounds.Certificate]:
    """What examples new to a network say of it: its error, by person where people are known, and its calibration.

    Formal guarantee: each fails with probability at most failure_prob over the examples, if the network does not depend
    on them. With people the error is that on a new person, the mean of their own error.
    """
    data, sample = judged.data, judged.calibration
    if data.people is not None:
        of_people = bounds.people_sample(losses=judged.wrong.astype(np.float64), people=data.people)
        made = [form(sample=of_people, failure_prob=failure_prob) for form in _FOR_PEOPLE]
        return [about(one, f"{name}_{one.name}", of=of, measures=data.risk()) for one in made]
    found = [about(clopper_pearson(judged.errors, data.n, failure_prob, name=name), of=of)]
    if sample is not None:
        error, gap = sample.calibration_error, sample.mean_squared_gap
        made = bounds.ece_second_moment(
            calibration_error=error, mean_squared_gap=gap, n=data.n, failure_prob=failure_prob
        )
        found.append(about(made, f"{name}_ece", of=of, measures="ECE"))
    return found


def released_certificate(
    risk: float,
    *,
    n: int,
    price: Price,
    failure_prob: float,
    of: str = "weights",
    measures: str = "0-1 risk",
) -> bounds.Certificate:
    """The 0-1 risk of what was released at this price, used as it is: R ≤ kl⁻¹(risk, Λ/n).

    Formal guarantee: as for :func:`bounds.kl_chernoff`.
    """
    made = bounds.kl_chernoff(risk=risk, n=n, failure_prob=failure_prob, price=price)
    return about(made, of=of, measures=measures)


def clopper_pearson(
    errors: int, n: int, failure_prob: float, *, name: str = "test_set"
) -> bounds.Certificate:
    """Clopper and Pearson's bound on the 0-1 risk of a predictor that errs on ``errors`` of ``n`` examples new to it.

    Formal guarantee: see :func:`bounds.clopper_pearson_upper`.
    """
    return bounds.Certificate(
        name=f"{name}_clopper_pearson",
        value=bounds.clopper_pearson_upper(errors, n, failure_prob),
        failure_prob=failure_prob,
        hypotheses=declared_by("the caller of bounds.clopper_pearson_upper", "clopper_pearson"),
        terms={"empirical_risk": errors / n},
        budget={"test set": failure_prob},
        reference="Clopper and Pearson (1934)",
        inputs={"k": errors, "n": n, "failure_prob": failure_prob},
    )
