"""The one room that tries whether an example's output, loss and gradient are its own, and whether a pass writes.

Certificates, clipping and Monte Carlo all rest on it. A network that mixes examples only in batches of nine and more,
or only beyond some value, passes a trial on three rows of data. Here batches of several sizes are tried, up to the
largest that will be used, in other orders, beside other examples and beside extreme ones. BatchNorm (with weights or
without), batch means, losses over pairs: with any of them one changed example moves the gradients of all others, and
a clipped sum moves by up to |B|·C where the accountant assumes C. A pass that writes into a weight, a buffer or an
attribute is worse: what it writes leaves without noise.

Trials can refute independence; they cannot prove it. What can be compared while a run goes on is compared then
(:class:`Unmoved`).
"""

import copy
import ctypes
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int64, Shaped
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves, tree_map

from pacdp.buffers import contents
from pacdp.errors import said
from pacdp.layers.dropout import ExampleDropout
from pacdp.layers.random import RandomState, random_state, rewind, same_state
from pacdp.losses import Loss, PerExampleLoss
from pacdp.models import batch_dependent_layers, random_layers

SIZES = (3, 4, 9, 17, 33)
"""Batch sizes of the trials."""
MOST = max(SIZES)
_memcmp = ctypes.CDLL(None).memcmp
_memcmp.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]
_BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
_ALONE = 3
"""Examples that are tried as batches of one."""
_OF_OUTPUTS, _OF_LOSSES, _OF_SLOPES = 1e-3, 1e-5, 1e-4
"""Rounding allowed, relative to the outputs' spread, to the interval of the loss, to the largest slope."""
_UNITS, _SMALL = 16, 2**16
"""Units in the last place of outputs that are rounding too; the most numbers of which bits are compared."""
_SPOTS = 3
"""Examples of each batch that are run once more, by themselves."""


def pool(
    inputs: Shaped[Tensor, "n ..."], *, size: int = MOST, others: int | None = None
) -> Shaped[Tensor, "_ ..."]:
    """``size`` examples, those of ``inputs`` in turn, then ``others`` that are made up, by default up to 33.

    Made-up numbers differ from an example's by noise of deviation 1 to 1,000. Made-up integers are those of the
    examples in another order, so that they stay within any table.
    """
    real = inputs[torch.arange(size, device=inputs.device) % len(inputs)]
    few, generator = (
        real.flip(0)[: min(size, MOST if others is None else others)],
        torch.Generator().manual_seed(0),
    )
    if not inputs.is_floating_point():
        places = torch.randperm(few.numel(), generator=generator).to(inputs.device)
        return torch.cat([real, few.reshape(-1)[places].view_as(few)])
    noise = torch.randn(few.shape, generator=generator).to(inputs.device, inputs.dtype)
    reach = 10.0 ** (torch.arange(len(few), device=inputs.device) % 4).to(inputs.dtype)
    return torch.cat([real, few + noise * reach.view(-1, *[1] * (inputs.ndim - 1))])


def batches(size: int = MOST) -> Iterator[tuple[Int64[Tensor, " batch"], Int64[Tensor, " kept"]]]:
    """Batches as places in a :func:`pool` of ``size``, each with the positions that hold examples of its first half."""
    for each in sorted({min(one, size) for one in SIZES}):
        rows = torch.arange(each)
        yield rows.flip(0), rows
        yield torch.where(rows % 2 == 0, rows, size + rows), rows[::2]
    for k in range(min(_ALONE, size)):
        yield torch.tensor([k]), torch.zeros(1, dtype=torch.int64)
    if (
        size > MOST
    ):  # each among few, in another order, since what few do not do is seen beside them
        yield from (
            (rows, torch.arange(len(rows))) for rows in torch.arange(size).flip(0).split(MOST)
        )


def require_own_outputs(
    run: Callable[[Int64[Tensor, " batch"]], Tensor], *, size: int = MOST, least: float = 0.0
) -> Tensor:
    """Refuse a network in which an example's output depends on the others of its batch, their order or their number.

    Args:
        run: the outputs for a batch of examples, given as places in a :func:`pool` of that size.
        least: outputs count as this large, where smaller ones decide nothing, as losses do.

    Returns:
        The outputs of the pool's first half.

    Raises:
        ValueError: an output moved between batches, or the outputs are no tensor with a row an example.
    """
    expected = _rows(run(torch.arange(size)), size)
    allowed = _rounding(expected, least)
    for places, kept in batches(size):
        found, rows = _rows(run(places), len(places))[kept], places[kept]
        _require_same(found, expected[rows], allowed[rows], rows)
    return expected


def require_alone(
    outputs: Tensor, run: Callable[[Int64[Tensor, " batch"]], Tensor], *, least: float = 0.0
) -> None:
    """Refuse the outputs of a batch of which a few examples by themselves have others.

    Trials before a run are of its first batches. What mixes at other sizes, beyond values that come later or after
    some calls is seen here.

    Args:
        outputs: of the batch.
        run: the outputs for some of its examples, given as places in it.
        least: as for :func:`require_own_outputs`.

    Raises:
        ValueError: an output moved.
    """
    rows = torch.linspace(0, len(outputs) - 1, min(_SPOTS, max(1, len(outputs) - 1))).round().long()
    found = _rows(run(rows), len(rows))
    _require_same(found, outputs[rows], _rounding(outputs, least)[rows], rows)


def own_answers(answers: Callable[[np.ndarray], Any], n: int) -> np.ndarray:
    """What an estimator answers for each of n examples, which those beside it in a batch must not decide.

    Rounding may move an answer or two in a hundred; a batch that is scaled or ranked as a whole moves more.

    Args:
        answers: for the examples at these places.

    Raises:
        ValueError: answers moved when halves of the examples, or single ones, were asked for.
    """
    said, order = np.asarray(answers(np.arange(n))), np.random.default_rng(0).permutation(n)
    if said.shape[:1] != (n,):
        return said  # who counts says what is wrong
    slack = _OF_OUTPUTS * (1.0 + np.median(np.abs(said))) if said.dtype.kind == "f" else None
    for parts in (np.array_split(order, min(2, n)), order[:MOST, None]):
        found, own = (
            np.concatenate([np.asarray(answers(part)) for part in parts]),
            said[np.concatenate(parts)],
        )
        same = (
            found == own
            if slack is None
            else np.isclose(found, own, _OF_OUTPUTS, slack, equal_nan=True)
        )
        if np.sum(~same.reshape(len(own), -1).all(axis=1)) > max(1, len(own) // 50):
            raise ValueError(
                "what the estimator answers for an example depends on the examples beside it, or on random numbers or "
                "calls before: scale and rank by what fit saw, not by the batch"
            )
    return said


def _rounding(outputs: Tensor, least: float) -> Shaped[Tensor, "n 1"]:
    """How far rounding may move each row; by what differs within rows, because that decides.

    One far example hides no other's move.
    """
    flat = outputs.reshape(len(outputs), -1)
    if not flat.numel():
        return flat.new_zeros(len(flat), 1)
    finite = torch.where(flat.isfinite(), flat, 0.0)
    sizes, spreads = finite.abs().amax(dim=1), (finite.amax(dim=1) - finite.amin(dim=1)) / 2
    spreads = spreads if flat.shape[1] > 1 else sizes
    sizes, spreads = (one.clamp(min=one.median()) for one in (sizes, spreads))
    return (_OF_OUTPUTS * (least + spreads) + _UNITS * torch.finfo(flat.dtype).eps * sizes)[:, None]


def _require_same(
    found: Tensor, own: Tensor, allowed: Shaped[Tensor, "n 1"], rows: Int64[Tensor, " n"]
) -> None:
    found, own = (one.reshape(len(rows), -1) for one in (found, own))
    same = (found == own) | (found.isnan() & own.isnan()) | ((found - own).abs() <= allowed)
    if not bool(same.all()):
        which = int(rows[~same.all(dim=1).cpu()][0])
        raise ValueError(
            f"output {which} of the network depends on the other examples of its batch, or on random numbers or "
            "calls besides the weights: no example has a loss of its own"
        )


def _rows(outputs: Tensor, size: int) -> Tensor:
    if not isinstance(outputs, Tensor) or outputs.shape[:1] != (size,):
        found = tuple(outputs.shape) if isinstance(outputs, Tensor) else type(outputs).__name__
        raise ValueError(
            f"the network must return one row of outputs an example, got {found} for a batch of {size}: no example "
            "has a loss of its own"
        )
    return outputs.detach().clone()  # which the next run may overwrite


def require_own_losses(
    loss: Loss, outputs: Float[Tensor, "n ..."], labels: Int64[Tensor, " m"], *, size: int = MOST
) -> None:
    """Refuse a loss in which an example's value depends on the others of its batch or on their labels.

    Weights by how often a class occurs, the hardest examples of a batch, pairs: with any of them the sum is no mean of
    independent terms.

    Args:
        outputs: of some examples.
        labels: of all examples; which values occur is what matters.
        size: of the largest batch.

    Raises:
        ValueError: a loss moved between batches, or as for a call of the loss.
    """
    both = pool(outputs, size=size)
    slack = _OF_LOSSES * max(1.0, loss.oscillation)
    for own in made_up_labels(labels, len(both)):
        expected = loss(both[:size], own[:size])
        for places, kept in batches(size):
            found = loss(both[places], own[places])[kept]
            if not torch.allclose(
                found.double(),
                expected[places[kept]].double(),
                rtol=0.0,
                atol=slack,
                equal_nan=True,
            ):
                raise ValueError(
                    f"loss {loss.name} of an example depends on the other examples of its batch or on their labels: "
                    "write it as a function of one example's outputs and label"
                )


def made_up_labels(labels: Int64[Tensor, " m"], size: int) -> list[Int64[Tensor, " size"]]:
    """Labels as they come, all the same, each in turn, and at random; of the values that occur in ``labels``."""
    values = labels.unique() if labels.ndim == 1 else labels.unique(dim=0)
    count = torch.arange(size, device=labels.device)
    chosen = torch.randint(len(values), (size,), generator=torch.Generator().manual_seed(0)).to(
        labels.device
    )
    return [
        labels[count % len(labels)],
        values[count * 0],
        values[count % len(values)],
        values[chosen],
    ]


def require_true_slope(
    loss: Loss, outputs: Float[Tensor, "n ..."], labels: Int64[Tensor, " m"]
) -> None:
    """Refuse a loss whose compiled form has another mean, error or gradient than its function has.

    Raises:
        ValueError: they differ beyond rounding.
    """
    if loss.compiled is None or outputs.device.type != "cpu":
        return
    outputs = outputs[:MOST].detach()
    for own in made_up_labels(labels, len(outputs)):
        mean, error, slope = loss.slope(outputs, own)
        by_function = replace(loss, compiled=None).slope(outputs, own)
        scale = float(by_function[2].abs().max())
        if not (
            abs(mean - by_function[0]) <= _OF_LOSSES * max(1.0, loss.oscillation)
            and error == by_function[1]
            and torch.allclose(slope, by_function[2], rtol=0.0, atol=_OF_SLOPES * scale)
        ):
            raise ValueError(
                f"the compiled form of loss {loss.name} differs from its function: pass compiled=None, which leaves "
                "the derivative to autograd"
            )


class Unwritten:
    """All that a network refers to: tensors, arrays, numbers and texts in it, held against what they were.

    What a pass leaves behind, later outputs may depend on, and where training is private it leaves without noise.

    Args:
        network: a module, or any function; what it refers to is followed as by
            :func:`pacdp.buffers.held_rows`.
        moving: tensors of it that may change.
    """

    def __init__(self, network: Any, *, moving: Iterable[Tensor] = ()) -> None:
        self._network, self._moving = network, {id(one) for one in moving}
        self._before = contents(network, without=self._moving)

    def require(self) -> None:
        """Refuse a network that is not what it was.

        Raises:
            ValueError: something of it changed; it is named.
        """
        now = contents(self._network, without=self._moving)
        places = sorted(now.keys() | self._before.keys())
        require_no_writes([where for where in places if now.get(where) != self._before.get(where)])


def require_no_writes(changed: Sequence[str]) -> None:
    """Refuse a network that changed what is named here, by raising ValueError."""
    if changed:
        more = f" and {len(changed) - 3} more" if len(changed) > 3 else ""
        raise ValueError(
            f"the network changes {', '.join(changed[:3])}{more} in a forward pass, so that its outputs depend on "
            "what it saw before: call eval() on it first, let no layer work in place on its inputs or weights "
            "(nn.Embedding without max_norm), and keep nothing of a batch"
        )


def require_unwritten(network: Any, inputs: Tensor, call: Callable[[Tensor], object]) -> None:
    """Refuse a network whose pass over ``inputs`` changes them, or anything that the network refers to.

    Raises:
        ValueError: as said.
    """
    before, given = Unwritten(network), inputs.clone()
    call(given)
    require_no_writes([] if _same_bits(inputs, given) else ["its inputs"])
    before.require()


@contextmanager
def kept_inputs(*given: Tensor) -> Iterator[None]:
    """Refuse a pass that writes into these inputs, which may be a caller's data: by their versions, few by their bits.

    Raises:
        ValueError: as said.
    """
    before = [None if one.is_inference() else one._version for one in given]
    copies = [one.clone() if one.numel() <= _SMALL else one for one in given]
    yield
    now = [None if one.is_inference() else one._version for one in given]
    if now != before or not all(map(_same_bits, given, copies)):
        require_no_writes(["its inputs"])


class Unmoved:
    """The weights at which private sums are taken, and what stands beside them, after each sum as before it.

    Of all parameters and buffers, place, shape and version are compared, which costs nothing; of the weights that are
    trained, or with ``frozen`` of all, every bit, with a copy.
    """

    def __init__(self, module: nn.Module, *, frozen: bool = False) -> None:
        self._module, self._frozen = module, frozen
        self._live, self._copies = list[Tensor](), list[Tensor]()
        self._marks = dict[str, tuple[object, ...]]()

    def keep(self) -> None:
        """Remember what is there."""
        self._live = [
            p.detach() for p in self._module.parameters() if p.requires_grad or self._frozen
        ]
        if list(map(_kind, self._copies)) != list(map(_kind, self._live)):
            self._copies = [torch.empty_like(one) for one in self._live]
        for copied, one in zip(self._copies, self._live, strict=True):
            copied.copy_(one)
        self._marks = marks(self._module)

    def written(self) -> list[str]:
        """The parameters and buffers that torch wrote or that are others."""
        now = marks(self._module)
        return [name for name in now if now[name] != self._marks.get(name)]

    def same(self) -> Tensor:
        """Whether all bits of the weights are what they were, a boolean for which no device is waited.

        Raises:
            ValueError: a parameter or buffer was written or exchanged.
        """
        require_no_writes(self.written())
        return self.same_bits()

    def same_bits(self) -> Tensor:
        """The same of the bits alone, where it is known that nothing was exchanged."""
        pairs = zip(self._live, self._copies, strict=True)
        return torch.stack([_same_bits_on(one, copied) for one, copied in pairs]).all()


def marks(module: nn.Module) -> dict[str, tuple[object, ...]]:
    """Where each parameter and buffer lies, its shape, and how often it was written."""
    named = [*module.named_parameters(), *module.named_buffers()]
    return {name: (one.data_ptr(), one.shape, one._version) for name, one in named}


def _kind(x: Tensor) -> tuple[object, ...]:
    return x.device, x.dtype, x.shape


def _same_bits(one: Tensor, other: Tensor) -> bool:
    return one.shape == other.shape and bool(_same_bits_on(one, other))


def _same_bits_on(one: Tensor, other: Tensor) -> Tensor:
    """A boolean on the tensors' device; NaN is itself."""
    if one.is_complex():
        one, other = torch.view_as_real(one), torch.view_as_real(other)
    if one.is_floating_point():
        one, other = (x.view(_BITS[x.element_size()]) for x in (one, other))
    if one.device.type == "cpu" and one.dtype in _BITS.values():
        like = (
            (one.dtype, one.shape) == (other.dtype, other.shape)
            and one.is_contiguous()
            and other.is_contiguous()
        )
        if like:  # C's comparison takes a third of the time of torch.equal
            return torch.tensor(_memcmp(one.data_ptr(), other.data_ptr(), one.nbytes) == 0)
        return torch.tensor(np.array_equal(one.numpy(), other.numpy()))
    return (one == other).all()


def mixes(model: nn.Module, *, allowed: bool) -> bool:
    """Whether the model normalises over the batch; refused unless that is allowed, and layers that draw always."""
    mixing = batch_dependent_layers(model)
    if mixing and not allowed:
        raise ValueError(
            f"layers {', '.join(mixing)} normalise over the batch, so that no example has a loss of its own: "
            "use norm='group' or norm='none'"
        )
    drawing = random_layers(model)
    if drawing:
        raise ValueError(
            f"layers {', '.join(drawing)} draw random numbers in every pass, so that the weights alone have no "
            "loss: leave dropout out, or call eval() on the model first"
        )
    return bool(mixing)


_TOLERANCE = {torch.float32: 1e-4, torch.float16: 3e-2, torch.bfloat16: 3e-2}
"""Rounding allowed, relative to the largest number; 1e-6 in double precision."""
_KINDS = ("same", "each", "random")
"""Labels that are all alike, each in turn, or random."""
_WHOLE = tuple(zip(SIZES, _KINDS, strict=False))
"""Batches for network, loss and gradients together; larger ones go through network and loss each by itself."""
_LARGER = SIZES[len(_WHOLE) :]


def require_independent_examples(
    module: nn.Module,
    inputs: Sequence[Any],
    *,
    targets: Any = None,
    loss: PerExampleLoss | None = None,
    size: int = MOST,
) -> None:
    """Refuse a network (or a loss) in which one example of a batch can see another, or an earlier batch.

    Works on copies in training mode, one of double precision and one as it is; the network itself, and the global
    generators, are left as they were. Random layers draw the same numbers in every pass.

    Args:
        inputs: positional arguments of the network, tensors with at least 3 examples, or structures of such tensors,
            which are repeated to fill larger batches. They should not be private: their values do not matter, only
            their shapes and kinds.
        targets: the loss's second argument, a tensor. Where all its values are alike, labels are made up: as many as
            the network has outputs, or numbers between 0 and 1.
        loss: per-example losses of (outputs, targets), shape (batch,); without it only the network is tested.
        size: of the largest batch that will be used.

    Raises:
        ValueError: some example's output, loss or gradient moved when another example or its label was changed, when
            it was removed, or after other batches; or a pass wrote into a parameter, a buffer or an attribute.
    """
    twin = copy.deepcopy(module).double().train()
    inputs = tree_map(lambda x: x.double() if _is_float(x) else x, list(inputs))
    n = _count(inputs)
    if n < 3:
        raise ValueError(f"inputs must hold at least 3 examples to compare, got {n}")
    before = random_state(module)
    trial = _Trial(twin, module, before, loss)
    largest = max(MOST, size)
    full = selected(inputs, torch.arange(largest) % n)
    try:
        trial.no_first_impression(full)
        outputs = trial.outputs(full)
        if isinstance(targets, Tensor) and loss is not None:
            targets = _values(targets, outputs, loss)
        first = [
            trial.whole(full, targets, each, kind, reach=10.0**k)
            for k, (each, kind) in enumerate(_WHOLE)
        ]
        trial._reset()
        settled = Unwritten(twin)
        for k, each in enumerate(sorted({*_LARGER, largest}), len(_WHOLE)):
            trial.forward(full, each, reach=10.0 ** (k % 4))
        opened = _Trial(twin, with_other_weights(module), before, loss)
        if not _not_finite(opened._seen(full, None)):
            opened.whole(full, targets, *_WHOLE[-1], reach=1.0)
            opened.forward(full, MOST, reach=1.0)
        as_it_is = _Trial(copy.deepcopy(module).train(), module, before, loss)
        own = next((p.dtype for p in module.parameters() if p.is_floating_point()), torch.float64)
        for each in (_ALONE, largest):
            as_it_is.forward(
                tree_map(lambda x: x.to(own) if _is_float(x) else x, full), each, reach=100.0
            )
        if loss is not None:
            for k, (each, kind) in enumerate(product(sorted({*SIZES, largest}), _KINDS)):
                trial.loss_alone(outputs, targets, each, kind, reach=10.0 ** (k % 4))
        _compare(first[0], trial.whole(full, targets, *_WHOLE[0], reach=1.0), "after other batches")
        trial._reset()
        settled.require()
    finally:
        rewind(module, before)


def made_up_batch(template: Any, *, examples: int = MOST, seed: int = 0) -> Any:
    """Numbers in the shape of ``template``, a tensor of examples: normals, or zeros and ones for integers."""
    generator = torch.Generator().manual_seed(seed)
    shape = (examples, *template.shape[1:])
    if template.is_floating_point():
        return torch.randn(shape, generator=generator, dtype=template.dtype).to(template.device)
    return torch.randint(0, 2, shape, generator=generator, dtype=torch.int64).to(
        template.device, template.dtype
    )


def with_other_weights(module: nn.Module, *, seed: int = 0) -> nn.Module:
    """A copy whose weights have moved a tenth of their size: one that is 0 at first may hide a path that opens."""
    twin, generator = copy.deepcopy(module), torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in twin.parameters():
            if weight.requires_grad and weight.numel():
                usual = float(weight.double().square().mean().sqrt()) or weight.numel() ** -0.5
                noise = torch.randn(weight.shape, generator=generator, dtype=torch.float64)
                weight += (0.1 * usual * noise).to(weight)
    return twin


def made_up_targets(targets: Tensor, outputs: Any, loss: PerExampleLoss, *, count: int) -> Tensor:
    """As many targets that the loss takes, each of the values that it takes in turn."""
    values = _values(torch.zeros_like(targets[:1]), outputs, loss)
    return values[torch.arange(count, device=values.device) % len(values)]


@dataclass(frozen=True, slots=True)
class _Trial:
    twin: nn.Module
    original: nn.Module
    state: RandomState
    loss: PerExampleLoss | None

    def no_first_impression(self, inputs: Sequence[Any]) -> None:
        """Refuse a network that keeps something of the first batch that it ever sees."""
        rows, seen = selected(inputs, torch.arange(3)), list[dict[str, Tensor]]()
        for twin, first in ((copy.deepcopy(self.twin), _changed(rows, 10.0)), (self.twin, rows)):
            with torch.no_grad():
                for each in (first, rows):
                    rewind(twin, self.state)
                    outputs = tree_leaves(twin(*each))
            seen.append(
                {f"output {i}": out for i, out in enumerate(outputs) if isinstance(out, Tensor)}
            )
        _require_numbers(seen[1])
        _compare(seen[1], seen[0], "after another first batch")

    def outputs(self, inputs: Sequence[Any]) -> Any:
        """Those of a batch, with dropout off, detached."""
        self._reset()
        _switch_off_dropout(self.twin)
        with torch.no_grad():
            return self.twin(*inputs)

    def whole(
        self, inputs: Sequence[Any], targets: Any, size: int, kind: str, *, reach: float
    ) -> dict[str, Tensor]:
        """What a batch of ``size`` gives, having found that nobody notices a change or the removal of example 1."""
        kept, rows = torch.arange(size) != 1, selected(inputs, torch.arange(size))
        which, other = _labels(kind, size, targets)
        self.twin.train()
        plain = self._pass(rows, selected(targets, which), kept)
        _require_numbers(plain)
        swapped = self._pass(_changed(rows, reach), selected(targets, other), kept)
        if _not_finite(
            swapped
        ):  # an example that overflows leaves NaN in every sum, even with weight 0
            swapped = self._pass(_changed(rows, 1.0), selected(targets, other), kept)
        _compare(plain, swapped, "when another example's input or label changes")
        _switch_off_dropout(self.twin)
        steady = self._pass(rows, selected(targets, which), kept)
        if self._drew_nothing():
            fewer = self._pass(selected(rows, kept), selected(targets, which[kept]), None)
            _compare(steady, fewer, "when another example leaves the batch")
        self._require_no_writes()
        return plain

    def forward(self, inputs: Sequence[Any], size: int, *, reach: float) -> None:
        """The same for a larger batch, of outputs and buffers alone, with dropout off."""
        kept, rows = torch.arange(size) != 1, selected(inputs, torch.arange(size))
        _switch_off_dropout(self.twin)
        with torch.no_grad():
            plain = self._seen(rows, kept)
            _compare(
                plain,
                self._seen(_changed(rows, reach), kept),
                "when another example's input changes",
            )
            if self._drew_nothing():
                fewer = self._seen(selected(rows, kept), None)
                _compare(plain, fewer, "when another example leaves the batch")
            self._require_no_writes()

    def loss_alone(self, outputs: Any, targets: Any, size: int, kind: str, *, reach: float) -> None:
        """The same of the loss and its gradient by the outputs, at outputs of ``size`` examples."""
        kept, every = torch.arange(size) != 1, torch.arange(size)
        which, other = _labels(kind, size, targets)
        rows = selected(outputs, every)
        plain = self._losses(rows, selected(targets, which), kept)
        swapped = self._losses(_changed(rows, reach), selected(targets, other), kept)
        _compare(plain, swapped, "when another example's output or label changes")
        if self._drew_nothing():
            fewer = self._losses(selected(rows, kept), selected(targets, which[kept]), None)
            _compare(plain, fewer, "when another example leaves the batch")

    def _losses(self, outputs: Any, targets: Any, kept: Tensor | None) -> dict[str, Tensor]:
        rewind(self.twin, self.state)
        leaves = tree_map(lambda x: x.clone().requires_grad_() if _is_float(x) else x, outputs)
        found = self._loss(leaves, targets)
        values = found if kept is None else found[kept.to(found.device)]
        floats = [x for x in tree_leaves(leaves) if _is_float(x)]
        slopes = (
            torch.autograd.grad(values.sum(), floats, allow_unused=True)
            if values.requires_grad
            else ()
        )
        own = {
            f"gradient by output {i}": slope if kept is None else slope[kept.to(slope.device)]
            for i, slope in enumerate(slopes)
            if slope is not None
        }
        return {"loss": values.detach(), **own}

    def _loss(self, outputs: Any, targets: Any) -> Tensor:
        assert self.loss is not None
        try:
            return self.loss(outputs, targets)
        except RuntimeError as error:
            raise ValueError(
                f"the loss fails on made-up outputs in double precision ({said(error)}): let its own tensors take the "
                "outputs' type, as weight.to(outputs.dtype) does"
            ) from error

    def _state(self) -> Iterator[tuple[str, Tensor, Tensor]]:
        """Parameters and buffers of the twin, each with what it was."""
        own = {**dict(self.twin.named_parameters()), **dict(self.twin.named_buffers())}
        for name, one in (*self.original.named_parameters(), *self.original.named_buffers()):
            yield name, own[name], one.detach().to(own[name].dtype)

    @torch.no_grad()
    def _reset(self) -> None:
        for _, own, one in self._state():
            own.copy_(one)
        rewind(self.twin, self.state)
        self.twin.zero_grad(set_to_none=True)

    def _drew_nothing(self) -> bool:
        """Whether the last pass left all generators alone; else what it drew depends on the batch, rightly."""
        return same_state(random_state(self.original), self.state)

    def _seen(self, inputs: Sequence[Any], kept: Tensor | None) -> dict[str, Tensor]:
        return self._pass(inputs, None, kept, with_loss=False)

    def _pass(
        self, inputs: Sequence[Any], targets: Any, kept: Tensor | None, *, with_loss: bool = True
    ) -> dict[str, Tensor]:
        """Outputs, losses, parameter gradients and buffers of the examples ``kept``, from the same random numbers."""
        self._reset()
        n = _count(inputs)
        outputs = self.twin(*inputs)
        seen = {
            f"output {i}": out
            for i, out in enumerate(tree_leaves(outputs))
            if isinstance(out, Tensor)
        }
        if self.loss is not None and with_loss:
            seen = {"loss": self._loss(outputs, targets)} | seen
        for name, out in seen.items():
            if out.dim() == 0 or len(out) != n:
                raise ValueError(
                    f"the network's {name} has shape {tuple(out.shape)} for a batch of {n}: its first dimension must "
                    "be the batch, so that each example has a part of its own"
                )
        seen = {
            name: out if kept is None else out[kept.to(out.device)] for name, out in seen.items()
        }
        total = sum((0.5 * out.square() + out).sum() for out in seen.values() if out.requires_grad)
        if isinstance(total, Tensor):
            total.backward()
        gradients = {
            f"gradient of {n}": p.grad
            for n, p in self.twin.named_parameters()
            if p.grad is not None
        }
        if any(one.is_sparse for one in gradients.values()):
            raise ValueError(
                "the network has sparse gradients, which are not clipped here: build it with sparse=False"
            )
        buffers = {f"buffer {n}": b.clone() for n, b in self.twin.named_buffers()}
        return {name: value.detach() for name, value in {**seen, **gradients, **buffers}.items()}

    def _require_no_writes(self) -> None:
        """Refuse a last pass that wrote into a parameter or a buffer."""
        require_no_writes([name for name, own, one in self._state() if not _same_bits(own, one)])


def _values(targets: Tensor, outputs: Any, loss: PerExampleLoss) -> Tensor:
    """Targets [m, ...] to fill batches with: the given ones, or made-up ones that the loss takes where these are alike.

    A loss that refuses a label on the CPU is not asked for it: the outputs may hold more than one number a class.
    """
    if bool((targets != targets[:1]).any()):
        return targets
    leaf = tree_leaves(outputs)[0]
    if targets.is_floating_point():
        fills = torch.linspace(0.0, 1.0, 7)
    else:
        classes = min(leaf.shape[1], leaf.shape[-1]) if leaf.ndim == targets.ndim + 1 else 2
        fills = torch.arange(2 if targets.dtype == torch.bool else max(2, classes))
    values = (
        fills.to(targets.dtype).view(-1, *[1] * (targets.ndim - 1)).expand(-1, *targets.shape[1:])
    )
    few = tree_map(lambda x: x[:1].cpu() if isinstance(x, Tensor) else x, outputs)
    taken = [value for value in values if _takes(loss, few, value[None])]
    return (
        torch.stack(taken).to(targets.device)
        if taken
        else targets.new_zeros((1, *targets.shape[1:]))
    )


def _takes(loss: PerExampleLoss, outputs: Any, target: Tensor) -> bool:
    try:
        loss(outputs, target)
    except (IndexError, RuntimeError, ValueError):
        return False
    return True


def _labels(kind: str, size: int, targets: Any) -> tuple[Tensor, Tensor]:
    """Which of the targets each example has, and the same with another one for example 1."""
    values = len(targets) if isinstance(targets, Tensor) else 1
    which = torch.arange(size) % values
    if kind == "same":
        which = torch.zeros_like(which)
    elif kind == "random":
        which = torch.randint(values, (size,), generator=torch.Generator().manual_seed(size))
    return which, torch.where(torch.arange(size) == 1, (which + 1) % values, which)


def _compare(one: dict[str, Tensor], other: dict[str, Tensor], when: str) -> None:
    for name, value in one.items():
        scale = (
            1.0 + float(value.abs().max()) if value.numel() and value.is_floating_point() else 1.0
        )
        if value.shape != other[name].shape or not torch.allclose(
            value.double(),
            other[name].double(),
            rtol=0.0,
            atol=_TOLERANCE.get(value.dtype, 1e-6) * scale,
            equal_nan=True,
        ):
            raise ValueError(
                f"the examples of a batch are not independent: the {name} of the other examples moves {when}; replace "
                "BatchNorm by GroupNorm and batch statistics by statistics of one example"
            )


def _not_finite(seen: dict[str, Tensor]) -> list[str]:
    return [
        name
        for name, value in seen.items()
        if value.is_floating_point() and not bool(value.isfinite().all())
    ]


def _require_numbers(seen: dict[str, Tensor]) -> None:
    bad = _not_finite(seen)
    if bad:
        raise ValueError(
            f"the network's {bad[0]} is not finite on made-up inputs, so that nothing can be compared: give "
            "probe=(inputs,), a batch on which it is, holding no private data"
        )


def _switch_off_dropout(module: nn.Module) -> None:
    for layer in module.modules():
        if isinstance(layer, ExampleDropout | nn.modules.dropout._DropoutNd):
            layer.eval()


def _changed(inputs: Any, reach: float) -> Any:
    """``inputs`` with the second example replaced by something quite different."""

    def changed(x: Any) -> Any:
        if not isinstance(x, Tensor):
            return x
        other = x.clone()
        if x.is_floating_point():
            other[1] = reach * (3.0 * x[2] + 1.5)
        else:
            other[1] = ~x[1] if x.dtype == torch.bool else 1 - x[1].clamp(0, 1)
        return other

    return tree_map(changed, inputs)


def selected(inputs: Any, rows: Tensor) -> Any:
    """These examples of every tensor among the inputs."""
    return tree_map(lambda x: x[rows.to(x.device)] if isinstance(x, Tensor) else x, inputs)


def _count(inputs: Any) -> int:
    return next((len(x) for x in tree_leaves(inputs) if isinstance(x, Tensor)), 0)


def _is_float(x: Any) -> bool:
    return isinstance(x, Tensor) and x.is_floating_point()
