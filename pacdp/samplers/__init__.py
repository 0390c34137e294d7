"""Langevin samplers: one algorithm a file, each a pair of pure functions."""

from collections.abc import Mapping

from torch import Tensor

from pacdp.samplers import entropy_sgd, sgd, sgld
from pacdp.samplers.entropy_sgd import EntropySGD as EntropySGD
from pacdp.samplers.sgd import SGD as SGD
from pacdp.samplers.sgld import SGLD as SGLD
from pacdp.samplers.types import Info as Info
from pacdp.samplers.types import Potential as Potential
from pacdp.samplers.types import Sampler as Sampler

Settings = SGD | SGLD | EntropySGD
State = sgd.State | sgld.State | entropy_sgd.State


def build(settings: Settings, potential: Potential) -> Sampler:
    """The sampler that ``settings`` describe, on ``potential``."""
    match settings:
        case SGD():
            return sgd.build(settings, potential)
        case SGLD():
            return sgld.build(settings, potential)
        case EntropySGD():
            return entropy_sgd.build(settings, potential)


def restore(settings: Settings, tensors: Mapping[str, Tensor], step: int) -> State:
    """A saved state of the sampler that ``settings`` describe, from its tensors and step count."""
    match settings:
        case SGD():
            return sgd.State(**tensors, step=step)
        case SGLD():
            return sgld.State(**tensors, step=step)
        case EntropySGD():
            return entropy_sgd.State(**tensors, step=step)
