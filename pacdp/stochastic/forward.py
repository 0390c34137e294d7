"""Forward passes with fresh weights for every example: layer by layer where the network allows it.

Any network has the general form: draw all weights of the network for each example and run it there. It costs as many
normal numbers an example as there are weights.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import NamedTuple

import torch
from torch import Tensor, nn

from pacdp.layers.plain import call_with
from pacdp.models import require_evaluation
from pacdp.posterior import GaussianPosterior
from pacdp.stochastic.intercept import by_example
from pacdp.stochastic.law import Law, laws_of, require_law_of
from pacdp.stochastic.layers import NotByExample
from pacdp.stochastic.noise import Draws
from pacdp.trials import (
    MOST,
    pool_for,
    require_given_weights,
    require_own_outputs,
    require_unwritten,
)

_WEIGHTS_AT_ONCE = 2**25
"""Drawn weights held at a time in the general form."""
_SEED = 0
_TOLERANCE = 1e-3
_ROWS = 5
_WHOLE = 3
"""Examples of a trial in the general form: each is a draw of all weights."""


Run = Callable[[Callable[..., Tensor]], Callable[..., Tensor]]
"""A function of one network and example to one of many."""


class FreshPass(NamedTuple):
    """How one network is run: ``run(inputs, draws)``."""

    run: Callable[[Tensor, Draws], Tensor]
    by_layers: bool = False
    """Whether weights are drawn layer by layer, and not as whole networks."""

    def outputs(self, inputs: Tensor, *, seed: int, number: int, first: int = 0) -> Tensor:
        """Outputs of the examples ``first``, ``first`` + 1, ... in pass ``number``."""
        examples = torch.arange(first, first + len(inputs))
        return self.run(inputs, Draws.of(seed=seed, number=number, examples=examples))


def fresh_pass(
    module: nn.Module,
    posterior: GaussianPosterior,
    probe: Tensor,
) -> FreshPass:
    """The fastest exact way to run ``module`` with fresh weights, tried out on the examples ``probe``.

    Args:
        probe: a few examples; what they are decides nothing but which way works. The trials have batches of up to 33
            examples, or as many as these are.

    Raises:
        ValueError: the posterior is over other weights; an example's output depends on the others of its batch, on
            randomness besides the weights, or on what the network saw before; or the outputs are not finite.
    """
    require_law_of(module, posterior)
    require_evaluation(module)
    laws = laws_of(posterior, probe.device)
    buffers = {name: value.to(probe.device) for name, value in posterior.buffers.items()}
    fixed = {name: law.mean for name, law in laws.items()} | buffers
    given = module, laws, buffers
    ways = [
        FreshPass(partial(by_example, *given), by_layers=True),
        FreshPass(partial(_whole, torch.func.vmap, *given)),
        FreshPass(partial(_whole, _looped, *given)),
    ]
    size = max(MOST, len(probe))
    _require_no_mixing(module, fixed, probe, size)
    for way in ways[:-1]:
        try:
            if way.by_layers:
                _require_same_network(module, laws, fixed, probe)
            _require_independent_examples(way, probe, size)
        except (
            NotByExample,
            RuntimeError,
            TypeError,
        ):  # the last two are vmap's ways to say that it cannot
            continue
        return way
    _require_independent_examples(ways[-1], probe, size)
    return ways[-1]


def _whole(
    run: Run,
    module: nn.Module,
    laws: Mapping[str, Law],
    buffers: Mapping[str, Tensor],
    inputs: Tensor,
    draws: Draws,
) -> Tensor:
    """The general form, a few networks at a time."""

    def one(own: dict[str, Tensor], x: Tensor) -> Tensor:
        return call_with(module, {**own, **buffers}, x)

    step = max(1, _WEIGHTS_AT_ONCE // sum(law.mean.numel() for law in laws.values()))
    parts: list[Tensor] = []
    with torch.no_grad():
        for start in range(0, len(inputs), step):
            rows = slice(start, start + step)
            weights = {name: law.draw(draws.select(rows)) for name, law in laws.items()}
            parts.append(run(one)(weights, inputs[rows][:, None]).flatten(0, 1))
    return torch.cat(parts)


def _looped(one: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """What ``torch.func.vmap`` would give, one after the other."""

    def every(weights: Mapping[str, Tensor], inputs: Tensor) -> Tensor:
        each = [{name: w[k] for name, w in weights.items()} for k in range(len(inputs))]
        return torch.stack([one(own, x) for own, x in zip(each, inputs, strict=True)])

    return every


def _require_independent_examples(way: FreshPass, probe: Tensor, size: int) -> None:
    """With equal draws, an example's output must be its own."""
    count = size if way.by_layers else _WHOLE
    examples = pool_for(partial(way.outputs, seed=_SEED, number=0), probe, size=count)

    def run(places: Tensor) -> Tensor:
        draws = Draws.of(seed=_SEED, number=0, examples=places)
        return way.run(examples[places.to(probe.device)], draws)

    if not bool(require_own_outputs(run, size=count).isfinite().all()):
        raise ValueError(
            "the network's outputs on drawn weights are NaN or infinite: the weights have diverged"
        )


@torch.no_grad()
def _require_no_mixing(
    module: nn.Module, fixed: Mapping[str, Tensor], probe: Tensor, size: int
) -> None:
    """With these weights and buffers, an example's output must be its own."""
    state = {name: one.clone() for name, one in fixed.items()}

    def run(inputs: Tensor) -> Tensor:
        return call_with(module, state, inputs)

    examples = pool_for(run, probe, size=size)
    require_unwritten(SimpleNamespace(**state), examples[-2:], run)
    require_given_weights(module, examples[-2:])
    require_own_outputs(lambda places: run(examples[places.to(probe.device)]), size=size)


@torch.no_grad()
def _require_same_network(
    module: nn.Module, laws: Mapping[str, Law], fixed: Mapping[str, Tensor], probe: Tensor
) -> None:
    """With every standard deviation at 0, layers by example must give what the network gives at its mean weights.

    Raises:
        NotByExample: they give something else.
    """
    rows, buffers = probe[:_ROWS], {name: fixed[name] for name in fixed.keys() - laws.keys()}
    still = {name: replace(law, std=torch.zeros_like(law.std)) for name, law in laws.items()}
    layers = FreshPass(partial(by_example, module, still, buffers))
    found, expected = layers.outputs(rows, seed=_SEED, number=0), call_with(module, fixed, rows)
    atol = _TOLERANCE * (1.0 + float(expected.abs().max()))
    if found.shape != expected.shape or not torch.allclose(found, expected, rtol=0.0, atol=atol):
        raise NotByExample(
            "taken apart into layers, the network gives other outputs than it gives itself"
        )
