"""The way from a network's outputs to a loss, recorded, so that it can be gone again for single examples.

A private module's training outputs are :class:`Recorded` tensors. They behave as any tensors; what is computed of them
is noted down on the tape of their forward pass, and ``backward`` of the loss goes to the
:class:`~pacdp.opacus.guard.Guard` of the module.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_leaves, tree_map, tree_unflatten

_SIZES = ("view", "reshape", "expand", "div", "true_divide", "divide")
"""Calls whose first number may be that of the examples of the batch, or a multiple of it."""
_PRODUCTS = ("mul", "multiply", "__rmul__")
_ONE_A_CLASS = ("weight", "pos_weight")
as_written = torch._disable_dynamo  # pyright: ignore[reportPrivateImportUsage]
"""``torch.compile`` of what is around such a function runs it, and all that it calls, as it is written."""
_OF_ITSELF = (Tensor.__format__, Tensor.__deepcopy__, Tensor.__reduce_ex__)
"""Calls that print, copy or write a tensor, without the record of how it was made."""


class Places(NamedTuple):
    """The numbers 0, 1, ... by which ``outputs[torch.arange(n), labels]`` takes a number of each row."""

    upto: int


class Call(NamedTuple):
    """A function that was called with recorded tensors."""

    function: Callable[..., Any]
    leaves: list[Any]
    """All arguments; recorded tensors are held as :class:`Made`."""
    form: Any
    """How they make positional and named arguments."""
    held: bool = False
    """Whether it was called under ``torch.no_grad``, so that its results are constants."""

    @property
    def name(self) -> str:
        """The function's name."""
        return getattr(self.function, "__name__", str(self.function))

    def again(self, leaves: list[Any]) -> list[Any]:
        """What it gives of other arguments."""
        args, named = tree_unflatten(leaves, self.form)
        with torch.set_grad_enabled(not self.held):
            return tree_leaves(self.function(*args, **named))

    def resized(self, examples: int) -> list[Any]:
        """The arguments, a size, a divisor or places among them divided by so many examples."""
        leaves = [*self.leaves]
        if examples > 1 and len(leaves) > 1:
            size = leaves[1]
            if isinstance(size, Places) and size.upto % examples == 0:
                leaves[1] = Places(size.upto // examples)
            elif self.name in _SIZES and isinstance(size, int | float) and size > 0:
                leaves[1] = size if size % examples else size // examples
        return leaves


class Tape:
    """What is computed of the outputs of one forward pass.

    Args:
        backward: what is called in place of a loss's ``backward``, with the loss and the arguments of that call.
    """

    def __init__(self, backward: Callable[..., None]) -> None:
        self.backward, self.used = backward, False
        self.outputs, self.calls = list[Any](), list[Call]()

    def begin(self, outputs: Any) -> Any:
        """Copies of the network's outputs, as the beginning of the record.

        What a loop writes into one through NumPy leaves the network's own as it is, and the loss no longer agrees.
        """
        self.outputs = tree_leaves(outputs)
        return self.noted(tree_map(lambda x: x.clone() if isinstance(x, Tensor) else x, outputs))

    def noted(self, found: Any) -> Any:
        """What the last call gave, each tensor of it with its place."""
        leaves, form = tree_flatten(found)
        for place, x in enumerate(leaves):
            if isinstance(x, Tensor):
                leaves[place] = x if isinstance(x, Recorded) else x.as_subclass(Recorded)
                leaves[place].made = Made(self, len(self.calls), place, x._version)
        return tree_unflatten(leaves, form)


class Made(NamedTuple):
    """A result of a call on a tape, of which number 0 is the forward pass, until something is written into it."""

    tape: Tape
    number: int
    place: int
    version: int


class Recorded(Tensor):
    """A tensor that knows how it was made of a network's outputs."""

    made: Made

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call the function and note it down, or hand over a backward pass."""
        del types
        if func is Tensor.backward:
            return _backward(*args, **kwargs or {})
        if func in _OF_ITSELF:
            return func(_plain(args[0]), *args[1:], **kwargs or {})
        return recorded(func, *args, **kwargs or {})


def _plain(x: Tensor) -> Tensor:
    """The same tensor without a record."""
    with torch._C.DisableTorchFunctionSubclass():
        return x.as_subclass(Tensor)


def leave_uncompiled() -> None:
    """Have ``torch.compile`` run functions of recorded tensors as they are written, so that they are noted down."""
    from torch._dynamo import config  # every optimizer has imported it by now

    config.nontraceable_tensor_subclasses.add(Recorded)


@as_written
def _backward(loss: Recorded, gradient: Tensor | None = None, **options: Any) -> None:
    """Hand the loss over; losses of single examples and a gradient by them are the sum of their products."""
    if gradient is not None:
        loss = (loss * gradient).sum()  # pyright: ignore[reportAssignmentType]
    with torch._C.DisableTorchFunctionSubclass():
        loss.made.tape.backward(loss, **options)


@as_written
def recorded(function: Callable[..., Any], *args: Any, **named: Any) -> Any:
    """Call the function and note it down where arguments are recorded, as one call whatever it does inside."""
    with torch._C.DisableTorchFunctionSubclass():
        leaves, form = tree_flatten((args, named))
        leaves = [_held(x) for x in leaves]
        tape = next((x.tape for x in leaves if isinstance(x, Made)), None)
        found = function(*args, **named)
        if tape is None:
            return found
        if function is Tensor.__getitem__ and _is_every_place(leaves[1]):
            leaves[1] = Places(len(leaves[1]))
        tape.calls.append(Call(function, leaves, form, not torch.is_grad_enabled()))
        return tape.noted(found)


def one_of_them(tapes: set[Tape]) -> Tape:
    """The only tape, or a refusal by ValueError."""
    if len(tapes) != 1:
        raise ValueError(
            "the loss is computed of outputs of several forward passes: call the network once a batch, and put what "
            "calls it several times into module"
        )
    return tapes.pop()


class Record:
    """All calls between the outputs and one loss, by their numbers on the tape.

    ``outputs`` are those of the network that they start from, by their places; ``others`` are the tensors that do not
    come from the outputs, in the order in which the calls meet them, and ``per_class`` says which of them were given as
    weights of the classes.

    Raises:
        ValueError: the outputs are those of several forward passes.
    """

    def __init__(self, loss: Recorded) -> None:
        self.end: Made = _held(loss)
        self.tape, met = self.end.tape, [self.end]
        self.calls, self.others, self.per_class = dict[int, Call](), list[Tensor](), list[bool]()
        for number in range(self.end.number, 0, -1):
            if any(one.number == number for one in met):
                self.calls[number] = self.tape.calls[number - 1]
                met += [leaf for leaf in self.calls[number].leaves if isinstance(leaf, Made)]
        one_of_them({one.tape for one in met})
        self.calls = dict(sorted(self.calls.items()))
        places = {one.place for one in met if one.number == 0}
        self.outputs: dict[int, Tensor] = {k: self.tape.outputs[k] for k in sorted(places)}
        for call in self.calls.values():
            own = [leaf for leaf in call.leaves if isinstance(leaf, Tensor)]
            self.others += own
            _, named = tree_unflatten(call.leaves, call.form)
            weights = {id(named.get(name)) for name in _ONE_A_CLASS}
            self.per_class += [id(leaf) in weights for leaf in own]

    def again(
        self, outputs: Mapping[int, Tensor], others: Sequence[Tensor], *, examples: int
    ) -> Tensor:
        """Compute the loss of other outputs and other tensors.

        Args:
            outputs: by their places.
            others: in the order of ``self.others``.
            examples: by which the sizes and divisors in the record are divided; 1 leaves them as they are.
        """
        known, rest = dict[int, Any]({0: outputs}), iter(others)

        def value(leaf: Any) -> Any:
            if isinstance(leaf, Made):
                return known[leaf.number][leaf.place]
            if isinstance(leaf, Places):
                return torch.arange(leaf.upto, device=next(iter(outputs.values())).device)
            return next(rest) if isinstance(leaf, Tensor) else leaf

        for number, call in self.calls.items():
            known[number] = call.again([value(leaf) for leaf in call.resized(examples)])
        return known[self.end.number][self.end.place].reshape(())

    def multiplies_by(self, number: int) -> bool:
        """Tell whether some call multiplies by that plain number."""
        products = (call.leaves for call in self.calls.values() if call.name in _PRODUCTS)
        return any(_is_no_tensor(x) and x == number for leaves in products for x in leaves)

    def text(self, examples: int) -> list[str]:
        """Name each call and its plain numbers, sizes and divisors divided by ``examples``."""
        given = ((call, call.resized(examples)) for call in self.calls.values())
        return [
            f"{call.name}({', '.join(map(repr, filter(_is_no_tensor, own)))})"
            + call.held * " under no_grad"
            for call, own in given
        ]


def _held(leaf: Any) -> Any:
    if not isinstance(leaf, Recorded):
        return leaf
    if leaf._version != leaf.made.version:
        raise ValueError(
            "the loss writes into the network's outputs, or into what was computed of them, in place, which cannot be "
            "followed example by example: write x = f(x) in place of x[...] = ..."
        )
    return leaf.made


def _is_every_place(leaf: Any) -> bool:
    """Whether an index is 0, 1, ... as a range or a tensor, and no number of them is an example's."""
    if isinstance(leaf, range):
        return leaf == range(len(leaf)) and len(leaf) > 0
    whole = isinstance(leaf, Tensor) and leaf.dim() == 1 and leaf.dtype == torch.int64
    return whole and len(leaf) > 0 and torch.equal(leaf, torch.arange(len(leaf)).to(leaf))


def _is_no_tensor(leaf: Any) -> bool:
    return not isinstance(leaf, Made | Tensor)
