"""Labelled examples with the answers of one or several models, and whose they are."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pacdp.predictions import columns
from pacdp.predictions.answers import Answers, from_probabilities, table_of
from pacdp.predictions.columns import Coded, Codes, Floats, Losses, Name, require_rows
from pacdp.predictions.remarks import remarks

MODEL = "your model"
"""What a single model is called."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Examples:
    """What is certified: n examples and what each model said of them.

    Attributes:
        labels: the place of each example's class among ``classes``; None where only losses are known.
        classes: their names.
        models: answers by the name of the model; the first is the one of the headline.
        groups: a group for each example, or None.
        people: whose each example is, as places, or None: then people are the unit that is counted.
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

    @property
    def unit(self) -> str:
        """What is counted as one independent record."""
        return "example" if self.people is None else self.record

    @property
    def new(self) -> str:
        """What the names of risks end in where people are counted, such as " of a new person"."""
        return "" if self.people is None else f" of a new {self.record}"

    @property
    def units(self) -> int:
        """How many of them there are."""
        return self.n if self.people is None else int(np.unique(self.people).size)


def examples(
    labels: Any = None,
    predictions: Any = None,
    probabilities: Any = None,
    *,
    losses: Any = None,
    classes: Sequence[Name] | None = None,
    groups: Any = None,
    people: Any = None,
    weights: Any = None,
    ids: Any = None,
) -> Examples:
    """The examples that :func:`pacdp.certify_predictions` was given, checked.

    Raises:
        ValueError: something is missing or does not fit; the sentence says which argument.
    """
    if predictions is not None and probabilities is not None:
        raise ValueError(
            "give predictions or probabilities, not both: predictions follow from probabilities"
        )
    answers = predictions if probabilities is None else probabilities
    if answers is None and losses is None:
        raise ValueError(
            "give predictions, probabilities or losses: without them there is nothing to certify"
        )
    if labels is None and answers is not None:
        raise ValueError("give labels: predictions and probabilities are judged by them")
    if labels is not None and answers is None:
        raise ValueError("give predictions or probabilities beside the labels, or losses alone")
    if labels is None and classes is not None:
        raise ValueError("classes go with labels, and losses alone have none: leave them out")
    if labels is None:
        found = of_losses(losses)
    else:
        known = None if classes is None else columns.class_names(classes)
        coded = columns.coded("labels", labels, known=known or ())
        found = judged(coded, predictions, probabilities, known)
        if losses is not None:
            found = _with_losses(found, losses)
    return described(found, groups=groups, people=people, weights=weights, ids=ids)


def described(
    found: Examples, *, groups: Any, people: Any, weights: Any, ids: Any = None
) -> Examples:
    """The same examples with their groups, people and weights."""
    if people is not None and weights is not None:
        raise ValueError(
            "give people or weights, not both: people are counted alike, whatever their examples weigh"
        )
    coded = {name: None if given is None else columns.coded(name, given)
             for name, given in (("groups", groups), ("people", people), ("ids", ids))}  # fmt: skip
    heavy = None if weights is None else columns.weights(weights)
    rows = {name: None if one is None else one.n for name, one in coded.items()}
    require_rows(found.n, **rows, weights=None if heavy is None else heavy.size)
    if (once := coded["ids"]) is not None:
        _require_different(once)
    owners = coded["people"]
    if owners is not None and not any(owners.codes):
        raise ValueError(
            f"people must be at least two, got {owners.names[0]!r} in every row: one person says nothing of others; "
            "leave people out only if the examples are independent"
        )
    told = remarks(found.models, found.labels, classes=found.classes, people=owners, groups=coded["groups"],
                   known_once=once is not None)  # fmt: skip
    return _by_content(replace(
        found, remarks=(*found.remarks, *told), groups=coded["groups"], people=None if owners is None else owners.codes,
        weights=heavy,
    ))  # fmt: skip


def _by_content(found: Examples) -> Examples:
    """The same examples sorted by all that is known of them, so that no sum depends on where a row stood in a file.

    Counts of errors do not, and stay as they are.
    """
    known = [column for said in found.models.values() for column in said.columns()]
    if (
        found.people is None
        and found.weights is None
        and not any(column.dtype.kind == "f" for column in known)
    ):
        return found
    groups = None if found.groups is None else found.groups.codes
    known += [
        column
        for column in (found.labels, groups, found.people, found.weights)
        if column is not None
    ]
    order = np.lexsort(known)

    def of(column: Any) -> Any:
        return None if column is None else column[order]

    return replace(
        found, models={name: said.taken(order) for name, said in found.models.items()}, labels=of(found.labels),
        groups=None if found.groups is None else Coded(found.groups.names, of(found.groups.codes)),
        people=of(found.people), weights=of(found.weights),
    )  # fmt: skip


def judged(
    labels: Coded, predictions: Any, probabilities: Any, classes: tuple[Name, ...] | None
) -> Examples:
    """Models whose predictions are compared with labels."""
    if predictions is not None:
        names = labels.names if classes is None else classes
        places = (
            labels.codes if classes is None else columns.placed("labels", labels, names, "classes")
        )
        where = "the labels" if classes is None else "classes"
        answers = {model: Answers(predicted=_predicted(model, said, labels.n, names, where))
                   for model, said in _models("predictions", predictions).items()}  # fmt: skip
        return Examples(n=labels.n, models=answers, labels=places, classes=names)
    tables: dict[str, Any] = {
        model: table_of(table, _argument("probabilities", model))
        for model, table in _models("probabilities", probabilities).items()
    }
    width = max((table.shape[1] for table in tables.values()), default=2)
    names, places = of_columns(labels, width, classes)
    for model, table in tables.items():
        argument = _argument("probabilities", model)
        require_rows(labels.n, **{argument: len(table)})
        if table.shape[1] != len(names):
            raise ValueError(
                f"{argument} must have a column for each of the {len(names)} classes, got {table.shape[1]}: pass the "
                "columns in the order of classes"
            )
    answers = {model: from_probabilities(table, places, name=_argument("probabilities", model))
               for model, table in tables.items()}  # fmt: skip
    return Examples(n=labels.n, models=answers, labels=places, classes=names)


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


def of_losses(losses: Any) -> Examples:
    """Models of which losses alone are known: {name: losses}, or {model: {name: losses}}."""
    found = _loss_columns(losses, None)
    sizes = {
        f"losses of {model}": column.size for model, own in found.items() for column in own.values()
    }
    n = next(iter(sizes.values()))
    require_rows(n, **sizes)
    return Examples(n=n, models={model: Answers(losses=own) for model, own in found.items()})


def _with_losses(found: Examples, losses: Any) -> Examples:
    own = _loss_columns(losses, tuple(found.models))
    for model, named in own.items():
        require_rows(found.n, **{f"losses of {model}": column.size for column in named.values()})
    models = {
        model: replace(answers, losses=own.get(model, {}))
        for model, answers in found.models.items()
    }
    return replace(found, models=models)


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


def _models(argument: str, given: Any) -> dict[str, Any]:
    """What each model said, by its name."""
    if not isinstance(given, Mapping):
        return {MODEL: given}
    if not given or not all(isinstance(name, str) and name.strip() for name in given):
        raise ValueError(
            f"{argument} of several models must be given by their names, got {list(given)!r}: name each"
        )
    return dict(given)


def _predicted(model: str, said: Any, n: int, classes: tuple[Name, ...], where: str) -> Codes:
    argument = _argument("predictions", model)
    column = columns.coded(argument, said, known=classes)
    require_rows(n, **{argument: column.n})
    return columns.placed(argument, column, classes, where)


def _argument(argument: str, model: str) -> str:
    return argument if model == MODEL else f"{argument} of {model}"


def _require_different(ids: Coded) -> None:
    """Refuse an example that stands twice."""
    seen = np.bincount(ids.codes)
    if seen.max() > 1:
        twice = int(seen.argmax())
        first, second = np.flatnonzero(ids.codes == twice)[:2]
        raise ValueError(
            f"ids must be different in every row, got {ids.names[twice]!r} in rows {int(first)} and {int(second)}: "
            "drop the copies, or pass people=ids where one example was answered several times"
        )
