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

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from pacdp.chains.layout import Layout
from pacdp.chains.native import threads
from pacdp.chains.native.convolution import ConvLayer
from pacdp.chains.native.dense import Array, DenseLayer, PaddedDense, padded, row_squares
from pacdp.chains.native.network import NativeNetwork
from pacdp.chains.native.parse import parse
from pacdp.losses import Loss, in_error
from pacdp.step.clip import Clip, clip_factors, without_subnormals
from pacdp.step.gradients import NO_CLIPPING, clipped_gradient, slopes_and_mean
from pacdp.step.precision import full_precision

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
                found[k] = self._chain(
                    self._rooms[room], weights[k], drawn[g], labels[k][drawn[g]], clip, into[k]
                )

        # a loss in Python may keep what it sees
        parts = (
            threads.shares(len(weights))
            if self._loss.compiled is not None
            else [range(len(weights))]
        )
        while len(self._rooms) < len(parts):
            self._rooms.append(self._room())
        with full_precision(into.device):
            threads.spread(run, parts)
        return found

    def _room(self) -> list[PaddedDense | ConvLayer]:
        """Layers with a workspace of their own, for one thread."""
        inputs = self._network.inputs
        blocks = parse(
            self._model,
            tuple(inputs.shape[1:]),
            batch_size=self._most,
            dtype=inputs.dtype,
            each=True,
        )
        assert blocks is not None
        return [PaddedDense(block) if isinstance(block, DenseLayer) else block for block in blocks]

    def _chain(
        self,
        layers: list[PaddedDense | ConvLayer],
        weights: Float[Tensor, " dim"],
        examples: Int[Tensor, " batch"],
        labels: Int[Tensor, " batch"],
        clip: Clip,
        into: Float[Tensor, " dim"],
    ) -> Float[Tensor, "2"] | None:
        count, loss, error = len(examples), 0.0, 0.0
        if count == 0:
            into.zero_()
        own = self._network.pieces(weights.numpy())
        for start in range(0, count, self._most):
            part = slice(start, min(start + self._most, count))
            gradient = into if start == 0 else torch.empty_like(into)
            seen = self._add(
                layers,
                own,
                examples[part],
                labels[part],
                clip,
                self._network.pieces(gradient.numpy()),
            )
            if seen is None:
                return None
            loss, error = loss + seen[0], error + seen[1]
            if start:
                into += gradient
        return weights.new_tensor([loss, error]) / max(1, count)

    def _add(
        self,
        layers: list[PaddedDense | ConvLayer],
        own: list[Array],
        examples: Int[Tensor, " batch"],
        labels: Int[Tensor, " batch"],
        clip: Clip,
        into: list[Array],
    ) -> tuple[float, float] | None:
        """A chunk's sum into ``into``; its losses and errors added up."""
        count = len(examples)
        outputs = torch.from_numpy(self._forward(layers, own, examples)[:count])
        loss, error, slope = self._judged(outputs, labels)
        squares = np.zeros(count)
        back = _fill(slope.numpy(), padded(count))
        for place in range(len(layers) - 1, -1, -1):
            layer, weight = layers[place], own[2 * place]
            if isinstance(layer, PaddedDense):
                back = layer.propagate(back, weight, squares, further=place > 0)
            else:
                back = layer.propagate(back[:count], weight, squares)
        if not np.isfinite(squares).all():
            return None
        norms = torch.from_numpy(np.sqrt(squares))
        factors = clip_factors(norms, clip, outputs.dtype).factors
        scale = without_subnormals((factors / clip.divisor).to(outputs.dtype)).numpy()
        for place, layer in enumerate(layers):
            layer.collect(scale, into[2 * place], into[2 * place + 1])
        return loss * count, error * count

    def _judged(self, outputs: Tensor, labels: Tensor) -> tuple[float, float, Tensor]:
        """Mean loss and error, and the slope of each example's own loss by its outputs."""
        if self._loss.compiled is not None:  # it goes from example to example
            loss, error, slope = self._loss.slope(outputs, labels)
            return loss, error, slope.mul_(len(labels))
        slope, loss = slopes_and_mean(self._loss, outputs, labels)
        return float(loss), float(in_error(outputs, labels).double().mean()), slope

    def _forward(
        self, layers: list[PaddedDense | ConvLayer], own: list[Array], examples: Tensor
    ) -> Array:
        count, rows = len(examples), self._network.rows
        x = examples.numpy() if rows is not None else self._network.inputs[examples].numpy()
        for place, layer in enumerate(layers):
            weight, bias = own[2 * place], own[2 * place + 1]
            if isinstance(layer, ConvLayer):
                x = layer.forward(x, weight, bias, keep=True)
            elif place == 0 and rows is not None:
                x = layer.forward(x, rows.squares[x], weight, bias, rows)
            else:
                x = _fill(x.reshape(len(x), -1), padded(count))
                x = layer.forward(x, row_squares(x[:count]), weight, bias)
        return x


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
    given = sums, model, network.layout, inputs, labels, loss
    wrong = disagreement(*given, batch_size=batch_size)
    if wrong is None:
        return sums
    warnings.warn(
        f"clipped gradients are not taken by compiled layers for this network: {wrong}; they are taken example by "
        "example instead",
        stacklevel=3,
    )


def disagreement(
    sums: CompiledSums,
    model: nn.Module,
    layout: Layout,
    inputs: Float[Tensor, "n ..."],
    labels: Int[Tensor, " n"],
    loss: Loss,
    *,
    batch_size: int,
) -> str | None:
    """How compiled sums differ from the reference's, in one sentence; None where they agree.

    Single examples, a few together and as many as a batch has are compared, at the weights of the network and at
    others, all as chains of one batch, with norms on both sides of the clip norm. Examples without a finite gradient
    other than zero are passed over.
    """
    generator, own = torch.Generator().manual_seed(0), layout.of(model)
    spread = [
        torch.randn(own.shape, generator=generator, dtype=own.dtype) for _ in range(_CHAINS - 1)
    ]
    size = float(own.double().square().mean().sqrt()) or 0.1
    weights = torch.stack([own, *(own + 0.3 * size * one for one in spread)])
    kept, rows = list[int](), list[Tensor]()
    for place in torch.cat(
        [torch.linspace(0, len(inputs) - 1, k * _PROBES).long() for k in (1, _TRIES)]
    ).tolist():
        row = torch.stack(
            [_singles(model, layout, w, inputs[[place]], labels[[place]], loss)[0] for w in weights]
        )
        if bool(row.isfinite().all() and row.any()):
            kept.append(place)
            rows.append(row)
        if len(rows) == _PROBES:
            break
    if not rows:
        return "no example tried has a finite gradient other than zero"
    again = torch.arange(_PROBES) % len(rows)
    places, raw = torch.tensor(kept)[again], torch.stack(rows, dim=1)[:, again]
    norms = raw.double().norm(dim=2)
    norm = float(norms[norms > 0.0].median())
    exact = raw.double() * (norm / norms.clamp(min=norm))[:, :, None]
    everyone = torch.arange(max(1, batch_size)) % _PROBES
    for chosen in (*(torch.tensor([k]) for k in range(_PROBES)), torch.arange(_PROBES), everyone):
        into = torch.empty_like(weights)
        sums(weights, _same_for_all(places[chosen]), [labels] * _CHAINS, Clip(norm), into)
        expected = torch.einsum(
            "e,ced->cd", torch.bincount(chosen, minlength=_PROBES).double(), exact
        )
        away = (into.double() - expected).norm(dim=1) > _TOLERANCE * norm * len(chosen)
        if int(away.sum()) > 1:  # at a kink rounding alone moves a gradient
            return f"a sum over {len(chosen)} examples is not that of their gradients, each clipped by itself"
    return None


def _same_for_all(examples: Tensor) -> Draw:
    return lambda chains: ([examples], np.zeros(len(chains), np.int64))


def _singles(
    model: nn.Module, layout: Layout, weights: Tensor, inputs: Tensor, labels: Tensor, loss: Loss
) -> Float[Tensor, "examples dim"]:
    found = torch.empty((len(labels), layout.dim), dtype=weights.dtype)
    for row, x, y in zip(found, inputs, labels, strict=True):
        clipped_gradient(model, layout.views(weights), x[None], y[None], loss, NO_CLIPPING,
                         into=layout.views(row))  # fmt: skip
    return found


def _fill(rows: Array, count: int) -> Array:
    """``rows`` with rows of zeros behind, ``count`` in all."""
    if len(rows) == count:
        return rows
    whole = np.zeros((count, rows.shape[1]), rows.dtype)
    whole[: len(rows)] = rows
    return whole
