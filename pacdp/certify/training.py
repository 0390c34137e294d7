"""Training a network of one's own with noise, on every example, and certifying the weights that it ends with.

What a command does with a run folder, in one call: :mod:`pacdp.certify.trajectory` says what is paid for.
"""

from dataclasses import replace
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

import bounds
from pacdp.algorithms import SGHMC, SGLD, EntropySGD, build
from pacdp.certify.examples import BoundSet
from pacdp.certify.priors import NoisySum
from pacdp.certify.settings import Settings
from pacdp.certify.trajectory import error_of, realised_price, weights_at
from pacdp.chains import Keys, run_chains
from pacdp.data import Dataset
from pacdp.losses import Loss, bounded_cross_entropy
from pacdp.objective import Objective


class Certified(NamedTuple):
    """A network that paid for its training, and what it certifies on the examples that it was trained on."""

    weights: dict[str, Tensor]
    """By the names of the network's parameters."""
    certificate: bounds.Certificate
    norms: Float[Tensor, " gradients"]
    """Σ_i ‖∇ℓ_i‖² of every step, over examples or people, of which the price was made."""


def train_certified(
    model: nn.Module,
    data: Dataset,
    *,
    settings: SGLD | SGHMC | EntropySGD,
    steps: int,
    loss: Loss | None = None,
    failure_prob: float = 0.05,
    seed: int = 0,
    fixed: Settings | None = None,
) -> Certified:
    """Train a network of one's own on every example with noise, and certify the weights that it ends with.

    Where ``data`` name people, they are the records, and the certificate is about the risk for a new person.

    Formal guarantee: that of :func:`realised_price`, if the network's first weights, ``settings``, ``steps`` and
    ``seed`` were fixed without the examples, or chosen among as many as ``fixed`` says.

    Args:
        model: the network, in eval mode; it is not changed.
        settings: how to move; batch_size, keep_norms and every_record are set here.
        loss: bounded; by default the cross-entropy up to 8.

    Raises:
        ValueError: batch statistics, settings whose steps are no sums with noise, or as for :class:`Objective`.
        Diverged: a weight is not finite.
    """
    settings = replace(settings, batch_size=data.n, keep_norms=True, every_record=True)
    fixed = fixed or Settings.declared()
    loss = loss or bounded_cross_entropy(classes=data.classes, max_loss=8.0)
    objective = Objective(model, loss, data, batch_size=data.n, keep_norms=True, every_record=True)
    sampler = build(settings, objective)
    state, norms = sampler.init(objective.weights()), list[Tensor]()
    for part in run_chains(sampler, state, Keys.derive([seed]), until=steps, chunk=steps):
        state, norms = part.state, [one for one in (*norms, part.squared_norms) if one is not None]
    kept = torch.cat(norms, dim=1)[0]
    start = "the caller, whose network came with its first weights"
    examples = BoundSet.of_records(objective)
    price = realised_price(settings, kept, steps=steps, n=examples.units, start=start)
    made = weights_at(
        NoisySum(price=price, unit=examples.unit),
        risk=error_of(state.weights[0], objective),
        examples=examples,
        failure_prob=fixed.share(failure_prob),
        fixed=fixed,
    )
    named = {name: view.clone() for name, view in objective.layout.views(state.weights[0]).items()}
    return Certified(named, made, kept)
