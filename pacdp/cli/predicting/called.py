"""What people call the columns of a table: y_true is label, prob_cat the probability of the class cat."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from pacdp.predictions.columns import PEOPLE

PROBABILITY = re.compile(r"p(0|[1-9]\d*)")
_OF_CLASS = re.compile(r"(?:p|prob|proba|probability)_(.+)", re.IGNORECASE)
_OTHERS = {
    "label": "labels y_true true truth gold target ground_truth actual",
    "prediction": "predictions predicted pred y_pred y_hat predicted_label predicted_class",
    "person": " ".join(PEOPLE),
    "group": "groups subgroup",
    "p1": "prob proba probability y_prob y_score score risk",
}
"""Names that a column has elsewhere."""
_NAMES = {other: name for name, others in _OTHERS.items() for other in (name, *others.split())}


class Called(NamedTuple):
    """The columns by the names of docs/predictions.md.

    Attributes:
        names: of every column, in order.
        classes: those whose probabilities have columns, in order, where columns name them.
        remarks: which columns were read as which.
    """

    names: list[str]
    classes: tuple[str, ...]
    remarks: tuple[str, ...]


def called(columns: Sequence[str]) -> Called:
    """What each column is called here: by its own name, by another for the same, or by its class.

    A name that is taken, or that two columns would get, stays with neither of the others.
    """
    names = list(columns)
    plain = [_NAMES.get(one.strip().casefold().replace(" ", "_"), "") for one in columns]
    for place, name in enumerate(plain):
        if name and name not in columns and plain.count(name) == 1:
            names[place] = name
    classes = list[str]()
    if not any(PROBABILITY.fullmatch(one) for one in names):
        soft = [
            (place, found[1])
            for place, one in enumerate(columns)
            if (found := _OF_CLASS.fullmatch(one))
        ]
        for place, (column, name) in enumerate(soft):
            names[column] = f"p{place + (len(soft) == 1)}"  # one alone is the second of two classes
            classes.append(name)
    read = [f"{one} as {name}" for one, name in zip(columns, names, strict=True) if one != name]
    remarks = (f"columns were read by other names: {', '.join(read)}",) if read else ()
    return Called(names, tuple(classes), remarks)
