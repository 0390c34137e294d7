"""A sampler's step on fixed memory, recorded as one CUDA graph and replayed with new numbers.

Everything that a step does (gather, gradients, noise, averages, for Entropy-SGLD all L inner steps) becomes one launch.
What differs from step to step, its coefficients and its count, is copied into fixed tensors before each replay; random
numbers are functions of the count, so that no generator needs recording. On a CPU the same code runs without a graph.
"""

import warnings
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from pacdp.random.devices import current
from pacdp.random.keys import Keys

_WARM_UPS = 3
_held: ContextVar[list[Tensor] | None] = ContextVar("held", default=None)


def lasting(tensor: Tensor) -> Tensor:
    """The tensor itself, which a step writes to and its owner may let go of: whoever replays the step holds it too."""
    held = _held.get()
    if held is not None:
        held.append(tensor)
    return tensor


class _Recording(NamedTuple):
    graph: torch.cuda.CUDAGraph | None
    numbers: dict[str, Tensor]
    written: dict[str, np.ndarray]
    """What these hold now."""
    flags: dict[str, Any]
    info: Any


class Replayed:
    """A sampler (see :class:`pacdp.algorithms.Sampler`) whose ``step`` replays its ``transition``.

    Settings and states must be of the shapes and types that the first step had: what is recorded reads their places.
    The state that ``step`` returns lies in memory that the next call overwrites: clone what is to be kept. Steps must
    not depend on the values of tensors for their shapes (:meth:`pacdp.objective.Objective.has_fixed_shapes`). A step
    that the device refuses to record is carried out as it is, call by call, with a warning.
    """

    def __init__(self, sampler: Any, keys: Keys) -> None:
        self._sampler, self._keys = sampler, keys
        self._own: Any = None
        """The state, in memory that every step reads and writes."""
        self._tick = torch.zeros(0)
        self._recording: _Recording | None = None
        self._lasting = list[Tensor]()
        """What the last step that was carried out writes to: the recorded one does too."""

    def step(self, state: Any, keys: Keys) -> tuple[Any, Any]:
        """The next state.

        Raises:
            ValueError: other keys, or a state or setting of another shape or type than was recorded.
        """
        if keys is not self._keys:
            raise ValueError("expected the keys that the steps were recorded with")
        with current(state[0].device):
            return self._step(state)

    def _step(self, state: Any) -> tuple[Any, Any]:
        coefficients = self._sampler.coefficients(state.step)
        self._load(state)
        numbers = {
            name: value for name, value in coefficients.items() if isinstance(value, np.ndarray)
        }
        flags = {name: value for name, value in coefficients.items() if name not in numbers}
        if self._recording is None or self._recording.flags != flags:
            self._recording = self._record(numbers, flags)
        for name, own in self._recording.numbers.items():
            value = numbers[name]
            # each copy is a call of the device's driver
            if not np.array_equal(value, self._recording.written[name]):
                new = torch.from_numpy(np.ascontiguousarray(value))
                own.copy_(_like(own, new), non_blocking=True)
                self._recording.written[name] = value.copy()
        self._tick.fill_(state.step)
        if self._recording.graph is None:
            info = self._advance(self._recording.numbers, flags)
        else:
            self._recording.graph.replay()
            info = self._recording.info
        seen = type(info)(*(None if value is None else value.clone() for value in info))
        return self._own._replace(step=state.step + 1), seen

    def _load(self, state: Any) -> None:
        if self._own is None:
            self._own = type(state)(*(tensor.clone() for tensor in state[:-1]), step=0)
            self._tick = torch.zeros((), dtype=torch.int64, device=state[0].device)
        for own, tensor in zip(self._own[:-1], state[:-1], strict=True):
            if own is not tensor:
                own.copy_(_like(own, tensor))

    def _advance(self, numbers: dict[str, Tensor], flags: dict[str, Any]) -> Any:
        self._lasting = list[Tensor]()
        before = _held.set(self._lasting)
        try:
            after, info = self._sampler.transition(
                self._own, {**numbers, **flags}, self._keys, self._tick
            )
        finally:
            _held.reset(before)
        for own, tensor in zip(self._own[:-1], after[:-1], strict=True):
            own.copy_(tensor)
        return info

    def _record(self, numbers: dict[str, np.ndarray], flags: dict[str, Any]) -> _Recording:
        device = self._tick.device
        static = {name: torch.tensor(value, device=device) for name, value in numbers.items()}
        written = {name: value.copy() for name, value in numbers.items()}
        if device.type != "cuda":
            return _Recording(None, static, written, flags, None)
        kept = [tensor.clone() for tensor in self._own[:-1]]
        side = torch.cuda.Stream(device)
        side.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(side):
            for _ in range(_WARM_UPS):
                self._advance(static, flags)
        torch.cuda.current_stream(device).wait_stream(side)
        graph, info = recorded(lambda: self._advance(static, flags), device)
        for own, tensor in zip(self._own[:-1], kept, strict=True):
            own.copy_(tensor)
        return _Recording(graph, static, written, flags, info)


def _like(own: Tensor, tensor: Tensor) -> Tensor:
    if (own.shape, own.dtype) != (tensor.shape, tensor.dtype):  # a copy would repeat or round it
        raise ValueError(
            f"expected {own.dtype} {tuple(own.shape)} as the steps were recorded with, got {tensor.dtype} "
            f"{tuple(tensor.shape)}"
        )
    return tensor


def recorded(
    run: Callable[[], Any], device: torch.device
) -> tuple[torch.cuda.CUDAGraph | None, Any]:
    """A call as a graph, and what it returned in the graph's memory; None, with a warning, where that is refused."""
    with current(device):
        graph, stream = torch.cuda.CUDAGraph(), torch.cuda.current_stream(device)
        try:  # on a stream of this device: the one that torch takes by itself is of the first recording's
            with torch.cuda.graph(graph, stream=torch.cuda.Stream(device)):
                found = run()
        except RuntimeError as error:
            torch.cuda.set_stream(stream)  # a recording that fails leaves its own behind
            torch.cuda.synchronize(device)
            why = str(error).splitlines()[0]
            warnings.warn(
                f"steps are not recorded as a CUDA graph and take longer, with the same numbers: {why}",
                stacklevel=2,
            )
            return None, None
    return graph, found
