"""Zhang et al. (2017), Understanding deep learning requires rethinking generalization, in wider form: four algorithms
at increasing corruption of the labels.

Random labels are uniform over the classes in training and test set alike. With K classes and a share of the labels
random no classifier's true error is below share · (1 - 1/K), and none that guesses does worse on average than 1 - 1/K;
between the two lies what an algorithm has learnt, below them what it has memorised.

A private run here is one of :mod:`pacdp.cli.private` with labels drawn anew as :class:`pacdp.Problem` does it. Its
bound is R(w) ≤ kl⁻¹(R̂(w), Λ/n) ("Bounds by the general transfer" in docs/guarantees.md): Λ is the price of the privacy
that was accounted for step by step, and nothing is assumed of convergence. Noise from a seed serves the bound, which
needs it independent of the examples and not unknown.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import polars as pl
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch.utils.data import TensorDataset

import bounds
from experiments import job_costs
from experiments.claims import Claim, Measured, Point, by_seeds, judging, point, rises, say
from experiments.figures import chains as figures
from experiments.papers import gaps
from experiments.papers.chains import BOUNDS, SMALL, Line, Size, chain, final, mnist, network_name, records, smoke
from experiments.papers.gaps import HARMLESS, UNFINISHED, VACUOUS, gap, noise_of, tested
from experiments.study import Done, Row, Study, columns, drawing, tabled
from pacdp import Architecture, GibbsSettings, Problem, loop
from pacdp.certify.networks import error_share
from pacdp.cli.config import Runtime
from pacdp.cli.figures.names import CHAIN_BOUNDS
from pacdp.cli.figures.numbers import down, up, up_digits
from pacdp.cli.private.algorithms import Predict, Public, algorithm, network, predictor
from pacdp.cli.private.config import Budget, PrivateConfig, Sampling
from pacdp.cli.private.methods import METHODS
from pacdp.cli.recipes import Scale
from pacdp.cli.serial import digest, to_dict
from pacdp.cli.sweep.jobs import Job, single
from pacdp.cli.sweep.kinds import sampler_job
from pacdp.data import Dataset
from pacdp.step import accountant
from pacdp.step import event as events
from pacdp.step.noise import SeededRandomness

_BATCH = 1000
SHARE = 0.1
"""Of SGD's gap on the largest share of random labels: what a network may have that does not fit them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Corrupted:
    """A private run on labels of which a share is random."""

    training: PrivateConfig
    """With ``reproducible`` noise, so that the run can be repeated."""
    random_labels: float = 0.0
    """Share of the examples, in training and test set, whose labels are drawn anew."""
    train_size: int = 0
    """Examples to learn from, a seeded subset; 0 takes all."""
    seed: int = 0
    """Of labels and subset; the training's own seed draws weights, batches and noise."""
    failure_prob: float = 0.05

    def __post_init__(self) -> None:
        if not self.training.reproducible:
            raise ValueError("expected training with reproducible=True: a study's runs are repeated from their seed")
        if not 0 < self.failure_prob < 1:
            raise ValueError(f"expected 0 < failure_prob < 1, got {self.failure_prob}")
        self.problem  # noqa: B018 - its numbers are checked there

    @property
    def problem(self) -> Problem:
        """The examples and their labels."""
        return Problem(dataset=self.training.dataset, train_size=self.train_size, split_seed=self.seed,
                       random_labels=self.random_labels, label_seed=self.seed)  # fmt: skip


def train_corrupted(config: Corrupted, runtime: Runtime, folder: Path) -> dict[str, Any]:
    """Train, count errors on both sets, account, bound.

    Formal guarantee: the true error of what was trained is at most ``bound`` with probability at least
    1 - failure_prob over examples, labels and mechanism; errors are exact counts.

    Raises:
        DataError: the data cannot be found.
        Diverged: a weight is not finite.
    """
    train, test = config.problem.data(root=runtime.data_root)
    given, budget = config.training, config.training.budget
    public = Public(input_shape=train.inputs.shape[1:], classes=train.classes, size=float(train.n))
    module = network(given, public, device=runtime.device)
    trained = loop.train(
        algorithm(given, public), module, TensorDataset(torch.tensor(train.inputs), torch.tensor(train.labels)),
        loss=_loss, randomness=SeededRandomness(given.seed), checkpoint=folder / "checkpoint.safetensors",
        checkpoint_every=max(1, given.sampling.steps // given.records),
        about={"data": {"train": train.hash, "test": test.hash}, "run": to_dict(config)},
    )  # fmt: skip
    predict = predictor(given, module, trained)
    errors, wrong = _errors(predict, train), _errors(predict, test)
    spent = accountant.privacy_spent(trained.event, delta=budget.delta, adjacency=budget.adjacency)
    claim = accountant.privacy_claim(trained.event, adjacency="add-remove")
    bound = bounds.private_kl_chernoff(
        risk=error_share(errors, train.n), n=train.n, privacy=claim, failure_prob=config.failure_prob
    )
    return {
        "format": "pacdp-corrupted-result/1", "algorithm": given.algorithm, "n": train.n, "n_test": test.n,
        "steps": events.steps_of(trained.event), "halted": trained.halted, "train_error": errors / train.n,
        "test_error": wrong / test.n, "epsilon": spent.epsilon, "delta": budget.delta,
        "adjacency": budget.adjacency, "bound": {"name": bound.name, "value": bound.value, "status": bound.status},
    }  # fmt: skip


def _loss(outputs: Tensor, targets: Tensor) -> Tensor:
    return cross_entropy(outputs, targets, reduction="none")


@torch.no_grad()
def _errors(predict: Predict, data: Dataset) -> int:
    """A tie for the largest probability is an error."""
    count = 0
    for start in range(0, data.n, _BATCH):
        probabilities = predict(torch.tensor(data.inputs[start : start + _BATCH])).cpu()
        labels = torch.tensor(data.labels[start : start + _BATCH])[:, None]
        own = probabilities.gather(1, labels)
        count += int((~(probabilities.scatter(1, labels, -1.0) < own).all(1)).sum())
    return count


CORRUPTED = single(train_corrupted)
"""The kind of these runs."""


SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)
PRIVATE = ("Entropy-SGLD", "DP-SGD", "DP-SGLD")
ACCOUNTED = "private_kl_chernoff"
_EFFORT = GibbsSettings(epochs=2.0, prior_draws=5, test_draws=5)
SETTINGS: dict[Scale, tuple[Size, Architecture, Sampling, Budget]] = {
    "smoke": (smoke("digits2"), SMALL, Sampling(sample_rate=0.1, steps=6), Budget(epsilon=4.0, delta=1e-4)),
    "cpu": (
        Size("mnist2", 100.0, 4, _EFFORT, train_size=20_000),
        *(Architecture(hidden=(100,)), Sampling(sample_rate=0.02, steps=500), Budget(epsilon=1.0)),
    ),
    "paper": (
        mnist("mnist2"),
        *(Architecture(name="conv"), Sampling(sample_rate=0.02, steps=2000), Budget(epsilon=1.0)),
    ),
}


def jobs(scale: Scale, seed: int) -> list[Job]:
    """SGD, Entropy-SGLD at tau = sqrt(n), DP-SGD and DP-SGLD at every share of random labels."""
    size, network, sampling, budget = SETTINGS[scale]
    shares, found = SHARES[::2] if scale == "smoke" else SHARES, []
    for name in ("sgd", "entropy-sgld"):
        for share in shares:
            one = chain(name, size, scale=scale, network=network, seed=seed, random_labels=share)
            tags = {"algorithm": one.algorithm, "network": network_name(network), "random_share": share}
            found.append(sampler_job(one, **tags))
    for name in ("dp-sgd", "dp-sgld"):
        for share in shares:
            training = PrivateConfig(
                **{"dataset": size.dataset, "architecture": network.name, "hidden": network.hidden},
                **{"method": METHODS[name], "sampling": sampling, "budget": budget},
                **{"seed": seed, "reproducible": True, "records": 4},
            )
            one = Corrupted(training=training, random_labels=share, train_size=size.train_size, seed=seed)
            tags = {"algorithm": training.algorithm, "network": network_name(network), "random_share": share}
            found.append(Job(key=f"{name}-{share:g}-{digest(one)}", kind=CORRUPTED, config=one, tags=tags))
    return found


COLUMNS = columns(
    *((pl.String, "algorithm network"), (pl.Float64, "random_share least_error"), (pl.String, "run")),
    *((pl.Int64, "step n n_test"), (pl.Float64, "train_error test_error gibbs_train_error gibbs_test_error kl_nats")),
    *((pl.Float64, "epsilon delta"), (pl.String, "privacy"), (pl.Float64, f"{' '.join(BOUNDS)} {ACCOUNTED}")),
)


def rows(done: Done) -> Iterator[Row]:
    """One row a record; private runs have one, at their end.

    Epsilon is of two kinds, which ``privacy`` tells apart: accounted for step by step (DP-SGD, DP-SGLD; delta > 0,
    add-remove), or of the target that Entropy-SGLD is assumed to have reached (delta 0, replace-one).
    """
    classes = 2 if done.job.config.problem.dataset.endswith("2") else 10
    own = {"run": done.job.key, "least_error": done.tags["random_share"] * (1.0 - 1.0 / classes), **done.tags}
    if isinstance(done.job.config, Corrupted):
        row = done.result
        bound = {ACCOUNTED: row["bound"]["value"], "privacy": "accounted, add-remove", "step": row["steps"]}
        yield {**row, **own, **bound}
        return
    for row in records(done):
        assumed = row.get("epsilon") is not None
        kind = {"privacy": "assumes stationarity, replace-one", "delta": 0.0} if assumed else {"privacy": "none"}
        yield {**row, **own, **kind}


def claims(table: pl.DataFrame, scale: Scale) -> Iterator[Claim]:
    """Claims of Zhang et al. for SGD, of Dziugaite and Roy for private learning."""
    found = _by_share(table)
    sgd = [row for row in found if row["algorithm"] == "SGD"]
    noisy = [row for row in sgd if row["least_error"] > 0]
    yield _told(
        "SGD memorises random labels: at every share of them its training error is less than half of the least error "
        "that any classifier can have.",
        *(all(row["train_error"] < 0.5 * row["least_error"] for row in noisy), noisy),
    )
    steadily = rises([gap(row) for row in sgd], [noise_of(row) for row in sgd])
    grows = "SGD's generalization error grows steadily with the share of random labels."
    yield _told(grows, steadily, sgd if len(sgd) > 1 else [])
    for name in PRIVATE:
        own = [row for row in found if row["algorithm"] == name]
        harmless = (
            f"{name} does not fit random labels: at every share its gap is below a tenth of what SGD's is at the "
            "largest, beyond chance."
        )
        most = SHARE * gap(sgd[-1]) if sgd else HARMLESS
        seen = gaps.gaps_claim(harmless, own, among=found, chance=SETTINGS[scale][0].guessing, most=most)
        left = (Measured(most - gap(row), noise_of(row)) for row in own)
        yield replace(_told(harmless, seen.holds, own), settled_by=by_seeds(*left))
    for name in PRIVATE:
        true = [row for row in found if row["algorithm"] == name and row["random_share"] == 0]
        least = {bound: value for bound, value, _ in _bounds(true)}
        best = min(least, key=lambda bound: least[bound], default="")
        chance = "below 1/2, the error of guessing between two classes"
        seen = (least[best] < 0.5, f"{CHAIN_BOUNDS[best]} bound {up(least[best])}") if least else (None, UNFINISHED)
        yield Claim(f"On true labels the smallest bound of {name} is {chance}.", *seen)
    yield _honest(found)


def _by_share(table: pl.DataFrame) -> list[Row]:
    return final(table).sort("random_share", maintain_order=True).to_dicts()


def _bounds(rows: Sequence[Line]) -> list[tuple[str, float, Line]]:
    return [(name, row[name], row) for row in rows for name in (*BOUNDS, ACCOUNTED) if row[name] is not None]


def _told(sentence: str, holds: bool | None, rows: Sequence[Line]) -> Claim:
    if not rows:
        return Claim(sentence, None, UNFINISHED)
    shown = ((row["random_share"], row["train_error"], row["test_error"]) for row in rows)
    told = "; ".join(f"share {share:g}: train {train:.3f}, test {test:.3f}" for share, train, test in shown)
    return Claim(sentence, holds, told)


def _honest(rows: list[Row]) -> Claim:
    sentence = "No bound lies below the least error that any classifier can have on such labels."
    margins = [(value, value - row["least_error"]) for _, value, row in _bounds(rows)]
    if not margins:
        return Claim(sentence, None, UNFINISHED)
    able = [margin for value, margin in margins if value < VACUOUS]
    under = sum(margin < 0 for margin in able)
    least = f"; the smallest margin is {down(min(able))}" if able else ""
    told = f"{under} of {len(able)} bounds below {VACUOUS:g} do{least}; {len(margins) - len(able)} more are vacuous"
    return Claim(sentence, under == 0 if able else None, f"{told} and cannot")


def points(table: pl.DataFrame, scale: Scale, claims: Sequence[Claim]) -> Iterator[Point]:
    """Who memorises, at the largest share of random labels."""
    worst = {name: row for row in _by_share(table) for name in [row["algorithm"]]}
    sgd = worst.get("SGD")
    said = "SGD memorises labels that are all random: training error {train:.3f}, test error {test:.3f}"
    numbers = {name: sgd and sgd[f"{name}_error"] for name in ("train", "test")}
    yield point(claims, "SGD memorises random labels", say(said, **numbers))
    gaps_of = {name.replace("-", ""): gap(worst[name]) if name in worst else None for name in PRIVATE}
    said = "Entropy-SGLD does not fit random labels: test minus training error {gap:.3f}; it has learnt some: {learnt}"
    true = [row for row in _by_share(table) if row["algorithm"] == "Entropy-SGLD" and row["random_share"] == 0]
    learnt = gaps.learnt_share(true, SETTINGS[scale][0].guessing) or None
    yield point(claims, "Entropy-SGLD does not fit", say(said, gap=gaps_of["EntropySGLD"], learnt=learnt))
    said = "DP-SGD and DP-SGLD do not fit random labels: test minus training error {DPSGD:.3f} and {DPSGLD:.3f}"
    words = [f"{name} does not fit" for name in ("DP-SGD", "DP-SGLD")]
    yield point(claims, words, say(said, **gaps_of))


def notes(table: pl.DataFrame, scale: Scale) -> Iterator[str]:
    """What the epsilons are, how much was learnt, what was cut, and which bounds lie below a test error."""
    found, size = _by_share(table), SETTINGS[scale][0]
    spent = {name: {up_digits(row["epsilon"], 4) for row in found if row["algorithm"] == name} for name in PRIVATE}
    told = "; ".join(f"{name} {', '.join(sorted(values))}" for name, values in spent.items() if values)
    deltas = ", ".join(f"{delta:g}" for delta in sorted({row["delta"] for row in found if row["delta"]}))
    at = f" at delta {deltas}" if deltas else ""
    yield (
        f"{gaps.CONVERGENCE} That goes for Entropy-SGLD; the bounds of DP-SGD and DP-SGLD are accounted for, and "
        "assume nothing."
    )
    yield "The labels of the test set are as random as those of the training set, so that both have one law."
    yield (
        f"Epsilon by algorithm: {told}. Those of DP-SGD and DP-SGLD are for add-remove neighbours{at}; "
        "Entropy-SGLD's is pure, for replace-one neighbours, and assumes that its target was reached."
    )
    yield (
        "Zhang et al. corrupt CIFAR-10 and ImageNet, with larger networks and many epochs; nothing here repeats their "
        "numbers."
    )
    yield from gaps.learning_notes([row for row in found if row["random_share"] == 0], size.guessing)
    if scale != "paper":
        part = f"{size.train_size} examples of {size.dataset}" if size.train_size else size.dataset
        yield f"Scale {scale}: {part}, {size.epochs:g} epochs, a small fully connected network, one seed."
    for name, value, row in _bounds(found):
        test = row[tested(name)]
        if test is not None and value < test:
            where = f"{row['algorithm']}, {row['random_share']:g} of the labels random"
            yield f"Bound below a test error: {CHAIN_BOUNDS[name]} {value:.4f} < {test:.4f} ({where})."


CORRUPTION = Study(
    name="random-labels-corruption",
    title="Memorising random labels: four algorithms at increasing corruption",
    paper="Zhang et al. 2017, Understanding deep learning requires rethinking generalization, in wider form",
    jobs=jobs,
    table=tabled(rows, COLUMNS),
    draw=drawing(figure=figures.by_share),
    judge=judging(claims=claims, notes=notes, points=points, settled_by=job_costs.by_seeds(jobs)),
)
STUDIES = (CORRUPTION,)
