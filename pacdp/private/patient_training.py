"""The loop of patient-level training: Poisson samples of patients, one clipped contribution each, noise, checkpoints.

An algorithm is a frozen record of settings; :class:`PatientRecipe` is what the loop needs to know of it. What every
step costs is known before training, so that a budget fixes the number of steps beforehand, and stopping releases
nothing.
"""

import copy
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

import torch
from jaxtyping import Float, Integer
from torch import Tensor, nn
from torch.utils.data import Dataset

from pacdp.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from pacdp.errors import CheckpointError, Diverged
from pacdp.private.independence import PerExampleLoss, made_up_batch, require_independent_examples
from pacdp.private.patients import (
    Network,
    PatientBatch,
    PatientData,
    PatientFunction,
    PatientHistory,
    PatientMechanism,
    PatientSteps,
    Weights,
    clipped_sum,
    each_patient,
    mean_loss,
    merged,
)
from pacdp.private.processes import process_count
from pacdp.private.random_layers import generators, layer_states, random_state, restore_layers, rewind
from pacdp.private.training import describe
from pacdp.step.noise import Randomness, SystemRandomness

KIND = "patient-training/1"
Score = Callable[[Weights], Float[Tensor, " patients"]]
"""Mean loss of each sampled patient at other weights; private."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PatientBudget:
    """(epsilon, delta) that a run may spend, add-remove adjacency of patients."""

    epsilon: float
    delta: float


class PatientProgress(NamedTuple):
    """For the operator's eyes: both counts are private data and may not be published."""

    step: int
    steps: int
    private_patients: int
    private_nonfinite: int
    """Patients of the step whose contribution was not finite and counted as zero."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PatientRun:
    """What patient-level training returns."""

    weights: Weights
    """Parameter name to value; private."""
    history: PatientHistory
    """What weights and choices together cost."""
    chosen: Integer[Tensor, " steps"]
    """The candidate that each step selected; private. Zeros where nothing is selected."""


class Moved(NamedTuple):
    """New weights, and which candidate they are."""

    weights: Weights
    chosen: int


class PatientRecipe(NamedTuple):
    """An algorithm as the loop sees it."""

    settings: Any
    mechanism: PatientMechanism
    contribution: PatientFunction
    """Of one patient, before clipping."""
    cost: Callable[[int], PatientSteps]
    """Of one step, without looking at data."""
    move: Callable[[int, Weights, Weights, Score, Randomness], Moved]
    """From step, weights and clipped sum; adds the noise that ``cost`` states."""
    width: int | None = None
    """Records of a patient in one batch; all by default."""


@runtime_checkable
class PatientAlgorithm(Protocol):
    """Settings of a patient-level algorithm."""

    def recipe(self) -> PatientRecipe:
        """What the loop needs to know."""
        ...


def planned_patients(algorithm: PatientAlgorithm, *, steps: int | None = None) -> PatientHistory:
    """The history that the first ``steps`` steps will have; all of them by default."""
    recipe = algorithm.recipe()
    count = recipe.mechanism.steps if steps is None else steps
    return PatientHistory(runs=merged(recipe.cost(step) for step in range(count)))


def affordable_steps(algorithm: PatientAlgorithm, budget: PatientBudget) -> int:
    """How many of the steps keep to the budget: with one step more the accountant's upper bound would exceed it.

    Raises:
        ValueError: delta out of range, or not even one step.
    """

    def keeps(steps: int) -> bool:
        return planned_patients(algorithm, steps=steps).epsilon(budget.delta).upper <= budget.epsilon

    low, high = 0, algorithm.recipe().mechanism.steps + 1
    middle = high - 1
    while high - low > 1:
        low, high = (middle, high) if keeps(middle) else (low, middle)
        middle = (low + high) // 2
    if low == 0:
        raise ValueError(
            f"budget of epsilon {budget.epsilon} at delta {budget.delta} does not pay for one step: raise the noise, "
            "lower sample_rate or raise the budget"
        )
    return low


def train_patients(
    algorithm: PatientAlgorithm,
    module: nn.Module,
    dataset: Dataset[Any],
    patient_of: Tensor,
    *,
    loss: PerExampleLoss,
    budget: PatientBudget | None = None,
    randomness: Randomness | None = None,
    progress: Callable[[PatientProgress], None] | None = None,
    checkpoint: Path | str | None = None,
    checkpoint_every: int = 0,
    about: Mapping[str, Any] | None = None,
) -> PatientRun:
    """Train a copy of ``module`` on (input, target) records; go on from ``checkpoint`` if that file exists.

    Args:
        patient_of: the patient's number for each record, (records,), integers.
        loss: per-record losses of (outputs, targets), shape (batch,).
        budget: training ends before the step that would overspend it.
        randomness: the operating system's generator by default.
        progress: called after every step.
        checkpoint: written every ``checkpoint_every`` steps, if that is positive, and at the end.
        about: JSON values for the checkpoint's header, under "about": which data, which network.

    Raises:
        ValueError: dependent examples, numbers out of range, or a budget that pays for no step.
        CheckpointError: the checkpoint is another run's, or has spent more than the budget.
        Diverged: a weight is not finite.
    """
    if process_count() > 1:
        raise ValueError("patient-level training runs in one process: each of several would train, and spend, alone")
    recipe = algorithm.recipe()
    steps = recipe.mechanism.steps if budget is None else affordable_steps(algorithm, budget)
    module, data = copy.deepcopy(module).train(), PatientData.group(dataset, patient_of)
    randomness = SystemRandomness() if randomness is None else randomness
    for name, generator in generators(module).items():
        generator.manual_seed(randomness.generator(name).initial_seed())
    trainable = {k: p.detach().clone() for k, p in module.named_parameters() if p.requires_grad}
    fixed = {k: p.detach() for k, p in module.named_parameters() if not p.requires_grad}
    network = Network(module, {**fixed, **dict(module.named_buffers())}, loss)
    loop = _Loop(recipe, network, data, randomness, _checked(recipe, network, trainable, data))
    path, settings = None if checkpoint is None else Path(checkpoint), describe(recipe.settings, recipe.mechanism.steps)
    weights, chosen = trainable, []
    if path is not None and path.is_file():
        weights, chosen = _load(path, algorithm, settings, network, weights, randomness)
        if len(chosen) > steps:
            raise CheckpointError(f"{path} has run {len(chosen)} steps, the budget pays for {steps}: raise the budget")
    for step in range(len(chosen), steps):
        moved, patients, nonfinite = loop.step(step, weights)
        weights = moved.weights
        chosen.append(moved.chosen)
        if not all(bool(torch.isfinite(w).all()) for w in weights.values()):
            raise Diverged(step + 1, "a weight")
        if path is not None and (step + 1 == steps or (checkpoint_every and (step + 1) % checkpoint_every == 0)):
            _save(
                path, settings, network, weights, chosen, planned_patients(algorithm, steps=step + 1), randomness, about
            )
        if progress is not None:
            progress(PatientProgress(step + 1, steps, patients, nonfinite))
    return PatientRun(weights={**fixed, **weights}, history=planned_patients(algorithm, steps=steps),
                      chosen=torch.tensor(chosen, dtype=torch.int64))  # fmt: skip


class _Loop(NamedTuple):
    recipe: PatientRecipe
    network: Network
    data: PatientData
    randomness: Randomness
    vectorised: bool

    def step(self, step: int, weights: Weights) -> tuple[Moved, int, int]:
        """One step; how many patients took part, and how many counted as zero."""
        mechanism = self.recipe.mechanism
        patients = self.randomness.batch(len(self.data.records), mechanism.sample_rate).tolist()
        total, nonfinite = {k: torch.zeros_like(w) for k, w in weights.items()}, 0
        for batch in self._batches(patients, weights):
            found = each_patient(self.recipe.contribution, self.network, weights, batch, vectorised=self.vectorised)
            part = clipped_sum(found, mechanism.clip_norm)
            total = {k: total[k] + part.total[k] for k in total}
            nonfinite += part.nonfinite

        @torch.no_grad()
        def score(candidate: Weights) -> Tensor:
            parts = [each_patient(mean_loss, self.network, candidate, batch, vectorised=self.vectorised)
                     for batch in self._batches(patients, weights)]  # fmt: skip
            return torch.cat(parts) if parts else torch.zeros(0)

        return self.recipe.move(step, weights, total, score, self.randomness), len(patients), nonfinite

    def _batches(self, patients: list[int], weights: Weights) -> Iterable[PatientBatch]:
        device = next(iter(weights.values())).device
        most = (self.recipe.mechanism.max_physical_patients or max(1, len(patients))) if self.vectorised else 1
        for start in range(0, len(patients), most):
            yield self.data.batch(patients[start : start + most], self.recipe.width, device)


def _checked(recipe: PatientRecipe, network: Network, weights: Weights, data: PatientData) -> bool:
    """Refuses dependent examples; says whether patients can run side by side, tried on made-up ones."""
    batch = data.batch([0], recipe.width, next(iter(weights.values())).device)
    inputs = made_up_batch(batch.inputs[0, 0], examples=6)
    targets = torch.zeros((6, *batch.targets.shape[3:]), dtype=batch.targets.dtype, device=batch.targets.device)
    require_independent_examples(network.module, (inputs,), targets=targets, loss=network.loss)
    if not recipe.mechanism.vectorise or generators(network.module):
        return False
    shaped = [x.reshape(2, 1, 3, *x.shape[1:]) for x in (inputs, targets)]
    made_up = PatientBatch(shaped[0], shaped[1], torch.ones((2, 1, 3), dtype=batch.kept.dtype, device=inputs.device))
    before = random_state(network.module)
    try:
        for function in (recipe.contribution, mean_loss):
            each_patient(function, network, weights, made_up, vectorised=True)
    except (RuntimeError, ValueError, TypeError):
        return False
    finally:
        rewind(network.module, before)
    return True


def _save(path: Path, settings: Any, network: Network, weights: Weights, chosen: list[int], history: PatientHistory,
          randomness: Randomness, about: Mapping[str, Any] | None) -> None:  # fmt: skip
    header = {"kind": KIND, "adjacency": history.adjacency, "history": [list(run) for run in history.runs],
              "chosen": chosen, "settings": settings, "randomness": type(randomness).__name__,
              "about": dict(about or {})}  # fmt: skip
    state = {f"randomness.{k}": v for k, v in randomness.state().items()}
    state |= {f"layer.{k}": v for k, v in layer_states(network.module).items()}
    save_checkpoint(path, Checkpoint(header=header, model=weights, state=state))


def _load(path: Path, algorithm: PatientAlgorithm, settings: Any, network: Network, weights: Weights,
          randomness: Randomness) -> tuple[Weights, list[int]]:  # fmt: skip
    saved = load_checkpoint(path)
    if saved.header.get("kind") != KIND:
        raise CheckpointError(f"{path} is no checkpoint of a patient-level run: train into another file")
    if saved.header["settings"] != settings:
        raise CheckpointError(f"{path} was written by a run with other settings: resume with those")
    if {k: v.shape for k, v in saved.model.items()} != {k: v.shape for k, v in weights.items()}:
        raise CheckpointError(f"{path} holds the weights of another network: resume with that one")
    chosen = list(saved.header["chosen"])
    planned = planned_patients(algorithm, steps=len(chosen))
    if saved.header["history"] != [list(run) for run in planned.runs]:
        raise CheckpointError(f"{path} records other mechanisms than its settings make: train again")
    part = {name: {k.removeprefix(name): v for k, v in saved.state.items() if k.startswith(name)}
            for name in ("randomness.", "layer.")}  # fmt: skip
    try:
        randomness.restore(part["randomness."])
        restore_layers(network.module, part["layer."])
    except ValueError as error:
        raise CheckpointError(f"{path}: {error}") from error
    return {k: saved.model[k].to(w) for k, w in weights.items()}, chosen
