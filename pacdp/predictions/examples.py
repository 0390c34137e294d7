"""Labelled examples with the answers of one or several models, and whose they are."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from numbers import Real
from typing import Any

import numpy as np

from pacdp.predictions import columns, order
from pacdp.predictions.answers import Answers, from_probabilities, table_of
from pacdp.predictions.columns import Coded, Codes, Floats, Losses, Name, require_rows
from pacdp.store.record import record

MODEL = "your model"
"""What a single model is called."""
BY = "whoever gave these predictions"
_WHOLE = f"{BY}: they lie in 0 to 1, and whole numbers are 0 or 1"
"""Who says so of losses some of which were given as whole numbers: that none is larger here does not."""


class Counted:
    """Examples, one by one or with the people whose they are: then people are the independent records."""

    __slots__ = ()
    n: int
    """How many examples."""
    people: Any
    """Whose each of them is, as numbers [n]; or None."""
    record = "person"

    @property
    def unit(self) -> Any:
        """What is counted as one independent record."""
        return "example" if self.people is None else self.record

    @property
    def units(self) -> int:
        """How many independent records there are."""
        return self.n if self.people is None else len(np.unique(self.people))

    @property
    def new(self) -> str:
        """What the names of risks end in where people are counted, such as " of a new person"."""
        return "" if self.people is None else f" of a new {self.record}"


@record(eq=False)
class Examples(Counted):
    """What is certified: n examples and what each model said of them.

    Attributes:
        labels: the place of each example's class among ``classes``; None where only losses are known.
        classes: their names.
        models: answers by the name of the model; the first is the one of the headline.
        groups: a group for each example, or None.
        weights: of each example, in (0, 1], or None.
        record: what one of ``people`` is called, "person" or "document".
        range_by: who says in which range the losses lie that were given as such; empty for whoever gave them.
        remarks: what should be looked at.
    """

    n: int
    models: Mapping[str, Answers]
    labels: Codes | None = None
    classes: tuple[Name, ...] = ()
    groups: Coded | None = None
    people: Codes | None = None
    weights: Floats | None = None
    record: str = "person"
    range_by: str = ""
    remarks: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        people = self.people
        if people is None or not people.size:
            return
        if not (0 <= people.min() <= people.max() < people.size and np.bincount(people).all()):
            numbers = np.unique(people, return_inverse=True)[1].astype(np.int64)
            object.__setattr__(self, "people", numbers)  # from 0 on, each of which somebody has

    @property
    def units(self) -> int:
        """How many independent records there are; people are numbered without gaps."""
        return self.n if self.people is None else int(self.people.max()) + 1


def judged(
    labels: Any, predictions: Any, probabilities: Any, classes: Sequence[Name] | None
) -> Examples:
    """Models whose predictions, or probabilities, are compared with labels.

    Raises:
        ValueError: something does not fit; the sentence says which argument.
    """
    known = None if classes is None else columns.class_names(classes)
    named = columns.coded("labels", labels, known=known or ())
    if predictions is not None:
        names, where = (named.names, "the labels") if known is None else (known, "classes")
        places = columns.placed("labels", named, names, where)
        answers = dict[str, Answers]()
        for model, argument, said in _models("predictions", predictions):
            column = columns.coded(argument, said, known=names)
            require_rows(named.n, **{argument: column.n})
            answers[model] = Answers(predicted=columns.placed(argument, column, names, where))
        return Examples(n=named.n, models=answers, labels=places, classes=names)
    given = _models("probabilities", probabilities)
    tables = [table_of(table, argument) for _, argument, table in given]
    names, places = of_columns(named, max(table.shape[1] for table in tables), known)
    answers = dict[str, Answers]()
    for (model, argument, framed), table in zip(given, tables, strict=True):
        require_rows(named.n, **{argument: len(table)})
        if table.shape[1] != len(names):
            raise ValueError(
                f"{argument} must have a column for each of the {len(names)} classes, got {table.shape[1]}: pass the "
                "columns in the order of classes"
            )
        columns.require_class_order(argument, framed, names)
        answers[model] = from_probabilities(table, places, name=argument)
    return Examples(n=named.n, models=answers, labels=places, classes=names)


def of_columns(
    labels: Coded, width: int, classes: tuple[Name, ...] | None
) -> tuple[tuple[Name, ...], Codes]:
    """The classes that columns of probabilities stand for, and the labels as places among them."""
    if classes is None:
        if labels.kind == "text":
            raise ValueError(
                f"labels must be the numbers 0 to {width - 1} of the columns of probabilities, got text such as "
                f"{next(iter(labels.names))!r}: pass classes=[...] in the order of the columns"
            )
        least, most = int(labels.names[0]), int(labels.names[-1])
        if least < 0 or most >= width:
            raise ValueError(
                f"labels must lie from 0 to {width - 1}, as the columns of probabilities say, got "
                f"{least if least < 0 else most}: count classes from 0, or pass classes=[...]"
            )
        names: tuple[Name, ...] = tuple(range(width))
        whole = Coded(tuple(int(one) for one in labels.names), labels.codes)
        return names, columns.placed("labels", whole, names, "classes")
    return classes, columns.placed("labels", labels, classes, "classes")


def of_losses(losses: Any, found: Examples | None) -> Examples:
    """Models with their losses, {name: losses} or {model: {name: losses}}; of which nothing else is known, or these.

    Raises:
        ValueError: something does not fit; the sentence says what.
    """
    own = _loss_columns(losses, None if found is None else tuple(found.models))
    require_plain_names([*own, *(name for named in own.values() for name in named)])
    columns_of = [
        (f"losses of {model}", one) for model, named in own.items() for one in named.values()
    ]
    if found is None:
        found = Examples(n=columns_of[0][1].size, models=dict.fromkeys(own, Answers()))
    for argument, column in columns_of:
        require_rows(found.n, **{argument: column.size})
    models = {
        model: replace(answers, losses=own.get(model, {}))
        for model, answers in found.models.items()
    }
    given = (own.values() if isinstance(own, Mapping) else [own] for own in losses.values())
    whole = any(map(columns.is_whole, chain.from_iterable(given)))
    return replace(found, models=models, range_by=_WHOLE if whole else "")


def real_numbers(
    labels: Any, predictions: Any, within: Sequence[float | int], *, alone: bool = True
) -> Examples:
    """Models that predict a number in an interval, by their absolute and squared errors as shares of the largest.

    Args:
        alone: whether nobody says whose the examples are.

    Raises:
        ValueError: a label outside, or something that is no number; the sentence says which argument.
    """
    ends: list[Any] = list(within) if isinstance(within, Iterable) else [within]
    if len(ends) != 2 or not all(isinstance(one, Real) for one in ends):
        raise ValueError(f"within must be two numbers, the smaller first, got {within!r}")
    low, high = map(float, ends)
    width = high - low
    if not 1e-150 <= width <= 1e150:  # so that its square is a number too
        raise ValueError(
            f"within must be two numbers, the smaller first, from 1e-150 to 1e150 apart, got {within!r}"
        )
    largest = max(-low, high)
    if largest >= 2.0**53 and largest > 1000.0 * width:  # so that rounding tells in the errors
        raise ValueError(
            f"within must be wider beyond 2**53, where numbers are rounded, got {within!r}: subtract what labels, "
            "predictions and both ends share"
        )
    truth = columns.reals("labels", labels)
    if (out := np.flatnonzero((truth < low) | (truth > high))).size:
        raise ValueError(
            f"labels must lie in {low:.15g} to {high:.15g}, got {truth[out[0]]:.15g} in row "
            f"{int(out[0])}: within is what is possible, known without these examples"
        )
    losses, remarks, predicted = dict[str, dict[str, Losses]](), list[str](), list[Floats]()
    for model, argument, said in _models("predictions", predictions):
        told = columns.reals(argument, said)
        require_rows(truth.size, **{argument: told.size})
        predicted.append(told)
        gap = np.minimum(1.0, np.abs(truth - told.clip(low, high)) / width)
        losses[model] = {
            f"absolute error over {width:.15g}": gap,
            f"squared error over {width * width:.15g}": gap * gap,
        }
        spread = float(np.var(truth)) / width**2
        if spread > 0.0:
            remarks.append(
                f"R-squared of {model} is {1.0 - float(np.mean(gap * gap)) / spread:.4f} here: one minus the "
                "mean squared error of all rows over the variance of their labels, which is not certified"
            )
    if alone:
        remarks += order.told_by_order([], {"labels": truth}, predicted)
    remarks.append(
        f"every prediction is cut off at {low:.15g} and {high:.15g} before its error is taken"
    )
    models = {model: Answers(losses=own) for model, own in losses.items()}
    return Examples(n=truth.size, models=models, remarks=tuple(remarks))


def _loss_columns(losses: Any, models: tuple[str, ...] | None) -> dict[str, dict[str, Losses]]:
    """Losses by model and name."""
    if (
        not isinstance(losses, Mapping)
        or not losses
        or not all(isinstance(name, str) and name for name in losses)
    ):
        raise ValueError('losses must be columns by name, such as {"loss": [...]}: name each loss')
    by_model = {name: own for name, own in losses.items() if isinstance(own, Mapping)}
    if by_model and len(by_model) < len(losses):
        raise ValueError(
            "losses must be columns by name, or for each model columns by name, got both: choose one"
        )
    if not by_model:
        if models is not None and len(models) > 1:
            raise ValueError(
                f"losses must say whose they are, one of {', '.join(models)}: pass them by model"
            )
        by_model = {models[0] if models else MODEL: losses}
    if strange := [model for model in by_model if models is not None and model not in models]:
        raise ValueError(
            f"losses must be those of the models, got {strange[0]!r}: one of {', '.join(models or ())}"
        )
    if empty := [model for model, own in by_model.items() if not own]:
        raise ValueError(
            f"losses of {empty[0]} must name at least one column, got none: leave the model out"
        )
    return {model: {name: columns.losses(name, column) for name, column in own.items()}
            for model, own in by_model.items()}  # fmt: skip


def require_plain_names(names: Iterable[str]) -> None:
    """Refuse names of models and losses that no sentence can hold, or a difference of two could not be read by."""
    names = list(names)
    if unread := [name for name in names if not (name.strip() and name.isprintable())]:
        raise ValueError(
            f"{unread[0]!r} is no name for a sentence: write it in one line, with a letter or more"
        )
    if strange := [name for name in names if " against " in name]:
        raise ValueError(
            f"{strange[0]!r} is no name of a model here, since differences are called 'one against other': write it "
            "without ' against '"
        )


def _models(argument: str, given: Any) -> list[tuple[str, str, Any]]:
    """What each model said, with its name and what the argument is called in sentences."""
    if not isinstance(given, Mapping):
        return [(MODEL, argument, given)]
    if not given or not all(isinstance(name, str) and name.strip() for name in given):
        raise ValueError(
            f"{argument} of several models must be given by their names, got {list(given)!r}: name each"
        )
    require_plain_names(given)
    return [
        (name, argument if name == MODEL else f"{argument} of {name}", said)
        for name, said in given.items()
    ]
