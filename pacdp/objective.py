"""The empirical risk of a network as a function of flat weight vectors: what samplers see of networks and data.

K chains share one resident data set; each has its own weights, its own draws and, where given, its own labels.
"""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from pacdp.chains import Batching, Keys, SecretKeys, resident
from pacdp.chains.graphs import lasting
from pacdp.chains.native.network import NativeNetwork
from pacdp.chains.network import LoopedNetwork, VmappedNetwork
from pacdp.chains.pixels import Pixels
from pacdp.chains.risks import Estimate as Estimate
from pacdp.chains.risks import Risks as Risks
from pacdp.chains.risks import exact_risks
from pacdp.data import Dataset
from pacdp.losses import Loss, ramp, zero_one
from pacdp.models import mixes
from pacdp.random import Words
from pacdp.step.by_person import People, mean_over_people
from pacdp.step.chain_sums import (
    AT_ONCE,
    CompiledSums,
    FixedSizeSums,
    Part,
    agreeing,
    by_compiled_layers,
    by_reference,
    sum_of_squares,
    summed,
)
from pacdp.step.clip import Clip, require_clip_norm
from pacdp.step.gradients import NO_CLIPPING
from pacdp.step.precision import full_precision
from pacdp.step.sampling import poisson, with_replacement
from pacdp.step.set_up import require_own_examples
from pacdp.step.units import Network
from pacdp.trials import require_no_writes

_ROUNDING = 256.0
"""Kept sums of squared norms are rounded up by so many units of the last place of the gradients' type."""
_TOGETHER = 1000
"""Examples that go through together where their numbers are made of bytes, in a trial of compiled layers, and where a
network normalises over them."""
_MANY, _FEW = 10_000, 250
"""Examples that are judged at a time, and those by autograd's layers on a CPU, in whose caches what they hold stays."""


class Objective:
    """Mean loss of ``model`` over ``data``, by minibatches.

    With ``clip_norm`` None a batch is ``batch_size`` uniform draws with replacement. With a clip norm C the same chain
    becomes a private mechanism: each example joins the batch independently with probability batch_size/n (Poisson),
    each example's gradient is scaled into the ball of radius C, and the sum is divided by the fixed ``batch_size``,
    so that adding or removing one example moves the estimate by at most C / batch_size in Euclidean norm.

    With ``every_record`` a batch is all n examples, each once. With ``keep_norms`` estimates say which squared norms
    were added up, for certificates of what noise on these sums hides (:mod:`pacdp.certify.trajectory`). Where the data
    set names people, these are then the records: the gradient is the mean over people of their own mean gradients
    (:mod:`pacdp.step.by_person`), all people being in every batch.

    With ``batch_statistics`` layers may normalise over the batch. Then an example has no loss of its own and R̂ is no
    mean over examples: gradients are those of minibatches, whole data sets are judged in chunks of 1,000, and every
    certificate rests on :data:`pacdp.certify.chain.MIXED`, which is unproved.

    ``labels`` [chains, n], where given, are those of each chain in place of the data set's. ``batching`` and
    ``bfloat16`` say how gradients are computed (see :func:`pacdp.chains.resident`).

    With ``in_bytes`` a data set of bytes stays so, on the CPU and where gradients are neither clipped nor their norms
    kept: numbers are made batch by batch, which takes a quarter of the memory and more time. Numbers and results are
    the same to the bit, but for sums over larger parts.

    Raises:
        ValueError: norms to be kept of clipped gradients or of some people's examples, ``every_record`` with another
            batch size than n, BatchNorm without ``batch_statistics`` or with norms or clipping, active dropout in the
            model, an example whose output or loss depends on the others of its batch or on what the network saw
            before, a batch size outside [1, n] under clipping, labels of another length, or a network that
            ``batching`` or clipping cannot batch.
    """

    def __init__(
        self,
        model: nn.Module,
        loss: Loss,
        data: Dataset,
        *,
        batch_size: int,
        clip_norm: float | None = None,
        labels: Sequence[np.ndarray] | None = None,
        device: torch.device | str = "cpu",
        batching: Batching = "auto",
        bfloat16: bool = False,
        keep_norms: bool = False,
        every_record: bool = False,
        batch_statistics: bool = False,
        in_bytes: bool = False,
    ) -> None:
        self.mixes = mixes(model, allowed=batch_statistics and not keep_norms and clip_norm is None)
        clips = clip_norm is not None
        if clip_norm is not None:
            require_clip_norm(clip_norm=clip_norm)
            clip_norm = float(clip_norm)
        for wrong, why in (
            (
                keep_norms and clips,
                f"keep_norms must be False with clip_norm={clip_norm}: batches are then secret and Poisson, where the "
                "norms of all records count and not those of the sampled ones; leave clip_norm out",
            ),
            (
                keep_norms and bfloat16,
                "keep_norms must be False with bfloat16: norms are taken in float32; leave one of them out",
            ),
            (
                every_record and batch_size != data.n,
                f"batch_size must be n={data.n} with every_record, got {batch_size}",
            ),
            (
                min(data.n, batch_size) < 1 or (clips and batch_size > data.n),
                f"expected 1 <= batch_size <= n, got batch_size={batch_size}, n={data.n}",
            ),
            (
                clips and bfloat16,
                "expected bfloat16=False with clip_norm: clipped gradients are taken in float32 alone",
            ),
            (
                labels is not None and any(len(own) != data.n for own in labels),
                f"expected {data.n} labels a chain, one for each example",
            ),
            (
                keep_norms and data.people is not None and not every_record,
                f"every_record must be True with keep_norms where the data name {data.unit}s: whose examples a drawn "
                "batch has would depend on how many each of them gave",
            ),
        ):
            if wrong:
                raise ValueError(why)
        self.model = model.to(device)
        self.loss = loss
        self.n = data.n
        self.batch_size = batch_size
        self.clip_norm = clip_norm
        self.device = torch.device(device)
        self.labels = torch.tensor(np.stack(labels) if labels else data.labels[None], device=device)
        in_bytes = in_bytes and not clips and not keep_norms and self.device.type == "cpu"
        self.pixels = Pixels(data.pixels) if in_bytes and data.pixels is not None else None
        """The inputs where they are kept in bytes."""
        self._inputs: Tensor | Pixels = self.pixels or torch.tensor(data.inputs, device=device)
        self.network = resident(model, self._inputs, batching=batching, bfloat16=bfloat16)
        self.layout = self.network.layout
        self.dim = self.layout.dim
        self.keep_norms, self.every_record = keep_norms, every_record
        looped = isinstance(self.network, LoopedNetwork) and self.device.type == "cpu"
        self._chunk = _FEW if looped else _MANY
        if self.mixes or self.pixels is not None:
            self._chunk = _TOGETHER
        self._gradient = torch.empty(0, device=device)
        self.people = None if data.people is None else People.of(data, self.device)
        self.kept: dict[str, Any] = {}
        """What was made of the examples once, for all objectives that share them."""
        self._sums: CompiledSums | None = None
        self._fixed: FixedSizeSums | None = None
        used = max(batch_size, self._chunk)
        if isinstance(self.network, NativeNetwork):  # whose layers are what their types say
            used = min(used, _TOGETHER)
        parameters = self.layout.views(self.weights()[0]) if clips or keep_norms else None
        given = self.model, loss, self._inputs, self._labels_of(0)
        require_own_examples(*given, min(self.n, used), self.mixes, parameters)
        if clips and isinstance(self.network, VmappedNetwork):
            inputs = self.examples[0]
            self._fixed = FixedSizeSums(model, self.layout, inputs, loss, batch_size=batch_size)
        if clips and isinstance(self.network, NativeNetwork):
            x, y = self.examples
            self._sums = agreeing(self.network, model, x, y, loss, batch_size=batch_size)

    def weights(self) -> Float[Tensor, "1 dim"]:
        """A copy of the weights that the network was built with, as one chain."""
        return self.layout.of(self.model)[None]

    @property
    def examples(self) -> tuple[Tensor, Int[Tensor, " n"]]:
        """Inputs [n, ...] and labels, those of the first chain, on the device; numbers of bytes are made anew."""
        inputs = self._inputs if isinstance(self._inputs, Tensor) else self._inputs[:]
        return inputs, self._labels_of(0)

    def select(self, chains: Sequence[int]) -> "Objective":
        """The same for some of the chains, sharing network and data."""
        if len(self.labels) == 1:
            return self
        return self._with(labels=self.labels[list(chains)], kept={})

    def unclipped(self) -> "Objective":
        """The same without clipping, sharing network and data: uniform batches, the gradients of the risk itself."""
        return self._with(clip_norm=None, keep_norms=False)

    def _with(self, **changes: Any) -> "Objective":
        other = copy(self)
        vars(other).update(changes, _gradient=torch.empty(0, device=self.device))
        return other

    def draw(
        self, keys: Keys, tick: int | Tensor
    ) -> tuple[Sequence[Int[Tensor, " batch"]] | Tensor, np.ndarray]:
        """Indices of minibatch ``tick``, a row a distinct batch key, and which of them is each chain's.

        They are one tensor, or a list of Poisson batches, whose sizes differ.
        """
        if self.every_record:
            return torch.arange(self.n, device=self.device)[None], np.zeros(keys.count, np.int64)
        if self.clip_norm is None:
            drawn, group = keys.batches(self.batch_size, tick, self.device)
            return with_replacement(drawn, self.n), group
        drawn, group = keys.batches(self.n, tick, self.device)
        share = self.batch_size / self.n
        return [poisson(Words(one, drawn.bits), share) for one in drawn.values], group

    def estimate(
        self, weights: Float[Tensor, "chains dim"], keys: Keys, tick: int | Tensor
    ) -> Estimate:
        """Gradients, losses and errors at ``weights`` on the minibatches numbered ``tick``."""
        if self._gradient.shape != weights.shape or self._gradient.dtype != weights.dtype:
            self._gradient = torch.zeros_like(weights)
        lasting(self._gradient)
        norms = weights.new_zeros(len(weights), dtype=torch.float64) if self.keep_norms else None
        version = weights._version
        if self.clip_norm is None and norms is None:
            found = self._mean(weights, keys, *self.draw(keys, tick))
        elif self._fixed is not None and self.has_fixed_shapes(keys):
            words, _ = keys.batches(self.n, tick, self.device)
            group = keys.group_on(self.device)
            found = self._fixed(weights, words, group, self.labels, self._clip, self._gradient)
        elif norms is not None and self.people is not None:
            found = self._by_person(weights, norms, self.people)
        else:
            found = self._clipped(weights, keys, tick, norms)
        if weights._version != version:
            require_no_writes(["its weights"])
        found = found.to(weights.dtype)
        if norms is not None:
            norms *= 1.0 + _ROUNDING * torch.finfo(weights.dtype).eps
        return Estimate(self._gradient, found[0], found[1], norms)

    def _mean(self, weights: Tensor, keys: Keys, drawn: Any, group: np.ndarray) -> Tensor:
        """Gradients of the batches' mean losses; as many operations for any number of chains where these go at once."""
        if isinstance(self.network, VmappedNetwork):
            # distinct keys are sorted, chains are not
            own = np.array_equal(group, np.arange(len(drawn)))
            rows = drawn if own or len(drawn) == 1 else drawn[keys.group_on(drawn.device)]
            if len(self.labels) == 1:
                labels = self.labels[0][rows]
            else:
                labels = self.labels.gather(1, rows.expand(len(weights), -1))
            return self.network.together(
                weights, self._inputs[rows], labels, self.loss, self._gradient
            )
        labels = [self._labels_of(k)[drawn[g]] for k, g in enumerate(group)]
        batches: list[Any] = [self.network.gather(indices) for indices in drawn]
        return self.network.backward(
            weights, batches, group.tolist(), labels, self.loss, self._gradient
        )

    def _labels_of(self, chain: int) -> Tensor:
        return self.labels[chain % len(self.labels)]

    def _by_person(self, weights: Tensor, norms: Tensor, people: People) -> Tensor:
        """As :meth:`_clipped`, where all people are in every batch; norms in units of a sum over n examples."""
        seen, each = list[Tensor](), self.n / len(people.parts)
        for k, own in enumerate(weights):
            labels = self._labels_of(k)
            with _unwritten(own):
                means, squares = mean_over_people(
                    self.network, own, people.parts, labels, self.loss, into=self._gradient[k]
                )
            norms[k] = squares * each**2
            seen.append(means)
        return torch.stack(seen, dim=1)

    def _clipped(
        self,
        weights: Float[Tensor, "chains dim"],
        keys: Keys,
        tick: int | Tensor,
        norms: Tensor | None,
    ) -> Tensor:
        """Sums of all chains into the gradient; returns mean losses and errors [2, chains], and writes ``norms``."""
        found: list[Tensor | None] = [None] * len(weights)
        if norms is not None and isinstance(self.network, NativeNetwork):
            drawn, group = self.draw(keys, tick)
            with full_precision(self.device):
                for k, g in enumerate(group):
                    native = self.network, self.loss, weights[k], self._labels_of(k)
                    part = by_compiled_layers(*native, len(drawn[g]))
                    found[k] = self._summed(part, drawn[g], k, norms)
        elif self._sums is not None:
            labels = [self._labels_of(k) for k in range(len(weights))]

            def draw(chains: Sequence[int]) -> Any:
                return self.draw(keys.select(chains) if len(chains) < keys.count else keys, tick)

            found = self._sums(weights, draw, labels, self._clip, self._gradient)
        left = [k for k, one in enumerate(found) if one is None]
        if left:
            network, inputs = Network(self.model, {}, self.loss), self.examples[0]
            drawn, group = self.draw(keys.select(left), tick)
            with _unwritten(weights):
                for k, g in zip(left, group, strict=True):
                    own = weights[k], inputs, self._labels_of(k), self._clip
                    part = by_reference(network, self.layout, *own)
                    found[k] = self._summed(part, drawn[g], k, norms)
        seen = torch.stack([one for one in found if one is not None], dim=1)
        # one record's loss must not decide whether the chain goes on
        for row, worst in zip(seen, (self.loss.high, 1.0), strict=True):
            row.nan_to_num_(worst, worst, worst)
        return seen

    def _summed(self, part: Part, drawn: Tensor, chain: int, norms: Tensor | None) -> Tensor | None:
        """A chain's sum into the gradient, and its squared norms; None where these are kept and not finite."""
        most = None if norms is None else AT_ONCE
        means, squares = summed(part, drawn, self._gradient[chain], most)
        if norms is None:
            return means
        norms[chain] = total = sum_of_squares(squares, drawn)
        return means if math.isfinite(total) else None

    def has_fixed_shapes(self, keys: Keys) -> bool:
        """Whether the shapes of no step depend on a draw, so that a GPU can replay it; not with secret keys.

        Their words and noise are made outside of a recording, and a private run has no room for rare events.
        """
        return not self.keep_norms and (
            self.clip_norm is None or (self._fixed is not None and not isinstance(keys, SecretKeys))
        )

    def beside(self, chains: int) -> int:
        """Bytes of a GPU's memory that a clipped step of so many chains needs beside vectors of weights, about."""
        if self._fixed is None or self.device.type == "cpu":
            return 0
        return self._fixed.beside(chains, self.device)

    @property
    def _clip(self) -> Clip:
        return Clip(float(self.clip_norm or NO_CLIPPING.norm), float(self.batch_size))

    @torch.no_grad()
    def logits(self, weights: Float[Tensor, " dim"]) -> Tensor:
        """Outputs for all n examples, [n, 1] for two classes."""
        return torch.cat([outputs for outputs, _ in self._outputs(weights)])

    def _outputs(self, weights: Tensor) -> Iterator[tuple[Tensor, slice]]:
        """Outputs for all examples in turn, and which these are."""
        for start in range(0, self.n, self._chunk):
            stop = min(start + self._chunk, self.n)
            yield self.network.logits(weights, start, stop), slice(start, stop)

    @torch.no_grad()
    def losses(self, weights: Float[Tensor, "chains dim"]) -> Float[Tensor, "chains n"]:
        """The loss of each example, for each chain, in double precision.

        Raises:
            ValueError: a loss is NaN or lies outside the interval that the loss declares.
        """
        rows = [
            torch.cat(
                [self.loss(given, self._labels_of(k)[at]) for given, at in self._outputs(own)]
            )
            for k, own in enumerate(weights)
        ]
        for row in rows:
            self.loss.require(float(row.min()), float(row.max()))
        return torch.stack(rows).double()

    @torch.no_grad()
    def risks(self, weights: Float[Tensor, "chains dim"]) -> list[Risks]:
        """Exact means over all n examples, for each chain.

        With a clip norm an example whose output is not finite counts as the worst that the loss can be and as an error,
        as its gradient counts as zero: it must not decide whether a private chain goes on.

        Raises:
            ValueError: a loss is NaN or lies outside the interval that the loss declares.
        """
        kinds, clipped = (self.loss, zero_one(), ramp()), self.clip_norm is not None
        return [
            exact_risks(self._outputs(own), self._labels_of(k), kinds, clipped=clipped)
            for k, own in enumerate(weights)
        ]


@contextmanager
def _unwritten(weights: Tensor) -> Iterator[None]:
    """Whatever the network does within, it must leave the bits of its weights: the sum is that of these alone."""
    before = weights.clone()
    yield
    if not torch.equal(before.view(torch.uint8), weights.view(torch.uint8)):  # a NaN is not itself
        require_no_writes(["its weights"])
