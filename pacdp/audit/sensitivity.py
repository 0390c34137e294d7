"""How far one unit moves the sum: steps without noise, on batches that the auditor chooses, with units made to hurt."""

from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from pacdp.algorithms.algorithm import Algorithm
from pacdp.audit.checks import Check, certain
from pacdp.audit.observed import Observer
from pacdp.audit.one_run import members_of, recomputed
from pacdp.audit.planned import Planned
from pacdp.step.gradients import PerExampleLoss

_ORDINARY = 6
_RECORDS = 8
_FAINT = 1e-2
"""Of the usual loss; and what small sums may be apart, relative to their units."""
_ROUNDING = 1e-3
"""Of the clip norm, for every unit of the batch."""


def of_sensitivity(
    algorithm: Algorithm, module: nn.Module, dataset: TensorDataset, *, loss: PerExampleLoss, people: Tensor | None
) -> Iterator[Check]:
    """One unit more moves the sum by at most C, alone and among others, and sums are those of clipped units."""
    ordinary = min(_ORDINARY, len(members_of(people, len(dataset))))
    data, owners, hurtful = _with_hurtful(dataset, people, ordinary)
    members = members_of(owners, len(data))
    common, alone = list(range(ordinary)), range(ordinary, ordinary + len(hurtful))
    plan = [[], common, *([u] for u in alone), *([*common, u] for u in alone)]
    steps = replace(algorithm.mechanism, steps=len(plan), max_physical_batch=None)
    observed = Observer(replace(algorithm, mechanism=steps), module, data, loss=loss, people=owners)  # pyright: ignore
    run = observed.run(Planned(plan))
    exact = recomputed(observed, data)
    clip, weights = steps.clip_norm, observed.weights_before(run)
    moved, apart = dict[str, float](), 0.0
    for chosen, seen, before in zip(plan, observed.steps, weights, strict=True):
        own = exact(before, [members[u] for u in chosen])
        released = seen.released[0].double().cpu()
        apart = max(apart, _norm(released - own.sum(0)) / clip / max(1, len(chosen)))
        if chosen and chosen[-1] >= ordinary:
            name = hurtful[chosen[-1] - ordinary]
            moved[name] = max(moved.get(name, 0.0), _norm(released - own[:-1].sum(0)) / clip)
    worst = max(moved, key=lambda name: moved[name])
    most = 1.0 + _ROUNDING * (ordinary + 1)
    seen = f"{moved[worst]:.4f} C by {worst}"
    yield certain("sensitivity: one unit", "one unit more moves the sum by at most C", not moved[worst] <= most, seen)
    seen = f"at most {apart:.1e} C a unit apart"
    yield certain("sensitivity: sums", "sums are those of clipped units", not apart <= _ROUNDING, seen)
    yield _of_small_sums(algorithm, module, dataset, loss=loss, people=people)


def _of_small_sums(
    algorithm: Algorithm,
    module: nn.Module,
    dataset: TensorDataset,
    *,
    loss: PerExampleLoss,
    people: Tensor | None,
) -> Check:
    """Units whose losses are scaled down count in full: their sums are far below the clip norm."""
    members = members_of(people, len(dataset))[:_ORDINARY]
    plan = [[], *([u] for u in range(len(members))), list(range(len(members)))]
    steps = replace(algorithm.mechanism, steps=len(plan), max_physical_batch=None)
    faint = _FAINT * min(1.0, steps.clip_norm)
    observed = Observer(
        replace(algorithm, mechanism=steps),  # pyright: ignore
        module,
        dataset,
        loss=lambda outputs, targets: faint * loss(outputs, targets),
        people=people,
    )
    run = observed.run(Planned(plan))
    exact, norms, apart = recomputed(observed, dataset), list[float](), 0.0
    weights = observed.weights_before(run)
    for chosen, seen, before in zip(plan, observed.steps, weights, strict=True):
        own = exact(before, [members[u] for u in chosen])
        released = seen.released[0].double().cpu()
        norms.append(_norm(released) / steps.clip_norm)
        apart = max(apart, _norm(released - own.sum(0)) / max(1e-30, float(own.norm(dim=1).sum())))
    seen = f"at most {apart:.1e} of the units' norms apart, sums of {max(norms):.1e} C at most"
    claim = "small sums are no exception"
    return certain("sensitivity: small sums", claim, not apart <= _FAINT, seen)


def _with_hurtful(
    dataset: TensorDataset, people: Tensor | None, ordinary: int
) -> tuple[TensorDataset, Tensor | None, list[str]]:
    """The records of some ordinary units, and after them those of units that were made to hurt."""
    inputs, targets = dataset.tensors
    first = members_of(people, len(dataset))[:ordinary]
    kept = [i for own in first for i in own]
    x, y = inputs[first[0][:1]], targets[first[0][:1]]
    kinds: dict[str, list[Tensor]] = {"a unit that is as the others": [x], "a unit of zeros": [0 * x]}
    if inputs.is_floating_point():
        kinds |= {
            "a unit with large inputs": [30.0 * x],
            "a unit with huge inputs": [-1e4 * x],
            "a unit with NaN": [torch.full_like(x, torch.nan)],
            "a unit with infinity": [torch.full_like(x, torch.inf)],
        }
    if people is not None:
        kinds["a person with many records"] = [x] * _RECORDS
        if inputs.is_floating_point():
            kinds["a person with many large records"] = [(10.0 + k) * x for k in range(_RECORDS)]
            kinds["a person with one record of NaN"] = [x, torch.full_like(x, torch.nan), x]
    extra = [part for own in kinds.values() for part in own]
    # the same wrong target for all: gradients that do not cancel
    data = TensorDataset(
        torch.cat([inputs[kept], *extra]), torch.cat([targets[kept], y.expand(len(extra), *y.shape[1:])])
    )
    if people is None:
        return data, None, list(kinds)
    owners = [u for u, own in enumerate(first) for _ in own]
    owners += [ordinary + u for u, own in enumerate(kinds.values()) for _ in own]
    return data, torch.tensor(owners), list(kinds)


def _norm(vector: Tensor) -> float:
    found = float(vector.norm())
    return found if found == found else float("inf")
