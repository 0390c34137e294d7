"""Predictive probabilities of private posteriors: averages over snapshots, weight draws or masks. Post-processing."""

import copy
from collections.abc import Mapping

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.utils import vector_to_parameters

from pacdp.layers.dropout import ExampleDropout


@torch.no_grad()
def with_weights(module: nn.Module, weights: Mapping[str, Tensor]) -> nn.Module:
    """A copy of ``module`` with these weights, in evaluation mode.

    Raises:
        ValueError: the names or shapes are those of another network.
    """
    twin = copy.deepcopy(module).eval()
    parameters = dict(twin.named_parameters())
    if {k: v.shape for k, v in parameters.items()} != {k: v.shape for k, v in weights.items()}:
        raise ValueError(f"weights {sorted(weights)} do not fit the network's {sorted(parameters)}")
    for name, parameter in parameters.items():
        parameter.copy_(weights[name])
    return twin


@torch.no_grad()
def average_over_snapshots(
    module: nn.Module,
    snapshots: Float[Tensor, "snapshots dim"],
    inputs: Tensor,
) -> Float[Tensor, "examples classes"]:
    """Mean over snapshots of the predictive probabilities.

    Raises:
        ValueError: no snapshot.
    """
    if len(snapshots) == 0:
        raise ValueError("there is no snapshot to average over: train with thin > 0")
    twin = copy.deepcopy(module).eval()
    total: Tensor | float = 0.0
    for weights in snapshots:
        vector_to_parameters(weights.to(next(twin.parameters())), twin.parameters())
        total = total + twin(inputs).softmax(-1)
    assert isinstance(total, Tensor)
    return total / len(snapshots)


@torch.no_grad()
def average_over_draws(
    module: nn.Module,
    inputs: Tensor,
    *,
    draws: int,
    seed: int,
    alone: bool = False,
) -> Float[Tensor, "examples classes"]:
    """Mean over ``draws`` passes with fresh masks and weights, drawn from ``seed``; all else in evaluation mode.

    With ``alone`` each example is answered as in a batch of its own, whatever else is asked at the same time.

    Raises:
        ValueError: ``draws`` below 1, or a network in which nothing is drawn.
    """
    if draws < 1:
        raise ValueError(f"draws must be at least 1, got {draws}")
    twin = copy.deepcopy(module).eval()
    random = [
        layer
        for layer in twin.modules()
        if isinstance(getattr(layer, "generator", None), torch.Generator)
    ]
    if not random:
        raise ValueError(
            "nothing is drawn in this network: use bayesian(...) or with_example_dropout(...) on it"
        )
    for i, layer in enumerate(random):
        layer.generator.manual_seed(seed + 7919 * i)  # pyright: ignore
        if isinstance(layer, ExampleDropout):
            layer.train()
            layer.alone = alone
    total = torch.stack([twin(inputs).softmax(-1) for _ in range(draws)])
    return total.mean(0)
