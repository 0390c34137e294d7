"""P3SGD as its paper prints it, beside the corrected one, on people few enough that SGD overfits.

As printed, sum and noise are divided by the size of the sample, which is private, and the candidate of lower loss ℓ on
the whole sample is taken with probability ∝ exp(-ε' ℓ / (2 C_o)), ℓ clipped to C_o, which no sum over patients makes
larger. :class:`PrintedP3SGD` lives here and not in the library: nobody should run it on data that somebody wants kept
private. Its epsilon is the paper's own, and that its moments cover the algorithm is unproved: they charge the chosen
candidate alone, and not that the divisor is the size of the sample.
"""

import copy
import statistics
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from experiments.runs import p3sgd
from pacdp.algorithms.p3sgd import P3SGD
from pacdp.cli.private.data import examples
from pacdp.cli.runtime import Runtime
from pacdp.cli.sweep.jobs import single
from pacdp.step.mechanism import Mechanism
from pacdp.step.release import PrivateStep, clipped_scores, probabilities_of

CLIP_NORM, SAMPLED = 5.0, 100.0
"""Of Section 4.2: C_u, and 0.1 of 1000 patients."""
_PUBLIC_SEED = 2019
_TAUGHT = p3sgd.Plain(epochs=6, batch_size=64)


@dataclass(frozen=True, kw_only=True)
class PrintedP3SGD(P3SGD):
    """Algorithms 1 and 2 of the paper; no guarantee.

    A patient's loss is their mean loss, and the sample's is the mean over its patients. A step whose sample is empty,
    which the paper does not define, leaves the weights.
    """

    choices: list[float] = field(default_factory=list[float])
    """With what probability each choice took the candidate of lower loss; private."""

    @property
    def choice(self) -> None:
        """None that the accountant should charge: what it says of this algorithm is not asked for."""
        return None

    @torch.no_grad()
    def update(self, step: PrivateStep) -> int:
        """Divide by the sample's size, and choose by the loss of all of it."""
        assert step.losses is not None
        released = self.candidates(step)
        sampled = len(step.losses(step.weights))
        if not sampled:
            return 0
        moved = [{name: w + (one[name] / sampled).to(w.dtype) for name, w in step.weights.items()} for one in released]
        chosen = 0
        if len(moved) > 1:
            losses = torch.stack([step.losses(one).double().mean(0, keepdim=True) for one in moved])
            probabilities = probabilities_of(clipped_scores(losses, self.score_bound), self.selection_epsilon / 2.0)
            chosen = len(step.randomness.batch(1, float(probabilities[1])))
            self.choices.append(float(probabilities.max()))
        for name, w in step.weights.items():
            w.copy_(moved[chosen][name])
        return chosen


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparing:
    """All strategies from one start on the people that a seed draws; everybody else is the test."""

    dataset: str = "digits"
    features: str = "pixels"
    shrink: float = 1.0
    """By which features are divided: a public constant."""
    network: p3sgd.Network = p3sgd.LINEAR
    people: int = 40
    each: int = 12
    """Records of a person at most."""
    public_people: int = 0
    """The same for every seed, in neither set: the network's start is trained on them."""
    pretraining: p3sgd.Plain = p3sgd.PLAIN
    plain: p3sgd.Plain = p3sgd.PLAIN
    drop_rate: float = 0.3
    """Of Dropout and DropBlock."""
    blocks: bool = False
    """Whether SGD with DropBlock runs beside SGD with Dropout; a linear layer has no blocks."""
    clip_norm: float = 1.0
    learning_rate: float = 1.0
    local_batch_size: int = 0
    sets: tuple[tuple[float, ...], ...] = ((3.0, 1.0),)
    steps: int = p3sgd.STEPS
    seed: int = 0


def sides(config: Comparing, root: str | None) -> tuple[p3sgd.Sides, tuple[Tensor, Tensor]]:
    """What the seed's people and all others have, and the inputs and labels of the public ones."""
    data = examples(config.dataset, features=config.features, by_person=True, root=root)
    assert data.people is not None
    people, (inputs, labels) = data.people.unique(return_inverse=True)[1], data.tensors().tensors

    def of(some: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
        """At most so many records, at random, of each of some people."""
        order = torch.randperm(len(people), generator=generator)
        rows = [order[people[order] == one][: config.each] for one in some.sort().values]
        taken = torch.cat([order[:0], *rows])
        return inputs[taken] / config.shrink, labels[taken], people[taken]

    fixed, generator = p3sgd.seeded(_PUBLIC_SEED), p3sgd.seeded(config.seed)
    order = torch.randperm(int(people.max()) + 1, generator=fixed)
    public = of(order[: config.public_people], fixed)
    others = order[config.public_people :]
    others = others[torch.randperm(len(others), generator=generator)]
    train, test = (of(some, generator) for some in (others[: config.people], others[config.people :]))
    return p3sgd.Sides(*train, *test[:2]), public[:2]


@lru_cache(maxsize=3)
def _start(config: Comparing, root: str | None) -> nn.Sequential:
    """The network's first weights, trained on the public people where there are any; of no seed."""
    found, public = sides(config, root)
    generator = p3sgd.seeded(_PUBLIC_SEED)
    module = p3sgd.network(config.network, found.test_inputs, found.test_labels, generator=generator)
    if config.public_people:
        p3sgd.sgd(config.pretraining, module, *public, generator=generator)
    return module


def compute(config: Comparing, runtime: Runtime, folder: Path) -> dict[str, Any]:
    """A row a strategy. A coin is the printed rule that looks at no loss; epsilon is that of the corrected one."""
    found, _ = sides(config, runtime.data_root)
    start, people = _start(replace(config, seed=0), runtime.data_root), config.people
    rows = [{"strategy": "start", **p3sgd.scores(start, found)}]
    for how in ("", "Dropout", "DropBlock")[: 2 + config.blocks]:
        module = copy.deepcopy(start)
        p3sgd.sgd(config.plain, module, found.inputs, found.labels, generator=p3sgd.seeded(config.seed), how=how,
            rate=config.drop_rate)  # fmt: skip
        rows.append({"strategy": f"SGD+{how}".strip("+"), **p3sgd.scores(module, found)})
    rate = p3sgd.SAMPLE_RATE
    mechanism = Mechanism(clip_norm=config.clip_norm, sample_rate=rate, expected_batch_size=rate * people,
                          steps=config.steps)  # fmt: skip
    for scales in config.sets:
        for rule in ("printed", "corrected", "coin")[: 1 + len(scales)]:
            settings, module = (P3SGD if rule == "corrected" else PrintedP3SGD)(
                noise_scales=scales, learning_rate=config.learning_rate, local_batch_size=config.local_batch_size,
                selection_epsilon=1e-12 if rule == "coin" else p3sgd.SELECTION_EPSILON,
            ), copy.deepcopy(start)  # fmt: skip
            event = p3sgd.privately(settings, mechanism, module, found, seed=config.seed)
            row: dict[str, Any] = {"strategy": f"P3SGD, {rule}", "noise_scales": p3sgd.scale_name(scales)}
            row |= p3sgd.scores(module, found)
            if not isinstance(settings, PrintedP3SGD):
                row |= p3sgd.price(event, people**-1.1)
            elif settings.choices:
                row["better_probability"] = statistics.fmean(settings.choices)
            rows.append(row)
    majority = float(found.test_labels.bincount().max()) / len(found.test_labels)
    return {"rows": [{"people": people, "majority": majority, **row} for row in rows]}


COMPARING = single(compute)


@dataclass(frozen=True, slots=True, kw_only=True)
class Walking:
    """A trained network under the paper's noise and no update: z C_u/100 on each weight, T times, nothing tuned."""

    dataset: str = "mnist"
    images: int = 5000
    test_images: int = 2000
    network: p3sgd.Network = p3sgd.SMALL
    plain: p3sgd.Plain = _TAUGHT
    sets: tuple[tuple[float, ...], ...] = ((3.0, 1.0), (1.0,), (3.0,))
    walks: int = 10
    marks: tuple[int, ...] = (0, 1, 2, 5, 10, 20, 50, 100)
    seed: int = 0


def walk(config: Walking, runtime: Runtime, folder: Path) -> dict[str, Any]:
    """A row a mark of each walk: test accuracy in percent. Of two scales either is taken with probability one half."""
    data = examples(config.dataset, by_person=False, root=runtime.data_root)
    inputs, labels = data.tensors()[: config.images]
    test = (torch.tensor(one[: config.test_images]) for one in (data.test.inputs, data.test.labels))
    found, generator = p3sgd.Sides(inputs, labels, labels, *test), p3sgd.seeded(config.seed)
    trained = p3sgd.network(config.network, inputs, labels, generator=generator)
    p3sgd.sgd(config.plain, trained, inputs, labels, generator=generator)
    rows = list[dict[str, Any]]()
    for scales, number in product(config.sets, range(config.walks)):
        module = copy.deepcopy(trained)
        for step in range(max(config.marks) + 1):
            if step:
                z = scales[int(torch.randint(len(scales), (), generator=generator))]
                for parameter in module.parameters():
                    noise = torch.randn(parameter.shape, generator=generator)
                    parameter.data.add_(noise, alpha=z * CLIP_NORM / SAMPLED)
            if step in config.marks:
                rows.append({"strategy": "noise alone", "noise_scales": p3sgd.scale_name(scales), "seed": number,
                             "step": step, "test_accuracy": p3sgd.scores(module, found)["test_accuracy"]})  # fmt: skip
    return {"rows": rows}


WALKING = single(walk)
