"""What a run goes through before its first step: trials on made-up examples, and the choice of a way to clipped sums.

The mode is chosen here alone: ghost clipping for gradients of examples where it can be used, the reference elsewhere
and for whatever a person contributes.
"""

import copy
import math
import warnings
from contextlib import suppress
from itertools import product

import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from pacdp.chains.pixels import Pixels
from pacdp.errors import naming
from pacdp.losses import Loss
from pacdp.step.agreement import MakeSummer, chosen_mode
from pacdp.step.clip import Weights
from pacdp.step.gradients import require_true_sums
from pacdp.step.mechanism import Mechanism
from pacdp.step.sums import Reference, Summer, runs_at_once
from pacdp.step.units import Network, Units, take, trained
from pacdp.trials import (
    MOST,
    Unwritten,
    kept_draws,
    made_up_batch,
    pool,
    require_independent_examples,
    require_own_losses,
    require_own_outputs,
    require_true_slope,
    require_unwritten,
)

_NETWORK = "the network, for inputs of shape {} in {},"
"""What failed, where a network cannot run on what it is given."""
_MADE_UP = 1000
"""Examples at most that are made up for a chain."""
_CLIPPED = 3
"""Examples on which clipped gradients are compared with autograd's."""
_TRIED = 1024
"""Examples at most that a trial of a fast mode holds, and so a pass of it."""


def template_of(units: Units, device: torch.device) -> tuple[Tensor, Tensor]:
    """A few records, of which shapes and kinds are used and nothing else."""
    match take(units.dataset, torch.zeros(4, dtype=torch.int64)):
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
    mode = "reference" if by_person else chosen_mode(
        mechanism.grad_sample_mode,
        ghost,
        reference.network,
        *template,
        clip_norm=mechanism.clip_norm,
        draws=reference.draws,
        pre_noise=reference.pre_noise,
    )  # fmt: skip
    if mode == "ghost":
        return ghost(reference.network, reference.units, mechanism.clip)
    return reference


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
