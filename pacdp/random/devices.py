"""The device that work goes to, where a thread's current one decides: Triton, CUDA graphs and compiled programs.

torch's own operations go where their tensors are. What launches for itself goes to the current device of its thread,
which is the first one unless somebody says otherwise.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import cache, wraps
from importlib import import_module
from typing import Any, ParamSpec

import torch
from torch import Tensor

P = ParamSpec("P")


def current(device: torch.device) -> AbstractContextManager[object]:
    """Within, ``device`` is the current one of this thread where it is a GPU."""
    return torch.cuda.device(device) if device.type == "cuda" else nullcontext()


@cache
def triton_form(module: str, name: str) -> Any:
    """A kernel's launcher, where Triton is here (it comes with torch for GPUs); None elsewhere."""
    try:
        return getattr(import_module(module), name)
    except ImportError:
        return None


def fused(function: Callable[P, Tensor]) -> Callable[P, Tensor]:
    """``function`` compiled for the device of its first argument where that is a GPU, else itself.

    What changes from step to step must be a tensor: a number is a part of the program, and another one compiles anew.
    """

    @cache
    def compiled() -> Callable[P, Tensor]:
        return torch.compile(function, dynamic=False)

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> Tensor:
        first = args[0]
        assert isinstance(first, Tensor)
        if first.device.type != "cuda":
            return function(*args, **kwargs)
        with current(first.device):
            return compiled()(*args, **kwargs)

    return call
