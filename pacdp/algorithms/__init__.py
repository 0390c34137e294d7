"""The algorithms, a file each: settings, how one step moves the weights, and what that promises.

Chains are pure functions on a batch of chains (:mod:`pacdp.algorithms.chain` says what their settings answer); private
training is a step of :mod:`pacdp.loop` (:mod:`pacdp.algorithms.algorithm`).
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, get_args

import torch
from jaxtyping import Float
from torch import Tensor

from pacdp.algorithms.chain import Chain as Chain
from pacdp.algorithms.chain import columns_of, of_chains
from pacdp.algorithms.entropy_sgd import EntropySGD as EntropySGD
from pacdp.algorithms.psgld import PSGLD as PSGLD
from pacdp.algorithms.psgld import Preconditioned
from pacdp.algorithms.sampler import Info as Info
from pacdp.algorithms.sampler import Motion, Position
from pacdp.algorithms.sampler import Potential as Potential
from pacdp.algorithms.sampler import Sampler as Sampler
from pacdp.algorithms.sgd import SGD as SGD
from pacdp.algorithms.sghmc import SGHMC as SGHMC
from pacdp.algorithms.sgld import SGLD as SGLD

Settings = SGD | SGLD | PSGLD | SGHMC | EntropySGD
KINDS = get_args(Settings)
"""The settings classes, one an algorithm."""
State = Position | Motion | Preconditioned
NOT_LISTED = (
    f"settings must be of {', '.join(one.__name__ for one in KINDS)} themselves, got {{}}: a class of one's own may "
    "move otherwise than its numbers say, off which promises are read; list it in pacdp/algorithms/__init__.py"
)
"""What is said of settings whose class is none of :data:`KINDS`."""


def build(settings: Settings | Sequence[Settings], potential: Potential) -> Sampler:
    """The sampler that ``settings`` describe, on ``potential``: one setting for all chains, or one a chain.

    Raises:
        ValueError: the chains' settings are of different algorithms, or differ in what shapes a batch of chains; or
            they keep norms and have a schedule.
    """
    every = of_chains(settings)
    if any(one.keep_norms and one.schedules for one in every):
        raise ValueError(
            "decay and cooling must be numbers with keep_norms: a schedule of a caller may have looked at training "
            "errors"
        )
    columns: Any = columns_of(every)
    return Sampler(
        partial(_start, columns.State),
        lambda step: columns.coefficients(step + 1),
        partial(columns.transition, potential),
        columns.State,
    )


def _start(kind: type[State], weights: Float[Tensor, "chains dim"]) -> State:
    """Start at ``weights``, all else being zero."""
    others = (torch.zeros_like(weights) for _ in kind._fields[1:-1])
    return kind(weights.clone(), *others, step=0)  # type: ignore[call-arg]


def restore(settings: Settings, tensors: Mapping[str, Tensor], step: int) -> State:
    """A saved state of the sampler that ``settings`` describe, from its tensors and step count."""
    return settings.State(**tensors, step=step)


def stacked(states: Sequence[State]) -> State:
    """One state of all the chains of some states that stand at the same step."""
    first = states[0]
    columns = zip(*(state[:-1] for state in states), strict=True)
    return type(first)(*(torch.cat(list(column)) for column in columns), step=first.step)  # type: ignore[arg-type]


def chain_of(state: State, chain: int) -> State:
    """The state of one chain, sharing memory."""
    return _each(state, lambda tensor: tensor[chain : chain + 1])


def copied(state: State) -> State:
    """The same state in memory of its own."""
    return _each(state, Tensor.clone)


def _each(state: State, change: Callable[[Tensor], Tensor]) -> State:
    return type(state)(*map(change, state[:-1]), step=state.step)  # type: ignore[arg-type]
