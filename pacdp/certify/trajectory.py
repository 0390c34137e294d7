"""Certificates of chains that kept what they added up: the trajectory pays with its own gradients, nothing is clipped.

Each step of these chains adds Gaussian noise to a sum of gradients over the records. With V the squared norms of all
that the records added to these sums, each over the variance of its step's noise, the price of using what the chain
released on the same records is Λ, the least of α V/2 + (α/(α-1)) ln(1/failure_prob) over a fixed grid of α, each order
of which is paid for ("Noisy sums" in docs/guarantees.md). Whether the chain has converged does not matter:

    R(w) ≤ kl⁻¹(R̂(w), (ln ξ(n) + Λ)/n)                            the weights themselves
    R(Q) ≤ kl⁻¹(R̂(Q), (KL(Q‖P) + ln ξ(n) + Λ)/n)                  any Q, with P = N(w, s² I) as prior

The second holds for all Q at once, also for one that was trained on from w without noise. Where the data name people,
these are the records: n counts them, what one adds to a sum is the mean of all their gradients, and R is the risk for
a new person.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from jaxtyping import Float
from torch import Tensor

import bounds
from bounds.accounting import Composed, Event, Gaussian
from bounds.hypotheses import Hypothesis, declared, proved
from pacdp.algorithms import Chain
from pacdp.certify.accounted import (
    MONTE_CARLO_SHARE,
    SLACK_NATS,
    around,
    share_of_errors,
    weights_at,
)
from pacdp.certify.examples import BoundSet
from pacdp.certify.gaussian import MonteCarlo
from pacdp.certify.networks import Judged, mean_of, measured
from pacdp.certify.priors import NOISE_OF_THE_RUN, NoisySum, Prior
from pacdp.certify.routes import certify
from pacdp.certify.settings import Settings
from pacdp.losses import in_error
from pacdp.objective import Objective
from pacdp.predictions.report import Refusal, Report
from pacdp.step.planned_steps import ChargedSteps
from pacdp.stochastic import passes_for

START_OF_THE_RUN = "the run, whose first weights are drawn from its seed"
"""Who vouches for the first weights of a chain."""


def noisy_sums_event(settings: Chain, steps: int) -> Event:
    """The sums that ``steps`` steps release, in order, with noise in units of the sum of the records' gradients.

    Formal guarantee: the weights after each step, and all that is computed from them, are a function of these noisy
    sums and of numbers that no record enters, if batches and first weights are such numbers. Rounding of the sums is
    not accounted for.

    Raises:
        ValueError: the noise of these chains enters otherwise, or is missing in a step.
    """
    noises = settings.noise_path(steps).noise_multipliers(settings.batch_size)
    return Composed(events=tuple(Gaussian(noise_multiplier=float(one)) for one in noises))


def realised_price(
    settings: Chain,
    norms: Float[Tensor, " gradients"] | None,
    *,
    steps: int,
    n: int,
    noise: str = NOISE_OF_THE_RUN,
    start: str = START_OF_THE_RUN,
) -> bounds.RealisedSum:
    """The price of the weights after ``steps`` steps on ``n`` records, from the norms kept at every gradient.

    ``n`` counts the records whose squared norms were added up: people, where the data named them.

    Formal guarantee: that of :func:`bounds.noisy_sum_realised`, if what the price says is known of the run is true.

    Raises:
        ValueError: norms are missing or more than there were gradients, one is negative or NaN, gradients were clipped,
            or as for :func:`noisy_sums_event`.
    """
    gradients = steps * settings.gradients_per_step
    kept = 0 if norms is None else len(norms)
    if norms is None or kept != gradients:
        raise ValueError(
            f"norms must hold one number for each of the {gradients} gradients that are paid for, got {kept}: what was "
            "not kept cannot be paid for; train again with keep_norms"
        )
    if settings.clip_norm is not None:
        raise ValueError(
            "batches of a clipped chain are secret, where the norms of all records count and not those of the sampled "
            "ones: certify it by its accounted privacy"
        )
    event = noisy_sums_event(settings, steps)
    known = tuple(_known(settings, gradients, noise, start))
    return bounds.noisy_sum_realised(
        event=event, squared_norms=norms.tolist(), records=n, hypotheses=known
    )


def _known(settings: Chain, gradients: int, noise: str, start: str) -> Iterator[Hypothesis]:
    """What a checkpoint shows of its run, and who vouches for the rest."""
    every = f"the settings of {settings.name}: noise is added to each sum of gradients, and the rest computes with that"
    yield proved("records enter by noisy sums", every)
    yield declared("noise secret or independent", noise)
    yield proved(
        "schedule blind to the records",
        "the settings, of which step sizes and noise scales are functions",
    )
    yield declared("first weights independent", start)
    if settings.every_record:
        yield proved(
            "batches drawn without the records", "the settings: every record is in every batch"
        )
    else:
        yield declared(
            "batches drawn without the records", "the run, whose batches are drawn from its seed"
        )
    by = f"the run, which kept one sum for each of its {gradients} gradients; pacdp verify with data takes some again"
    yield declared("norms of all records kept", by)


def with_recorded(
    found: Report,
    *,
    settings: Chain,
    weights: Float[Tensor, " dim"],
    norms: Float[Tensor, " gradients"] | None,
    charged: ChargedSteps,
    step: int,
    data: Objective,
    test: Objective | None,
    seed: int,
    fixed: Settings,
    noise: str = NOISE_OF_THE_RUN,
) -> Report:
    """The assessment of a chain with its trajectory's certificates in front, or the reason why there are none.

    The Gaussian classifier is the prior itself, N(weights, ``settings.thermal_std``² I), at no divergence. Where the
    data name people, ``found`` counts examples: its certificates and counts make room for those of people.

    Args:
        norms: what the chain kept at each gradient.
        charged: what is paid for the number of steps; a realised price knows those alone that were made.
        step: how many were made.
        fixed: who fixed the settings; what their choice costs is paid in ``found.failure_prob`` already.
    """
    share, examples, fixed = found.failure_prob, BoundSet.of_records(data), replace(fixed, count=1)
    tested = BoundSet.of_records(test) if test else None
    seen = None if data.people is None else {"bound": _judged(weights, data)}
    if seen is not None:
        found = _of_people(found, seen | ({"test": _judged(weights, test)} if test else {}))
    try:
        if charged.steps != step:
            raise ValueError(
                f"{charged.steps} steps are paid for and {step} were made: norms of steps that were not made are not "
                "known; finish the run, or list where it may end"
            )
        price = realised_price(settings, norms, steps=step, n=examples.units, noise=noise)
    except ValueError as error:
        return replace(
            found,
            refusals=(Refusal(name="realised noisy sums", reason=str(error)), *found.refusals),
        )
    source = NoisySum(price=price, unit=examples.unit)
    law = around(data, weights, std=settings.thermal_std)
    evidence = fixed.standing(examples)
    risk = error_of(weights, data)
    made = weights_at(price, risk=risk, examples=examples, failure_prob=share, evidence=evidence)
    passes = passes_for(slack_nats=SLACK_NATS, n=data.n, failure_prob=MONTE_CARLO_SHARE * share)
    how = MonteCarlo(passes=passes, share=MONTE_CARLO_SHARE)
    at: dict[str, Any] = {
        "failure_prob": share,
        "settings": fixed,
        "seed": seed,
        "device": data.device,
    }
    gaussian = certify(law, examples, prior=Prior(law=law, source=source), network=data.model, test=tested,
                       monte_carlo=how, **at)  # fmt: skip
    first = replace(found, certificates=(made, *gaussian.certificates, *found.certificates))
    joined = first.joined(replace(gaussian, certificates=()))
    own = {"contributions": price.contributions, "gradients": step * settings.gradients_per_step}
    details = {**joined.details, "trajectory": own, "std": settings.thermal_std}
    return replace(joined, prior=gaussian.prior, rows=gaussian.rows, details=details)


def error_of(weights: Float[Tensor, " dim"], data: Objective) -> float:
    """The share of errors, or the mean over people of their own shares, rounded up."""
    return share_of_errors(weights, data) if data.people is None else _judged(weights, data).error


def _judged(weights: Float[Tensor, " dim"], data: Objective) -> Judged:
    """What the weights did on the examples of people."""
    examples = BoundSet.of_records(data)
    wrong = in_error(data.logits(weights), data.examples[1]).cpu().numpy()
    return Judged(data=examples, wrong=wrong, error=mean_of(wrong, examples), calibration=None)


def _of_people(found: Report, seen: Mapping[str, Judged]) -> Report:
    """The frame of an assessment with people as its records, and the weights' errors on them."""
    bound = seen["bound"].data
    why = "bounds of chains that have converged count examples, which are not independent where they belong to people"
    return replace(
        found, n=bound.units, unit=bound.unit, examples=bound.n, certificates=(), gibbs=None, privacy=None,
        measured=tuple(measured(seen, "weights")), refusals=(Refusal(name="bounds by stationarity", reason=why),),
    )  # fmt: skip
