"""Certificates of chains by what their steps cost: whether the chain has converged does not matter.

Each step adds Gaussian noise to a sum of gradients over the records, and what it released may be used on the same
records at a price of Λ nats:

    R(w) ≤ kl⁻¹(R̂(w), Λ/n)                                        the weights themselves
    R(Q) ≤ kl⁻¹(R̂(Q), (KL(Q‖P) + ln ξ(n) + Λ)/n)                  any Q, with P = N(w, s² I) as prior

The second holds for all Q at once, also for one that was trained on from w without any noise or clipping. Λ is

- of a chain with clipped gradients, its accounted privacy (:mod:`pacdp.step.langevin`), or for the weights the smaller
  price of noisy sums over secret Poisson batches;
- of a chain that kept what it added up, the least of α V/2 + (α/(α-1)) ln(1/failure_prob) over a fixed grid of α, each
  order of which is paid for, where V adds up the squared norms of all that the records added to the sums, each over
  the variance of its step's noise. The weights then pay for ln ξ(n) too.

Both are in "Noisy sums" of docs/guarantees.md. Where the data name people and norms were kept, people are the records:
n counts them, what one adds to a sum is the mean of all their gradients, and R is the risk for a new person.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from jaxtyping import Float
from torch import Tensor

import bounds
from bounds.accounting import Composed, Event, Gaussian
from bounds.hypotheses import Hypothesis, declared, proved
from pacdp.algorithms import Chain
from pacdp.certify.chain import UNCLIPPED
from pacdp.certify.evidence import evidence_of, resting
from pacdp.certify.examples import BoundSet
from pacdp.certify.gaussian import MonteCarlo
from pacdp.certify.networks import released_certificate
from pacdp.certify.outputs import answers_of, error_share
from pacdp.certify.priors import (
    NOISE_OF_THE_RUN,
    NoisySum,
    Prior,
    Private,
    price_of,
    privacy_to_dict,
)
from pacdp.certify.reading import Seen
from pacdp.certify.routes import certify
from pacdp.certify.settings import Settings
from pacdp.objective import Objective
from pacdp.posterior import GaussianPosterior
from pacdp.predictions.report import Refusal, Report
from pacdp.step.langevin import accounted_privacy, accounted_to_dict
from pacdp.step.planned_steps import ChargedSteps
from pacdp.stochastic import passes_for

START_OF_THE_RUN = "the run, whose first weights are drawn from its seed"
"""Who vouches for the first weights of a chain."""
MONTE_CARLO_SHARE = 0.02
SLACK_NATS = 1e-4


def of_the_run(noise: str) -> tuple[Hypothesis, Hypothesis]:
    """What a checkpoint shows of a promise of privacy, and who vouches for its noise."""
    by = "the checkpoint: the run saw the data of this hash and no others"
    return proved("privacy covers these rows", by), declared("noise secret or independent", noise)


def poisson_sums(event: Event, *, whose: str, noise: str) -> bounds.PoissonSum:
    """The price of what ``event`` released, each step one sum of clipped contributions over a secret Poisson batch.

    Args:
        whose: what shows that noise enters each sum, that contributions are clipped, and that the schedule is fixed.
        noise: who vouches for noise and batches.

    Raises:
        ValueError: a step of the event is no such sum.
    """
    known = (
        *_of_noisy_sums(
            f"{whose}: noise is added to each sum, and the rest computes with it",
            f"{whose}, of which step sizes and noise scales are functions",
            noise=noise,
            start=START_OF_THE_RUN,
        ),
        declared("batches secret and Poisson", noise),
        proved("contributions bounded", f"{whose}: each contribution is clipped"),
    )
    return bounds.poisson_sum(event=event, hypotheses=known)


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
    drawn = "batches drawn without the records"
    if settings.every_record:
        batches = proved(drawn, "the settings: every record is in every batch")
    else:
        batches = declared(drawn, "the run, whose batches are drawn from its seed")
    each = f"the run, which kept one sum for each of its {gradients} gradients"
    known = (
        *_of_noisy_sums(
            f"the settings of {settings.name}: noise is added to each sum of gradients, and the rest computes with "
            "that",
            "the settings, of which step sizes and noise scales are functions",
            noise=noise,
            start=start,
        ),
        batches,
        declared("norms of all records kept", f"{each}; pacdp verify with data takes some again"),
    )
    return bounds.noisy_sum_realised(
        event=noisy_sums_event(settings, steps),
        squared_norms=norms.tolist(),
        records=n,
        hypotheses=known,
    )


def _of_noisy_sums(sums: str, schedule: str, *, noise: str, start: str) -> Iterator[Hypothesis]:
    """What both prices take for true, and who shows it or vouches for it."""
    yield proved("records enter by noisy sums", sums)
    yield declared("noise secret or independent", noise)
    yield proved("schedule blind to the records", schedule)
    yield declared("first weights independent", start)


def weights_at(
    source: Private | NoisySum,
    *,
    risk: float,
    examples: BoundSet,
    failure_prob: float,
    fixed: Settings,
) -> bounds.Certificate:
    """Weights as they are, of this error on ``examples``, at the price of where they came from."""
    made = released_certificate(
        risk,
        n=examples.units,
        price=price_of(source),
        failure_prob=failure_prob,
        measures=examples.risk(),
    )
    evidence, _ = evidence_of(source, examples, None)
    return resting(made, evidence, fixed.standing(examples))


def around(data: Objective, weights: Float[Tensor, " dim"], *, std: float) -> GaussianPosterior:
    """N(weights, std² I)."""
    means = {name: view.detach().clone() for name, view in data.layout.views(weights).items()}
    return GaussianPosterior(
        means=means, stds={name: mean.new_tensor(std) for name, mean in means.items()}
    )


def error_of(weights: Float[Tensor, " dim"], data: Objective) -> float:
    """The share of errors, or the mean over people of their own shares, rounded up."""
    if data.people is not None:
        return _seen(weights, data).error
    (risks,) = data.risks(weights[None])
    return error_share(risks.errors, risks.n)


def _seen(weights: Float[Tensor, " dim"], data: Objective) -> Seen:
    """What the weights did on the examples of people."""
    labels = data.examples[1].cpu()
    answers = answers_of(data.logits(weights).cpu(), labels)
    return Seen(examples=BoundSet.of_records(data), labels=labels.numpy(), answers=answers)


@dataclass(frozen=True, slots=True, kw_only=True)
class NoisyRun:
    """A chain that added noise at every step, where it ended, and its data.

    Attributes:
        charged: the steps that are paid for, fixed before the chain began (:mod:`pacdp.step.planned_steps`).
        step: how many were made.
        norms: what the chain kept at each gradient.
        fixed: who fixed the settings; what their choice costs is paid in the failure probability of what was found.
        noise: who vouches for the chain's noise.
    """

    settings: Chain
    weights: Float[Tensor, " dim"]
    charged: ChargedSteps
    step: int
    norms: Float[Tensor, " gradients"] | None
    data: Objective
    test: Objective | None
    seed: int
    fixed: Settings
    noise: str

    def accounted(self, found: Report) -> Report:
        """The report on a clipped chain with its rigorous certificates in front, and what the chain spent.

        The optimistic certificates of ``found`` are about the chain without clipping, and are labelled so.

        Raises:
            ValueError: the data's batches or clipping are not those of the settings.
        """
        settings, steps = self.settings, self.charged.steps
        require_own_batches(settings, self.data)
        examples, event = BoundSet.behind(self.data), settings.promise(self.data.n, steps)
        claim = accounted_privacy(settings, n=self.data.n, steps=steps)
        source = Private(privacy=claim, rows=examples.rows, noise=self.noise)
        sources: list[Private | NoisySum] = [source]
        if event is not None:
            whose = f"the settings of {settings.name}"
            sums = poisson_sums(event, whose=whose, noise=self.noise)
            sources.insert(0, NoisySum(price=sums))
        gaussian = self._around(source, found, examples, self.test and BoundSet.behind(self.test))
        weights = [self._as_they_are(one, found, examples) for one in sources]
        optimistic = (
            one.resting_on(UNCLIPPED) if one.status == "optimistic" else one
            for one in found.certificates
        )
        joined = self._joined(
            replace(found, certificates=tuple(optimistic)),
            [*gaussian.certificates, *weights],
            gaussian,
            accounted=accounted_to_dict(event),
            charged_steps=steps,
            stopping_times=self.charged.stopping_times,
        )
        shown = of_the_run(self.noise)
        joined = joined.resting_on(*shown, beside=shown[0].name)
        return replace(joined, privacy=privacy_to_dict(claim))

    def recorded(self, found: Report) -> Report:
        """The report with the certificates of the norms that were kept in front, or the reason why there are none.

        Where the data name people, ``found`` counts examples: its certificates and counts make room for those of
        people.
        """
        if self.data.people is not None:
            found = self._of_people(found)
        examples = BoundSet.of_records(self.data)
        try:
            if self.charged.steps != self.step:
                raise ValueError(
                    f"{self.charged.steps} steps are paid for and {self.step} were made: norms of steps that were not "
                    "made are not known; finish the run, or list where it may end"
                )
            price = realised_price(
                self.settings, self.norms, steps=self.step, n=examples.units, noise=self.noise
            )
        except ValueError as error:
            refused = Refusal(name="realised noisy sums", reason=str(error))
            return replace(found, refusals=(refused, *found.refusals))
        source = NoisySum(price=price, unit=examples.unit)
        tested = self.test and BoundSet.of_records(self.test)
        gaussian = self._around(source, found, examples, tested)
        weights = self._as_they_are(source, found, examples)
        gradients = self.step * self.settings.gradients_per_step
        own = {"contributions": price.contributions, "gradients": gradients}
        return self._joined(found, [weights, *gaussian.certificates], gaussian, trajectory=own)

    def _as_they_are(
        self, source: Private | NoisySum, found: Report, examples: BoundSet
    ) -> bounds.Certificate:
        risk = error_of(self.weights, self.data)
        return weights_at(
            source, risk=risk, examples=examples, failure_prob=found.failure_prob, fixed=self.fixed
        )

    def _around(
        self,
        source: Private | NoisySum,
        found: Report,
        examples: BoundSet,
        test: BoundSet | None,
    ) -> Report:
        """The Gaussian around the weights, which is the prior itself, at no divergence."""
        data, share = self.data, found.failure_prob
        law = around(data, self.weights, std=self.settings.thermal_std)
        passes = passes_for(slack_nats=SLACK_NATS, n=data.n, failure_prob=MONTE_CARLO_SHARE * share)
        return certify(
            law, examples, prior=Prior(law=law, source=source), network=data.model, test=test,
            monte_carlo=MonteCarlo(passes=passes, share=MONTE_CARLO_SHARE), failure_prob=share,
            settings=replace(self.fixed, count=1), seed=self.seed, device=data.device,
        )  # fmt: skip

    def _joined(
        self,
        found: Report,
        certificates: list[bounds.Certificate],
        gaussian: Report,
        **details: Any,
    ) -> Report:
        """The frame of ``found`` with these certificates in front, and all else of the Gaussian's."""
        first = replace(found, certificates=(*certificates, *found.certificates))
        joined = first.joined(replace(gaussian, certificates=()))
        told = {**joined.details, **details, "std": self.settings.thermal_std}
        return replace(joined, prior=gaussian.prior, rows=gaussian.rows, details=told)

    def _of_people(self, found: Report) -> Report:
        """The frame of a report with people as its records, and the weights' errors on them."""
        seen = {"bound": _seen(self.weights, self.data)}
        seen |= {"test": _seen(self.weights, self.test)} if self.test else {}
        bound = seen["bound"].examples
        why = (
            "bounds of chains that have converged count examples, which are not independent where they belong to "
            "people"
        )
        return replace(
            found, n=bound.units, unit=bound.unit, examples=bound.n, certificates=(), gibbs=None, privacy=None,
            measured=tuple(one.measured("weights", on) for on, one in seen.items()),
            refusals=(Refusal(name="bounds by stationarity", reason=why),),
        )  # fmt: skip


def require_own_batches(settings: Chain, data: Objective) -> None:
    """Refuse an objective whose gradients are not those that the settings' accounting is about.

    Raises:
        ValueError: another clip norm or batch size.
    """
    if (data.clip_norm, data.batch_size) != (settings.clip_norm, settings.batch_size):
        raise ValueError(
            f"expected an objective with clip_norm={settings.clip_norm} and batch_size={settings.batch_size}, which "
            f"the accounting is about, got {data.clip_norm} and {data.batch_size}"
        )
