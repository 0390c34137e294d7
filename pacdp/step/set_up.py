"""What a run goes through before its first step: trials on made-up examples, and the choice of a way to clipped sums.

The mode is chosen here alone: ghost clipping for gradients of examples where it can be used, the reference elsewhere
and for whatever a person contributes.

Ghost clipping is used only where it agrees with the reference, example by example: the layers that it looks at are not
all there is: a weight used functionally has a gradient that no layer sees, so that norms come out too small and one
example moves the sum by thousands of clip norms. Here clipped sums of single made-up examples, and of whole batches of
several sizes, are compared with the reference's, whose examples cannot meet. At the run's own clip norm, at one that
clips every example and at one that clips none: where all are clipped a wrong length of the gradient does not show, and
where none is, a wrong norm does not.
"""

import copy
import math
import warnings
from collections.abc import Callable
from contextlib import suppress
from itertools import product
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.utils import parametrize
from torch.utils._pytree import tree_leaves
from torch.utils.data import TensorDataset

from pacdp.chains.pixels import Pixels
from pacdp.errors import naming
from pacdp.layers.plain import of_known_layers
from pacdp.layers.random import generators, random_state, rewind, same_state
from pacdp.losses import Loss
from pacdp.step.clip import Clip, Weights
from pacdp.step.gradients import NO_CLIPPING, require_true_sums
from pacdp.step.mechanism import GradSampleMode, Mechanism
from pacdp.step.sums import Reference, Summer, runs_at_once
from pacdp.step.units import ByPlace, Network, Units, take, trained
from pacdp.trials import (
    MOST,
    Unwritten,
    kept_draws,
    made_up_batch,
    made_up_targets,
    pool,
    require_given_weights,
    require_independent_examples,
    require_own_losses,
    require_own_outputs,
    require_true_slope,
    require_unwritten,
    with_other_weights,
)

_BATCHES = ([0], [1], [2], [0, 1, 2], [*range(8)])
"""Examples of which sums are compared; where passes draw, single ones alone."""
_TOLERANCE = 2e-3
"""Relative to the largest clipped gradient of the batch."""
_TRIALS = 3
"""At a kink of the loss rounding alone moves a gradient: a mode may disagree once. Weights move after the first."""
_SMALL = 1e-3
"""Gradients so many times smaller than the largest are rounding, whose direction says nothing."""
_FAILURES = (ValueError, TypeError, RuntimeError, AttributeError, LookupError, AssertionError)
MakeSummer = Callable[[Network, Units, Clip], Summer]
"""From a network, its units and how their contributions are clipped."""
_NETWORK = "the network, for inputs of shape {} in {},"
"""What failed, where a network cannot run on what it is given."""
_MADE_UP = 1000
"""Examples at most that are made up for a chain."""
_CLIPPED = 3
"""Examples on which clipped gradients are compared with autograd's."""
_TRIED = 1024
"""Examples at most that a trial of a fast mode holds, and so a pass of it."""


def chosen_mode(
    asked: GradSampleMode | None,
    ghost: MakeSummer,
    network: Network,
    inputs: Any,
    targets: Tensor,
    *,
    clip_norm: float,
    draws: int = 1,
    pre_noise: float = 0.0,
) -> GradSampleMode:
    """Ghost clipping where it can do what is asked and agrees with the reference, which is taken elsewhere.

    Args:
        asked: None to choose.
        ghost: as ``make`` of :func:`disagreement`, like what follows.
        draws: forward passes of an example.
        pre_noise: on each example's gradient.

    Raises:
        ValueError: ghost clipping was asked for, and cannot be used.
    """
    if asked == "reference" or (asked is None and not of_known_layers(network.module)):
        return "reference"
    if draws > 1:
        wrong = f"it sees each layer once a step, and draws is {draws}"
    elif pre_noise > 0.0:
        wrong = "pre_noise needs gradients of single examples, which it never forms"
    elif asked == "ghost" and (where := _parametrized(network.module)):
        wrong = (
            f"{where} is computed by a parametrization, outside of any layer, and has a gradient that no layer sees; "
            "write what it adds (an adapter, a norm) as a layer of its own or as parameters (docs/lora.md)"
        )
    else:
        wrong = disagreement(ghost, network, inputs, targets, clip_norm=clip_norm)
    if wrong is not None and asked == "ghost":
        raise ValueError(
            f"grad_sample_mode 'ghost' cannot be used with this network: {wrong}; or leave grad_sample_mode out, which "
            "then takes gradients example by example"
        )
    return "ghost" if wrong is None else "reference"


def _parametrized(module: nn.Module) -> str | None:
    """The first weight that a parametrization computes."""
    for prefix, layer in module.named_modules():
        if parametrize.is_parametrized(layer):
            names = ", ".join(layer.parametrizations)  # pyright: ignore[reportCallIssue, reportArgumentType]
            return f"{names} of layer {prefix or type(layer).__name__}"
    return None


def disagreement(
    make: MakeSummer, network: Network, inputs: Any, targets: Tensor, *, clip_norm: float
) -> str | None:
    """How a fast mode's clipped sums differ from the reference's, in one sentence; None where they agree.

    Args:
        make: the mode for a network, its units and their clipping; it is given copies, which it may change.
        inputs: one batch of examples, a tensor, of which shape and kind matter and not the values; or the network's
            positional arguments, tensors or structures of them, which are used as they are.
        targets: likewise.
    """
    before, wrong = random_state(network.module), list[str]()
    try:
        for trial in range(_TRIALS):
            module = with_other_weights(network.module, seed=trial) if trial else network.module
            said = _differs(
                make, network._replace(module=module), inputs, targets, clip_norm, trial
            )
            wrong += [said] if said else []
            if len(wrong) != 1 and (wrong or trial):  # no further trial can change the verdict
                break
    finally:
        rewind(network.module, before)
    return wrong[0] if len(wrong) > 1 else None


def _differs(
    make: MakeSummer, network: Network, inputs: Any, targets: Tensor, clip_norm: float, seed: int
) -> str | None:
    count, before = len(_BATCHES[-1]), random_state(network.module)
    if isinstance(inputs, Tensor):
        examples = made_up_batch(inputs, examples=count, seed=seed)
    else:
        network = Network.of(ByPlace(network.module, inputs), network.loss)
        first = next(leaf for leaf in tree_leaves(inputs) if isinstance(leaf, Tensor))
        examples = torch.arange(count, device=first.device) % len(first)
    exact = network._replace(module=copy.deepcopy(network.module))
    with torch.no_grad():
        outputs = exact.module(examples)
    made_up = made_up_targets(targets, outputs, network.loss, count=count)
    units = Units.group(TensorDataset(examples, made_up), None)

    def of(summer: Summer, own: Network, chosen: list[int]) -> Float[Tensor, " dim"]:
        rewind(own.module, before)
        found = summer(torch.tensor(chosen), trained(own.module)).total
        return torch.cat([one.double().reshape(-1) for one in found.values()])

    said = "the reference fails"
    try:
        reference = Reference(exact, units, NO_CLIPPING)
        vectorised = runs_at_once(reference, units, trained(exact.module))
        reference = reference._replace(vectorised=vectorised)
        singles = torch.stack([of(reference, exact, [i]) for i in range(count)])
        drawing = generators(exact.module) or not same_state(before, random_state(exact.module))
        norms = singles.norm(dim=1, keepdim=True)
        largest = float(norms.max())
        if largest == 0.0:
            return "no made-up example has a finite gradient other than zero, so that nothing can be compared"
        smallest, said = float(norms[norms > _SMALL * largest].min()), "it fails"
        for norm in (clip_norm, 0.5 * smallest, 2.0 * largest):
            fast = network._replace(module=copy.deepcopy(network.module))
            summer = make(fast, units, Clip(norm))
            for batch in _BATCHES[:3] if drawing else _BATCHES:
                clipped = singles[batch] * (norm / norms[batch].clamp(min=norm))
                away = of(summer, fast, batch) - clipped.sum(0)
                if not float(away.norm()) <= _TOLERANCE * min(norm, largest) * len(batch):
                    sums = (
                        "sum over a batch of several"
                        if len(batch) > 1
                        else "clipped gradient of a single example"
                    )
                    return f"its {sums} is not that of the examples, each clipped by itself"
    except _FAILURES as error:
        return f"{said} on a made-up batch ({str(error).splitlines()[0]})"
    return None


def template_of(units: Units, device: torch.device) -> tuple[Tensor, Tensor]:
    """A few records, of which shapes and kinds are used and nothing else."""
    with naming("dataset, whose first example is tried,"):
        read = take(units.dataset, torch.zeros(4, dtype=torch.int64))
    match read:
        case [Tensor() as inputs, Tensor() as targets]:
            return inputs.to(device), targets.to(device)
    raise ValueError(
        "dataset must give (input, target) pairs of tensors; write a loop over PrivateEngine for others"
    )


def at_once(mechanism: Mechanism) -> int | None:
    """Units in one pass at most: with a fast mode no more than are tried, since its examples could meet."""
    if mechanism.grad_sample_mode == "reference":
        return mechanism.max_physical_batch
    tried = max(MOST, math.ceil(min(2.0 * mechanism.expected_batch_size, _TRIED)))
    return min(tried, mechanism.max_physical_batch or tried)


def require_apart(network: Network, template: tuple[Tensor, Tensor], mechanism: Mechanism) -> None:
    """Refuse a network or a loss in which examples meet, in batches of the size that will be used."""
    inputs, targets = made_up_batch(template[0]), torch.zeros_like(template[1])
    size = at_once(mechanism) or MOST
    _require_taken(network, inputs[:4], targets)
    with naming(_NETWORK.format(tuple(inputs.shape[1:]), inputs.dtype)):
        require_independent_examples(
            network.module, (inputs,), targets=targets, loss=network.loss, size=size
        )


def _require_taken(network: Network, inputs: Tensor, targets: Tensor) -> None:
    """Refuse records that network and loss do not take, and would take in another form, by raising ValueError."""
    module = copy.deepcopy(network.module)
    kind = next((p.dtype for p in module.parameters() if p.is_floating_point()), inputs.dtype)

    def takes(x: Tensor, y: Tensor) -> bool:
        with suppress(Exception), kept_draws(), warnings.catch_warnings(action="ignore"):
            return len(network.loss(module(x), y)) == len(x)
        return False

    rows = {"": inputs, f"inputs.to({kind})": inputs.to(kind)}
    forms = {
        "": targets,
        **({"targets.squeeze(1)": targets[:, 0]} if targets.shape[1:] == (1,) else {}),
    }
    answers = dict(forms)
    for name, one in forms.items():
        for how, to in ((".long()", torch.int64), (f".to({kind})", kind)):
            answers[(name or "targets") + how] = one.to(to)
    for (row, x), (answer, y) in product(rows.items(), answers.items()):
        if takes(x, y):
            if named := " and ".join(filter(None, (row, answer))):
                raise ValueError(
                    f"dataset gives inputs of {inputs.dtype} and targets of {targets.dtype}, shape "
                    f"{list(targets.shape[1:])} an example, which network and loss do not take: let it give {named}"
                )
            return


def global_state(network: Network, template: tuple[Tensor, Tensor]) -> Tensor | None:
    """The state of torch's global generator, where the network or the loss draws from it, as dropout does."""
    before, module = torch.get_rng_state(), copy.deepcopy(network.module)
    inputs = made_up_batch(template[0], examples=len(template[1]))
    with torch.random.fork_rng(devices=[]):
        network.loss(module(inputs), torch.zeros_like(template[1]))
        return None if torch.equal(before, torch.get_rng_state()) else before


def summer_of(
    reference: Reference, ghost: MakeSummer, mechanism: Mechanism, template: tuple[Tensor, Tensor]
) -> Summer:
    """The reference, with units side by side where the network allows it, or ghost clipping.

    Raises:
        ValueError: ghost clipping was asked for, and cannot be used.
    """
    by_person = reference.contribution is not None
    if by_person and mechanism.grad_sample_mode == "ghost":
        raise ValueError(
            "grad_sample_mode 'ghost' clips gradients of single examples, and not what a person contributes, which is "
            "taken by the reference: leave it out"
        )
    inputs = made_up_batch(template[0], examples=6)
    targets = torch.zeros_like(template[1][:1]).expand(6, *template[1].shape[1:])
    people = torch.arange(6) // 3 if by_person else None
    tried = Units.group(TensorDataset(inputs, targets), people)
    vectorised = runs_at_once(reference, tried, trained(reference.network.module))
    reference = reference._replace(vectorised=vectorised)
    if by_person:
        return reference
    mode = chosen_mode(
        mechanism.grad_sample_mode,
        ghost,
        reference.network,
        *template,
        clip_norm=mechanism.clip_norm,
        draws=reference.draws,
        pre_noise=reference.pre_noise,
    )
    made = ghost(reference.network, reference.units, mechanism.clip) if mode == "ghost" else None
    return made or reference


@torch.no_grad()
def require_own_examples(
    model: nn.Module,
    loss: Loss,
    inputs: Tensor | Pixels,
    labels: Tensor,
    largest: int,
    mixes: bool,
    parameters: Weights | None,
) -> None:
    """Refuse a chain whose examples have no output and loss of their own, at the weights that the network came with.

    Examples of the data are tried, and made-up ones, so that no records decide that nothing is: where an output or a
    gradient is not finite, or so large that nothing beside it shows, there is nothing to compare.

    Args:
        largest: examples in a batch or a part of the data at most.
        mixes: whether the network may normalise over a batch: then it is tried for what it writes alone.
        parameters: by name, where gradients are clipped or their norms kept; None elsewhere.

    Raises:
        ValueError: as said, or nothing that is finite.
    """
    largest, k = max(MOST, largest), min(_CLIPPED, len(inputs))
    few = inputs[:largest]
    sources, tried = (few, made_up_batch(few, examples=min(largest, _MADE_UP))), False
    with naming(_NETWORK.format(tuple(few.shape[1:]), few.dtype)):
        require_unwritten(model, sources[1][:2], model)
        if not all(type(layer).__module__.startswith("torch.nn.") for layer in model.modules()):
            require_given_weights(model, sources[1][:2])  # torch's layers keep no weight elsewhere
    if mixes:
        return
    settled = Unwritten(model)
    for source in sources:
        size = max(MOST, len(source))
        examples = pool(source, size=size)
        outputs = require_own_outputs(lambda k, x=examples: model(x[k.to(x.device)]), size=size)
        if bool(outputs.isfinite().all()):
            require_own_losses(loss, outputs, labels, size=size)
            require_true_slope(loss, outputs, labels)
            tried = True
    settled.require()
    if parameters is not None:
        tried &= any(
            [
                require_true_sums(Network(model, {}, loss), parameters, x[:k], labels[:k])
                for x in sources
            ]
        )
    if not tried:
        raise ValueError(
            "the network's outputs, or where clipped or kept its gradients, are finite neither on the data nor on "
            "made-up inputs, so that nothing can be tried: give it weights at which they are"
        )
