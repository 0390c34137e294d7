"""A run of these studies: an algorithm with or without clipping and noise, and what is asked of its posterior."""

import math
from dataclasses import dataclass, field

from pacdp.cli.private.config import PrivateConfig
from pacdp.cli.private.methods import DPBBP, DPSGLD, DPMCDropout

NAMES = {"DPSGD": "SGD", "DPSGLD": "SGLD", "DPBBP": "BBP", "DPMCDropout": "MC Dropout"}
"""The algorithms without privacy, by their settings."""
CNN = "mnist-cnn"
"""Architecture: Opacus's example network for MNIST, two convolutions and two fully connected layers with ReLU."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BayesRun:
    """One training run and the members drawn from what it learnt."""

    config: PrivateConfig = field(default_factory=PrivateConfig)
    """Method, sampling, data, network, seed. Its architecture may also be ``mnist-cnn``."""
    private: bool = True
    """Without it nothing is clipped and no noise is added, but for the thermal noise of SGLD, whose step sizes are the
    same; batches are cut from shuffled passes and ``config.budget`` does not matter."""
    members: int = 20
    """Snapshots of SGLD, draws of BBP and MC Dropout; SGD is one network."""
    curve: int = 0
    """At how many evenly spaced steps the current weights are judged too (networks without random layers)."""
    image: int = 0
    """The test example whose predictions are kept member by member."""

    def __post_init__(self) -> None:
        if self.members < 1 or self.curve < 0 or self.image < 0:
            raise ValueError(
                f"expected members >= 1, curve >= 0, image >= 0, got {self.members}, {self.curve}, {self.image}"
            )
        if self.curve and isinstance(self.config.method, DPBBP | DPMCDropout):
            raise ValueError(f"leave curve at 0 for {self.config.algorithm}: its networks are drawn, not one")
        if isinstance(self.config.method, DPSGLD) and self.config.method.snapshots != self.members:
            raise ValueError(
                f"expected config.method.snapshots = members = {self.members}, got {self.config.method.snapshots}"
            )

    @property
    def seed(self) -> int:
        """Of weights, batches and noise."""
        return self.config.seed

    @property
    def algorithm(self) -> str:
        """The algorithm's name as the paper writes it, without DP."""
        return NAMES[self.config.method.KIND]

    def posterior_steps(self) -> tuple[int, ...]:
        """The steps after which SGLD's weights are members, evenly spaced from the burn-in's end to the last step."""
        method, steps = self.config.method, self.config.sampling.steps
        if not isinstance(method, DPSGLD):
            return ()
        burn_in = math.floor(method.burn_in * steps)
        return tuple(burn_in + (k * (steps - burn_in)) // self.members for k in range(1, self.members + 1))

    def curve_steps(self) -> tuple[int, ...]:
        """The steps after which the current weights are judged."""
        return tuple((k * self.config.sampling.steps) // self.curve for k in range(1, self.curve + 1))
