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
from typing import Any, cast

from opacus.optimizers import DPOptimizer
from torch import Tensor
from torch.optim import Optimizer
from torch.utils._pytree import tree_leaves

from pacdp.opacus.accountant import Account
from pacdp.opacus.epochs import OnceAnEpochSampler
from pacdp.opacus.guard import Guard, Settled
from pacdp.opacus.recorded import as_written
from pacdp.schedules import value_at
from pacdp.step.noise import Randomness
from pacdp.step.sums import Sum, added_up
from pacdp.trials.reachable import digest

DataFreeGradient = Callable[[], None]
StepHook = Callable[[DPOptimizer], None]


class PrivateOptimizer(DPOptimizer):
    """Adds noise to the clipped sums that the guard's backward pass leaves, and steps.

    Args:
        optimizer: any ``torch.optim`` optimizer; it sees privatised gradients only.
        guard: has the clipped sums, and is asked whether a step's examples are those that were drawn for it and whether
            nothing but the step moved the weights.
        account: has the noise multiplier σ_t of each logical step, and is told it before the noise is drawn.
        max_grad_norm: C.
        expected_batch_size: the public divisor.
        randomness: source of the noise.
        data_free_gradient: adds to ``p.grad``, after the noise, a gradient that depends on no data.

    ``nonfinite_examples`` counts the gradients that were dropped: it is private data, not for publication.
    """

    def __init__(self, optimizer: Optimizer, *, guard: Guard, account: Account, randomness: Randomness,
                 data_free_gradient: DataFreeGradient | None, **numbers: Any) -> None:  # fmt: skip
        first = value_at(0, noise_multiplier=account.schedule)
        super().__init__(optimizer, noise_multiplier=first, **numbers)
        self.guard, self.account, self.randomness = guard, account, randomness
        self.data_free_gradient, self.step_hooks = data_free_gradient, list[StepHook]()
        self.logical_step = self.nonfinite_examples = self._examples = 0
        self._sum: Sum | None = None
        self._released = False
        self._given = Settled(
            self._as_given,
            "noise_multiplier, max_grad_norm, expected_batch_size or data_free_gradient of the optimizer, or "
            "sample_rate of the loader's sampler, was changed after make_private, as Opacus's schedulers do: give "
            "make_private noise_multiplier= a function of the step, and the others once",
        )
        changed = (
            "hooks of the optimizer, or what it keeps of earlier steps (momentum), were changed since the last step, "
            "and may have seen the data: add hooks before make_private, and resume by load_checkpoint"
        )
        self._hooks, self._kept = Settled(self._hooked, changed), Settled(self._versions, changed)
        self._numbers = Settled(
            self._of_groups,
            "the optimizer's numbers (lr, weight_decay, ...) were changed while a batch was at hand, of which they "
            "may tell, as a rate times the size of the batch does: change them after step(), as torch's schedulers "
            "do, by the number of the step alone, and under BatchMemoryManager, where the number of parts tells of "
            "that size, after the last one: if not optimizer._is_last_step_skipped: scheduler.step()",
        )
        self._given.keep()
        self._hooks.keep()
        if guard.sampler is not None:
            guard.sampler.at_hand, guard.sampler.begins = self._remember, self._begin_pass

    def attach_step_hook(self, fn: StepHook) -> None:
        """Call ``fn`` after the noise of each step too; the step is in the engine's account without any hook."""
        self.step_hooks.append(fn)
        self.step_hook = lambda optimizer: [hook(optimizer) for hook in self.step_hooks]

    def register_step_post_hook(self, hook: Any) -> Any:
        """Refused, by raising ValueError, as ``register_step_pre_hook`` is."""
        raise ValueError(
            "a private optimizer takes hooks by attach_step_hook, which are called after the noise: register others of "
            "torch's with the optimizer that make_private is given, before"
        )

    register_step_pre_hook = register_step_post_hook

    @property
    def accumulated_iterations(self) -> int:
        """Refused, by raising ValueError, to the hook of Opacus's accountants, which asks for it."""
        raise ValueError(
            "steps are counted before their noise, without get_optimizer_hook_fn of an accountant, which would count "
            "them again: leave it out"
        )

    @as_written
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
        self._released = False
        try:
            return super().step()
        finally:  # where Ctrl-C ends the step of the wrapped optimizer, what it moved has the noise
            if self._released:
                self.guard.step_over()
                self._kept.keep()

    @property
    def _step_supports_amp_scaling(self) -> bool:
        """What ``GradScaler`` asks before it steps."""
        raise ValueError(
            "GradScaler finds no gradient to scale back, since none is there before the step: leave it out and call "
            "loss.backward() and step(); under torch.autocast(dtype=torch.bfloat16) losses need no scale"
        )

    def pre_step(self, closure: Callable[[], float] | None = None) -> bool:
        """Add what was handed over; after the last part of a batch, release its sum as the gradient."""
        found = self.guard.take()
        self._sum = found if self._sum is None else added_up(found.total, (self._sum, found))
        self._examples += self.guard.examples
        self._is_last_step_skipped = self._check_skip_next_step()
        if self._is_last_step_skipped:
            if self.guard.sampler is not None and self.guard.sampler.unseen:
                raise ValueError(
                    "a batch comes in parts that worker processes load and nothing here sees, and one that is left out "
                    "would move parts of another batch into this step: take BatchMemoryManager from pacdp.private, "
                    "which sees them, or num_workers=0"
                )
            return False
        whole, examples = self._sum, self._examples
        self._sum, self._examples = None, 0
        self._release(whole, examples)
        self.guard.gradients.keep()
        if self.step_hook:
            self.step_hook(self)
            self.guard.gradients.require()
        self.logical_step += 1
        if self.data_free_gradient is not None:
            self.data_free_gradient()
        self.guard.require_unmoved("something between the noise and the step")
        self._released = True
        return True

    def _release(self, found: Sum, examples: int) -> None:
        """p.grad = (sum + noise of standard deviation σ_t C) / expected batch size, whatever the actual one."""
        sampler, epoch = self.guard.sampler, None
        if sampler is not None:
            sampler.require(examples)
            epoch = sampler.epoch
        for settled in (self._given, self._hooks, self._kept, self._numbers):
            settled.require()
        self._numbers.forget()
        self.nonfinite_examples += int(found.nonfinite)
        self.logical_step, self.noise_multiplier = self.account.next(self.logical_step, epoch)
        self._given.keep()
        std, together = self.noise_multiplier * self.max_grad_norm, self.account.together
        self.original_optimizer.zero_grad()  # frozen weights may have a gradient from before
        weights = dict(self.guard.module.named_parameters())
        for name, value in together.noised(found.total, std, self.randomness).items():
            whole = value.to(weights[name].dtype).view_as(weights[name])
            weights[name].grad = whole.div_(cast(float, self.expected_batch_size))

    def _remember(self) -> None:
        """A batch, or a part of one, is handed out: from now on the numbers of this step are fixed."""
        if self._numbers.kept is None:
            self._numbers.keep()

    def _begin_pass(self) -> None:
        """Drop what an interrupted pass left: the parts of a batch whose others never come, and what is due of it."""
        self._sum, self._examples = None, 0
        self._step_skip_queue.clear()
        self._numbers.forget()
        self.guard.forget()

    def _of_groups(self) -> list[dict[str, Any]]:
        return [
            {name: digest(x) for name, x in group.items() if name != "params"}
            | {"params": [id(p) for p in group["params"]]}
            for group in self.original_optimizer.param_groups
        ]

    def _as_given(self) -> tuple[Any, ...]:
        """What make_private was given, but for the schedule's noise."""
        return (
            self.noise_multiplier,
            self.max_grad_norm,
            self.expected_batch_size,
            id(self.data_free_gradient),
            self.guard.sampler and self.guard.sampler.sample_rate,
        )

    def _hooked(self) -> list[Any]:
        """The hooks of the wrapped optimizer."""
        own = self.original_optimizer
        return [[*own._optimizer_step_pre_hooks], [*own._optimizer_step_post_hooks]]

    def _versions(self) -> dict[int, int]:
        """How often each tensor that the wrapped optimizer keeps was written."""
        kept = tree_leaves([*self.original_optimizer.state.values()])
        return {id(x): x._version for x in kept if isinstance(x, Tensor)}

    def go_on(self, step: int) -> None:
        """Go on after so many steps with what was read from a checkpoint."""
        self.logical_step = step
        if isinstance(self.guard.sampler, OnceAnEpochSampler):
            self.guard.sampler.resume(step)
        self.guard.set_up.keep()
        self.guard.keep()
        self._kept.forget()

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
        self.original_optimizer.zero_grad(set_to_none)

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Refused, to copies and to pickle alike."""
        raise TypeError(
            "a private optimizer is neither copied nor pickled, since no account would have the steps of the copy: "
            "copy the module, or write a checkpoint with PrivateEngine.save_checkpoint"
        )
