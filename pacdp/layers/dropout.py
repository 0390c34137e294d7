"""Dropout whose masks are drawn from a generator of its own, independently for every example and unit."""

import torch
from torch import Tensor, nn


class ExampleDropout(nn.Module):
    """Sets each number to zero with probability ``rate`` and scales the rest by 1/(1 - rate), in training mode.

    Every entry of the batch has a mask of its own, so an example's output is a function of that example and its own
    draws: no mask is shared between examples. The generator must live on the device of the inputs.

    With ``alone`` set, each example gets the mask that it would get in a batch of its own, so that its output does not
    depend on its place among others. That is for prediction: training needs independent masks.
    """

    alone = False

    def __init__(self, rate: float, *, generator: torch.Generator) -> None:
        super().__init__()
        if not 0.0 <= rate < 1.0:
            raise ValueError(f"expected 0 <= rate < 1, got {rate}")
        self.rate, self.generator = rate, generator

    def forward(self, inputs: Tensor) -> Tensor:
        """``inputs`` with some entries dropped, in training mode."""
        if not self.training or self.rate == 0.0:
            return inputs
        like = inputs[:1] if self.alone else inputs
        mask = torch.empty_like(like, requires_grad=False).bernoulli_(
            1.0 - self.rate, generator=self.generator
        )
        return inputs * mask.div_(1.0 - self.rate)


def with_example_dropout(
    module: nn.Module, *, generator: torch.Generator, device: torch.device | str | None = None
) -> nn.Module:
    """``module`` with every ``nn.Dropout`` replaced, in place; each new layer's generator is seeded from ``generator``.

    Args:
        device: where the new layers draw, that of their inputs; None takes that of ``generator``.

    Raises:
        ValueError: dropout of another kind, which shares masks between units.
    """
    for name, child in module.named_children():
        if type(child) is nn.Dropout:
            seed = int(torch.randint(2**62, (), generator=generator, device=generator.device))
            own = torch.Generator(device or generator.device).manual_seed(seed)
            setattr(module, name, ExampleDropout(float(child.p), generator=own))
        elif isinstance(child, nn.modules.dropout._DropoutNd):
            raise ValueError(f"{type(child).__name__} has no counterpart here: use nn.Dropout")
        else:
            with_example_dropout(child, generator=generator, device=device)
    return module
