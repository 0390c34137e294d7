"""Opacus's privacy engine with public rates, fixed divisors, noise schedules and a history.

    engine = PrivateEngine()
    model, optimizer, loader = engine.make_private(
        module=model, optimizer=optimizer, dataset=dataset, noise_schedule=1.1, clip_norm=1.0,
        sample_rate=0.01, expected_batch_size=256.0)
    for inputs, targets in loader:                    # the loop of Opacus, unchanged
        optimizer.zero_grad()
        criterion(model(inputs), targets).backward()
        optimizer.step()
    engine.history, engine.get_epsilon(delta=1e-5)

Sample rate and expected batch size are public numbers that the caller chooses; neither is computed from the data,
because add-remove privacy hides the number of examples. A network wrapped in Opacus's
``DifferentiallyPrivateDistributedDataParallel`` is trained by all processes of the default group together; see
:mod:`pacdp.private.distributed`. Everything else is Opacus: its modules, optimizers, samplers
and batch memory manager, through its own extension points.
"""

import math
import warnings
from pathlib import Path
from typing import Any

import torch
from opacus import PrivacyEngine
from opacus.optimizers import DPOptimizer
from torch import Tensor, nn, optim
from torch.utils.data import DataLoader, Dataset, default_collate

from bounds.privacy import Adjacency
from pacdp.errors import CheckpointError
from pacdp.private.accountant import NAME, HistoryAccountant
from pacdp.private.distributed import (
    DistributedGhostOptimizer,
    DistributedOptimizer,
    rank_randomness,
    require_one_run,
    unwrapped,
)
from pacdp.private.distributed_state import load_together, save_together
from pacdp.private.ghost import GhostCriterion
from pacdp.private.independence import made_up_batch, require_independent_examples
from pacdp.private.loader import PoissonLoader
from pacdp.private.modules import MODES, GhostModule, GradSampleMode, wrap
from pacdp.private.optimizers import DataFreeGradient, GhostOptimizer, PrivateOptimizer
from pacdp.private.privacy_events import ADJACENCY, MechanismHistory
from pacdp.private.schedules import Schedule, as_schedule
from pacdp.step.noise import Randomness, SystemRandomness


class PrivateEngine(PrivacyEngine):
    """One engine keeps one history: several calls of ``make_private`` (several chains) on the same data compose.

    Formal guarantee: what the optimizers' steps release is the composition of the Poisson-sampled Gaussian mechanisms
    in ``history``, under add-remove adjacency, provided that the caller releases nothing else computed from the data
    (losses, gradient norms, batch sizes, the choice of a stopping time) and takes batches from the returned loader
    only.

    Args:
        randomness: the operating system's generator by default; see :mod:`pacdp.step.noise`.
    """

    adjacency = ADJACENCY

    def __init__(self, *, randomness: Randomness | None = None) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Opacus warns that its own secure generator is off; ours is used
            super().__init__(accountant=NAME)
        self.accountant: HistoryAccountant = HistoryAccountant()
        self.randomness = SystemRandomness() if randomness is None else randomness

    @property
    def history(self) -> MechanismHistory:
        """The mechanisms that ran."""
        return self.accountant.recorded()

    def get_epsilon(self, delta: float, *, adjacency: Adjacency = ADJACENCY) -> float:
        """See :func:`pacdp.private.epsilon`; :func:`pacdp.private.privacy_spent` of ``history`` has the lower end."""
        return self.accountant.get_epsilon(delta, adjacency=adjacency)

    def make_private(  # pyright: ignore[reportIncompatibleMethodOverride]
        self,
        *,
        module: nn.Module,
        optimizer: optim.Optimizer,
        noise_schedule: Schedule | float,
        clip_norm: float,
        sample_rate: float,
        expected_batch_size: float,
        dataset: Dataset[Any] | None = None,
        data_loader: DataLoader[Any] | None = None,
        criterion: Any = None,
        loss_reduction: str = "mean",
        grad_sample_mode: GradSampleMode = "hooks",
        steps: int | None = None,
        pre_noise: float = 0.0,
        data_free_gradient: DataFreeGradient | None = None,
        probe: tuple[Any, ...] | None = None,
    ) -> Any:
        """Make network, optimizer and data private.

        Args:
            module: the network, or a ``DifferentiallyPrivateDistributedDataParallel`` of it, which is taken off: then
                all processes must make the same calls, and the loader gives each its own, possibly empty, part of
                every batch.
            noise_schedule: noise multiplier σ, or σ_t as a function of the logical step.
            clip_norm: C, the norm to which each example's gradient is clipped.
            sample_rate: q; public.
            expected_batch_size: the divisor of every sum; public; a constant such as q times a rough size of the data.
            dataset: or ``data_loader``, of which dataset, collate function and workers are taken.
            criterion: needed in mode "ghost" only.
            loss_reduction: how the loss of the caller's loop reduces, "mean" or "sum". It is undone; the gradient is
                always Σ/expected_batch_size.
            grad_sample_mode: "hooks", "functorch", "ew" or "ghost".
            steps: batches in one pass of the loader; 1/q by default.
            pre_noise: see :class:`pacdp.private.optimizers.PrivateOptimizer`.
            data_free_gradient: called after the noise; adds a gradient that depends on no data to ``p.grad``.
            probe: positional inputs for the independence test; without it numbers in the shape of the data's first
                field are made up.

        Returns:
            (module, optimizer, loader), and in mode "ghost" (module, optimizer, criterion, loader), as in Opacus.

        Raises:
            ValueError: a public number out of range; examples that depend on each other; a mode that cannot do what is
                asked; an optimizer with parameters of another network; processes that differ in what they are given.
        """
        schedule = as_schedule(noise_schedule)
        _check_numbers(clip_norm, sample_rate, expected_batch_size, pre_noise)
        _check_mode(grad_sample_mode, criterion, pre_noise, loss_reduction)
        module, several = unwrapped(module)
        _check_ownership(module, optimizer)
        randomness = rank_randomness(self.randomness) if several else self.randomness
        loader = _loader(dataset, data_loader, sample_rate, steps, randomness)
        device = next(module.parameters()).device
        if several:
            public = {"noise_schedule": schedule(0), "clip_norm": clip_norm, "sample_rate": sample_rate,
                      "expected_batch_size": expected_batch_size, "grad_sample_mode": grad_sample_mode,
                      "pre_noise": pre_noise, "steps": loader.batch_sampler.steps}  # pyright: ignore  # fmt: skip
            require_one_run(public, loader.dataset, rank_randomness(randomness), device)
        require_independent_examples(module, probe if probe is not None else (_made_up_input(loader).to(device),))
        self.validate(module=module, optimizer=None, data_loader=None)
        wrapped = wrap(module, grad_sample_mode, loss_reduction=loss_reduction, clip_norm=clip_norm)
        wrapped.forbid_grad_accumulation()  # pyright: ignore[reportCallIssue]
        private = self._prepare_optimizer(
            optimizer=optimizer, noise_schedule=schedule, clip_norm=clip_norm, pre_noise=pre_noise,
            expected_batch_size=expected_batch_size, loss_reduction=loss_reduction,
            grad_sample_mode=grad_sample_mode, data_free_gradient=data_free_gradient,
            randomness=randomness, several=several, device=device)  # fmt: skip
        private.attach_step_hook(self.accountant.get_optimizer_hook_fn(sample_rate=sample_rate))
        if isinstance(wrapped, GhostModule):
            return wrapped, private, GhostCriterion(wrapped, private, criterion, loss_reduction), loader  # pyright: ignore
        return wrapped, private, loader

    def _prepare_optimizer(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, *, optimizer: optim.Optimizer, grad_sample_mode: str, pre_noise: float, device: torch.device,
        randomness: Randomness, several: bool, **settings: Any,
    ) -> DPOptimizer:  # fmt: skip
        inner = optimizer.original_optimizer if isinstance(optimizer, DPOptimizer) else optimizer
        settings["randomness"] = randomness
        if grad_sample_mode == "ghost":
            return (DistributedGhostOptimizer if several else GhostOptimizer)(inner, **settings)
        generator = randomness.generator("pre-noise", device) if pre_noise > 0.0 else None
        kind = DistributedOptimizer if several else PrivateOptimizer
        return kind(inner, pre_noise=pre_noise, pre_noise_generator=generator, **settings)

    def make_private_with_epsilon(self, **_: Any) -> Any:
        """Refused: noise is found first, for the whole schedule, with :func:`pacdp.private.calibrated`."""
        raise NotImplementedError(
            "calibrate the whole schedule with pacdp.private.calibrated(...) and give the result to make_private"
        )

    def save_checkpoint(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, *, path: Path | str, module: nn.Module, optimizer: DPOptimizer
    ) -> None:
        """Write weights, optimizer, history and generator states as safetensors; see :mod:`pacdp.private.state`.

        Of several processes the first writes; all must call this.
        """
        save_together(path, module=module, optimizer=optimizer, history=self.history, randomness=self.randomness)

    def load_checkpoint(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, *, path: Path | str, module: nn.Module, optimizer: DPOptimizer
    ) -> None:
        """Read it back into ``module``, ``optimizer`` and this engine. No code runs on load.

        Raises:
            CheckpointError: no such file, another kind of file, another network, another noise schedule than the one
                that the history records, or an engine that has a history of its own, which loading would forget.
        """
        if self.history.steps:
            raise CheckpointError(
                f"this engine has already recorded {self.history.steps} steps, which loading {path} would forget: load "
                "into a new engine and join histories with followed_by"
            )
        loaded = load_together(path, module=module, optimizer=optimizer, randomness=self.randomness)
        self.accountant.history = list(loaded.history.runs)


def _loader(dataset: Dataset[Any] | None, data_loader: DataLoader[Any] | None, sample_rate: float,
            steps: int | None, randomness: Randomness) -> PoissonLoader:  # fmt: skip
    if (dataset is None) == (data_loader is None):
        raise ValueError("give either dataset or data_loader")
    steps = math.ceil(1.0 / sample_rate) if steps is None else steps
    if data_loader is None:
        assert dataset is not None
        return PoissonLoader(dataset, sample_rate=sample_rate, steps=steps, randomness=randomness)
    return PoissonLoader(
        data_loader.dataset, sample_rate=sample_rate, steps=steps, randomness=randomness,
        collate_fn=data_loader.collate_fn or default_collate, num_workers=data_loader.num_workers,
        pin_memory=data_loader.pin_memory, worker_init_fn=data_loader.worker_init_fn)  # fmt: skip


def _made_up_input(loader: PoissonLoader) -> Tensor:
    empty = loader.collate_fn([])
    first = next(iter(empty.values())) if isinstance(empty, dict) else empty
    while isinstance(first, list | tuple) and first:
        first = first[0]
    if not isinstance(first, Tensor):
        raise ValueError("cannot tell the network's input from the data: give probe=(inputs,), a batch of at least 3")
    return made_up_batch(first)


def _check_numbers(clip_norm: float, sample_rate: float, expected_batch_size: float, pre_noise: float) -> None:
    for name, value in (("clip_norm", clip_norm), ("expected_batch_size", expected_batch_size)):
        if not (math.isfinite(value) and value > 0.0):
            raise ValueError(f"expected {name} > 0 and finite, got {value}")
    if not 0.0 < sample_rate <= 1.0:
        raise ValueError(f"expected 0 < sample_rate <= 1, got {sample_rate}")
    if not (math.isfinite(pre_noise) and pre_noise >= 0.0):
        raise ValueError(f"expected pre_noise >= 0 and finite, got {pre_noise}")


def _check_mode(mode: str, criterion: Any, pre_noise: float, loss_reduction: str) -> None:
    if mode not in MODES:
        raise ValueError(f"grad_sample_mode must be one of {', '.join(MODES)}, got {mode!r}")
    if loss_reduction not in ("mean", "sum"):
        raise ValueError(f"loss_reduction must be 'mean' or 'sum', got {loss_reduction!r}")
    if mode == "ghost" and criterion is None:
        raise ValueError("grad_sample_mode='ghost' needs criterion=, for example nn.CrossEntropyLoss()")
    if mode == "ghost" and pre_noise > 0.0:
        raise ValueError("pre_noise needs per-example gradients, which ghost clipping never forms: use mode 'hooks'")


def _check_ownership(module: nn.Module, optimizer: optim.Optimizer) -> None:
    owned = {id(p) for p in module.parameters()}
    if any(id(p) not in owned for group in optimizer.param_groups for p in group["params"]):
        raise ValueError("optimizer holds parameters that module does not have: build it from module.parameters()")
