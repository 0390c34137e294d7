"""The way from a network's outputs to a loss, recorded, so that it can be gone again for single examples.

A private module's training outputs are :class:`Recorded` tensors. They behave as any tensors; what is computed of them
is noted down, and ``backward`` of the loss goes to the :class:`~pacdp.opacus.guard.Guard` of the module.
"""

from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_map, tree_unflatten

_SIZES = ("view", "reshape", "expand", "div", "true_divide", "divide")
"""Calls whose first number may be that of the examples of the batch, or a multiple of it."""
_PRODUCTS = ("mul", "multiply", "__rmul__")
_ONE_A_CLASS = ("weight", "pos_weight")
_NUMBER = count()
Backward = Callable[..., None]
"""What is called in place of a loss's ``backward``, with the loss and the arguments of that call."""


class Output:
    """An output of the network: where a record begins."""

    def __init__(self, tensor: Tensor, backward: Backward) -> None:
        self.tensor, self.backward, self.used = tensor, backward, False


class Call:
    """A function that was called with recorded tensors; these are held as :class:`Made`."""

    def __init__(self, function: Callable[..., Any], args: Any, named: dict[str, Any]) -> None:
        self.function, self.number = function, next(_NUMBER)
        self.args, self.named = tree_map(_record_of, (args, named))

    @property
    def name(self) -> str:
        """The function's name."""
        return getattr(self.function, "__name__", str(self.function))


class Made:
    """Result number ``place`` of a call, or an output of the network, until something is written into it."""

    def __init__(self, by: Call | Output, place: int = 0, version: int = 0) -> None:
        self.by, self.place, self.version = by, place, version


class Recorded(Tensor):
    """A tensor that knows how it was made of a network's outputs."""

    made: Made

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call the function and note it down, or hand over a backward pass."""
        del types
        if func is Tensor.backward:
            return _backward(*args, **kwargs or {})
        return recorded(func, *args, **kwargs or {})


def _backward(loss: Recorded, gradient: Tensor | None = None, **options: Any) -> None:
    """Hand the loss over; losses of single examples and a gradient by them are the sum of their products."""
    if gradient is not None:
        loss = (loss * gradient).sum()  # pyright: ignore[reportAssignmentType]
    with torch._C.DisableTorchFunctionSubclass():
        Record(loss).outputs[0].backward(loss, **options)


def recorded(function: Callable[..., Any], *args: Any, **named: Any) -> Any:
    """Call the function and note it down, as one call whatever it does inside."""
    with torch._C.DisableTorchFunctionSubclass():
        call = Call(function, args, named)
        leaves, form = tree_flatten(function(*args, **named))
        return tree_unflatten(
            [_made(leaf, Made(call, place)) for place, leaf in enumerate(leaves)], form
        )


def output(tensor: Tensor, backward: Backward) -> Recorded:
    """Return a copy of ``tensor``, an output of the network, as the beginning of a record.

    What a loop writes into it through NumPy leaves the network's own output as it is, and the loss no longer agrees.
    """
    with torch._C.DisableTorchFunctionSubclass():
        return _made(tensor.clone(), Made(Output(tensor, backward)))


class Record:
    """All calls between the outputs and one loss, in their order.

    ``others`` are the tensors that do not come from the outputs, in the order in which the calls meet them, and
    ``per_class`` says which of them were given as weights of the classes.
    """

    def __init__(self, loss: Recorded) -> None:
        self.end: Made = _record_of(loss)
        self.others: list[Tensor] = []
        self.per_class: list[bool] = []
        waiting, found = [self.end.by], dict[int, Call | Output]()
        while waiting:
            by = waiting.pop()
            if id(by) not in found:
                found[id(by)] = by
                waiting += [leaf.by for leaf in _leaves(by) if isinstance(leaf, Made)]
        self.calls = sorted(
            (by for by in found.values() if isinstance(by, Call)), key=lambda call: call.number
        )
        self.outputs = [by for by in found.values() if isinstance(by, Output)]
        for call in self.calls:
            weights = [id(call.named.get(name)) for name in _ONE_A_CLASS]
            own = [leaf for leaf in _leaves(call) if isinstance(leaf, Tensor)]
            self.others += own
            self.per_class += [id(leaf) in weights for leaf in own]

    def again(
        self, outputs: Sequence[Tensor], others: Sequence[Tensor], *, examples: int
    ) -> Tensor:
        """Compute the loss of other outputs and other tensors.

        Args:
            outputs: in the order of ``self.outputs``.
            others: in the order of ``self.others``.
            examples: by which the sizes and divisors in the record are divided; 1 leaves them as they are.
        """
        known: dict[int, list[Any]] = {
            id(by): [x] for by, x in zip(self.outputs, outputs, strict=True)
        }
        rest = iter(others)

        def value(leaf: Any) -> Any:
            if isinstance(leaf, Made):
                return known[id(leaf.by)][leaf.place]
            return next(rest) if isinstance(leaf, Tensor) else leaf

        for call in self.calls:
            args, named = tree_map(value, _resized(call, examples))
            known[id(call)] = tree_flatten(call.function(*args, **named))[0]
        return known[id(self.end.by)][self.end.place].reshape(())

    def multiplies_by(self, number: int) -> bool:
        """Tell whether some call multiplies by that plain number."""
        factors = [
            leaf
            for call in self.calls
            if call.name in _PRODUCTS
            for leaf in _leaves(call)
            if _is_plain(leaf)
        ]
        return number in factors

    def text(self, examples: int) -> list[str]:
        """Name each call and its plain numbers, sizes and divisors divided by ``examples``."""
        return [
            f"{call.name}({', '.join(repr(x) for x in tree_flatten(_resized(call, examples))[0] if _is_plain(x))})"
            for call in self.calls
        ]


def _made(leaf: Any, made: Made) -> Any:
    if not isinstance(leaf, Tensor):
        return leaf
    own = leaf if isinstance(leaf, Recorded) else leaf.as_subclass(Recorded)
    own.made, made.version = made, own._version
    return own


def _record_of(leaf: Any) -> Any:
    if not isinstance(leaf, Recorded):
        return leaf
    if leaf._version != leaf.made.version:
        raise ValueError(
            "the loss writes into the network's outputs, or into what was computed of them, in place, which cannot be "
            "followed example by example: write x = f(x) in place of x[...] = ..."
        )
    return leaf.made


def _leaves(by: Call | Output) -> list[Any]:
    return tree_flatten((by.args, by.named))[0] if isinstance(by, Call) else []


def _is_plain(leaf: Any) -> bool:
    return not isinstance(leaf, Made | Tensor)


def _resized(call: Call, examples: int) -> Any:
    leaves, form = tree_flatten((call.args, call.named))
    if examples > 1 and call.name in _SIZES and len(leaves) > 1:
        size = leaves[1]
        if isinstance(size, int) and size > 0 and size % examples == 0:
            leaves[1] = size // examples
    return tree_unflatten(leaves, form)
