"""Clipped sums of many chains by compiled layers: what :mod:`pacdp.step.gradients` defines, several times faster.

A chain's step has two halves. Forward and backward passes leave in every layer what each example's gradient is made of,
and add up its squared norm; then every layer sums its gradients, each scaled by its example's factor. A fully connected
layer never forms the gradient of one example (Goodfellow 2015), a convolution does. Rows of fully connected layers are
padded with exact zeros to few shapes; batches go through in chunks of a fixed size.

A chain's numbers come from the same calls, whose bits do not depend on threads, whether it runs alone or beside others.
Chains are spread over as many threads as torch has. An example whose gradient is not finite sends its chain's batch to
the reference.
"""

import warnings
from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from pacdp.chains.layout import Layout
from pacdp.chains.native import threads
from pacdp.chains.native.convolution import ConvLayer
from pacdp.chains.native.dense import Array
from pacdp.chains.native.network import NativeNetwork
from pacdp.chains.native.parse import parse
from pacdp.losses import Loss
from pacdp.step.clip import Clip, clip_factors, without_subnormals
from pacdp.step.gradients import NO_CLIPPING, clipped_gradient, judged
from pacdp.step.one_by_one import summed
from pacdp.step.precision import full_precision
from pacdp.step.units import Network

_CHUNK, _LARGEST = 32, 4096
"""Examples that go through together in a network with convolutions, and in one without."""
_PROBES, _CHAINS = 4, 3
_TRIES = 16
"""So many times more examples are looked through for those that have a finite gradient."""
_TOLERANCE = 1e-3
Draw = Callable[[Sequence[int]], tuple[Sequence[Tensor] | Tensor, np.ndarray]]
"""Chains to the examples of their distinct minibatches, and which of these is each chain's."""


class CompiledSums:
    """Clipped sums over the resident data set of a compiled network; one caller at a time."""

    def __init__(self, network: NativeNetwork, model: nn.Module, loss: Loss) -> None:
        self._network, self._model, self._loss = network, model, loss
        self._most = (
            _CHUNK if any(isinstance(block, ConvLayer) for block in network.blocks) else _LARGEST
        )
        self._rooms = [self._room()]

    def __call__(
        self,
        weights: Float[Tensor, "chains dim"],
        draw: Draw,
        labels: Sequence[Int[Tensor, " n"]],
        clip: Clip,
        into: Float[Tensor, "chains dim"],
    ) -> list[Float[Tensor, "2"] | None]:
        """Every chain's clipped sum into ``into``; returns mean loss and error of its minibatch.

        None stands for a chain with an example whose gradient is not finite: what was written for it means nothing.

        Args:
            labels: of all examples, for each chain.
        """
        found: list[Tensor | None] = [None] * len(weights)

        def run(room: int, chains: Sequence[int]) -> None:
            drawn, group = draw(chains)
            for k, g in zip(chains, group, strict=True):
                own = self._network.pieces(weights[k].numpy())
                part = partial(self._add, self._rooms[room], own, labels[k], clip)
                means, squares = summed(part, drawn[g], into[k], self._most)
                found[k] = means.to(weights) if bool(squares.isfinite().all()) else None

        count = len(weights)  # a loss in Python may keep what it sees
        parts = threads.shares(count) if self._loss.compiled is not None else [range(count)]
        while len(self._rooms) < len(parts):
            self._rooms.append(self._room())
        with full_precision(into.device):
            threads.spread(run, parts)
        return found

    def _room(self) -> list[Any]:
        """Layers with a workspace of their own, for one thread."""
        layers = parse(self._model, tuple(self._network.inputs.shape[1:]), each=True)
        assert layers is not None
        return layers

    def _add(
        self,
        layers: list[Any],
        own: list[Array],
        labels: Int[Tensor, " n"],
        clip: Clip,
        some: Int[Tensor, " part"],
        gradient: Float[Tensor, " dim"],
    ) -> tuple[Float[Tensor, "2"], Float[Tensor, " part"]]:
        """As a :data:`pacdp.step.one_by_one.Part`; a sum with a norm that is not finite means nothing."""
        count, into = len(some), self._network.pieces(gradient.numpy())
        x: Any = self._network.gather(some)
        for place, layer in enumerate(layers):
            how = () if isinstance(layer, ConvLayer) else (count,)
            x = layer.forward(x, own[2 * place], own[2 * place + 1], *how)
        outputs, squares = torch.from_numpy(x[:count]), np.zeros(count)
        loss, error, slope = judged(self._loss, outputs, labels[some])
        back = slope.mul_(count).numpy()
        for place in reversed(range(len(layers))):
            back = layers[place].propagate(back, own[2 * place], squares)
        norms = torch.from_numpy(np.sqrt(squares))
        factors = clip_factors(norms, clip, outputs.dtype).factors
        scale = without_subnormals((factors / clip.divisor).to(outputs.dtype)).numpy()
        for place, layer in enumerate(layers):
            layer.collect(scale, into[2 * place], into[2 * place + 1])
        return outputs.new_tensor([loss, error]), torch.from_numpy(squares)


def agreeing(
    network: NativeNetwork,
    model: nn.Module,
    inputs: Float[Tensor, "n ..."],
    labels: Int[Tensor, " n"],
    loss: Loss,
    *,
    batch_size: int,
) -> CompiledSums | None:
    """Clipped sums by compiled layers, where this network's agree with the reference; else None, and a warning."""
    sums = CompiledSums(network, model, loss)
    wrong = _disagreement(
        sums, Network(model, {}, loss), network.layout, inputs, labels, batch_size
    )
    if wrong is None:
        return sums
    warnings.warn(
        f"clipped gradients are not taken by compiled layers for this network: {wrong}; they are taken example by "
        "example instead",
        stacklevel=3,
    )


def _disagreement(
    sums: CompiledSums,
    network: Network,
    layout: Layout,
    inputs: Float[Tensor, "n ..."],
    labels: Int[Tensor, " n"],
    batch_size: int,
) -> str | None:
    """How compiled sums differ from the reference's, in one sentence; None where they agree.

    Single examples, a few together and as many as a batch has are compared, at the weights of the network and at
    others, all as chains of one batch, with norms on both sides of the clip norm. Examples without a finite gradient
    other than zero are passed over.
    """
    own, generator = layout.of(network.module), torch.Generator().manual_seed(0)
    size = 0.3 * (float(own.double().square().mean().sqrt()) or 0.1)
    spread = torch.randn((_CHAINS - 1, len(own)), generator=generator, dtype=own.dtype)
    weights = torch.cat([own[None], own + size * spread])

    def gradients(place: int) -> Float[Tensor, "chains dim"]:
        x, y = inputs[[place]], labels[[place]]
        found = (clipped_gradient(network, layout.views(w), x, y, NO_CLIPPING) for w in weights)
        return torch.stack([layout.flatten(one.total) for one in found]).double()

    spots = torch.linspace(0, len(inputs) - 1, _PROBES * _TRIES).long().view(_PROBES, _TRIES)
    tried = ((place, gradients(place)) for place in spots.T.flatten().tolist())
    usable = (one for one in tried if bool(one[1].isfinite().all() and one[1].any()))
    probes = list(islice(usable, _PROBES))
    if not probes:
        return "no example tried has a finite gradient other than zero"
    places, rows = torch.tensor([place for place, _ in probes]), torch.stack([g for _, g in probes])
    norms = rows.norm(dim=2, keepdim=True)
    norm = float(norms[norms > 0.0].median())
    exact = rows * (norm / norms.clamp(min=norm))
    each = [torch.tensor([k]) for k in range(len(probes))]
    for chosen in (*each, torch.cat(each), torch.arange(max(1, batch_size)) % len(probes)):
        into = torch.empty_like(weights)
        sums(weights, _same_for_all(places[chosen]), [labels] * _CHAINS, Clip(norm), into)
        away = (into.double() - exact[chosen].sum(0)).norm(dim=1) > _TOLERANCE * norm * len(chosen)
        if int(away.sum()) > 1:  # at a kink rounding alone moves a gradient
            return f"a sum over {len(chosen)} examples is not that of their gradients, each clipped by itself"
    return None


def _same_for_all(examples: Tensor) -> Draw:
    return lambda chains: ([examples], np.zeros(len(chains), np.int64))
