"""The clipped contributions of units, computed anew: the reference step of one unit, clipped in double precision.

What a unit adds is asked of :mod:`pacdp.step.sums`, for one unit at a time. What is audited is what a run makes of
many units: fast modes, batches, clipping, sums. None of these is used here, so that a fault in one of them shows.
"""

import copy
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from pacdp.audit.observed import Observer, flat, put
from pacdp.layers.random import generators, random_state, rewind
from pacdp.step.clip import STABILITY, Weights
from pacdp.step.sums import ByContribution, ByExample, parts
from pacdp.step.units import Network, Units, each_unit, trained

Reference = ByExample | ByContribution
"""On a network of the auditor's, which is changed; where random layers draw what they drew in the run, if asked in its
order, ``most`` of a :class:`ByExample` is how many examples passed them as one batch."""


def reference_of(observed: Observer) -> Reference:
    """The reference of a run that was watched, on the auditor's own list of whose records are whose."""
    subject, algorithm = observed.subject, observed.algorithm
    module, mechanism = copy.deepcopy(subject.module).train(), algorithm.mechanism
    random = generators(module)
    for name, generator in random.items():
        generator.manual_seed(observed.seeds[name])
    records = None if subject.people is None else tuple(map(torch.tensor, subject.members))
    own = Network.of(module, subject.loss), Units(subject.dataset, records), mechanism.clip_norm
    if algorithm.contribution is not None:
        return ByContribution(
            *own, algorithm.contribution, algorithm.width, clipping=mechanism.rule
        )
    together = bool(random) and observed.ran.grad_sample_mode != "reference"
    most = mechanism.max_physical_batch if together else 1
    return ByExample(*own, algorithm.draws, most, clipping=mechanism.rule)


def contributions(reference: Reference, weights: Tensor, chosen: Sequence[int]) -> Tensor:
    """Clipped contributions of the chosen units at these weights of all parameters; (units, dim)."""
    put(weights, reference.network.module)
    live, units = trained(reference.network.module), torch.tensor(chosen, dtype=torch.int64)
    by_example = isinstance(reference, ByExample)
    rows = _gradients(reference, live, units) if by_example else _others(reference, live, units)
    none = flat(live.values()).double()[None][:0]
    found = torch.cat([none, *(flat(row[name] for name in live).double()[None] for row in rows)])
    norms = found.norm(dim=1, keepdim=True)
    if reference.clipping == "automatic":
        factors = reference.clip_norm / (norms + STABILITY)
    else:
        factors = (reference.clip_norm / norms).clamp(max=1.0)
    return torch.where(torch.isfinite(norms), found * factors, 0.0)


def losses(reference: Reference, weights: Tensor, chosen: Sequence[int]) -> list[float]:
    """Each unit's mean loss at these weights."""
    assert isinstance(reference, ByContribution)
    put(weights, reference.network.module)
    return reference.losses(torch.tensor(chosen), trained(reference.network.module)).tolist()


def _others(reference: ByContribution, live: Weights, units: Tensor) -> Iterator[Weights]:
    for batch in reference.batches(units, live):
        yield each_unit(reference.contribution, reference.network, live, batch, vectorised=False)


def _gradients(reference: ByExample, live: Weights, units: Tensor) -> Iterator[Weights]:
    """Gradients of single examples.

    Where examples passed random layers as one batch, each is put in its own place, with copies of itself for the
    others: so it meets the masks and weights that it met in the run, and nobody else's numbers.
    """
    network = reference.network
    for part in parts(units, reference.most):
        before = random_state(network.module)
        for place, unit in enumerate(part):
            rewind(network.module, before)
            copies = reference.units.examples(unit.expand(len(part)), unit.device)

            def loss(outputs: Tensor, targets: Tensor, place: int = place) -> Tensor:
                return network.loss(outputs, targets)[place : place + 1]

            alone = reference._replace(network=network._replace(loss=loss))
            yield alone.row(live, *copies)[0]
