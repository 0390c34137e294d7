"""Figure 3: model inversion of networks trained by SGD and by P3SGD, and of their first weights as a control."""

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import polars as pl

from experiments.claims import Claim, Comparison, Verdict, above
from experiments.figures import p3sgd as figures
from experiments.figures.style import figure, save
from experiments.papers.p3sgd import notes
from experiments.papers.p3sgd.config import Attack, Strategy
from experiments.papers.p3sgd.problems import FIRST_WEIGHTS, PRIVATE, SGD, Problem, problems, seeds
from experiments.papers.p3sgd.rows import by_image, decide, mean, ordered, shown
from experiments.recipes import Scale
from experiments.study import Job, Study

PRINTED = {SGD: 27.84, PRIVATE: 27.82}
"""Mean PSNR over all training images, in decibels (Section 4.4)."""
STRATEGIES = (FIRST_WEIGHTS, SGD, PRIVATE)
_EXAMPLES = {"smoke": Attack(images=4, pictures=2, feature_steps=30, class_steps=20), "cpu": Attack(images=64),
             "paper": Attack(images=1024)}  # fmt: skip


def jobs(scale: Scale, seed: int) -> list[Job]:
    """Convolutional networks, attacked when they are trained, and attacked untrained."""
    return [
        problem.job(strategy, _how(problem, strategy), seed=s, records=2, attack=_EXAMPLES[scale])
        for problem in problems(scale)
        if problem.network.width
        for strategy in STRATEGIES
        for s in seeds(scale, seed)
    ]


def _how(problem: Problem, strategy: str) -> Strategy:
    return replace(problem.plain, epochs=0) if strategy == FIRST_WEIGHTS else problem.strategies()[strategy]


def table(jobs: Sequence[Job], folder: Path) -> pl.DataFrame:
    """A row an attacked image, and two a class."""
    return by_image(jobs, folder)


def draw(table: pl.DataFrame, out: Path) -> list[Path]:
    """A row a problem: ratios, then a training image, a test image and a class, with what each network gave away."""
    names = ordered(table, "problem")
    drawn, grid = figure(max(1, len(names)), 4, width=3.0, height=2.8)
    for line, name in zip(grid, names, strict=False):
        part = table.filter(pl.col("problem") == name)
        figures.ratios(line[0], part, name)
        figures.pictures(line[1], part.filter(pl.col("attack") == "features", pl.col("part") == "train"),
                         STRATEGIES, "training images, from features")  # fmt: skip
        figures.pictures(line[2], part.filter(pl.col("attack") == "features", pl.col("part") == "test"),
                         STRATEGIES, "test images, from features")  # fmt: skip
        figures.pictures(line[3], part.filter(pl.col("reference") == "class mean"), STRATEGIES, "classes, from weights")
    return save(drawn, out / "figure")


def judge(table: pl.DataFrame, scale: Scale) -> Verdict:
    """Which network gives more away, and whether that has to do with training on the image at all."""
    names = ordered(table, "problem")
    said = (
        *notes.common(scale),
        f"Measured: PSNR in decibels, peak 1, of {_EXAMPLES[scale].images} training and as many test images. From "
        "features: the attacker holds the last convolution's activations of the image (the paper: the third residual "
        "block's) and searches, with a total-variation penalty, for an image that has them; truth is the image itself. "
        "From a class: the attacker holds the network alone and climbs the log-odds of a class with the same penalty; "
        "truth is the mean training image of the class, or the closest of them. Both start at a public mean.",
        "The paper's averages are 0.02 dB apart. Its details are in an appendix that is not printed with the text.",
        "No guarantee is tested here. What features tell about the image in front of the network is another question "
        "than who was in the training data; untrained networks, which no privacy protects, are the control.",
        *(
            f"{name}: P3SGD's network has a test accuracy of {shown(found, 1)} %."
            for name in names
            if (found := mean(table, "test_accuracy", problem=name, strategy=PRIVATE)) is not None
        ),
        *(note for name in names for note in _useless(table, name)),
    )
    return Verdict(comparisons=tuple(c for name in names for c in _compared(table, name)),
                   claims=tuple(c for name in names for c in _claims(table, name)), notes=said)  # fmt: skip


def _useless(table: pl.DataFrame, problem: str) -> tuple[str, ...]:
    """A sentence where the climb to classes ends further from their means than it began."""
    start = mean(table, "start_psnr", problem=problem, reference="class mean")
    ends = [mean(table, "psnr", problem=problem, strategy=n, reference="class mean") for n in STRATEGIES]
    known = [number for number in ends if number is not None]
    if start is None or not known or max(known) > start:
        return ()
    return (
        f"{problem}: the attack on classes fails on every network: it ends at {shown(max(known))} dB at best from "
        f"their means, the public mean that it began with has {shown(start)}.",
    )


def _ratio(table: pl.DataFrame, problem: str, strategy: str, part: str, column: str = "psnr") -> float | None:
    return mean(table, column, problem=problem, strategy=strategy, attack="features", part=part)


def _compared(table: pl.DataFrame, problem: str) -> list[Comparison]:
    features = [
        Comparison(
            what=f"{problem}, {strategy}: mean PSNR of {part} images from their features, dB",
            paper=PRINTED.get(strategy) if part == "train" else None,
            ours=_ratio(table, problem, strategy, part),
            why=notes.WHY,
        )
        for strategy in STRATEGIES
        for part in ("train", "test")
    ]
    classes = [
        Comparison(
            what=f"{problem}, {strategy}: mean PSNR of classes from the weights, against the {reference}, dB",
            paper=None,
            why="not in the paper",
            ours=mean(table, "psnr", problem=problem, strategy=strategy, reference=reference),
        )
        for strategy in STRATEGIES
        for reference in ("class mean", "closest image")
    ]
    return [*features, *classes]


def _claims(table: pl.DataFrame, problem: str) -> list[Claim]:
    train = {name: _ratio(table, problem, name, "train") for name in STRATEGIES}
    test = {name: _ratio(table, problem, name, "test") for name in STRATEGIES}
    images, classes = {"attack": "features", "part": "train"}, {"reference": "class mean"}
    worse = _paired(table, problem, SGD, PRIVATE, images)
    learnt = _paired(table, problem, SGD, FIRST_WEIGHTS, images)
    closer = _paired(table, problem, SGD, PRIVATE, classes)
    excess = {name: _excess(table, problem, name) for name in (SGD, PRIVATE)}
    means = {n: mean(table, "psnr", problem=problem, strategy=n, reference="class mean") for n in STRATEGIES}
    start = mean(table, "start_psnr", problem=problem, strategy=SGD, reference="class mean")
    return [
        Claim(sentence=f"{problem}: training images are reconstructed worse from P3SGD's features than from SGD's "
                       "(Section 4.4: 27.82 against 27.84 dB; here: by more than two standard errors)",
              holds=_beyond(worse),
              evidence=", ".join(f"{n} {shown(train[n])}" for n in STRATEGIES) + " dB" + _difference(worse)),
        Claim(sentence=f"{problem}: SGD's features give training images away more than test images (Section 4.4: it is "
                       "hard to reconstruct the test images; here: by 1 dB over what the start had)",
              holds=decide(lambda gain, noise: above(gain, 1.0, noise), excess[SGD], _excess_noise(table, problem)),
              evidence=f"train {shown(train[SGD])}, test {shown(test[SGD])} dB, gains over the start differ by "
                       f"{shown(excess[SGD])}"),
        Claim(sentence=f"{problem}: what is reconstructed was learnt: SGD's features give training images away more "
                       "than an untrained network's do (Section 4.4: cues for memorization)",
              holds=_beyond(learnt),
              evidence=f"{shown(train[SGD])} against {shown(train[FIRST_WEIGHTS])} dB" + _difference(learnt)),
        Claim(sentence=f"{problem}: from the weights alone, classes of P3SGD's network come less close to their means "
                       "than those of SGD's (not in the paper)",
              holds=_beyond(closer),
              evidence=", ".join(f"{n} {shown(means[n])}" for n in STRATEGIES) + f", the start {shown(start)} dB"
              + _difference(closer)),
    ]  # fmt: skip


def _paired(
    table: pl.DataFrame, problem: str, one: str, other: str, where: dict[str, str]
) -> tuple[float, float] | None:
    """One strategy's ratios less the other's on the same images or classes: mean and standard error; None for fewer
    than two pairs.
    """
    part = table.filter(pl.col("problem") == problem, *(pl.col(name) == value for name, value in where.items()))
    sides = [part.filter(pl.col("strategy") == name) for name in (one, other)]
    pairs = sides[0].join(sides[1], on=["seed", "example"], suffix="_other")
    differences = (pairs["psnr"] - pairs["psnr_other"]).to_numpy()
    if len(differences) < 2:
        return None
    return float(differences.mean()), float(differences.std(ddof=1)) / math.sqrt(len(differences))


def _beyond(difference: tuple[float, float] | None) -> bool | None:
    """Whether it is positive by more than two standard errors; None within them."""
    return None if difference is None else above(difference[0], 0.0, 2.0 * difference[1])


def _difference(found: tuple[float, float] | None) -> str:
    if found is None:
        return ", fewer than two pairs to compare"
    return f", difference {shown(found[0])} with standard error {shown(found[1])}"


def _excess_noise(table: pl.DataFrame, problem: str) -> float | None:
    """Two standard errors of the difference of SGD's mean gains on training and on test images."""
    squares = []
    for part in ("train", "test"):
        rows = table.filter(problem=problem, strategy=SGD, attack="features", part=part)
        gains = (rows["psnr"] - rows["start_psnr"]).to_numpy()
        if len(gains) < 2:
            return None
        squares.append(float(gains.var(ddof=1)) / len(gains))
    return 2.0 * math.sqrt(sum(squares))


def _excess(table: pl.DataFrame, problem: str, strategy: str) -> float | None:
    """Gain over the start on training images, less that on test images, in decibels."""
    numbers = [_ratio(table, problem, strategy, part, column) for part in ("train", "test")
               for column in ("psnr", "start_psnr")]  # fmt: skip
    known = [number for number in numbers if number is not None]
    return (known[0] - known[1]) - (known[2] - known[3]) if len(known) == 4 else None


STUDY = Study(name="p3sgd-figure-3", title="Model inversion of trained and untrained networks",
              paper=f"{notes.PAPER}, Figure 3", jobs=jobs, table=table, draw=draw, judge=judge)  # fmt: skip
