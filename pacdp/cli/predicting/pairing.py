"""A table with a row for each example and model, as examples with the answers of every model."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from pacdp.cli.predicting.tables import Table
from pacdp.cli.terminal import refusing
from pacdp.predictions.certify import examples
from pacdp.predictions.columns import Coded
from pacdp.predictions.examples import MODEL, Examples


def examples_of(
    path: Path,
    table: Table,
    classes: Sequence[str] = (),
    within: Sequence[float | int] | None = None,
) -> Examples:
    """What a table says; its labels and predictions are numbers in an interval, where one is given.

    Raises:
        ValueError: models that answered other examples, or what :func:`pacdp.certify_predictions` refuses.
    """
    rows = _rows_by_model(path, table)
    first = next(iter(rows.values()))
    own = {name: column[first] for name, column in (table.named | table.numbers).items()}
    if table.classes and classes and {*classes} != {*table.classes}:
        raise ValueError(
            f"{path} has columns of probabilities for {', '.join(table.classes)}, got other --classes: leave them out"
        )
    classes = table.classes or classes
    known: Sequence[str | int] | None = list(classes) or None
    labels = own.get("label")
    if isinstance(labels, np.ndarray) and labels.dtype.kind in "iu":  # of the labels' type
        if known and all(one.lstrip("-").isdigit() for one in classes):
            known = [int(one) for one in classes]
            if (
                table.soft is not None
                and not table.classes
                and sorted(known) == [*range(len(known))] != known
            ):
                raise ValueError(
                    f"{path} has columns p0, p1, ..., which are of classes 0, 1, ..., got --classes in another order: "
                    "leave it out"
                )
        elif table.classes:
            raise ValueError(
                f"{path} has probabilities of a class {table.classes[-1]!r}, and numbers as labels: write these by the "
                "names of the columns, or call the columns p0, p1, ..., of classes 0, 1, ... (of two, p1 is enough)"
            )
    predicted, soft = table.named.get("prediction"), table.soft
    losses = {name: one for name, one in table.numbers.items() if name != "weight"}
    with refusing(f"{path} cannot be certified", ValueError):
        found = examples(
            labels,
            None if predicted is None else {model: predicted[of] for model, of in rows.items()},
            None if soft is None else {model: soft[of] for model, of in rows.items()},
            losses=(
                losses
                and {
                    model: {name: one[of] for name, one in losses.items()}
                    for model, of in rows.items()
                }
            )
            or None,
            classes=known,
            within=within,
            groups=own.get("group"),
            people=own.get("person"),
            ids=own.get("id"),
            weights=own.get("weight"),
        )
    remarks = (*table.remarks, *found.remarks)
    by = table.range_by or found.range_by
    return replace(found, record=table.record, range_by=by, remarks=remarks)


def _rows_by_model(path: Path, table: Table) -> dict[str, Any]:
    """The rows of each model, so that row k of each is about the same example.

    Raises:
        ValueError: as far as the columns tell, it is not.
    """
    if "model" not in table.named:
        return {MODEL: slice(None)}
    columns = {name: one.codes if isinstance(one, Coded) else one
               for name, one in (table.named | table.numbers).items()}  # fmt: skip
    codes = columns["model"]
    rows = {str(table.named["model"].names[code]): np.flatnonzero(codes == code)
            for code in dict.fromkeys(codes.tolist())}  # fmt: skip
    if len(rows) == 1:
        return {one if one.strip() else MODEL: own for one, own in rows.items()}
    if "id" in columns:
        rows = {one: own[columns["id"][own].argsort(kind="stable")] for one, own in rows.items()}
    first, reference = next(iter(rows.items()))
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
