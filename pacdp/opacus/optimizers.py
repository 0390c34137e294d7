"""Opacus's optimizer with a fixed divisor, noise by the logical step, and sums that were clipped before.

It computes, at logical step t,

    p.grad = (Σ_i clip_C(g_i) + N(0, (σ_t C)² I)) / expected_batch_size        σ_t = noise_schedule(t)

then records (σ_t, q), then adds the data-free gradient (a prior's, a KL's), then lets the wrapped optimizer step. t
counts noisy updates: physical batches that are parts of one logical batch do not move it.

Formal guarantee: adding or removing one example moves Σ_i clip_C(g_i) by at most C in Euclidean norm, for any example:
one whose gradient is NaN or infinite contributes exactly zero, and an empty batch is a zero sum. Up to the rounding of
the sum.
"""

from collections.abc import Callable
from typing import Any

from opacus.optimizers import DPOptimizer
from opacus.optimizers.optimizer import _check_processed_flag, _mark_as_processed
from opacus.optimizers.optimizer_fast_gradient_clipping import DPOptimizerFastGradientClipping
from torch.optim import Optimizer

from pacdp.opacus.guard import Guard
from pacdp.schedules import Schedule
from pacdp.step.noise import Randomness
from pacdp.step.processes import Together

DataFreeGradient = Callable[[], None]
StepHook = Callable[[DPOptimizer], None]


class PrivateOptimizer(DPOptimizerFastGradientClipping):
    """Adds noise to the clipped sums that the guard's backward pass leaves, and steps.

    Args:
        optimizer: any ``torch.optim`` optimizer; it sees privatised gradients only.
        guard: has the clipped sums, and is asked whether a step's examples are those that were drawn for it and whether
            nothing but the step moved the weights.
        noise_schedule: noise multiplier σ_t as a function of the logical step.
        clip_norm: C.
        expected_batch_size: the public divisor.
        randomness: source of the noise.
        account: told the logical step and its noise multiplier before the noise is drawn.
        data_free_gradient: adds to ``p.grad``, after the noise, a gradient that depends on no data.

    ``nonfinite_examples`` counts the gradients that were dropped: it is private data, not for publication.
    """

    def __init__(self, optimizer: Optimizer, *, guard: Guard, noise_schedule: Schedule, clip_norm: float,
                 expected_batch_size: float, randomness: Randomness, account: Callable[[int, float], None],
                 together: Together, loss_reduction: str,
                 data_free_gradient: DataFreeGradient | None) -> None:  # fmt: skip
        super().__init__(optimizer, noise_multiplier=noise_schedule(0), max_grad_norm=clip_norm,
                         expected_batch_size=expected_batch_size, loss_reduction=loss_reduction)  # pyright: ignore  # fmt: skip
        self.guard, self.noise_schedule, self.randomness = guard, noise_schedule, randomness
        self.account, self.together = account, together
        self.data_free_gradient = data_free_gradient
        self.step_hooks = list[StepHook]()
        self.logical_step = 0
        self._last, self._clip_norm = self.noise_multiplier, clip_norm
        self.nonfinite_examples = 0
        self.examples = 0
        names = {id(p): name for name, p in guard.module.named_parameters()}
        self._trained: dict[str, Any] = {names[id(p)]: p for p in self.params}

    def accumulate(self) -> None:
        """Add what was handed over to ``p.summed_grad``, which takes it over where it is the first."""
        found, examples = self.guard.take()
        for name, p in self._trained.items():
            own = found.total[name]
            p.summed_grad = own if p.summed_grad is None else p.summed_grad.add_(own)
        self.examples += examples
        self.nonfinite_examples += int(found.nonfinite)

    def add_noise(self) -> None:
        """Noise of standard deviation σ_t C on every coordinate of the clipped sum."""
        examples, self.examples = self.examples, 0
        if self.guard.sampler is not None:
            self.guard.sampler.require(examples)
        self._require_own_numbers()
        self.noise_multiplier = self._last = float(self.noise_schedule(self.logical_step))
        self.account(self.logical_step, self.noise_multiplier)
        std = self.noise_multiplier * self.max_grad_norm
        for p in self._trained.values():
            _check_processed_flag(p.summed_grad)
        sums = {name: p.summed_grad for name, p in self._trained.items()}
        for name, value in self.together.noised(sums, std, self.randomness).items():
            p = self._trained[name]
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
        for p in self._trained.values():
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
        self.guard.require_backward()
        found = super().step()
        self.guard.step_over(last_part=not self._is_last_step_skipped)
        return found

    def signal_skip_step(self, do_skip: bool = True) -> None:
        """Opacus's, by which ``BatchMemoryManager`` cuts a logical batch into parts.

        Raises:
            ValueError: parts of a batch that the caller drew, in two of which one row may stand, counted twice.
        """
        if do_skip and self.guard.sampler is None:
            raise ValueError(
                "with batches='own' a batch has no parts, since nothing tells whether one row stands in two of them "
                "and adds twice what the account assumes: give the whole batch to one step, or leave batches='own' out "
                "and let BatchMemoryManager cut the batches of the loader that make_private returns"
            )
        super().signal_skip_step(do_skip)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget all gradients, and that there were any; by default they are None then, as PyTorch has it."""
        self.guard.forget()
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
