"""What a model said of each example, reduced to the few numbers a row that certificates need."""

from dataclasses import field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pacdp.predictions.columns import Codes, Floats, Losses
from pacdp.store.record import Values, record

TOLERANCE = 1e-3
"""How far from one the probabilities of an example may sum, for those written with three or more decimals, and how far
outside [0, 1] one of them may lie."""
_LOOSEST = 0.1
"""How far from one those written with two decimals may sum, however many they are: half a unit for each up to there."""
_ROWS = 65_536
_KNOWN = ("predicted", "confidence", "half_brier", "rank", "mark")
"""What may be known of each example besides losses."""
_CARRIED = (*_KNOWN, "score")


@record(eq=False)
class Answers:
    """One model's answers on the examples.

    Attributes:
        predicted: int64 [n], the place of the class that was predicted; -1 where two have the largest probability: an
            error, and the prediction of no class. None where only losses are known.
        confidence: [n], the largest probability; None without probabilities, as the next two.
        half_brier: [n], half the Brier loss.
        rank: int64 [n], how many classes have at least the probability of the label; 1 is best, and ties count against.
        mark: [n], a number that rows with the same label and probabilities share; NaN where one of these is 1.
        score: [n], the probability of the second of two classes, or what grows with it; None of more.
        losses: further losses in [0, 1], [n] each, by name; truth values are errors, and counted exactly.
    """

    predicted: Codes | None = None
    confidence: Floats | None = None
    half_brier: Floats | None = None
    rank: Codes | None = None
    mark: Floats | None = None
    score: Floats | None = None
    losses: dict[str, Losses] = field(default_factory=dict[str, Losses])

    def columns(self) -> list[NDArray[Any]]:
        """All that is known of each example, a column [n] each."""
        own = (*(getattr(self, name) for name in _KNOWN), *self.losses.values())
        return [column for column in own if column is not None]

    def taken(self, rows: NDArray[Any]) -> "Answers":
        """The answers on some examples, in the order of ``rows``."""
        known = {name: getattr(self, name) for name in _CARRIED}
        own = {name: one if one is None else one[rows] for name, one in known.items()}
        return Answers(**own, losses={name: one[rows] for name, one in self.losses.items()})


def from_probabilities(
    probabilities: Any, labels: Codes, *, name: str = "probabilities"
) -> Answers:
    """The answers of a table [n, classes] of probabilities, read some rows at a time.

    Raises:
        ValueError: another shape, a NaN, a number outside [0, 1], or a row that does not sum to one.
    """
    table = table_of(probabilities, name)
    parts = [_part(table[at : at + _ROWS], labels[at : at + _ROWS], name, at)
             for at in range(0, len(table), _ROWS)]  # fmt: skip
    return joined(parts)


def table_of(probabilities: Any, name: str) -> NDArray[Any]:
    """The table [n, classes] as an array.

    Raises:
        ValueError: it is none, has another number of axes or a single column.
    """
    if np.ma.is_masked(probabilities):
        raise ValueError(
            f"{name} must have no gaps, got masked ones: fill them in, or drop their rows everywhere"
        )
    try:
        table = np.asarray(probabilities)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ValueError(
            f"{name} must be a table of numbers, one row for each example, got none ({error})"
        ) from error
    if table.ndim != 2 or table.shape[1] < 2 or table.dtype.kind not in "fiub":
        raise ValueError(
            f"{name} must be numbers with one row for each example and one column for each of at least two classes, "
            f"got {table.dtype} of shape {table.shape}: for two classes pass the columns 1 - p and p"
        )
    return table


def joined(parts: list[Answers]) -> Answers:
    """The answers of consecutive rows as one, with the columns that all of them have."""
    known: Values = {name: [getattr(part, name) for part in parts] for name in _CARRIED}
    losses: Values = {
        name: np.concatenate([part.losses[name] for part in parts]) for name in parts[0].losses
    }
    own = {
        name: np.concatenate(one) for name, one in known.items() if all(x is not None for x in one)
    }
    return Answers(**own, losses=losses)


def _part(rows: NDArray[Any], labels: Codes, name: str, first: int) -> Answers:
    p = rows.astype(np.float64, order="C")  # whose sums are the same for any layout
    inside = (p >= -TOLERANCE) & (p <= 1.0 + TOLERANCE)
    if not inside.all():
        row, column = (int(place[0]) for place in np.nonzero(~inside))
        raise ValueError(
            f"{name} must lie in [0, 1], got {float(p[row, column])!r} in row {first + row}, column {column}: "
            "pass softmax or sigmoid outputs, not logits, and no NaN"
        )
    total = p.sum(1)
    two_decimals = bool((np.round(p, 2) == p).all())
    most = min(0.005 * p.shape[1] + 1e-9, _LOOSEST) if two_decimals else TOLERANCE
    if (off := np.flatnonzero(np.abs(total - 1.0) > most)).size:
        raise ValueError(
            f"{name} must sum to one in every row, got {float(total[off[0]]):.6g} in row {first + int(off[0])}: "
            "pass softmax outputs of single precision; for several labels an example pass each as a question of its own"
        )
    p = p.clip(0.0, 1.0)
    predicted, confidence = p.argmax(1), p.max(1)
    tied = (p == confidence[:, None]).sum(1) > 1
    of_label = p[np.arange(len(p)), labels]
    salt = np.random.default_rng(0).normal(size=p.shape[1])
    brier = 0.5 * ((p * p).sum(1) - of_label * of_label + (1.0 - of_label) ** 2)
    return Answers(
        predicted=np.where(tied, -1, predicted).astype(np.int64),
        confidence=confidence,
        half_brier=np.clip(brier, 0.0, 1.0),
        rank=(p >= of_label[:, None]).sum(1).astype(np.int64),
        mark=np.where(confidence < 1.0, (p * salt).sum(1) + 7.0 * labels, np.nan),
        score=p[:, 1].copy() if p.shape[1] == 2 else None,
    )
