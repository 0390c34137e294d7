"""What can be reached from a network: whatever its answers may depend on beside its inputs, and what it is made of."""

import dis
import functools
import gc
import math
import sys
import sysconfig
import zlib
from argparse import Namespace
from array import array
from collections import OrderedDict, deque
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from io import IOBase
from itertools import chain, count
from types import (
    CellType,
    CodeType,
    FrameType,
    FunctionType,
    MethodType,
    ModuleType,
    SimpleNamespace,
)
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch._C._functorch import is_functorch_wrapped_tensor
from torch.utils.data import DataLoader
from torch.utils.data import Dataset as Examples

from pacdp.data import Dataset

_VALUES = (str, bytes, int, float, complex, np.generic, type(None))
_PLAIN = (
    ModuleType,
    FrameType,
    CodeType,
    torch.dtype,
    torch.device,
    torch.Generator,
    type(ClassVar),
)
"""Not followed; the last are words of annotations, such as Literal, whose caches grow whenever anybody uses them."""
_BUFFERS = (bytearray, memoryview, array)
_PASSED_OVER = (
    "torch._dynamo",
    "torch._inductor",
    "torch._functorch",
    "beartype",
    "jaxtyping",
    "opacus.grad_sample",
    "pacdp.opacus",
    "pacdp.step.ghost",
)
_CONTAINERS = {dict, OrderedDict, list, tuple, set, frozenset, deque}
_SEQUENCES = (list, tuple, deque)
_KNOWN = (Tensor, nn.Module, Mapping, set, frozenset, FunctionType, CellType, MethodType,
          functools.partial, *_SEQUENCES)  # fmt: skip
"""Of which all parts are known."""
_DATA = (*_KNOWN, *_VALUES, *_BUFFERS, np.ndarray, type, Dataset, Examples, DataLoader, Iterator, SimpleNamespace,
         Namespace)  # fmt: skip
_INSTALLED = tuple({sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")})
"""Folders of libraries."""
_CARRIERS = (Tensor, np.ndarray, list, tuple, dict)
"""What a class of a library is searched for, and its name by which it is known; other classes are followed."""
_LIBRARIES = {*sys.stdlib_module_names, "torch", "numpy", "opacus", "pacdp"}
_FRAMES = {"pandas", "polars"}
"""Libraries whose columns are looked at, and not what else they keep of them, such as caches that any use fills."""
_LARGEST = 2**26
"""The most numbers of a sparse matrix that is looked into."""
_MANY, _SHORT, _LONG = 10, 16, 64
"""The fewest records of a list, and the most fields of one, that are looked at column by column, and the longest text
that stands there itself."""
_OF_NO_ACCOUNT = ("training", "_flat_weights")
"""Of modules: their mode, and a recurrent layer's list of its parameters, which functional calls exchange."""
_PICKLED = ("__reduce_ex__", "__reduce__", "__getstate__")
_OF_CLASSES = (
    "__dict__",
    "__weakref__",
    "__doc__",
    "__module__",
    "__annotations__",
    "__qualname__",
)


Things = Iterator[tuple[str, Any]]
"""Things, each with its place in a network."""


def reachable(root: Any, *, without: Collection[int] = (), around: bool) -> Things:
    """Tensors, arrays, numbers and texts that can be reached from something, each with its place.

    Not followed are things of the identities ``without``, compilers' caches and what Opacus hooks to layers. With
    ``around`` global variables are followed, and classes of installed packages, which keep things of their own, not.
    """
    ahead: list[tuple[str, Any]] = [("", root)]
    seen = dict[int, Any]()
    while ahead:
        where, thing = ahead.pop()
        if isinstance(thing, _BUFFERS):
            thing = bytes(thing)
        if isinstance(thing, _VALUES):
            yield where.removeprefix("."), thing
            continue
        known = id(thing) in seen or id(thing) in without
        known = known or (type(thing) in _CONTAINERS and not thing)  # of which a module has a dozen
        own = thing if isinstance(thing, FunctionType | type) else type(thing)
        if known or isinstance(thing, _PLAIN):
            continue
        if around and isinstance(thing, type) and _is_installed(thing):
            continue
        if str(own.__module__).startswith(_PASSED_OVER):
            if isinstance(thing, nn.Module):  # a wrapper, whose network is looked into all the same
                inside = thing.named_children()
                ahead.extend((f"{where}.{name}", child) for name, child in inside)
            continue
        seen[id(thing)] = thing  # kept, so that no other thing gets its id
        if isinstance(thing, Tensor) and thing.is_nested:
            thing = torch.nested.to_padded_tensor(thing, 0.0)
        if isinstance(thing, Tensor | np.ndarray):
            yield where.removeprefix("."), thing
        if isinstance(thing, _SEQUENCES) and (numbers := _as_numbers(thing)) is not None:
            yield where.removeprefix("."), numbers
            if around and numbers.ndim > 1:  # of which any may be labels
                yield from ((where.removeprefix("."), one) for one in _columns_of_names(thing))
            continue
        if (around or hasattr(type(thing), "to_numpy")) and (table := table_of(thing)) is not None:
            yield where.removeprefix("."), table
        if around:
            columns = [*_columns_of_names(thing)]
            yield from ((where.removeprefix("."), column) for column in columns)
            if columns and _is_plain(thing):
                continue
        kinds = () if isinstance(thing, type) else type(thing).__mro__
        frame = hasattr(type(thing), "to_numpy") and any(_is_of(kind, _FRAMES) for kind in kinds)
        kinds = [kind for kind in kinds if not (frame and _is_of(kind, _FRAMES))]
        held = _columns(thing) if frame else _parts(thing)
        parts = [*held, *(("", kind) for kind in kinds if id(kind) not in seen)]
        if around and isinstance(thing, FunctionType):
            parts += _read_of_globals(thing)
        ahead.extend((where + name, part) for name, part in reversed(parts))


def contents(
    network: Any, *, without: Collection[int] = (), around: bool = False
) -> dict[str, tuple[Any, ...]]:
    """What a network refers to, by place: kind, shape and bits of tensors and arrays; numbers and texts themselves.

    Whether a module is in training mode is left out, what ``torch.compile`` keeps, and things of the identities
    ``without``. With ``around`` there are the global variables that its functions read.
    """
    found = dict[str, tuple[Any, ...]]()
    for where, thing in reachable(network, without=without, around=around):
        while where in found:  # a class may have an attribute of the same name
            where += "'"
        found[where] = digest(thing)
    return found


def digest(thing: Any) -> tuple[Any, ...]:
    """Kind, shape and bits of a tensor or an array; a number or text itself."""
    if isinstance(thing, Tensor):
        kind = str(thing.dtype), tuple(thing.shape)
        if is_functorch_wrapped_tensor(thing):  # which nothing computes with any more
            return *kind, None
        bits = thing.detach()
        if bits.layout != torch.strided or bits.is_quantized or bits.device.type == "meta":
            return *kind, None if bits.is_inference() else bits._version
        # what was put back is what it was, whatever its version says
        whole = bits.contiguous().flatten().view(torch.uint8).cpu() if bits.numel() else bits
        return *kind, zlib.crc32(whole.numpy().tobytes())
    if isinstance(thing, np.ndarray):
        plain = thing.dtype.kind in "biufcUS"
        return str(thing.dtype), thing.shape, zlib.crc32(thing.tobytes()) if plain else 0
    if isinstance(thing, bytes):
        return "bytes", zlib.crc32(thing)
    return type(thing).__name__, repr(thing)


def require_all_named(module: nn.Module) -> None:
    """Refuse weights that are none of a module's own, as those of layers in a plain list: no law is over them, no bound
    pays for them, and whoever trained them may have used every record.

    Raises:
        ValueError: it has some; the sentence names the first.
    """
    own = {id(each) for _, each in module.named_parameters(remove_duplicate=False)}
    for where, each in reachable(module, around=False):
        weight = isinstance(each, Tensor) and each.requires_grad and each.is_leaf
        if (weight or isinstance(each, nn.Parameter)) and id(each) not in own:
            raise ValueError(
                f"the network must name all of its weights, and {where} is none of its parameters: keep layers in an "
                "nn.ModuleList and weights in nn.Parameter attributes"
            )


def floats_beside(module: nn.Module) -> list[Tensor]:
    """The dense tensors of floats that a module keeps and that are none of its parameters and buffers."""
    own = {id(one) for one in (*module.parameters(), *module.buffers())}
    return [
        one
        for _, one in reachable(module, without=own, around=False)
        if isinstance(one, Tensor)
        and one.is_floating_point()
        and one.layout == torch.strided
        and not is_functorch_wrapped_tensor(one)
    ]


def require_own_memory(module: nn.Module, *, frozen: bool = False) -> None:
    """Refuse a network in which another tensor or array, as ``weight.data`` is, lies in the memory of a trained weight,
    or with ``frozen`` of any.

    It moves with the weight in this network, and stays behind in copies of it, on which trials and training run.

    Raises:
        ValueError: there is one; the sentence names both.
    """
    named = module.named_parameters()
    weights = [(name, p, *_memory(p)) for name, p in named if frozen or p.requires_grad]
    for where, other in reachable(module, around=False):
        if not isinstance(other, Tensor | np.ndarray):
            continue
        begins, ends = _memory(other)
        for name, weight, first, last in weights:
            if other is not weight and first < ends and begins < last:
                raise ValueError(
                    f"{where} of module lies in the memory of its parameter {name}, as {name}.data does, and moves "
                    "with it unseen: use the parameter itself in both places, or a clone()"
                )


def _memory(of: Tensor | np.ndarray) -> tuple[int, int]:
    """The addresses between which all numbers of a tensor or array lie."""
    if isinstance(of, np.ndarray):
        begin = of.__array_interface__["data"][0]
        return begin, begin + of.nbytes
    if of.layout != torch.strided or is_functorch_wrapped_tensor(of) or not of.numel():
        return 0, 0
    last = sum((size - 1) * step for size, step in zip(of.shape, of.stride(), strict=True))
    return of.data_ptr(), of.data_ptr() + (last + 1) * of.element_size()


def _as_numbers(thing: Any) -> np.ndarray | None:
    """A list of numbers, or of rows of them, as an array; None of any other."""
    flat = chain.from_iterable(thing) if {*map(type, thing)} <= {list, tuple} else thing
    if not all(isinstance(one, int | float) for one in flat):
        return None
    with suppress(ValueError):  # rows that differ in length
        found = np.asarray(thing)
        return found if found.dtype.kind in "biuf" else None
    return None


def are_numbers(inputs: Any) -> bool:
    """Whether inputs are one dense array or tensor of numbers."""
    dtype = None if hasattr(inputs, "tocsr") else getattr(inputs, "dtype", None)
    return isinstance(dtype, torch.dtype) or getattr(dtype, "kind", "O") in "biuf"


def numbers_of(inputs: Any) -> Tensor | np.ndarray | None:
    """Inputs as one dense array or tensor of numbers, whatever they are kept in; None of others."""
    if are_numbers(inputs):
        return inputs
    found = table_of(inputs)
    return _as_numbers(inputs) if found is None and isinstance(inputs, _SEQUENCES) else found


def table_of(thing: Any) -> np.ndarray | None:
    """The columns of numbers of a frame, a sparse matrix, a dictionary of columns or of records, side by side.

    They are kept one by one, by type or by record, and a row of them stands nowhere. None of anything else.
    """
    with suppress(Exception):
        if hasattr(type(thing), "tocsr"):
            return thing.toarray() if math.prod(thing.shape) <= _LARGEST else None
        if hasattr(type(thing), "columns"):
            columns = [thing[name] for name in thing.columns]
        elif isinstance(thing, np.ndarray) and thing.dtype.names:
            columns = [thing[name] for name in thing.dtype.names]
        elif isinstance(thing, np.ndarray) and thing.dtype == object and thing.ndim == 2:
            columns = thing.T.tolist()
        elif isinstance(thing, list) and isinstance(thing[0], dict):
            columns = [[record[name] for record in thing] for name in thing[0]]
        elif type(thing) is dict and len(thing) > 1:
            columns = [*thing.values()]
        else:
            return None
        arrays = [np.asarray(one) for one in columns if hasattr(one, "__len__")]
        numbers = [one for each in arrays if each.ndim == 1 and (one := _real(each)) is not None]
        return np.column_stack(numbers)
    return None


def _columns_of_names(thing: Any) -> Iterator[np.ndarray]:
    """What stands in a list, a dictionary, a frame or an array of names or of short records, as text, column by column.

    So stand labels beside the names of files. Nothing of any other thing.
    """
    if type(thing) in (list, tuple) and len(thing) < _MANY:
        return
    with suppress(Exception):
        rows: Any = thing
        if isinstance(thing, Mapping):
            rows = [*thing.values()]
        elif isinstance(thing, np.ndarray):
            rows = thing.tolist() if thing.dtype.kind in "OU" else ()
        elif hasattr(type(thing), "columns"):
            rows = [*zip(*(thing[name] for name in thing.columns), strict=True)]
        elif hasattr(type(thing), "to_numpy"):
            rows = [*thing]
        if (
            isinstance(rows, list | tuple)
            and len(rows) >= _MANY
            and len(_fields(rows[0])) <= _SHORT
        ):
            for column in zip(*map(_fields, rows), strict=True):
                own = [one.item() if isinstance(one, Tensor) else one for one in column]
                if all(isinstance(one, _VALUES) for one in own):
                    texts = map(str, own)
                    # each takes the room of the longest
                    yield np.asarray(
                        [one if len(one) <= _LONG else str(hash(one)) for one in texts]
                    )


def _is_plain(thing: Any) -> bool:
    """Whether a list holds names or short records of texts and numbers alone, all of which stand in its columns."""
    if type(thing) not in (list, tuple):
        return False
    if not {*map(type, thing)} <= {list, tuple, dict, str, int, float, bool}:
        return False
    return all(isinstance(one, str | int | float) for row in thing for one in _fields(row))


def _fields(record: Any) -> Any:
    """What a record has beside each other: the items of a tuple, the values of a dictionary or of an object."""
    if isinstance(record, _VALUES) or (isinstance(record, Tensor) and not record.ndim):
        return (record,)
    if isinstance(record, list | tuple):
        return record
    return (*getattr(record, "__dict__", record).values(),)


def _columns(thing: Any) -> Things:
    """What a frame, a column or an index holds: each column as an array, its index, and what the caller hung to it."""
    if hasattr(type(thing), "columns"):
        yield from ((f"[{name!r}]", thing[name].to_numpy()) for name in [*thing.columns])
    else:
        yield "", thing.to_numpy()
    if hasattr(thing, "index") and hasattr(type(thing.index), "to_numpy"):
        yield ".index", thing.index.to_numpy()
    hung = {**getattr(thing, "__dict__", {}), "attrs": getattr(thing, "attrs", {})}
    yield from ((f".{name}", part) for name, part in hung.items() if not name.startswith("_"))


def _real(column: np.ndarray) -> np.ndarray | None:
    """Numbers in double precision, whatever holds them; None of anything else."""
    with suppress(TypeError, ValueError):
        return column.astype(np.float64) if column.dtype.kind in "biufO" else None
    return None


def _parts(thing: Any) -> Things:
    """What a thing consists of, each part with its place in it."""
    if isinstance(thing, type):
        carriers = _CARRIERS if _is_of(thing, _LIBRARIES) else object
        for name, part in vars(thing).items():
            if name not in _OF_CLASSES and isinstance(part, carriers):
                yield f".{name}", part
        return
    if isinstance(thing, list | tuple | set | frozenset | deque):
        yield from ((f"[{k}]", part) for k, part in enumerate(thing))
        if type(thing) in _CONTAINERS:
            return
    attributes = dict(getattr(thing, "__dict__", {}))
    if isinstance(thing, nn.Module):
        attributes = {**thing._parameters, **thing._buffers, **thing._modules, **attributes}
        for name in _OF_NO_ACCOUNT:
            attributes.pop(name, None)
    elif isinstance(thing, Mapping):
        for k, (key, part) in enumerate(thing.items()):
            if isinstance(key, tuple) and any(isinstance(one, nn.Module) for one in key):
                continue  # a method's cache, which copies of the network fill as well
            yield f"[{key!r}]" if isinstance(key, str | int) else f"[...{k}]", part
            if not isinstance(key, str | int):
                yield f" key {k}", key
    elif isinstance(thing, FunctionType):
        cells = zip(thing.__code__.co_freevars, thing.__closure__ or (), strict=True)
        yield from ((f"<{name}>", cell) for name, cell in cells)
        yield from ((" default", part) for part in (thing.__defaults__, thing.__kwdefaults__))
        if not _is_of(thing, _LIBRARIES):
            yield from ((" constant", part) for part in thing.__code__.co_consts)
    elif isinstance(thing, CellType):
        with suppress(ValueError):  # an empty one
            yield "", thing.cell_contents
    elif isinstance(thing, MethodType):
        yield from ((".self", thing.__self__), ("", thing.__func__))
    elif isinstance(thing, functools.partial):
        yield from (("", thing.func), (".args", thing.args), (".keywords", thing.keywords))
    yield from ((f".{name}", part) for name, part in attributes.items())
    yield from ((f".{name}", part) for name, part in _slots_of(thing))
    if not isinstance(thing, _KNOWN) and not _is_of(type(thing), {"torch"}):
        yield from _held_otherwise(thing, attributes)


def _read_of_globals(function: FunctionType) -> Things:
    """The global variables that a function reads, but for a library's function, and for a library's objects."""
    if _is_of(function, _LIBRARIES) or _is_installed(function):
        return
    used = _names(function.__code__)
    ahead = [
        (name, function.__globals__[name])
        for name in sorted(_globals_read(function.__code__) & function.__globals__.keys())
    ]
    seen = list[Any]()
    while ahead:
        name, part = ahead.pop(0)
        if isinstance(part, ModuleType) and not _is_library(part):
            if part not in seen:  # a package may name its own modules, and they it
                seen.append(part)
                ahead += [
                    (f"{name}.{one}", vars(part)[one]) for one in sorted(used & {*vars(part)})
                ]
            continue
        if isinstance(part, functools._lru_cache_wrapper):
            part = part.__wrapped__  # whose answers any call may add to
        if isinstance(part, _DATA) or not _is_of(type(part), _LIBRARIES):
            if not isinstance(part, IOBase | count):  # which hold no rows
                yield f" global {name}", part


def _is_library(module: ModuleType) -> bool:
    known = module.__name__.partition(".")[0] in _LIBRARIES
    return known or str(getattr(module, "__file__", None)).startswith(_INSTALLED)


def _is_installed(made: type | FunctionType) -> bool:
    file = getattr(sys.modules.get(str(made.__module__)), "__file__", None)
    return str(file).startswith(_INSTALLED)


def _globals_read(code: CodeType) -> set[str]:
    """Global names that a function reads, and those that functions inside it read."""
    read = {one.argval for one in dis.get_instructions(code) if one.opname == "LOAD_GLOBAL"}
    return read.union(*(_globals_read(one) for one in code.co_consts if isinstance(one, CodeType)))


def _names(code: CodeType) -> set[str]:
    """All names that a function and those inside it use, of attributes too."""
    return {*code.co_names}.union(
        *(_names(one) for one in code.co_consts if isinstance(one, CodeType))
    )


def _is_of(made: type | FunctionType, packages: Collection[str]) -> bool:
    return str(made.__module__).partition(".")[0] in packages


def _held_otherwise(thing: Any, attributes: dict[str, Any]) -> Things:
    """What a thing refers to beside its attributes: objects in an array, a cache, a generator, a tree in C.

    A thing that refers to nothing is asked for what its own kind of pickle would hold, as a counter of itertools.
    """
    if isinstance(thing, np.ndarray):
        held = thing.ravel().tolist() if thing.dtype.kind == "O" else []
    else:
        shown = {id(part) for part in attributes.values()} | {id(getattr(thing, "__dict__", None))}
        held = [one for one in gc.get_referents(thing) if id(one) not in shown]
        own_pickle = any(getattr(type(thing), k) is not getattr(object, k) for k in _PICKLED)
        if own_pickle and all(isinstance(one, (type, *_VALUES)) for one in held):
            with suppress(Exception):
                held += thing.__reduce_ex__(2)[1:3]
    yield from ((f" holds {k}", one) for k, one in enumerate(held) if not isinstance(one, type))


def _slots_of(thing: Any) -> Things:
    """What a thing keeps beside its dictionary, by name."""
    for kind in type(thing).__mro__:
        slots = vars(kind).get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if hasattr(thing, name):
                yield name, getattr(thing, name)
