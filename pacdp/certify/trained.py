"""A checkpoint put back together: problem, sampler, weights, and what the sampler promises about them.

What a checkpoint says is compared with its data, its network and its run: nothing that a certificate rests on is taken
from a header where it follows from something else.
"""

from collections.abc import Callable
from dataclasses import field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import bounds
from pacdp.algorithms import Chain, Settings
from pacdp.certify import NoPrivacy, Report, certify
from pacdp.certify import Settings as ChoiceOfSettings
from pacdp.certify.chain import UNCLIPPED
from pacdp.certify.chain_files import (
    chain_state,
    objectives,
    require_consistent,
    require_data,
    sampler_from_dict,
)
from pacdp.certify.examples import BoundSet
from pacdp.certify.gaussian import MonteCarlo
from pacdp.certify.gibbs import GibbsSettings, Progress
from pacdp.certify.priors import (
    NOISE_OF_THE_RUN,
    NOISE_OF_THE_SYSTEM,
    NoisySum,
    Prior,
    Private,
    Source,
    privacy_to_dict,
)
from pacdp.certify.trajectory import (
    around,
    error_of,
    poisson_sums,
    realised_price,
    seen_of,
    weights_at,
)
from pacdp.chains import SQUARED_NORMS, Keys, SecretKeys, keys_of
from pacdp.data import Dataset
from pacdp.errors import CheckpointError
from pacdp.objective import Objective
from pacdp.posterior import LocalGibbs, Point
from pacdp.predictions.report import Refusal
from pacdp.problem import Problem
from pacdp.step.langevin import Claim, accounted_privacy, accounted_to_dict
from pacdp.step.planned_steps import ChargedSteps, Plan, charged_steps
from pacdp.stochastic import passes_for
from pacdp.store.checkpoint import Checkpoint, load_checkpoint
from pacdp.store.record import Values, record

MONTE_CARLO_SHARE = 0.02
SLACK_NATS = 1e-4


def privacy_of(
    settings: Chain,
    *,
    oscillation: float,
    n: int,
    step: int | None = None,
    plan: Plan | None = None,
) -> bounds.PureDP | Claim | NoPrivacy:
    """What the sampler promises: its steps where they are private mechanisms, else its target distribution.

    Chains with ``clip_norm`` are accounted for step by step, add-remove (:mod:`pacdp.step.langevin`), whether or not
    they have converged. All else assumes stationarity, under replace-one adjacency: ``target_privacy`` of the settings.
    ``step`` is how many steps the chain has made; with a ``plan``, a clipped chain pays for what
    :meth:`pacdp.step.planned_steps.Plan.charged` says.
    """
    if settings.clip_norm is None:
        return settings.target_privacy(oscillation=oscillation, n=n, step=step)
    if step is None:
        return NoPrivacy(
            reason="a clipped chain is as private as its steps: say how many it has made"
        )
    return accounted_privacy(settings, n=n, steps=plan.charged(step).steps if plan else step)


@record
class Trained:
    """What a checkpoint says, with its data and network rebuilt and checked against it."""

    checkpoint: Checkpoint
    problem: Problem
    settings: Settings
    objective: Objective
    test: Objective
    weights: Tensor
    """[dim]"""
    state: Any
    """The sampler's state, of one chain, ready to go on."""
    keys: Keys
    """The chain's keys."""
    plan: Plan | None = None
    """The number of steps, as it was written down before the first; None in checkpoints of earlier versions."""
    fixed: ChoiceOfSettings = field(default_factory=ChoiceOfSettings.declared)
    """Who fixed the settings, and what certificates pay for the choice of them."""
    records: bounds.Hypothesis | None = None
    """"records independent", where the data set names people and the chain kept no norms of what each of them added."""

    @property
    def charged(self) -> ChargedSteps:
        """The steps that certificates pay for, and what shows that their number was fixed beforehand."""
        return charged_steps(self.plan, self.state.step)

    @property
    def noise(self) -> str:
        """Who vouches for the chain's noise."""
        return NOISE_OF_THE_SYSTEM if isinstance(self.keys, SecretKeys) else NOISE_OF_THE_RUN

    def assess(
        self,
        *,
        failure_prob: float = 0.05,
        settings: GibbsSettings | None = None,
        seed: int = 0,
        progress: Progress | None = None,
    ) -> Report:
        """Certificates of the posterior, with randomness from ``seed``; ``settings`` are the effort for a Gibbs one.

        A chain with ``clip_norm`` has rigorous ones by its accounted privacy, before the optimistic ones, and one that
        kept its norms those of its trajectory.
        """
        own, clipped = self.settings, self.settings.clip_norm is not None
        by_person = own.keep_norms and self.objective.people is not None
        posterior = Point(weights=self.weights) if by_person else own.posterior(self.weights)
        data = self.objective.unclipped() if clipped else self.objective
        privacy = own.target_privacy(
            oscillation=data.loss.oscillation, n=data.n, step=self.state.step
        )
        share = failure_prob / self.charged.stopping_times
        drawn: Values = {"gibbs": settings, "seed": seed, "progress": progress}
        found = certify(posterior, data, prior=privacy, failure_prob=share, test=self.test, settings=self.fixed,
                        **(drawn if isinstance(posterior, LocalGibbs) else {}))  # fmt: skip
        if clipped:
            found = self._accounted(found, seed)
        if own.keep_norms:
            found = self._recorded(found, seed)
        by = "the checkpoint: the run saw the data of this hash and no others"
        covers = bounds.proved("privacy covers these rows", by)
        noise = bounds.declared("noise secret or independent", self.noise)
        found = found.resting_on(covers, noise, beside=covers.name)
        if self.records is not None:
            found = found.resting_on(self.records, beside=self.records.name)
        return found.at_any_of(self.charged, failure_prob=failure_prob / self.fixed.count)

    def _accounted(self, found: Report, seed: int) -> Report:
        """The report on a clipped chain with its rigorous certificates in front, and what the chain spent.

        The optimistic certificates of ``found`` are about the chain without clipping, and are labelled so.
        """
        settings, charged, n = self.settings, self.charged, self.objective.n
        examples, event = BoundSet.behind(self.objective), settings.promise(n, charged.steps)
        claim = accounted_privacy(settings, n=n, steps=charged.steps)
        sources: list[Source] = [Private(privacy=claim, rows=examples.rows, noise=self.noise)]
        if event is not None:
            whose = f"the settings of {settings.name}"
            sums = poisson_sums(event, whose=whose, noise=self.noise)
            sources.insert(0, NoisySum(price=sums))
        found = found.each(
            lambda one: one.resting_on(UNCLIPPED) if one.status == "optimistic" else one
        )
        found = replace(found, privacy=privacy_to_dict(claim))
        told: Values = {"charged_steps": charged.steps, "stopping_times": charged.stopping_times}
        return self._paid(
            found, sources, seed, BoundSet.behind, accounted=accounted_to_dict(event), **told
        )

    def _recorded(self, found: Report, seed: int) -> Report:
        """The report with the certificates of the norms that were kept in front, or the reason why there are none.

        Where the data name people, ``found`` counts examples: its certificates and counts make room for those of
        people.
        """
        if self.objective.people is not None:
            found = self._of_people(found)
        examples, steps = BoundSet.of_records(self.objective), self.state.step
        try:
            if self.charged.steps != steps:
                raise ValueError(
                    f"{self.charged.steps} steps are paid for and {steps} were made: norms of steps that "
                    "were not made are not known; finish the run, or list where it may end"
                )
            norms = self.checkpoint.trace.get(SQUARED_NORMS)
            price = realised_price(
                self.settings, norms, steps=steps, n=examples.units, noise=self.noise
            )
        except ValueError as error:
            refused = Refusal(name="realised noisy sums", reason=str(error))
            return replace(found, refusals=(refused, *found.refusals))
        gradients = steps * self.settings.gradients_per_step
        own = {"contributions": price.contributions, "gradients": gradients}
        sources: list[Source] = [NoisySum(price=price, unit=examples.unit)]
        return self._paid(found, sources, seed, BoundSet.of_records, trajectory=own)

    def _paid(
        self, found: Report, sources: list[Source], seed: int, read: Callable[[Objective], BoundSet],
        **details: Any
    ) -> Report:  # fmt: skip
        """The frame of ``found`` with the weights as they are at each price in front, and the Gaussian around them.

        The Gaussian, whose prior is itself, pays the last of the prices. ``read`` says what the records are.
        """
        data, share, std = self.objective, found.failure_prob, self.settings.thermal_std
        examples, test = read(data), read(self.test)
        risk = error_of(self.weights, data, examples)
        how: Values = {"examples": examples, "failure_prob": share, "fixed": self.fixed}
        weights = [weights_at(one, risk=risk, **how) for one in sources]
        law = around(data, self.weights, std=std)
        passes = passes_for(slack_nats=SLACK_NATS, n=data.n, failure_prob=MONTE_CARLO_SHARE * share)
        gaussian = certify(
            law, examples, prior=Prior(law=law, source=sources[-1]), network=data.model, test=test,
            monte_carlo=MonteCarlo(passes=passes, share=MONTE_CARLO_SHARE), failure_prob=share,
            settings=replace(self.fixed, count=1), seed=seed, device=data.device
        )  # fmt: skip
        made = gaussian.certificates
        made = (*weights, *made) if self.settings.keep_norms else (*made, *weights)
        first = replace(found, certificates=(*made, *found.certificates))
        joined = first.joined(replace(gaussian, certificates=()))
        told = {**joined.details, **details, "std": std}
        return replace(joined, prior=gaussian.prior, rows=gaussian.rows, details=told)

    def _of_people(self, found: Report) -> Report:
        """The frame of a report with people as its records, and the weights' errors on them."""
        sets = {"bound": self.objective, "test": self.test}
        seen = {on: seen_of(self.weights, data) for on, data in sets.items()}
        bound = seen["bound"]
        why = (
            "bounds of chains that have converged count examples, which are not independent where they belong to "
            "people"
        )
        return replace(
            found, n=bound.units, unit=bound.unit, examples=bound.n, certificates=(), gibbs=None, privacy=None,
            measured=tuple(one.measured(on) for on, one in seen.items()),
            refusals=(Refusal(name="bounds by stationarity", reason=why),)
        )  # fmt: skip


def load_trained(
    path: Path | str, *, data_root: str | None = None, device: torch.device | str = "cpu",
    in_bytes: bool = False
) -> Trained:  # fmt: skip
    """Read a checkpoint, find its data, rebuild its network.

    With ``in_bytes`` images of bytes stay so where :class:`pacdp.objective.Objective` can compute with them.

    Raises:
        CheckpointError: the file is no checkpoint (see ``load_checkpoint``), the data found here is not the data it was
            trained on, or its header contradicts itself or them.
    """
    checkpoint = load_checkpoint(path)
    header = checkpoint.header
    try:
        problem = Problem.from_dict(header["problem"])
        settings = sampler_from_dict(header["sampler"])
        _ = [header["data"][role] for role in ("train", "test")], header["step"]
        keys = keys_of(header)
    except (KeyError, TypeError) as error:
        raise CheckpointError(
            f"{path} does not say how it was trained ({error}): only checkpoints of a training run of this version can "
            "be certified or resumed"
        ) from error
    train, test = problem.data(root=data_root)
    require_data(path, checkpoint, train, test)
    objective, held_out = objectives(
        problem, settings, train, test, device=device, in_bytes=in_bytes
    )
    plan = require_consistent(path, checkpoint, objective)
    state = chain_state(checkpoint, settings, objective.layout, device)
    return Trained(checkpoint=checkpoint, problem=problem, settings=settings, objective=objective, test=held_out,
                   weights=state.weights[0], state=state, keys=keys, plan=plan,
                   records=records_of(train, settings))  # fmt: skip


def records_of(data: Dataset, settings: Settings) -> bounds.Hypothesis | None:
    """That a chain which kept no norms of people counts their examples as if they were independent."""
    if data.people is None or settings.keep_norms:
        return None
    by = f"{data.name} says whose its examples are, and a chain's certificates count examples, not {data.unit}s"
    return bounds.unproved("records independent", by, "example")
