"""Counting again: which rows a report is about, how often a network errs on them, and kept steps of its chain."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from pacdp.verify.claim import (
    CANNOT,
    Fields,
    Statement,
    Unchecked,
    judged,
    parsed,
    require,
    same,
)
from pacdp.verify.examples import ROWS, Examples, margins
from pacdp.verify.files import COMPRESSION, Stored
from pacdp.verify.given import called, examples_of, with_given
from pacdp.verify.replay import replay
from pacdp.verify.rerun import is_learner, rerun

_NAMES = ("weights", "mean weights", "your network", "predictor")
"""Predictors in a report that are one network as it is."""
_CHUNK = 512


def recount(
    report: Mapping[str, Any],
    stored: Stored,
    data: str | None,
    model: str | None,
) -> list[Statement]:
    """The bound's rows by their hashes, and the errors of the network on them."""
    if data is None:
        why = "--data is needed to count with --model"
        return [Statement("recount", "errors", CANNOT, why)]
    r = parsed(report)
    examples = called(data, "--data", examples_of)
    rows = with_given({"rows": _check_rows})
    found = judged("recount", rows, r, examples)
    if model is None:
        return found
    network = called(model, "--model")
    if stored.header["kind"] == COMPRESSION and is_learner(network):
        return found + rerun(stored, network, examples)
    errors = with_given({"errors": _check_errors})
    found += judged("recount", errors, r, examples, stored, network)
    return found + replay(stored, network, examples)


def _check_rows(report: Fields, data: Examples) -> None:
    said = report.part("rows")["bound"]
    if said is None:
        raise Unchecked("the report does not name its rows")
    if not said.digest.startswith(f"{ROWS}:"):
        raise Unchecked(
            f"the report's rows are not hashed as {ROWS}: check it with what wrote it"
        )
    n = len(data.inputs)
    owners = data.people
    if said["people"] is None:
        owners = None
    elif owners is None:
        raise Unchecked(
            "the rows are of people, and the data do not say whose the examples are"
        )
    named = Examples(data.inputs, data.labels, owners)
    require(
        said.n == n and said.digest == named.digest(),
        f"the report is about {said.n} other rows than these {n}",
    )


def _check_errors(
    report: Fields, data: Examples, stored: Stored, network: Any
) -> None:
    said = {
        one.of: one.errors
        for one in report.measured
        if (one.on, one.loss) == ("bound", "zero-one")
        and one.errors is not None
        and one.of in _NAMES
    }
    if not said:
        raise Unchecked(
            "the report counts no errors of a network as it is"
        )
    n = len(data.inputs)
    if n != report["examples"]:
        raise Unchecked(
            f"the report is about {report['examples']} examples, and --data gave {n}"
        )
    method = stored.header.part("about").part("run").part("method")
    kept = any("extra.snapshots" in name for name in stored.tensors)
    if kept or method["test_draws"]:
        raise Unchecked(
            "the predictor averages over snapshots or draws of a private run, and --model gives one network"
        )
    found = count_errors(network, stored, data)
    for name, count in said.items():
        same(f"the number of errors of {name}", count, found)
    if not _has_its_weights(network, stored):
        raise Unchecked(
            f"the network of --model errs {found} times too, at weights of its own, and nothing shows that they are "
            "the report's: give a folder with its checkpoint, and a module for the weights in it"
        )


def _has_its_weights(network: Any, stored: Stored) -> bool:
    """Whether the checkpoint's weights are to be loaded into the network."""
    return bool(stored.header) and hasattr(
        network, "load_state_dict"
    )


def count_errors(
    network: Any, stored: Stored, data: Examples
) -> int:
    """Examples whose own class has not the largest output; a tie is an error. With a checkpoint, at its weights."""
    import torch

    if _has_its_weights(network, stored):
        weights = {
            name.removeprefix("model."): torch.from_numpy(
                tensor.array().copy()
            )
            for name, tensor in stored.tensors.items()
            if name.startswith("model.")
        }
        missing, strange = network.load_state_dict(
            weights, strict=False
        )
        if odd := sorted({*strange, *missing}):
            raise Unchecked(
                f"network and checkpoint have different weights ({', '.join(odd[:4])})"
            )
    if isinstance(network, torch.nn.Module):
        network.eval()
    with torch.no_grad():
        parts = torch.from_numpy(np.array(data.inputs)).split(
            _CHUNK
        )
        outputs = torch.cat([network(part).cpu() for part in parts])
    if not outputs.is_floating_point():
        raise Unchecked(
            f"what --model gave returns numbers of {outputs.dtype}, and errors are counted from logits, in floats"
        )
    right = margins(outputs.double().numpy(), data.labels) > 0
    return int((~right).sum())
