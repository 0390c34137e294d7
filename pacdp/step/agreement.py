"""A fast way to clipped sums is used only where it agrees with the reference, example by example.

Layers that a mode looks at are not all there is: a weight used functionally has a gradient that hooks never see, so
that norms come out too small and one example moves the sum by thousands of clip norms. Here clipped sums of single
made-up examples, and of whole batches of several sizes, are compared with the reference's, whose examples cannot meet.
"""

import copy
import math
from collections.abc import Callable

import torch
from torch import Tensor
from torch.utils.data import TensorDataset

from pacdp.layers.random import generators, random_state, rewind, same_state
from pacdp.step.independence import made_up_batch, made_up_targets, with_other_weights
from pacdp.step.sums import ByExample, Summer, runs_at_once
from pacdp.step.units import Network, Units

SIZES = (1, 3, 8)
"""Batches, each compared as a whole; their examples are compared one by one."""
_TOLERANCE = 2e-3
"""Relative to the largest clipped gradient of the batch."""
_TRIALS = 3
"""At a kink of the loss rounding alone moves a gradient: a mode may disagree once. Weights move after the first."""
_FAILURES = (ValueError, TypeError, RuntimeError, AttributeError, LookupError, AssertionError)
MakeSummer = Callable[[Network, Units], Summer]


def disagreement(
    make: MakeSummer, network: Network, inputs: Tensor, targets: Tensor, *, clip_norm: float, draws: int = 1
) -> str | None:
    """How a fast mode's clipped sums differ from the reference's, in one sentence; None where they agree.

    Args:
        make: the mode for a network and its units; it is given copies, which it may change.
        inputs: one batch of examples, of which shapes and kinds matter, not the values.
        targets: likewise.
    """
    before = random_state(network.module)
    wrong: list[str] = []
    try:
        for trial, each in enumerate([network, *_with_other_weights(network)]):
            of_trial = made_up_batch(inputs, examples=max(SIZES), seed=trial)
            said = _differs(make, each, of_trial, targets, clip_norm, draws)
            wrong += [] if said is None else [said]
            if len(wrong) > 1 or (trial == _TRIALS - 2 and not wrong):  # no further trial can change the verdict
                break
    finally:
        rewind(network.module, before)
    return wrong[0] if len(wrong) > 1 else None


def _with_other_weights(network: Network) -> list[Network]:
    return [network._replace(module=with_other_weights(network.module, seed=k)) for k in range(1, _TRIALS)]


def _differs(
    make: MakeSummer, network: Network, inputs: Tensor, targets: Tensor, clip_norm: float, draws: int
) -> str | None:
    twin, before = Network(copy.deepcopy(network.module), network.fixed, network.loss), random_state(network.module)
    with torch.no_grad():
        made_up = made_up_targets(targets, twin.module(inputs), network.loss, count=len(inputs))
    units = Units.group(TensorDataset(inputs, made_up), None)
    weights = {name: p.detach().clone() for name, p in twin.module.named_parameters() if p.requires_grad}
    exact = ByExample(twin, units, clip_norm, draws, vectorised=runs_at_once(twin, weights, inputs[:2], made_up[:2]))
    other = Network(copy.deepcopy(network.module), network.fixed, network.loss)
    try:
        fast = make(other, units)
    except _FAILURES as error:
        return f"it cannot be set up ({str(error).splitlines()[0]})"
    of_fast = {name: p.detach() for name, p in other.module.named_parameters() if p.requires_grad}

    def of(summer: Summer, chosen: list[int]) -> Tensor:
        rewind(twin.module, before)
        rewind(other.module, before)
        found = summer(torch.tensor(chosen), of_fast if summer is fast else weights).total
        return torch.cat([found[name].double().reshape(-1) for name in weights])

    try:
        singles = [of(exact, [i]) for i in range(len(inputs))]
        drawing = bool(generators(twin.module)) or not same_state(before, random_state(twin.module))
        largest = max(float(one.norm()) for one in singles)
        if not math.isfinite(largest):
            return None
        for i in range(max(SIZES[:2])):
            if not float((of(fast, [i]) - singles[i]).norm()) <= _TOLERANCE * largest:
                return "its clipped gradient of a single example is another than the example's own"
        for size in () if drawing else SIZES:
            whole = sum(singles[:size])
            assert isinstance(whole, Tensor)
            if not float((of(fast, list(range(size))) - whole).norm()) <= _TOLERANCE * largest * size:
                return f"its sum over a batch of {size} is not that of its examples, each clipped by itself"
    except _FAILURES as error:
        return f"it fails on a made-up batch ({str(error).splitlines()[0]})"
    return None
