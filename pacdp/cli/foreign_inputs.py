"""What a user's own callables and files give to `pacdp certify`, or one sentence about what is wrong with them."""

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.numpy import load_file
from torch import Tensor, nn

from bounds._check import json_value
from pacdp.certify import BoundSet, ClippedError
from pacdp.certify.batches import bound_set
from pacdp.certify.examples import require_labels
from pacdp.certify.outputs import LossOf, classes_of
from pacdp.data import Split, index_hash
from pacdp.data.arrays import read_npy, read_npz
from pacdp.data.rows import Rows
from pacdp.errors import said


def called(name: str, option: str) -> Any:
    """What the user's own callable returns.

    Raises:
        ValueError: as for :func:`imported`, or whatever it raises.
    """
    function = imported(name, option)
    try:
        return function()
    except Exception as error:  # a stranger's function may raise anything
        raise ValueError(f"--{option} {name}() failed with {said(error)}") from error


def imported(name: str, option: str) -> Callable[..., Any]:
    """The user's own callable; the working directory is searched for its module.

    Raises:
        ValueError: there is none of this name.
    """
    module, _, attribute = name.partition(":")
    if not module or not attribute:
        raise ValueError(f"--{option} must be package.module:callable, got {name!r}")
    sys.path.insert(0, str(Path.cwd()))
    try:
        function: Callable[..., Any] = getattr(importlib.import_module(module), attribute)
    except Exception as error:  # a stranger's module may raise anything
        raise ValueError(f"--{option} {name} cannot be imported: {said(error)}") from error
    finally:
        sys.path.pop(0)
    if not callable(function):
        takes = "of outputs and labels" if option == "loss" else "without arguments"
        raise ValueError(f"--{option} {name} is {type(function).__name__}: name a function {takes}")
    return function


def examples_of(name: str, option: str) -> BoundSet:
    """The examples that a callable returns, all at once, with their people where it names them.

    Raises:
        ValueError: as for :func:`called`, or it returns something else.
    """
    found = called(name, option)
    try:
        return bound_set(found)
    except ValueError as error:
        raise ValueError(f"--{option} {name}: {error}") from error


def loss_of(text: str) -> LossOf | ClippedError:
    """What --loss names: "absolute:2" and "squared:2", an error of regression clipped at 2, or a user's own function.

    Raises:
        ValueError: no such function, or a clip that is no positive number.
    """
    kind, _, rest = text.partition(":")
    if kind not in ("absolute", "squared"):
        return imported(text, "loss")
    try:
        at = float(rest)
    except ValueError:
        raise ValueError(f"--loss {kind} needs the size at which errors are clipped, such as {kind}:2, got {text!r}") \
            from None  # fmt: skip
    return ClippedError(at=at, kind=kind)


@torch.no_grad()
def fitting(module: nn.Module, device: str, *sets: BoundSet | None) -> None:
    """Before any work is lost: the network accepts the examples, one row of logits each, and has their classes.

    Raises:
        ValueError: it does not.
    """
    for data in filter(None, sets):
        inputs = data.inputs[:2]
        try:
            outputs = module(inputs.to(device))
        except Exception as error:  # a stranger's network may raise anything
            shape = tuple(inputs.shape)
            raise ValueError(
                f"the network does not accept inputs of shape {shape}: {said(error)}"
            ) from error
        if not isinstance(outputs, Tensor):
            raise ValueError(
                f"the network returned {type(outputs).__name__}: let --model return a module whose forward gives one "
                "tensor of logits"
            )
        if (
            outputs.ndim not in (1, 2)
            or len(outputs) != len(inputs)
            or not outputs.is_floating_point()
        ):
            raise ValueError(
                f"expected one row of logits an example, got {outputs.dtype} outputs of shape {tuple(outputs.shape)}"
            )
        require_labels(data.labels, classes_of(outputs))


def rows_in(path: Path) -> Rows:
    """The rows in a file of :meth:`pacdp.data.Rows.to_arrays`.

    Raises:
        ValueError: no such file, or none of rows.
    """
    try:
        if path.suffix == ".safetensors":
            arrays = load_file(path)
        else:
            arrays = read_npz(path)
    except (
        Exception
    ) as error:  # safetensors raises whatever the types of a stranger's tensors lead it to
        raise ValueError(
            f"{path} holds no rows ({said(error)}): write them by np.savez(path, **pacdp.data.Rows.of(inputs, labels)"
            ".to_arrays())"
        ) from error
    try:
        return Rows.from_arrays(arrays)
    except ValueError as error:
        raise ValueError(f"{path} holds no rows: {error}") from error


def indices_in(path: Path) -> Split:
    """The indices in a .npy or JSON file.

    Raises:
        ValueError: no such file, or no whole numbers from 0 on in it.
    """
    try:
        raw = read_npy(path) if path.suffix == ".npy" else np.asarray(json_value(path.read_text()))
    except (OSError, ValueError, RecursionError) as error:
        raise ValueError(f"{path} holds no list of indices ({error})") from error
    if raw.ndim != 1 or not np.issubdtype(raw.dtype, np.integer):
        raise ValueError(
            f"{path} must hold a list of whole numbers, got {raw.dtype} {list(raw.shape)}"
        )
    indices = np.unique(raw.astype(np.int64))
    return Split(indices, index_hash(indices))
