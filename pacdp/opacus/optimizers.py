"""Opacus's optimizer with a fixed divisor, noise by the logical step, and sums that were clipped before.

It computes, at logical step t,

    p.grad = (Σ_i clip_C(g_i) + N(0, (σ_t C)² I)) / expected_batch_size        σ_t = noise_schedule(t)

then records (σ_t, q), then adds the data-free gradient (a prior's, a KL's), then lets the wrapped optimizer step. t
counts noisy updates: physical batches that are parts of one logical batch do not move it.

Formal guarantee: adding or removing one example moves Σ_i clip_C(g_i) by at most C in Euclidean norm, for any example:
one whose gradient is NaN or infinite contributes exactly zero, and an empty batch is a zero sum. Up to the rounding of
the sum.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from opacus.optimizers import DPOptimizer
from opacus.optimizers.optimizer import _check_processed_flag, _mark_as_processed
from opacus.optimizers.optimizer_fast_gradient_clipping import DPOptimizerFastGradientClipping
from torch import Tensor
from torch.optim import Optimizer

from pacdp.opacus.guard import Guard
from pacdp.opacus.loader import PoissonSampler
from pacdp.schedules import Schedule
from pacdp.step.noise import Randomness
from pacdp.step.processes import Together

DataFreeGradient = Callable[[], None]
StepHook = Callable[[DPOptimizer], None]


class PrivateOptimizer(DPOptimizerFastGradientClipping):
    """Adds noise to the clipped sums that a private module's backward pass hands over, and steps.

    Args:
        optimizer: any ``torch.optim`` optimizer; it sees privatised gradients only.
        noise_schedule: noise multiplier σ_t as a function of the logical step.
        clip_norm: C.
        expected_batch_size: the public divisor.
        randomness: source of the noise.
        account: told the logical step and its noise multiplier before the noise is drawn.
        data_free_gradient: adds to ``p.grad``, after the noise, a gradient that depends on no data.
        pre_noise_generator: of the module's, whose state a checkpoint carries.

    ``sampler``, where set, is asked whether each step's examples are those of the batch that it drew, and ``guard``
    whether nothing but the step moved the weights.
    ``nonfinite_examples`` counts the gradients that were dropped: it is private data, not for publication.
    """

    def __init__(self, optimizer: Optimizer, *, noise_schedule: Schedule, clip_norm: float,
                 expected_batch_size: float, randomness: Randomness, account: Callable[[int, float], None],
                 loss_reduction: str = "mean", data_free_gradient: DataFreeGradient | None = None,
                 pre_noise_generator: torch.Generator | None = None) -> None:  # fmt: skip
        super().__init__(optimizer, noise_multiplier=noise_schedule(0), max_grad_norm=clip_norm,
                         expected_batch_size=expected_batch_size, loss_reduction=loss_reduction)  # pyright: ignore  # fmt: skip
        self.noise_schedule = noise_schedule
        self.randomness = randomness
        self.account = account
        self.data_free_gradient = data_free_gradient
        self.pre_noise_generator = pre_noise_generator
        self.step_hooks = list[StepHook]()
        self.guard: Guard | None = None
        self.logical_step = 0
        self._last, self._clip_norm = self.noise_multiplier, clip_norm
        self.nonfinite_examples = 0
        self.examples = 0
        self.sampler: PoissonSampler | None = None
        self.together = Together(several=False)
        self._handed_over: tuple[Sequence[Tensor], int, int] | None = None

    def hand_over(self, sums: Sequence[Tensor], *, examples: int, nonfinite: int) -> None:
        """Take the clipped sums of a batch, in the order of ``params``: no ``p.grad`` is there without noise."""
        self._handed_over = sums, examples, nonfinite

    def accumulate(self) -> None:
        """Add what was handed over to ``p.summed_grad``, which takes it over where it is the first."""
        assert self._handed_over is not None
        sums, examples, nonfinite = self._handed_over
        for p, own in zip(_parameters(self), sums, strict=True):
            p.summed_grad = own if p.summed_grad is None else p.summed_grad.add_(own)
        self.examples, self.nonfinite_examples = (
            self.examples + examples,
            self.nonfinite_examples + nonfinite,
        )
        self._handed_over = None

    def add_noise(self) -> None:
        """Noise of standard deviation σ_t C on every coordinate of the clipped sum."""
        examples, self.examples = self.examples, 0
        if self.sampler is not None:
            self.sampler.require(examples)
        self._require_own_numbers()
        self.noise_multiplier = self._last = float(self.noise_schedule(self.logical_step))
        if not (math.isfinite(self.noise_multiplier) and self.noise_multiplier >= 0.0):
            raise ValueError(
                f"noise_schedule({self.logical_step}) must be a finite number >= 0, got {self.noise_multiplier}"
            )
        self.account(self.logical_step, self.noise_multiplier)
        std = self.noise_multiplier * self.max_grad_norm
        parameters = _parameters(self)
        for p in parameters:
            _check_processed_flag(p.summed_grad)
        sums = {str(k): p.summed_grad for k, p in enumerate(parameters)}
        noised = self.together.noised(sums, std, self.randomness)
        for p, value in zip(parameters, noised.values(), strict=True):
            p.grad = value.to(p.dtype).view_as(p)
            _mark_as_processed(p.summed_grad)

    def _require_own_numbers(self) -> None:
        """Refuse numbers that somebody changed, of which the module's clipping and the account would not know."""
        if (self.noise_multiplier, self.max_grad_norm) != (self._last, self._clip_norm):
            raise ValueError(
                "noise_multiplier or max_grad_norm of the optimizer was changed after make_private, as Opacus's "
                "schedulers do: give make_private noise_multiplier= a function of the step, and one max_grad_norm"
            )

    def scale_grad(self) -> None:
        """Divide by the expected batch size, whatever the actual one and whatever the loss's reduction."""
        for p in _parameters(self):
            p.grad /= self.expected_batch_size

    def attach_step_hook(self, fn: StepHook) -> None:
        """Call ``fn`` after the noise of each step too; the step is in the engine's account without any hook."""
        self.step_hooks.append(fn)
        self.step_hook = self._call_hooks

    def _call_hooks(self, optimizer: DPOptimizer) -> None:
        for hook in self.step_hooks:
            hook(optimizer)

    def step(self, closure: Callable[[], float] | None = None) -> float | None:
        """Clip, add noise and update, or only clip where the batch has further parts.

        Raises:
            ValueError: a closure, a step without a backward pass, or weights that something else moved.
        """
        if closure is not None:
            raise ValueError(
                "step takes no closure, which could look at the batch several times for the price of one: call "
                "zero_grad, backward and step() one after the other"
            )
        if self.guard is not None:
            self.guard.require_backward()
        found = super().step()
        if self.guard is not None:
            self.guard.step_over(last_part=not self._is_last_step_skipped)
        return found

    def signal_skip_step(self, do_skip: bool = True) -> None:
        """Opacus's, by which ``BatchMemoryManager`` cuts a logical batch into parts.

        Raises:
            ValueError: parts of a batch that the caller drew, in two of which one row may stand, counted twice.
        """
        if do_skip and self.sampler is None:
            raise ValueError(
                "with batches='own' a batch has no parts, since nothing tells whether one row stands in two of them and "
                "adds twice what the account assumes: give the whole batch to one step, or let BatchMemoryManager cut "
                "the batches of the loader that make_private returned, without batches='own'"
            )
        super().signal_skip_step(do_skip)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget all gradients, and that there were any; by default they are None then, as PyTorch has it."""
        self._handed_over = None
        if self.guard is not None:
            self.guard.ready = False
        super().zero_grad(set_to_none)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        raise TypeError(
            "a private optimizer is not copied, since no account would have the steps of the copy: copy the module, or "
            "write a checkpoint with PrivateEngine.save_checkpoint"
        )

    def pre_step(self, closure: Callable[[], float] | None = None) -> Any:
        """Opacus's, then the data-free gradient; the logical step moves on only if a noisy update was made."""
        done = super().pre_step(closure)
        if done:
            self.logical_step += 1
            if self.data_free_gradient is not None:
                self.data_free_gradient()
        return done


def _parameters(optimizer: DPOptimizer) -> list[Any]:
    """Opacus hangs summed gradients onto the parameters as attributes."""
    return optimizer.params
