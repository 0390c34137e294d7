"""What the studies of P3SGD's tables and figures share: a row a run, notes, and the guard of a network."""

import math
from collections.abc import Iterator

import polars as pl

from experiments.papers.p3sgd_pairs import GUARDED, Guard
from experiments.papers.p3sgd_problems import PRIVATE
from experiments.study import Done, Row, columns
from experiments.tables import by_key, ordered, part
from pacdp.cli.recipes import Scale

PAPER = "Wu, Zhao, Sun, Zhang, Su, Zeng and Liu 2019, P3SGD"
WHY = "malaria cells, MNIST digits or X-rays for glomeruli; a small network for a pre-trained ResNet-18"
RUN = columns(
    *((pl.String, "problem strategy"), (pl.Int64, "seed"), (pl.String, "noise_scales"), (pl.Int64, "people")),
    *((pl.String, "unit"), (pl.Int64, "parameters"), (pl.Float64, "majority train_accuracy test_accuracy gap")),
    *((pl.Float64, "train_loss test_loss epsilon published_epsilon delta"), (pl.Int64, "steps")),
    *((pl.Boolean, "halted"), (pl.Float64, "quietest_chosen noise_to_signal"), (pl.Int64, "n n_test")),
)
"""A row a run: accuracies and gap in percent, losses in nats, epsilon (the upper end) of add-remove neighbours."""


def by_run(done: Done) -> Iterator[Row]:
    """A row a run; of the paper's settings one without accuracies."""
    result = done.result
    own = {**result, **(result["privacy"] or {}), **done.tags}
    if "final" in result:
        final = result["final"]
        train, test = percent(final["train_error"]), percent(final["test_error"])
        own |= {**final, "train_accuracy": train, "test_accuracy": test, "gap": train - test}
        own |= {"majority": 100.0 * result["majority"], "steps": (result["privacy"] or {}).get("steps")}
    yield own


def percent(error: float) -> float:
    """An accuracy."""
    return 100.0 * (1.0 - error)


def notes(table: pl.DataFrame, scale: Scale) -> Iterator[str]:
    """What every study of this paper has."""
    ratio = math.sqrt(11.2e6) / (0.1 * 1000)  # weights of ResNet-18 in Table 1; ratio and patients of Sections 4.1, 4.2
    if scale == "smoke":
        yield "The data are 8x8 digits, twelve consecutive ones counted as one made-up person: they stand for nothing."
    else:
        yield (
            "The paper's glomeruli (1216 patients, collected by its authors) are not public. Here: malaria cells by "
            "patient (161 train), MNIST by writer (539), X-rays of children by patient (3654), none on both sides of a "
            "split."
        )
    yield (
        "The paper pre-trains ResNet-18 on public pathology images and augments by flips and colour jitter. Here small "
        "networks (a linear layer on fixed spot features, or two convolutions) start from random or zero weights, "
        "without augmentation; private steps have no weight decay."
    )
    yield (
        f"At the paper's settings the noise of one step, z C √d/(q N) with d = 11.2 million weights, is {ratio:.0f} z "
        "times as long as the longest update that clipping allows; how its network learnt under it is not said."
    )
    yield (
        "P3SGD is the corrected one of docs/private.md: public divisor, all candidates charged, losses of the choice "
        "clipped by patient. Learning rates and clip norms were tried on these data, which is counted in no epsilon; "
        "batches and noise come from the seed, as for public data only."
    )
    yield GUARDED
    yield "X-rays are 64x64 pixels; features of a pre-trained network would be another start, and are not used here."
    if scale == "cpu":
        yield (
            f"{_seeds(table)}, ten to twenty passes of SGD. More than three where three had left a sentence open that "
            "a number of seeds within reach would decide. Testing accuracies are compared in pairs of runs of one "
            "seed, which share their split of the people: differences within two standard errors of the pairs decide "
            "nothing. Of the X-rays all seeds have the one official test set."
        )
        yield (
            "The X-rays' official test set has another mix of classes than their training set: a gap there is more "
            "than overfitting."
        )


def _seeds(table: pl.DataFrame) -> str:
    """How many seeds each problem has, for the beginning of a sentence."""
    told = []
    for problem in ordered(table, "problem"):
        rows = part(table, problem=problem)
        counts = {name: part(rows, strategy=name)["seed"].n_unique() for name in ordered(rows, "strategy")}
        most = max(counts.values())
        those = [name for name, count in counts.items() if count == most]
        if most > 3:
            told.append(f"{problem}: {most}" + (f" of {' and '.join(those)}" if len(those) < len(counts) else ""))
    return "Three seeds of each problem" + (f" ({', '.join(told)})" if told else "")


def guard(table: pl.DataFrame, problem: str, strategy: str = PRIVATE, scales: str | None = None) -> Guard:
    """The guard of a strategy's networks, or those of P3SGD with a set of noise scales."""
    own = {"strategy": strategy} | ({"noise_scales": scales} if scales else {})
    found = (by_key(table, name, by="seed", problem=problem, **own) for name in ("test_accuracy", "majority"))
    return Guard.of(scales or strategy, *found)


def nothing_learnt(table: pl.DataFrame) -> Iterator[str]:
    """A sentence for each problem on which P3SGD is no better than naming the most frequent class."""
    for problem in ordered(table, "problem"):
        found = guard(table, problem)
        if found.over is not None and found.over.mean <= (found.over.noise or 0.0):
            yield (
                f"{problem}: P3SGD has learnt nothing ({found.told()}); its small gap, flat loss or low ratio is that "
                "of a useless network."
            )
