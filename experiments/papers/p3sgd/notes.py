"""What a reader of any of the studies must know, and words that several of them use."""

import math

import polars as pl

from experiments.papers.p3sgd.problems import PRIVATE, SGD
from experiments.papers.p3sgd.rows import mean, ordered, shown
from experiments.recipes import Scale

PAPER = "Wu, Zhao, Sun, Zhang, Su, Zeng and Liu 2019, P3SGD"
WHY = "malaria cells, MNIST digits or X-rays for glomeruli; a small network for a pre-trained ResNet-18"
_WEIGHTS, _PATIENTS, _RATE = 11.2e6, 1000, 0.1
"""ResNet-18 in Table 1; training patients and sampling ratio in Sections 4.1 and 4.2."""
_STAND_INS = {
    "smoke": "The data are 8x8 digits, twelve consecutive ones counted as one made-up person: they stand for nothing.",
    "cpu": "The paper's glomeruli (1216 patients, collected by its authors) are not public. Here: malaria cells by "
    "patient (161 train), MNIST by writer (539), X-rays of children by patient (3654), none on both sides of a split.",
}


def common(scale: Scale) -> tuple[str, ...]:
    """Of every study."""
    ratio = math.sqrt(_WEIGHTS) / (_RATE * _PATIENTS)
    notes = (
        _STAND_INS["smoke" if scale == "smoke" else "cpu"],
        "The paper pre-trains ResNet-18 on public pathology images and augments by flips and colour jitter. Here small "
        "networks (a linear layer on fixed spot features, or two convolutions) start from random or zero weights, "
        "without augmentation; private steps have no weight decay.",
        f"At the paper's settings the noise of one step, z C √d/(q N) with d = 11.2 million weights, is {ratio:.0f} z "
        "times as long as the longest update that clipping allows; how its network learnt under it is not said.",
        "P3SGD is the corrected one of docs/private.md: public divisor, all candidates charged, losses of the choice "
        "clipped by patient. Learning rates and clip norms were tried on these data, which is counted in no epsilon; "
        "batches and noise come from the seed, as for public data only.",
        "X-rays are 64x64 pixels; features of a pre-trained network would be another start, and are not used here.",
    )
    cuts = (
        (
            "Three seeds, ten to twenty passes of SGD. Accuracies within two standard errors, of counts and of seeds, "
            "decide nothing; images of one person are alike, so that those of counts are too small.",
            "The X-rays' official test set has another mix of classes than their training set: a gap there is more "
            "than overfitting.",
        )
        if scale == "cpu"
        else ()
    )
    return notes + cuts


def nothing_learnt(table: pl.DataFrame) -> tuple[str, ...]:
    """A sentence for each problem on which P3SGD is no better than naming the most frequent class."""
    return tuple(
        f"{problem}: P3SGD has learnt nothing (test accuracy {shown(ours, 1)} %, the most frequent class alone "
        f"{shown(floor, 1)} %); its small gap, flat loss or low ratio is that of a useless network."
        for problem in ordered(table, "problem")
        if (ours := mean(table, "test_accuracy", problem=problem, strategy=PRIVATE)) is not None
        and (floor := mean(table, "majority", problem=problem, strategy=PRIVATE)) is not None
        and ours <= floor + 2.0
    )


def no_overfitting(table: pl.DataFrame) -> tuple[str, ...]:
    """A sentence for each problem on which plain SGD shows no gap that anything could close."""
    return tuple(
        f"{problem}: SGD itself has a gap of {shown(gap)} points; there is little to regularise."
        for problem in ordered(table, "problem")
        if (gap := mean(table, "gap", problem=problem, strategy=SGD)) is not None and gap < 1.0
    )
