"""Knolle et al. (2021), Differentially private training of neural networks with Langevin dynamics: Tables 1 and 2, and
Figure 1. What DP-SGLD adds to DP-SGD, and what Section 6 leaves to future work, is decided by
:mod:`experiments.papers.calibration_frontier`: here DP-SGLD's steps are DP-SGD's within a quarter, at one clip norm.

The text gives the budgets, "a five layer convolutional neural network" and "a pre-trained, frozen backbone
(EfficientNet B1, ImageNet) with two trainable dense layers". Batch sizes, step sizes, clip norm, temperature, decay and
pre-noise are not in it. Those of MNIST are the private recipes', found on MNIST. Those of the X-rays are from a coarse
search for accuracy (a factor of three between step sizes) on 651 images of 450 training patients, a fourth of them held
out, with the noise that the whole set would see; the test set was not looked at. No epsilon counts either search.

DP-SGLD is that of the paper's Algorithm 1, the gradient slot: σ_t = √(2 α_t τ). The temperatures τ were chosen so that
nearly all planned steps fit into the budget; the accountant halts the run before the first step that does not. It makes
two rows: of its last weights, which is what the paper reports ("only point estimates"), and of the mean of the
predictions of weights kept on the way, which costs no privacy more.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import polars as pl

from bounds.accounting import clt_gdp, event_from_dict, gaussian_epsilon
from experiments.claims import (
    MISSING,
    RELEVANT,
    Claim,
    Comparison,
    Measured,
    Point,
    every,
    judging,
    larger,
    point,
    relevant,
    say,
)
from experiments.figures import knolle as figures
from experiments.job_costs import by_seeds
from experiments.papers.runs.knolle import BENCHES, DATA, PlainConfig, table_jobs
from experiments.study import Done, Row, Study, columns, drawing, tabled
from experiments.tables import by_key, column, mean, measured, part, pooled
from pacdp.cli.figures.numbers import up
from pacdp.cli.private.config import PrivateConfig
from pacdp.cli.recipes import Scale

AVERAGED = ", averaged"
PRINTED = {
    "MNIST": {"SGD": (0.984, 0.999, 0.0020), "DP-SGD": (0.967, 0.996, 0.0210), "DP-SGLD": (0.963, 0.995, 0.0044)},
    "X-rays": {"SGD": (0.857, 0.942, 0.0526), "DP-SGD": (0.783, 0.910, 0.1790), "DP-SGLD": (0.786, 0.920, 0.0833)},
}
"""Accuracy, AUC and ECE as Tables 1 and 2 print them."""
EPSILONS = {"MNIST": 0.5, "X-rays": 6.0}
SCORES = {"accuracy": "accuracy", "macro_auc": "AUC", "ece": "ECE"}
ERRORS = ("ece", "sce", "ace")
"""The calibration errors that the paper computed, and found to differ negligibly; it prints the first."""
HARMED = "MNIST"
"""The data set on which SGD is trained to the paper's accuracy, so that it can be said what privacy does to it."""
FEWEST = 0.01
"""A bin of Figure 1 counts where it holds this share of the test examples, over the seeds, of both curves."""
_MADE_OF = {"mnist": "our own five-layer CNN", "xrays224": "EfficientNet-Lite0 instead of B1"}
_RUN = ((pl.String, "data stands_for procedure"), (pl.Int64, "seed"))
RUN_COLUMNS = columns(
    *_RUN,
    (pl.Boolean, "pre_noise decay"),
    (pl.Float64, "epsilon delta budget"),
    *((pl.String, "unit"), (pl.Int64, "units"), (pl.Float64, "epsilon_central_limit"), (pl.Int64, "steps")),
    *((pl.Boolean, "halted"), (pl.Int64, "parameters n n_test")),
    (pl.Float64, "accuracy macro_auc ece nll_nats brier smooth_ece adaptive_ece sce ace mean_confidence"),
    (pl.Float64, "certain seconds"),
)
"""``certain`` is the share of test examples in the last bin of confidence; ``epsilon_central_limit`` what the paper's
accountant makes of the run: no bound."""
_BIN = columns((pl.Float64, "left right"), (pl.Int64, "count"), (pl.Float64, "confidence accuracy"))
BIN_COLUMNS = columns(*_RUN, (pl.Float64, "ece"), (pl.Int64, "n_test")) | _BIN


def by_run(done: Done) -> Iterator[Row]:
    """One row a set of predictions on the test set."""
    result = done.result
    for procedure, test in _predictions(done, result):
        own = {"procedure": procedure, "certain": test["reliability"]["count"][-1] / test["n"], "n": result["n"]}
        yield {**result, **test, **_privacy(done.job.config, result), **done.tags, **own}


def by_bin(done: Done) -> Iterator[Row]:
    """One row a bin of each set of predictions, empty ones too."""
    for procedure, test in _predictions(done, done.result):
        for values in zip(*(test["reliability"][name] for name in _BIN), strict=True):
            where = {"procedure": procedure, "ece": test["ece"], "n_test": test["n"]}
            yield {**done.tags, **where, **dict(zip(_BIN, values, strict=True))}


def _predictions(done: Done, result: Row) -> list[tuple[str, Row]]:
    procedure = str(done.tags["procedure"])
    if "test_of_last_weights" not in result:
        return [(procedure, result["test"])]
    return [(procedure, result["test_of_last_weights"]), (procedure + AVERAGED, result["test"])]


def _privacy(config: PlainConfig | PrivateConfig, result: Row) -> Row:
    """What was spent, and what the paper's accountant, Gaussian differential privacy's central limit, makes of it."""
    if isinstance(config, PlainConfig):
        return {}
    spent, limit = result["privacy"], None
    if spent["unit"] == "example":
        limit = gaussian_epsilon(mu=clt_gdp(event=event_from_dict(spent["event"])).mu, delta=config.budget.delta)
    own = {name: spent[name] for name in ("delta", "unit", "units")}
    printed = spent.get("of_budget", {"epsilon": spent["upper"]})  # as the paper's, for add-remove neighbours
    return own | {"epsilon": printed["epsilon"], "budget": config.budget.epsilon, "epsilon_central_limit": limit}


_SETTINGS = (
    "The text gives neither batch size, step sizes, clip norm, temperature, decay nor pre-noise: they are ours, found "
    "on MNIST, whose test images were looked at, and for the X-rays by a coarse search on 651 training images with "
    "patients held out; neither search is counted in any epsilon."
)
_AFTER = (
    'DP-SGLD\'s row is of its last weights, as in the paper; "averaged" is the mean of the predictions of weights from '
    "the second half of the same run, which costs no privacy more and is not in the paper. It stands beside single "
    "networks of DP-SGD, whose weights were not averaged: a difference may be averaging's alone, "
    "and averages of DP-SGD's weights would tell.",
    "Without decay and pre-noise DP-SGLD's last weights are DP-SGD's in law, at a step size, clip norm and noise: what "
    "the two additions do not change (private-calibration) is not to be expected of the method.",
    "Epsilon here is an upper bound (privacy loss distribution, add-remove neighbours). The paper's comes from the "
    "central limit theorem of Gaussian differential privacy, an approximation that proves nothing; what it makes of "
    "our runs stands beside each comparison.",
)
_XRAYS = (
    "EfficientNet-Lite0 (1,280 features of 224x224 JPEG copies) stands in for EfficientNet B1, and the 16 official "
    "validation images are missing.",
    'The unit of privacy of Table 2 is one image, as in the paper (neighbours "differ by at most one record"). A '
    "child has up to 30 images, so that DP for images promises a child far less; the rows by patient (figure, "
    "table.csv) spend the same epsilon on all images of a patient. 30 images occur more than once, byte for byte: "
    "their unit counts each copy.",
)
_FIGURE = (
    "Confidence is on the horizontal axis, so that points below the diagonal are overconfident; the paper's caption "
    "has it the other way round. Its panel C shows the softmax output, ours the largest of the probabilities."
)


def _there(table: pl.DataFrame) -> list[str]:
    return [name for name in DATA if name in table["data"].to_list()]


def notes(table: pl.DataFrame, scale: Scale, *others: str) -> Iterator[str]:
    """What a reader must know of the data in the table, made from the data sets that stand for them."""
    found, stands_for = _there(table), table["stands_for"].to_list()
    if "digits" in stands_for:
        yield "scikit-learn's 8x8 digits stand in for the paper's data: the numbers say nothing of it."
    yield _SETTINGS
    for bench in (bench for bench in BENCHES[scale] if bench.name in found):
        sampling, budget = bench.run.sampling, bench.run.budget
        yield (
            f"{bench.name}: epsilon {budget.epsilon:g} at delta {budget.delta:g}. SGD has {bench.plain_epochs} passes, "
            f"a step size of {bench.plain_rate:g} and momentum {PlainConfig().momentum:g}, private runs "
            f"{sampling.sample_rate * sampling.steps:g} passes without momentum: what differs is not privacy's alone."
        )
    yield from _AFTER
    if "X-rays" in found and "digits" not in stands_for:
        yield from _XRAYS
    if scale == "cpu":
        yield (
            "Cut for two cores: three seeds on MNIST and five on the X-rays; averages are over 4 weights, 20 at the "
            "paper's scale."
        )
    yield from others


def table_numbers(table: pl.DataFrame, scale: Scale) -> Iterator[Comparison]:
    """The numbers of each table: nine scores, and epsilon."""
    for data in _there(table):
        for procedure, printed in PRINTED[data].items():
            where = {"data": data, "procedure": procedure}
            data_sets = sorted(set(column(table, "stands_for", where)))
            why = "; ".join(_MADE_OF.get(one, f"{one} instead of the paper's data") for one in data_sets)
            spent, central = (column(table, name, where) for name in ("epsilon", "epsilon_central_limit"))
            if spent and central:
                why += f"; epsilon at most {up(max(spent), 3)} by our accountant, {max(central):.3f} by the paper's"
            if procedure != "SGD":
                budget = next(bench.run.budget for bench in BENCHES[scale] if bench.name == data)
                what, said = f"{data}, {procedure}: epsilon", f"an upper end, at delta {budget.delta:g}"
                yield Comparison(what, EPSILONS[data], max(spent, default=None), said if spent else MISSING)
            for (name, label), paper in zip(SCORES.items(), printed, strict=True):
                ours = measured(table, name, **where)
                said = MISSING if ours is None else f"{why}; {ours}"
                yield Comparison(f"{data}, {procedure}: {label}", paper, ours and ours.mean, said)


def table_claims(table: pl.DataFrame, scale: Scale) -> Iterator[Claim]:
    """The sentences about each table that these runs can decide."""
    for data in _there(table):
        if data == HARMED:
            yield _harm(table, data)
        yield _alike(table, data)


def _harm(table: pl.DataFrame, data: str) -> Claim:
    """Whether each of the errors that the paper speaks of is larger for DP-SGD than for SGD."""
    seen = [
        larger(
            f"{name.upper()} of DP-SGD against SGD",
            *(measured(table, name, data=data, procedure=one) for one in ("DP-SGD", "SGD")),
        )
        for name in ERRORS
    ]
    return Claim(
        f"{data}: DP-SGD has a negative impact on model calibration compared to standard SGD",
        every(one.holds for one in seen),
        f"by all of three errors: {'; '.join(one.evidence for one in seen)}",
    )


def points(table: pl.DataFrame, scale: Scale, claims: Sequence[Claim]) -> Iterator[Point]:
    """Calibration by procedure."""
    if HARMED in _there(table):
        of = {one: mean(table, "ece", data=HARMED, procedure=one) for one in PRINTED[HARMED]}
        ece = {one.replace("-", ""): found for one, found in of.items()}
        said = f"{HARMED}: DP-SGD harms calibration by ECE, SCE and ACE: ECE {{DPSGD:.4f}} against SGD's {{SGD:.4f}}"
        yield point(claims, "has a negative impact", say(said, **ece), settled_by="more seeds")


def _alike(table: pl.DataFrame, data: str) -> Claim:
    sentence = f"{data}: differences between ECE, SCE and ACE were negligible"
    worst, shown = 0.0, list[str]()
    for procedure in PRINTED[data]:
        found = [measured(table, name, data=data, procedure=procedure) for name in ERRORS]
        means = [one.mean for one in found if one is not None]
        if len(means) < 3 or max(means) == 0.0:
            return Claim(sentence, None, MISSING)
        worst = max(worst, 1.0 - min(means) / max(means))
        shown.append(f"{procedure} {', '.join(f'{mean:.4f}' for mean in means)}")
    told = f"ECE, SCE, ACE: {'; '.join(shown)}; they differ by up to {worst:.0%}, negligible being a tenth."
    return Claim(sentence, worst <= 0.1, f"{told} SCE and ACE are Nixon et al.'s means over all classes, at most 2/K")


def figure_claims(table: pl.DataFrame, scale: Scale) -> Iterator[Claim]:
    """Figure 1, of a table of bins."""
    for data in _there(table):
        yield _across(part(table, data=data), data)
    if "X-rays" not in _there(table):
        return
    last = part(table, data="X-rays", right=1.0).with_columns(certain=pl.col("count") / pl.col("n_test"))
    edge, private = last["left"].max(), measured(last, "certain", procedure="DP-SGD")
    for other in ("SGD", "DP-SGLD"):
        what = f"half of DP-SGD's share of confidences of at least {edge or 0.0:.2f} against {other}'s"
        yield Claim(
            "X-rays: the softmax output of DP-SGD is concentrated about the extreme values of the interval, in "
            f"contrast to {other}'s",
            *larger(what, private and private.scaled(0.5), measured(last, "certain", procedure=other)),
        )


def _across(bins: pl.DataFrame, data: str) -> Claim:
    """Whether every bin's gap between accuracy and confidence is smaller by a tenth, by runs of one seed."""
    sentence = f"{data}: DP-SGLD has improved calibration across the [0, 1] model confidence interval"
    sentence += " (by a tenth of DP-SGD's gap in every bin, at steps within a quarter of DP-SGD's)"
    shares = pooled(bins).filter(pl.col("share") >= FEWEST)
    filled, gaps = bins.filter(pl.col("count") > 0), (pl.col("accuracy") - pl.col("confidence")).abs()
    filled = filled.with_columns(gap=gaps)
    private, ours = (set(part(shares, procedure=name)["left"].to_list()) for name in ("DP-SGD", "DP-SGLD"))
    seen = list[bool | None]()
    for left in sorted(private & ours):
        rows = filled.filter(pl.col("left") == left)
        one, other = (by_key(rows, "gap", by="seed", procedure=name) for name in ("DP-SGD", "DP-SGLD"))
        level = Measured.of(list(one.values()))
        margin = None if level is None else RELEVANT * level.mean
        seen.append(relevant("", Measured.between(one, other), margin).holds)
    if not seen:
        return Claim(sentence, None, MISSING)
    told = f"of {len(seen)} bins that hold {FEWEST:.0%} of both's examples the gap is smaller by a tenth in"
    told += f" {seen.count(True)}, not in {seen.count(False)}, open in {seen.count(None)}"
    return Claim(sentence, every(seen), told)


def _study(name: str, title: str, where: str, *told: str, jobs: Any, claims: Any, draw: Any, **other: Any) -> Study:
    table = other.pop("table", tabled(by_run, RUN_COLUMNS))
    told_by = {"settled_by": by_seeds(jobs), **other}
    judge = judging(claims=claims, notes=lambda table, scale: notes(table, scale, *told), **told_by)
    paper = f"Knolle et al., 2021, {where}"
    return Study(name=f"knolle-{name}", title=title, paper=paper, jobs=jobs, table=table, draw=draw, judge=judge)


_SCORED = drawing(figure=lambda table: figures.scores(table, PRINTED))
_TABLE: dict[str, Any] = {"claims": table_claims, "numbers": table_numbers, "points": points, "draw": _SCORED}
TABLE_1 = _study(
    "table-1",
    "DP-SGD, DP-SGLD and SGD on MNIST at epsilon 0.5",
    "Table 1",
    jobs=partial(table_jobs, DATA[:1]),
    **_TABLE,
)
TABLE_2 = _study(
    *("table-2", "DP-SGD, DP-SGLD and SGD on children's chest X-rays at epsilon 6", "Table 2"),
    jobs=partial(table_jobs, DATA[1:], patients=True),
    **_TABLE,
)
FIGURE_1 = _study(
    *("figure-1", "Calibration curves and confidences of SGD, DP-SGD and DP-SGLD", "Figure 1", _FIGURE),
    jobs=partial(table_jobs, DATA),
    claims=figure_claims,
    draw=drawing(figure=lambda table: figures.curves(table, pooled(table))),
    table=tabled(by_bin, BIN_COLUMNS),
)
STUDIES = (TABLE_1, TABLE_2, FIGURE_1)
