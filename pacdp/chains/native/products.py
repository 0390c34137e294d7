"""Matrix products on one thread, so that their bits are a function of shapes and numbers alone.

torch hands float32 products to MKL, which keeps to AVX2 on processors that are not Intel's. oneDNN, which torch carries
as well, uses all that the processor has, twice as fast where that is AVX-512; it compiles a program for each new shape
in some milliseconds, so that whoever calls it often should call it with few shapes.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

_WORTH_A_PROGRAM = 2_000_000
"""Multiplications and additions from which on the faster product is worth compiling; part of the arithmetic."""


def product(
    left: Float[Tensor, "rows inner"],
    right: Float[Tensor, "inner columns"],
    *,
    bias: Float[Tensor, " columns"] | None = None,
    out: Float[Tensor, "rows columns"] | None = None,
) -> Float[Tensor, "rows columns"]:
    """left right + bias, on one thread whatever torch is set to."""
    multiplications = left.shape[0] * left.shape[1] * right.shape[1]
    with one_thread():
        if _linear and left.dtype == torch.float32 and multiplications >= _WORTH_A_PROGRAM:
            found = _linear(left, right.mT, bias, "none", [], "")
            return found if out is None else out.copy_(found)
        if bias is None:
            return torch.mm(left, right, out=out)
        return torch.addmm(bias, left, right, out=out)


@contextmanager
def one_thread() -> Iterator[None]:
    """Let torch use one thread within."""
    threads = torch.get_num_threads()
    if threads == 1:
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _find() -> Any:
    """The product of oneDNN, or None where this build of torch has none."""
    try:
        found = torch.ops.mkldnn._linear_pointwise
        found(torch.zeros(2, 3), torch.zeros(4, 3), None, "none", [], "")
    except (AttributeError, RuntimeError):
        return None
    return found


_linear: Any = _find()
