"""Images of bytes as the numbers that networks read, made block by block: a quarter of the memory of float32."""

from collections.abc import Iterator

import numpy as np
import torch
from jaxtyping import Float32, UInt8
from torch import Tensor

from pacdp.data.dataset import numbers_of

_BLOCK = 1000


class Pixels:
    """Examples in bytes, which an index turns into float32 tensors in [0, 1]; on the CPU.

    It has of a tensor [n, ...] what data that stay in place need: shape, type, device, length, ``flatten(1)`` and
    indices (a slice or a tensor of places).
    """

    dtype = torch.float32
    device = torch.device("cpu")

    def __init__(self, values: UInt8[np.ndarray, "n ..."]) -> None:
        self.values = values

    @property
    def shape(self) -> torch.Size:
        """[n, ...]."""
        return torch.Size(self.values.shape)

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, places: slice | Tensor) -> Float32[Tensor, "m ..."]:
        return torch.from_numpy(
            numbers_of(self.values[places if isinstance(places, slice) else places.numpy()])
        )

    def is_floating_point(self) -> bool:
        """Whether the numbers are fractions: they are."""
        return True

    def flatten(self, start: int) -> "Pixels":
        """The same examples as rows of numbers; ``start`` is 1."""
        if start != 1:
            raise ValueError(f"expected start to be 1, got {start}")
        return Pixels(self.values.reshape(len(self), -1))

    def blocks(self) -> Iterator[Float32[Tensor, "m ..."]]:
        """All examples in turn, at most 1,000 at a time."""
        for start in range(0, len(self), _BLOCK):
            yield self[start : start + _BLOCK]
