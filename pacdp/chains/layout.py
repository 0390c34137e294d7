"""Where each parameter of a network lies in a flat vector."""

import math
from collections.abc import Mapping
from itertools import accumulate

import torch
from jaxtyping import Float
from torch import Tensor, nn


class Layout:
    """The order of a network's parameters in a vector of ``dim`` numbers.

    Parameters follow each other as ``named_parameters`` lists them; the weight matrix of an ``nn.Linear`` lies
    input-major, so that the row of one input, which is what a sparse input reads and writes, is contiguous.

    Raises:
        ValueError: complex parameters.
    """

    def __init__(self, model: nn.Module) -> None:
        if any(p.is_complex() for p in model.parameters()):
            raise ValueError(
                "parameters of the model are complex, and noise would hide their real parts alone: let each be a real "
                "one with both parts, nn.Parameter(torch.view_as_real(weight)), of which forward takes "
                "torch.view_as_complex"
            )
        linear = {
            f"{name}.weight" if name else "weight"
            for name, layer in model.named_modules()
            if type(layer) is nn.Linear
        }
        self.shapes = {name: tuple(p.shape) for name, p in model.named_parameters()}
        self._transposed = {name: name in linear for name in self.shapes}
        stored = [
            shape[::-1] if self._transposed[name] else shape for name, shape in self.shapes.items()
        ]
        ends = [0, *accumulate(map(math.prod, stored))]
        self.dim = ends[-1]
        self.places = list(zip(ends, ends[1:], stored, strict=False))
        """Where each parameter lies: its begin, its end, and its shape there."""

    def views(self, flat: Float[Tensor, "*chains dim"]) -> dict[str, Tensor]:
        """The pieces of flat vectors by name, each [*chains, *shape], sharing memory."""
        found: dict[str, Tensor] = {}
        for (name, turned), (start, stop, shape) in zip(
            self._transposed.items(), self.places, strict=True
        ):
            piece = flat[..., start:stop].unflatten(-1, shape) if shape else flat[..., start]
            found[name] = piece.mT if turned else piece
        return found

    def flatten(self, named: Mapping[str, Tensor]) -> Float[Tensor, " dim"]:
        """The flat vector, newly allocated, of a network's named parameters.

        Raises:
            ValueError: a parameter is missing or has another shape.
        """
        first = next(iter(named.values()), torch.empty(0))
        flat = torch.empty(self.dim, dtype=first.dtype, device=first.device)
        for name, view in self.views(flat).items():
            if name not in named or named[name].shape != view.shape:
                found = tuple(named[name].shape) if name in named else "nothing"
                raise ValueError(
                    f"expected parameter {name} of shape {tuple(view.shape)}, got {found}"
                )
            view.copy_(named[name].detach())
        return flat

    def of(self, model: nn.Module) -> Float[Tensor, " dim"]:
        """The flat vector of a network's present weights."""
        return self.flatten(dict(model.named_parameters()))
