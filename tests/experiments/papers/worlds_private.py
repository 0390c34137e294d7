"""Planted tables of the studies of private networks: Bayesian ones, their calibration, and what noise does to it."""

import math
from typing import Any

import polars as pl
from planted import World

from experiments.papers import calibration_frontier
from experiments.papers.bayesian_dp import PAPER_SECONDS, TABLE_1, TABLE_1_PRINTED, TWIN
from experiments.papers.bayesian_dp_calibration import TABLE_2, TABLE_2_PRINTED
from experiments.papers.bayesian_dp_figures import BAYESIAN, FIGURES_1_2, FIGURES_3_7
from experiments.papers.bayesian_dp_plans import DELTA
from experiments.papers.bayesian_dp_regression import ALGORITHMS, PRINTED, REGRESSION
from experiments.papers.calibration_frontier import COLUMNS, FRONTIER
from experiments.papers.calibration_pairs import PAIRS
from experiments.papers.knolle import BIN_COLUMNS, RUN_COLUMNS
from experiments.papers.knolle import PRINTED as KNOLLE
from experiments.papers.knolle import STUDIES as OF_KNOLLE
from experiments.papers.runs.frontier_plans import BENCHES, TOO_LONG

Row = dict[str, Any]
ALTERNATING = pl.when(pl.col("seed") % 2 == 0).then(1.0).otherwise(-1.0)


def _where(algorithm, *, private=True, **more):
    return {"algorithm": algorithm, "private": private, **more}


def _accuracies():
    """What Table 1 prints, at four seeds, with the twin of DP-SGLD that Theorem 1 promises."""
    for (name, prior, network), numbers in TABLE_1_PRINTED.items():
        for private, value in zip((True, False), numbers, strict=True):
            twins = [TWIN] if (name, prior, private) == ("SGLD", "normal", True) else []
            for seed, algorithm in ((seed, one) for seed in range(4) for one in (name, *twins)):
                yield {"algorithm": algorithm, "prior": prior, "network": network, "private": private, "seed": seed,
                       "accuracy": value, "last_accuracy": value, "epsilon": 1.0 if private else None,
                       "delta": DELTA if private else None, "n": 10_000, "run": f"{name}{seed}",
                       "seconds_per_epoch": PAPER_SECONDS[name, prior]}  # fmt: skip


OF_ACCURACY = [
    ('MLP: "DP-SGLD outperforms', _where(TWIN), {"accuracy": 0.7}, True),
    ('MLP: "DP-SGLD outperforms', _where(TWIN), {"accuracy": pl.col("accuracy") - 0.005}, False),
    ('MLP: "DP-SGLD outperforms', _where(TWIN), {"accuracy": 0.85 + 0.1 * ALTERNATING}, None),
    ('CNN: "DP-SGLD outperforms', {}, {}, False),
    ('CNN: "DP-SGLD outperforms', _where("SGLD", network="CNN"), {"accuracy": 0.99}, True),
    ("similar high test accuracy", {}, {}, True),
    ("similar high test accuracy", _where("BBP", private=False), {"accuracy": 0.5}, False),
    ("does not deteriorate", {}, {}, True),
    ("does not deteriorate", _where("SGLD"), {"accuracy": 0.88}, False),
    ("≈ 20%", {}, {}, True),
    ("≈ 20%", _where("MC Dropout"), {"accuracy": 0.97}, False),
    ("480 sec/epoch", {}, {}, True),
    ("480 sec/epoch", {"algorithm": "BBP"}, {"seconds_per_epoch": 1.0}, False),
    ("Theorem 1", {}, {}, True),
    ("Theorem 1", _where(TWIN), {"accuracy": 0.8}, False),
]


def _calibration():
    """What Table 2 prints, at four seeds with a little scatter of each cell's own."""
    for (name, prior), numbers in TABLE_2_PRINTED.items():
        for plain, private in enumerate((True, False)):
            ece, mce = numbers[2 * plain : 2 * plain + 2]
            for seed in range(4):
                scatter = 1e-5 * mce * math.cos(3.0 * len(name) + plain) * (-1) ** seed
                yield {"algorithm": name, "prior": prior, "network": "MLP", "private": private, "seed": seed,
                       "ece": ece, "mce": mce, "filled_mce": mce + scatter, "one_bin_ece": 0.0, "epsilon": None,
                       "delta": None}  # fmt: skip


NORMAL = _where("SGLD", prior="normal")
HARM = pl.when(~pl.col("private")).then(0.01).when(pl.col("algorithm") == "SGD").then(0.2).otherwise(0.1)
OF_CALIBRATION = [
    ("non-DP regime", {}, {}, True),
    ("in the DP regime", {}, {}, True),
    ("BNNs often enjoy", {}, {}, True),
    *((words, {}, {"filled_mce": 1.0 - pl.col("filled_mce")}, False)
      for words in ("non-DP regime", "in the DP regime", "BNNs often enjoy")),
    ("exacerbates", {}, {}, False),  # two of four are printed worse
    ("exacerbates", {"private": True, "prior": "none"}, {"filled_mce": 0.95}, True),
    ("usually not the case", NORMAL, {"filled_mce": 0.16}, True),
    ("usually not the case", NORMAL, {"filled_mce": 0.3}, False),
    ("Figure 3", {}, {}, True),
    ("Figure 3", NORMAL, {"filled_mce": 0.44}, False),  # 0.465 without a prior, and a tenth is asked
    ("ECE", {}, {}, False),  # printed: DP-SGD is better with a prior, DP-SGLD worse without one
    ("ECE", {}, {"ece": HARM}, True),
]  # fmt: skip


def _regression():
    """Errors as Table 3 prints them, twenty simulations with a scatter of a hundredth, and what the figure draws."""
    for name in ALGORITHMS:
        for plain, private in enumerate((True, False)):
            mse = PRINTED.get(name, (0.5, 0.5))[plain]
            spread = 1.0 if name == "MC Dropout" and private else 0.5
            row = {"test_mse": mse, "train_mse": mse, "noise_mse": 0.5, "epistemic_std": spread, "aleatoric_std": 0.5,
                   "epistemic_std_beyond": spread}  # fmt: skip
            for k in range(20):
                factor = math.exp(0.01 * (-1) ** (k + (name == "SGLD"))) if private else 1.0
                spent = {key: value * factor for key, value in row.items()}
                yield {"part": "run", **_where(name, private=private), "epsilon": 3.85025, "simulation": k, **spent}
            for x in (-5.0, 0.0, 5.0):
                yield {"part": "band", **_where(name, private=private), "simulation": 0, "x": x, "epistemic": 0.25,
                       "aleatoric": 0.25}  # fmt: skip


def _times(column, factor):
    return {column: pl.col(column) * factor}


OF_REGRESSION = [
    ("", {}, {}, True),
    ("surprisingly accurate", _where("SGLD"), _times("test_mse", 1.2), False),
    ("surprisingly accurate", _where("SGLD"), _times("test_mse", (2.0 * (-1) ** pl.col("simulation")).exp()), None),
    ("suffer notably", _where("BBP", private=False), {"test_mse": 1.3}, False),
    ("much better mean squared error", _where("BBP"), {"test_mse": 0.5}, False),
    ("barely affected", _where("SGLD"), _times("epistemic_std", 2.0), False),
    ("greater posterior uncertainty", _where("MC Dropout"), {"epistemic_std": 0.5}, False),
    *(("similar prediction uncertainty", _where("SGLD", private=False), _times(part, 2.0), False)
      for part in ("epistemic_std", "aleatoric_std", "epistemic_std_beyond")),
    ("similar prediction uncertainty", _where("BBP", private=False, x=-5.0), {"aleatoric": 2500.0}, False),
]  # fmt: skip


def _tradeoff():
    usual = {"grid": False, "batch": False, "rate": False, "batch_size": 64, "step_size": 1.0, "last": True,
             "n_test": 10_000, "delta": DELTA}  # fmt: skip
    for name, epsilon, accuracy in (("SGLD", 1.0, 0.95), ("SGD", 0.9, 0.8), ("SGD", 9.0, 0.99)):
        yield usual | {"algorithm": name, "epsilon": epsilon, "accuracy": accuracy, "grid": True}
    for k in range(2):
        for name, epsilon in (("SGLD", 2.0 - k), ("SGD", 1.0 + k)):
            yield usual | {"algorithm": name, "epsilon": epsilon, "batch": True, "batch_size": 64 * (k + 1),
                           "accuracy": 0.95 if name == "SGLD" else 0.8}  # fmt: skip
        for name, epsilon in (("SGLD", 1.0 + k), ("SGD", 1.0)):
            yield usual | {"algorithm": name, "epsilon": epsilon, "rate": True, "step_size": 1.0 + k,
                           "accuracy": 0.95 + 0.02 * k if name == "SGLD" else 0.8}  # fmt: skip


CHEAP = {"algorithm": "SGD", "grid": True, "epsilon": 0.9}
OF_TRADEOFF = [
    ("", {}, {}, True),
    *(("top left corner", CHEAP, {"accuracy": value}, holds)
      for value, holds in ((0.99, False), (0.95, False), (0.938, None))),  # a lead of a hundredth is asked
    ("larger |B| is more private", {"algorithm": "SGLD", "batch": True}, {"epsilon": 1.0}, False),
    ("amplifies", {"algorithm": "SGD", "batch": True}, {"epsilon": 1.0}, False),
    ("smaller η is more private", {"algorithm": "SGLD", "rate": True}, {"epsilon": 1.0}, False),
    ("no effect on the privacy", {"algorithm": "SGD", "rate": True, "step_size": 2.0}, {"epsilon": 2.0}, False),
    ("converges faster", {"algorithm": "SGLD", "rate": True, "step_size": 2.0}, {"accuracy": 0.6}, False),
]  # fmt: skip


def _reliability():
    """Two classes and 100 members, sure of the first class without privacy, and seldom with it."""
    for name in BAYESIAN:
        for private, prior, seed in ((a, b, c) for a in (False, True) for b in ("normal", "none") for c in range(4)):
            tags = {**_where(name, private=private), "prior": prior, "seed": seed}
            yield {**tags, "part": "run", "mce": 0.2, "label": 0, "confidence_wrong": 0.7 if name == "BBP" else 0.5}
            for count, right in ((10_000, 0.6), (3, 0.0), (0, None)):
                yield {**tags, "part": "bin", "count": count, "confidence": 0.6, "accuracy": right}
            first = 0.3 + 0.02 * seed if private else 0.9
            for member in range(100):
                for k, value in enumerate((first, 1.0 - first)):
                    yield {**tags, "part": "member", "member": member, "class": k, "probability": value}


OF_RELIABILITY = [
    ("", {}, {}, True),
    ("usually predict correctly", {"private": False}, {"probability": 1.0 - pl.col("probability")}, False),
    ("empirical posterior", {"private": True},
     {"probability": 0.8 * (1.0 - pl.col("class")) + 0.1 + 0.01 * pl.col("seed")}, False),
    ("empirical posterior", {"private": True, "seed": 0}, {"probability": 0.9 - 0.8 * pl.col("class")}, None),
    ("less confident", {"algorithm": "SGLD"}, {"confidence_wrong": 0.9}, False),
]  # fmt: skip


def _scores(data):
    """Calibration errors as Knolle et al. print them, at three seeds."""
    rows = [
        {"data": data, "stands_for": "mnist", "procedure": name, "seed": seed, "accuracy": 0.9, "macro_auc": 0.95,
         **dict.fromkeys(("ece", "sce", "ace"), numbers[2] * (1.0 + 0.01 * seed)),
         **({} if name == "SGD" else {"epsilon": 0.4999, "epsilon_central_limit": 0.45})}
        for name, numbers in KNOLLE["MNIST"].items() for seed in range(3)
    ]  # fmt: skip
    return pl.DataFrame([{column: row.get(column) for column in RUN_COLUMNS} for row in rows], schema=RUN_COLUMNS)


WORSE, ALIKE = "DP-SGD has a negative impact", "ECE, SCE and ACE were negligible"
OF_SCORES = [
    ("", {}, {}, True),
    *((WORSE, {"procedure": "SGD"}, _times(error, 20.0), False) for error in ("ece", "sce", "ace")),
    (WORSE, {"procedure": "SGD"}, _times("ece", 1.0 + 20.0 * (pl.col("seed") == 0)), None),
    (ALIKE, {}, _times("sce", 0.2), False),
]


def _bins():
    curves = {"DP-SGD": ((0.0, 0.3, 0.6), (10, 10, 80)), "SGD": ((0.1, 0.5, 0.8), (20, 50, 30)),
              "DP-SGLD": ((0.1, 0.4, 0.8), (30, 40, 30))}  # fmt: skip
    rows = [
        {"data": "X-rays", "stands_for": "xrays224", "procedure": name, "seed": seed, "ece": 0.1, "n_test": 100,
         "left": k / 3, "right": (k + 1) / 3, "count": counts[k], "confidence": (k + 0.5) / 3, "accuracy": accuracy[k]}
        for name, (accuracy, counts) in curves.items() for seed in range(3) for k in range(3)
    ]  # fmt: skip
    return pl.DataFrame(rows, schema=BIN_COLUMNS)


LAST = {"left": 2 / 3}
OF_BINS = [
    ("", {}, {}, True),
    ("improved calibration", {"procedure": "DP-SGLD", "left": 1 / 3}, {"accuracy": 0.2}, False),
    ("in contrast to DP-SGLD's", {"procedure": "DP-SGLD", **LAST}, {"count": 200}, False),
    ("in contrast to SGD's", {"procedure": "SGD", **LAST}, {"count": 1000}, False),
]
BENCH = BENCHES["smoke"][0]


def _frontier():
    """Every cell of the small bench at six seeds, all alike; what averages stands beside what does not."""
    for tags in (job.tags for job in FRONTIER.jobs("smoke", 0) if job.tags["bench"] == BENCH.name):
        for averaged, more in ((averaged, more) for averaged in (False, True) for more in (0, 2, 4)):
            seed = tags["seed"] + more
            errors = dict.fromkeys(("ece", "sce", "ace", "rmsce", "mce"), 0.1 * (1.0 + 1e-4 * seed))
            yield {**tags, "seed": seed, "averaged": averaged, "epsilon": None if tags["method"] == "SGD" else 7.99,
                   "accuracy": 0.9 + 1e-5 * tags["reach"], "nll_nats": 1.0, **errors}  # fmt: skip


def _errors(factor):
    return {name: pl.col(name) * factor for name in ("ece", "sce", "ace", "rmsce", "mce")}


FALLING = {"method": "DP-SGLD", "decay": True}
WIDE = {"clip_norm": 10.0}
CLIP = "the clip norm alone"
LATE = pl.col("seed") > 2
OTHERS, WITHIN = (pl.col("method").str.contains(words) for words in ("BBP|Dropout", "KL"))
OF_FRONTIER = [
    ("", {}, {}, False),  # where nothing differs, every improvement is decided not to hold
    (("standard DP-SGD (falling", "both averaged", "decaying", "5-fold against", "follows falling",
      "DP-SGLD (averaged)"), FALLING, _errors(0.1), True),
    ("5-fold against", FALLING, _errors(0.5), False),
    ("constant steps", {"method": "DP-SGLD", "decay": False}, _errors(0.5), True),
    ("pre-noising", {"method": "DP-SGLD", "pre_noise": False}, _errors(2.0), True),
    ("pre-noising", {"method": "DP-SGLD", "pre_noise": False}, _errors(1.05), False),  # not worth having
    ("noise before clipping", {"pre_noise": TOO_LONG}, _errors(0.5), True),
    ("kept on the way", {"method": "DP-SGD", "averaged": True}, _errors(0.5), True),
    (("DP-BBP", "DP-MC-Dropout (averaged)"), {},
     _errors(pl.when(OTHERS).then(0.5).otherwise(1.0)) | {"accuracy": pl.when(WITHIN).then(0.7).otherwise("accuracy")},
     True),
    ("negative impact", {"method": "SGD"}, _errors(0.5), True),
    (CLIP, WIDE, _errors(0.1), True),
    (CLIP, WIDE, _errors(pl.when(LATE).then(1.0).otherwise(0.1)), False),  # gone in the seeds that judge
    (CLIP, WIDE, _errors(0.1) | {"accuracy": pl.when(LATE).then(0.86).otherwise("accuracy")}, None),
    ("outperforms", {"method": "DP-SGLD"}, {"accuracy": 0.95}, True),
]  # fmt: skip


def _pairs():
    for tags in (job.tags for job in PAIRS.jobs("smoke", 0)):
        yield {**tags, "averaged": False, "ece": 0.1 * (1.0 + 1e-3 * (tags["seed"] % 3)), "accuracy": 0.9}


LUNGS = {"bench": "X-rays by patient", "clip_norm": 10.0}
OF_PAIRS = [
    ("", {}, {}, False),
    (CLIP, LUNGS, _times("ece", 0.5), True),
    (CLIP, LUNGS, _times("ece", 2.0), False),  # the settings are chosen, and which of them errs more with them
    ("noise before clipping", {"pre_noise": TOO_LONG}, _times("ece", 0.5), True),
    ("noise before clipping", {"pre_noise": TOO_LONG}, _times("ece", 0.95), False),
]


def _with(columns, rows):
    return pl.DataFrame([{name: row.get(name) for name in columns} for row in rows], schema=columns)


ONE = pl.col("seed") == 0
WORLDS = [
    World(TABLE_1, pl.DataFrame(list(_accuracies()), infer_schema_length=None), OF_ACCURACY),
    World(TABLE_2, pl.DataFrame(list(_calibration()), infer_schema_length=None), OF_CALIBRATION, few=ONE),
    World(REGRESSION, pl.DataFrame(list(_regression()), infer_schema_length=None), OF_REGRESSION,
          few=pl.col("simulation") == 0),
    World(FIGURES_1_2, pl.DataFrame(list(_tradeoff())), OF_TRADEOFF),
    World(FIGURES_3_7, pl.DataFrame(list(_reliability()), infer_schema_length=None), OF_RELIABILITY, scale="cpu"),
    World(OF_KNOLLE[0], _scores("MNIST"), OF_SCORES),
    World(OF_KNOLLE[1], _scores("X-rays"), [OF_SCORES[0], OF_SCORES[-1]]),
    World(OF_KNOLLE[2], _bins(), OF_BINS, about="X-rays", scale="cpu"),
    World(FRONTIER, _with(COLUMNS, _frontier()), OF_FRONTIER, few=pl.col("seed") < 2, about=f"{BENCH.name}: ",
          scale="smoke", claims=calibration_frontier.claims),
    World(PAIRS, _with(COLUMNS, _pairs()), OF_PAIRS, few=pl.col("seed") < 1002, scale="smoke"),
]  # fmt: skip
