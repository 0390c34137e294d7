"""A checkpoint put back together: problem, sampler, weights, and what the sampler promises about them.

What a checkpoint says is compared with its data, its network and its run: nothing that a certificate rests on is taken
from a header where it follows from something else.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import bounds
from pacdp.algorithms import KINDS, Chain, Settings, State, restore
from pacdp.certify import NoPrivacy, Report, certify
from pacdp.certify import Settings as ChoiceOfSettings
from pacdp.certify.gibbs import GibbsSettings, Progress
from pacdp.certify.priors import NOISE_OF_THE_RUN, NOISE_OF_THE_SYSTEM
from pacdp.certify.trajectory import NoisyRun, of_the_run
from pacdp.chains import SQUARED_NORMS, Batching, Keys, Layout, SecretKeys, keys_of
from pacdp.data import Dataset
from pacdp.errors import CheckpointError
from pacdp.losses import Loss
from pacdp.objective import Objective
from pacdp.posterior import LocalGibbs, Point
from pacdp.problem import Problem
from pacdp.step.langevin import Claim, accounted_privacy
from pacdp.step.planned_steps import ChargedSteps, Plan, charged_steps
from pacdp.store.canonical import described, digest
from pacdp.store.checkpoint import Checkpoint, load_checkpoint, save_checkpoint

_SETTINGS: dict[str, type[Settings]] = {kind.__name__: kind for kind in KINDS}


def sampler_from_dict(values: Mapping[str, Any]) -> Settings:
    """The settings of a chain, from what :func:`pacdp.store.canonical.described` made of them.

    Raises:
        ValueError: a kind of sampler that this version does not know.
    """
    fields = dict(values)
    kind = fields.pop("kind", None)
    if kind not in _SETTINGS:
        raise ValueError(f"expected a sampler of kind {', '.join(_SETTINGS)}, got {kind!r}")
    return _SETTINGS[kind](**fields)


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


@dataclass(frozen=True, slots=True, kw_only=True)
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
    def privacy(self) -> bounds.PureDP | Claim | NoPrivacy:
        """See :func:`privacy_of`."""
        return privacy_of(self.settings, oscillation=self.objective.loss.oscillation, n=self.objective.n,
                          step=self.state.step, plan=self.plan)  # fmt: skip

    @property
    def charged(self) -> ChargedSteps:
        """The steps that certificates pay for, and what shows that their number was fixed beforehand."""
        return charged_steps(self.plan, self.state.step)

    @property
    def noise(self) -> str:
        """Who vouches for the chain's noise."""
        return NOISE_OF_THE_SYSTEM if isinstance(self.keys, SecretKeys) else NOISE_OF_THE_RUN

    def posterior(self) -> LocalGibbs | Point:
        """The predictor that the weights stand for: the Gibbs classifier of Entropy-SG(L)D, else themselves."""
        return self.settings.posterior(self.weights)

    def assess(
        self,
        *,
        failure_prob: float = 0.05,
        settings: GibbsSettings | None = None,
        seed: int = 0,
        progress: Progress | None = None,
    ) -> Report:
        """Certificates of the posterior, with fresh randomness from ``seed``.

        A chain with ``clip_norm`` has rigorous ones by its accounted privacy, before the optimistic ones, and one that
        kept its norms those of its trajectory.
        """
        own = self.settings
        clipped, by_person = (
            own.clip_norm is not None,
            own.keep_norms and self.objective.people is not None,
        )
        posterior = Point(weights=self.weights) if by_person else self.posterior()
        data = self.objective.unclipped() if clipped else self.objective
        privacy = own.target_privacy(
            oscillation=data.loss.oscillation, n=data.n, step=self.state.step
        )
        share = failure_prob / self.charged.stopping_times
        drawn: dict[str, Any] = {"gibbs": settings, "seed": seed, "progress": progress}
        found = certify(posterior, data, prior=privacy, failure_prob=share, test=self.test, settings=self.fixed,
                        **(drawn if isinstance(posterior, LocalGibbs) else {}))  # fmt: skip
        covers, noise = of_the_run(self.noise)
        found = found.resting_on(covers, noise, beside=covers.name)
        run = NoisyRun(
            settings=own, weights=self.weights, charged=self.charged, step=self.state.step,
            norms=self.checkpoint.trace.get(SQUARED_NORMS), data=self.objective, test=self.test, seed=seed,
            fixed=self.fixed, noise=self.noise,
        )  # fmt: skip
        if clipped:
            found = run.accounted(found)
        if own.keep_norms:
            found = run.recorded(found)
        if self.records is not None:
            found = found.resting_on(self.records, beside=self.records.name)
        return found.at_any_of(self.charged, failure_prob=failure_prob / self.fixed.count)


def load_trained(
    path: Path | str, *, data_root: str | None = None, device: torch.device | str = "cpu", progressbar: bool = False,
    in_bytes: bool = False,
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
    train, test = problem.data(root=data_root, progressbar=progressbar)
    require_data(path, checkpoint, train, test)
    objective, held_out = objectives(
        problem, settings, train, test, device=device, in_bytes=in_bytes
    )
    plan = require_consistent(path, header, objective)
    require_network(path, checkpoint, objective)
    state = chain_state(checkpoint, settings, objective.layout, device)
    return Trained(checkpoint=checkpoint, problem=problem, settings=settings, objective=objective, test=held_out,
                   weights=state.weights[0], state=state, keys=keys, plan=plan,
                   records=_records(train, settings))  # fmt: skip


def require_consistent(
    path: Path | str, header: Mapping[str, Any], objective: Objective
) -> Plan | None:
    """The plan that a header holds, once what it says of data, loss, steps and run was found to be what they are.

    Raises:
        CheckpointError: it names what differs.
    """
    loss, run = objective.loss, header.get("run") or {}
    expected = {"n": objective.n, "loss": interval(loss)}
    expected |= {name: run[name] for name in ("problem", "sampler", "seed", "chain") if name in run}
    expected |= {"config_hash": digest(run)} if "config_hash" in header else {}
    by_person = objective.keep_norms and objective.people
    expected |= {"people": by_person.to_dict() if by_person else None}
    for name, value in expected.items():
        if header.get(name) != value:
            said = f"{name} = {header.get(name)!r}, but its run and data make it {value!r}"
            if len(said) > 120:
                said = f"another {name} than its run and data make it"
            raise CheckpointError(
                f"{path} says {said}: its header was changed; take it from its source again, or train again"
            )
    try:
        plan = Plan.from_header(header)
        charged_steps(plan, header["step"])
    except ValueError as error:
        raise CheckpointError(f"{path} has a header with impossible steps: {error}") from error
    return plan


def require_network(path: Path | str, checkpoint: Checkpoint, objective: Objective) -> None:
    """Refuse tensors that are not the parameters of the objective's network.

    Raises:
        CheckpointError: names or shapes differ.
    """
    here = {
        name: tuple(view.shape)
        for name, view in objective.layout.views(objective.weights()[0]).items()
    }
    saved = {name: tuple(value.shape) for name, value in checkpoint.model.items()}
    if saved != here:
        raise CheckpointError(
            f"{path} holds tensors of another network than its problem describes: take it from its source again"
        )


def require_data(path: Path | str, checkpoint: Checkpoint, train: Dataset, test: Dataset) -> None:
    """Refuse data that the checkpoint was not trained on.

    Raises:
        CheckpointError: it names the part and the two hashes.
    """
    for role, data in (("train", train), ("test", test)):
        trained_on = checkpoint.header["data"][role]
        if data.hash != trained_on:
            raise CheckpointError(
                f"{path} was trained on {role} data with hash {trained_on[:12]}, but {data.name} here has "
                f"{data.hash[:12]}: give the data it was trained on"
            )


def interval(loss: Loss) -> dict[str, Any]:
    """What a header says of the loss."""
    return {"name": loss.name, "low": loss.low, "high": loss.high, "oscillation": loss.oscillation}


def _records(data: Dataset, settings: Settings) -> bounds.Hypothesis | None:
    if data.people is None or settings.keep_norms:
        return None
    by = f"{data.name} says whose its examples are, and a chain's certificates count examples, not {data.unit}s"
    return bounds.unproved("records independent", by, "example")


def chain_state(
    checkpoint: Checkpoint, settings: Settings, layout: Layout, device: torch.device | str
) -> State:
    """The sampler's state, of one chain, that a checkpoint holds."""
    tensors = {name: tensor.to(device)[None] for name, tensor in checkpoint.state.items()}
    weights = layout.flatten(checkpoint.model).to(device)[None]
    return restore(settings, {"weights": weights, **tensors}, checkpoint.header["step"])


def first_model(problem: Problem, data: Dataset, *, seed: int, chain: int = 0) -> nn.Module:
    """The network that a chain starts from: independent for different seeds and chains."""
    return problem.model(data, generator=torch.Generator().manual_seed(_initial_seed(seed, chain)))


def _initial_seed(seed: int, chain: int) -> int:
    # torch's generators on the CPU read no more than 32 bits of a seed
    return int(np.random.SeedSequence(seed, spawn_key=(chain,)).generate_state(1)[0])


def objectives(
    problem: Problem, settings: Settings, train: Dataset, test: Dataset, *, device: torch.device | str,
    labels: tuple[Sequence[np.ndarray], Sequence[np.ndarray]] | None = None, batching: Batching = "auto",
    bfloat16: bool = False, in_bytes: bool = False,
) -> tuple[Objective, Objective]:  # fmt: skip
    """The empirical risk on the training set and the one on the test set; ``labels`` are those of each chain."""
    generator = torch.Generator().manual_seed(0)
    own = labels or (None, None)
    objective = problem.objective(
        train, generator=generator, batch_size=settings.batch_size, clip_norm=settings.clip_norm, labels=own[0],
        device=device, batching=batching, bfloat16=bfloat16, keep_norms=settings.keep_norms,
        every_record=settings.every_record, in_bytes=in_bytes,
    )  # fmt: skip
    held_out = problem.objective(
        test, generator=generator, batch_size=settings.batch_size, labels=own[1], device=device, batching=batching,
        bfloat16=bfloat16, in_bytes=in_bytes and settings.clip_norm is None and not settings.keep_norms,
    )  # fmt: skip
    return objective, held_out


def save_trained(
    path: Path | str, *, problem: Problem, settings: Settings, objective: Objective, hashes: Mapping[str, str],
    state: Any, seed: int, chain: int = 0, run: Mapping[str, Any], trace: Mapping[str, Tensor] | None = None,
    runtime: Mapping[str, Any] | None = None, plan: Plan | None = None,
    private: Mapping[str, Any] | None = None,
) -> None:  # fmt: skip
    """Write one chain as it stands, with all that certifying and resuming need. ``run`` is carried as it is.

    Args:
        plan: the number of steps, as it was fixed before the first; without one, nothing shows that it was.
        private: JSON values that a private chain keeps for itself: "noise_key", "ledger".
    """
    tensors = {
        name: value[0] for name, value in state._asdict().items() if isinstance(value, Tensor)
    }
    weights = tensors.pop("weights")
    header = {
        "problem": problem.to_dict(),
        "sampler": described(settings),
        "step": state.step,
        "seed": seed,
        "chain": chain,
        "n": objective.n,
        "data": dict(hashes),
        "loss": interval(objective.loss),
        "device": objective.device.type,
        "runtime": dict(runtime or {}),
        "run": dict(run),
        "config_hash": digest(dict(run)),
        **(plan.to_header() if plan else {}),
        **(
            {"people": objective.people.to_dict()}
            if objective.people and settings.keep_norms
            else {}
        ),
        **(private or {}),
    }
    checkpoint = Checkpoint(
        header=header, model=objective.layout.views(weights), state=tensors, trace=trace or {}
    )
    save_checkpoint(path, checkpoint)
