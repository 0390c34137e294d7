"""Counting again: which rows a report is about, how often a network errs on them, and kept steps of its chain."""

import importlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from pacdp.verify.claim import (
    CANNOT,
    Fields,
    Statement,
    Unchecked,
    Wrong,
    fields,
    judged,
)
from pacdp.verify.examples import margins
from pacdp.verify.files import Stored
from pacdp.verify.folder.read import COMPRESSION
from pacdp.verify.replay import replay
from pacdp.verify.rerun import is_learner, rerun
from pacdp.verify.row_hashes import ROWS, rows_digest

_NAMES = ("weights", "mean weights", "your network", "predictor")
"""Predictors in a report that are one network as it is."""
_CHUNK = 512


def called(name: str) -> Any:
    """What ``module:callable`` returns."""
    module, _, attribute = name.partition(":")
    return getattr(importlib.import_module(module), attribute)()


def recount(
    report: Mapping[str, Any],
    stored: Stored | None,
    data: str | None,
    model: str | None,
) -> list[Statement]:
    """The bound's rows by their hashes, and the errors of the network on them."""
    if data is None:
        return [
            Statement(
                "recount",
                "errors",
                CANNOT,
                "--data is needed to count with --model",
            )
        ]
    r, given = fields(report), called(data)
    if not isinstance(given, tuple):
        given = given.inputs, given.labels, given.people
    found = [judged("recount", "rows", _check_rows, r, *given)]
    if model is None:
        return found
    network = called(model)
    if (
        stored is not None
        and stored.header.get("kind") == COMPRESSION
        and is_learner(network)
    ):
        return found + rerun(stored, network, *given)
    found.append(
        judged(
            "recount", "errors", _check_errors, r, stored, network, *given[:2]
        )
    )
    if stored is not None:
        found += replay(stored, network, *given)
    return found


def _check_rows(
    report: Fields,
    inputs: Any,
    labels: Any,
    people: Any = None,
) -> None:
    said = report.part("rows").get("bound")
    if said is None:
        raise Unchecked("the report does not name its rows")
    if not said.digest.startswith(f"{ROWS}:"):
        raise Unchecked(
            f"the report's rows are not hashed as {ROWS}: check it with what wrote it"
        )
    if said.n != len(inputs) or said.digest != rows_digest(
        inputs, labels, people
    ):
        raise Wrong(
            f"the report is about {said.n} other rows than these {len(inputs)}"
        )


def _check_errors(
    report: Fields,
    stored: Stored | None,
    network: Any,
    inputs: Any,
    labels: Any,
) -> None:
    said = dict[str, int]()
    for one in report.measured:
        errors: int | None = one.errors
        counted = (one.on, one.loss) == ("bound", "zero-one")
        if counted and errors is not None and one.of in _NAMES:
            said[one.of] = errors
    if not said:
        raise Unchecked("the report counts no errors of a network as it is")
    found = count_errors(network, stored, inputs, labels)
    for name, count in said.items():
        if count != found:
            raise Wrong(
                f"{name} err on {count} rows by the report, and on {found} here"
            )


def count_errors(
    network: Any,
    stored: Stored | None,
    inputs: Any,
    labels: Any,
) -> int:
    """Examples whose own class has not the largest output; a tie is an error. With a checkpoint, at its weights."""
    import torch

    if stored is not None and hasattr(network, "load_state_dict"):
        weights = dict[str, Any]()
        for name, tensor in stored.tensors.items():
            if name.startswith("model."):
                weights[name.removeprefix("model.")] = torch.from_numpy(
                    tensor.array().copy()
                )
        network.load_state_dict(weights, strict=False)
        network.eval()
    with torch.no_grad():
        parts = torch.from_numpy(np.array(inputs)).split(_CHUNK)
        outputs = torch.cat([network(part).cpu() for part in parts])
    right = margins(outputs.double().numpy(), np.asarray(labels)) > 0
    return int((~right).sum())
