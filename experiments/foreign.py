"""`pacdp certify` for weights that pacdp did not train: the user's own network and data, by `module:callable`."""

import importlib
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from experiments.folder import provenance
from pacdp.certify import BoundSet, DataFree, HeldOut, MonteCarlo, Prior, certify
from pacdp.certify.gaussian import Progress
from pacdp.certify.priors import Source
from pacdp.data import Split, index_hash
from pacdp.foreign import file_hash, law_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Foreign:
    """Weights of your own network: --model and --data name callables as package.module:name, --prior another file."""

    model: str | None = None
    """Called without arguments, returns the network."""
    data: str | None = None
    """Called without arguments, returns (inputs, labels) or a pacdp.BoundSet: the examples that the bound rests on."""
    test: str | None = None
    """Likewise, examples that neither weights nor prior saw."""
    prior: Path | None = None
    """State dict at the prior's mean."""
    prior_indices: Path | None = None
    """Which examples of the data set the prior saw: a .npy or JSON list; the bound's are then needed too."""
    prior_is_data_free: bool = False
    """The prior was fixed before any of the data were looked at; you say so."""
    std: float = 0.01
    """Standard deviation of every weight, in posterior and prior, fixed before looking at the bound's examples."""
    prior_std: float | None = None
    """Of the prior, if it is another."""
    passes: int = 5
    """Over the examples, with fresh weights for each."""

    @property
    def given(self) -> bool:
        """Whether the command is about foreign weights."""
        return self.model is not None or self.data is not None or self.prior is not None


def certify_foreign(
    path: Path, given: Foreign, *, failure_prob: float, seed: int, device: str, progress: Progress | None = None
) -> dict[str, Any]:
    """The report ``pacdp-certificates/2`` of a Gaussian around the weights in ``path``.

    Raises:
        ValueError: something is missing or does not fit.
    """
    if given.model is None or given.data is None or given.prior is None:
        raise ValueError("weights that pacdp did not train need --model, --data and --prior: the network, the "
                         "examples, and weights near these that did not see the examples")  # fmt: skip
    source = _source(given)
    module = _called(given.model, "model")
    if not isinstance(module, nn.Module):
        raise ValueError(f"--model {given.model} returned {type(module).__name__}: return a torch.nn.Module")
    posterior = law_of(module, path, std=given.std)
    prior_std = given.std if given.prior_std is None else given.prior_std
    prior = law_of(module, given.prior, std=prior_std)
    examples, test = _examples(given.data, "data"), None if given.test is None else _examples(given.test, "test")
    _require_fitting(module, examples)
    found = certify(
        posterior,
        examples,
        prior=Prior(law=prior, source=source),
        network=module,
        test=test,
        failure_prob=failure_prob,
        monte_carlo=MonteCarlo(passes=given.passes),
        seed=seed,
        device=device,
        progress=progress,
    )
    stds = {"std": given.std, "prior_std": prior_std}
    found = replace(found, details={**found.details, **stds, "prior_checkpoint": str(given.prior)})
    subject = {"checkpoint": str(path), "content_hash": file_hash(path), "prior_hash": file_hash(given.prior)}
    return found.to_dict(subject=subject, provenance=provenance(device=device, seed=seed))


def _source(given: Foreign) -> Source:
    if given.prior_is_data_free == (given.prior_indices is not None):
        raise ValueError("say where the prior came from: --prior-indices FILE lists the examples that it saw, "
                         "--prior-is-data-free says that it saw none")  # fmt: skip
    if given.prior_indices is None:
        return DataFree()
    try:
        if given.prior_indices.suffix == ".npy":
            raw = np.load(given.prior_indices, allow_pickle=False)
        else:
            raw = np.asarray(json.loads(given.prior_indices.read_text()))
    except (OSError, ValueError) as error:
        raise ValueError(f"{given.prior_indices} holds no list of indices ({error})") from error
    if raw.ndim != 1 or not np.issubdtype(raw.dtype, np.integer):
        raise ValueError(f"{given.prior_indices} must hold a list of whole numbers, got {raw.dtype} {list(raw.shape)}")
    indices = np.unique(raw.astype(np.int64))
    return HeldOut(indices=Split(indices, index_hash(indices)))


def _called(name: str, option: str) -> Any:
    """What the user's own callable returns; the working directory is searched for its module."""
    module, _, attribute = name.partition(":")
    if not module or not attribute:
        raise ValueError(f"--{option} must be package.module:callable, got {name!r}")
    sys.path.insert(0, str(Path.cwd()))
    try:
        function: Callable[[], Any] = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"--{option} {name} cannot be imported: {error}") from error
    finally:
        sys.path.pop(0)
    return function()


def _examples(name: str, option: str) -> BoundSet:
    found = _called(name, option)
    if isinstance(found, BoundSet):
        return found
    if not (isinstance(found, tuple | list) and len(found) == 2 and all(isinstance(x, torch.Tensor) for x in found)):
        raise ValueError(f"--{option} {name} must return (inputs, labels) as two tensors, or a pacdp.BoundSet")
    labels = found[1]
    if labels.is_floating_point() or labels.is_complex():
        raise ValueError(f"--{option} {name} returned labels of type {labels.dtype}: return whole numbers")
    return BoundSet(inputs=found[0], labels=labels.long())


@torch.no_grad()
def _require_fitting(module: nn.Module, examples: BoundSet) -> None:
    """Before any work is lost: the network accepts the examples."""
    try:
        outputs = module(examples.inputs[:2])
    except (RuntimeError, TypeError) as error:
        first = str(error).splitlines()[0]
        raise ValueError(
            f"the network does not accept inputs of shape {tuple(examples.inputs[:2].shape)}: {first}"
        ) from error
    if outputs.ndim != 2 or outputs.shape[0] != len(examples.inputs[:2]):
        raise ValueError(f"expected one row of logits an example, got outputs of shape {tuple(outputs.shape)}")
