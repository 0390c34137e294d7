"""The loop that all private trainers share: Poisson batches by logical step, checkpoints, snapshots.

An algorithm is a frozen record of settings; :class:`Recipe` is what the loop needs to know of it. The number of steps
is fixed before training: stopping when the data looks learnt would release something that no accountant counts. A
budget halts a run before the step that would overspend it; which step that is follows from the public schedule.
"""

import copy
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol, cast, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor, nn, optim
from torch.nn.utils import parameters_to_vector
from torch.utils.data import Dataset

from pacdp.errors import Diverged
from pacdp.private.budget import PrivacyBudget
from pacdp.private.calibration import planned
from pacdp.private.distributed import joined, mean_over_processes, rank_randomness
from pacdp.private.distributed_state import found, load_together, save_together
from pacdp.private.engine import PrivateEngine
from pacdp.private.ghost import empty_sum, ghost_loss
from pacdp.private.independence import PerExampleLoss, made_up_batch, require_independent_examples
from pacdp.private.loader import size, take
from pacdp.private.modules import GhostModule, GradSampleMode, network, set_empty_gradients
from pacdp.private.optimizers import GhostOptimizer, PrivateOptimizer
from pacdp.private.privacy_events import MechanismHistory
from pacdp.private.random_layers import generators
from pacdp.private.schedules import Schedule
from pacdp.step.noise import Randomness


@dataclass(frozen=True, slots=True, kw_only=True)
class Mechanism:
    """The public numbers of a private run."""

    clip_norm: float
    """C, the norm to which each example's gradient is clipped."""
    sample_rate: float
    """q, the probability with which an example takes part in a step."""
    expected_batch_size: float
    """The divisor of every clipped sum: a public constant."""
    steps: int
    """Noisy updates, fixed in advance."""
    grad_sample_mode: GradSampleMode = "hooks"
    max_physical_batch: int | None = None
    """Larger batches are cut for memory's sake; changes no number but rounding."""
    budget: PrivacyBudget | None = None
    """Training halts before the step that would overspend it."""

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise ValueError(f"steps must be at least 1, got {self.steps}")
        if self.max_physical_batch is not None and self.max_physical_batch < 1:
            raise ValueError(f"max_physical_batch must be at least 1, got {self.max_physical_batch}")

    @property
    def public_size(self) -> float:
        """expected_batch_size / sample_rate: the size of the data as far as it is public."""
        return self.expected_batch_size / self.sample_rate


class Progress(NamedTuple):
    """For the operator's eyes: ``private_loss`` is computed on the data without noise and may not be published."""

    step: int
    steps: int
    private_loss: float
    """Mean loss of the last batch; NaN if it was empty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivateRun:
    """What a trainer returns."""

    weights: dict[str, Tensor]
    """Parameter name to value; private."""
    history: MechanismHistory
    """What the weights, and all snapshots, cost."""
    snapshots: Float[Tensor, "snapshots dim"]
    """Weights kept on the way, flat, in the order of ``weights``; private. Empty unless the algorithm keeps some."""
    halted: bool = False
    """Whether the budget ended the run before its last step."""


class Recipe(NamedTuple):
    """An algorithm as the loop sees it."""

    settings: Any
    """The algorithm's frozen settings, for the checkpoint."""
    mechanism: Mechanism
    optimizer: Callable[[Iterable[nn.Parameter]], optim.Optimizer]
    noise: Schedule
    learning_rate: Schedule
    draws: int = 1
    """Forward passes whose losses are averaged before clipping."""
    pre_noise: float = 0.0
    data_free_gradient: Callable[[nn.Module], None] | None = None
    keeps: Callable[[int], bool] = lambda step: False
    """Whether the weights after ``step`` steps become a snapshot."""


@runtime_checkable
class Algorithm(Protocol):
    """Settings of a private training algorithm."""

    def recipe(self) -> Recipe:
        """What the loop needs to know."""
        ...


def train(
    algorithm: Algorithm,
    module: nn.Module,
    dataset: Dataset[Any],
    *,
    loss: PerExampleLoss,
    randomness: Randomness | None = None,
    progress: Callable[[Progress], None] | None = None,
    checkpoint: Path | str | None = None,
    checkpoint_every: int = 0,
    about: Mapping[str, Any] | None = None,
    distributed: bool = False,
) -> PrivateRun:
    """Train a copy of ``module`` on (input, target) examples; go on from ``checkpoint`` if that file exists.

    Args:
        loss: per-example losses of (outputs, targets), shape (batch,).
        randomness: the operating system's generator by default.
        progress: called after every step.
        checkpoint: written every ``checkpoint_every`` steps, if that is positive, and at the end.
        about: JSON values for the checkpoint's header, under "about": which data, which network.
        distributed: whether the processes of the default group (``torchrun``) train one network together. All must
            call this with the same arguments, ``dataset`` being the whole data set; the first process's weights and
            buffers are where they start, it writes the checkpoints, and all return the same run.

    Raises:
        ValueError: dependent examples, numbers out of range, a budget that not even the first step keeps to, or
            processes that were given different arguments.
        CheckpointError: the checkpoint is another run's.
        Diverged: a weight is not finite.
    """
    recipe = algorithm.recipe()
    mechanism, module = recipe.mechanism, copy.deepcopy(module).train()
    examples = take(dataset, torch.zeros(4 if size(dataset) else 0, dtype=torch.int64))
    _check_examples(module, examples, loss)
    engine = PrivateEngine(randomness=rank_randomness(randomness) if distributed else randomness)
    for name, generator in generators(module).items():
        generator.manual_seed(engine.randomness.generator(name).initial_seed())
    device = next(module.parameters()).device
    inner = recipe.optimizer([p for p in module.parameters() if p.requires_grad])
    path, settings = None if checkpoint is None else Path(checkpoint), describe(recipe.settings, mechanism.steps)
    given = joined(module, [settings, path is None, checkpoint_every]) if distributed else module
    wrapped, optimizer, *_ = engine.make_private(
        module=given, optimizer=inner, dataset=dataset, noise_schedule=recipe.noise, clip_norm=mechanism.clip_norm,
        sample_rate=mechanism.sample_rate, expected_batch_size=mechanism.expected_batch_size, criterion=_PerExample(),
        loss_reduction="sum", grad_sample_mode=mechanism.grad_sample_mode, pre_noise=recipe.pre_noise,
        data_free_gradient=None if recipe.data_free_gradient is None else lambda: _call(recipe, module),
        probe=(made_up_batch(examples[0]).to(device),), steps=1)  # fmt: skip
    snapshots: list[Tensor] = []
    if path is not None and found(path, optimizer):
        loaded = load_together(path, module=wrapped, optimizer=optimizer, randomness=engine.randomness,
                               settings=settings)  # fmt: skip
        engine.accountant.history, snapshots = (
            list(loaded.history.runs),
            [s.to(device) for s in loaded.extra.get("snapshots", ())],
        )
    last = _last_step(recipe, engine, done=optimizer.logical_step)
    for step in range(optimizer.logical_step + 1, last + 1):
        seen = _logical_step(recipe, wrapped, optimizer, dataset, loss, engine.randomness)
        if not all(bool(torch.isfinite(p).all()) for p in module.parameters()):
            raise Diverged(step, "a weight")
        if recipe.keeps(step):
            snapshots.append(parameters_to_vector(module.parameters()).detach().clone())
        if path is not None and (step == last or (checkpoint_every and step % checkpoint_every == 0)):
            save_together(path, module=wrapped, optimizer=optimizer, history=engine.history, settings=settings,
                          randomness=engine.randomness, extra=_stacked(snapshots), about=about)  # fmt: skip
        if progress is not None:
            progress(Progress(step, mechanism.steps, seen))
    weights = {name: p.detach().clone() for name, p in module.named_parameters()}
    kept = _stacked(snapshots).get("snapshots", parameters_to_vector(module.parameters()).detach().new_empty(0, 0))
    return PrivateRun(weights=weights, history=engine.history, snapshots=kept, halted=last < mechanism.steps)


def _last_step(recipe: Recipe, engine: PrivateEngine, *, done: int) -> int:
    mechanism, budget = recipe.mechanism, recipe.mechanism.budget
    if budget is None:
        return mechanism.steps
    upcoming = planned(recipe.noise, sample_rate=mechanism.sample_rate, steps=mechanism.steps, done=done)
    last = done + budget.affordable_steps(upcoming, after=engine.history)
    if last == 0:
        raise ValueError(f"the first step alone costs more than the budget of epsilon {budget.epsilon:g} at delta "
                         f"{budget.delta:g} ({budget.adjacency}): raise the noise or the budget")  # fmt: skip
    return last


def _logical_step(recipe: Recipe, wrapped: nn.Module, optimizer: PrivateOptimizer | GhostOptimizer,
                  dataset: Dataset[Any], loss: PerExampleLoss, randomness: Randomness) -> float:  # fmt: skip
    mechanism = recipe.mechanism
    for group in optimizer.param_groups:
        group["lr"] = recipe.learning_rate(optimizer.logical_step)
    indices = randomness.batch(size(dataset), mechanism.sample_rate)
    parts = torch.split(indices, mechanism.max_physical_batch or max(1, len(indices)))
    total = 0.0
    for i, part in enumerate(parts):
        optimizer.zero_grad()
        optimizer.signal_skip_step(do_skip=i + 1 < len(parts))
        if len(part):
            total += _backward(recipe, wrapped, optimizer, take(dataset, part), loss)
        elif isinstance(wrapped, GhostModule):
            empty_sum(wrapped, optimizer)  # pyright: ignore[reportArgumentType]
        else:
            set_empty_gradients(wrapped)
        optimizer.step()
    optimizer.zero_grad()
    return mean_over_processes(optimizer, total, len(indices), next(wrapped.parameters()).device)


def _backward(recipe: Recipe, wrapped: nn.Module, optimizer: Any, batch: Any, loss: PerExampleLoss) -> float:
    device = next(wrapped.parameters()).device
    inputs, targets = (x.to(device) for x in batch)
    if isinstance(wrapped, GhostModule):
        value = ghost_loss(wrapped, optimizer, loss, wrapped(inputs), (targets,), "sum")
    else:
        value = torch.stack([loss(wrapped(inputs), targets) for _ in range(recipe.draws)]).mean(0).sum()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Full backward hook is firing")  # true, and as it should be
        value.backward()
    return value.item()


def describe(settings: object, steps: int) -> Any:
    """Settings as JSON values, each record with its kind; a schedule that is no record as its values."""
    if is_dataclass(settings) and not isinstance(settings, type):
        parts = {f.name: describe(getattr(settings, f.name), steps) for f in fields(settings)}
        return {"kind": type(settings).__name__, **parts}
    if isinstance(settings, list | tuple):
        return [describe(value, steps) for value in settings]
    if callable(settings):
        schedule = cast(Schedule, settings)
        return {"kind": "schedule", "values": [float(schedule(t)) for t in range(steps)]}
    return settings


def _check_examples(module: nn.Module, examples: Any, loss: PerExampleLoss) -> None:
    if not isinstance(examples, list | tuple) or len(examples) != 2 or not all(isinstance(x, Tensor) for x in examples):
        raise ValueError(
            "dataset must give (input, target) pairs of tensors; write a loop over PrivateEngine for others"
        )
    device = next(module.parameters()).device
    inputs, targets = made_up_batch(examples[0]).to(device), torch.zeros_like(examples[1]).to(device)
    require_independent_examples(module, (inputs,), targets=targets, loss=loss)


def _call(recipe: Recipe, module: nn.Module) -> None:
    assert recipe.data_free_gradient is not None
    recipe.data_free_gradient(network(module))


def _stacked(snapshots: list[Tensor]) -> dict[str, Tensor]:
    return {"snapshots": torch.stack(snapshots)} if snapshots else {}


class _PerExample:
    reduction = "sum"
