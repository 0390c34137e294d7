"""Forward passes with fresh weights for every example: layer by layer where the network allows it.

Any network has the general form: draw all weights of the network for each example and run it there. It costs as many
normal numbers an example as there are weights.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
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
from pacdp.trials import MOST, pool, require_own_outputs, require_unwritten

_WEIGHTS_AT_ONCE = 2**25
"""Drawn weights held at a time in the general form."""
_SEED = 0
_TOLERANCE = 1e-3
_ROWS = 5
_WHOLE = 3
"""Examples of a trial in the general form: each is a draw of all weights."""


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
    laws, buffers = laws_of(posterior, probe.device), _on(posterior.buffers, probe.device)

    def layered(inputs: Tensor, draws: Draws) -> Tensor:
        return by_example(module, laws, buffers, inputs, draws)

    def mapped(inputs: Tensor, draws: Draws) -> Tensor:
        return _whole(module, laws, buffers, inputs, draws, _vmapped)

    def looped(inputs: Tensor, draws: Draws) -> Tensor:
        return _whole(module, laws, buffers, inputs, draws, _looped)

    ways = [FreshPass(layered, by_layers=True), FreshPass(mapped), FreshPass(looped)]
    size = max(MOST, len(probe))
    _require_no_mixing(module, posterior, buffers, probe, size)
    for way in ways[:-1]:
        try:
            if way.by_layers:
                _require_same_network(module, laws, buffers, probe)
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
    module: nn.Module,
    laws: Mapping[str, Law],
    buffers: Mapping[str, Tensor],
    inputs: Tensor,
    draws: Draws,
    run: Callable[..., Tensor],
) -> Tensor:
    """The general form, a few networks at a time."""
    step = max(1, _WEIGHTS_AT_ONCE // sum(law.mean.numel() for law in laws.values()))
    parts: list[Tensor] = []
    with torch.no_grad():
        for start in range(0, len(inputs), step):
            rows = slice(start, start + step)
            weights = {name: law.draw(draws.select(rows)) for name, law in laws.items()}
            parts.append(run(module, weights, buffers, inputs[rows][:, None]).flatten(0, 1))
    return torch.cat(parts)


def _vmapped(
    module: nn.Module, weights: Mapping[str, Tensor], buffers: Mapping[str, Tensor], inputs: Tensor
) -> Tensor:
    def one(own: dict[str, Tensor], x: Tensor) -> Tensor:
        return call_with(module, {**own, **buffers}, x)

    return torch.func.vmap(one)(dict(weights), inputs)


def _looped(
    module: nn.Module, weights: Mapping[str, Tensor], buffers: Mapping[str, Tensor], inputs: Tensor
) -> Tensor:
    return torch.stack(
        [
            call_with(
                module, {name: w[k] for name, w in weights.items()} | dict(buffers), inputs[k]
            )
            for k in range(len(inputs))
        ]
    )


def _require_independent_examples(way: FreshPass, probe: Tensor, size: int) -> None:
    """With equal draws, an example's output must be its own."""
    count = size if way.by_layers else _WHOLE
    examples = pool(probe, size=count)

    def run(places: Tensor) -> Tensor:
        draws = Draws.of(seed=_SEED, number=0, examples=places)
        return way.run(examples[places.to(probe.device)], draws)

    if not bool(require_own_outputs(run, size=count).isfinite().all()):
        raise ValueError(
            "the network's outputs on drawn weights are NaN or infinite: the weights have diverged"
        )


@torch.no_grad()
def _require_no_mixing(
    module: nn.Module,
    posterior: GaussianPosterior,
    buffers: Mapping[str, Tensor],
    probe: Tensor,
    size: int,
) -> None:
    """At the mean weights, an example's output must be its own."""
    examples = pool(probe, size=size)
    state = {
        **_on(posterior.means, probe.device),
        **{name: value.clone() for name, value in buffers.items()},
    }

    def run(places: Tensor) -> Tensor:
        return call_with(module, state, examples[places.to(probe.device)])

    require_unwritten(
        SimpleNamespace(**state), examples[-2:], lambda x: call_with(module, state, x)
    )
    require_own_outputs(run, size=size)


@torch.no_grad()
def _require_same_network(
    module: nn.Module, laws: Mapping[str, Law], buffers: Mapping[str, Tensor], probe: Tensor
) -> None:
    """With every standard deviation at 0, layers by example must give what the network gives at its mean weights.

    Raises:
        NotByExample: they give something else.
    """
    rows = probe[:_ROWS]
    fixed = {name: replace(law, std=torch.zeros_like(law.std)) for name, law in laws.items()}
    found = by_example(
        module,
        fixed,
        buffers,
        rows,
        Draws.of(seed=_SEED, number=0, examples=torch.arange(len(rows))),
    )
    means = {name: law.mean for name, law in laws.items()}
    expected = call_with(module, {**means, **buffers}, rows)
    atol = _TOLERANCE * (1.0 + float(expected.abs().max()))
    if found.shape != expected.shape or not torch.allclose(found, expected, rtol=0.0, atol=atol):
        raise NotByExample(
            "taken apart into layers, the network gives other outputs than it gives itself"
        )


def _on(buffers: Mapping[str, Tensor], device: torch.device) -> dict[str, Tensor]:
    return {name: value.to(device) for name, value in buffers.items()}
