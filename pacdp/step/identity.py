"""What code and objects compute, as a digest: two releases of one seed are the same only where these agree.

Covered are the code of functions and classes, defaults, closures, the global variables that they read, attributes,
buffers, hooks and generators. What Python cannot look into has no digest: a C object with a state of its own, a module
of the user's.
"""

import hashlib
import os
import platform
import re
import secrets
import sys
from collections.abc import Iterator, Mapping
from functools import partial
from importlib.metadata import version
from types import (
    BuiltinFunctionType,
    CellType,
    CodeType,
    FunctionType,
    MappingProxyType,
    MethodDescriptorType,
    MethodType,
    ModuleType,
    WrapperDescriptorType,
)
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import pacdp
from pacdp import _mkl
from pacdp.step.precision import reduced
from pacdp.trials.reachable import globals_read, modules_imported, slots_of

_LIBRARIES = sys.stdlib_module_names | {"torch", "numpy", "numba", "opacus", "pacdp", "bounds"}
_PLAIN = (
    type(None),
    bool,
    int,
    float,
    complex,
    str,
    bytes,
    torch.dtype,
    torch.device,
    type(...),
    np.generic,
)
_OF_THE_CLASS = {"__dict__", "__weakref__", "__doc__", "__annotations__", "__dataclass_fields__"}
_ATTRIBUTES: dict[type, str] = {
    CodeType: "co_code co_consts co_names co_varnames co_argcount",
    MethodType: "__func__ __self__",
    partial: "func args keywords",
    property: "fget fset",
    staticmethod: "__func__",
    classmethod: "__func__",
    MethodDescriptorType: "__qualname__",
    WrapperDescriptorType: "__qualname__",
}
"""Of what some kinds of objects consist."""
_OF_FUNCTIONS = "__module__ __qualname__ __code__ __defaults__ __kwdefaults__ __closure__"
_STATELESS = object.__basicsize__
_SWITCH = re.compile(
    r"_get_\w+_(enabled|deterministic\w*|algorithms|benchmark|reduction|accumulation|backend)"
)
"""Of torch's settings those that choose kernels."""


_VARIABLES = ("MKL_", "DNNL_", "ONEDNN_", "ATEN_", "KMP_")
"""How variables begin that choose kernels of torch's libraries."""


class Unnamed(ValueError):
    """Something whose behaviour no digest can fix."""


def identity(*things: Any) -> str:
    """SHA-256, in hex digits, of all that fixes what some objects compute.

    The values of a module's parameters are left out, because training moves them: see :func:`contents`.

    Raises:
        Unnamed: it depends on something that cannot be looked into.
    """
    digest, seen = hashlib.sha256(), dict[int, tuple[int, Any]]()

    def enter(thing: Any) -> None:
        """One object with all that it refers to, in a fixed order; each enters once."""
        words: tuple[object, ...] = type(thing).__module__, type(thing).__qualname__
        parts: Iterator[Any] = iter(())
        if isinstance(thing, _PLAIN):
            words = type(thing).__name__, repr(thing)
        elif id(thing) in seen:
            words = "again", seen[id(thing)][0]
        else:
            seen[id(thing)] = len(seen), thing  # kept, so that no other object gets its id
            parts = _parts(thing)
        digest.update(repr(words).encode())
        for part in parts:
            enter(part)

    enter(things)
    return digest.hexdigest()


def contents(tensors: Mapping[str, Tensor]) -> str:
    """SHA-256, in hex digits, of the names, types, shapes and numbers of some tensors."""
    return identity({name: tensor.detach() for name, tensor in tensors.items()})


def versions() -> dict[str, str]:
    """Of Python and of the packages that round numbers."""
    return {
        "python": platform.python_version(),
        "pacdp": pacdp.__version__,
        "torch": torch.__version__,
        "numba": version("numba"),
    }


@torch.no_grad()
def arithmetic(device: torch.device) -> list[str]:
    """Versions, and a digest of all that decides how sums on a device are rounded: a seed draws for one rounding.

    That is what torch was told (threads, kernels, precision, autocast), the processor, MKL's instructions, the
    variables of the libraries, and, for what says nothing of itself, what some products and sums of fixed numbers come
    to. Where the bits of a product depend on its place in memory, it is another one each time.
    """
    kind = device.type
    told = {name: getattr(torch._C, name) for name in dir(torch._C) if _SWITCH.fullmatch(name)}
    switches = {name: str(switch()) for name, switch in sorted(told.items())}
    processor = torch.backends.cpu.get_cpu_capability(), platform.processor(), platform.machine()
    if kind == "cuda":
        processor += (torch.cuda.get_device_name(device),)
    cast = torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind)
    wave = torch.arange(2**15, device=device).double().sin().float()
    image, matrix = wave.view(1, 32, 32, 32), wave.view(128, 256)
    probes = [
        matrix @ matrix.T, F.conv2d(image, wave[: 32 * 32 * 9].view(32, 32, 3, 3)), wave.exp().sum(),
        matrix.softmax(1), matrix.double().T @ matrix.double(), wave * 1e-40, matrix @ wave[:256],
        wave[:33].view(1, 33) @ wave[33 : 33 * 66].view(33, 65),
    ]  # fmt: skip
    own = [torch.get_num_threads(), torch.get_default_dtype(), cast, switches, reduced()]
    own += [
        branch := _mkl.branch(),
        {k: v for k, v in sorted(os.environ.items()) if k.startswith(_VARIABLES)},
    ]
    placed = [] if _mkl.steady(branch) else [secrets.token_hex()]
    return [*versions().values(), identity(own, processor, probes), *placed]


def _parts(thing: Any) -> Iterator[Any]:
    """What an object consists of, in a fixed order."""
    for kind, names in _ATTRIBUTES.items():
        if isinstance(thing, kind):
            yield from (getattr(thing, name) for name in names.split())
            return
    match thing:
        case Tensor():
            flat = thing.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
            yield from (
                tuple(thing.shape),
                thing.stride(),  # which decide kernels, and roundings, as in channels_last
                thing.dtype,
                thing.requires_grad,
                flat.numpy().tobytes(),
            )
        case np.ndarray():
            yield from (thing.shape, thing.dtype.str)
            yield thing.tolist() if thing.dtype.hasobject else thing.tobytes()
        case torch.Generator():
            yield from (thing.device, thing.get_state())
        case dict() | MappingProxyType():
            yield from ((len(thing), *thing.keys()), *thing.values())
        case list() | tuple():
            yield from (len(thing), *thing)
        case set() | frozenset():
            if not all(isinstance(one, _PLAIN) for one in thing):
                raise Unnamed(f"a set of {type(next(iter(thing))).__name__} has no order")
            yield sorted(map(repr, thing))
        case type():
            yield from (thing.__module__, thing.__qualname__)
            if not _of_library(thing.__module__):
                own = vars(thing).items()
                kept = sorted((name, part) for name, part in own if name not in _OF_THE_CLASS)
                yield from (thing.__bases__, dict(kept))
        case FunctionType():
            yield from (getattr(thing, name) for name in _OF_FUNCTIONS.split())
            if not _of_library(thing.__module__):
                if not all(map(_of_library, modules_imported(thing.__code__))):
                    raise Unnamed(f"what {thing.__qualname__} imports may change")
                names = sorted(globals_read(thing.__code__) & thing.__globals__.keys())
                yield from ((name, thing.__globals__[name]) for name in names)
                yield vars(thing)
        case CellType():
            try:
                yield thing.cell_contents
            except ValueError:  # an empty one
                yield None
        case ModuleType():
            if not _of_library(thing.__name__):
                raise Unnamed(f"the module {thing.__name__} may change")
            yield thing.__name__
        case BuiltinFunctionType():
            yield thing.__qualname__
            if not isinstance(thing.__self__, ModuleType | type(None)):
                yield thing.__self__
        case _:
            yield from _of_object(thing)


def _of_object(thing: Any) -> Iterator[Any]:
    kind, slots, own = type(thing), [*slots_of(thing)], getattr(thing, "__dict__", None)
    if own is None and not slots and kind.__basicsize__ > _STATELESS:
        raise Unnamed(f"nobody can look into {kind.__module__}.{kind.__qualname__}")
    yield from (kind, *slots)
    if isinstance(thing, nn.Module):
        named = thing.named_parameters(recurse=False)
        shapes = [(name, tuple(p.shape), p.dtype, p.requires_grad) for name, p in named]
        own = {**vars(thing), "_parameters": shapes}
    yield own or {}


def _of_library(module: str | None) -> bool:
    return (module or "").split(".")[0] in _LIBRARIES
