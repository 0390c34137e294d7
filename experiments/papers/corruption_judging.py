"""What the corruption study says: who memorises, who does not, and whether bounds know."""

from collections.abc import Sequence
from typing import Any

import polars as pl

from experiments.claims import Claim, Verdict, below, every, rises
from experiments.figures.numbers import down, up, up_digits
from experiments.figures.style import CHAIN_BOUNDS
from experiments.papers.corruption_table import ACCOUNTED
from experiments.papers.entropy_sgld.judging import CONVERGENCE
from experiments.papers.entropy_sgld.rows import BOUNDS, final
from experiments.papers.entropy_sgld.settings import Size
from experiments.random_labels_bounds import VACUOUS, tested
from experiments.random_labels_gaps import HARMLESS, UNFINISHED, gap, noise_of
from experiments.random_labels_learning import guessing, learning_notes
from experiments.recipes import Scale

Row = dict[str, Any]
PRIVATE = ("Entropy-SGLD", "DP-SGD", "DP-SGLD")


def judge(table: pl.DataFrame, scale: Scale, size: Size) -> Verdict:
    """Claims of Zhang et al. for SGD, of Dziugaite and Roy for private learning."""
    last = final(table).sort("random_share", maintain_order=True).to_dicts()
    of = {name: [row for row in last if row["algorithm"] == name] for name in ("SGD", *PRIVATE)}
    claims = (
        _memorises(of["SGD"]),
        _grows(of["SGD"]),
        *(_harmless(name, of[name]) for name in PRIVATE),
        *(_nonvacuous(name, of[name]) for name in PRIVATE),
        _honest(last),
    )
    return Verdict(claims=claims, notes=_notes(scale, size, last))


def broken(rows: Sequence[Row]) -> list[str]:
    """Each bound below the test error of its classifier, as a sentence."""
    found = []
    for row in rows:
        for name in (*BOUNDS, ACCOUNTED):
            test = row[tested(name)]
            if row[name] is not None and test is not None and row[name] < test:
                found.append(f"Bound below a test error: {CHAIN_BOUNDS[name]} {row[name]:.4f} < {test:.4f} "
                             f"({row['algorithm']}, {row['random_share']:g} of the labels random).")  # fmt: skip
    return found


def _notes(scale: Scale, size: Size, rows: Sequence[Row]) -> tuple[str, ...]:
    epsilons = {name: sorted({up_digits(row["epsilon"], 4) for row in rows if row["algorithm"] == name})
                for name in PRIVATE}  # fmt: skip
    deltas = ", ".join(f"{delta:g}" for delta in sorted({row["delta"] for row in rows if row["delta"]}))
    at = f" at delta {deltas}" if deltas else ""
    true = [row for row in rows if row["random_share"] == 0]
    told = "; ".join(f"{name} {', '.join(values)}" for name, values in epsilons.items() if values)
    notes = (
        f"{CONVERGENCE} That goes for Entropy-SGLD; the bounds of DP-SGD and DP-SGLD are accounted for, and assume "
        "nothing.",
        "The labels of the test set are as random as those of the training set, so that both have one law.",
        f"Epsilon by algorithm: {told}. Those of DP-SGD and DP-SGLD are for add-remove neighbours{at}; "
        "Entropy-SGLD's is pure, for replace-one neighbours, and assumes that its target was reached.",
        "Zhang et al. corrupt CIFAR-10 and ImageNet, with larger networks and many epochs; nothing here repeats their "
        "numbers.",
        *learning_notes(true, guessing(size.dataset)),
    )
    if scale != "paper":
        part = f"{size.train_size} examples of {size.dataset}" if size.train_size else size.dataset
        notes += (f"Scale {scale}: {part}, {size.epochs:g} epochs, a small fully connected network, one seed.",)
    return (*notes, *broken(rows))


def _told(rows: Sequence[Row]) -> str:
    return "; ".join(
        f"share {row['random_share']:g}: train {row['train_error']:.3f}, test {row['test_error']:.3f}" for row in rows
    )


def _memorises(rows: list[Row]) -> Claim:
    sentence = ("SGD memorises random labels: at every share of them its training error is less than half of the least "
                "error that any classifier can have.")  # fmt: skip
    noisy = [row for row in rows if row["least_error"] > 0]
    if not noisy:
        return Claim(sentence=sentence, holds=None, evidence=UNFINISHED)
    holds = all(row["train_error"] < 0.5 * row["least_error"] for row in noisy)
    return Claim(sentence=sentence, holds=holds, evidence=_told(noisy))


def _grows(rows: list[Row]) -> Claim:
    sentence = "SGD's generalization error grows steadily with the share of random labels."
    if len(rows) < 2:
        return Claim(sentence=sentence, holds=None, evidence=UNFINISHED)
    holds = rises([gap(row) for row in rows], [noise_of(row) for row in rows])
    return Claim(sentence=sentence, holds=holds, evidence=_told(rows))


def _harmless(name: str, rows: list[Row]) -> Claim:
    sentence = f"{name} does not fit random labels: its gap is below {HARMLESS:g} at every share, beyond chance."
    if not rows:
        return Claim(sentence=sentence, holds=None, evidence=UNFINISHED)
    holds = every([below(gap(row), HARMLESS, noise_of(row)) for row in rows])
    return Claim(sentence=sentence, holds=holds, evidence=_told(rows))


def _nonvacuous(name: str, rows: list[Row]) -> Claim:
    chance = "below 1/2, the error of guessing between two classes"
    sentence = f"On true labels the smallest bound of {name} is {chance}."
    true = [row for row in rows if row["random_share"] == 0]
    least = {bound: row[bound] for row in true for bound in (*BOUNDS, ACCOUNTED) if row[bound] is not None}
    if not least:
        return Claim(sentence=sentence, holds=None, evidence=UNFINISHED)
    best = min(least, key=lambda bound: least[bound])
    return Claim(sentence=sentence, holds=least[best] < 0.5, evidence=f"{CHAIN_BOUNDS[best]} bound {up(least[best])}")


def _honest(rows: list[Row]) -> Claim:
    sentence = "No bound lies below the least error that any classifier can have on such labels."
    pairs = [(row[name], row["least_error"]) for row in rows for name in (*BOUNDS, ACCOUNTED) if row[name] is not None]
    if not pairs:
        return Claim(sentence=sentence, holds=None, evidence=UNFINISHED)
    able = [(value, least) for value, least in pairs if value < VACUOUS]
    under = sum(value < least for value, least in able)
    margin = f"; the smallest margin is {down(min(value - least for value, least in able))}" if able else ""
    return Claim(
        sentence=sentence, holds=under == 0 if able else None,
        evidence=f"{under} of {len(able)} bounds below {VACUOUS:g} do{margin}; {len(pairs) - len(able)} more are "
        "vacuous and cannot",
    )  # fmt: skip
