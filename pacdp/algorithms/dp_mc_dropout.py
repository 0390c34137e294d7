"""DP-MC-Dropout: DP-SGD on a network with dropout, whose masks are also drawn at prediction (Gal and Ghahramani 2016).

Each example has its own mask in every dropout layer, independent of all others, so its clipped gradient is a function
of that example and its own draws. N masks may be averaged before clipping.
"""

import torch
from torch import Tensor, nn

from bounds import _check
from bounds.record import record
from pacdp.algorithms.algorithm import Descent
from pacdp.layers.dropout import ExampleDropout, with_example_dropout
from pacdp.layers.priors import Law, Prior
from pacdp.schedules import Schedule
from pacdp.step.mechanism import Mechanism
from pacdp.step.units import Network


@record
class DPMCDropout(Descent):
    """Settings of DP-MC-Dropout, on a network whose dropout layers :meth:`network` or
    :func:`pacdp.private.with_example_dropout` made.

    Formal guarantee: that of :class:`pacdp.private.DPSGD`; masks are independent of the data.
    """

    NAME = "DP-MC-Dropout"
    rate: float = 0.1
    """The share of inputs that a layer drops, where :meth:`network` puts the layers in."""
    learning_rate: float | Schedule = 2.0
    momentum: float = 0.0
    prior: Law | Prior = "none"
    """"normal" is the weight decay under which dropout approximates variational inference."""
    prior_std: float = 1.0
    draws: int = 1
    """The number of masks that an example has in a step."""
    test_draws: int = 20

    def __post_init__(self) -> None:
        _check.count(draws=self.draws)

    def require(
        self, network: Network, mechanism: Mechanism, *, units: int, targets: Tensor
    ) -> None:
        """Refuse a network that draws no masks."""
        if not any(isinstance(layer, ExampleDropout) for layer in network.module.modules()):
            raise ValueError(
                f"{self.NAME} trains a network that drops, and module has no such layer: give "
                "with_example_dropout(module, generator=...) of one that holds nn.Dropout"
            )

    def network(
        self,
        module: nn.Module,
        *,
        generator: torch.Generator,
        device: torch.device | str | None = None,
    ) -> nn.Module:
        """Dropout with masks of each example's own, on the inputs of every linear layer but the first one."""
        dropped = with_dropout(module, self.rate)
        return with_example_dropout(dropped, generator=generator, device=device)


def with_dropout(module: nn.Module, rate: float) -> nn.Module:
    """Dropout on the inputs of every fully connected layer but the first layer of the network.

    Raises:
        ValueError: a network that is no sequence of layers.
    """
    if not isinstance(module, nn.Sequential):
        raise ValueError(
            f"module must be an nn.Sequential, between whose layers dropout can be put, got {type(module).__name__}: "
            "put nn.Dropout into it and give with_example_dropout(module, generator=...)"
        )
    layers: list[nn.Module] = []
    for layer in module:
        if isinstance(layer, nn.Linear) and any(
            any(True for _ in before.parameters()) for before in layers
        ):
            layers.append(nn.Dropout(rate))
        layers.append(layer)
    return nn.Sequential(*layers)
