"""What runs would cost: operations counted on networks without data, and minutes of a machine that are stated.

A pass of a network is traced on PyTorch's device ``meta``, which computes shapes alone. Each operation takes as long as
the slowest of three: its arithmetic at the machine's sustained rate, its numbers through the machine's memory, and the
start of a kernel. Where a table has the seconds that its runs took, :func:`of_seconds` needs none of this.
"""

import copy
import functools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What runs would be carried out on."""

    name: str
    rate: float
    """Arithmetic operations a second that training sustains."""
    bandwidth: float
    """Bytes a second to and from memory that training sustains."""
    start: float
    """Seconds that an operation takes at least."""
    call: float = 0.0
    """Seconds that a pass under ``torch.func.vmap`` takes beside its operations, to be traced anew; 0 where nobody has
    measured it."""
    assumed: str
    """The same in words."""


H100 = Machine(
    name="one H100", rate=0.4 * 495e12, bandwidth=0.6 * 3.35e12, start=4e-6,
    assumed="40% of the H100's 495 TFLOP/s in TF32, 60% of its 3.35 TB/s, 4 microseconds a kernel",
)  # fmt: skip
TWO_CORES = Machine(
    name="two cores", rate=2 * 3e10, bandwidth=1e10, start=5e-6, call=0.25e-3 / 2,
    assumed="30 GFLOP/s on each of two cores, as was measured of a small convolutional network, and 0.25 milliseconds "
    "of one core for a pass under vmap, as was measured of a linear layer's losses of one record",
)  # fmt: skip


class Operation(NamedTuple):
    """One operation of a pass."""

    arithmetic: float
    moved: float
    """Bytes read and written."""

    def seconds(self, machine: Machine, copies: int) -> float:
        """With so many copies of it side by side, as chains of one batch are."""
        return max(machine.start, copies * self.arithmetic / machine.rate, copies * self.moved / machine.bandwidth)


class Pass(NamedTuple):
    """What one pass of a network asks for."""

    operations: tuple[Operation, ...]
    calls: int = 0
    """How often it is traced under ``torch.func.vmap``."""

    @property
    def arithmetic(self) -> float:
        """The number of arithmetic operations."""
        return sum(one.arithmetic for one in self.operations)

    def seconds(self, machine: Machine, copies: int = 1) -> float:
        """How long it takes, with so many copies side by side."""
        return self.calls * machine.call + sum(one.seconds(machine, copies) for one in self.operations)


class _Recording(TorchDispatchMode):
    """Notes each operation that computes: views move nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[Operation] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        if not func.is_view and func.overloadpacket not in _FREE:
            counted = flop_registry.get(func.overloadpacket)
            tensors = [one for one in tree_leaves((args, kwargs, out)) if isinstance(one, Tensor)]
            moved = sum(one.numel() * one.element_size() for one in tensors)
            self.seen.append(Operation(counted(*args, **kwargs, out_val=out) if counted else 0.0, moved))
        return out


_FREE = {torch.ops.aten.detach, torch.ops.aten.empty, torch.ops.aten.empty_like, torch.ops.aten.empty_strided}


def forward(module: nn.Module, shape: Sequence[int], batch: int) -> Pass:
    """The pass of a network, on any device, over a batch of inputs of this shape."""
    with torch.no_grad(), _Recording() as seen:
        _on_meta(module)(torch.empty(batch, *shape, device="meta"))
    return Pass(tuple(seen.seen))


def gradient(module: nn.Module, shape: Sequence[int], batch: int) -> Pass:
    """The same with the gradient of every weight."""
    own = _on_meta(module).requires_grad_()
    with _Recording() as seen:
        own(torch.empty(batch, *shape, device="meta")).sum().backward()
    return Pass(tuple(seen.seen))


def update(weights: int, operations: int) -> Pass:
    """So many operations on all weights, each of which reads two of them and writes one."""
    return Pass((Operation(float(weights), 12.0 * weights),) * operations)


def _on_meta(module: nn.Module) -> nn.Module:
    return copy.deepcopy(module).to("meta")


class Work(NamedTuple):
    """A number of passes, each so many times, some with copies side by side."""

    parts: tuple[tuple[Pass, float, int], ...]
    """Pass, how often it is made, and for how many copies at once."""

    def __add__(self, other: "Work") -> "Work":  # type: ignore[override]
        return Work(self.parts + other.parts)

    def beside(self, copies: int) -> "Work":
        """The same for so many runs that go together."""
        return Work(tuple((one, times, own * copies) for one, times, own in self.parts))

    @property
    def arithmetic(self) -> float:
        """The number of arithmetic operations."""
        return sum(one.arithmetic * times * copies for one, times, copies in self.parts)

    def seconds(self, machine: Machine) -> float:
        """How long it takes on a machine."""
        return sum(times * one.seconds(machine, copies) for one, times, copies in self.parts)


def total(works: Iterable[Work]) -> Work:
    """Cost of all of them, one after another."""
    return functools.reduce(Work.__add__, works, Work(()))


def told(work: Work, machine: Machine) -> str:
    """For sentences: the time, and what it follows from; the machine's rates are told once, on the page."""
    return f"{at_least(work.seconds(machine), machine)}, estimated from {work.arithmetic:.1e} operations"


def at_least(seconds: float, machine: Machine = TWO_CORES) -> str:
    """For sentences: estimated seconds of a machine, which leave out what nobody counted."""
    return f"at least {_amount(seconds)} of {machine.name}"


def of_seconds(seconds: float, machine: Machine = TWO_CORES) -> str:
    """For sentences: measured seconds of one thread, that many of which two cores do half at a time."""
    return f"{duration(seconds / 2.0 if machine is TWO_CORES else seconds)} of {machine.name}"


def duration(seconds: float) -> str:
    """What was measured, to two digits, in minutes or hours."""
    return "less than a minute" if seconds < 60.0 else f"about {_amount(seconds)}"


def _amount(seconds: float) -> str:
    size, unit = (3600.0, "hours") if seconds >= 5400.0 else (60.0, "minutes") if seconds >= 60.0 else (1.0, "seconds")
    return f"{float(f'{seconds / size:.2g}'):g} {unit}"
