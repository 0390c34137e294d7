"""What a network goes through before it is private: whose its weights are, a trial, and the way to its clipped sums."""

from typing import Any

import torch
from opacus.validators.errors import UnsupportedModuleError
from torch import Tensor, nn, optim
from torch.utils._pytree import tree_leaves

from pacdp.errors import said
from pacdp.models import require_clippable
from pacdp.opacus.loader import PoissonLoader, is_column
from pacdp.opacus.modules import ByReference, PrivateModule, smooth_loss
from pacdp.step.clip import Clip
from pacdp.step.ghost import Ghost, GhostSums
from pacdp.step.mechanism import GradSampleMode
from pacdp.step.set_up import chosen_mode
from pacdp.step.sums import NOT_PACKED
from pacdp.step.units import Network
from pacdp.trials import made_up_batch, require_independent_examples, require_own_memory

_OF_OTHER_INPUTS = (RuntimeError, TypeError, AttributeError, LookupError, AssertionError)
"""What a network raises that is given too few inputs, or others than it takes."""


def private_module(
    module: nn.Module,
    loader: PoissonLoader,
    probe: tuple[Any, ...] | None,
    clip: Clip,
    *,
    mode: GradSampleMode | None,
    **watched: Any,
) -> PrivateModule:
    """The network in the wrapper whose clipped sums are those of its examples.

    Args:
        probe: positional inputs of at least three examples; None to make them up in the shape of the loader's.
        mode: None to choose.
        watched: what else the guard is told.

    Raises:
        UnsupportedModuleError: an example sees another, or the network cannot be run on such inputs.
        ValueError: ghost clipping was asked for, and cannot be used.
    """
    device = next(module.parameters()).device
    if not isinstance(probe, tuple | list | None):
        raise ValueError(
            f"probe must be a tuple of the network's positional inputs, got a {type(probe).__name__}: write "
            "probe=(inputs,)"
        )
    inputs = probe if probe is not None else (_made_up_input(loader).to(device),)
    try:
        require_independent_examples(module, inputs)
    except ValueError as error:
        raise UnsupportedModuleError(str(error).splitlines()[0]) from error
    except _OF_OTHER_INPUTS as error:
        given = (
            "made-up numbers in the form of the data's first field" if probe is None else "probe"
        )
        raise UnsupportedModuleError(
            f"module cannot be run on {given}, in which trials change a row ({said(error)}): give probe=, a tuple of "
            "all its positional inputs for at least 3 examples, and let it take 0 and 1 for whole numbers, and any "
            f"others for the rest; {NOT_PACKED}"
        ) from error
    chosen = chosen_mode(
        mode,
        GhostSums,
        Network.of(module, smooth_loss),
        inputs[0] if probe is None else inputs,
        torch.zeros(1, device=device),
        clip_norm=clip.norm,
    )
    ghost = chosen == "ghost"
    way = Ghost(module, clip) if ghost else ByReference(module, clip, inputs=inputs)
    return PrivateModule(module, way, probe=inputs, **watched)


def _made_up_input(loader: PoissonLoader) -> Tensor:
    fields = tree_leaves(loader.collate_fn.empty, is_leaf=is_column)
    first = fields[0] if fields else None
    if not isinstance(first, Tensor):
        raise ValueError(
            "cannot tell the network's input from the data: give probe=(inputs,), a batch of at least 3"
        )
    return made_up_batch(first)


def require_ownership(module: nn.Module, optimizer: optim.Optimizer) -> None:
    """Refuse a network that is private, or not in training, and an optimizer of other weights than its trainable ones.

    Raises:
        ValueError: as said.
    """
    require_clippable(module)
    require_own_memory(module)
    if any(hasattr(p, "grad_sample") for p in module.parameters()):
        raise ValueError(
            "module is private already: go on with what make_private returned, or call to_standard_module() on it first"
        )
    if not module.training:
        raise ValueError("module is in evaluation mode: call train() on it before make_private")
    owned = {id(p) for p in module.parameters()}
    held = {id(p) for group in optimizer.param_groups for p in group["params"]}
    if not held <= owned:
        raise ValueError(
            "Module parameters are different than optimizer Parameters, some of which module does not have: build "
            "optimizer from module.parameters(), after whatever replaces layers of it"
        )
    free = [name for name, p in module.named_parameters() if p.requires_grad and id(p) not in held]
    if free:
        raise ValueError(
            f"parameter {free[0]} of module is trainable and not in optimizer, so that nothing clips its gradient: "
            "give optimizer all trainable parameters, or freeze the others by requires_grad_(False)"
        )
