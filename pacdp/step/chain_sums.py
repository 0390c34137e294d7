"""Clipped sums of chains, as :mod:`pacdp.step.gradients` defines them: compiled, by the reference, or all at once.

Compiled layers are several times faster. A chain's step has two halves. Forward and backward passes leave in every
layer what each example's gradient is made of, and add up its squared norm; then every layer sums its gradients, each
scaled by its example's factor. A fully connected layer never forms the gradient of one example (Goodfellow 2015), a
convolution does. Rows of fully connected layers are padded with exact zeros to few shapes; batches go through in chunks
of a fixed size.

A chain's numbers come from the same calls, whose bits do not depend on threads, whether it runs alone or beside others.
Chains are spread over as many threads as torch has. An example whose gradient is not finite sends its chain's batch to
the reference.

A batch of one chain may have any size: some examples are summed at a time.

All chains at once go under one ``torch.func.vmap``: Poisson batches in rows of one length, with nothing read back from
the device. No shape
depends on a draw, so that a step can be recorded as one CUDA graph. A row has room for more units than a batch has in
any run that can be carried out; the mean loss of one that had more would be NaN, which stops the chain.
"""

import warnings
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from pacdp.chains.layout import Layout
from pacdp.chains.memory import room_on
from pacdp.chains.native import threads
from pacdp.chains.native.convolution import ConvLayer
from pacdp.chains.native.dense import Array
from pacdp.chains.native.network import NativeNetwork, parse
from pacdp.losses import Loss, in_error
from pacdp.random import Words
from pacdp.step.clip import Clip, clip_factors, without_subnormals
from pacdp.step.gradients import NO_CLIPPING, clipped_gradient, fully_connected, judged, mean_over
from pacdp.step.precision import full_precision
from pacdp.step.sampling import most_of_poisson, poisson_rows
from pacdp.step.units import Network

AT_ONCE = 1000
"""Examples that go through together where norms are kept: a batch may be all of them."""
Part = Callable[
    [Int[Tensor, " part"], Float[Tensor, " dim"]], tuple[Float[Tensor, "2"], Float[Tensor, " part"]]
]
"""Writes the sum over some examples into a vector; returns their mean loss and error, and the squared norm of what each
of them adds before clipping, float64, 0 for those that count as zero."""
_CHUNK, _LARGEST = 32, 4096
"""Examples that go through together in a network with convolutions, and in one without."""
_PROBES, _CHAINS = 4, 3
_TRIES = 16
"""So many times more examples are looked through for those that have a finite gradient."""
_TOLERANCE = 1e-3
Draw = Callable[[Sequence[int]], tuple[Sequence[Tensor] | Tensor, np.ndarray]]
"""Chains to the examples of their distinct minibatches, and which of these is each chain's."""
_COPIES = 3
"""What a step holds at a time, in gradients of single examples: these, those that count, and what leads to them."""


def summed(
    part: Part, examples: Int[Tensor, " batch"], into: Float[Tensor, " dim"], most: int | None
) -> tuple[Float[Tensor, "2"], Float[Tensor, " batch"]]:
    """As a :data:`Part`, over examples of which at most ``most`` go through together."""
    count = len(examples)
    if not count:
        into.zero_()
        return into.new_zeros(2), into.new_zeros(0)
    if count <= (most or count):
        return part(examples, into)
    means, squares = into.new_zeros(2), list[Tensor]()
    for k, some in enumerate(examples.split(most or count)):
        gradient = torch.empty_like(into) if k else into
        mean, own = part(some, gradient)
        means = means + mean * (len(some) / count)
        squares.append(own)
        if k:
            into += gradient
    return means, torch.cat(squares)


def by_reference(
    network: Network,
    layout: Layout,
    weights: Float[Tensor, " dim"],
    inputs: Float[Tensor, "n ..."],
    labels: Int[Tensor, " n"],
    clip: Clip,
) -> Part:
    """By :mod:`pacdp.step.gradients`, of a resident data set."""

    def part(some: Tensor, into: Tensor) -> tuple[Tensor, Tensor]:
        own, named = labels[some], layout.views(weights)
        seen = clipped_gradient(network, named, inputs[some], own, clip, into=layout.views(into))
        error = in_error(seen.outputs, own).to(weights.dtype).mean()
        squares = torch.where(seen.clipping.finite, seen.clipping.norms.square(), 0.0)
        return torch.stack([seen.mean_loss, error]), squares

    return part


def by_compiled_layers(
    network: NativeNetwork,
    loss: Loss,
    weights: Float[Tensor, " dim"],
    labels: Int[Tensor, " n"],
    count: int,
) -> Part:
    """Without clipping, over ``count`` examples; squared norms that are not finite stand for those of no use."""

    def part(some: Tensor, into: Tensor) -> tuple[Tensor, Tensor]:
        def slope(outputs: Tensor, own: Tensor) -> tuple[float, float, Tensor]:
            value, error, back = judged(loss, outputs, own)
            return value, error, back.mul_(len(own) / count)

        squares = np.zeros(len(some))
        means = network.slopes(weights, network.gather(some), labels[some], slope, into, squares)
        return torch.tensor(means, dtype=torch.float64), torch.from_numpy(squares) * count**2

    return part


def sum_of_squares(squares: Float[Tensor, " batch"], examples: Int[Tensor, " batch"]) -> float:
    """Σ ‖g_i‖² over the examples that were drawn, g_i all that example i adds: what it adds each time, so many times.

    That is the sum over draws of the squared norm of each, times how often its example was drawn.
    """
    drawn = examples.cpu().numpy()
    ordered = np.sort(drawn)
    times = ordered.searchsorted(drawn, "right") - ordered.searchsorted(drawn, "left")
    return float(squares @ torch.from_numpy(times).to(squares))


class CompiledSums:
    """Clipped sums over the resident data set of a compiled network; one caller at a time."""

    def __init__(self, network: NativeNetwork, model: nn.Module, loss: Loss) -> None:
        self._network, self._model, self._loss = network, model, loss
        convolves = any(isinstance(block, ConvLayer) for block in network.blocks)
        self._most = _CHUNK if convolves else _LARGEST
        self._rooms = list[list[Any]]()
        """For each thread layers with a workspace of their own."""

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
        count, found = len(weights), list[Tensor | None]([None] * len(weights))

        def run(room: int, chains: Sequence[int]) -> None:
            drawn, group = draw(chains)
            for k, g in zip(chains, group, strict=True):
                part = self._part(self._rooms[room], weights[k], labels[k], clip)
                means, squares = summed(part, drawn[g], into[k], self._most)
                found[k] = means.to(weights) if bool(squares.isfinite().all()) else None

        # a loss in Python may keep what it sees
        parts = threads.shares(count) if self._loss.compiled is not None else [range(count)]
        while len(self._rooms) < len(parts):
            layers = parse(self._model, tuple(self._network.inputs.shape[1:]), each=True)
            assert layers is not None
            self._rooms.append(layers)
        with full_precision(into.device):
            threads.spread(run, parts)
        return found

    def _part(self, layers: list[Any], weights: Tensor, labels: Tensor, clip: Clip) -> Part:
        """By these layers; a sum with a norm that is not finite means nothing."""
        own = self._by_layer(weights)

        def part(some: Tensor, gradient: Tensor) -> tuple[Tensor, Tensor]:
            count = len(some)
            x: Any = self._network.gather(some)
            for layer, pair in zip(layers, own, strict=True):
                x = layer.forward(x, *pair, *(() if isinstance(layer, ConvLayer) else (count,)))
            outputs, squares = torch.from_numpy(x[:count]), np.zeros(count)
            loss, error, slope = judged(self._loss, outputs, labels[some])
            back = slope.mul_(count).numpy()
            for layer, (weight, _) in zip(reversed(layers), reversed(own), strict=True):
                back = layer.propagate(back, weight, squares)
            norms = torch.from_numpy(np.sqrt(squares))
            factors = clip_factors(norms, clip, outputs.dtype).factors
            scale = without_subnormals((factors / clip.divisor).to(outputs.dtype)).numpy()
            for layer, into in zip(layers, self._by_layer(gradient), strict=True):
                layer.collect(scale, *into)
            return outputs.new_tensor([loss, error]), torch.from_numpy(squares)

        return part

    def _by_layer(self, flat: Tensor) -> list[tuple[Array, Array]]:
        """Weight and bias of each layer, sharing memory."""
        pieces = self._network.pieces(flat.numpy())
        return list(zip(pieces[::2], pieces[1::2], strict=True))


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
    sums, own = CompiledSums(network, model, loss), Network(model, {}, loss)
    wrong = _disagreement(sums, own, network.layout, inputs, labels, batch_size)
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

    def gradients(place: int) -> Tensor:
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


class FixedSizeSums:
    """Clipped sums over a resident data set, where a batch has ``batch_size`` of its n examples on average."""

    def __init__(
        self,
        model: nn.Module,
        layout: Layout,
        inputs: Float[Tensor, "n ..."],
        loss: Loss,
        *,
        batch_size: int,
    ) -> None:
        self._model, self._layout, self._inputs, self._loss = model, layout, inputs, loss
        self._rate = batch_size / len(inputs)
        self.most = most_of_poisson(len(inputs), self._rate)
        """Examples of a row."""
        self._alone = not fully_connected(model, inputs.ndim)

    def at_once(self, device: torch.device) -> int | None:
        """So many chains go through together where gradients of single examples are needed, else all of them: None."""
        return max(1, room_on(device) // self._rows) if self._alone else None

    def beside(self, chains: int, device: torch.device) -> int:
        """Bytes that a step of so many chains needs for gradients of single examples, about."""
        return _COPIES * min(chains, self.at_once(device) or 0) * self._rows

    @property
    def _rows(self) -> int:
        """Bytes of one chain's."""
        return self.most * self._layout.dim * self._inputs.element_size()

    def __call__(
        self,
        weights: Float[Tensor, "chains dim"],
        words: Words,
        group: Int[Tensor, " chains"],
        labels: Int[Tensor, "labellings n"],
        clip: Clip,
        into: Float[Tensor, "chains dim"],
    ) -> Float[Tensor, "2 chains"]:
        """Every chain's clipped sum into ``into``; returns mean losses and errors.

        Args:
            words: a row of n for each distinct batch.
            group: which of these batches is each chain's.
            labels: of all examples, for all chains or for each.
        """
        rows = poisson_rows(words, self._rate, self.most)
        shared = len(rows.indices) == 1 and len(weights) > 1
        drawn, member, whole = (one if shared else one[group] for one in rows)
        alike = len(labels) == 1
        own = labels[0][drawn] if alike else labels.gather(1, drawn.expand(len(weights), -1))
        network = Network(self._model, {}, self._loss)

        def one(
            parameters: dict[str, Tensor], x: Tensor, y: Tensor, of: Tensor, sums: dict[str, Tensor]
        ) -> tuple[Tensor, Tensor]:
            seen = clipped_gradient(network, parameters, x, y, clip, into=sums, member=of)
            return seen.mean_loss, mean_over(in_error(seen.outputs, y).to(x.dtype), of)

        given, axes = [self._inputs[drawn], own, member], (0, 0, 0)
        if shared:  # by all chains
            axes = (None, None if alike else 0, None)
            given = [x if axis == 0 else x[0] for x, axis in zip(given, axes, strict=True)]
        x, y, of = given
        every = torch.func.vmap(one, in_dims=(0, *axes, 0), chunk_size=self.at_once(weights.device))
        found = every(self._layout.views(weights), x, y, of, self._layout.views(into))
        # one record's loss must not decide whether the chain goes on
        kept = [
            part.masked_fill(~part.isfinite(), most)
            for part, most in zip(found, (self._loss.high, 1.0), strict=True)
        ]
        return torch.stack(kept).masked_fill(~whole, torch.nan)
