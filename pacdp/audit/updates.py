"""What an update makes of released sums: its weights made again from these sums alone, the public divisor among them.

What an update makes of a released sum (its signs, a projection, a clipped step) is post-processing and costs nothing,
whatever the function; what it makes of anything else that depends on the data is not, nor what a
forward pass writes into a weight. Here the update is called again for every step of a run, in their
order, with the weights of that step and the sum that was released, in a step that holds nothing
else: its clipped sum is NaN, it has no sample and no losses, draws nothing, and chooses what was
chosen. The same operations on the same numbers give the same bits.
"""

import copy
import math
from dataclasses import dataclass
from typing import NoReturn

import torch
from torch import Tensor

from pacdp.audit.checks import Check, cannot_be_checked, none_of
from pacdp.audit.observed import Observer, flat, norm, put
from pacdp.step.clip import Weights
from pacdp.step.noise import SeededRandomness
from pacdp.step.processes import Together
from pacdp.step.release import PrivateStep
from pacdp.step.units import trained

_DRAWS = "the update draws numbers of its own, so that it makes another move of the same sum"


class _OwnNumbers(Exception):
    """The update draws."""


def _refuse(*given: object, **named: object) -> NoReturn:
    raise _OwnNumbers


class _NoNumbers(SeededRandomness):
    """Randomness that refuses to be drawn from."""

    def __init__(self) -> None: ...

    noised = batch = generator = _refuse


@dataclass(slots=True, kw_only=True)
class _Replayed(PrivateStep):
    """A step that releases what was released, and holds nothing else."""

    kept: list[Tensor]
    chosen: int
    nested: bool = False
    """Whether candidates are made from what was released by further noise."""

    def release(self, noise_multiplier: float) -> Weights:
        del noise_multiplier
        parts = self.kept.pop(0).split([w.numel() for w in self.weights.values()])
        named = zip(self.weights.items(), parts, strict=True)
        return {name: part.to(w.dtype).view_as(w).clone() for (name, w), part in named}

    def noisier(self, released: Weights, std_multiplier: float) -> Weights:
        self.nested = True
        return released

    def choose(self, candidates: list[Weights], **numbers: float) -> int:
        del candidates, numbers
        return self.chosen


def moves_again(observed: Observer) -> list[float] | str:
    """How far each step's weights are from those that the update makes of the released sum alone, and, as the last
    number, how far those that the run returned are from the last step's.

    It is the largest difference of a weight: 0 where all are equal, NaN where one is no number. A candidate that is
    made from what was released by further noise lies as far from it as noise of that size does; then that counts as 0.
    A sentence in place of numbers says why that cannot be found out.
    """
    algorithm, module = observed.algorithm, copy.deepcopy(observed.subject.module).train()
    optimizer = algorithm.optimizer([p for p in module.parameters() if p.requires_grad])
    found, live, choice = list[float](), trained(module), algorithm.choice
    for seen in observed.steps:
        put(seen.before, module.parameters())
        drawn = torch.get_rng_state()
        step = _Replayed(
            number=seen.number - 1,
            mechanism=observed.mechanism,
            module=module,
            optimizer=optimizer,
            weights=live,
            randomness=_NoNumbers(),
            together=Together(several=False),
            total={name: torch.full_like(w, torch.nan) for name, w in live.items()},
            clip_norm=observed.clip_norm,
            units=0,
            within=0,
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
        if (step.nested and choice is None) or not torch.equal(drawn, torch.get_rng_state()):
            return _DRAWS
        away, further = flat(module.parameters()) - seen.after, 0.0
        if step.nested and choice is not None:
            whole = choice.noise_scales[seen.chosen] * observed.clip_norm
            further = math.sqrt(max(0.0, whole**2 - seen.stds[0] ** 2))
        root = math.sqrt(sum(w.numel() for w in live.values()))
        off = norm(away) * observed.mechanism.expected_batch_size - further * root
        found.append(0.0 if abs(off) < 8.0 * further else float(away.abs().max()))
    returned = flat(observed.ran.weights.values()) - observed.steps[-1].after
    return [*found, float(returned.abs().max())]


def of_weights(observed: Observer, *, name: str = "weights") -> Check:
    """The update makes the weights of every step again, bit for bit, of the released sums alone.

    So it knows no divisor, no step length and no batch but public ones. Of an update that draws numbers of its own
    nothing is known.
    """
    claim, again = "the weights follow from the released sums alone", moves_again(observed)
    if isinstance(again, str):
        return cannot_be_checked(name, claim, again)
    said = f"of {len(again)}, those returned among them, differ, by up to {max(again):.1e}"
    return none_of(name, claim, sum(one != 0.0 for one in again), said)
