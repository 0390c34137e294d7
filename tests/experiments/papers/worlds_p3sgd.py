"""Planted tables of the studies of P3SGD."""

from typing import Any

import polars as pl
from planted import World

from experiments.papers import p3sgd, p3sgd_figures, p3sgd_printed
from experiments.papers.p3sgd import PAPER_SETTINGS, RUN, SETS, TABLE_1, TABLE_2
from experiments.papers.p3sgd_figures import CURVE, FIGURE_2, FIGURE_3, INVERSION
from experiments.papers.p3sgd_problems import DROPBLOCK, DROPOUT, FIRST_WEIGHTS, PRIVATE, SGD, scale_name

Row = dict[str, Any]
USUAL = {"problem": "p", "majority": 50.0, "n": 50_000, "n_test": 10_800, "strategy": PRIVATE}


def _seeds(rows, schema):
    """The same rows for three seeds: pairs of runs then differ by what is planted, without spread."""
    made = [{"seed": seed, **row} for row in rows for seed in range(3)]
    return pl.DataFrame([{name: row.get(name) for name in schema} for row in made], schema=schema)


def _gaps():
    """What Table 1 prints, with a lead over DropBlock of two points for its 0.36."""
    for name, train, test in ((SGD, 99.85, 92.25), (DROPOUT, 99.63, 91.0), (DROPBLOCK, 98.85, 93.23),
                              (PRIVATE, 95.7, 95.23)):  # fmt: skip
        yield USUAL | {"strategy": name, "train_accuracy": train, "test_accuracy": test, "gap": train - test}


OURS, PLAIN = {"strategy": PRIVATE}, {"strategy": SGD}
GAP = ("gap between training and testing is less than SGD's", "less than half of SGD's")
GUESSING = {"train_accuracy": 50.5, "test_accuracy": 50.0, "gap": 0.5}
SEED = 10.0 * (pl.col("seed") - 1.0)
OF_TABLE_1 = [
    ("", {}, {}, True),
    (GAP, OURS, {"gap": 9.0}, False),
    (GAP, OURS, GUESSING, None),  # a network that has learnt nothing has no gap, which answers nothing
    (GAP, PLAIN, {"train_accuracy": 91.0, "gap": -1.25}, None),  # where SGD has no gap there is none to close
    ("testing accuracy is above SGD's", OURS, GUESSING, False),
    ("outperforms", {"strategy": DROPBLOCK}, {"test_accuracy": 94.87}, False),  # as printed: less than a point
    ("DropBlock gains", {"strategy": DROPBLOCK}, {"test_accuracy": 91.9}, False),
    (("testing accuracy is above SGD's", "outperforms"), OURS, {"test_accuracy": 95.0 + SEED}, None),
]


def _scales():
    for problem in (PAPER_SETTINGS, "p"):
        for scales, (accuracy, epsilon) in SETS.items():
            own = {"noise_scales": scale_name(scales), "epsilon": epsilon, "published_epsilon": epsilon}
            learnt = {} if problem == PAPER_SETTINGS else {"test_accuracy": accuracy}
            yield USUAL | {"problem": problem, "quietest_chosen": 0.9, "steps": 100} | own | learnt


MIXED, LOUD = ({"noise_scales": name, "problem": PAPER_SETTINGS} for name in ("{3, 1}", "{3}"))
OF_TABLE_2 = [
    ("", {}, {}, True),
    ("by the paper's accounting", MIXED, {"published_epsilon": 50.0}, False),
    (("by the sound accounting", "no set's epsilon is larger"), MIXED, {"epsilon": 50.0}, False),
    ("A larger fixed noise scale", LOUD, {"epsilon": 50.0}, False),
    (("has the highest", "reach or approach"), {"problem": "p", "noise_scales": "{3, 1}"}, {"test_accuracy": 90.0},
     False),
    ("the larger a fixed", {"problem": "p", "noise_scales": "{3}"}, {"test_accuracy": 99.0}, False),
    ("reach or approach", {"problem": "p"}, {"test_accuracy": 50.0}, None),  # scales that guess approach nothing
    *(("follows the data", {"problem": "p"}, {"quietest_chosen": share}, holds)
      for share, holds in ((0.5, False), (0.42, None), (0.2, True))),
]  # fmt: skip


def _curves():
    for name, losses in (
        (SGD, ((0.7, 0.7), (0.3, 0.4), (0.0, 0.6))),
        (PRIVATE, ((0.7, 0.7), (0.4, 0.42), (0.3, 0.35))),
    ):
        for k, (train, test) in enumerate(losses):
            yield {"problem": "p", "strategy": name, "epochs": float(k), "train_loss": train, "test_loss": test,
                   "test_error": 0.1 if k else 0.5}  # fmt: skip


END = {"epochs": 2.0}
OF_FIGURE_2 = [
    ("", {}, {}, True),
    ("reduces the overfitting", OURS | END, {"train_loss": 0.0, "test_loss": 0.5}, False),
    ("lower test loss", OURS | END, {"test_loss": 1.5, "train_loss": 1.4}, False),
    ("lower test loss", OURS | END | {"seed": 1}, {"test_loss": 1.5, "train_loss": 1.4}, None),
    ("lower test loss", OURS, {"test_error": 0.52}, None),  # as an untrained network
    ("SGD overfits", PLAIN | END, {"test_loss": 0.41}, False),
]


def _attacks():
    for name, psnr in ((FIRST_WEIGHTS, 15.0), (SGD, 27.84), (PRIVATE, 26.0)):
        for example in range(3):
            row = {"problem": "p", "strategy": name, "start_psnr": 10.0, "test_accuracy": 90.0, "label": 0,
                   "psnr": psnr, "attack": "features", "example": example}  # fmt: skip
            yield row | {"part": "train"}
            yield row | {"part": "test", "psnr": 20.0 if name == SGD else psnr}
            yield row | {"attack": "class", "reference": "class mean"}


TRAINED = {"attack": "features", "part": "train"}
OF_FIGURE_3 = [
    ("", {}, {}, True),
    ("reconstructed worse", OURS | TRAINED, {"psnr": 29.0}, False),
    (("reconstructed worse", "classes of P3SGD"), OURS, {"test_accuracy": 48.8}, None),  # it guesses, and hides nothing
    ("more than test images", PLAIN | {"part": "test"}, {"psnr": 30.0}, False),
    ("what is reconstructed was learnt", {"strategy": FIRST_WEIGHTS}, {"psnr": 30.0}, False),
    ("classes of P3SGD", OURS | {"attack": "class"}, {"psnr": 27.82}, False),
]


def _printed():
    """Gap, testing accuracy, and losses of the training, the test and the best test, by strategy and seed."""
    usual = {
        "SGD": (10.0, 80.0, 0.1, 0.9, 0.5), "SGD+Dropout": (8.0, 79.0, 0.5, 0.5, 0.5),
        "SGD+DropBlock": (8.0, 81.0, 0.5, 0.5, 0.5), "P3SGD, printed": (1.0, 85.0, 0.5, 0.6, 0.5),
        "P3SGD, corrected": (1.0, 85.0, 0.5, 0.6, 0.5), "P3SGD, coin": (1.0, 70.0, 0.5, 0.5, 0.5),
        "start": (0.0, 60.0, 0.5, 0.5, 0.5),
    }  # fmt: skip
    for seed in range(4):
        for name, (gap, test, *losses) in usual.items():
            own = dict(zip(("train_loss", "test_loss", "best_test_loss"), losses, strict=True))
            yield {"problem": "lungs", "strategy": name, "seed": seed, "gap": gap + 0.1 * seed, "seconds": 30.0,
                   "test_accuracy": test + 0.2 * seed, "train_accuracy": gap + test, "majority": 0.5, **own,
                   "parameters": 100, "noise_scales": "{3, 1}" if name.startswith("P3SGD") else None,
                   "better_probability": 0.6 if name.startswith("P3SGD") else None, "quieter_taken": 0.5, "step": None,
                   "standing": None, "epsilon": None, "delta": None, "epsilon_lower": None,
                   "contradicted": None}  # fmt: skip
        for step, accuracy in ((0, 90.0), (100, 85.0 + seed)):
            yield {"problem": "mnist", "strategy": "noise alone", "seed": seed, "noise_scales": "{3}", "step": step,
                   "test_accuracy": accuracy}  # fmt: skip


AS_PRINTED, CORRECTED = ({"strategy": f"P3SGD, {rule}"} for rule in ("printed", "corrected"))
RIVAL = {"strategy": "SGD+DropBlock"}
OF_PRINTED = [
    ("", {}, {}, True),
    ("SGD overfits, by a gap", PLAIN, {"gap": 1.0}, False),
    ("SGD overfits, its test loss", PLAIN, {"test_loss": 0.54}, False),
    *((rule, where, values, holds)
      for rule, where in (("as printed has a gap", AS_PRINTED), ("corrected has a gap", CORRECTED))
      for values, holds in (({"gap": 9.0}, False), ({"test_accuracy": 50.0}, None))),  # None where it guesses
    ("printed has a test loss", AS_PRINTED, {"train_loss": 0.1}, False),
    ("corrected has a test loss", CORRECTED, {"train_loss": 0.1}, False),
    (("printed is more accurate", "as printed outperforms", "is worth 1 point"), AS_PRINTED, {"test_accuracy": 70.0},
     False),
    (("corrected is more accurate", "corrected outperforms"), CORRECTED, {"test_accuracy": 70.0}, False),
    ("corrected outperforms", RIVAL, {"test_accuracy": 84.5 + 0.2 * pl.col("seed")}, False),  # less than a point
    ("corrected outperforms", RIVAL, {"test_accuracy": 49.0}, None),  # a rival that guesses is none
    ("DropBlock gains", RIVAL, {"test_accuracy": 79.9 + 0.2 * pl.col("seed")}, False),
    ("chooses by the losses", {}, {"better_probability": 0.5}, False),
    ("keeps its accuracy", {"strategy": "noise alone", "step": 100}, {"test_accuracy": 20.0 + pl.col("seed")}, False),
]  # fmt: skip
WORLDS = [
    World(TABLE_1, _seeds(_gaps(), RUN), OF_TABLE_1, few=pl.col("seed") == 0, claims=p3sgd.claims_1, scale="cpu"),
    World(TABLE_2, _seeds(_scales(), RUN), OF_TABLE_2, claims=p3sgd.claims_2, scale="cpu"),
    World(FIGURE_2, _seeds(_curves(), CURVE), OF_FIGURE_2, claims=p3sgd_figures.claims_2, scale="cpu"),
    World(FIGURE_3, _seeds(_attacks(), INVERSION), OF_FIGURE_3, claims=p3sgd_figures.claims_3, scale="cpu"),
    World(p3sgd_printed.STUDY, pl.DataFrame(list(_printed()), infer_schema_length=None), OF_PRINTED,
          claims=p3sgd_printed.claims, scale="cpu"),
]  # fmt: skip
