"""Whether an example's gradient is its own, tried beside other examples, in other orders and beside extreme ones."""

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves, tree_map

from pacdp.errors import said
from pacdp.layers.dropout import ExampleDropout
from pacdp.layers.random import RandomState, random_state, rewind, same_state
from pacdp.losses import PerExampleLoss
from pacdp.models import batch_dependent_layers, random_layers
from pacdp.trials.made_up import ALONE, MOST, SIZES, values_of, with_other_weights
from pacdp.trials.writes import Unwritten, require_no_writes, same_bits


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
SeenOf = Callable[[Any, Any, Tensor | None], dict[str, Tensor]]
"""From inputs (or outputs), targets and the examples that are kept, None for all, to what is seen of these."""


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
            targets = values_of(targets, outputs, loss)
        first = [
            trial.whole(full, targets, each, kind, reach=10.0**k)
            for k, (each, kind) in enumerate(_WHOLE)
        ]
        trial._reset()
        settled = Unwritten(twin)
        for k, each in enumerate(sorted({*_LARGER, largest}), len(_WHOLE)):
            trial.forward(full, each, reach=10.0 ** (k % 4))
        opened = _Trial(twin, with_other_weights(module), before, loss)
        if not _not_finite(opened._pass(full, None, None)):
            opened.whole(full, targets, *_WHOLE[-1], reach=1.0)
            opened.forward(full, MOST, reach=1.0)
        as_it_is = _Trial(copy.deepcopy(module).train(), module, before, loss)
        own = next((p.dtype for p in module.parameters() if p.is_floating_point()), torch.float64)
        for each in (ALONE, largest):
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
        """Try outputs, losses, gradients and buffers of a batch, with dropout and without; return them with it."""
        self.twin.train()
        dropping = any(map(_drops, self.twin.modules()))
        seen = self._alone(self._pass, inputs, targets, size, kind, reach, removed=not dropping)
        _require_numbers(seen)
        if dropping:
            _switch_off_dropout(self.twin)
            self._alone(self._pass, inputs, targets, size, kind, reach)
        self._require_no_writes()
        return seen

    @torch.no_grad()
    def forward(self, inputs: Sequence[Any], size: int, *, reach: float) -> None:
        """Try outputs and buffers of a batch, with dropout off."""
        _switch_off_dropout(self.twin)
        self._alone(self._pass, inputs, None, size, "same", reach)
        self._require_no_writes()

    def loss_alone(self, outputs: Any, targets: Any, size: int, kind: str, *, reach: float) -> None:
        """Try the loss and its gradient by the outputs, at outputs of ``size`` examples."""
        self._alone(self._losses, outputs, targets, size, kind, reach)

    def _alone(
        self,
        seen_of: SeenOf,
        inputs: Any,
        targets: Any,
        size: int,
        kind: str,
        reach: float,
        *,
        removed: bool = True,
    ) -> dict[str, Tensor]:
        """Refuse a batch whose other examples notice a change or the removal of example 1; return what they see."""
        kept, rows = torch.arange(size) != 1, selected(inputs, torch.arange(size))
        which, other = _labels(kind, size, targets)
        plain = seen_of(rows, selected(targets, which), kept)
        swapped = seen_of(_changed(rows, reach), selected(targets, other), kept)
        if _not_finite(
            swapped
        ):  # an example that overflows leaves NaN in every sum, even with weight 0
            swapped = seen_of(_changed(rows, 1.0), selected(targets, other), kept)
        _compare(plain, swapped, "when another example's input or label changes")
        if removed and self._drew_nothing():
            fewer = seen_of(selected(rows, kept), selected(targets, which[kept]), None)
            _compare(plain, fewer, "when another example leaves the batch")
        return plain

    def _losses(self, outputs: Any, targets: Any, kept: Tensor | None) -> dict[str, Tensor]:
        rewind(self.twin, self.state)
        leaves = tree_map(lambda x: x.clone().requires_grad_() if _is_float(x) else x, outputs)
        values = _of_kept(self._loss(leaves, targets), kept)
        floats = [x for x in tree_leaves(leaves) if _is_float(x)]
        slopes = (
            torch.autograd.grad(values.sum(), floats, allow_unused=True)
            if values.requires_grad
            else ()
        )
        own = {
            f"gradient by output {i}": _of_kept(slope, kept)
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

    def _pass(self, inputs: Any, targets: Any, kept: Tensor | None) -> dict[str, Tensor]:
        """Outputs, losses where there are targets, gradients and buffers of the examples ``kept``."""
        self._reset()
        n = _count(inputs)
        outputs = self.twin(*inputs)
        seen = {
            f"output {i}": out
            for i, out in enumerate(tree_leaves(outputs))
            if isinstance(out, Tensor)
        }
        if targets is not None:
            seen = {"loss": self._loss(outputs, targets)} | seen
        for name, out in seen.items():
            if out.dim() == 0 or len(out) != n:
                raise ValueError(
                    f"the network's {name} has shape {tuple(out.shape)} for a batch of {n}: its first dimension must "
                    "be the batch, so that each example has a part of its own"
                )
        seen = {name: _of_kept(out, kept) for name, out in seen.items()}
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
        require_no_writes([name for name, own, one in self._state() if not same_bits(own, one)])


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


def _of_kept(rows: Tensor, kept: Tensor | None) -> Tensor:
    return rows if kept is None else rows[kept.to(rows.device)]


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


def _drops(layer: nn.Module) -> bool:
    return isinstance(layer, ExampleDropout | nn.modules.dropout._DropoutNd)


def _switch_off_dropout(module: nn.Module) -> None:
    for layer in filter(_drops, module.modules()):
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
