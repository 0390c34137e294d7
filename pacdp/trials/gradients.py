"""Whether an example's gradient is its own, tried beside other examples, in other orders and beside extreme ones."""

import copy
import math
from collections.abc import Sequence
from contextlib import nullcontext
from itertools import product
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves, tree_map

from pacdp.errors import naming, said
from pacdp.layers.dropout import ExampleDropout
from pacdp.layers.random import (
    OneDraw,
    RandomState,
    WithoutDraws,
    random_state,
    rewind,
    same_state,
)
from pacdp.losses import PerExampleLoss
from pacdp.trials.made_up import (
    ALONE,
    MOST,
    SIZES,
    made_up_labels,
    moved_to,
    values_of,
    with_another,
    with_other_weights,
)
from pacdp.trials.writes import Unwritten, require_no_writes, same_bits

_TOLERANCE = {torch.float32: 1e-4, torch.float16: 3e-2, torch.bfloat16: 3e-2}
"""Rounding allowed, relative to the largest number; 1e-6 in double precision."""
_OF_NETWORK = (
    "replace BatchNorm, also one in eval(), by GroupNorm and batch statistics by statistics of one example, and draw "
    "by torch alone, not by random or NumPy"
)
_OF_LOSS = (
    "write the loss of one example alone, of outputs and targets of one shape where it compares numbers, as "
    "targets.view_as(outputs) makes them"
)
_STREAMS = 4
"""Further streams of a network that draws, by which coins fall otherwise."""
Seen = dict[str, Tensor]
"""What a pass makes, by name."""
_KINDS = (1, 2, 3)
"""Of :func:`made_up_labels`: all alike, each in turn, random."""
_WHOLE = tuple(zip(SIZES, _KINDS, strict=False))
"""Batches for network, loss and gradients together; larger ones go through network and loss each by itself."""


def require_independent_examples(
    module: nn.Module,
    inputs: Sequence[Any],
    *,
    targets: Any = None,
    loss: PerExampleLoss | None = None,
    size: int = MOST,
) -> None:
    """Refuse a network (or a loss) in which one example of a batch can see another, or an earlier batch.

    Works on copies in training mode, one of double precision (where it runs so) and one as it is; the network itself,
    and the global generators, are left as they were. Random layers draw the same numbers in every pass.

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
            it was removed, or after other batches; a pass wrote into a parameter, a buffer or an attribute; or the
            network cannot run on one example alone.
    """
    n = next((len(x) for x in tree_leaves(list(inputs)) if isinstance(x, Tensor)), 0)
    if n < 3:
        raise ValueError(f"inputs must hold at least 3 examples to compare, got {n}")
    largest, before = max(MOST, size), random_state(module)
    as_given = selected(list(inputs), torch.arange(largest) % n)
    own = next((p.dtype for p in module.parameters() if p.is_floating_point()), torch.float64)
    few = torch.arange(3)
    answers = selected(targets, few) if isinstance(targets, Tensor) else None
    kind = _finest(module, selected(as_given, few), own, loss, answers)
    full = _floats_as(as_given, kind)
    # what runs in no other precision than its own may have weights of several
    of_kind = nn.Module.double if kind != own else _as_it_is
    sizes = sorted({*SIZES, largest})
    trial = _Trial(of_kind(copy.deepcopy(module)), before, loss)
    try:
        trial.no_first_impression(selected(full, torch.arange(3)))
        outputs = trial.outputs(full)
        require_rows(named_outputs(outputs), _examples(full))
        if isinstance(targets, Tensor) and loss is not None:
            targets = values_of(_floats_as(targets, kind), outputs, loss)
        first, *_ = [
            trial.whole(full, targets, each, kind, reach=10.0**k)
            for k, (each, kind) in enumerate(_WHOLE)
        ]
        trial.reset()
        settled = Unwritten(trial.twin)
        for k, each in enumerate(sizes[len(_WHOLE) :], len(_WHOLE)):
            trial.forward(full, each, reach=10.0 ** (k % 4))
        for seed in range(_STREAMS if trial.draws(full) else 0):
            stream = torch.Generator().manual_seed(seed).get_state()
            drawn = _Trial(trial.twin, before._replace(cpu=stream), loss)
            with OneDraw(largest=seed % 2 > 0):
                drawn.forward(full, MOST, reach=1.0)
        opened = _Trial(trial.twin, before, loss, begin=of_kind(with_other_weights(module)))
        if not _not_finite(opened.seen(full, None, None)):
            opened.whole(full, targets, *_WHOLE[-1], reach=1.0)
            opened.forward(full, MOST, reach=1.0)
        as_it_is = _Trial(copy.deepcopy(module), before, loss)
        for each in (ALONE, largest):
            as_it_is.forward(_floats_as(full, own), each, reach=100.0)
        if loss is not None:
            floats = [x for x in tree_leaves(outputs) if _is_float(x)]
            between = all(bool(((x >= 0) & (x <= 1)).all()) for x in floats)
            given = _Shares() if between else nn.Identity()
            alone = _Trial(given, before._replace(layers={}), loss)
            for k, (each, kind) in enumerate(product(sizes, _KINDS)):
                alone.beside_others([outputs], targets, each, kind, reach=10.0 ** (k % 4))
        again = trial.whole(full, targets, *_WHOLE[0], reach=1.0)
        _compare(first, again, "after other batches")
        trial.reset()
        settled.require()
        trial.alone(selected(full, torch.arange(1)), targets)
    finally:
        rewind(module, before)


@torch.no_grad()
def _finest(
    module: nn.Module,
    few: Sequence[Any],
    own: torch.dtype,
    loss: PerExampleLoss | None,
    targets: Tensor | None,
) -> torch.dtype:
    """Double precision, or the network's own where its code, or that of the loss, makes or holds numbers of that kind,
    as ``x.float()`` and weights of classes are."""
    before = random_state(module)
    try:
        outputs = copy.deepcopy(module).double()(*_floats_as(few, torch.float64))
        if loss is not None and targets is not None:
            loss(outputs, _floats_as(targets, torch.float64))
    except Exception as error:
        # what fails in the network's own precision too is said by the trials
        if isinstance(error, RuntimeError) and ("dtype" in str(error) or "Double" in str(error)):
            return own
    finally:
        rewind(module, before)
    return torch.float64


def _as_it_is(module: nn.Module) -> nn.Module:
    return module


class _Shares(nn.Module):
    """Keeps probabilities such: some losses take no other numbers."""

    def forward(self, outputs: Any) -> Any:
        """The outputs, between 0 and 1."""
        return tree_map(lambda x: x.clamp(0.0, 1.0) if _is_float(x) else x, outputs)


class _Trial:
    """A copy of a network in training mode, all passes of which begin at the same weights, buffers and generators."""

    def __init__(
        self,
        twin: nn.Module,
        state: RandomState,
        loss: PerExampleLoss | None,
        *,
        begin: nn.Module | None = None,
    ) -> None:
        self.twin, self.state, self.loss = twin.train(), state, loss
        self.kept = {
            name: one.detach().clone()
            for name, one in _tensors(twin if begin is None else begin).items()
        }

    @torch.no_grad()
    def reset(self) -> None:
        """Go back to where all passes begin."""
        own = _tensors(self.twin)
        for name, one in self.kept.items():
            own[name].copy_(one)
        rewind(self.twin, self.state)
        self.twin.zero_grad(set_to_none=True)

    @torch.no_grad()
    def no_first_impression(self, rows: Sequence[Any]) -> None:
        """Refuse a network that keeps something of the first batch that it ever sees."""
        found, given = list[Seen](), selected(rows, torch.arange(_examples(rows)))
        another = with_another(rows, _examples(rows), reach=10.0)
        for twin, first in ((copy.deepcopy(self.twin), another), (self.twin, rows)):
            for each in (first, rows):
                rewind(twin, self.state)
                outputs = twin(*each)
            found.append(named_outputs(outputs))
        _require_numbers(found[1])
        when = "after another first batch"
        if not all(map(_same_leaf, tree_leaves(given), tree_leaves(rows))):
            when += ", as it writes into its inputs (write x = x - 0.5 for x -= 0.5)"
        _compare(found[1], found[0], when)

    @torch.no_grad()
    def outputs(self, inputs: Sequence[Any]) -> Any:
        """Those of a batch, with dropout off."""
        self.reset()
        self._drop(False)
        return self.twin(*inputs)

    def draws(self, inputs: Sequence[Any]) -> bool:
        """Whether a pass with dropout off draws from torch's generator of the CPU."""
        self.outputs(inputs)
        return not torch.equal(torch.get_rng_state(), self.state.cpu)

    @torch.no_grad()
    def alone(self, one: Sequence[Any], targets: Any) -> None:
        """Refuse a network or a loss that cannot run on one example, as when a Poisson batch holds no other."""
        try:
            found = self.outputs(one)
            if isinstance(targets, Tensor) and self.loss is not None:
                self.loss(found, targets[:1])
        except (ValueError, RuntimeError) as error:
            raise ValueError(
                f"network and loss cannot run on one example alone ({str(error).splitlines()[0]}), as squeeze() and "
                "GroupNorm of one number a group cannot: write squeeze(1), use nn.LayerNorm, or fewer groups"
            ) from error
        require_rows(named_outputs(found), 1)

    def whole(
        self, inputs: Sequence[Any], targets: Any, size: int, kind: int, *, reach: float
    ) -> Seen:
        """Try outputs, losses, gradients and buffers of a batch, with dropout and without; return them with it."""
        self._drop(True)
        dropping = any(map(_drops, self.twin.modules()))
        found = self.beside_others(inputs, targets, size, kind, reach=reach, removed=not dropping)
        _require_numbers(found)
        if dropping:
            self._drop(False)
            self.beside_others(inputs, targets, size, kind, reach=reach)
        return found

    @torch.no_grad()
    def forward(self, inputs: Sequence[Any], size: int, *, reach: float) -> None:
        """Try outputs and buffers of a batch, with dropout off."""
        self._drop(False)
        self.beside_others(inputs, None, size, _KINDS[0], reach=reach)

    def beside_others(
        self,
        inputs: Sequence[Any],
        targets: Any,
        size: int,
        kind: int,
        *,
        reach: float,
        removed: bool = True,
    ) -> Seen:
        """Refuse a batch whose others notice a change, a move or the removal of example 1; return what they see."""
        kept, rows = torch.arange(size) != 1, selected(inputs, torch.arange(size))
        which, other = _labels(kind, size, targets)
        plain = self.seen(rows, selected(targets, which), kept)
        changed = with_another(rows, size, reach=reach)
        swapped = self.seen(changed, selected(targets, other), kept)
        if _not_finite(
            swapped
        ):  # an example that overflows leaves NaN in every sum, even with weight 0
            changed = with_another(rows, size)
            swapped = self.seen(changed, selected(targets, other), kept)
        if not _not_finite(plain):
            _require_numbers(
                swapped,
                "where another example is made up anew (0 and 1 in whole numbers exchanged)",
            )
        _compare(plain, swapped, "when another example's input or label changes")
        if removed:
            draws = not same_state(random_state(self.twin), self.state)
            with WithoutDraws() if draws else nullcontext():  # which depend on the batch's size
                whole = self.seen(rows, selected(targets, which), kept) if draws else plain
                fewer = self.seen(selected(rows, kept), selected(targets, which[kept]), None)
                _compare(whole, fewer, "when another example leaves the batch")
                # what is read off a place, as mask[0] is, stands there
                for order in (moved_to(0, size), moved_to(size - 1, size)):
                    own = selected(targets, other[order])
                    moved = self.seen(selected(changed, order), own, order != 1)
                    _compare(whole, moved, "when another example comes first or last")
        own = _tensors(self.twin)
        require_no_writes(
            [name for name, one in self.kept.items() if not same_bits(own[name], one)]
        )
        return plain

    def seen(self, inputs: Any, targets: Any, kept: Tensor | None) -> Seen:
        """Outputs, losses where there are targets, gradients and buffers of the examples ``kept``, of all by default.

        Gradients are those by the parameters, or by the inputs of what has neither parameters nor buffers.
        """
        self.reset()
        moving, by_inputs = dict(self.twin.named_parameters()), not self.kept
        if by_inputs:
            inputs = tree_map(lambda x: x.clone().requires_grad_() if _is_float(x) else x, inputs)
            moving = named_outputs([x for x in tree_leaves(inputs) if _is_float(x)])
        outputs = self.twin(*inputs)
        found = named_outputs(outputs)
        if targets is not None:
            *shapes, last = (f"{['n', *x.shape[1:]]}" for x in (*found.values(), targets))
            name = f"loss of outputs of shape {', '.join(shapes)} and targets of shape {last}"
            found[name] = self._loss(outputs, targets)  # after the outputs, which it moves with
        require_rows(found, _examples(inputs))
        found = {name: _of(out, kept) for name, out in found.items()}
        total = sum((0.5 * out.square() + out).sum() for out in found.values() if out.requires_grad)
        if isinstance(total, Tensor):
            total.backward()
        # zero where these examples pass by a weight, as by an expert that others are sent to
        each = {name: torch.zeros_like(p) if p.grad is None else p.grad
                for name, p in moving.items() if p.requires_grad}  # fmt: skip
        gradients = {
            f"gradient of {name}": _of(slope, kept) if by_inputs else slope
            for name, slope in each.items()
        }
        if any(one.is_sparse for one in gradients.values()):
            raise ValueError(
                "the network has sparse gradients, which are not clipped here: build it with sparse=False"
            )
        buffers = {f"buffer {name}": b.clone() for name, b in self.twin.named_buffers()}
        return {name: one.detach() for name, one in {**found, **gradients, **buffers}.items()}

    def _loss(self, outputs: Any, targets: Any) -> Tensor:
        assert self.loss is not None
        with naming("the loss"):
            try:
                found: Any = self.loss(outputs, targets)
            except (RuntimeError, ValueError) as error:
                fix = "let its own tensors take the outputs' type, as weight.to(outputs.dtype) does"
                raise ValueError(
                    f"the loss fails on made-up outputs in double precision ({said(error)}): "
                    + (_OF_LOSS if isinstance(error, ValueError) else fix)
                ) from error
        if not isinstance(found, Tensor):
            raise ValueError(
                f"the loss returned {type(found).__name__}: let it return a tensor with one loss an example, as those "
                "of torch do with reduction='none'"
            )
        return found

    def _drop(self, on: bool) -> None:
        for layer in filter(_drops, self.twin.modules()):
            layer.train(on)


def _tensors(module: nn.Module) -> Seen:
    return {**dict(module.named_parameters()), **dict(module.named_buffers())}


def _drops(layer: nn.Module) -> bool:
    return isinstance(layer, ExampleDropout | nn.modules.dropout._DropoutNd)


def _same_leaf(one: Any, other: Any) -> bool:
    return not isinstance(one, Tensor) or bool(same_bits(one, other))


def _of(rows: Tensor, kept: Tensor | None) -> Tensor:
    return rows if kept is None else rows[kept.to(rows.device)]


def _labels(kind: int, size: int, targets: Any) -> tuple[Tensor, Tensor]:
    """Which of the targets each example has, and the same with another one for example 1."""
    values = torch.arange(len(targets) if isinstance(targets, Tensor) else 1)
    which = made_up_labels(values, size)[kind]
    return which, torch.where(torch.arange(size) == 1, (which + 1) % len(values), which)


def _compare(one: Seen, other: Seen, when: str) -> None:
    for name, value in one.items():
        own, found = value.double(), other[name].double()
        scale = 1.0 + float(own.abs().max()) if value.numel() and value.is_floating_point() else 1.0
        if math.isnan(scale):
            _require_numbers({name: value})
        slack = _TOLERANCE.get(value.dtype, 1e-6) * scale
        same = own.shape == found.shape
        if not (same and torch.allclose(own, found, rtol=0.0, atol=slack, equal_nan=True)):
            raise ValueError(
                f"the examples of a batch are not independent: the {name} of the other examples moves {when}; "
                + (_OF_LOSS if name.startswith("loss") else _OF_NETWORK)
            )


def require_rows(found: Seen, n: int) -> None:
    """Refuse, by raising ValueError, what a network makes of n examples if its first dimension is not theirs."""
    for name, out in found.items():
        if out.shape[:1] != (n,):
            raise ValueError(
                f"the network's {name} has shape {tuple(out.shape)} for a batch of {n}: its first dimension must be "
                "the batch, so that each example has a part of its own; write squeeze(1) for squeeze(), give a loss "
                "reduction='none', and compute the loss outside of the network"
            )


def named_outputs(outputs: Any) -> Seen:
    """The tensors among a network's outputs.

    Raises:
        ValueError: there is none.
    """
    leaves = enumerate(tree_leaves(outputs))
    found = {f"output {i}": leaf for i, leaf in leaves if isinstance(leaf, Tensor)}
    if not found:
        raise ValueError(
            f"the network gives a {type(outputs).__name__}, in which no tensor is found: let it give a tensor, or a "
            "tuple, list or dictionary of tensors"
        )
    if not any(leaf.is_floating_point() for leaf in found.values()):
        kinds = ", ".join(sorted({str(leaf.dtype) for leaf in found.values()}))
        raise ValueError(
            f"the network gives tensors of {kinds} alone, through which no gradient goes: let it give logits"
        )
    return found


def _examples(inputs: Any) -> int:
    return next(len(x) for x in tree_leaves(inputs) if isinstance(x, Tensor))


def _not_finite(found: Seen) -> list[str]:
    """What a pass makes that is no number; a buffer may hold infinities, as masks do."""
    return [
        name
        for name, value in found.items()
        if value.is_floating_point()
        and not name.startswith("buffer ")
        and not bool(value.isfinite().all())
    ]


def _require_numbers(found: Seen, where: str = "on made-up inputs") -> None:
    bad = _not_finite(found)
    if bad:
        raise ValueError(
            f"the network's {bad[0]} is not finite {where}, so that nothing can be compared: give "
            "probe=(inputs,), a batch on which it is, holding no private data, or divide by no number that may be 0, "
            "as a mask's sum: mask.sum(1).clamp(min=1)"
        )


def selected(inputs: Any, rows: Tensor) -> Any:
    """These examples of every tensor among the inputs."""
    return tree_map(lambda x: x[rows.to(x.device)] if isinstance(x, Tensor) else x, inputs)


def _floats_as(inputs: Any, kind: torch.dtype) -> Any:
    return tree_map(lambda x: x.to(kind) if _is_float(x) else x, inputs)


def _is_float(x: Any) -> bool:
    return isinstance(x, Tensor) and x.is_floating_point()
