"""Weights made again from the released sums alone: whatever else moved them left without noise.

What an update makes of a released sum (its signs, a projection, a clipped step) is post-processing and costs nothing,
whatever the function; what it makes of anything else that depends on the data is not, nor what a
forward pass writes into a weight. Here the update is called again for every step of a run, in their
order, with the weights of that step and the sum that was released, in a step that holds nothing
else: its clipped sum is NaN, it has no sample and no losses, draws nothing, and chooses what was
chosen. The same operations on the same numbers give the same bits.
"""

import copy
from dataclasses import dataclass
from typing import NoReturn

import torch
from torch import Tensor
from torch.nn.utils import parameters_to_vector

from pacdp.audit.observed import Observer, put
from pacdp.step.clip import Weights
from pacdp.step.noise import SeededRandomness
from pacdp.step.processes import Together
from pacdp.step.release import PrivateStep

_DRAWS = "the update draws numbers of its own, so that it makes another move of the same sum"


class _OwnNumbers(Exception):
    """The update draws."""


def _refuse(*given: object, **named: object) -> NoReturn:
    raise _OwnNumbers


@dataclass(slots=True, kw_only=True)
class _Replayed(PrivateStep):
    """A step that releases what was released, and holds nothing else."""

    kept: list[Tensor]
    chosen: int

    def release(self, noise_multiplier: float) -> Weights:
        del noise_multiplier
        parts = self.kept.pop(0).split([w.numel() for w in self.weights.values()])
        named = zip(self.weights.items(), parts, strict=True)
        return {name: part.to(w.dtype).view_as(w).clone() for (name, w), part in named}

    noisier = _refuse

    def choose(
        self, candidates: list[Weights], *, selection_epsilon: float, score_bound: float
    ) -> int:
        del candidates, selection_epsilon, score_bound
        return self.chosen


class _NoNumbers(SeededRandomness):
    """Randomness that refuses to be drawn from."""

    def __init__(self) -> None: ...

    noised = batch = generator = _refuse


def moves_again(observed: Observer) -> list[float] | str:
    """How far each step's weights are from those that the update makes of the released sum alone.

    It is the largest difference of a weight: 0 where all are equal, NaN where one is no number. A
    sentence in place of numbers says why that cannot be found out.
    """
    algorithm, module = observed.algorithm, copy.deepcopy(observed.subject.module).train()
    live = {name: p for name, p in module.named_parameters() if p.requires_grad}
    optimizer, found = algorithm.optimizer(live.values()), list[float]()
    for seen in observed.steps:
        put(seen.before, module)
        drawn = torch.get_rng_state()
        step = _Replayed(
            number=seen.number - 1,
            mechanism=algorithm.mechanism,
            module=module,
            optimizer=optimizer,
            weights={name: p.detach() for name, p in live.items()},
            randomness=_NoNumbers(),
            together=Together(several=False),
            total={name: torch.full_like(p, torch.nan) for name, p in live.items()},
            losses=None,
            kept=list(seen.released),
            chosen=seen.chosen,
        )
        try:
            algorithm.update(step)
        except _OwnNumbers:
            return _DRAWS
        except Exception as error:  # somebody's algorithm may raise anything
            return f"the update cannot be called again with what was released alone ({type(error).__name__}: {error})"
        if not torch.equal(drawn, torch.get_rng_state()):
            return _DRAWS
        found.append(
            float((parameters_to_vector(module.parameters()).detach() - seen.after).abs().max())
        )
    return found
