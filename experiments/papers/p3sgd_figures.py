"""P3SGD (Wu et al. 2019): Figure 2, loss on training and test data along the run; Figure 3, model inversion of networks
trained by SGD and by P3SGD, and of their first weights as a control."""

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import polars as pl

from experiments.claims import Claim, Comparison, Measured, above, by_seeds, decide, judging
from experiments.figures import p3sgd as figures
from experiments.papers.p3sgd_common import PAPER, WHY, notes, percent
from experiments.papers.p3sgd_pairs import Guard, guarded, higher
from experiments.papers.p3sgd_problems import FIRST_WEIGHTS, PRIVATE, SGD, problems, seeds
from experiments.papers.p3sgd_settled import NO_GAP, REDUCES, RISES, asked, settled_by
from experiments.papers.runs.p3sgd import Attack
from experiments.study import Done, Row, Study, columns, drawing, tabled
from experiments.tables import by_key, mean, measured, ordered, part, shown
from pacdp.cli.recipes import Scale
from pacdp.cli.sweep.jobs import Job

EXCESS = 0.05
"""Of the test loss over the training loss in nats, from which on SGD is said to overfit."""
PRINTED = {SGD: 27.84, PRIVATE: 27.82}
"""Mean PSNR over all training images, in decibels (Section 4.4)."""
STRATEGIES = (FIRST_WEIGHTS, SGD, PRIVATE)
EXAMPLES: dict[Scale, Attack] = {
    "smoke": Attack(images=2, pictures=2, feature_steps=10, class_steps=10),
    "cpu": Attack(images=64),
    "paper": Attack(images=1024),
}
CURVE = columns(
    *((pl.String, "problem strategy"), (pl.Int64, "seed")),
    (pl.Float64, "epochs train_loss test_loss train_error test_error"),
)
INVERSION = columns(
    *((pl.String, "problem strategy"), (pl.Int64, "seed"), (pl.String, "attack part reference")),
    *((pl.Int64, "label example"), (pl.Float64, "psnr start_psnr test_accuracy"), (pl.Int64, "height width")),
    (pl.String, "original made"),
)


def jobs_2(scale: Scale, seed: int) -> list[Job]:
    """Every problem by SGD and P3SGD, twenty records each."""
    return [
        problem.job(strategy, problem.strategies()[strategy], seed=s)
        for problem in problems(scale)
        for strategy in (SGD, PRIVATE)
        for s in seeds(scale, seed)
    ]


def by_record(done: Done) -> Iterator[Row]:
    """A row a record along a run."""
    return ({**row, **done.tags} for row in done.result["curve"])


def last(table: pl.DataFrame) -> pl.DataFrame:
    """The last record of each run, with the smallest test loss on the way and the difference of the two losses."""
    ends = (
        table.sort("epochs")
        .group_by("problem", "strategy", "seed", maintain_order=True)
        .agg(
            pl.col("train_loss", "test_loss", "test_error").last(),
            best_test_loss=pl.col("test_loss").min(),
            first_test_loss=pl.col("test_loss").first(),
            first_test_error=pl.col("test_error").first(),
        )
    )
    return ends.with_columns(loss_gap=pl.col("test_loss") - pl.col("train_loss"))


def numbers_2(table: pl.DataFrame, scale: Scale) -> Iterator[Comparison]:
    """The figure has no printed numbers: ours alone."""
    ends = last(table)
    for problem in ordered(table, "problem"):
        for strategy in (SGD, PRIVATE):
            for name in ("train_loss", "test_loss"):
                what = f"{problem}, {strategy}: {name.replace('_', ' ')} at the end, nats"
                yield Comparison(what, None, mean(ends, name, problem=problem, strategy=strategy), WHY)


def claims_2(table: pl.DataFrame, scale: Scale) -> Iterator[Claim]:
    """Whether the test loss parts from the training loss, and for whom."""
    ends = last(table)

    def seen(problem: str, strategy: str, name: str) -> Measured | None:
        found = measured(ends, name, problem=problem, strategy=strategy)
        return found and found._replace(noise=found.noise or 0.0)  # one seed is taken at its word

    for problem in ordered(table, "problem"):
        gap, sgd_gap = (seen(problem, name, "loss_gap") for name in (PRIVATE, SGD))
        test, sgd = (seen(problem, name, "test_loss") for name in (PRIVATE, SGD))
        best = seen(problem, SGD, "best_test_loss")
        runs = part(ends, problem=problem, strategy=SGD).iter_rows(named=True)
        excess = Measured.of([row["test_loss"] - 1.1 * row["best_test_loss"] for row in runs])
        within = sgd and sgd._replace(noise=math.hypot(sgd.noise or 0.0, 0.1 * sgd.mean))
        guard, wide = _untrained(ends, problem), sgd_gap is not None and sgd_gap.mean > EXCESS
        left = sgd_gap.scaled(0.5).minus(gap) if sgd_gap and gap else None
        shown_gaps = f"{_nats(gap)} nats against {_nats(sgd_gap)}"
        holds, told = guarded(left.above(0.0) if left and wide else None, shown_gaps, guard)
        yield Claim(
            f"{asked(problem, REDUCES.here)} (caption of Figure 2; here: its test loss exceeds its training loss by "
            f"less than half of SGD's excess; left open where that is below {EXCESS:g} nats)",
            holds, told, by_seeds(left) if wide else NO_GAP,
        )  # fmt: skip
        holds, told = guarded(higher(within, test), f"{_nats(test)} nats against {_nats(sgd)}", guard)
        yield Claim(
            f"{problem}: P3SGD ends with a lower test loss than SGD (our reading of Figure 2, whose curves are not in "
            "the text; left open within a tenth)",
            holds, told,
        )  # fmt: skip
        yield Claim(
            f"{asked(problem, RISES.here)} (Section 4.2: it obviously overfits; the tenth is ours)",
            None if excess is None else excess.above(0.0),
            f"lowest {_nats(best)}, at the end {_nats(sgd)} nats",
            by_seeds(excess),
        )


def _untrained(ends: pl.DataFrame, problem: str) -> Guard:
    """The table has no share of the most frequent class: an untrained network guesses too."""
    mine = part(ends, problem=problem, strategy=PRIVATE)
    accuracy, guess = (
        {seed: percent(error) for seed, error in by_key(mine, name, by="seed").items()}
        for name in ("test_error", "first_test_error")
    )
    return Guard.of(PRIVATE, accuracy, guess, by="an untrained network")


def _nats(found: Measured | None) -> str:
    return shown(found and found.mean)


def notes_2(table: pl.DataFrame, scale: Scale) -> Iterator[str]:
    """What the losses are, and where P3SGD's rises."""
    yield from notes(table, scale)
    yield (
        "The figure has no printed numbers, and its curves are not in the text at hand. Losses are mean "
        "cross-entropies in nats of the whole training and test set, dropout off; P3SGD's were computed on the data "
        "without noise, which no epsilon covers."
    )
    yield "The table has no share of the most frequent class; guessing is what P3SGD's untrained network does."
    ends = part(last(table), strategy=PRIVATE)
    for problem in ordered(ends, "problem"):
        end, first = (mean(ends, name, problem=problem) for name in ("test_loss", "first_test_loss"))
        if end is not None and first is not None and end >= first:
            higher_one = f"P3SGD ends with a higher test loss ({shown(end)} nats) than its first weights had"
            yield f"{problem}: {higher_one} ({shown(first)})."


_SEEDS_3 = {"X-rays, conv": 8}
"""Of Figure 3 at scale cpu: with three, SGD's excess on training images was within two standard errors of 1 dB."""


def jobs_3(scale: Scale, seed: int) -> list[Job]:
    """Convolutional networks, attacked when they are trained, and attacked untrained."""
    found = []
    for problem in (one for one in problems(scale) if one.network.width):
        how = {FIRST_WEIGHTS: replace(problem.plain, epochs=0), **problem.strategies()}
        for name in STRATEGIES:
            for s in seeds(scale, seed, of=_SEEDS_3.get(problem.name, 3)):
                found.append(problem.job(name, how[name], seed=s, records=2, attack=EXAMPLES[scale]))
    return found


def by_image(done: Done) -> Iterator[Row]:
    """A row an attacked image, and two a class."""
    result = done.result
    accuracy = {"test_accuracy": percent(result["final"]["test_error"])}
    return ({**accuracy, **row, **done.tags} for row in result["inversion"])


def inverted(jobs: Any, folder: Any) -> pl.DataFrame:
    """Pictures are those of the first seed."""
    table = tabled(by_image, INVERSION)(jobs, folder)
    first = min((int(job.tags["seed"]) for job in jobs), default=0)
    kept = pl.when(pl.col("seed") == first)
    return table.with_columns(kept.then(pl.col(name)).alias(name) for name in ("original", "made"))


def _psnr(table: pl.DataFrame, problem: str, strategy: str, side: str, name: str = "psnr") -> float | None:
    return mean(table, name, problem=problem, strategy=strategy, attack="features", part=side)


def numbers_3(table: pl.DataFrame, scale: Scale) -> Iterator[Comparison]:
    """Mean ratios, of images and of classes."""
    for problem in ordered(table, "problem"):
        for strategy in STRATEGIES:
            for side in ("train", "test"):
                what = f"{problem}, {strategy}: mean PSNR of {side} images from their features, dB"
                printed = PRINTED.get(strategy) if side == "train" else None
                yield Comparison(what, printed, _psnr(table, problem, strategy, side), WHY)
        for strategy in STRATEGIES:
            for reference in ("class mean", "closest image"):
                what = f"{problem}, {strategy}: mean PSNR of classes from the weights, against the {reference}, dB"
                ours = mean(table, "psnr", problem=problem, strategy=strategy, reference=reference)
                yield Comparison(what, None, ours, "not in the paper")


def claims_3(table: pl.DataFrame, scale: Scale) -> Iterator[Claim]:
    """Which network gives more away, and whether that has to do with training on the image at all."""
    for problem in ordered(table, "problem"):
        train, test = ({name: _psnr(table, problem, name, side) for name in STRATEGIES} for side in ("train", "test"))
        images, classes = {"attack": "features", "part": "train"}, {"reference": "class mean"}
        means = {n: mean(table, "psnr", problem=problem, strategy=n, **classes) for n in STRATEGIES}
        start = mean(table, "start_psnr", problem=problem, strategy=SGD, **classes)
        guard = _guessing(table, problem)
        holds, told = guarded(*_paired(table, problem, SGD, PRIVATE, **images), guard)
        yield Claim(
            f"{problem}: training images are reconstructed worse from P3SGD's features than from SGD's (Section 4.4: "
            "27.82 against 27.84 dB; here: by more than two standard errors)",
            holds,
            f"{', '.join(f'{n} {shown(train[n], 2)}' for n in STRATEGIES)} dB{told}",
        )
        excess, noise = _excess(table, problem)
        yield Claim(
            f"{problem}: SGD's features give training images away more than test images (Section 4.4: it is hard to "
            "reconstruct the test images; here: by 1 dB over what the start had)",
            decide(lambda gain, noise: above(gain, 1.0, noise), excess, noise),
            f"train {shown(train[SGD], 2)}, test {shown(test[SGD], 2)} dB, gains over the start differ by "
            f"{shown(excess, 2)}",
        )
        holds, told = _paired(table, problem, SGD, FIRST_WEIGHTS, **images)
        yield Claim(
            f"{problem}: what is reconstructed was learnt: SGD's features give training images away more than an "
            "untrained network's do (Section 4.4: cues for memorization)",
            holds,
            f"{shown(train[SGD], 2)} against {shown(train[FIRST_WEIGHTS], 2)} dB{told}",
        )
        holds, told = guarded(*_paired(table, problem, SGD, PRIVATE, 1.0, **classes), guard)
        yield Claim(
            f"{problem}: from the weights alone, classes of P3SGD's network come less close to their means than those "
            "of SGD's, by 1 dB or more (not in the paper)",
            holds,
            f"{', '.join(f'{n} {shown(means[n], 2)}' for n in STRATEGIES)}, the start {shown(start, 2)} dB{told}",
        )


def _guessing(table: pl.DataFrame, problem: str) -> Guard:
    """The guard of P3SGD's network, whose features hide nothing learnt where it has learnt nothing; the table has no
    share of the most frequent class."""
    ours, start = (
        by_key(table, "test_accuracy", by="seed", problem=problem, strategy=name) for name in (PRIVATE, FIRST_WEIGHTS)
    )
    chance = 100.0 / max(2, part(table, problem=problem)["label"].drop_nulls().n_unique())
    return Guard.of(PRIVATE, ours, dict.fromkeys(ours, chance), start, by="guessing", began="an untrained network")


def _paired(
    table: pl.DataFrame, problem: str, one: str, other: str, by: float = 0.0, /, **where: str
) -> tuple[bool | None, str]:
    """Whether one strategy's ratios exceed the other's by so much on the same images or classes, beyond two standard
    errors."""
    left, right = (part(table, problem=problem, strategy=name, **where) for name in (one, other))
    if left.height < 2 or right.height < 2:
        return None, ", fewer than two pairs to compare"
    pairs = left.join(right, on=["seed", "example"], suffix="_other")
    found = Measured.of((pairs["psnr"] - pairs["psnr_other"]).to_list())
    if found is None or found.noise is None:
        return None, ", fewer than two pairs to compare"
    return found.above(by), f", difference {shown(found.mean, 2)} with standard error {shown(found.noise / 2.0, 2)}"


def _excess(table: pl.DataFrame, problem: str) -> tuple[float | None, float | None]:
    """SGD's gain over the start on training images, less that on test images, in decibels, with two standard errors."""
    gains, noises = list[float | None](), list[float | None]()
    for side in ("train", "test"):
        end, start = (_psnr(table, problem, SGD, side, name) for name in ("psnr", "start_psnr"))
        gains.append(decide(lambda end, start: end - start, end, start))
        rows = part(table, problem=problem, strategy=SGD, attack="features", part=side)
        found = None if rows.is_empty() else Measured.of((rows["psnr"] - rows["start_psnr"]).to_list())
        noises.append(found and found.noise)
    return decide(lambda one, other: one - other, *gains), decide(math.hypot, *noises)


def notes_3(table: pl.DataFrame, scale: Scale) -> Iterator[str]:
    """What was measured, and where it says nothing."""
    yield from notes(table, scale)
    yield (
        f"Measured: PSNR in decibels, peak 1, of {EXAMPLES[scale].images} training and as many test images. From "
        "features: the attacker holds the last convolution's activations of the image (the paper: the third residual "
        "block's) and searches, with a total-variation penalty, for an image that has them; truth is the image itself. "
        "From a class: the attacker holds the network alone and climbs the log-odds of a class with the same penalty; "
        "truth is the mean training image of the class, or the closest of them. Both start at a public mean."
    )
    yield "The paper's averages are 0.02 dB apart. Its details are in an appendix that is not printed with the text."
    yield (
        "No guarantee is tested here. What features tell about the image in front of the network is another question "
        "than who was in the training data; untrained networks, which no privacy protects, are the control."
    )
    for problem in ordered(table, "problem"):
        accuracy = mean(table, "test_accuracy", problem=problem, strategy=PRIVATE)
        if accuracy is not None:
            yield f"{problem}: P3SGD's network has a test accuracy of {shown(accuracy, 1)} %."
    for problem in ordered(table, "problem"):
        start = mean(table, "start_psnr", problem=problem, reference="class mean")
        ends = [mean(table, "psnr", problem=problem, strategy=n, reference="class mean") for n in STRATEGIES]
        known = [number for number in ends if number is not None]
        if start is not None and known and max(known) <= start:
            fails = f"it ends at {shown(max(known), 2)} dB at best from their means"
            began = f"the public mean that it began with has {shown(start, 2)}"
            yield f"{problem}: the attack on classes fails on every network: {fails}, {began}."


FIGURE_2 = Study(
    name="p3sgd-figure-2",
    title="Loss on training and test data along the run",
    paper=f"{PAPER}, Figure 2",
    jobs=jobs_2,
    table=tabled(by_record, CURVE),
    draw=drawing(figure=lambda table: figures.by_problem(table, figures.losses, width=3.2)),
    judge=judging(numbers=numbers_2, claims=claims_2, notes=notes_2, settled_by=settled_by(jobs_2)),
)
FIGURE_3 = Study(
    name="p3sgd-figure-3",
    title="Model inversion of trained and untrained networks",
    paper=f"{PAPER}, Figure 3",
    jobs=jobs_3,
    table=inverted,
    draw=drawing(figure=lambda table: figures.inversions(table, STRATEGIES)),
    judge=judging(
        numbers=numbers_3, claims=claims_3, notes=notes_3, settled_by=settled_by(jobs_3, "; the attack is not counted")
    ),
)
STUDIES = (FIGURE_2, FIGURE_3)
