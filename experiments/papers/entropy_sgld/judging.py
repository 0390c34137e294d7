"""What verdicts on the figures have in common: gaps beyond chance, bounds that failed, notes on what was cut.

A generalisation gap is a test error minus a training error. Both are counts, so that a gap is said to be there, or not
to be there, only beyond two standard deviations of the difference of two counts; in between the claim is left open.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from experiments.papers.chance import above, below, count_noise, every
from experiments.papers.entropy_sgld.rows import BOUNDS, final
from experiments.papers.entropy_sgld.settings import Size
from experiments.random_labels import violations
from experiments.recipes import Scale
from experiments.studies.study import Claim, Comparison

Row = Mapping[str, Any]
PAPER_BOUNDS = ("dp_pac_bayes_2018", "dp_hoeffding_2018", "dp_chernoff_2018")
"""PAC-, H- and C-bound as the paper states them."""
CONVERGENCE = (
    "Every bound here is optimistic: it takes the weights for a draw from the chain's private target, and nothing "
    "shows that a chain has reached it."
)
UNFINISHED = "no such run has finished"
_ONE_RUN = (
    "One run a setting: what another seed would change is not measured. Differences of errors within two standard "
    "errors of the counts decide nothing; beyond them they may still be the seed's."
)
_LISTED = 12
_GIBBS = "Entropy-SGLD"
"""The algorithm whose Gibbs classifier the paper judges beside the weights (Section 5)."""


def noise_of(row: Row, prefix: str = "") -> float:
    """Two standard deviations of a gap between the two counts of this row."""
    return count_noise((row[f"{prefix}train_error"], row["n"]), (row[f"{prefix}test_error"], row["n_test"]))


def noise_between(one: Row, other: Row, name: str, other_name: str | None = None) -> float:
    """Two standard deviations of the difference of two runs' errors; of bounds, that of their training errors."""
    return count_noise(_counted(one, name), _counted(other, other_name or name))


def _counted(row: Row, name: str) -> tuple[float, float]:
    name = name if name.endswith("_error") else "train_error"
    return row[name], row["n_test" if name.endswith("test_error") else "n"]


def lower(one: Row, other: Row, name: str, other_name: str | None = None) -> bool | None:
    """Whether the first run's error or bound is lower, beyond the noise of counts."""
    return below(one[name], other[other_name or name], noise_between(one, other, name, other_name))


def gap(row: Row, prefix: str = "") -> float:
    """Test minus training error, of the weights or, with ``gibbs_``, of the Gibbs classifier."""
    return row[f"{prefix}test_error"] - row[f"{prefix}train_error"]


def _prefixes(row: Row) -> list[str]:
    judged = row["algorithm"] == _GIBBS and row["gibbs_train_error"] is not None and row["gibbs_test_error"] is not None
    return ["", "gibbs_"] if judged else [""]


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


def gaps_claim(sentence: str, rows: Sequence[Row], *, least: float | None = None, most: float | None = None) -> Claim:
    """Whether the gaps of all rows are above, or below, a value, beyond chance; None within it, and without rows.

    Entropy-SGLD has two gaps, of its mean and of its Gibbs classifier.
    """
    assert (least is None) != (most is None)
    if not rows:
        return Claim(sentence=sentence, holds=None, evidence=UNFINISHED)
    test, limit, word = (above, least, "above") if least is not None else (below, most, "below")
    assert limit is not None
    seen = [test(gap(row, prefix), limit, noise_of(row, prefix)) for row in rows for prefix in _prefixes(row)]
    told = "; ".join(f"{named(row)}: {', '.join(_errors(row, prefix) for prefix in _prefixes(row))}" for row in rows)
    return Claim(sentence=sentence, holds=every(seen),
                 evidence=f"test minus train {word} {limit:g}, beyond two standard errors? {told}")  # fmt: skip


def _errors(row: Row, prefix: str) -> str:
    kind = "Gibbs " if prefix else ""
    return f"{kind}train {row[f'{prefix}train_error']:.3f}, test {row[f'{prefix}test_error']:.3f}"


def nonvacuous_claim(sentence: str, rows: Sequence[Row], *, names: Sequence[str] = PAPER_BOUNDS) -> Claim:
    """Whether all named bounds lie below 1."""
    values = {f"{named(row)}, {name}": row[name] for row in rows for name in names if row[name] is not None}
    told = "; ".join(f"{what} {value:.3f}" for what, value in values.items())
    return Claim(sentence=sentence, holds=all(value < 1.0 for value in values.values()) if values else None,
                 evidence=told or UNFINISHED)  # fmt: skip


def violations_claim(found: pl.DataFrame, sentence: str, *, share: float = 0.05) -> Claim:
    """Whether at most a share of the recorded bounds lies below the test error of its classifier, beyond the test set's
    own error."""
    compared = sum(int(found[name].is_not_null().sum()) for name in BOUNDS)
    broken = violations(found)
    beyond = sum(not one["within_test_noise"] for one in broken)
    told = f"{len(broken)} of {compared} bounds lie below the test error of their classifier, {beyond} of them beyond "
    told += "the test set's own error"
    return Claim(sentence=sentence, holds=beyond <= share * compared if compared else None, evidence=told)


def violation_notes(found: pl.DataFrame) -> tuple[str, ...]:
    """Each bound below its test error, the first dozen one by one."""
    broken = violations(found)
    told = [
        f"Bound below a test error: {one['bound']} {one['value']:.4f} < {one['test_error']:.4f} "
        f"({one['algorithm']}, {one['labels']} labels, run {one['run']}, step {one['step']}"
        + (", within the test set's own error)." if one["within_test_noise"] else ").")
        for one in broken[:_LISTED]
    ]
    if len(broken) > _LISTED:
        told.append(f"{len(broken) - _LISTED} more bounds lie below a test error; the table has them all.")
    return tuple(told)


def scale_notes(scale: Scale, size: Size, *others: str) -> tuple[str, ...]:
    """What was cut, and what that means."""
    if scale == "paper":
        return (CONVERGENCE, _ONE_RUN, *others)
    part = f"{size.train_size} examples of {size.dataset}, chosen at random," if size.train_size else size.dataset
    return (
        CONVERGENCE,
        f"Scale {scale}: {part} and {size.epochs:g} epochs, where the paper has all of MNIST (thousands of epochs, it "
        "says) or of CIFAR-10 (2000); "
        f"n is {size.n} in every bound and in tau = sqrt(n). No chain is near its target so early.",
        "Outer steps are larger than the paper's, which hardly move in a short run, and so are those of SGLD.",
        _ONE_RUN,
        *others,
    )


def compared(what: str, paper: float | str | None, ours: float | None, why: str = "") -> Comparison:
    """A printed number beside ours."""
    return Comparison(what=what, paper=paper, ours=None if ours is None else round(ours, 4), why=why)


def named(row: Row) -> str:
    """A run in a sentence."""
    settings = [f"{row['algorithm']} on {row['labels']} labels", str(row["network"])]
    if row["tau"] is not None:
        settings.append(f"noise {row['thermal_noise']:.3g}")
    return ", ".join(settings)
