"""Networks as they are: the certificates of fresh examples, of a private release, and by another network.

Every route judges networks here: the mean of a posterior, one draw of it, the mean of a prior, a user's own network.
By another network: R(f) ≤ R(h) + P(f ≠ h) ("Untouched networks" in docs/guarantees.md): f may have learnt from every
labelled record, h is the network that is certified on them, and examples that neither saw say how often they differ.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import torch
from torch import Tensor

import bounds
from bounds.hypotheses import declared, proved
from bounds.prices import Accounted, Price
from pacdp.certify.evidence import Settings, rows_of, summaries
from pacdp.certify.examples import BoundSet, Device, Unit, require_kinds
from pacdp.certify.loaders import bound_set, require_steady
from pacdp.certify.outputs import answers_of, classes_of, error_share, require_logits
from pacdp.certify.priors import Source
from pacdp.certify.reading import Function, Network, Reading, Seen
from pacdp.certify.released_counts import ReleasedErrors, sum_of_rates
from pacdp.data.errors import DataError
from pacdp.data.places import require_other_places
from pacdp.data.rows import require_plain
from pacdp.predictions.bounding import about, clopper_pearson
from pacdp.predictions.report import Measured, Refusal, Report
from pacdp.predictions.sentence import UNLABELLED
from pacdp.stochastic import MonteCarloRisk
from pacdp.stochastic.risk import at_or_above
from pacdp.store.record import Values, record
from pacdp.trials.buffers import Holdings

_FOR_PEOPLE = (bounds.new_person_betting, bounds.new_person_kl)
_NOISE_SHARE = (
    0.02  # of a failure probability, for noise on counts: near the best on 60,000 examples
)
_BEYOND_CHANCE = 1e-6
"""How seldom luck alone makes it said of a network that errs as one answer for all would that it knows the examples."""
Finding = bounds.Certificate | Refusal | Measured | MonteCarloRisk
"""One thing that a route has to say."""
Release = Callable[[float, int, Unit], ReleasedErrors]
"""Releases the errors (the sum of people's rates) and the number of records, with noise that a ledger counts."""


@record(eq=False)
class Question:
    """What is certified, on which examples: all that a route is told.

    Attributes: the arguments of :func:`pacdp.certify` of the same names, and

        law: what is certified.
        data: the examples that the bound rests on.
        test: those of the test set.
        given: both as they were given; of a chain an Objective each.
        source: where the prior, or the network, came from.
        failure_prob: of each certificate, divided by the number of settings.
    """

    law: Any
    data: BoundSet
    test: BoundSet | None = None
    given: tuple[Any, Any] = (None, None)
    prior: Any = None
    source: Source | None = None
    network: Any = None
    failure_prob: float = 0.05
    monte_carlo: Any = None
    gibbs: Any = None
    seed: int = 0
    device: Device = "cpu"
    progress: Callable[[int, int], None] | None = None
    release: Release | None = None

    def judged(self, network: Function, of: str) -> dict[str, Seen]:
        """What a network did on the bound's examples, "bound", and, where there is one, on the test set, "test"."""
        law = Network(network=network, of=of)
        return Reading(law=law, device=self.device).judged(self.data, self.test)

    def on_both(self, sets: Mapping[str, Seen]) -> Iterator[Finding]:
        """The errors of a network on both sets, and what the test set certifies of it."""
        yield from (one.measured(on) for on, one in sets.items())
        if "test" in sets:
            yield from fresh_certificates(sets["test"], failure_prob=self.failure_prob)

    def report(self, route: str, findings: Iterable[Finding], **known: Any) -> Report:
        """What was found, under the name of a route."""
        told = {"route": route, "failure_prob": self.failure_prob, **known}
        return Report.of(findings, self.data, **told)


def released(asked: Question) -> Report:
    """Everything that applies to a network as it is, which was released privately.

    With ``release`` its certificate is made from counts that are released here, with noise.
    """
    source: Any = asked.source  # Private, by which a network comes here
    data = asked.data
    sets = Reading(law=asked.law, device=asked.device).judged(data, asked.test)
    seen = sets["bound"]
    how: Values = {
        "of": asked.law.of,
        "measures": data.risk(),
        "failure_prob": asked.failure_prob,
    }
    if asked.release is not None:
        counts = asked.release(sum_of_rates(seen.wrong, data.people), data.units, data.unit)
        made = noisy_certificate(counts, privacy=source.privacy, **how)
        n = 1 if isinstance(made, Refusal) else int(made.inputs["n"])
        found = asked.report("released", [made])
        return replace(found, n=n, examples=n if data.people is None else None)
    made = [
        released_certificate(seen.error, n=data.units, price=price, **how)
        for price in (source.sums, source.price)
        if price is not None
    ]
    return asked.report("released", [*made, *asked.on_both(sets)])


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
    price, left = Accounted(privacy=privacy), failure_prob - own
    made = released_certificate(risk, n=n, price=price, failure_prob=left, of=of, measures=measures)
    made = made.charged("noise on the counts", own)
    told = {"errors_at_most": errors, "released_errors": counts.errors, "released_n": counts.n}
    noises = {"std_errors": counts.std_errors, "std_n": counts.std_n}
    return replace(made, inputs={**made.inputs, **told, **noises})


def fresh_certificates(
    seen: Seen, *, failure_prob: float, name: str = "test_set"
) -> list[bounds.Certificate]:
    """What examples new to a network say of it: its error, by person where people are known, and its calibration.

    Formal guarantee: each fails with probability at most failure_prob over the examples, if the network does not depend
    on them. With people the error is that on a new person, the mean of their own error.
    """
    of, sample = seen.of, seen.calibration
    if seen.people is not None:
        of_people = bounds.people_sample(losses=seen.wrong.astype(np.float64), people=seen.people)
        made = [form(sample=of_people, failure_prob=failure_prob) for form in _FOR_PEOPLE]
        measures = f"0-1 risk{seen.new}"
        return [about(one, f"{name}_{one.name}", of=of, measures=measures) for one in made]
    found = [clopper_pearson(seen.errors, seen.n, failure_prob, name=name, of=of)]
    if sample is not None:
        error, gap = sample.calibration_error, sample.mean_squared_gap
        made = bounds.ece_second_moment(
            calibration_error=error, mean_squared_gap=gap, n=seen.n, failure_prob=failure_prob
        )
        found.append(about(made, f"{name}_ece", of=of, measures="ECE"))
    return found


def knows_already(errors: int, labels: Tensor) -> bool:
    """Whether a network errs on less than a quarter of what one answer for all examples would, beyond chance."""
    n = len(labels)
    guessed = n - int(labels.unique(return_counts=True)[1].max())
    return bounds.clopper_pearson_upper(errors, n, _BEYOND_CHANCE) < guessed / (4 * n)


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

    A price that was measured on the sample pays for ln ξ(n) too.

    Formal guarantee: as for :func:`bounds.kl_chernoff`, or :func:`bounds.maurer` at no divergence.
    """
    at: Values = {"risk": risk, "n": n, "failure_prob": failure_prob, "price": price}
    made = bounds.maurer(kl_nats=0.0, **at) if price.measured else bounds.kl_chernoff(**at)
    return about(made, of=of, measures=measures)


_ONE_SURROGATE = (
    "the surrogate's certificate pays for one network that was not chosen by it: where it is the least of several, "
    "give bounds.best_of of them all, which pays for the choice"
)
_DRAWN_ANEW = {"randomised", "ensemble", "Gibbs classifier", "Gibbs posterior"}
"""What certificates are of whose risk is a mean over networks, of which none has to be as good."""


@record(eq=False)
class Surrogate:
    """A network with a certificate, by which another one is certified.

    Attributes:
        network: any function from inputs to one row of logits an example.
        certificate: of its 0-1 risk; that it is this network's is yours to declare. Where it is the least of several,
            ``bounds.best_of`` of all of them pays for the choice.
        saw: all data that it depends on, or their rows, by what to call them.

    Raises:
        ValueError: no certificate, one of a predictor that is drawn anew for every answer, or nothing that it saw.
    """

    network: Function
    certificate: bounds.Certificate
    saw: Mapping[str, Any]

    def __post_init__(self) -> None:
        require_kinds(self, certificate=bounds.Certificate, saw=Mapping)
        if (of := self.certificate.of) in _DRAWN_ANEW:
            raise ValueError(
                f"Surrogate.certificate must be of one network as it is, and that of {of!r} is a mean over networks: "
                "give one of a plain count, or of one draw, and that draw as the network"
            )
        if not self.saw:
            raise ValueError(
                "Surrogate.saw must name the rows that the surrogate depends on, got none: give their Dataset.rows()"
            )


def disagreement(
    law: Network,
    data: Any,
    surrogate: Surrogate,
    settings: Settings,
    *,
    seen: Any,
    failure_prob: float,
    device: Device,
) -> Report:
    """A network as it is by another one, from examples without labels that neither saw.

    Formal guarantee: that of :func:`bounds.disagreement`. ``failure_prob`` pays for the surrogate's certificate, and
    with what is left for the count of differences.

    Raises:
        DataError: unlabelled rows that either network saw, or that repeat each other.
        ValueError: outputs of other classes, people among the rows, a certificate that leaves nothing for the count, or
            one of several settings where ``settings`` pays for fewer.
    """
    if law.scores:
        raise ValueError(
            "Network.scores goes without a surrogate, whose classes are told by logits: give logits"
        )
    settings.require_pays_for(surrogate.certificate)
    spent = surrogate.certificate.failure_prob
    own = (failure_prob - spent) * (1.0 - 1e-13)  # so that the sum of both, rounded up, is no more
    if own <= 0.0:
        raise ValueError(
            f"failure_prob must pay for the surrogate's certificate, which fails with "
            f"{spent:g}, and for the count of differences, got {failure_prob:g}: certify "
            "the surrogate at half of it"
        )
    if isinstance(data, Tensor):
        data = BoundSet(inputs=data, labels=torch.zeros(len(data), dtype=torch.int64))
    require_steady(data, "data")
    found = bound_set(data)
    if found.people is not None:
        raise ValueError(
            "data of a certificate by a surrogate must be independent examples, and these are of people: give one "
            "example of each, without people"
        )
    saw = {name: rows_of(one, f"saw[{name!r}]") for name, one in surrogate.saw.items()}
    known = saw if seen is None else {**saw, "the network's rows": rows_of(seen, "seen")}
    require_plain(found.rows, name="the unlabelled rows")
    for name, one in known.items():
        require_other_places(found.rows.source, one.source, ("the unlabelled rows", name))
        if shared := found.rows.shared(one, "inputs"):
            raise DataError(
                f"{shared} of the unlabelled rows are among {name}: give rows that were set aside by their place, "
                "because networks that learnt from a row agree there more often than on new ones."
            )
    by = f"row hashes show that they are not among {', '.join(known)}"
    silent = "".join(dict.fromkeys(found.rows.silent(one) for one in known.values()))
    if silent or seen is None:
        unseen = declared(UNLABELLED, f"the caller, for the network; {silent or by}")
    else:
        unseen = proved(UNLABELLED, by)
    settings.standing(found)
    for network in (law.network, surrogate.network):
        Holdings(network).require_none(
            found.inputs, hashes=found.rows.inputs, whose="the unlabelled"
        )
    other = Network(network=surrogate.network, batch_size=2**30)
    outputs = [Reading(law=one, device=device).outputs(found.inputs) for one in (law, other)]
    k = int(disagreements(*outputs).sum())
    made = bounds.disagreement(surrogate=surrogate.certificate, k=k, n=found.n, failure_prob=own)
    made = replace(made, of=law.of).resting_on(unseen)
    differ = Measured(of=law.of, on="bound", loss="differs from the surrogate", mean=error_share(k, found.n),
                      errors=k, n=found.n)  # fmt: skip
    details = {"surrogate_saw": {name: one.summary() for name, one in saw.items()}}
    remarks = () if surrogate.certificate.name == "best_of" else (_ONE_SURROGATE,)
    return Report.of([made, differ], found, route="disagreement", failure_prob=made.failure_prob, remarks=remarks,
                     rows=summaries(found), details=details, choices={"count": settings.count})  # fmt: skip


def disagreements(one: Tensor, other: Tensor) -> Any:
    """Where two networks do not give the same class by a largest output of their own: a tie or a NaN is a difference.

    Raises:
        ValueError: outputs of other numbers of classes, or one probability an example in place of a logit.
    """
    counts = classes_of(one), classes_of(other)
    if counts[0] != counts[1]:
        raise ValueError(
            f"expected networks of the same classes, got {counts[0]} and {counts[1]} of the surrogate"
        )
    require_logits(one)
    require_logits(other)
    labels = torch.zeros(len(one), dtype=torch.int64)
    first, second = (answers_of(each, labels).predicted for each in (one, other))
    return np.asarray((first != second) | (first == -1))
