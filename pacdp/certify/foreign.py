"""Weights of other people's networks: state dicts by name, from safetensors or ``.pt`` files, without running code."""

import hashlib
import warnings
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from pacdp.errors import CheckpointError
from pacdp.posterior import GaussianPosterior
from pacdp.trials.reachable import require_all_named

_NESTED = ("state_dict", "model_state_dict", "model")
_PREFIXES = ("module.", "_orig_mod.", "model.")


def read_weights(path: Path | str) -> dict[str, Tensor]:
    """The tensors of a state dict by name.

    ``.safetensors`` files are read as such; anything else by ``torch.load(weights_only=True)``, which refuses whatever
    would run code. A state dict inside a dict is found under ``state_dict``, ``model_state_dict`` or ``model``.

    Raises:
        CheckpointError: no such file, a truncated one, one that would run code, no state dict in it, or two of the same
            names, such as those of ``model`` and their moving averages.
    """
    path = Path(path)
    if not path.is_file():
        raise CheckpointError(f"no weights at {path}: give a .safetensors or .pt file")
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Detected pickle protocol")
            found = (
                load_file(path)
                if path.suffix == ".safetensors"
                else torch.load(path, "cpu", weights_only=True)
            )
    except SafetensorError as error:
        raise CheckpointError(
            f"{path} is truncated or no safetensors file ({error}); take it from its source again"
        ) from error
    except Exception as error:  # a damaged pickle fails with whatever its bytes happen to say
        raise CheckpointError(
            f"{path} is truncated, or holds more than tensors and would run code when loaded: save its state dict "
            "alone, by safetensors.torch.save_file(model.state_dict(), path)"
        ) from error
    for name in _NESTED:
        if isinstance(found, Mapping) and isinstance(inner := found.get(name), Mapping):
            kin = [
                key
                for key, one in found.items()
                if isinstance(one, Mapping) and one.keys() == inner.keys()
            ]
            if len(kin) > 1:
                raise CheckpointError(f"{path} holds weights by the same names under {kin[0]} and {kin[1]}: save those "
                                      "of the network that will be used alone")  # fmt: skip
            found = inner
    if (
        not isinstance(found, Mapping)
        or not found
        or not all(isinstance(x, Tensor) for x in found.values())
    ):
        raise CheckpointError(
            f"{path} holds no state dict (a dict from names to tensors): save model.state_dict()"
        )
    return {str(name): tensor for name, tensor in found.items()}


def file_hash(path: Path | str) -> str:
    """sha256 (hex) of a file's bytes."""
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def load_into(module: nn.Module, weights: Mapping[str, Tensor], *, source: str) -> nn.Module:
    """``module`` in eval mode with these weights; the prefixes ``module.``, ``_orig_mod.`` and ``model.`` fall off.

    Of the names of a weight that the network ties one will do, as ``save_model`` of safetensors writes it.

    Raises:
        CheckpointError: other names or shapes, a value that is not finite, or two values of one weight.
        ValueError: weights that no name stands for, as those of layers in a plain list, which no file holds.
    """
    require_all_named(module)
    expected = module.state_dict(keep_vars=True)
    given = dict(weights)
    for prefix in _PREFIXES:
        if not given.keys() & expected.keys() and all(name.startswith(prefix) for name in given):
            given = {name.removeprefix(prefix): value for name, value in given.items()}
    tied = {id(expected[name]): value for name, value in given.items() if name in expected}
    given = {name: tied[id(one)] for name, one in expected.items() if id(one) in tied} | given
    odd = sorted(given.keys() ^ expected.keys())
    if odd:
        few = ", ".join(odd[:4]) + (" ..." if len(odd) > 4 else "")
        raise CheckpointError(f"{source} and the network have different weights ({few}): build the network that was "
                              "trained")  # fmt: skip
    for name, value in given.items():
        if value.shape != expected[name].shape:
            raise CheckpointError(f"{source} holds {name} of shape {tuple(value.shape)}, the network has "
                                  f"{tuple(expected[name].shape)}: build the network that was trained")  # fmt: skip
        if not bool(torch.isfinite(value).all()):
            raise CheckpointError(
                f"{source} holds values of {name} that are not finite: the training has diverged"
            )
    module.load_state_dict(given)
    for name, one in module.state_dict().items():
        if not torch.equal(one, given[name].to(one)):
            raise CheckpointError(f"{source} holds other values of {name} than the network took, which has one weight "
                                  "by that and another name: build the network that was trained")  # fmt: skip
    return module.eval()


def law_of(module: nn.Module, path: Path | str, *, std: float) -> GaussianPosterior:
    """The Gaussian of standard deviation ``std`` around the weights in a file.

    Buffers, such as the running statistics of BatchNorm, are part of the law: where posterior and prior differ in them
    no certificate exists, since statistics of the bound's own examples are weights that no divergence pays for.
    """
    return GaussianPosterior.around(
        load_into(module, read_weights(path), source=str(path)), std=std
    )
