"""What a run left for its auditor: the clipped sums computed anew, the noise beside them, who came when, what was told.

What a unit adds is asked of :mod:`pacdp.step.sums`, one unit after the other, and clipped in double precision. What is
audited is what a run makes of many units: fast modes, batches, clipping, sums. None of these is used here, so that a
fault in one of them shows.
"""

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from pacdp.audit.observed import Observer, flat, put
from pacdp.layers.bayes import weight_generators
from pacdp.layers.random import generators, random_state, rewind
from pacdp.step.clip import STABILITY, Weights
from pacdp.step.event import Told, told_of
from pacdp.step.sums import Reference, parts
from pacdp.step.units import Network, Units, each_unit, trained


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What a run left; private."""

    noise: np.ndarray
    """Released sums minus recomputed ones, over the standard deviation that was told; (releases, dim)."""
    sums: np.ndarray
    """The recomputed sums; (releases, dim)."""
    rows: Sequence[int]
    """The step of each release, a row of ``batches``."""
    batches: np.ndarray
    """(steps, units), whether any record of the unit was read in the step."""
    told: list[Told]
    """Of each step."""
    cut: int = 0
    """How often some of a person's records were read without the others."""
    undrawn: int | None = None
    """Steps in which other units were read than were drawn, or one was drawn twice; None where no drawing was seen."""

    @property
    def rate(self) -> float:
        """The rate that was told."""
        return self.told[0].rate


def evidence_of(observed: Observer) -> Evidence:
    """Hold each release against the sum of its units' contributions, recomputed from the records that were read.

    A step that was killed may have released fewer sums than the algorithm says.
    """
    reference, members, steps = reference_of(observed), observed.subject.members, observed.steps
    told = told_of(observed.ran.event)
    unit_of = {record: unit for unit, own in enumerate(members) for record in own}
    noise, sums, rows = list[np.ndarray](), list[np.ndarray](), list[int]()
    batches, cut, undrawn = np.zeros((len(steps), len(members)), dtype=bool), 0, 0
    for row, seen in enumerate(steps):
        chosen = list(dict.fromkeys(unit_of[record] for record in seen.read))
        batches[row, chosen] = True
        cut += sum(not seen.read.keys() >= set(members[unit]) for unit in chosen)
        undrawn += sorted(seen.drawn or ()) != sorted(chosen)
        total, made = contributions(reference, seen.before, chosen).sum(0), seen.released
        noise += [
            ((y.double().cpu() - total) / s).float().numpy()
            for y, s in zip(made, seen.stds, strict=False)
        ]
        sums += [total.float().numpy()] * len(made)
        rows += [row] * len(made)
    return Evidence(
        noise=np.stack(noise), sums=np.stack(sums), rows=rows, batches=batches, cut=cut,
        told=[told[seen.number - 1] for seen in steps],
        undrawn=None if any(seen.drawn is None for seen in steps) else undrawn,
    )  # fmt: skip


def reference_of(observed: Observer) -> Reference:
    """The reference of a run that was watched, on a network and a list of whose records are whose of the auditor's own.

    Random layers draw what they drew in the run, if asked in its order: ``vectorised`` says whether examples passed
    them together, and ``most`` how many at a time.
    """
    subject, algorithm = observed.subject, observed.algorithm
    module, mechanism = copy.deepcopy(subject.module).train(), observed.mechanism
    random = generators(module)
    for name, generator in random.items():
        generator.manual_seed(observed.seeds[name])
    records = None if subject.people is None else tuple(map(torch.tensor, subject.members))
    together = bool(random) and observed.ran.grad_sample_mode != "reference"
    return Reference(
        Network.of(module, subject.loss),
        Units(subject.dataset, records),
        mechanism.clip,
        contribution=algorithm.contribution,
        width=algorithm.width,
        draws=algorithm.draws,
        most=mechanism.max_physical_batch if together else 1,
        vectorised=together,
    )


def contributions(reference: Reference, weights: Tensor, chosen: Sequence[int]) -> Tensor:
    """Clipped contributions of the chosen units at these weights of all parameters; (units, dim)."""
    put(weights, reference.network.module.parameters())
    live, units = trained(reference.network.module), torch.tensor(chosen, dtype=torch.int64)
    rows = (_gradients if reference.contribution is None else _others)(reference, live, units)
    none = flat(live.values()).double()[None][:0]
    found = torch.cat([none, *(flat(row[name] for name in live).double()[None] for row in rows)])
    norms = found.norm(dim=1, keepdim=True)
    if reference.clip.rule == "automatic":
        factors = reference.clip.norm / (norms + STABILITY)
    else:
        factors = (reference.clip.norm / norms).clamp(max=1.0)
    return torch.where(torch.isfinite(norms), found * factors, 0.0)


def _others(reference: Reference, live: Weights, units: Tensor) -> Iterator[Weights]:
    function = reference.contribution
    assert function is not None
    for unit in units:
        batch = reference.units.batch(unit[None], reference.width, next(iter(live.values())).device)
        yield each_unit(function, reference.network, live, batch, vectorised=False)


def _gradients(reference: Reference, live: Weights, units: Tensor) -> Iterator[Weights]:
    """Gradients of single examples.

    Where examples passed random layers as one batch, each is put in its own place, with copies of itself for the
    others: so it meets the masks and weights that it met in the run, and nobody else's numbers. All parts of a batch
    have one draw of weights, and masks of their own.
    """
    network = reference.network
    drawn = weight_generators(network.module) if reference.vectorised else []
    begins = [own.get_state() for own in drawn]
    for part in parts(units, reference.most):
        for own, state in zip(drawn, begins, strict=True):
            own.set_state(state)
        before = random_state(network.module)
        for place, unit in enumerate(part):
            rewind(network.module, before)
            copies = reference.units.examples(unit.expand(len(part)), unit.device)

            def loss(outputs: Tensor, targets: Tensor, place: int = place) -> Tensor:
                return network.loss(outputs, targets)[place : place + 1]

            alone = reference._replace(network=network._replace(loss=loss))
            yield alone.row(live, *copies)[0]
