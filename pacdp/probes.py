"""Trials before a number is made: does each example have an output and a loss of its own?

Certificates, clipping and Monte Carlo all rest on it. A network that mixes examples only in batches of nine and more,
or only beyond some value, passes a trial on three rows of data. Here batches of several sizes are tried, in other
orders, beside other examples and beside extreme ones. Trials can refute independence; they cannot prove it.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

import torch
from jaxtyping import Float, Int64, Shaped
from torch import Tensor, nn

from pacdp.losses import Loss
from pacdp.models import batch_dependent_layers, random_layers

SIZES = (3, 4, 9, 17, 33)
"""Batch sizes of the trials."""
MOST = max(SIZES)
AT_MOST = 256
"""The largest batch of a trial, where the network meets larger ones."""
_ALONE = 3
"""Examples that are tried as batches of one."""
_OF_OUTPUTS, _OF_LOSSES, _OF_SLOPES = 1e-3, 1e-5, 1e-4
"""Rounding allowed, relative to the outputs' size, to the interval of the loss, to the largest slope."""


def pool(inputs: Shaped[Tensor, "n ..."], *, size: int = MOST) -> Shaped[Tensor, "_ ..."]:
    """``size`` examples, those of ``inputs`` in turn, then as many made-up ones.

    Made-up numbers differ from an example's by noise of deviation 1 to 1,000. Made-up integers are those of the
    examples in another order, so that they stay within any table.
    """
    real = inputs[torch.arange(size, device=inputs.device) % len(inputs)]
    generator = torch.Generator().manual_seed(0)
    if not inputs.is_floating_point():
        places = torch.randperm(real.numel(), generator=generator).to(inputs.device)
        return torch.cat([real, real.reshape(-1)[places].view_as(real)])
    noise = torch.randn(real.shape, generator=generator).to(inputs.device, inputs.dtype)
    reach = 10.0 ** (torch.arange(size, device=inputs.device) % 4).to(inputs.dtype)
    return torch.cat([real, real.flip(0) + noise * reach.view(-1, *[1] * (inputs.ndim - 1))])


def batches(size: int = MOST) -> Iterator[tuple[Int64[Tensor, " batch"], Int64[Tensor, " kept"]]]:
    """Batches as places in a :func:`pool` of ``size``, each with the positions that hold examples of its first half."""
    for each in sorted({min(one, size) for one in SIZES}):
        rows = torch.arange(each)
        yield rows.flip(0), rows
        yield torch.where(rows % 2 == 0, rows, size + rows), rows[::2]
    for k in range(min(_ALONE, size)):
        yield torch.tensor([k]), torch.zeros(1, dtype=torch.int64)


def require_own_outputs(run: Callable[[Int64[Tensor, " batch"]], Tensor], *, size: int = MOST) -> Tensor:
    """Refuse a network in which an example's output depends on the others of its batch, their order or their number.

    Args:
        run: the outputs for a batch of examples, given as places in a :func:`pool` of that size.

    Returns:
        The outputs of the pool's first half.

    Raises:
        ValueError: an output moved between batches, or the outputs are no tensor with a row an example.
    """
    expected = _rows(run(torch.arange(size)), size)
    flat = expected.reshape(size, -1)
    sizes = torch.where(flat.isfinite(), flat.abs(), 0.0).amax(dim=1) if flat.numel() else flat.new_zeros(size)
    allowed = _OF_OUTPUTS * (1.0 + sizes.clamp(min=sizes.median()))[:, None]  # one far example hides no other's move
    for places, kept in batches(size):
        found, rows = _rows(run(places), len(places))[kept].reshape(len(kept), -1), places[kept]
        own = flat[rows]
        same = (found == own) | (found.isnan() & own.isnan()) | ((found - own).abs() <= allowed[rows])
        if not bool(same.all()):
            which = int(rows[~same.all(dim=1).cpu()][0])
            raise ValueError(
                f"output {which} of the network depends on the other examples of its batch, or on random numbers or "
                "calls besides the weights: no example has a loss of its own"
            )
    return expected


def _rows(outputs: Tensor, size: int) -> Tensor:
    if not isinstance(outputs, Tensor) or outputs.shape[:1] != (size,):
        found = tuple(outputs.shape) if isinstance(outputs, Tensor) else type(outputs).__name__
        raise ValueError(
            f"the network must return one row of outputs an example, got {found} for a batch of {size}: no example "
            "has a loss of its own"
        )
    return outputs.detach()


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
    for own in made_up_labels(labels, 2 * size):
        expected = loss(both[:size], own[:size])
        for places, kept in batches(size):
            found = loss(both[places], own[places])[kept]
            if not torch.allclose(
                found.double(), expected[places[kept]].double(), rtol=0.0, atol=slack, equal_nan=True
            ):
                raise ValueError(
                    f"loss {loss.name} of an example depends on the other examples of its batch or on their labels: "
                    "write it as a function of one example's outputs and label"
                )


def made_up_labels(labels: Int64[Tensor, " m"], size: int) -> list[Int64[Tensor, " size"]]:
    """Labels as they come, all the same, each in turn, and at random; of the values that occur in ``labels``."""
    values = labels.unique() if labels.ndim == 1 else labels.unique(dim=0)
    count = torch.arange(size, device=labels.device)
    chosen = torch.randint(len(values), (size,), generator=torch.Generator().manual_seed(0)).to(labels.device)
    return [labels[count % len(labels)], values[count * 0], values[count % len(values)], values[chosen]]


def require_true_slope(loss: Loss, outputs: Float[Tensor, "n ..."], labels: Int64[Tensor, " m"]) -> None:
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


def require_steady(read: Callable[[], Mapping[str, Tensor]], call: Callable[[], object]) -> None:
    """Refuse a network that changes its buffers or its inputs, so that its outputs depend on earlier calls.

    Args:
        read: what ``call`` must leave as it is, by name.

    Raises:
        ValueError: one of them changed; it is named.
    """
    before = {name: value.clone() for name, value in read().items()}
    call()
    changed = [
        name
        for name, value in read().items()
        if bool(((value != before[name]) & ~(value.isnan() & before[name].isnan())).any())
    ]
    if changed:
        raise ValueError(
            f"the network changes {', '.join(changed)} in a forward pass, so that its outputs depend on what it saw "
            "before: call eval() on it first, and let no layer work in place on the inputs"
        )


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
