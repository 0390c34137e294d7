"""The algorithms, a file each: settings, how one step moves the weights, and what that promises.

Chains are pure functions on a batch of chains (:mod:`pacdp.algorithms.chain` says what their settings answer); private
training is a step of :mod:`pacdp.loop` (:mod:`pacdp.algorithms.algorithm`).
"""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from pacdp.algorithms import entropy_sgd, psgld, sgd, sghmc, sgld
from pacdp.algorithms.chain import Chain as Chain
from pacdp.algorithms.entropy_sgd import EntropySGD as EntropySGD
from pacdp.algorithms.psgld import PSGLD as PSGLD
from pacdp.algorithms.sampler import Info as Info
from pacdp.algorithms.sampler import Potential as Potential
from pacdp.algorithms.sampler import Sampler as Sampler
from pacdp.algorithms.sgd import SGD as SGD
from pacdp.algorithms.sghmc import SGHMC as SGHMC
from pacdp.algorithms.sgld import SGLD as SGLD

Settings = SGD | SGLD | PSGLD | SGHMC | EntropySGD
State = sgd.State | sgld.State | psgld.State | sghmc.State | entropy_sgd.State

_ALGORITHMS = {SGD: sgd, SGLD: sgld, PSGLD: psgld, SGHMC: sghmc, EntropySGD: entropy_sgd}
KINDS = tuple(_ALGORITHMS)
"""The settings classes, one an algorithm."""


def build(settings: Settings | Sequence[Settings], potential: Potential) -> Sampler:
    """The sampler that ``settings`` describe, on ``potential``: one setting for all chains, or one a chain.

    Raises:
        ValueError: the chains' settings are of different algorithms, or differ in what shapes a batch of chains.
    """
    every: list[Settings] = [settings] if isinstance(settings, KINDS) else list(settings)  # type: ignore[arg-type]
    kinds = {type(one) for one in every}
    if len(kinds) != 1:
        raise ValueError(
            f"chains of one batch must run one algorithm, got {sorted(kind.__name__ for kind in kinds)}"
        )
    return _ALGORITHMS[kinds.pop()].build(every, potential)  # type: ignore[arg-type]


def restore(settings: Settings, tensors: Mapping[str, Tensor], step: int) -> State:
    """A saved state of the sampler that ``settings`` describe, from its tensors and step count."""
    return _ALGORITHMS[type(settings)].State(**tensors, step=step)


def stacked(states: Sequence[State]) -> State:
    """One state of all the chains of some states that stand at the same step."""
    first = states[0]
    columns = zip(*(state[:-1] for state in states), strict=True)
    return type(first)(*(torch.cat(list(column)) for column in columns), step=first.step)  # type: ignore[arg-type]


def chain_of(state: State, chain: int) -> State:
    """The state of one chain, sharing memory."""
    return type(state)(*(tensor[chain : chain + 1] for tensor in state[:-1]), step=state.step)  # type: ignore[arg-type]


def selected(state: State, chains: Sequence[int]) -> State:
    """The state of some of the chains."""
    return type(state)(*(tensor[list(chains)] for tensor in state[:-1]), step=state.step)  # type: ignore[arg-type]


def copied(state: State) -> State:
    """The same state in memory of its own."""
    return type(state)(*(tensor.clone() for tensor in state[:-1]), step=state.step)  # type: ignore[arg-type]
