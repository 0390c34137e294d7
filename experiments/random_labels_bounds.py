"""Claims on bounds: whether they are below 1, below a test error, and which is tighter."""

from collections.abc import Sequence
from typing import Any

import polars as pl

from experiments.claims import TEST_FAILURE_PROB, Claim, below, count_noise, every, least_risk
from experiments.config import Run
from experiments.figures import style
from experiments.figures.numbers import up
from experiments.random_labels_gaps import UNFINISHED, Row, named

LETTERS = {
    "dp_pac_bayes_2018": "PAC-Bayes bound", "dp_hoeffding_2018": "H-bound", "dp_chernoff_2018": "C-bound",
}  # fmt: skip
"""The bounds as the paper states and names them."""
PAPER_BOUNDS = tuple(LETTERS)
VACUOUS = 0.999
"""A bound from here on can hardly lie below a test error, and says nothing by not doing so."""


def tested(bound: str) -> str:
    """The column with the test error of the classifier which the bound speaks of."""
    return "gibbs_test_error" if bound in style.GIBBS_BOUNDS else "test_error"


def excess(row: Row, bound: str) -> float:
    """Bound minus the test error of its classifier."""
    return row[bound] - row[tested(bound)]


def violations(table: pl.DataFrame) -> list[dict[str, Any]]:
    """Every recorded row and bound where the bound lies below the test error of the classifier it speaks of.

    A test error is itself an estimate: ``test_error_at_least`` is its lower confidence limit at 0.05 (kl-Chernoff),
    and a bound above that limit is ``within_test_noise``. It is listed all the same.
    """
    found = []
    for row, name, value, test in _compared(table):
        if value < test:
            least = least_risk(test, row["n_test"])
            where = {key: row[key] for key in ("algorithm", "labels", "thermal_noise", "run", "step")}
            what = {"bound": name, "value": value, "test_error": test, "n_test": row["n_test"]}
            found.append(where | what | {"test_error_at_least": least, "within_test_noise": value >= least})
    return found


def _compared(table: pl.DataFrame) -> list[tuple[dict[str, Any], str, float, float]]:
    found = []
    for row in table.iter_rows(named=True):
        for name in style.CONVERGED:
            value, test = row.get(name), row[tested(name)]
            if value is not None and test is not None:
                found.append((row, name, value, test))
    return found


def violations_claim(table: pl.DataFrame, sentence: str, *, share: float | None = None) -> Claim:
    """Whether at most a share of the recorded bounds below 0.999 lies below the test error of its classifier, beyond
    the test set's own error.

    Args:
        share: None takes the probability with which each bound may fail.
    """
    failure_prob = Run().failure_prob
    values = [value for _, _, value, _ in _compared(table)]
    able = sum(value < VACUOUS for value in values)
    broken = [one for one in violations(table) if one["value"] < VACUOUS]
    beyond = sum(not one["within_test_noise"] for one in broken)
    told = (
        f"{len(broken)} of {able} bounds below {VACUOUS:g} lie below the test error of their classifier, {beyond} of "
        f"them below the {1.0 - TEST_FAILURE_PROB:.0%} Chernoff limit of that error; {len(values) - able} more are "
        f"vacuous and cannot. Each may fail with probability {failure_prob:g}, those of a run not independently"
    )
    holds = beyond <= (failure_prob if share is None else share) * able if able else None
    return Claim(sentence=sentence, holds=holds, evidence=told)


def nonvacuous_claim(sentence: str, rows: Sequence[Row], *, guessing: float) -> Claim:
    """Whether the paper's bounds of all rows lie below 1; told beside it how many lie below the error of guessing."""
    values = [row[name] for row in rows for name in PAPER_BOUNDS if row[name] is not None]
    if not values:
        return Claim(sentence=sentence, holds=None, evidence=UNFINISHED)
    told = "; ".join(
        f"{named(row)}: " + ", ".join(f"{word} {up(row[name])}" for name, word in LETTERS.items()
                                      if row[name] is not None)
        for row in rows
    )  # fmt: skip
    better = sum(value < guessing for value in values)
    beside = f"below 1; {better} of {len(values)} also below the error of guessing, {guessing:g}"
    if any(row["labels"] == "random" for row in rows):
        beside += ", as none on random labels should be"
    return Claim(sentence=sentence, holds=all(value < 1.0 for value in values), evidence=f"{told} ({beside})")


def tightness_claim(sentence: str, rows: Sequence[Row]) -> Claim:
    """Whether the PAC-Bayes bound exceeds the test error of its classifier, the Gibbs classifier, by less than H- and
    C-bound exceed theirs, the mean's; None within the noise of the errors."""
    rows = [row for row in rows if all(row[name] is not None for name in (*PAPER_BOUNDS, "gibbs_test_error"))]
    if not rows:
        return Claim(sentence=sentence, holds=None, evidence=UNFINISHED)
    seen, told = [], []
    for row in rows:
        over = {name: excess(row, name) for name in PAPER_BOUNDS}
        noise = count_noise((row["test_error"], row["n_test"]), (row["gibbs_test_error"], row["n_test"]),
                            (row["train_error"], row["n"]), (row["gibbs_train_error"], row["n"]))  # fmt: skip
        seen += [below(over["dp_pac_bayes_2018"], over[name], noise) for name in PAPER_BOUNDS[1:]]
        told.append(f"{named(row)}: " + ", ".join(f"{LETTERS[name]} {value:.4f}" for name, value in over.items())
                    + f", two standard errors {noise:.4f}")  # fmt: skip
    return Claim(sentence=sentence, holds=every(seen), evidence=f"bound minus test error: {'; '.join(told)}")


def epsilon_why(row: Row | None, *, paper_n: int) -> str:
    """Why epsilon = 2 beta tau oscillation / n is not the paper's: the oscillation, and n where it differs."""
    if row is None or row["epsilon"] is None:
        return "not run"
    oscillation = row["epsilon"] * row["n"] / (2.0 * (row.get("beta") or 1.0) * row["tau"])
    size = "" if row["n"] == paper_n else f", and n is {row['n']}"
    return f"ours has the loss's exact oscillation, {oscillation:.3g}, for the paper's 4{size}"
