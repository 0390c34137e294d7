"""Private calibration as a frontier: accuracy against calibration at a fixed epsilon, over clip norm, step size, number
of steps, falling steps, noise before clipping, and averaging.

At a fixed epsilon, sample rate and number of steps the noise multiplier σ is fixed too. DP-SGLD with constant steps α
and without noise before clipping is then DP-SGD at learning rate α: the gradient slot's temperature is σ²/(2α), the
parameter slot's one fixes the clip norm. Its last weights have DP-SGD's law, so that no number of seeds can show that
they are better, and the right question is whether a difference is larger than a stated margin
(:func:`experiments.claims.relevant`). What Langevin dynamics may add is its falling steps with the noise that follows
them, noise before clipping, and the average over weights, which DP-SGD's weights allow as well: each is compared at
equal clip norm, reach and number of steps, in runs that share first weights, batches and noise.
"""

import math
from collections.abc import Collection, Iterator, Sequence

import polars as pl

from experiments.claims import FEWEST_PAIRS, Claim, Point, judging, point
from experiments.costs import TWO_CORES
from experiments.figures import calibration_frontier as figures
from experiments.job_costs import by_seeds, cost
from experiments.papers import calibration_claims as rules
from experiments.papers.calibration_cells import Cells, Pair
from experiments.papers.runs.frontier import MOST
from experiments.papers.runs.frontier_plans import BENCHES, BEST_CLIP, FOLDS, TWO_CLIPS, Bench, jobs, jobs_of_pairs
from experiments.study import Done, Row, Study, columns, drawing, tabled
from experiments.tables import column, ordered, part
from pacdp.cli.recipes import Scale
from pacdp.cli.sweep.jobs import Job

COLUMNS = columns(
    (pl.String, "bench method"),
    (pl.Boolean, "averaged"),
    (pl.String, "slot"),
    (pl.Float64, "clip_norm reach"),
    (pl.Boolean, "decay"),
    (pl.Float64, "pre_noise"),
    (pl.Int64, "steps passes seed"),
    (pl.Float64, "accuracy ece sce ace nll_nats mce rmsce mean_confidence sigma epsilon clipped_share"),
)
"""Averages are over weights kept on the way, over draws of a posterior's weights, or over masks; the other rows are of
the last weights or of one draw. ``reach`` is step size times clip norm; ``clipped_share`` the share of training
gradients that the last weights' clip norm shortens."""


def by_prediction(done: Done) -> Iterator[Row]:
    """One row for the last weights (or one draw of random ones) and one for the mean of several predictions."""
    result = done.result
    own = {name: _short(result.get(name), up=name == "epsilon") for name in ("sigma", "epsilon", "clipped_share")}
    for name, scores in result["scores"].items():
        rounded = {key: _short(value) for key, value in scores.items() if key in COLUMNS}
        yield {**done.tags, **own, **rounded, "averaged": name == "averaged"}


def _short(value: float | None, *, up: bool = False) -> float | None:
    """Five decimals, so that the table stays small; an epsilon is rounded up."""
    return None if value is None else round(value + (5e-6 if up else 0.0), 5)


def claims(table: pl.DataFrame, scale: Scale) -> Iterator[Claim]:
    """The papers' sentences, data set by data set."""
    for bench in BENCHES[scale]:
        cells = Cells(part(table, bench=bench.name), bench)
        if bench.others:
            yield from rules.harm(cells)
        yield from rules.langevin(cells)
        if bench.others:
            yield from rules.long_noise(cells)
        yield rules.fold(cells, FOLDS[bench.data])
        yield rules.clip_norm_alone(cells, cells.clip_pair())
        yield from rules.averaging(cells)
        if bench.others:
            yield from rules.bayesian(cells)
        if bench.others and bench.data == "MNIST":  # the data of the paper that prints DP-BBP
            yield from rules.as_printed(cells)


def points(table: pl.DataFrame, scale: Scale, found: Sequence[Claim]) -> Iterator[Point]:
    """What clip norm does alone, and what Langevin noise adds to it."""
    for bench in BENCHES[scale]:
        cells, named = Cells(part(table, bench=bench.name), bench), f"{bench.name}{_network(bench)}"
        sentence = f"{bench.name}: {rules.alone(bench)}"
        (alone,) = [one for one in found if one.sentence == sentence]
        if alone.holds is not None or bench.name not in TWO_CLIPS.get(scale, {}):  # else private-calibration-pairs says
            yield point(found, sentence, clip_norm_point(cells, cells.clip_pair()))
        if not bench.others:
            continue
        own = [one for one in found if one.sentence.startswith(f"{bench.name}: {rules.HARM}")]
        yield point(own, rules.MOST_ACCURATE, _harm(cells, named, own))
        for words, said in (
            ("DP-SGLD provides", "DP-SGLD is better calibrated than DP-SGD at equal clip norm, noise and steps"),
            ("pre-noising", "noise before clipping improves DP-SGLD's calibration"),
            ("the decaying learning rate", "falling step sizes improve DP-SGLD's calibration"),
        ):
            first = next(one for one in found if one.sentence.startswith(f"{bench.name}: {words}"))
            yield point(found, first.sentence, f"{named}: {said}: {first.evidence.split('; ')[0]}")


def _network(bench: Bench) -> str:
    """The network of a bench, in words, where its name does not say it."""
    run = bench.run
    if run.architecture != "fc":
        return ""
    seen = "features of a frozen network" if run.patients else "pooled images" if run.pooled else "images"
    return f" ({' and '.join(map(str, run.hidden))} hidden units on {seen})"


def clip_norm_point(cells: Cells, pair: Pair | None) -> str:
    """What the clip norm alone does, by the seeds that judge; nothing where runs are missing."""
    named = f"{cells.name}{_network(cells.bench)}"
    found = None if pair is None else rules.clip_ratio(cells, pair)
    if pair is None or found is None:
        return ""
    (one, other), seeds = ((where, *_scores(cells, where, pair.seeds)) for where in pair[:2]), len(pair.seeds)
    ends = [
        f"ECE {ece:.4f} at clip norm {where['clip_norm']:g} (accuracy {accuracy:.4f})"
        for where, ece, accuracy in (one, other)
    ]
    return (
        f"{named}: the clip norm alone changes DP-SGD's ECE {FOLDS[cells.bench.data]}-fold at one epsilon, noise, "
        f"number of steps and accuracy: {' and '.join(ends)}, {math.exp(found.log):.1f}-fold by the {seeds} seeds that "
        "did not choose them"
    )


def _scores(cells: Cells, where: rules.Where, seeds: Collection[int]) -> tuple[float, float]:
    return cells.mean("ece", where, seeds), cells.mean("accuracy", where, seeds)


_ALSO = {True: "it holds", False: "it does not hold", None: "it is open"}


def _harm(cells: Cells, named: str, own: Sequence[Claim]) -> str:
    """Both questions on DP-SGD's harm, in numbers; nothing where runs are missing."""
    most, calm = (rules.harms(cells)[name] for name in (rules.MOST_ACCURATE, rules.CALMEST))
    if most is None or calm is None:
        return ""
    (private, accurate), (plain, best) = (_scores(cells, where, most.seeds) for where in most[:2])
    least, enough = _scores(cells, calm.one, calm.seeds)
    also = next(one.holds for one in own if rules.CALMEST in one.sentence)
    return (
        f"{named}: DP-SGD harms calibration by ECE, SCE and ACE where it is most accurate: ECE {private:.4f} at "
        f"accuracy {accurate:.4f} against SGD's {plain:.4f} at {best:.4f}; asked of DP-SGD at the clip norm and "
        f"steps of least ECE within a hundredth of that accuracy, {least:.4f} at {enough:.4f}, {_ALSO[also]}"
    )


def _plain(table: pl.DataFrame) -> dict[str, rules.Where]:
    """SGD's settings that DP-SGD is compared with, by bench."""
    benches = {bench.name: bench for scale in BENCHES for bench in BENCHES[scale]}
    cells = {name: Cells(part(table, bench=name), benches[name]) for name in ordered(table, "bench")}
    return {name: found for name, own in cells.items() if (found := own.plain())}


def _of_first_seed(scale: Scale, seed: int) -> list[Job]:
    """All runs of one seed: more of them are asked for by some cells alone."""
    return [job for job in jobs(scale, seed) if job.config.seed == seed]


def settled_by(table: pl.DataFrame, scale: Scale, claim: Claim) -> str:
    """More seeds; those of private-calibration-pairs where it asks the same."""
    for bench in BENCHES[scale]:
        two, best = (of.get(scale, {}).get(bench.name) for of in (TWO_CLIPS, BEST_CLIP))
        for asked, words in ((two, rules.alone(bench)), (best, rules.beyond(bench))):
            if asked is not None and claim.sentence == f"{bench.name}: {words}":
                own = [job for job in jobs_of_pairs(scale, 0) if job.tags["bench"] == bench.name]
                told = f"private-calibration-pairs asks it of {asked.seeds} new seeds, and its runs are made"
                return f"{told}: {cost(own, TWO_CORES)}"
    return by_seeds(_of_first_seed)(table, scale, claim)


def notes(table: pl.DataFrame, scale: Scale) -> Iterator[str]:
    """What the measurements mean, and how they were made."""
    if scale == "smoke":
        yield "scikit-learn's 8x8 digits stand in for the papers' data: the numbers say nothing of it."
    for bench in BENCHES[scale]:
        yield from _budget(table, bench)
    yield from _MEANING
    yield from _HOW
    yield _PRINTED
    if any(bench.run.patients for bench in BENCHES[scale]):
        yield _XRAYS
    if scale == "cpu":
        yield _CUT


def _budget(table: pl.DataFrame, bench: Bench) -> Iterator[str]:
    spent = column(table, "epsilon", {"bench": bench.name})
    if spent:
        run, unit = bench.run, "patient" if bench.run.patients else "image"
        yield (
            f"{bench.name}: every private run costs epsilon {min(spent):.4f} to {max(spent):.4f} at delta "
            f"{run.budget.delta:g}, by upper ends of a proved bracket; the unit is one {unit}, neighbours differ by "
            f"one {unit} more or less. Comparisons are at reach {run.reach:g} (step size times clip norm) and "
            f"{run.steps} steps unless they say otherwise."
        )


_MEANING = (
    "What the measurements mean. At a fixed epsilon the clip norm decides whether a private network is over- or "
    "underconfident. With a small one most gradients are clipped, also late in training, and confidence outruns "
    "accuracy; with a large one and short steps the network stays underconfident. In between lies a clip norm at which "
    "plain DP-SGD is calibrated best, under the same noise; whether at the same accuracy is a claim of its own. "
    "DP-SGLD with constant steps is that DP-SGD under another name, and its falling steps and the noise before "
    "clipping move ECE far less than the clip norm does. Two methods that are compared at different clip norms or step "
    "sizes are therefore compared by these, and not by their noise.",
)
_HOW = (
    "Noise before clipping is half as long as the clip norm (and twice as long in one cell of the table). Falling "
    "steps go from 2.7 to 0.5 times the mean step in ten stages; DP-SGLD's noise multiplier falls as their root in the "
    "gradient slot and grows as the inverse root in the parameter slot, scaled so that the run costs the same epsilon.",
    "An improvement counts where it exceeds a tenth of the error that it improves upon, by two standard errors of the "
    "differences between runs of one seed, which share first weights, batches and noise; where it stays below that by "
    "two standard errors, its absence is decided. A sentence about several cells is asked of the geometric mean over "
    f"all of them, with one value a seed. Fewer than {FEWEST_PAIRS} pairs of runs decide nothing. All seeds are judged "
    "on one test set. What is best among settings is chosen on the first half of the seeds that all of these settings "
    "share, and judged on the other seeds that the chosen ones share; there two clip norms are asked once more whether "
    "their accuracies are equal. SGD is compared at the settings at which it is most accurate on the seeds that "
    "choose. Grids and base settings were chosen after a dozen trial runs that were judged on test images, which no "
    "epsilon counts.",
    "Rules that were changed after the table had been looked at: a sentence about several cells was asked of the "
    "majority of cells first, and of the geometric mean only where cells that were open could turn that, so that one "
    "held by 12 of 20 cells whose mean had not fallen; each cell's own seeds were halved, so that cells with unequal "
    "numbers of seeds were compared on unequal seeds, and some seeds both chose and judged; accuracies were not "
    "compared again; two pairs of runs decided.",
    "MCE is the largest gap of any bin, often one of a few images; sentences on MCE are judged by the root mean square "
    "calibration error (RMSCE), which weighs bins by their images. MCE is in the table.",
)
_PRINTED = (
    "DP-BBP as printed takes the gradient of the whole objective, KL and all, by example and clips that. An example "
    "moves the sum by no more than the clip norm, so that epsilon is the same. How examples share the KL is not "
    "printed: with 1/n each their sum is the evidence bound; with a batch's part each, as a loop over batches has it, "
    "the KL weighs as many times more as a batch has examples. Library and other rows take the KL, which depends on no "
    "data, outside clip and noise."
)
_XRAYS = (
    "A patient's images, 1,280 features of a frozen EfficientNet-Lite0 each, are one record, whose loss is their mean; "
    f"of a patient with more than {MOST} images the first {MOST} are used. Test images are of other patients, and "
    "their classes are balanced otherwise."
)
_CUT = (
    "Cut for two cores: on MNIST the grid is that of a network with 32 hidden units on images of 14x14, whose accuracy "
    "at epsilon 0.5 is 0.91 where the paper's CNN has 0.963; the five-layer CNN (44,506 weights) has four of its "
    "cells. At the paper's scale the CNN has the whole grid. Seeds were added where six of MNIST (long pre-noise) and "
    "eight of the X-rays (DP-MC-Dropout) left a sentence open; the standard errors do not account for that look."
)

FRONTIER = Study(
    name="private-calibration",
    title="Accuracy against calibration at a fixed epsilon",
    paper="Knolle et al. (2021) and Zhang, Bu et al. (2021), their sentences on calibration",
    jobs=jobs,
    table=tabled(by_prediction, COLUMNS),
    draw=drawing(figure=lambda table: figures.frontier(table, _plain(table)), effects=figures.effects),
    judge=judging(claims=claims, notes=notes, points=points, settled_by=settled_by),
)
STUDIES = (FRONTIER,)
