"""An audit of a whole private mechanism from the outside: noise, batches, updates, sensitivity, accounts, resuming.

A run of the loop on data of the auditor's is watched (:mod:`pacdp.audit.observed`), the clipped sums are computed
anew (:mod:`pacdp.audit.recomputed`), and what was released is held against them (:mod:`pacdp.audit.one_run`). What such
a run shows too seldom is sought in others (:mod:`pacdp.audit.other_runs`). Each claim is a check with a p-value, exact
or bounded, or one that chance does not enter. docs/audit.md says which fault each of them finds.
"""

import copy
import math
from collections.abc import Callable, Iterator

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from bounds import _check
from bounds.accounting import NonPrivate
from bounds.numbers import down, up
from pacdp.algorithms.algorithm import Algorithm
from pacdp.audit.canaries import audit_training
from pacdp.audit.checks import Check, MechanismAudit, certain
from pacdp.audit.observed import Subject, observe
from pacdp.audit.one_run import of_accountant, of_batches, of_choices, of_grid, of_noise
from pacdp.audit.other_runs import of_few_units, of_noise_alone, of_resuming, of_sensitivity
from pacdp.audit.recomputed import evidence_of
from pacdp.audit.updates import of_weights
from pacdp.layers.dropout import with_example_dropout
from pacdp.layers.random import generators
from pacdp.step.event import runs_of
from pacdp.step.gradients import PerExampleLoss
from pacdp.step.mechanism import Mechanism
from pacdp.step.noise import Randomness, SystemRandomness
from pacdp.step.set_up import global_state
from pacdp.step.units import Network

_ONE_MORE = 6
"""Steps of the run on one unit more."""
_NUMBERS = 4_000_000
"""Released numbers at most."""
_CANARY_STEPS = 40
_DELTA = 1e-5


def audit_mechanism(
    algorithm: Algorithm,
    module: nn.Module,
    dataset: TensorDataset,
    *,
    mechanism: Mechanism,
    loss: PerExampleLoss,
    people: Tensor | None = None,
    randomness: Callable[[], Randomness] = SystemRandomness,
    steps: int | None = None,
    failure_prob: float = 0.01,
    canaries: int = 0,
    generator: np.random.Generator | None = None,
) -> MechanismAudit:
    """Run the algorithm on ``dataset`` and put what it claims to the test.

    Its budget is left out and its number of steps replaced; noise on single gradients before clipping, which buys no
    privacy, is left out too. The trained weights are thrown away: this is no release, and spends nothing if the data
    are made up (:func:`made_up`).

    Formal guarantee: that of :class:`MechanismAudit`.

    Args:
        algorithm: settings of any private algorithm.
        mechanism: the public numbers of its run; rates, clip norm, divisor and noise are used as they are.
        module: its network; not changed. Dropout has masks of the same law, which the auditor can draw again.
        dataset: records of the auditor's, as many units as give batches of a few; not the private data.
        loss: per-record losses of (outputs, targets), shape (batch,).
        people: the person's number for each record, where people are the units.
        randomness: makes the source of randomness, once a run; the operating system's by default.
        steps: of each run, by default as many as make some million released numbers, between 20 and 150.
        failure_prob: probability that a mechanism that is what it says is refuted.
        canaries: of a run with so many units that the auditor knows how to find (:mod:`pacdp.audit.canaries`), which
            takes half of ``failure_prob``; 0 for none.
        generator: decides where runs are killed, and which canaries are in the data.

    Raises:
        ValueError: what ``train`` refuses, a number out of range, a network that draws from torch's global
            generator otherwise than by ``nn.Dropout``, or one that draws at all where people are the units.
    """
    _check.open_probability(failure_prob=failure_prob)
    module = _with_masks_to_draw_again(algorithm, module, dataset, loss)
    if steps is None:
        dim = sum(p.numel() for p in module.parameters() if p.requires_grad)
        steps = max(20, min(150, _NUMBERS // max(1, dim)))
    if steps < 2:
        raise ValueError(f"steps must be at least 2, got {steps}")
    whole = Subject(
        algorithm=algorithm,
        mechanism=mechanism,
        module=module,
        dataset=dataset,
        loss=loss,
        people=people,
    ).lasting(steps)
    units, generator = len(whole.members), generator or np.random.default_rng()
    if units < 3:
        raise ValueError("dataset must have three units or more: with fewer no batch says anything")
    promised = runs_of(whole.algorithm.promise(whole.mechanism, steps))
    if any(isinstance(step, NonPrivate) for step, _ in promised):
        raise ValueError(
            "mechanism has steps without noise, of which nothing is promised that could be put to the test: give a "
            "noise_multiplier above 0"
        )
    subject = whole.first(units - 1)

    def checks() -> Iterator[Check]:
        observed = observe(subject, randomness())
        evidence = evidence_of(observed)
        yield from of_noise(evidence, module)
        yield of_grid(observed)
        yield from of_batches(evidence)
        yield of_weights(observed)
        yield from of_accountant(observed)
        yield from of_choices(observed, evidence)
        more = observe(whole.lasting(_ONE_MORE), randomness())
        yield of_weights(more, name="weights: one unit more")
        yield from of_few_units(subject, randomness())
        yield from of_noise_alone(subject, randomness())
        yield from of_sensitivity(subject)
        yield from of_resuming(subject, randomness, generator)
        if canaries:
            yield of_canaries(subject.lasting(min(steps, _CANARY_STEPS)))

    def of_canaries(short: Subject) -> Check:
        share = failure_prob / 2.0
        found = audit_training(
            short.algorithm, module, short.dataset, mechanism=short.mechanism, loss=loss, people=short.people,
            generator=generator, delta=_DELTA, canaries=canaries, failure_prob=share / 3.0, randomness=randomness(),
        )  # fmt: skip
        least, most = down(found.result.epsilon_lower, 3), up(found.claimed_epsilon, 3)
        seen = f"epsilon at least {least} of {most}, delta {_DELTA:g}"
        claim = "no test of canaries is better than the accountant allows"
        return certain("canaries", claim, found.contradicted, seen, share=share)

    return MechanismAudit(checks=tuple(checks()), failure_prob=failure_prob)


def _with_masks_to_draw_again(
    algorithm: Algorithm, module: nn.Module, dataset: TensorDataset, loss: PerExampleLoss
) -> nn.Module:
    """A copy whose random layers have generators of their own, without which no sum can be computed anew."""
    device = next(module.parameters()).device
    found = with_example_dropout(
        copy.deepcopy(module).train(), generator=torch.Generator().manual_seed(0), device=device
    )
    if algorithm.by_person and generators(found):
        raise ValueError(
            "what a person contributes is computed anew without the masks of dropout: audit the network without it"
        )
    inputs, targets = dataset[:2]
    if global_state(Network.of(found, loss), (inputs, targets)) is not None:
        raise ValueError(
            "the network or its loss draws from torch's global generator, so that its sums cannot be computed anew: "
            "write dropout as nn.Dropout, or audit the network without it"
        )
    return found


def made_up(
    shape: tuple[int, ...], *, classes: int, units: int, people: bool = False, seed: int = 0
) -> tuple[TensorDataset, Tensor | None]:
    """Records that are nobody's: inputs uniform on [0, 1], random labels, one to four records a person."""
    draw = torch.Generator().manual_seed(seed)
    owners = torch.arange(units)
    if people:
        owners = owners.repeat_interleave(torch.randint(1, 5, (units,), generator=draw))
        owners = owners[torch.randperm(len(owners), generator=draw)]
    inputs = torch.rand(len(owners), *shape, generator=draw)
    labels = torch.randint(classes, (len(owners),), generator=draw)
    return TensorDataset(inputs, labels), owners if people else None


def units_for(sample_rate: float) -> int:
    """So many units that a batch has eight of them on average: from 24, if all come, to 800."""
    return max(24, min(800, math.ceil(8.0 / sample_rate)))
