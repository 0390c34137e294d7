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
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from pacdp.algorithms import Settings, build
from pacdp.audit.checks import Check, MechanismAudit, certain
from pacdp.audit.mechanism import made_up
from pacdp.audit.observed import Subject, flat, norm
from pacdp.audit.one_run import of_batches, of_noise
from pacdp.audit.other_runs import of_one_unit, with_hurtful
from pacdp.audit.recomputed import Evidence, contributions
from pacdp.chains import Keys, SecretKeys
from pacdp.data import Dataset
from pacdp.losses import Loss
from pacdp.objective import Estimate, Objective
from pacdp.step.clip import Clip
from pacdp.step.event import told_of
from pacdp.step.mechanism import Mechanism
from pacdp.step.sums import Reference
from pacdp.step.units import Network, Units

_RELEASES = 120
_NUMBERS = 6_000_000
_EXAMPLES = 6_000
_ROUNDING = 1e-3
_ORDINARY = 6
"""Examples beside those that are made to hurt."""


class _Asked(NamedTuple):
    weights: Tensor
    """(dim,), in the order of the module's parameters."""
    batch: list[int]
    total: Tensor
    """The gradient times the batch size."""
    exact: Tensor
    """The sum of the batch's clipped gradients, computed anew."""


class _Potential:
    """The real potential, and what it was asked."""

    def __init__(self, subject: Subject, loss: Loss, batch_size: int) -> None:
        module, clip_norm = subject.module, subject.mechanism.clip_norm
        inputs, labels = (x.numpy() for x in subject.dataset.tensors)
        data = Dataset(name="made up", inputs=inputs, labels=labels, classes=int(labels.max()) + 1)
        self.objective = Objective(module, loss, data, batch_size=batch_size, clip_norm=clip_norm)
        network = Network.of(copy.deepcopy(module).train(), loss)
        self.exact = Reference(network, Units(subject.dataset, None), Clip(clip_norm), most=1)
        self.asked = list[_Asked]()

    def estimate(self, weights: Tensor, keys: Keys, tick: int | Tensor) -> Estimate:
        batch = self.objective.draw(keys, tick)[0][0].tolist()
        found, own = self.objective.estimate(weights, keys, tick), self.flat(weights)
        exact = contributions(self.exact, own.float(), batch).sum(0)
        total = self.flat(found.gradient) * self.objective.batch_size
        self.asked.append(_Asked(own, batch, total, exact))
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
    records, _ = made_up(shape, classes=classes, units=n, seed=seed)
    numbers = Mechanism(
        clip_norm=clip_norm, sample_rate=size / n, expected_batch_size=float(size), steps=steps
    )
    subject = Subject(
        algorithm=settings, mechanism=numbers, module=module, dataset=records, loss=loss
    )
    potential = _Potential(subject, loss, size)
    sampler, keys, asked = build(settings, potential), keys or Keys.derive([seed]), potential.asked
    states = [sampler.init(potential.objective.weights())]
    for _ in range(steps):
        states.append(sampler.step(states[-1], keys)[0])
    noise, made = list[Tensor](), [settings.step(t + 1) for t in range(len(asked))]
    after = _after(settings, potential, states, keys)
    for t, (one, step, later) in enumerate(zip(asked, made, after, strict=True)):
        centre = asked[t - t % inner].weights
        drift = step.keep * one.weights + step.pull * centre - step.rate * one.exact / size
        noise.append((later - drift) / step.scale)
    evidence = Evidence(
        noise=torch.stack(noise).float().numpy(),
        sums=torch.stack([one.exact for one in asked]).float().numpy(),
        rows=range(len(asked)),
        batches=np.stack([np.isin(np.arange(n), one.batch) for one in asked]),
        told=told,
    )

    def checks() -> Iterator[Check]:
        yield from of_noise(evidence, module)
        yield from of_batches(evidence)
        differ = max(
            norm(one.total - one.exact) / clip_norm / max(1, len(one.batch)) for one in asked
        )
        claim = "gradients times the batch size are sums of clipped examples"
        seen = f"at most {differ:.1e} C an example apart"
        yield certain("divisor", claim, differ > _ROUNDING, seen)
        own = np.sort([size / clip_norm * step.scale / step.rate for step in made])
        said = np.sort([step.noise for step in told])
        ratios = own / said if len(own) == len(said) else np.array([np.inf])
        claim = "the noise told is that of the settings, or less"
        wrong = not (1.0 <= ratios.min() and ratios.max() <= 1.0 + _ROUNDING)
        yield certain("accountant: numbers", claim, wrong, f"{ratios.max() - 1.0:.1e} apart")
        yield _of_sensitivity(subject, loss)
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
        ended = sampler.transition(state, numbers, keys, state.step)[0]
        after[(t + 1) * inner - 1] = potential.flat(ended.weights)
    return after


def _of_sensitivity(subject: Subject, loss: Loss) -> Check:
    """The sum over a whole small data set, of which some examples were made to hurt."""
    hurt, kinds = with_hurtful(subject, _ORDINARY, finite=True)
    potential, units = _Potential(hurt, loss, len(hurt.dataset)), range(len(hurt.dataset))
    potential.estimate(potential.objective.weights(), Keys.derive([0]), 0)
    (asked,) = potential.asked
    own = contributions(potential.exact, asked.weights.float(), units)
    beyond, clip_norm = asked.total - own.sum(0), subject.mechanism.clip_norm
    moved = [norm(beyond + one) / clip_norm for one in own[_ORDINARY:]]
    return of_one_unit(dict(zip(kinds, moved, strict=True)), len(units))
