"""Gaps between training and test error beyond chance, and claims on them: for the random-labels study and the figures.

A generalisation gap is a test error minus a training error. Both are counts, so that a gap is said to be there, or not
to be there, only beyond two standard deviations of the difference of two counts; in between the claim is left open.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from experiments.claims import Claim, above, below, count_noise, every

Row = Mapping[str, Any]
HIGH = 0.1
"""A gap that is called high."""
OVERFITS = 0.05
"""A gap above which random labels are called overfitted, and below which a generalization error is called low."""
HARMLESS = 0.02
"""A gap that counts as almost none."""
UNFINISHED = "no such run has finished"
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


def prefixes(row: Row) -> list[str]:
    """Of the classifiers whose errors are judged: the weights', and Entropy-SGLD's Gibbs classifier's."""
    judged = row["algorithm"] == _GIBBS and row["gibbs_train_error"] is not None and row["gibbs_test_error"] is not None
    return ["", "gibbs_"] if judged else [""]


def named(row: Row) -> str:
    """A run in a sentence."""
    settings = [f"{row['algorithm']} on {row['labels']} labels"]
    if row.get("network") is not None:
        settings.append(str(row["network"]))
    if row["tau"] is not None:
        settings.append(f"noise {row['thermal_noise']:.3g}")
    return ", ".join(settings)


def private(row: Row) -> bool:
    """Whether the run is at the private setting, tau = sqrt(n)."""
    return row["tau"] is not None and math.isclose(row["tau"], math.sqrt(row["n"]), rel_tol=1e-9)


def gaps_claim(sentence: str, rows: Sequence[Row], *, least: float | None = None, most: float | None = None) -> Claim:
    """Whether the gaps of all rows are above, or below, a value, beyond chance; None within it, and without rows.

    Entropy-SGLD has two gaps, of its mean and of its Gibbs classifier.
    """
    assert (least is None) != (most is None)
    if not rows:
        return Claim(sentence=sentence, holds=None, evidence=UNFINISHED)
    limit, word = (least, "above") if least is not None else (most, "below")
    told = "; ".join(f"{named(row)}: {', '.join(_errors(row, prefix) for prefix in prefixes(row))}" for row in rows)
    return Claim(sentence=sentence, holds=every(_gaps(rows, least=least, most=most)),
                 evidence=f"test minus train {word} {limit:g}, beyond two standard errors? {told}")  # fmt: skip


def _gaps(rows: Sequence[Row], *, least: float | None = None, most: float | None = None) -> list[bool | None]:
    found = [(gap(row, prefix), noise_of(row, prefix)) for row in rows for prefix in prefixes(row)]
    if least is not None:
        return [above(value, least, noise) for value, noise in found]
    return [below(value, most, noise) for value, noise in found if most is not None]


def _errors(row: Row, prefix: str) -> str:
    kind = "Gibbs " if prefix else ""
    return f"{kind}train {row[f'{prefix}train_error']:.3f}, test {row[f'{prefix}test_error']:.3f}"


def contrast_claim(last: Sequence[Row]) -> Claim:
    """The paper's findings on random labels in one: which algorithms fit them, and that the private one does not."""
    sentence = ("SGD and Entropy-SGD at thermal noise 0.005 and below fit random labels, Entropy-SGLD at "
                "tau = sqrt(n) does not.")  # fmt: skip
    random = [row for row in last if row["labels"] == "random"]
    sgd = [row for row in random if row["algorithm"] == "SGD"]
    cold = [row for row in random if row["algorithm"] == "Entropy-SGD" and row["thermal_noise"] < 0.0051]
    harmless = [row for row in random if row["algorithm"] == "Entropy-SGLD" and private(row)]
    if not (sgd and cold and harmless):
        return Claim(sentence=sentence, holds=None, evidence="not all of these runs have finished")
    told = "; ".join(f"{named(row)}: {', '.join(f'{gap(row, prefix):.3f}' for prefix in prefixes(row))}"
                     for row in (*sgd, *cold, *harmless))  # fmt: skip
    return Claim(
        sentence=sentence, holds=every(_gaps([*sgd, *cold], least=OVERFITS) + _gaps(harmless, most=HARMLESS)),
        evidence=f"test minus train, beyond two standard errors above {OVERFITS:g} or below {HARMLESS:g}? {told}",
    )  # fmt: skip
