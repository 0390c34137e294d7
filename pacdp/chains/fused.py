"""Functions of tensors that a GPU carries out as one compiled program, and a CPU as they are written."""

from collections.abc import Callable
from functools import cache, wraps
from typing import ParamSpec

import torch
from torch import Tensor

from pacdp.devices import current

P = ParamSpec("P")


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
