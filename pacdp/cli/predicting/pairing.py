"""A table with a row for each example and model, as examples with the answers of every model."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from pacdp.cli.predicting.tables import Table
from pacdp.predictions.answers import Answers
from pacdp.predictions.columns import Coded, Name, class_names, coded, placed
from pacdp.predictions.columns import losses as loss_column
from pacdp.predictions.examples import MODEL, Examples, described, of_columns


def examples_of(path: Path, table: Table, classes: Sequence[str] = ()) -> Examples:
    """What a table says.

    Raises:
        ValueError: labels without predictions or the other way round, models that answered other examples, or what
            :func:`pacdp.certify_predictions` refuses.
    """
    named = table.named
    for name, column in named.items():
        coded(f"{name} of {path}", column, known=classes if name in ("label", "prediction") else ())
    rows = _rows_by_model(path, table)
    first = next(iter(rows.values()))
    answers, labels, names = _answers(path, table, classes)
    models = {model: answers.taken(own) for model, own in rows.items()}
    found = Examples(n=len(first), models=models, labels=None if labels is None else labels[first], classes=names,
                     remarks=table.remarks, record=table.record, range_by=table.range_by)  # fmt: skip
    columns = {
        name: None if name not in named else _part(named[name], first)
        for name in ("group", "person")
    }
    weight = table.numbers.get("weight")
    once = named.get("id") if len(rows) == 1 else None
    return described(
        found, groups=columns["group"], people=columns["person"], weights=None if weight is None else weight[first],
        ids=once,
    )  # fmt: skip


def _answers(
    path: Path, table: Table, classes: Sequence[str]
) -> tuple[Answers, np.ndarray | None, tuple[Name, ...]]:
    """The answers of every row, the labels as places, and the classes."""
    label, predicted = table.named.get("label"), table.named.get("prediction")
    own = {
        name: loss_column(name, column)
        for name, column in table.numbers.items()
        if name != "weight"
    }
    width = len(table.soft)
    if predicted is not None and width:
        raise ValueError(
            f"{path} must have a column prediction or p0, p1, ..., not both: drop one of them"
        )
    if label is None:
        if predicted is not None or width:
            raise ValueError(f"{path} has no column label, by which predictions are judged: add it")
        if not own:
            raise ValueError(
                f"{path} has neither label and prediction nor a loss: name its columns so"
            )
        return Answers(losses=own), None, ()
    known = _classes(label, classes)
    if width:
        names, places = of_columns(label, width, known)
        if len(names) != width:
            raise ValueError(
                f"{path} has {width} columns p0, p1, ... for {len(names)} classes: name each"
            )
        return replace(table.answers(places), losses=own), places, names
    if predicted is None:
        raise ValueError(
            f"{path} has labels without a column prediction or p0, p1, ...: add what the model said"
        )
    names = label.names if known is None else known
    places = label.codes if known is None else placed("label", label, names, "--classes")
    where = "the labels" if known is None else "--classes"
    return (
        Answers(predicted=placed("prediction", predicted, names, where), losses=own),
        places,
        names,
    )


def _classes(label: Coded, classes: Sequence[str]) -> tuple[Name, ...] | None:
    """The classes of the command line, of the labels' type."""
    if not classes:
        return None
    whole = label.kind == "whole numbers" and all(one.lstrip("-").isdigit() for one in classes)
    return class_names([int(one) for one in classes] if whole else list(classes))


def _rows_by_model(path: Path, table: Table) -> dict[str, np.ndarray]:
    """The rows of each model, so that row k of each is about the same example."""
    model, names = table.named.get("model"), table.named.get("id")
    if model is None:
        return {MODEL: np.arange(table.rows)}
    appearing = np.unique(model.codes, return_index=True)[1].argsort()
    rows = {str(model.names[code]): np.flatnonzero(model.codes == code) for code in appearing}
    if len(rows) == 1:
        return {one if one.strip() else MODEL: own for one, own in rows.items()}
    first, reference = next(iter(rows.items()))
    for one, own in rows.items():
        if names is not None:
            codes = names.codes[own]
            if np.unique(codes).size < codes.size:
                twice = names.names[int(np.bincount(codes).argmax())]
                raise ValueError(
                    f"{path} has id {twice!r} twice for model {one!r}: drop the copies"
                )
            row_of = np.full(len(names.names), -1)
            row_of[codes] = own
            paired = row_of[names.codes[reference]]
            if len(own) != len(reference) or (paired < 0).any():
                raise ValueError(f"{path} must have the same ids for every model, {one!r} has others than {first!r}: "
                                 "keep the examples that all of them answered")  # fmt: skip
            rows[one] = paired
        _require_same(path, table, (first, rows[first]), (one, rows[one]))
    return rows


def _require_same(
    path: Path, table: Table, first: tuple[str, np.ndarray], other: tuple[str, np.ndarray]
) -> None:
    """Refuse models whose rows are about other examples, as far as the columns tell."""
    if len(first[1]) != len(other[1]):
        raise ValueError(
            f"{path} must have the same examples for every model, got {len(first[1])} rows of {first[0]!r} and "
            f"{len(other[1])} of {other[0]!r}: keep those that all of them answered, with a column id"
        )
    columns = {
        name: table.named[name].codes
        for name in ("label", "group", "person")
        if name in table.named
    }
    for name, column in (columns | table.numbers).items():
        if not name.startswith("loss") and (column[first[1]] != column[other[1]]).any():
            raise ValueError(
                f"{path} must have the same {name} for every model's answer to an example, got another for "
                f"{other[0]!r} than for {first[0]!r}: add a column id that says which rows belong together"
            )


def _part(column: Coded, rows: np.ndarray) -> Coded:
    """Some rows of a column, with the names that are left."""
    kept, codes = np.unique(column.codes[rows], return_inverse=True)
    return Coded(tuple(column.names[code] for code in kept), codes.ravel().astype(np.int64))
