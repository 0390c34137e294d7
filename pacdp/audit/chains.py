"""The audit of clipped Langevin chains: SGLD and the inner loop of Entropy-SG(L)D, through the sampler's own steps.

A chain's gradients come from a ``Potential``; the auditor's stands before the real one and notes at which weights it is
asked. Between two askings lies one Langevin step, whose noise is what the drift leaves unexplained:

    √(2h/τ) ξ = w' - (1 - a) w - b w_centre + h (1/K) Σ_{i in batch} clip_C(∇ℓ_i(w)),

with a = h/(τ base_std²), b = 0 for SGLD and a = b = hγ for Entropy-SG(L)D. After the last inner step of a loop nobody
asks: where it led is seen by making the outer step once more, under the same keys, with outer numbers that leave the
weights there.
"""

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from bounds.accounting import Event
from pacdp.algorithms import Settings, build
from pacdp.audit.checks import Check, MechanismAudit, certain
from pacdp.audit.evidence import Evidence, noise_of, told_of
from pacdp.audit.mechanism import made_up
from pacdp.audit.observed import flat, norm
from pacdp.audit.one_run import of_batches, of_noise
from pacdp.audit.other_runs import HURTFUL, of_one_unit
from pacdp.audit.recomputed import contributions
from pacdp.chains import Keys, SecretKeys
from pacdp.data import Dataset
from pacdp.losses import Loss
from pacdp.objective import Estimate, Objective
from pacdp.step.sums import ByExample
from pacdp.step.units import Network, Units

_RELEASES = 120
_NUMBERS = 6_000_000
_EXAMPLES = 6_000
_ROUNDING = 1e-3
_HURT = 6


class _Asked(NamedTuple):
    weights: Tensor
    """(dim,), in the order of the module's parameters."""
    batch: list[int]
    total: Tensor
    """The gradient times the batch size."""
    exact: Tensor
    """The sum of the batch's clipped gradients, computed anew."""


@dataclass(slots=True, kw_only=True)
class _Potential:
    """The real potential, and what it was asked."""

    objective: Objective
    exact: ByExample
    asked: list[_Asked] = field(default_factory=list)

    @classmethod
    def of(
        cls,
        module: nn.Module,
        loss: Loss,
        records: TensorDataset,
        clip_norm: float,
        batch_size: int,
    ) -> "_Potential":
        inputs, labels = (x.numpy() for x in records.tensors)
        data = Dataset(name="made up", inputs=inputs, labels=labels, classes=int(labels.max()) + 1)
        network = Network.of(copy.deepcopy(module).train(), loss)
        return cls(
            objective=Objective(module, loss, data, batch_size=batch_size, clip_norm=clip_norm),
            exact=ByExample(network, Units(records, None), clip_norm, most=1),
        )

    def estimate(self, weights: Tensor, keys: Keys, tick: int | Tensor) -> Estimate:
        drawn, _ = self.objective.draw(keys, tick)
        found = self.objective.estimate(weights, keys, tick)
        batch, own = drawn[0].tolist(), self.flat(weights)
        total = self.flat(found.gradient) * self.objective.batch_size
        self.asked.append(
            _Asked(own, batch, total, contributions(self.exact, own.float(), batch).sum(0))
        )
        return found

    def flat(self, vector: Tensor) -> Tensor:
        return flat(self.objective.layout.views(vector[0]).values()).double()


def audit_chain(
    settings: Settings,
    module: nn.Module,
    *,
    loss: Loss,
    shape: tuple[int, ...],
    classes: int,
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
        seed: of the data, and of the chain without ``keys``.
        keys: of the one chain: where its noise and its batches come from.

    Raises:
        ValueError: settings that promise nothing, or what the objective refuses.
    """
    size, clip_norm = settings.batch_size, settings.clip_norm
    n = 4 * size
    dim, inner = sum(p.numel() for p in module.parameters()), settings.gradients_per_step
    steps = max(2, -(-max(10, min(_RELEASES, _NUMBERS // dim, _EXAMPLES // size)) // inner))
    told = told_of(settings.promise(n, steps))
    if clip_norm is None or not told:
        raise ValueError(
            f"{type(settings).__name__} promises nothing of {steps} steps: there is nothing to audit"
        )
    potential = _Potential.of(
        module, loss, made_up(shape, classes=classes, units=n, seed=seed)[0], clip_norm, size
    )
    sampler, keys, asked = build(settings, potential), keys or Keys.derive([seed]), potential.asked
    states = [sampler.init(potential.objective.weights())]
    for _ in range(steps):
        states.append(sampler.step(states[-1], keys)[0])
    evidence = _evidence(settings, asked, _after(settings, potential, states, keys), n, told)

    def checks() -> Iterator[Check]:
        yield from of_noise(evidence, module)
        yield from of_batches(evidence)
        apart = [norm(one.total - one.exact) / max(1, len(one.batch)) for one in asked]
        differ = max(apart) / clip_norm
        claim = "gradients times the batch size are sums of clipped examples"
        yield certain(
            "divisor", claim, differ > _ROUNDING, f"at most {differ:.1e} C an example apart"
        )
        made = [settings.step(t + 1) for t in range(len(asked))]
        own = np.sort([size / clip_norm * step.scale / step.rate for step in made])
        said = np.sort([noise_of(event) for event in told])
        ratios = own / said if len(own) == len(said) else np.array([np.inf])
        claim = "the noise told is that of the settings, or less"
        wrong = not (1.0 <= ratios.min() and ratios.max() <= 1.0 + _ROUNDING)
        yield certain("accountant: numbers", claim, wrong, f"{ratios.max() - 1.0:.1e} apart")
        yield _of_sensitivity(
            module, loss, made_up(shape, classes=classes, units=_HURT, seed=1)[0], clip_norm
        )
        middle = len(states) // 2
        again = build(settings, potential.objective).step(states[middle], keys)[0]
        same = torch.equal(again.weights, states[middle + 1].weights)
        name = "resume: by its key" if isinstance(keys, SecretKeys) else "resume: seeded"
        yield certain(name, "a chain goes on bit for bit", not same, f"from step {middle}")

    return MechanismAudit(checks=tuple(checks()), failure_prob=failure_prob)


def _after(
    settings: Settings, potential: _Potential, states: Sequence[Any], keys: Keys
) -> list[Tensor]:
    """Where each Langevin step led: where the potential is asked next, or, of the last of a loop, where that ended."""
    after = [*(one.weights for one in potential.asked[1:]), potential.flat(states[-1].weights)]
    sampler, inner = build(settings, potential.objective), settings.gradients_per_step
    inside = {name: np.array([value]) for name, value in settings.ending_inside.items()}
    for t, state in enumerate(states[:-1] if inside else ()):
        numbers = {**sampler.coefficients(state.step), **inside}
        after[(t + 1) * inner - 1] = potential.flat(
            sampler.transition(state, numbers, keys, state.step)[0].weights
        )
    return after


def _evidence(
    settings: Settings, asked: Sequence[_Asked], after: Sequence[Tensor], n: int, told: list[Event]
) -> Evidence:
    """The noise is what the drift leaves over."""
    noise, batches = list[np.ndarray](), np.zeros((len(asked), n), dtype=bool)
    for t, (one, later) in enumerate(zip(asked, after, strict=True)):
        batches[t, one.batch] = True
        step, centre = settings.step(t + 1), asked[t - t % settings.gradients_per_step].weights
        drift = (
            step.keep * one.weights
            + step.pull * centre
            - step.rate / settings.batch_size * one.exact
        )
        noise.append(((later - drift) / step.scale).float().numpy())
    sums = np.stack([one.exact.float().numpy() for one in asked])
    return Evidence(
        noise=np.stack(noise), sums=sums, rows=range(len(asked)), batches=batches, events=told
    )


def _of_sensitivity(module: nn.Module, loss: Loss, few: TensorDataset, clip_norm: float) -> Check:
    """Sums over a whole small data set, with one example more that was made to hurt."""
    moved, (x, y) = dict[str, float](), few.tensors
    for name, factor in HURTFUL.items():
        if np.isfinite(factor):
            more = TensorDataset(torch.cat([x, factor * x[:1]]), torch.cat([y, y[:1]]))
            potential = _Potential.of(module, loss, more, clip_norm, len(more))
            potential.estimate(potential.objective.weights(), Keys.derive([0]), 0)
            (asked,) = potential.asked
            others = contributions(potential.exact, asked.weights.float(), range(len(few))).sum(0)
            moved[f"an example {name}"] = norm(asked.total - others) / clip_norm
    return of_one_unit(moved, len(few))
