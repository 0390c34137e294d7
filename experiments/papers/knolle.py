"""Knolle et al. (2021), Differentially private training of neural networks with Langevin dynamics: Tables 1 and 2,
Figure 1, and what Section 6 leaves to future work.

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
from itertools import product
from typing import Any

import polars as pl

from bounds.accounting import clt_gdp, event_from_dict, gaussian_epsilon
from experiments.claims import MISSING, Claim, Comparison, Point, Seen, count_noise, every, judging, larger, point, say
from experiments.figures import knolle as figures
from experiments.job_costs import by_seeds
from experiments.papers.runs.knolle import BENCHES, DATA, Bench, PlainConfig, ablation_jobs, table_jobs
from experiments.study import Done, Row, Study, columns, drawing, tabled
from experiments.tables import column, mean, measured, part, pooled, shown
from pacdp.cli.figures.numbers import up
from pacdp.cli.private.config import PrivateConfig
from pacdp.cli.private.methods import DPSGD
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
SAME = 0.25
"""Step sizes that differ by no more than this share make DP-SGLD's last weights DP-SGD's, but for pre-noise."""
FOLDS = {"MNIST": 5, "X-rays": 2}
"""The reductions of ECE that abstract and discussion name ("MNIST ~5-fold, PPD ~2-fold")."""
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
    return own | {"epsilon": spent["upper"], "budget": config.budget.epsilon, "epsilon_central_limit": limit}


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
    "the two additions do not change (knolle-ablation) is not to be expected of the method.",
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
_ABLATION = (
    "Every cell spends the same budget; without decay the step size is DP-SGD's and the temperature the one at which "
    "all steps fit. rho is not in the paper: here the noise on one example's gradient is about half as long as the "
    "clip norm."
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
            "Cut for two cores: three seeds on MNIST and five on the X-rays, in the ablation two and three; averages "
            "are over 4 weights, 20 at the paper's scale."
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
    """The sentences about each table."""
    for data in _there(table):
        of = partial(measured, table, data=data)
        for sentence, worse, better in (
            ("DP-SGD has a negative impact on model calibration compared to standard SGD", "DP-SGD", "SGD"),
            (
                "DP-SGLD provides [...] better calibrated predictive uncertainty than standard DP-SGD",
                *("DP-SGD", "DP-SGLD"),
            ),
            ("the same of DP-SGLD's averaged predictions (our addition)", "DP-SGD", f"DP-SGLD{AVERAGED}"),
        ):
            yield Claim(f"{data}: {sentence}", *_by_every_error(of, worse, better))
        sentence, least = f"{data}: a reduction in ECE ~{FOLDS[data]}-fold against DP-SGD", FOLDS[data] - 0.5
        private, ours = (of("ece", procedure=name) for name in ("DP-SGD", "DP-SGLD"))
        if private is None or ours is None or ours.mean == 0.0:
            yield Claim(sentence, None, MISSING)
        else:
            seen = larger(f"ECE of DP-SGD against {least:g} times that of DP-SGLD", private, ours.scaled(least))
            folds = f"{private.mean / ours.mean:.2f}-fold, at least {least:g} being asked"
            same = _same_steps(next(bench for bench in BENCHES[scale] if bench.name == data))
            near = seen.holds is False and larger("", private, ours).holds is None
            built_in = f"; open, for it is built in: {same}" if same and near else ""
            yield Claim(sentence, None if built_in else seen.holds, f"{folds}; {seen.evidence}{built_in}")
        yield _alike(table, data)


def points(table: pl.DataFrame, scale: Scale, claims: Sequence[Claim]) -> Iterator[Point]:
    """Calibration by procedure; where errors disagree, and where our DP-SGLD is DP-SGD."""
    for data in _there(table):
        of = {one: measured(table, "ece", data=data, procedure=one) for one in PRINTED[data]}
        ece = {one.replace("-", ""): found and found.mean for one, found in of.items()}
        said = f"{data}: DP-SGD harms calibration by ECE, SCE and ACE: ECE {{DPSGD:.4f}} against SGD's {{SGD:.4f}}"
        accuracy = mean(table, "accuracy", data=data, procedure="SGD")
        by = f"seeds, and SGD as accurate as the paper's ({PRINTED[data]['SGD'][0]:g}; ours {shown(accuracy)})"
        yield point(claims, "has a negative impact", say(said, **ece), settled_by=by)
        same = _same_steps(next(bench for bench in BENCHES[scale] if bench.name == data))
        said = f"{data}: DP-SGLD is better calibrated than DP-SGD: ECE {{DPSGLD:.4f}} against {{DPSGD:.4f}}"
        said += ", at settings that make it nearly DP-SGD" if same else ""
        by = "other clip norms and temperatures, at equal noise, steps and accuracy"
        yield point(claims, "better calibrated predictive", say(said, **ece), settled_by=by)


def _by_every_error(of: Any, worse: str, better: str) -> Seen:
    """Whether each of the errors that the paper speaks of is larger for one procedure than for the other."""
    seen = [
        larger(f"{name.upper()} of {worse} against {better}", *(of(name, procedure=one) for one in (worse, better)))
        for name in ERRORS
    ]
    return Seen(every(one.holds for one in seen), f"by all of three errors: {'; '.join(one.evidence for one in seen)}")


def _same_steps(bench: Bench) -> str:
    """How close DP-SGLD's steps are to DP-SGD's, as a sentence; nothing where they differ by more than a quarter.

    With step sizes α_t and noise σ_t = √(2 α_t τ) on the clipped sum over the batch, DP-SGLD's weights move as DP-SGD's
    do at learning rate α_t.
    """
    assert isinstance(bench.run.method, DPSGD)
    method, rate, steps = bench.decaying, bench.run.method.learning_rate, bench.run.sampling.steps
    sizes = [method.step_size * (1.0 + t / method.decay_offset) ** -method.decay for t in (0, steps)]
    apart = max(abs(size / rate - 1.0) for size in sizes)
    shown = f"our DP-SGLD takes steps of {sizes[0]:.2f} falling to {sizes[1]:.2f} where DP-SGD takes {rate:g}"
    return f"{shown}, at one clip norm and budget" if apart <= SAME else ""


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


def ablation_claims(table: pl.DataFrame, scale: Scale) -> Iterator[Claim]:
    """Pre-noise and decay on and off, cell by cell."""
    effects = {
        "pre_noise": ("pre-noise", "pre-noising (which the paper conjectures to help) improves calibration"),
        "decay": ("decay", "the decaying learning rate improves calibration"),
    }
    for data, (averaged, of) in product(_there(table), (("", "last weights"), (AVERAGED, "averaged predictions"))):
        for (changed, other), state in product((("pre_noise", "decay"), ("decay", "pre_noise")), (False, True)):
            where, (name, sentence) = {"data": data, "procedure": f"DP-SGLD{averaged}", other: state}, effects[changed]
            off, on = (measured(table, "ece", **where, **{changed: value}) for value in (False, True))
            seen = larger(f"ECE without {name} against with it", off, on)
            yield Claim(f"{data}, {of}, {'with' if state else 'without'} {effects[other][0]}: {sentence}", *seen)


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
    sentence = f"{data}: DP-SGLD has improved calibration across the [0, 1] model confidence interval"
    gap = (pl.col("accuracy") - pl.col("confidence")).abs().alias("gap")
    curves = pooled(bins).filter(pl.col("share") >= FEWEST).with_columns(gap)
    private, ours = (part(curves, procedure=name) for name in ("DP-SGD", "DP-SGLD"))
    both = [] if curves.is_empty() else private.join(ours, on="left", suffix="_ours").to_dicts()
    if not both:
        return Claim(sentence, None, MISSING)
    seeds, worse = bins["seed"].n_unique(), 0  # of one test set: their counts are not so many examples
    for row in both:
        counts = ((row[f"accuracy{side}"], row[f"count{side}"] / seeds) for side in ("", "_ours"))
        worse += row["gap_ours"] > row["gap"] + count_noise(*counts)
    better = sum(row["gap_ours"] < row["gap"] for row in both)
    told = f"a smaller gap than DP-SGD's in {better} of {len(both)} bins that hold {FEWEST:.0%} of both's examples"
    holds = True if better == len(both) else False if worse else None
    return Claim(sentence, holds, f"{told}, a larger one beyond two standard errors in {worse}")


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
ABLATION = _study(
    *("ablation", "DP-SGLD with and without pre-noise and decay", "Section 6 (left to future work)", _ABLATION),
    jobs=ablation_jobs,
    claims=ablation_claims,
    draw=drawing(figure=figures.cells),
)
STUDIES = (TABLE_1, TABLE_2, FIGURE_1, ABLATION)
