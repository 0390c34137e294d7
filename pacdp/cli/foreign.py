"""`pacdp certify` for weights that pacdp did not train: the user's own network and data, by `module:callable`."""

import importlib
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from pacdp.certify import (
    ClippedError,
    DataFree,
    HeldOut,
    MonteCarlo,
    Prior,
    Settings,
    certify,
)
from pacdp.certify.evidence import source_of
from pacdp.certify.foreign import file_hash, law_of, load_into, read_weights
from pacdp.certify.outputs import LossOf
from pacdp.cli.commands.certify import Foreign
from pacdp.cli.folder import reported
from pacdp.cli.runtime import Certifying, Runtime, require_unset
from pacdp.cli.serial import Values
from pacdp.cli.terminal import refusing
from pacdp.data import Split, index_hash
from pacdp.data.rows import Rows
from pacdp.data.unpacking import read_npy, read_npz

PASSES = 5
"""Over the examples, with fresh weights for each."""


def called(name: str, option: str) -> Any:
    """What the user's own callable returns.

    Raises:
        ValueError: as for :func:`imported`, whatever it raises, or nothing, which would pass for an option left out.
    """
    function = imported(name, option)
    with refusing(f"--{option} {name}() failed", Exception), _beside():
        found = function()
    if found is None:
        raise ValueError(f"--{option} {name}() returned None: let it return what it made")
    return found


def imported(name: str, option: str) -> Callable[..., Any]:
    """The user's own callable; the working directory is searched for its module.

    Raises:
        ValueError: there is none of this name.
    """
    module, _, attribute = name.partition(":")
    if not module or not attribute:
        raise ValueError(f"--{option} must be package.module:callable, got {name!r}")
    with refusing(f"--{option} {name} cannot be imported", Exception), _beside():
        function: Callable[..., Any] = getattr(importlib.import_module(module), attribute)
    if not callable(function):
        takes = "of outputs and labels" if option == "loss" else "without arguments"
        raise ValueError(f"--{option} {name} is {type(function).__name__}: name a function {takes}")
    return function


@contextmanager
def _beside() -> Iterator[None]:
    """The working directory is searched for modules, also for those that code of the user's imports when it is called.

    Folders that this code adds to the search stay there.
    """
    folder = str(Path.cwd())
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        if folder in sys.path:
            sys.path.remove(folder)


def loss_of(text: str | None) -> LossOf | ClippedError | None:
    """What --loss names: "absolute:2" and "squared:2", an error of regression clipped at 2, or a user's own function.

    Raises:
        ValueError: no such function, or a clip that is no positive number.
    """
    if text is None:
        return None
    kind, _, rest = text.partition(":")
    if kind not in ("absolute", "squared"):
        return imported(text, "loss")
    with refusing(
        f"--loss {text} does not say at which size errors are clipped, as {kind}:2 does", ValueError
    ):
        return ClippedError(at=float(rest), kind=kind)


def seen(name: str) -> Any:
    """What ``--seen`` names, as :func:`pacdp.certify` takes it: nothing, what a user's callable returns, or a file of
    rows or of indices.

    Raises:
        ValueError: as for :func:`called`, or no such file, or none of rows or of whole numbers.
    """
    if name == "nothing":
        return DataFree()
    path = Path(name)
    if ":" in name and not path.exists():
        return called(name, "seen")
    if path.suffix == ".npy":
        with refusing(f"{path} holds no list of whole numbers"):
            raw = read_npy(path)
            if raw.ndim != 1 or not np.issubdtype(raw.dtype, np.integer):
                raise ValueError(f"it holds {raw.dtype} {list(raw.shape)}")
        indices = np.unique(raw.astype(np.int64))
        return HeldOut(indices=Split(indices, index_hash(indices)))
    again = "write them by np.savez(path, **pacdp.data.Rows.of(inputs, labels).to_arrays())"
    with refusing(f"{path} holds no rows", or_else=again):
        return HeldOut(rows=Rows.from_arrays(read_npz(path)))


def certify_foreign(path: Path, given: Foreign, runtime: Runtime, how: Certifying) -> Values:
    """The report ``pacdp-certificates/2`` of a Gaussian around the weights in ``path``, or of the network as it is.

    Raises:
        ValueError: something is missing or does not fit.
    """
    runtime.apply()
    if given.model is None or given.data is None:
        raise ValueError(
            "weights that pacdp did not train need --model and --data: the network, and the examples that the bound "
            "rests on; --prior adds weights near these that did not see the examples"
        )
    source = None if given.seen is None else seen(given.seen)
    module = called(given.model, "model")
    if not isinstance(module, nn.Module):
        raise ValueError(
            f"--model {given.model} returned {type(module).__name__}: return a torch.nn.Module"
        )
    if given.prior and (given.loss is not None or given.ask):
        raise ValueError("--loss and --ask go without --prior: it bounds the 0-1 error")
    common: Values = {
        "failure_prob": how.failure_prob or 0.05, "settings": Settings.tried(how.tried),
        "device": runtime.device,
    }  # fmt: skip
    details: Values = {}
    examples, fresh = called(given.data, "data"), given.test and called(given.test, "test")
    if given.prior is None:
        require_unset(how, "std", by="for weights without --prior, around which no Gaussian is put")
        network = load_into(module, read_weights(path), source=str(path)).to(runtime.device)
        found = certify(
            network, examples, test=fresh, seen=source,
            loss=loss_of(given.loss), ask=given.ask or None, **common,
        )  # fmt: skip
    else:
        if (known := source_of(source)) is None:
            raise ValueError(
                "say what the prior saw: --seen names its examples, their hashes or their indices, or nothing"
            )
        prior = Prior(law=law_of(module, given.prior, std=how.spread), source=known)
        found = certify(
            law_of(module, path, std=how.spread), examples, prior=prior, network=module,
            test=fresh, monte_carlo=MonteCarlo(passes=PASSES), seed=how.seed, progress=how.progress, **common,
        )  # fmt: skip
        details = {"std": how.spread, "prior_std": how.spread, "prior_checkpoint": str(given.prior)}
    hashed = {} if given.prior is None else {"prior_hash": file_hash(given.prior)}
    return reported(
        replace(found, details={**found.details, **details}), device=runtime.device, seed=how.seed,
        checkpoint=str(path), content_hash=file_hash(path), **hashed,
    )  # fmt: skip
