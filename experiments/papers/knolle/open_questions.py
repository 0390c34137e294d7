"""Verdicts beyond the tables: what Figure 1 is said to show, and the effect of pre-noise and decay, left open there."""

import polars as pl

from experiments.papers.chance import count_noise
from experiments.papers.knolle.evidence import Sample, difference, sample
from experiments.papers.knolle.tables import AVERAGED
from experiments.papers.knolle.verdicts import notes
from experiments.recipes import Scale
from experiments.studies.study import Claim, Verdict

FEWEST = 0.01
"""A bin counts where it holds this share of the test examples, over the seeds, of both curves."""

_FIGURE = (
    "Confidence is on the horizontal axis, so that points below the diagonal are overconfident; the paper's caption "
    "has it the other way round. Its panel C shows the softmax output, ours the largest of the probabilities."
)
_ABLATION = (
    "Every cell spends the same budget; without decay the step size is DP-SGD's and the temperature the one at which "
    "all steps fit. rho is not in the paper: here "
    "the noise on one example's gradient is about half as long as the clip norm."
)


def judge_figure(table: pl.DataFrame, scale: Scale) -> Verdict:
    """Figure 1, of a table of bins."""
    found = [name for name in ("MNIST", "X-rays") if name in table["data"].to_list()]
    claims = [_across(table.filter(pl.col("data") == name), name) for name in found]
    if "X-rays" in found:
        claims += _extremes(table.filter(pl.col("data") == "X-rays"))
    return Verdict(claims=tuple(claims), notes=(*notes(found, table["stands_for"].to_list(), scale), _FIGURE))


def judge_ablation(table: pl.DataFrame, scale: Scale) -> Verdict:
    """Pre-noise and decay on and off."""
    found = [name for name in ("MNIST", "X-rays") if name in table["data"].to_list()]
    claims = [
        claim for name in found for averaged in ("", AVERAGED)
        for claim in _effects(table.filter(pl.col("data") == name, pl.col("procedure") == f"DP-SGLD{averaged}"),
                              f"{name}, {'averaged predictions' if averaged else 'last weights'}")
    ]  # fmt: skip
    return Verdict(claims=tuple(claims), notes=(*notes(found, table["stands_for"].to_list(), scale), _ABLATION))


def pooled(table: pl.DataFrame) -> pl.DataFrame:
    """One curve a procedure and data set: bins of all seeds together, with confidence, accuracy, count and share; NaN
    where a bin is empty."""
    sums = table.group_by("data", "procedure", "left", "right").agg(
        pl.col("count").sum(),
        ((pl.col("confidence") * pl.col("count")).sum() / pl.col("count").sum()).alias("confidence"),
        ((pl.col("accuracy") * pl.col("count")).sum() / pl.col("count").sum()).alias("accuracy"),
    )
    total = pl.col("count").sum().over("data", "procedure")
    return sums.with_columns((pl.col("count") / total).alias("share")).sort("data", "procedure", "left")


def _effects(part: pl.DataFrame, where: str) -> list[Claim]:
    sentences = {
        "pre_noise": ("pre-noise", "decay", "pre-noising (which the paper conjectures to help) improves calibration"),
        "decay": ("decay", "pre_noise", "the decaying learning rate improves calibration"),
    }
    claims = []
    for column, (name, other, sentence) in sentences.items():
        for state in (False, True):
            off, on = (sample(part, "ece", **{column: value, other: state}) for value in (False, True))
            with_other = f"{'with' if state else 'without'} {sentences[other][0]}"
            seen = difference(f"ECE without {name} against with it", off, on)
            claims.append(
                Claim(sentence=f"{where}, {with_other}: {sentence}", holds=seen.holds, evidence=seen.evidence)
            )
    return claims


def _across(part: pl.DataFrame, data: str) -> Claim:
    sentence = f"{data}: DP-SGLD has improved calibration across the [0, 1] model confidence interval"
    curves = pooled(part).filter(pl.col("share") >= FEWEST).with_columns(
        (pl.col("accuracy") - pl.col("confidence")).abs().alias("gap")
    )  # fmt: skip
    private, ours = (curves.filter(pl.col("procedure") == name) for name in ("DP-SGD", "DP-SGLD"))
    both = private.join(ours, on="left", suffix="_ours")
    if both.is_empty():
        return Claim(sentence=sentence, holds=None, evidence="runs are missing")
    better = both.filter(pl.col("gap_ours") < pl.col("gap")).height
    seeds = part["seed"].n_unique()  # of one test set: their counts are not so many examples
    noises = [
        count_noise(*((row[f"accuracy{side}"], row[f"count{side}"] / seeds) for side in ("", "_ours")))
        for row in both.iter_rows(named=True)
    ]
    worse = sum(row["gap_ours"] > row["gap"] + noise for row, noise in zip(both.to_dicts(), noises, strict=True))
    evidence = (
        f"a smaller gap than DP-SGD's in {better} of {both.height} bins that hold {FEWEST:.0%} of both's examples, a "
        f"larger one beyond two standard errors in {worse}"
    )
    return Claim(sentence=sentence, holds=True if better == both.height else False if worse else None,
                 evidence=evidence)  # fmt: skip


def _extremes(part: pl.DataFrame) -> list[Claim]:
    last = part.filter(pl.col("right") == 1.0).with_columns((pl.col("count") / pl.col("n_test")).alias("certain"))
    edge = last["left"].max()
    private = sample(last, "certain", procedure="DP-SGD")
    claims = []
    for other in ("SGD", "DP-SGLD"):
        sentence = (
            f"X-rays: the softmax output of DP-SGD is concentrated about the extreme values of the interval, in "
            f"contrast to {other}'s"
        )
        half = None if private is None else Sample(private.mean / 2.0, private.variance / 4.0, private.seeds)
        seen = difference(f"half of DP-SGD's share of confidences of at least {edge or 0.0:.2f} against {other}'s",
                          half, sample(last, "certain", procedure=other))  # fmt: skip
        claims.append(Claim(sentence=sentence, holds=seen.holds, evidence=seen.evidence))
    return claims
