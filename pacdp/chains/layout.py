"""Where each parameter of a network lies in a flat vector."""

import math
from collections.abc import Mapping

import torch
from jaxtyping import Float
from torch import Tensor, nn


class Layout:
    """The order of a network's parameters in a vector of ``dim`` numbers.

    Parameters follow each other as ``named_parameters`` lists them; the weight matrix of an ``nn.Linear`` lies
    input-major, so that the row of one input, which is what a sparse input reads and writes, is contiguous.
    """

    def __init__(self, model: nn.Module) -> None:
        linear = {
            f"{name}.weight" if name else "weight"
            for name, layer in model.named_modules()
            if type(layer) is nn.Linear
        }
        self.shapes = {name: tuple(p.shape) for name, p in model.named_parameters()}
        self._transposed = {name: name in linear for name in self.shapes}
        self.dim = sum(math.prod(shape) for shape in self.shapes.values())

    def views(self, flat: Float[Tensor, "*chains dim"]) -> dict[str, Tensor]:
        """The pieces of flat vectors by name, each [*chains, *shape], sharing memory."""
        pieces = flat.split([math.prod(shape) for shape in self.shapes.values()], dim=-1)
        found: dict[str, Tensor] = {}
        for (name, shape), piece in zip(self.shapes.items(), pieces, strict=True):
            if self._transposed[name]:
                found[name] = piece.unflatten(-1, shape[::-1]).mT
            else:
                found[name] = piece.unflatten(-1, shape) if shape else piece.squeeze(-1)
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
