"""The area under the ROC curve: how often, of one positive and one negative, the positive one has the larger score."""

import hashlib
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bounds._check import Array

Rows = NDArray[np.bool_]


def area(
    score: Array, positive: Rows, people: NDArray[np.int64] | None = None
) -> tuple[float, int]:
    """The mean over pairs of a positive and a negative record, ties counted half, and the records of the smaller class.

    Of people, each serves for one class, which a coin chooses, with the examples of it, and counts once. Then
    1 - area ≤ kl⁻¹(1 - mean, ln(1/δ)/records) with probability at least 1 - δ ("Area under the curve" in
    docs/guarantees.md). The mean is 0 where a class has no record.
    """
    whose, serves = np.arange(score.size), np.ones(score.size, np.bool_)
    if people is not None:
        whose, serves = people, _coins(score, positive, people)[people] == positive
    above, below = (_weighed(score, whose, serves & (positive == one)) for one in (True, False))
    wins = 0.5 * (below.share(above.scores, "left") + below.share(above.scores, "right"))
    return min(1.0, float((above.weights * wins).sum())), min(above.records, below.records)


def _coins(score: Array, positive: Rows, people: NDArray[np.int64]) -> NDArray[np.int64]:
    """A coin a person, by a generator whose seed is a hash of everything, so that no order of names suits it."""
    order = np.lexsort((score, positive, people))
    content = np.stack([people[order], positive[order], score[order]]).astype("<f8")
    digest = hashlib.blake2b(content.tobytes(), digest_size=16).digest()
    generator = np.random.default_rng(int.from_bytes(digest, "big"))
    return generator.integers(0, 2, int(people.max()) + 1)


class _Scores(NamedTuple):
    """The scores of one class in order, the weight of each, and how many records have them."""

    scores: Array
    weights: Array
    records: int

    def share(self, scores: Array, side: Literal["left", "right"]) -> Array:
        """The weight of those below each of some scores, or not above it."""
        grown = np.append(0.0, self.weights.cumsum())
        return grown[np.searchsorted(self.scores, scores, side=side)]


def _weighed(score: Array, whose: NDArray[np.int64], rows: Rows) -> _Scores:
    """All records weigh alike, and share their weight out to their examples."""
    sizes = np.bincount(whose[rows], minlength=1)
    records = int((sizes > 0).sum())
    order = score[rows].argsort(kind="stable")
    return _Scores(score[rows][order], 1.0 / (sizes[whose[rows]][order] * records), records)
