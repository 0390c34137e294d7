"""What verdicts on the figures have in common: the runs of a table, bounds that failed, notes on what was cut."""

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from experiments.claims import Comparison
from experiments.figures.style import CHAIN_BOUNDS
from experiments.papers.entropy_sgld.rows import final
from experiments.papers.entropy_sgld.settings import Size
from experiments.random_labels_bounds import violations
from experiments.random_labels_gaps import private
from experiments.random_labels_learning import guessing, learning_notes
from experiments.recipes import Scale

Row = Mapping[str, Any]
CONVERGENCE = (
    "Every bound here is optimistic: it takes the weights for a draw from the chain's private target, and nothing "
    "shows that a chain has reached it."
)
_ONE_RUN = (
    "One run a setting: what another seed would change is not measured. Differences of errors within two standard "
    "errors of the counts decide nothing; beyond them they may still be the seed's."
)
_LISTED = 12


def last(found: pl.DataFrame, **where: str | float | None) -> list[dict[str, Any]]:
    """The last records of the runs at these values of columns; None stands for null."""
    chosen = final(found)
    for name, value in where.items():
        if value is None:
            chosen = chosen.filter(pl.col(name).is_null())
        elif isinstance(value, float):
            chosen = chosen.filter((pl.col(name) / value - 1.0).abs() < 1e-9)
        else:
            chosen = chosen.filter(pl.col(name) == value)
    return chosen.to_dicts()


def first(found: pl.DataFrame, **where: str | float | None) -> dict[str, Any] | None:
    """The last record of the one run there; None where there is none."""
    rows = last(found, **where)
    return rows[0] if rows else None


def number(row: Row | None, name: str) -> float | None:
    """A column of a row that may be missing."""
    return None if row is None else row[name]


def violation_notes(found: pl.DataFrame) -> tuple[str, ...]:
    """Each bound below its test error, the first dozen one by one."""
    broken = violations(found)
    told = [
        f"Bound below a test error: {CHAIN_BOUNDS[one['bound']]} {one['value']:.4f} < {one['test_error']:.4f} "
        f"({one['algorithm']}, {one['labels']} labels, run {one['run']}, step {one['step']}"
        + (", within the test set's own error)." if one["within_test_noise"] else ").")
        for one in broken[:_LISTED]
    ]
    if len(broken) > _LISTED:
        told.append(f"{len(broken) - _LISTED} more bounds lie below a test error; the table has them all.")
    return tuple(told)


def scale_notes(scale: Scale, size: Size, found: pl.DataFrame, *others: str) -> tuple[str, ...]:
    """What was cut, what that means, and how much was learnt."""
    rows = final(found).to_dicts()
    learning = learning_notes(rows, guessing(size.dataset))
    if scale == "paper":
        return (CONVERGENCE, _ONE_RUN, *learning, *others)
    part = f"{size.train_size} examples of {size.dataset}, chosen at random," if size.train_size else size.dataset
    return (
        CONVERGENCE,
        f"Scale {scale}: {part} and {size.epochs:g} epochs, where the paper has all of MNIST (thousands of epochs, it "
        f"says) or of CIFAR-10 (2000). {_examples(rows)}No chain is near its target so early.",
        "Outer steps are larger than the paper's, which hardly move in a short run, and so are those of SGLD.",
        _ONE_RUN,
        *learning,
        *others,
    )


def _examples(rows: Sequence[Row]) -> str:
    """n in the bounds of each algorithm that has any, and whether its tau is sqrt(n)."""
    found: dict[str, list[str]] = {}
    for name in dict.fromkeys(row["algorithm"] for row in rows if row["epsilon"] is not None):
        own = [row for row in rows if row["algorithm"] == name and row["epsilon"] is not None]
        sizes = ", ".join(str(n) for n in sorted({row["n"] for row in own}))
        root = " with tau = sqrt(n)" if all(private(row) for row in own) else ""
        found.setdefault(f"{sizes}{root}", []).append(name)
    told = ", ".join(f"{what} for {' and '.join(names)}" for what, names in found.items())
    return f"In bounds n is {told}. " if told else ""


def compared(what: str, paper: float | str | None, ours: float | None, why: str = "") -> Comparison:
    """A printed number beside ours."""
    return Comparison(what=what, paper=paper, ours=ours, why=why)
