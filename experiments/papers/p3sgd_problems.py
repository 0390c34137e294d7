"""What the studies of P3SGD train on what, at each scale, and how.

The paper trains ResNet-18 with 11.2 million weights on 1000 patients with about 50 images each. Noise of multiplier z
on each of d coordinates has length z C √d, and the patients of one step add at most C q N: at the paper's numbers the
noise is 33 z times the longest update there can be. So the networks here are small, and the smallest problem is a
linear layer on fixed features, where privacy can be had from 161 patients.
"""

from dataclasses import dataclass, replace
from typing import Any, Literal

from experiments.claims import Omission
from experiments.job_costs import PEOPLE
from experiments.papers.runs.p3sgd import Attack, DropBlock, Dropout, Network, Plain, Private, Strategy, Training
from experiments.papers.runs.p3sgd_runs import TRAINING
from pacdp.cli.private.config import Budget, Sampling
from pacdp.cli.private.methods import P3SGD
from pacdp.cli.recipes import Scale
from pacdp.cli.serial import digest
from pacdp.cli.sweep.jobs import Job

PAPER_SCALES = (3.0, 1.0)
FIRST_WEIGHTS, SGD, DROPOUT, DROPBLOCK, PRIVATE = "first weights", "SGD", "SGD+Dropout", "SGD+DropBlock", "P3SGD"

PRINTED = {
    SGD: (99.85, 92.25, 7.60),
    DROPOUT: (99.63, 92.12, 7.51),
    DROPBLOCK: (98.85, 94.87, 3.68),
    PRIVATE: (95.70, 95.23, 0.47),
}
"""ResNet-18, training accuracy, testing accuracy and gap in percent: Table 1, and Table 3 for DropBlock."""
SETS = {
    (3.0, 1.0): (95.23, 6.97),
    (2.0, 1.0): (94.31, 7.10),
    (3.0, 2.0): (93.57, 4.97),
    (1.0,): (94.38, 8.48),
    (2.0,): (93.24, 5.13),
    (3.0,): (92.15, 4.70),
}
"""Table 2, in its order: testing accuracy in percent and epsilon by the set of noise scales."""
_UNRUN = {
    "AlexNet": (60.9, 99.87, 91.58, 8.29, 98.97, 93.13, 5.84, 96.85, 92.74, 4.11),
    "VGG-16": (14.7, 99.81, 92.19, 7.81, 99.28, 94.32, 4.96, 96.23, 93.87, 2.36),
    "ResNet-34": (21.3, 99.23, 93.19, 6.04, 99.16, 93.22, 5.94, 95.80, 95.34, 0.46),
    "MobileNet": (3.2, 98.73, 92.01, 6.72, 98.65, 91.61, 7.04, 94.79, 94.13, 0.66),
    "MobileNet v2": (2.3, 98.52, 93.24, 5.28, 98.37, 93.28, 5.09, 95.32, 94.86, 0.46),
}
OMISSIONS = (
    *(
        Omission(
            f"Table 1, {name}: millions of parameters; training, testing, gap of SGD, of SGD+Dropout, of P3SGD",
            numbers,
            "the glomeruli are not public, and no network of that size is trained here on other people's images",
        )
        for name, numbers in _UNRUN.items()
    ),
    Omission("Table 1, ResNet-18: millions of parameters", (11.2,), "our networks are smaller: column parameters"),
)
"""What of the paper's tables is not compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Data, a network, and how SGD and P3SGD train it."""

    name: str
    dataset: str
    people: int
    """In the training set, which P3SGD takes as public."""
    network: Network
    plain: Plain
    private: P3SGD
    clip_norm: float
    features: Literal["pixels", "spots"] = "pixels"
    steps: int = 100
    max_physical: int = 16

    def strategies(self) -> dict[str, Strategy]:
        """The paper's Tables 1 and 3, those of them that the network can have."""
        found: dict[str, Strategy] = {SGD: self.plain, DROPOUT: replace(self.plain, regulariser=Dropout())}
        if self.network.width:
            found[DROPBLOCK] = replace(self.plain, regulariser=DropBlock())
        return found | {PRIVATE: self.privately(PAPER_SCALES)}

    def privately(self, scales: tuple[float, ...]) -> Private:
        """P3SGD with these noise scales, the paper's sample rate and δ = 1/N^1.1; the budget never halts it."""
        sampling = Sampling(sample_rate=0.1, steps=self.steps, clip_norm=self.clip_norm, max_physical=self.max_physical)
        method = replace(self.private, noise_scales=scales, selection_epsilon=0.1**0.5)
        return Private(method=method, sampling=sampling, budget=Budget(epsilon=50.0, delta=self.people**-1.1))

    def job(self, strategy: str, how: Strategy, *, seed: int, records: int = 20, attack: Attack | None = None) -> Job:
        """One run of one strategy, with as many records as Figure 2's curves have points: the tables share its runs."""
        data: dict[str, Any] = {"dataset": self.dataset, "features": self.features, "network": self.network}
        config = Training(strategy=how, attack=attack, records=records, seed=seed, **data)
        slug = f"{self.name}-{strategy}".lower().replace(", ", "-").replace(" ", "-").replace("+", "-")
        scales = how.method.noise_scales if isinstance(how, Private) and isinstance(how.method, P3SGD) else None
        tags = {"problem": self.name, "strategy": strategy, "seed": seed, "noise_scales": scales and scale_name(scales)}
        return Job(key=f"{slug}-{seed}-{digest(config)}", kind=TRAINING, config=config, tags=tags)


def scale_name(scales: tuple[float, ...]) -> str:
    """As the paper's Table 2 writes a set."""
    return "{" + ", ".join(f"{z:g}" for z in scales) + "}"


_DIGITS: dict[str, Any] = {
    "dataset": "digits",
    "people": PEOPLE["digits"],
    "plain": Plain(epochs=1, batch_size=32),
    "steps": 8,
}
SMOKE = (
    Problem(name="digits, conv", network=Network(width=4), private=P3SGD(learning_rate=0.2), clip_norm=0.5, **_DIGITS),
    Problem(name="digits, linear", network=Network(), private=P3SGD(learning_rate=0.5), clip_norm=1.0, **_DIGITS),
)
CPU = (
    Problem(
        **{"name": "malaria, linear on spots", "dataset": "malaria", "people": PEOPLE["malaria"], "features": "spots"},
        **{"network": Network(), "plain": Plain(epochs=20), "clip_norm": 1.0, "max_physical": 32},
        private=P3SGD(learning_rate=3.0, local_batch_size=32),
    ),
    Problem(
        **{
            "name": "malaria, conv",
            "dataset": "malaria",
            "people": PEOPLE["malaria"],
            "network": Network(width=8, hidden=64),
        },
        **{"plain": Plain(epochs=20, learning_rate=0.03, batch_size=64), "clip_norm": 0.5, "max_physical": 8},
        private=P3SGD(learning_rate=0.3, local_batch_size=32),
    ),
    Problem(
        **{
            "name": "MNIST writers, conv",
            "dataset": "mnist-writers",
            "people": PEOPLE["mnist-writers"],
            "network": Network(width=8),
        },
        **{"plain": Plain(epochs=10), "clip_norm": 0.5},
        private=P3SGD(learning_rate=0.1, local_batch_size=32),
    ),
    Problem(
        **{"name": "X-rays, conv", "dataset": "xrays", "people": PEOPLE["xrays"], "network": Network(width=8)},
        **{"plain": Plain(epochs=20), "clip_norm": 2.0, "max_physical": 64},
        private=P3SGD(learning_rate=1.0, local_batch_size=4),
    ),
)


def problems(scale: Scale) -> tuple[Problem, ...]:
    """Two on embedded digits with made-up persons; three data sets with their people; at ``paper`` those with its C_u =
    5, a network as wide as a GPU is worth, and more passes of SGD."""
    if scale != "paper":
        return SMOKE if scale == "smoke" else CPU
    found = []
    for one in CPU:
        network = Network(width=64, hidden=256) if one.network.width else one.network
        found.append(replace(one, network=network, clip_norm=5.0, plain=replace(one.plain, epochs=100)))
    return tuple(found)


def seeds(scale: Scale, seed: int, *, of: int = 3) -> range:
    """Runs of each kind: the paper does not say how many it made. ``of`` is how many at scale cpu."""
    return range(seed, seed + {"smoke": 1, "cpu": of}.get(scale, 3))
