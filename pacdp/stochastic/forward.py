"""Forward passes with fresh weights: for every example where the network allows it, else for every group of examples.

Any network has the general form: draw all weights of the network for each group of ``group_size`` examples and run it
on the group. It costs as many normal numbers a group as there are weights, and a group is one independent term.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import torch
from torch import Tensor, nn

from pacdp.models import random_layers
from pacdp.posterior import GaussianPosterior
from pacdp.stochastic.intercept import by_example
from pacdp.stochastic.law import Law, laws_of, require_law_of
from pacdp.stochastic.layers import NotByExample
from pacdp.stochastic.noise import Draws

_WEIGHTS_AT_ONCE = 2**25
"""Drawn weights held at a time in the general form."""
_SEED = 0
_TOLERANCE = 1e-3


class FreshPass(NamedTuple):
    """How one network is run: ``run(inputs, draws)``, one draw for each group of ``group_size`` examples."""

    run: Callable[[Tensor, Draws], Tensor]
    group_size: int


def fresh_outputs(module: nn.Module, posterior: GaussianPosterior, inputs: Tensor, draws: Draws) -> Tensor:
    """Outputs [batch, ...] in which each example has its own independent draw of all weights, in one pass.

    The joint law of one example's outputs is that of ``module(inputs[i])`` with a draw of the whole network; outputs of
    different examples are independent. Exact in real arithmetic, for networks whose parameters are each used once by
    linear, conv1d, conv2d, embedding, group_norm, layer_norm or batch_norm (with running statistics); evaluated in the
    module's precision.

    Raises:
        NotByExample: the network is another; :func:`fresh_pass` finds the way that fits.
        ValueError: the posterior is over other weights, or a layer draws or averages over the batch.
    """
    _require_usable(module, posterior)
    return by_example(module, laws_of(posterior, inputs.device), _on(posterior.buffers, inputs.device), inputs, draws)


def fresh_pass(
    module: nn.Module, posterior: GaussianPosterior, probe: Tensor, *, group_size: int = 1, by_layers: bool = True
) -> FreshPass:
    """The fastest exact way to run ``module`` with fresh weights, tried out on the examples ``probe``.

    Args:
        probe: a few examples; what they are decides nothing but which way works.
        group_size: examples that share one draw where the network cannot be taken apart into layers.
        by_layers: False takes the general form at once.

    Raises:
        ValueError: the posterior is over other weights; an example's output depends on the others of its batch, or on
            randomness besides the weights; the outputs are not finite; group_size < 1.
    """
    _require_usable(module, posterior)
    if group_size < 1:
        raise ValueError(f"expected group_size >= 1, got {group_size}")
    laws, buffers = laws_of(posterior, probe.device), _on(posterior.buffers, probe.device)

    def layered(inputs: Tensor, draws: Draws) -> Tensor:
        return by_example(module, laws, buffers, inputs, draws)

    def mapped(inputs: Tensor, draws: Draws) -> Tensor:
        return _by_group(module, laws, buffers, inputs, draws, group_size, _vmapped)

    def looped(inputs: Tensor, draws: Draws) -> Tensor:
        return _by_group(module, laws, buffers, inputs, draws, group_size, _looped)

    ways = [FreshPass(mapped, group_size), FreshPass(looped, group_size)]
    if by_layers:
        ways.insert(0, FreshPass(layered, 1))
    _require_no_mixing(module, posterior, buffers, probe)
    for way in ways[:-1]:
        try:
            _require_independent_examples(way, probe)
        except (NotByExample, RuntimeError, TypeError):  # the last two are vmap's ways to say that it cannot
            continue
        return way
    _require_independent_examples(ways[-1], probe)
    return ways[-1]


def _by_group(
    module: nn.Module, laws: Mapping[str, Law], buffers: Mapping[str, Tensor], inputs: Tensor, draws: Draws,
    group_size: int, run: Callable[..., Tensor],
) -> Tensor:  # fmt: skip
    groups = len(draws.ticks)
    whole = len(inputs) // group_size
    step = max(1, _WEIGHTS_AT_ONCE // sum(law.mean.numel() for law in laws.values()))
    parts: list[Tensor] = []
    with torch.no_grad():
        for start, stop in [(s, min(s + step, whole)) for s in range(0, whole, step)] + [(whole, groups)] * (
            groups > whole
        ):
            rows = inputs[start * group_size : stop * group_size]
            mine = draws.select(slice(start, stop))
            weights = {name: law.draw(mine) for name, law in laws.items()}
            parts.append(run(module, weights, buffers, rows.unflatten(0, (stop - start, -1))).flatten(0, 1))
    return torch.cat(parts)


def _vmapped(module: nn.Module, weights: Mapping[str, Tensor], buffers: Mapping[str, Tensor], inputs: Tensor) -> Tensor:
    def one(own: dict[str, Tensor], x: Tensor) -> Tensor:
        return torch.func.functional_call(module, {**own, **buffers}, (x,))

    return torch.func.vmap(one)(dict(weights), inputs)


def _looped(module: nn.Module, weights: Mapping[str, Tensor], buffers: Mapping[str, Tensor], inputs: Tensor) -> Tensor:
    return torch.stack([
        torch.func.functional_call(module, {name: w[k] for name, w in weights.items()} | dict(buffers), (inputs[k],))
        for k in range(len(inputs))
    ])  # fmt: skip


def _require_usable(module: nn.Module, posterior: GaussianPosterior) -> None:
    require_law_of(module, posterior)
    drawing = random_layers(module)
    if drawing:
        raise ValueError(
            f"layers {', '.join(drawing)} draw random numbers in every pass, besides the weights: call eval() first"
        )
    mixing = [
        name for name, layer in module.named_modules()
        if isinstance(layer, nn.modules.batchnorm._BatchNorm) and (layer.training or layer.running_mean is None)
    ]  # fmt: skip
    if mixing:
        raise ValueError(
            f"layers {', '.join(mixing)} normalise by statistics of the batch, so that no example has a loss of its "
            "own: call eval() first, or use norm='group'"
        )


def _require_independent_examples(way: FreshPass, probe: Tensor) -> None:
    """With equal draws, an example's output must be the same alone and among others."""
    size = way.group_size
    groups = min(3, max(1, len(probe) // size))
    draws = Draws.of(seed=_SEED, number=0, examples=torch.arange(groups))
    together = way.run(probe[: groups * size], draws)
    if not bool(torch.isfinite(together).all()):
        raise ValueError("the network's outputs on drawn weights are NaN or infinite: the weights have diverged")
    scale = 1.0 + float(together.abs().max())
    for k in range(groups * size) if size == 1 else range(groups):
        alone = way.run(probe[k * size : (k + 1) * size], draws.select(slice(k, k + 1)))
        if not torch.allclose(alone, together[k * size : (k + 1) * size], rtol=0.0, atol=_TOLERANCE * scale):
            raise ValueError(
                f"output {k} of the network depends on the other examples of its batch, or on random numbers besides "
                "the weights: no example has a loss of its own"
            )


@torch.no_grad()
def _require_no_mixing(
    module: nn.Module, posterior: GaussianPosterior, buffers: Mapping[str, Tensor], probe: Tensor
) -> None:
    """At the mean weights, an example's output must be the same alone and among others; groups hide that it is not."""
    state = {**_on(posterior.means, probe.device), **buffers}
    together = torch.func.functional_call(module, state, (probe,))
    if not bool(torch.isfinite(together).all()):
        return  # refused by name elsewhere
    scale = 1.0 + float(together.abs().max())
    for k in range(min(3, len(probe))):
        alone = torch.func.functional_call(module, state, (probe[k : k + 1],))
        if not torch.allclose(alone, together[k : k + 1], rtol=0.0, atol=_TOLERANCE * scale):
            raise ValueError(
                f"output {k} of the network depends on the other examples of its batch, or on random numbers besides "
                "the weights: no example has a loss of its own"
            )


def _on(buffers: Mapping[str, Tensor], device: torch.device) -> dict[str, Tensor]:
    return {name: value.to(device) for name, value in buffers.items()}
