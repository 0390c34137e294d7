"""What the table of certificates says: of published certificates, of test errors, and of one prior against another."""

from collections.abc import Iterator
from typing import Any

import polars as pl

from experiments.certificates.config import DATASETS
from experiments.claims import Claim, Comparison, Verdict, every, least_risk
from experiments.recipes import Scale
from pacdp.backprop.network import SmallCNN

_PUBLISHED = (
    ("posterior drawn anew for every answer: certificate", 0.0155, "PAC-Bayes with backprop, prior from half the data "
     "(Pérez-Ortiz et al. 2021, f_quad, a four-layer CNN)", "randomised"),
    ("one network drawn from the posterior: certificate", 0.012, "disintegrated bounds, prior from half the data "
     "(Viallard et al. 2023)", "one draw"),
)  # fmt: skip
_PAIRS = (
    ("a prior from half the data certifies less risk than a data-free one", ("held-out", "randomised"),
     ("data-free", "randomised")),
    ("the randomised network certifies less risk than its prior's mean by a count of errors on the same examples",
     ("held-out", "randomised"), ("held-out", "prior mean")),
    ("a prior with privately made centre of features and head certifies less risk than a data-free one without either",
     ("private-prior", "randomised"), ("private-prior: independent prior", "randomised")),
    ("a private head as prior certifies less risk than a head of zeros on the same privately centred features",
     ("private-prior", "randomised"), ("private-prior: zero head", "randomised")),
)  # fmt: skip
_NOTES = (
    "Each certificate has its failure probability by itself: quoting the smallest of k needs k times as much.",
    "Settings of the data-free, held-out, finite and private-prior recipes were chosen with MNIST in view; column "
    "compared says among how many settings the choice is paid for, in the failure probability of each certificate. The "
    "lists were written down after the tries. Rows of the test set do not pay for test errors that were looked at.",
    "Settings of Entropy-SG(L)D, clipped or not, were tried on MNIST too, and nothing pays for that: their rows are "
    "statements about settings fixed beforehand.",
    "The test images of MNIST are other people's handwriting than the training images: a bound for the law of the "
    "latter may lie below an error on the former.",
    "Optimistic rows assume that SGLD has converged, which nothing shows.",
)  # fmt: skip


def judge(found: pl.DataFrame, scale: Scale) -> Verdict:
    """Against published certificates of ten-class MNIST, and against the test errors."""
    risks = found.filter((pl.col("measures") == "0-1 risk") & (pl.col("certificate") != "test_set_clopper_pearson"))
    rigorous, trained = pl.col("status") == "rigorous", pl.col("trained")
    claims = (
        _above("Every rigorous certificate of a trained classifier is at least its test error.",
               risks.filter(rigorous & trained)),
        _above("So is every rigorous certificate of an untrained network.", risks.filter(rigorous & ~trained)),
        _above("So is every optimistic one.", risks.filter(pl.col("status") == "optimistic")),
        *(_less(risks, dataset, *pair) for dataset in DATASETS[scale] for pair in _PAIRS),
    )  # fmt: skip
    return Verdict(comparisons=tuple(_published(risks, DATASETS[scale][1])), claims=claims, notes=_NOTES)


def _published(risks: pl.DataFrame, dataset: str) -> Iterator[Comparison]:
    small = SmallCNN()
    ours = (
        f"ours: a CNN of {small.channels[0]} and twice {small.channels[1]} channels and {small.hidden} hidden units, "
        "trained on augmented images, at the recipe's failure probability, with the choice of its settings paid for"
    )
    for what, printed, origin, of in _PUBLISHED:
        value = _value(risks, dataset, "held-out", of)
        yield Comparison(what=f"{dataset}, {what}", paper=printed, ours=value, why=f"{origin}; {ours}")


def _above(sentence: str, rows: pl.DataFrame) -> Claim:
    """None where a test error lies above its certificate by no more than 95% confidence in it allows."""
    compared = rows.filter(pl.col("test_error").is_not_null())
    able = compared.filter(pl.col("value") < 1.0)
    below = able.filter(pl.col("below_test"))
    seen = [False if _beyond(row) else None for row in below.iter_rows(named=True)] or [True] * able.height
    said = "; ".join(_said(row) for row in below.iter_rows(named=True)) or "none below"
    vacuous = compared.height - able.height
    said = f"{able.height} compared{f' ({vacuous} more are 1, which nothing exceeds)' if vacuous else ''}; {said}"
    return Claim(sentence=sentence, holds=every(seen), evidence=said)


def _least(row: dict[str, Any]) -> float | None:
    return least_risk(row["test_error"], row["n_test"]) if row["n_test"] else None


def _beyond(row: dict[str, Any]) -> bool:
    least = _least(row)
    return least is None or row["value"] < least


def _said(row: dict[str, Any]) -> str:
    said = f"{row['dataset']} {row['recipe']}, {row['of']}, {row['certificate']}: {row['value']:.4f} < test error"
    least = _least(row)
    return f"{said} {row['test_error']:.4f}" + ("" if least is None else f" (risk at least {least:.4f} at 95%)")


def _value(risks: pl.DataFrame, dataset: str, name: str, of: str) -> float | None:
    found = risks.filter(dataset=dataset, recipe=name, of=of, status="rigorous")["value"]
    return None if found.is_empty() else float(found[0])


def _less(risks: pl.DataFrame, dataset: str, sentence: str, one: tuple[str, str], other: tuple[str, str]) -> Claim:
    first, second = (_value(risks, dataset, *each) for each in (one, other))
    evidence = " against ".join("missing" if value is None else f"{value:.4f}" for value in (first, second))
    return Claim(sentence=f"{dataset}: {sentence}.", evidence=evidence,
                 holds=None if first is None or second is None else first < second)  # fmt: skip
