"""A table with a row for each example and model, as examples with the answers of every model."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from pacdp.cli.predicting.tables import Table
from pacdp.cli.serial import Values
from pacdp.cli.terminal import refusing
from pacdp.predictions.certify import examples
from pacdp.predictions.columns import Coded, class_names
from pacdp.predictions.columns import losses as loss_column
from pacdp.predictions.examples import MODEL, Examples, described, of_columns


def examples_of(path: Path, table: Table, classes: Sequence[str] = ()) -> Examples:
    """What a table says.

    Raises:
        ValueError: labels without predictions or the other way round, models that answered other examples, or what
            :func:`pacdp.certify_predictions` refuses.
    """
    rows = _rows_by_model(path, table)
    first = next(iter(rows.values()))
    named, weight = dict(table.named), table.numbers.get("weight")
    once = named.pop("id", None) if len(rows) == 1 else None
    own = {name: _part(column, first) for name, column in named.items()}
    label, predicted, known = own.get("label"), named.get("prediction"), None
    if classes and label is not None:  # of the labels' type
        whole = label.kind == "whole numbers" and all(one.lstrip("-").isdigit() for one in classes)
        known = class_names([int(one) for one in classes] if whole else list(classes))
    columns = {
        name: loss_column(name, column)
        for name, column in table.numbers.items()
        if name != "weight"
    }
    losses = {
        model: {name: column[of] for name, column in columns.items()} for model, of in rows.items()
    }
    about: Values = {
        "groups": own.get("group"), "people": own.get("person"), "ids": once,
        "weights": None if weight is None else weight[first],
    }  # fmt: skip
    with refusing(f"{path} cannot be certified", ValueError):
        if not table.soft:
            said = predicted and {model: _part(predicted, of) for model, of in rows.items()}
            found = examples(
                label, said, losses=losses if columns else None, classes=known, **about
            )
        elif label is None or predicted is not None:
            raise ValueError(
                "columns p0, p1, ... go with a column label, and without a column prediction"
            )
        else:
            names, places = of_columns(named["label"], len(table.soft), known)
            if len(names) != len(table.soft):
                raise ValueError(
                    f"{len(table.soft)} columns p0, p1, ... are there for {len(names)} classes: name each"
                )
            answers = table.answers(places)
            models = {
                model: replace(answers.taken(of), losses=losses[model])
                for model, of in rows.items()
            }
            made = Examples(n=len(first), models=models, labels=places[first], classes=names)
            found = described(made, **about)
    remarks = (*table.remarks, *found.remarks)
    return replace(found, record=table.record, range_by=table.range_by, remarks=remarks)


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
    columns = {name: column.codes for name, column in table.named.items()} | table.numbers
    for name in ("label", "group", "person", "weight"):
        column = columns.get(name)
        if column is not None and (column[first[1]] != column[other[1]]).any():
            raise ValueError(
                f"{path} must have the same {name} for every model's answer to an example, got another for "
                f"{other[0]!r} than for {first[0]!r}: add a column id that says which rows belong together"
            )


def _part(column: Coded, rows: np.ndarray) -> Coded:
    """Some rows of a column, with the names that are left."""
    kept, codes = np.unique(column.codes[rows], return_inverse=True)
    return Coded(tuple(column.names[code] for code in kept), codes.ravel().astype(np.int64))
