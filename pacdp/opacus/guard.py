"""What is watched in a training loop of one's own, so that every step is the mechanism that is accounted for.

The accountant assumes that one example moves the clipped sum by at most C. That holds if each example's contribution is
a function of the public weights and of that example alone. From a forward pass to its step the guard sees to this:

- The network is given the rows that were drawn, all of them and nothing else that changes from step to step.
- The loss is evaluated for one example at a time, by the record of how it was computed
  (:mod:`pacdp.opacus.recorded`), and the network's backward pass starts from these gradients. They must be those of the
  loss as written, of which ``loss_reduction`` says how it adds up the examples.
- No weight changes but by the private step, and no gradient that the backward pass left. The network is the one that
  was tried at set-up: its layers, their hooks, attributes and buffers.

Whatever differs is refused before anything computed from the batch is released. It sees tensors and the numbers that a
loss is computed with; what a loop computes from the data in NumPy or plain Python it sees only where it changes from
step to step.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves, tree_map

from pacdp.layers.random import random_state, same_state
from pacdp.opacus.loader import PoissonSampler
from pacdp.opacus.loss_by_example import Constants, LossByExample, Reduction, close
from pacdp.opacus.recorded import Record, Recorded, output
from pacdp.step.sums import Sum
from pacdp.step.units import rows_at
from pacdp.trials import MOST, Unmoved
from pacdp.trials.buffers import digest

Clipped = Callable[[list[Tensor], list[Tensor]], Sum]
"""From outputs of the network and each example's gradients by them to the clipped sum of those by the weights."""
_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
_OF_PARAMETERS = ("_backward_hooks", "_post_accumulate_grad_hooks")
_OF_A_PASS = ("training", "activations", "max_batch_len")
"""Attributes of layers that may change: a layer's mode, and what Opacus keeps from a forward pass to its backward."""
_VALUES = (int, float, str, type(None))
_GRADIENTS = ("grad", "grad_sample", "summed_grad")


class Guard:
    """Refuses steps whose examples are not those drawn, or do not contribute each by itself.

    Args:
        module: the network, without wrapper.
        clipped: of the private module around it.
        loss_reduction: how the loss adds up the losses of the examples.
        sampler: what drew the batches; None where the caller draws them.
    """

    def __init__(self, module: nn.Module, *, clipped: Clipped, loss_reduction: Reduction,
                 sampler: PoissonSampler | None) -> None:  # fmt: skip
        self.module, self.clipped, self.sampler = module, clipped, sampler
        self.set_up = set_up(module)
        self.tried = MOST  # by pacdp.trials
        self.allowed = self.ready = False
        self.begun, self.weights = False, Unmoved(module, frozen=True)
        self.left = list[Any]()
        self.constants = Constants()
        self.losses = LossByExample(loss_reduction, self.constants, sampler)
        self.handed_over: tuple[Sum, int] | None = None

    def __deepcopy__(self, memo: dict[int, Any]) -> "Guard":
        return self

    def forward(
        self, run: Callable[..., Any], inputs: tuple[Any, ...], named: dict[str, Any]
    ) -> Any:
        """Run the network on a copy of a batch in training, into which no loop writes; its outputs are recorded."""
        if not self.begun:
            self.weights.keep()
            self.begun = True
        self._require_set_up()
        inputs, named = tree_map(_copied, (inputs, named))
        n = self._require_drawn(tree_leaves((inputs, named)))
        before = random_state(self.module) if n > self.tried else None
        outputs = run(*inputs, **named)
        self._require(
            not self.weights.written(), "the forward pass of the network, or something before it,"
        )
        if before is not None and same_state(before, random_state(self.module)):
            self._require_alone(outputs, inputs, named, n)
        return tree_map(self._watched, outputs)

    def backward(self, loss: Recorded, **options: Any) -> None:
        """Check the loss, and keep the clipped sum of its gradients for the optimizer."""
        if options.get("inputs") is not None or loss.numel() != 1 or not loss.requires_grad:
            raise ValueError(
                "backward takes the loss of a batch, one number with a gradient, and no inputs="
            )
        self._require_set_up()
        record = Record(loss)
        if self.ready or any(each.used for each in record.outputs):
            raise ValueError(
                "backward ran a second time before a step: add up all losses of the batch and call backward once; in "
                "place of gradient accumulation, BatchMemoryManager cuts a batch into parts"
            )
        if any(x.requires_grad for x in record.others):
            raise ValueError(
                "the loss has a term that does not come from the network's outputs, such as a penalty on the weights: "
                "give make_private its gradient as data_free_gradient=, or put the layer that it comes from into module"
            )
        moving = [each for each in record.outputs if each.tensor.requires_grad]
        outputs = [each.tensor for each in moving]
        with self._allowed():
            slopes = self.losses.slopes(loss, record, moving) if len(outputs[0]) else outputs
            self.handed_over = self.clipped(outputs, slopes), len(outputs[0])
        for each in record.outputs:
            each.used = True
        self.ready, self.left = True, _gradients(self.module)

    def take(self) -> tuple[Sum, int]:
        """Hand over the clipped sum of a batch, and its number of examples; no ``p.grad`` is there without noise."""
        assert self.handed_over is not None
        found, self.handed_over = self.handed_over, None
        return found

    def forget(self) -> None:
        """Forget the last backward pass."""
        self.handed_over, self.ready = None, False

    def require_backward(self) -> None:
        """Refuse a step without a backward pass of its own.

        Raises:
            ValueError: none since the last step, or weights or gradients that something else wrote.
        """
        if not self.ready:
            raise ValueError(
                "a step without gradients of its own: call zero_grad and backward before each step"
            )
        still = self.begun and not self.weights.written() and bool(self.weights.same_bits())
        self._require(
            still, "something else than this optimizer, or the forward pass of the network,"
        )
        if _gradients(self.module) != self.left:
            raise ValueError(
                "gradients (grad, grad_sample, summed_grad) were written between backward and the step, so that an "
                "example may add more than its own clipped gradient: put what changes them into the network or the "
                "loss, or, where it depends on no data, into data_free_gradient="
            )

    def step_over(self, *, last_part: bool) -> None:
        """Go on to the next batch, or to the next part of this one; after the last the weights may move."""
        self.ready = False
        if self.sampler is not None:
            self.sampler.take_back()
        if last_part:
            self.begun = False

    @contextmanager
    def _allowed(self) -> Iterator[None]:
        self.allowed = True
        try:
            yield
        finally:
            self.allowed = False

    def _require(self, still: bool, what: str) -> None:
        if not still:
            raise ValueError(
                f"{what} wrote into a parameter or a buffer between two private steps, which would release it without "
                "noise: use layers that write nothing (no nn.Embedding(max_norm=...)), and one private optimizer"
            )

    def _watched(self, leaf: Any) -> Any:
        if not isinstance(leaf, Tensor):
            return leaf
        if leaf.requires_grad:
            leaf.register_hook(self._require_allowed)
        return output(leaf, self.backward)

    def _require_allowed(self, _: Tensor) -> None:
        if not self.allowed:
            raise ValueError(
                "the backward pass did not begin at loss.backward(), so that the losses of single examples are not "
                "known: call backward of a loss that torch's functions compute from the module's outputs"
            )

    def _require_set_up(self) -> None:
        if set_up(self.module) != self.set_up:
            raise ValueError(
                "the network was changed after make_private, which tried it as it was (a hook was added, a parameter "
                "frozen or unfrozen, or a layer, an attribute or a buffer is another): do so before make_private"
            )

    def _require_drawn(self, leaves: list[Any]) -> int:
        """Refuse inputs that are not the batch; return its number of examples."""
        tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
        n = len(tensors[0])
        rows = [x for x in tensors if x.dim() > 0 and len(x) == n]
        if any(x.requires_grad for x in tensors):
            raise ValueError(
                "the network's inputs require a gradient, which would leave without noise: put what computes them into "
                "module, or detach them"
            )
        if self.sampler is not None:
            self.sampler.require_rows(rows)
        if n > 1:
            kept = {id(x) for x in rows}
            rest = [x for x in leaves if id(x) not in kept]
            plain = [repr(x) for x in rest if not isinstance(x, Tensor)]
            self.constants.require("inputs", plain, [x for x in rest if isinstance(x, Tensor)])
        return n

    def _require_alone(self, outputs: Any, inputs: Any, named: Any, n: int) -> None:
        """Refuse a network whose first examples have other outputs in a larger batch than was tried before."""
        few = self.tried
        again, named_again, own = rows_at(torch.arange(few), (inputs, named, outputs))
        with torch.no_grad():
            alone = tree_leaves(self.module(*again, **named_again))
        for one, other in zip(tree_leaves(own), alone, strict=True):
            if isinstance(one, Tensor) and not close(one.detach(), other):
                raise ValueError(
                    f"the examples of a batch are not independent: outputs of {few} examples are others in a batch of "
                    f"{n}; take batch statistics out of the network, or keep to {few} with BatchMemoryManager"
                )
        self.tried = n


def _copied(leaf: Any) -> Any:
    return leaf.clone() if isinstance(leaf, Tensor) else leaf


def _gradients(module: nn.Module) -> list[Any]:
    """Which gradients each parameter has, and how often they were written."""
    found = [getattr(p, name, None) for p in module.parameters() for name in _GRADIENTS]
    parts = [one if isinstance(one, list) else [one] for one in found]
    return [(id(one), getattr(one, "_version", 0)) for own in parts for one in own]


def set_up(module: nn.Module) -> list[Any]:
    """All layers with their hooks, attributes and buffers, and which parameters are trained, hooked by what."""
    layers = [(id(layer), *_own(layer)) for layer in module.modules()]
    return [layers, [(hooks_of(p), p.requires_grad) for p in module.parameters()]]


def hooks_of(parameter: nn.Parameter) -> tuple[tuple[int, ...], ...]:
    """The hooks of a parameter, by their numbers, kind for kind."""
    return tuple(tuple(getattr(parameter, kind, None) or ()) for kind in _OF_PARAMETERS)


def _own(layer: nn.Module) -> list[Any]:
    hooks = [tuple(getattr(layer, kind) or ()) for kind in _HOOKS]
    kept = {name: x for name, x in vars(layer).items() if name not in _OF_A_PASS}
    plain = {name: x for name, x in kept.items() if isinstance(x, _VALUES)}
    other = {name: id(x) for name, x in kept.items() if name not in plain and name[0] != "_"}
    return [hooks, plain, other, [digest(x) for x in layer._buffers.values() if x is not None]]
