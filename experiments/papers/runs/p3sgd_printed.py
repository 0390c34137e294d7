"""P3SGD as its paper prints it, beside the corrected one, on people few enough that SGD overfits.

As printed, sum and noise are divided by the size of the sample, which is private, and the candidate of lower loss ℓ on
the whole sample is taken with probability ∝ exp(-ε' ℓ / (2 C_o)), ℓ clipped to C_o, which no sum over patients makes
larger. :class:`PrintedP3SGD` lives here and not in the library: nobody should run it on data that somebody wants kept
private. Its epsilon is the paper's own, and rests on a hypothesis that is unproved (:data:`UNPROVED`).
"""

import math
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils.data import TensorDataset

from bounds.hypotheses import unproved
from experiments.papers.p3sgd_problems import scale_name
from experiments.papers.runs.p3sgd import DropBlock, Dropout, Network, Plain, network
from experiments.papers.runs.p3sgd_runs import score, sgd
from pacdp.algorithms.p3sgd import P3SGD, published_epsilon
from pacdp.audit.canaries import audit_training
from pacdp.cli.config import Runtime
from pacdp.cli.private.data import examples
from pacdp.cli.sweep.jobs import single
from pacdp.loop import train
from pacdp.step.accountant import privacy_spent
from pacdp.step.choice import clipped_scores, probabilities_of
from pacdp.step.mechanism import Mechanism
from pacdp.step.noise import SeededRandomness
from pacdp.step.release import PrivateStep

UNPROVED = unproved(
    "accountant sound",
    "the published moments charge the chosen candidate alone, and not that the divisor is the size of the sample",
)
"""What the paper's epsilon rests on; the corrected algorithm's rests on an accountant that is proved."""
SAMPLE_RATE, SELECTION_EPSILON, SCORE_BOUND = 0.1, math.sqrt(0.1), 3.0
"""Of Section 4.2: q, ε' and C_o."""
CLIP_NORM, SAMPLED, STEPS = 5.0, 100.0, 100
"""Of Section 4.2: C_u, 0.1 of 1000 patients, and the rounds T."""
_PUBLIC_SEED = 2019
Rule = Literal["printed", "corrected", "coin"]
"""How a candidate is chosen; a coin is the printed rule with ε' = 0, which looks at no loss."""


class Choosing(NamedTuple):
    """One choice between two candidates."""

    better_probability: float
    """With which the candidate of lower loss is taken."""
    better_taken: bool
    quieter_taken: bool


@dataclass(frozen=True, kw_only=True)
class WatchedP3SGD(P3SGD):
    """The corrected algorithm, with what its choices looked like, which is private."""

    seen: list[Choosing] = field(default_factory=list[Choosing])

    @torch.no_grad()
    def update(self, step: PrivateStep) -> int:
        """As the library's."""
        asked, losses = list[Tensor](), step.losses

        def listening(weights: dict[str, Tensor]) -> Tensor:
            assert losses is not None
            asked.append(losses(weights))
            return asked[-1]

        step.losses = listening
        chosen = super().update(step)
        if len(asked) == 2:
            scores = clipped_scores(torch.stack(asked), self.score_bound)
            self.note(scores, probabilities_of(scores, self.selection_epsilon), chosen)
        return chosen

    def note(self, scores: Tensor, probabilities: Tensor, chosen: int) -> None:
        """Keep what a choice between two looked like."""
        better, quieter = int(scores.argmin()), int(np.argmin(self.noise_scales))
        self.seen.append(Choosing(float(probabilities[better]), chosen == better, chosen == quieter))


@dataclass(frozen=True, kw_only=True)
class PrintedP3SGD(WatchedP3SGD):
    """Algorithms 1 and 2 of the paper; no guarantee.

    A patient's loss is their mean loss, and the sample's is the mean over its patients. A step whose sample is empty,
    which the paper does not define, leaves the weights.
    """

    @property
    def choice(self) -> None:
        """None that the accountant should charge: what it says of this algorithm is not asked for."""
        return None

    @torch.no_grad()
    def update(self, step: PrivateStep) -> int:
        """Divide by the sample's size, and choose by the loss of all of it."""
        assert step.losses is not None
        released = self.candidates.draw(step, self.noise_scales)
        sampled = len(step.losses(step.weights))
        if not sampled:
            return 0
        moved = [{name: w + (one[name] / sampled).to(w.dtype) for name, w in step.weights.items()} for one in released]
        chosen = 0
        if len(moved) > 1:
            losses = torch.stack([step.losses(one).double().mean() for one in moved]).nan_to_num(self.score_bound)
            scores = losses.clamp(0.0, self.score_bound) / self.score_bound
            probabilities = torch.softmax(-self.selection_epsilon * scores / 2.0, 0)
            chosen = len(step.randomness.batch(1, float(probabilities[1])))
            self.note(scores, probabilities, chosen)
        for name, w in step.weights.items():
            w.copy_(moved[chosen][name])
        return chosen


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparing:
    """All strategies from one start on the people that a seed draws; everybody else is the test."""

    dataset: str = "digits"
    features: Literal["pixels", "backbone"] = "pixels"
    shrink: float = 1.0
    """By which features are divided: a public constant."""
    network: Network = field(default_factory=Network)
    people: int = 40
    each: int = 12
    """Records of a person at most."""
    public_people: int = 0
    """The same for every seed, in neither set: the network's start is trained on them."""
    pretraining: Plain = field(default_factory=Plain)
    plain: Plain = field(default_factory=Plain)
    drop_rate: float = 0.3
    """Of Dropout and DropBlock."""
    blocks: bool = False
    """Whether SGD with DropBlock runs beside SGD with Dropout; a linear layer has no blocks."""
    clip_norm: float = 1.0
    learning_rate: float = 1.0
    local_batch_size: int = 0
    sets: tuple[tuple[float, ...], ...] = ((3.0, 1.0),)
    canaries: int = 0
    """Made-up patients of an audit of the corrected algorithm with the first set; 0 for none."""
    steps: int = STEPS
    seed: int = 0


class Sides(NamedTuple):
    """Records of some people, and of all others."""

    inputs: Tensor
    labels: Tensor
    people: Tensor
    test_inputs: Tensor
    test_labels: Tensor


@lru_cache(maxsize=3)
def _pool(dataset: str, features: str, root: str | None) -> tuple[Tensor, Tensor, Tensor]:
    found = examples(dataset, features=features, by_person=True, root=root)
    assert found.people is not None
    people = found.people.unique(return_inverse=True)[1]
    return torch.tensor(found.train.inputs), torch.tensor(found.train.labels), people


def _rows(people: Tensor, some: Tensor, each: int, generator: torch.Generator) -> Tensor:
    """At most so many records, at random, of each of some people."""
    order = torch.randperm(len(people), generator=generator)
    order = order[torch.isin(people[order], some)]
    order = order[people[order].argsort(stable=True)]
    counts = torch.bincount(people[order])
    rank = torch.arange(len(order)) - (counts.cumsum(0) - counts)[people[order]]
    return order[rank < each]


def sides(config: Comparing, root: str | None) -> tuple[Sides, tuple[Tensor, Tensor]]:
    """What the seed's people and all others have, and the inputs and labels of the public ones."""
    inputs, labels, people = _pool(config.dataset, config.features, root)
    inputs = inputs / config.shrink
    fixed = torch.Generator().manual_seed(_PUBLIC_SEED)
    order = torch.randperm(int(people.max()) + 1, generator=fixed)
    public = _rows(people, order[: config.public_people], config.each, fixed)
    generator = torch.Generator().manual_seed(config.seed)
    others = order[config.public_people :]
    others = others[torch.randperm(len(others), generator=generator)]
    train, test = (
        _rows(people, some, config.each, generator) for some in (others[: config.people], others[config.people :])
    )
    found = Sides(inputs[train], labels[train], people[train], inputs[test], labels[test])
    return found, (inputs[public], labels[public])


@lru_cache(maxsize=3)
def _start(config: Comparing, root: str | None) -> nn.Sequential:
    """The network's first weights, trained on the public people where there are any; of no seed."""
    _, (inputs, labels) = sides(config, root)
    generator = torch.Generator().manual_seed(_PUBLIC_SEED)
    classes = int(_pool(config.dataset, config.features, root)[1].max()) + 1
    module = network(config.network, tuple(sides(config, root)[0].inputs.shape[1:]), classes, generator=generator)
    if config.public_people:
        sgd(config.pretraining, module, inputs, labels, _nothing, records=1, generator=generator)
    return module


def _nothing(step: int, epochs: float, module: nn.Module) -> None:
    del step, epochs, module


def _copy(module: nn.Sequential, settings: Network, shape: tuple[int, ...], classes: int) -> nn.Sequential:
    made = network(settings, shape, classes, generator=torch.Generator())
    made.load_state_dict(module.state_dict())
    return made


def compute(config: Comparing, runtime: Runtime, folder: Path) -> dict[str, Any]:
    """A row a strategy."""
    del folder
    found, _ = sides(config, runtime.data_root)
    start = _start(replace(config, seed=0), runtime.data_root)
    last = [layer for layer in start if isinstance(layer, nn.Linear)][-1]

    def fresh() -> nn.Sequential:
        return _copy(start, config.network, tuple(found.inputs.shape[1:]), last.out_features)

    blocks = [DropBlock(rate=config.drop_rate)] if config.blocks else []
    rows = [{"strategy": "start", **_scores(fresh(), found)}]
    for regulariser in (None, Dropout(rate=config.drop_rate), *blocks):
        rows.append(_plainly(replace(config.plain, regulariser=regulariser), fresh(), found, config.seed))
    for scales in config.sets:
        rules: tuple[Rule, ...] = ("printed", "corrected", "coin") if len(scales) > 1 else ("printed", "corrected")
        rows += [_privately(config, rule, scales, fresh(), found) for rule in rules]
    audit = _audited(config, fresh(), found) if config.canaries else {}
    size = sum(parameter.numel() for parameter in start.parameters())
    majority = float(found.test_labels.bincount().max()) / len(found.test_labels)
    same = {"parameters": size, "n": len(found.labels), "n_test": len(found.test_labels), "majority": majority}
    return {"rows": [{**same, "people": config.people, **row} for row in rows], "audit": audit}


def _scores(module: nn.Module, found: Sides) -> dict[str, float]:
    made, test = score(module, found.inputs, found.labels), score(module, found.test_inputs, found.test_labels)
    train_accuracy, test_accuracy = 100.0 * (1.0 - made.error), 100.0 * (1.0 - test.error)
    return {"train_accuracy": train_accuracy, "test_accuracy": test_accuracy, "gap": train_accuracy - test_accuracy,
            "train_loss": made.loss, "test_loss": test.loss}  # fmt: skip


def _plainly(settings: Plain, module: nn.Sequential, found: Sides, seed: int) -> dict[str, Any]:
    """SGD, with the lowest test loss on its way, of ten."""
    losses = list[float]()

    def record(step: int, epochs: float, now: nn.Module) -> None:
        del step, epochs
        losses.append(score(now, found.test_inputs, found.test_labels).loss)

    generator = torch.Generator().manual_seed(seed)
    sgd(settings, module, found.inputs, found.labels, record, records=10, generator=generator)
    name = "SGD" if settings.regulariser is None else f"SGD+{type(settings.regulariser).__name__}"
    return {"strategy": name, "best_test_loss": min(losses), **_scores(module, found)}


def _settings(config: Comparing, rule: Rule, scales: tuple[float, ...]) -> WatchedP3SGD:
    mechanism = Mechanism(clip_norm=config.clip_norm, sample_rate=SAMPLE_RATE,
                          expected_batch_size=SAMPLE_RATE * config.people, steps=config.steps)  # fmt: skip
    kind = WatchedP3SGD if rule == "corrected" else PrintedP3SGD
    nats = 1e-12 if rule == "coin" else SELECTION_EPSILON
    return kind(mechanism=mechanism, noise_scales=scales, learning_rate=config.learning_rate, score_bound=SCORE_BOUND,
                local_batch_size=config.local_batch_size or None, selection_epsilon=nats)  # fmt: skip


def _privately(
    config: Comparing, rule: Rule, scales: tuple[float, ...], module: nn.Sequential, found: Sides
) -> dict[str, Any]:
    settings, data = _settings(config, rule, scales), TensorDataset(found.inputs, found.labels)
    run = train(settings, module, data, people=found.people, loss=_loss, randomness=SeededRandomness(config.seed))
    module.load_state_dict(run.weights)
    row: dict[str, Any] = {
        "strategy": f"P3SGD, {rule}",
        "noise_scales": scale_name(scales),
    }
    if settings.seen:
        row |= {
            "better_probability": float(np.mean([one.better_probability for one in settings.seen])),
            "better_taken": float(np.mean([one.better_taken for one in settings.seen])),
            "quieter_taken": float(np.mean([one.quieter_taken for one in settings.seen])),
            "choices": len(settings.seen),
        }
    return row | _spent(config, rule, settings, run.event) | _scores(module, found)


def _spent(config: Comparing, rule: Rule, settings: P3SGD, event: Any) -> dict[str, Any]:
    """Epsilon at N^-1.1: the corrected algorithm's is proved, the paper's own for what it prints is not."""
    delta = config.people**-1.1
    if rule == "corrected":
        spent = privacy_spent(event, delta=delta, adjacency="add-remove")
        return {"epsilon": spent.upper, "delta": delta, "standing": "proved"}
    if rule == "coin":
        return {"delta": delta}
    told = published_epsilon(noise_scales=settings.noise_scales, sample_rate=SAMPLE_RATE, steps=config.steps,
                             selection_epsilon=SELECTION_EPSILON, delta=delta)  # fmt: skip
    return {"published_epsilon": told.epsilon, "delta": delta, "standing": UNPROVED.standing}


def _audited(config: Comparing, module: nn.Sequential, found: Sides) -> dict[str, Any]:
    """What canaries among the patients give away of all sums that the corrected algorithm releases."""
    settings, delta = _settings(config, "corrected", config.sets[0]), config.people**-1.1
    audit = audit_training(
        settings, module, TensorDataset(found.inputs, found.labels), loss=_loss, people=found.people, records=1,
        generator=np.random.default_rng(config.seed), delta=delta, canaries=config.canaries,
        randomness=SeededRandomness(config.seed + 1),
    )  # fmt: skip
    return {"epsilon_lower": audit.result.epsilon_lower, "claimed_epsilon": audit.claimed_epsilon, "delta": delta,
            "mu_lower": audit.independent_mu_lower, "contradicted": audit.contradicted,
            "hypothesis_of_the_printed": asdict(UNPROVED)}  # fmt: skip


def _loss(outputs: Tensor, targets: Tensor) -> Tensor:
    return cross_entropy(outputs, targets, reduction="none")


COMPARING = single(compute)


@dataclass(frozen=True, slots=True, kw_only=True)
class Walking:
    """A trained network under the paper's noise and no update: z C_u/100 on each weight, T times, nothing tuned."""

    dataset: str = "digits"
    images: int = 1000
    test_images: int = 1000
    network: Network = field(default_factory=Network)
    plain: Plain = field(default_factory=Plain)
    sets: tuple[tuple[float, ...], ...] = ((3.0, 1.0), (1.0,), (3.0,))
    walks: int = 10
    marks: tuple[int, ...] = (0, 1, 2, 5, 10, 20, 50, 100)
    seed: int = 0


def walk(config: Walking, runtime: Runtime, folder: Path) -> dict[str, Any]:
    """A row a mark of each walk: test accuracy in percent. Of two scales either is taken with probability one half."""
    del folder
    found = examples(config.dataset, by_person=False, root=runtime.data_root)
    inputs, labels = (torch.tensor(one[: config.images]) for one in (found.train.inputs, found.train.labels))
    test, answers = (torch.tensor(one[: config.test_images]) for one in (found.test.inputs, found.test.labels))
    generator = torch.Generator().manual_seed(config.seed)
    module = network(config.network, tuple(inputs.shape[1:]), found.train.classes, generator=generator)
    sgd(config.plain, module, inputs, labels, _nothing, records=1, generator=generator)
    trained = {name: value.clone() for name, value in module.state_dict().items()}
    rows = list[dict[str, Any]]()
    for scales in config.sets:
        for number in range(config.walks):
            module.load_state_dict(trained)
            for step in range(max(config.marks) + 1):
                if step:
                    z = scales[int(torch.randint(len(scales), (), generator=generator))]
                    _shake(module, z * CLIP_NORM / SAMPLED, generator)
                if step in config.marks:
                    accuracy = 100.0 * (1.0 - score(module, test, answers).error)
                    rows.append({"strategy": "noise alone", "noise_scales": scale_name(scales),
                                 "seed": number, "step": step, "test_accuracy": accuracy})  # fmt: skip
    return {"rows": rows, "audit": {}}


@torch.no_grad()
def _shake(module: nn.Module, deviation: float, generator: torch.Generator) -> None:
    for parameter in module.parameters():
        parameter.add_(torch.randn(parameter.shape, generator=generator), alpha=deviation)


WALKING = single(walk)
