"""Whether a pass writes into weights, buffers, attributes or its inputs, tried once and held against each step."""

import ctypes
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize
from torch.utils._pytree import tree_leaves

from pacdp.layers.plain import call_with
from pacdp.trials.reachable import contents, floats_beside, require_own_memory

_memcmp = ctypes.CDLL(None).memcmp
_memcmp.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]
_BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
_SMALL = 2**16
"""The most numbers of which bits are compared."""


class Unwritten:
    """All that a network refers to: tensors, arrays, numbers and texts in it, held against what they were.

    What a pass leaves behind, later outputs may depend on, and where training is private it leaves without noise.

    Args:
        network: a module, or any function; what it refers to is followed as by
            :func:`pacdp.trials.buffers.Holdings`.
        moving: tensors of it that may change.
        around: whether global variables are looked at too that its functions read.
        name: what it is called, in sentences.
    """

    def __init__(
        self,
        network: Any,
        *,
        moving: Iterable[Tensor] = (),
        around: bool = False,
        name: str = "network",
    ) -> None:
        without = {id(one) for one in moving}
        self._contents = partial(contents, network, without=without, around=around)
        self._before, self._name = self._contents(), name

    def changed(self) -> list[str]:
        """The places at which something is not what it was."""
        now, before = self._contents(), self._before
        return [
            where for where in sorted(now.keys() | before) if now.get(where) != before.get(where)
        ]

    def require(self) -> None:
        """Refuse a network that is not what it was.

        Raises:
            ValueError: something of it changed; it is named.
        """
        require_no_writes(self.changed(), self._name)


def require_no_writes(changed: Sequence[str], name: str = "network") -> None:
    """Refuse a network, or what is called so, that changed what is named here, by raising ValueError."""
    if changed:
        more = f" and {len(changed) - 3} more" if len(changed) > 3 else ""
        raise ValueError(
            f"the {name} changes {', '.join(changed[:3])}{more} in a forward pass, so that its outputs depend on "
            "what it saw before: call eval() on it first, let no layer work in place on its inputs or weights "
            "(nn.Embedding without max_norm), and keep nothing of a batch"
        )


def require_unwritten(network: Any, inputs: Tensor, call: Callable[[Tensor], object]) -> None:
    """Refuse a network whose pass over ``inputs`` changes them, or anything that the network refers to.

    Raises:
        ValueError: as said.
    """
    before, given = Unwritten(network), inputs.clone()
    call(given)
    require_no_writes([] if same_bits(inputs, given) else ["its inputs"])
    before.require()


def require_given_weights(module: nn.Module, inputs: Tensor) -> None:
    """Refuse a network that computes with a weight of its own where another tensor stands in its place.

    One that it keeps in a list, a function, as a view or as a copy as well is not exchanged there: the pass at other
    weights, by which laws are sampled and chains moved, is then of a network that nobody has.

    Raises:
        ValueError: it does; the sentence names the weight, or as :func:`require_own_memory`.
    """
    if parametrize._cache_enabled:
        raise ValueError(
            "the network must make its weights anew at each pass, and torch.nn.utils.parametrize.cached() keeps those "
            "of the first: leave its block before"
        )
    require_own_memory(module, frozen=True)
    own = {name: one for name, one in module.named_parameters() if one.is_floating_point()}
    given = {name: one.detach().clone() for name, one in own.items()}

    def gaps() -> list[Tensor]:
        """Where the outputs at the given weights are NaN."""
        with torch.no_grad():
            outputs = tree_leaves(call_with(module, given, inputs))
        return [one.isnan() for one in outputs if isinstance(one, Tensor)]

    before = gaps()

    def decides(*tensors: Tensor) -> bool:
        """Whether outputs are NaN once these tensors are."""
        held = [one.data for one in tensors]
        try:
            for one in tensors:
                one.data = one.new_full((), math.nan).expand(one.shape)
            return any(bool((now & ~then).any()) for now, then in zip(gaps(), before, strict=True))
        finally:
            for one, values in zip(tensors, held, strict=True):
                one.data = values

    if decides(*own.values()):
        elsewhere = (name for name, one in own.items() if decides(one))
    else:  # a weight as it was may decide, where its name decides nothing; what inference made cannot be exchanged
        kept = [one for one in floats_beside(module) if one.is_inference() or decides(one)]
        largest = max((one.numel() for one in kept), default=0)
        small = (name for name, one in own.items() if 0 < one.numel() <= largest)
        elsewhere = (name for name in small if not decides(given[name]))
    if name := next(elsewhere, ""):
        raise ValueError(
            f"the network must meet its parameter {name} by that name alone, and it computes with one that it "
            "keeps elsewhere as well, as in a list, a function or a copy: read it in forward from the layer that has "
            "it, and register tensors that are no weights as buffers"
        )


@contextmanager
def kept_inputs(*given: Tensor) -> Iterator[None]:
    """Refuse a pass that writes into these inputs, which may be a caller's data: by their versions, few by their bits.

    Raises:
        ValueError: as said.
    """
    before = [None if one.is_inference() else one._version for one in given]
    small = [one for one in given if one.numel() <= _SMALL]
    copies = [one.clone() for one in small]
    yield
    now = [None if one.is_inference() else one._version for one in given]
    if now != before or not all(map(same_bits, small, copies)):
        require_no_writes(["its inputs"])


class Unmoved:
    """The weights at which private sums are taken, and what stands beside them, after each sum as before it.

    Of all parameters and buffers, place, shape and version are compared, which costs nothing; of the weights that are
    trained, or with ``frozen`` of all, every bit, with a copy.
    """

    def __init__(self, module: nn.Module, *, frozen: bool = False) -> None:
        self._module, self._frozen = module, frozen
        self._live, self._copies = list[Tensor](), list[Tensor]()
        self._marks = dict[str, tuple[object, ...]]()

    def keep(self) -> None:
        """Remember what is there."""
        self._live = [
            p.detach() for p in self._module.parameters() if p.requires_grad or self._frozen
        ]
        if list(map(_kind, self._copies)) != list(map(_kind, self._live)):
            self._copies = [torch.empty_like(one) for one in self._live]
        for copied, one in zip(self._copies, self._live, strict=True):
            copied.copy_(one)
        self._marks = marks(self._module)

    def written(self) -> list[str]:
        """The parameters and buffers that torch wrote or that are others."""
        now = marks(self._module)
        changed = [name for name in now if now[name] != self._marks.get(name)]
        if changed and self._frozen:  # what was written back bit for bit is what it was
            own = dict(zip(dict(self._module.named_parameters()), self._copies, strict=False))
            same = {
                name
                for name in own.keys() & {*changed}
                if now[name][:2] == self._marks.get(name, ())[:2]
                and same_bits(self._module.get_parameter(name).detach(), own[name])
            }
            self._marks |= {name: now[name] for name in same}
            changed = [name for name in changed if name not in same]
        return changed

    def same(self) -> Tensor:
        """Whether all bits of the weights are what they were, a boolean for which no device is waited.

        Raises:
            ValueError: a parameter or buffer was written or exchanged.
        """
        require_no_writes(self.written())
        return self.same_bits()

    def kept(self) -> bool:
        """Whether all values are those remembered, wherever the weights lie now."""
        now = [p.detach() for p in self._module.parameters() if p.requires_grad or self._frozen]
        return len(now) == len(self._copies) and all(
            same_bits(one.cpu(), copied.cpu())
            for one, copied in zip(now, self._copies, strict=True)
        )

    def same_bits(self) -> Tensor:
        """The same of the bits alone, where it is known that nothing was exchanged."""
        pairs = zip(self._live, self._copies, strict=True)
        return torch.stack([same_bits(one, copied) for one, copied in pairs]).all()


def marks(module: nn.Module) -> dict[str, tuple[object, ...]]:
    """Where each parameter and buffer lies, its shape, and how often it was written."""
    named = [*module.named_parameters(), *module.named_buffers()]
    return {name: (one.data_ptr(), one.shape, one._version) for name, one in named}


def _kind(x: Tensor) -> tuple[object, ...]:
    return x.device, x.dtype, x.shape


def same_bits(one: Tensor, other: Tensor) -> Tensor:
    """Whether two tensors have the same shape and the same bits, on their device; NaN is itself."""
    if one.shape != other.shape:
        return torch.tensor(False)
    laid_out = [(x.dtype, x.shape, x.device.type, x.is_contiguous()) for x in (one, other)]
    if laid_out == [(one.dtype, one.shape, "cpu", True)] * 2:  # a third of the time of torch.equal
        return torch.tensor(_memcmp(one.data_ptr(), other.data_ptr(), one.nbytes) == 0)
    if one.is_complex():
        one, other = torch.view_as_real(one), torch.view_as_real(other)
    if one.is_floating_point():
        one, other = (x.view(_BITS[x.element_size()]) for x in (one, other))
    return (one == other).all()
