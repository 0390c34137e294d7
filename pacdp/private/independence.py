"""A test that every example has a gradient of its own, which all of per-example clipping rests on.

BatchNorm (with weights or without), batch means, losses over pairs: with any of them one changed example moves the
gradients of all others, and the clipped sum moves by up to |B|·C where the accountant assumes C. Validators that look
for layer types miss ``BatchNorm(affine=False)`` and every batch mean written in a ``forward``. This one changes and
removes examples of a made-up batch and looks whether the others notice.
"""

import copy
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from pacdp.private.dropout import ExampleDropout
from pacdp.private.random_layers import RandomState, random_state, rewind

PerExampleLoss = Callable[[Any, Any], Tensor]
_TOLERANCE = 1e-6


def require_independent_examples(
    module: nn.Module, inputs: Sequence[Any], *, targets: Any = None, loss: PerExampleLoss | None = None
) -> None:
    """Refuse a network (or a loss) in which one example of a batch can see another.

    Works on a double-precision copy in training mode; the network itself, and the global generators, are left as they
    were. Random layers draw the same numbers in every pass.

    Args:
        inputs: positional arguments of the network, tensors with at least 3 examples. They should not be private: their
            values do not matter, only their shapes and kinds.
        targets: the loss's second argument, a tensor.
        loss: per-example losses of (outputs, targets), shape (batch,); without it only the network is tested.

    Raises:
        ValueError: some example's output, loss or gradient, or a buffer, moved when another example was changed or
            removed.
    """
    twin = copy.deepcopy(module).double().train()
    inputs = [x.double() if isinstance(x, Tensor) and x.is_floating_point() else x for x in inputs]
    n = next((len(x) for x in inputs if isinstance(x, Tensor)), 0)
    if n < 3:
        raise ValueError(f"inputs must hold at least 3 examples to compare, got {n}")
    before = random_state(module)
    kept = torch.arange(n) != 1
    try:
        plain = _pass(twin, module, before, inputs, targets, loss, kept)
        _require_numbers(plain)
        swapped = _pass(twin, module, before, [_changed(x) for x in inputs], targets, loss, kept)
        _compare(plain, swapped, "when another example's input changes")
        _switch_off_dropout(twin)
        steady = _pass(twin, module, before, inputs, targets, loss, kept)
        if _same_generators(random_state(module), before):  # else its draws depend on the batch's size, rightly
            rest = [_selected(x, kept) for x in inputs]
            fewer = _pass(twin, module, before, rest, _selected(targets, kept), loss, None)
            _compare(steady, fewer, "when another example leaves the batch")
    finally:
        rewind(module, before)


def made_up_batch(template: Any, *, examples: int = 4) -> Any:
    """Numbers in the shape of ``template``, a tensor of examples: normals, or zeros and ones for integers."""
    generator = torch.Generator().manual_seed(0)
    shape = (examples, *template.shape[1:])
    if template.is_floating_point():
        return torch.randn(shape, generator=generator, dtype=template.dtype).to(template.device)
    return torch.randint(0, 2, shape, generator=generator, dtype=torch.int64).to(template.device, template.dtype)


def _pass(twin: nn.Module, original: nn.Module, state: RandomState, inputs: Sequence[Any], targets: Any,
          loss: PerExampleLoss | None, kept: Tensor | None) -> dict[str, Tensor]:  # fmt: skip
    """Outputs, losses, parameter gradients and buffers of the examples ``kept``, from the same random numbers."""
    twin.load_state_dict({k: v.double() if v.is_floating_point() else v for k, v in original.state_dict().items()})
    rewind(twin, state)
    twin.zero_grad(set_to_none=True)
    n = next(len(x) for x in inputs if isinstance(x, Tensor))
    outputs = twin(*inputs)
    seen = {f"output {i}": out for i, out in enumerate(tree_leaves(outputs)) if isinstance(out, Tensor)}
    if loss is not None:
        seen = {"loss": loss(outputs, targets)} | seen
    for name, out in seen.items():
        if out.dim() == 0 or len(out) != n:
            raise ValueError(
                f"the network's {name} has shape {tuple(out.shape)} for a batch of {n}: its first dimension must be "
                "the batch, so that each example has a part of its own"
            )
    seen = {name: out if kept is None else out[kept.to(out.device)] for name, out in seen.items()}
    total = sum((0.5 * out.square() + out).sum() for out in seen.values() if out.requires_grad)
    if isinstance(total, Tensor):
        total.backward()
    gradients = {f"gradient of {n}": p.grad for n, p in twin.named_parameters() if p.grad is not None}
    buffers = {f"buffer {n}": b.clone() for n, b in twin.named_buffers()}
    return {name: value.detach() for name, value in {**seen, **gradients, **buffers}.items()}


def _compare(one: dict[str, Tensor], other: dict[str, Tensor], when: str) -> None:
    for name, value in one.items():
        scale = 1.0 + float(value.abs().max()) if value.numel() and value.is_floating_point() else 1.0
        if value.shape != other[name].shape or not torch.allclose(
            value.double(), other[name].double(), rtol=0.0, atol=_TOLERANCE * scale, equal_nan=True
        ):
            raise ValueError(
                f"the examples of a batch are not independent: the {name} of the other examples moves {when}; replace "
                "BatchNorm by GroupNorm and batch statistics by statistics of one example"
            )


def _require_numbers(seen: dict[str, Tensor]) -> None:
    bad = [name for name, value in seen.items() if value.is_floating_point() and not bool(torch.isfinite(value).all())]
    if bad:
        raise ValueError(
            f"the network's {bad[0]} is not finite on made-up inputs, so that nothing can be compared: give "
            "probe=(inputs,), a batch on which it is, holding no private data"
        )


def _switch_off_dropout(module: nn.Module) -> None:
    for layer in module.modules():
        if isinstance(layer, ExampleDropout | nn.modules.dropout._DropoutNd):
            layer.eval()


def _same_generators(one: RandomState, other: RandomState) -> bool:
    return all(torch.equal(a, b) for a, b in zip((one.cpu, *one.cuda), (other.cpu, *other.cuda), strict=True))


def _changed(x: Any) -> Any:
    """``x`` with its second example replaced by something quite different."""
    if not isinstance(x, Tensor):
        return x
    other = x.clone()
    other[1] = 3.0 * x[2] + 1.5 if x.is_floating_point() else 1 - x[1].clamp(0, 1) if x.dtype != torch.bool else ~x[1]
    return other


def _selected(x: Any, kept: Tensor) -> Any:
    return x[kept.to(x.device)] if isinstance(x, Tensor) else x
