"""A table with a row for each example and model, as examples with the answers of every model."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from pacdp.cli.predicting.tables import Table
from pacdp.cli.terminal import refusing
from pacdp.predictions.certify import examples
from pacdp.predictions.columns import Coded
from pacdp.predictions.examples import MODEL, Examples


def examples_of(path: Path, table: Table, classes: Sequence[str] = ()) -> Examples:
    """What a table says.

    Raises:
        ValueError: models that answered other examples, or what :func:`pacdp.certify_predictions` refuses.
    """
    rows = _rows_by_model(path, table)
    first = next(iter(rows.values()))
    own = {name: _part(column, first) for name, column in table.named.items()}
    label, predicted, soft = own.get("label"), table.named.get("prediction"), table.soft
    known: Sequence[str | int] | None = list(classes) or None
    if known and label is not None and label.kind == "whole numbers":  # of the labels' type
        if all(one.lstrip("-").isdigit() for one in classes):
            known = [int(one) for one in classes]
    weight, losses = table.numbers.get("weight"), {**table.numbers}
    losses.pop("weight", None)
    with refusing(f"{path} cannot be certified", ValueError):
        found = examples(
            label,
            predicted and {model: _part(predicted, of) for model, of in rows.items()},
            None if soft is None else {model: soft[of] for model, of in rows.items()},
            losses={
                model: {name: one[of] for name, one in losses.items()} for model, of in rows.items()
            }
            if losses
            else None,
            classes=known,
            groups=own.get("group"),
            people=own.get("person"),
            ids=own.get("id"),
            weights=None if weight is None else weight[first],
        )
    remarks = (*table.remarks, *found.remarks)
    return replace(found, record=table.record, range_by=table.range_by, remarks=remarks)


def _rows_by_model(path: Path, table: Table) -> dict[str, np.ndarray]:
    """The rows of each model, so that row k of each is about the same example.

    Raises:
        ValueError: as far as the columns tell, it is not.
    """
    model, names = table.named.get("model"), table.named.get("id")
    if model is None:
        return {MODEL: np.arange(table.rows)}
    appearing = np.unique(model.codes, return_index=True)[1].argsort()
    rows = {str(model.names[code]): np.flatnonzero(model.codes == code) for code in appearing}
    if len(rows) == 1:
        return {one if one.strip() else MODEL: own for one, own in rows.items()}
    if names is not None:
        rows = {one: own[names.codes[own].argsort(kind="stable")] for one, own in rows.items()}
    first, reference = next(iter(rows.items()))
    columns = {name: column.codes for name, column in table.named.items()} | table.numbers
    for one, own in rows.items():
        if len(own) != len(reference):
            raise ValueError(
                f"{path} must have the same examples for every model, got {len(reference)} rows of {first!r} and "
                f"{len(own)} of {one!r}: keep those that all of them answered, with a column id"
            )
        for name in ("id", "label", "group", "person", "weight"):
            column = columns.get(name)
            if column is not None and (column[reference] != column[own]).any():
                raise ValueError(
                    f"{path} must have the same {name} for every model's answer to an example, got another for "
                    f"{one!r} than for {first!r}: add a column id that says which rows belong together, and keep the "
                    "examples that all of them answered"
                )
    return rows


def _part(column: Coded, rows: np.ndarray) -> Coded:
    """Some rows of a column, with the names that are left."""
    kept, codes = np.unique(column.codes[rows], return_inverse=True)
    return Coded(tuple(column.names[code] for code in kept), codes.ravel().astype(np.int64))
