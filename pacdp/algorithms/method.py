"""Private algorithms as plain numbers: what a command line sets, JSON holds, and a run is made of.

An algorithm has no default for a number whose choice changes a guarantee, and takes schedules and priors as values. Its
method stands beside it, in the same file: numbers and words alone, a default for each, and what these mean.
"""

from collections.abc import Callable
from typing import ClassVar, Literal, get_args

import torch
from torch import nn

from pacdp.algorithms.algorithm import Algorithm
from pacdp.layers.priors import Laplace, Normal, Prior
from pacdp.schedules import Schedule
from pacdp.step.mechanism import Mechanism

Law = Literal["none", "normal", "laplace"]


class Method:
    """What a run asks of the settings of its algorithm. A subclass is a frozen record of plain values."""

    __slots__ = ()
    KIND: ClassVar[str]
    """What JSON calls the record."""
    NAME: ClassVar[str]
    """The algorithm's name as the field writes it."""
    BY_PERSON: ClassVar[bool] = False
    NOISY_SUMS: ClassVar[bool] = False
    """Whether each step adds Gaussian noise to one sum of clipped contributions over one secret Poisson batch, and
    computes with that sum alone: certificates then pay for the sums (:class:`bounds.PoissonSum`)."""
    """Whether the unit of privacy is a person rather than an example."""
    FIXES_NOISE: ClassVar[bool] = False
    """Whether the record's own numbers say how much noise there is."""
    test_draws: int = 0
    """Networks or masks that a prediction averages over; 0 where the network is one."""

    def algorithm(self, mechanism: Mechanism, noise: Callable[[], Schedule]) -> Algorithm:
        """The algorithm; ``noise`` is asked where the numbers of the record do not fix it.

        Raises:
            ValueError: numbers out of range.
        """
        raise NotImplementedError

    def network(
        self,
        module: nn.Module,
        *,
        generator: torch.Generator,
        device: torch.device | str | None = None,
    ) -> nn.Module:
        """The network as the algorithm trains it, layers made random where it wants them so; random layers draw on
        ``device``, by default the generator's."""
        del generator, device
        return module


def law_of(name: str, std: float) -> Prior | None:
    """The prior on the weights of that name and scale; None for a flat one.

    Raises:
        ValueError: no law of that name.
    """
    match name:
        case "none":
            return None
        case "normal":
            return Normal(std=std)
        case "laplace":
            return Laplace(scale=std)
        case _:
            raise ValueError(
                f"expected prior to be one of {', '.join(get_args(Law))}, got {name!r}"
            )
