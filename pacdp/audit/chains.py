"""The audit of clipped Langevin chains: SGLD and the inner loop of Entropy-SG(L)D, through the sampler's own steps.

A chain's gradients come from a ``Potential``; the auditor's stands before the real one and notes at which weights it is
asked. Between two askings lies one Langevin step, whose noise is what the drift leaves unexplained:

    √(2h/τ) ξ = w' - (1 - a) w - b w_centre + h (1/K) Σ_{i in batch} clip_C(∇ℓ_i(w)),

with a = h/(τ base_std²), b = 0 for SGLD and a = b = hγ for Entropy-SG(L)D. After the last inner step of a loop nobody
asks: where it led is seen by making the outer step once more, under the same keys, with outer numbers that leave the
weights there.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from pacdp.algorithms import Settings, build
from pacdp.audit.checks import Check, MechanismAudit, certain
from pacdp.audit.one_run import Evidence, of_batches, of_noise
from pacdp.audit.recomputed import Recomputed
from pacdp.audit.told import noise_of, rate_of, told_of
from pacdp.chains import Keys, SecretKeys
from pacdp.data import Dataset
from pacdp.losses import Loss
from pacdp.objective import Estimate, Objective

_RELEASES = 120
_NUMBERS = 6_000_000
_EXAMPLES = 6_000
_ROUNDING = 1e-3
_HURT = 6


class _Asked(NamedTuple):
    weights: Tensor
    """(dim,), in the order of the module's parameters."""
    batch: list[int]
    gradient: Tensor


@dataclass(slots=True, kw_only=True)
class _Potential:
    """The real potential, and what it was asked."""

    objective: Objective
    asked: list[_Asked] = field(default_factory=list)

    def estimate(self, weights: Tensor, keys: Keys, tick: int | Tensor) -> Estimate:
        drawn, _ = self.objective.draw(keys, tick)
        found = self.objective.estimate(weights, keys, tick)
        self.asked.append(_Asked(self.flat(weights), drawn[0].tolist(), self.flat(found.gradient)))
        return found

    def flat(self, vector: Tensor) -> Tensor:
        views = self.objective.layout.views(vector[0])
        return torch.cat([one.detach().double().reshape(-1) for one in views.values()])


def audit_chain(
    settings: Settings,
    module: nn.Module,
    *,
    loss: Loss,
    shape: tuple[int, ...],
    classes: int,
    units: int | None = None,
    seed: int = 0,
    keys: Keys | None = None,
    failure_prob: float = 0.01,
) -> MechanismAudit:
    """Run a chain on made-up data and put what it promises to the test.

    Formal guarantee: that of :class:`MechanismAudit`.

    Args:
        settings: with ``clip_norm``; step sizes, temperature, batch size and clip norm are used as they are.
        module: the network; not changed.
        loss: as for :class:`pacdp.objective.Objective`.
        shape: of an input.
        classes: how many there are.
        units: examples; by default four batches of them.
        seed: of the data, and of the chain without ``keys``.
        keys: of the one chain: where its noise and its batches come from.

    Raises:
        ValueError: settings that promise nothing, or what the objective refuses.
    """
    n = units or 4 * settings.batch_size
    data = _made_up(n, shape, classes, seed)
    potential = _Potential(objective=_objective(settings, module, loss, data))
    dim, inner = potential.objective.dim, settings.gradients_per_step
    seen = max(10, min(_RELEASES, _NUMBERS // dim, _EXAMPLES // settings.batch_size))
    steps = max(2, -(-seen // inner))
    sampler, keys = build(settings, potential), keys or Keys.derive([seed])
    if settings.promise(n, steps) is None:
        raise ValueError(f"{type(settings).__name__} promises nothing of {steps} steps: there is nothing to audit")
    states = [sampler.init(potential.objective.weights())]
    for _ in range(steps):
        states.append(sampler.step(states[-1], keys)[0])
    after = [*(one.weights for one in potential.asked[1:]), potential.flat(states[-1].weights)]
    for t, ended in enumerate(_ends(settings, potential, states, keys)):
        after[(t + 1) * inner - 1] = ended
    evidence, differ, told_wrong = _evidence(settings, module, loss, data, potential, after, steps)

    def checks() -> Iterator[Check]:
        yield from of_noise(evidence, module)
        yield from of_batches(evidence)
        seen = f"at most {differ:.1e} C an example apart"
        claim = "gradients times the batch size are sums of clipped examples"
        yield certain("divisor", claim, not differ <= _ROUNDING, seen)
        seen = f"{told_wrong:.1e} apart"
        claim = "the noise told is that of the settings, or less"
        yield certain("accountant: numbers", claim, not 0.0 <= told_wrong <= _ROUNDING, seen)
        yield from _of_sensitivity(settings, module, loss, shape, classes)
        yield from _of_resuming(lambda: build(settings, potential.objective), keys, states)

    return MechanismAudit(checks=tuple(checks()), failure_prob=failure_prob)


def _ends(settings: Settings, potential: _Potential, states: list[Any], keys: Keys) -> Iterator[Tensor]:
    """Where the inner loop of each step ended."""
    sampler = build(settings, potential.objective)
    inside = {name: np.array([value]) for name, value in settings.ending_inside.items()}
    for state in states[:-1] if inside else ():
        numbers = {**sampler.coefficients(state.step), **inside}
        yield potential.flat(sampler.transition(state, numbers, keys, state.step)[0].weights)


def _evidence(
    settings: Settings, module: nn.Module, loss: Loss, data: Dataset, potential: _Potential, after: list[Tensor],
    steps: int,
) -> tuple[Evidence, float, float]:  # fmt: skip
    n, size, asked, inner = data.n, settings.batch_size, potential.asked, settings.gradients_per_step
    records = TensorDataset(torch.tensor(data.inputs), torch.tensor(data.labels))
    assert settings.clip_norm is not None
    exact = Recomputed(module, records, loss, clip_norm=settings.clip_norm)
    noise, directions, sizes, differ = list[np.ndarray](), list[np.ndarray](), list[float](), 0.0
    batches = np.zeros((len(asked), n), dtype=bool)
    events = told_of(settings.promise(n, steps))
    for t, (one, later) in enumerate(zip(asked, after, strict=True)):
        batches[t, one.batch] = True
        total = exact(one.weights.float(), [[i] for i in one.batch]).sum(0)
        apart = float((one.gradient * size - total).norm())
        differ = max(differ, apart / settings.clip_norm / max(1, len(one.batch)))
        step, centre = settings.langevin_step(t), asked[t - t % inner].weights
        left = later - step.keep * one.weights - step.pull * centre + step.rate / size * total
        noise.append((left / step.std).float().numpy())
        length = float(total.norm())
        directions.append((total / length if length > 0.0 else total).float().numpy())
        sizes.append(len(one.batch) - n * rate_of(events[0]))
    own = np.sort(
        [size / settings.clip_norm * s.std / s.rate for s in (settings.langevin_step(t) for t in range(len(asked)))]
    )
    told = np.sort([noise_of(event) for event in events])
    wrong = float("inf") if len(own) != len(told) else float((own / told - 1.0).max())
    if len(own) == len(told) and (own < told).any():
        wrong = -1.0
    found = Evidence(
        noise=np.stack(noise),
        directions=np.stack(directions),
        sizes=np.array(sizes),
        batches=batches,
        cut=0,
        events=events,
    )
    return found, differ, wrong


def _of_sensitivity(
    settings: Settings, module: nn.Module, loss: Loss, shape: tuple[int, ...], classes: int
) -> Iterator[Check]:
    """Sums over a whole small data set, with one example more that was made to hurt."""
    few, moved = _made_up(_HURT, shape, classes, 1), dict[str, float]()
    first = few.inputs[:1]
    kinds = {"one that is as the others": first, "zeros": 0.0 * first, "large inputs": 30.0 * first,
             "huge inputs": -1e4 * first}  # fmt: skip
    assert settings.clip_norm is not None
    for name, extra in kinds.items():
        data = Dataset(
            name="made up",
            inputs=np.concatenate([few.inputs, extra]).astype(np.float32),
            labels=np.concatenate([few.labels, few.labels[:1]]),
            classes=classes,
        )
        whole = Objective(module, loss, data, batch_size=data.n, clip_norm=settings.clip_norm)
        potential = _Potential(objective=whole)
        potential.estimate(whole.weights(), Keys.derive([0]), 0)
        (asked,) = potential.asked
        records = TensorDataset(torch.tensor(data.inputs), torch.tensor(data.labels))
        exact = Recomputed(module, records, loss, clip_norm=settings.clip_norm)
        others = exact(asked.weights.float(), [[i] for i in range(_HURT)]).sum(0)
        moved[name] = float((asked.gradient * data.n - others).norm()) / settings.clip_norm
    worst = max(moved, key=lambda name: moved[name])
    broken = not moved[worst] <= 1.0 + _ROUNDING * _HURT
    claim = "one example more moves the sum by at most C"
    yield certain("sensitivity: one unit", claim, broken, f"{moved[worst]:.4f} C by {worst}")


def _of_resuming(sampler: Callable[[], Any], keys: Keys, states: list[Any]) -> Iterator[Check]:
    """A chain that goes on from a saved state makes the steps that it would have made."""
    middle = len(states) // 2
    again = sampler().step(states[middle], keys)[0]
    same = torch.equal(again.weights, states[middle + 1].weights)
    name = "resume: by its key" if isinstance(keys, SecretKeys) else "resume: seeded"
    yield certain(name, "a chain goes on bit for bit", not same, f"from step {middle}")


def _objective(settings: Settings, module: nn.Module, loss: Loss, data: Dataset) -> Objective:
    return Objective(module, loss, data, batch_size=settings.batch_size, clip_norm=settings.clip_norm)


def _made_up(n: int, shape: tuple[int, ...], classes: int, seed: int) -> Dataset:
    draw = np.random.default_rng(seed)
    inputs = draw.random((n, *shape), dtype=np.float32)
    return Dataset(name="made up", inputs=inputs, labels=draw.integers(classes, size=n), classes=classes)
