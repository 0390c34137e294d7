"""Networks as they are: outputs, errors and calibration on examples, and the certificates of fresh examples.

Every route judges networks here: the mean of a posterior, one draw of it, the mean of a prior, a user's own network.
"""

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

import bounds
from bounds.prices import Accounted, Price
from pacdp.certify.examples import BoundSet, Device, Unit
from pacdp.certify.priors import Private
from pacdp.certify.reading import Network, Reading, Seen
from pacdp.certify.released_counts import ReleasedErrors, sum_of_rates
from pacdp.predictions.bounding import about, clopper_pearson
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


def released(
    law: Network,
    source: Private,
    release: Release | None,
    *,
    data: BoundSet,
    test: BoundSet | None,
    failure_prob: float,
    device: Device,
) -> Report:
    """Everything that applies to a network as it is, which was released privately.

    With ``release`` its certificate is made from counts that are released here, with noise.
    """
    sets = Reading(law=law, device=device).judged(data, test)
    seen = sets["bound"]
    how: dict[str, Any] = {"of": law.of, "measures": data.risk(), "failure_prob": failure_prob}
    report: dict[str, Any] = {"route": "released", "failure_prob": failure_prob}
    if release is not None:
        counts = release(sum_of_rates(seen.wrong, data.people), data.units, data.unit)
        made = noisy_certificate(counts, privacy=source.privacy, **how)
        n = 1 if isinstance(made, Refusal) else int(made.inputs["n"])
        found = Report.of([made], data, **report)
        return replace(found, n=n, examples=n if data.people is None else None)
    made = [
        released_certificate(seen.error, n=data.units, price=price, **how)
        for price in (source.sums, source.price)
        if price is not None
    ]
    findings: list[Finding] = [one.measured(on) for on, one in sets.items()]
    if test is not None:
        made += fresh_certificates(sets["test"], failure_prob=failure_prob)
    return Report.of([*findings, *made], data, **report)


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
    at: dict[str, Any] = {"risk": risk, "n": n, "failure_prob": failure_prob, "price": price}
    made = bounds.maurer(kl_nats=0.0, **at) if price.measured else bounds.kl_chernoff(**at)
    return about(made, of=of, measures=measures)
