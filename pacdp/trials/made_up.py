"""What trials are made on: examples, labels and weights that nobody's data decide, in batches of several sizes."""

import copy
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import torch
from jaxtyping import Int64, Shaped
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves, tree_map

from pacdp.losses import PerExampleLoss

SIZES = (3, 4, 9, 17, 33)
"""Batch sizes of the trials."""
MOST = max(SIZES)
ALONE = 3
"""Examples that are tried as batches of one."""


def pool(
    inputs: Shaped[Tensor, "n ..."], *, size: int = MOST, beyond: bool = True
) -> Shaped[Tensor, "_ ..."]:
    """``size`` examples, those of ``inputs`` in turn, then up to 33 that are made up.

    Made-up numbers differ from an example's by noise of deviation 1 to 1,000, and are none below 0 where the examples
    have none, of which a network may take roots and logarithms. Made-up integers are those of the
    examples in another order, so that they stay within any table. Where none may lie ``beyond`` its column's, each is
    that of another example in the same place.
    """
    if inputs.itemsize == 1:
        require_arithmetic(inputs)
    real, generator = inputs[torch.arange(size) % len(inputs)], torch.Generator().manual_seed(0)
    few = real.flip(0)[:MOST]
    if not beyond:
        order = torch.rand(few.shape, generator=generator).argsort(dim=0).to(inputs.device)
        return torch.cat([real, few.gather(0, order)])
    if not inputs.is_floating_point():
        places = torch.randperm(few.numel(), generator=generator).to(inputs.device)
        return torch.cat([real, few.reshape(-1)[places].view_as(few)])
    reach = 10.0 ** (torch.arange(len(few)) % 4).view(-1, *[1] * (inputs.ndim - 1))
    made_up = few + (torch.randn(few.shape, generator=generator) * reach).to(few)
    return torch.cat([real, torch.where(inputs.amin(dim=0) >= 0, made_up.abs(), made_up)])


def pool_for(
    call: Callable[[Tensor], object], inputs: Shaped[Tensor, "n ..."], *, size: int = MOST
) -> Shaped[Tensor, "_ ..."]:
    """A :func:`pool` that ``call`` takes: made-up numbers may lie beyond a table, or a range, of a network's own.

    Then each is another example's in the same place; and where these are not taken either, the pool is of examples.
    """
    if inputs.itemsize == 1:
        require_arithmetic(inputs)
    for beyond in (True, False):
        # a stranger's network may raise anything, and torch does little with some types, as uint16
        with suppress(Exception):
            made = pool(inputs, size=size, beyond=beyond)
            call(made[size:].clone())  # a network may write on them
            return made
    return inputs[torch.arange(2 * size) % len(inputs)]


def batches(size: int = MOST) -> Iterator[tuple[Int64[Tensor, " batch"], Int64[Tensor, " kept"]]]:
    """Batches as places in a :func:`pool` of ``size``, each with the positions that hold examples of its first half."""
    for each in sorted({min(one, size) for one in SIZES}):
        rows = torch.arange(each)
        yield rows.flip(0), rows
        yield torch.where(rows % 2 == 0, rows, size + rows), rows[::2]
    for k in range(min(ALONE, size)):
        yield torch.tensor([k]), torch.zeros(1, dtype=torch.int64)
    # each among few, in another order, since what few do not do is seen beside them
    for rows in torch.arange(size).flip(0).split(MOST) if size > MOST else ():
        yield rows, torch.arange(len(rows))


def made_up_batch(template: Any, *, examples: int = MOST, seed: int = 0) -> Any:
    """Numbers in the shape of ``template``, a tensor of examples: normals, or zeros and ones for integers.

    Raises:
        ValueError: floats of 8 bits, as :func:`pool` does.
    """
    if template.itemsize == 1:
        require_arithmetic(template)
    generator = torch.Generator().manual_seed(seed)
    shape = (examples, *template.shape[1:])
    if template.is_floating_point():
        return torch.randn(shape, generator=generator, dtype=template.dtype).to(template.device)
    return torch.randint(0, 2, shape, generator=generator, dtype=torch.int64).to(
        template.device, template.dtype
    )


def with_another(inputs: Any, n: int, *, reach: float = 1.0) -> Any:
    """``inputs`` with example 1 of n >= 3 replaced by something quite different, in all tensors of n rows.

    Whole numbers become 0, as any table has, and 0 becomes 1.
    """

    def changed(x: Any) -> Any:
        if not isinstance(x, Tensor) or x.shape[:1] != (n,):
            return x
        other = x.clone()
        if x.is_floating_point():
            other[1] = reach * (3.0 * x[2] + 1.5)
        else:
            other[1] = ~x[1] if x.dtype == torch.bool else 1 - x[1].clamp(0, 1)
        return other

    return tree_map(changed, inputs)


def moved_to(place: int, n: int) -> Int64[Tensor, " n"]:
    """The order of n examples in which example 1 stands at this place, and the others as they did."""
    rest = torch.arange(n)
    rest = rest[rest != 1]
    return torch.cat([rest[:place], torch.ones(1, dtype=torch.int64), rest[place:]])


def require_arithmetic(given: Any, what: str = "inputs") -> None:
    """Refuse, by raising ValueError, tensors of floats of 8 bits, which torch only stores."""
    if isinstance(given, Tensor) and given.is_floating_point() and given.itemsize == 1:
        raise ValueError(
            f"{what} are {given.dtype}, in which nothing can be computed: convert them, as float() does"
        )


def made_up_labels(labels: Int64[Tensor, " m"], size: int) -> list[Int64[Tensor, " size"]]:
    """Labels as they come, all the same, each in turn, and at random; of the values that occur in ``labels``."""
    values = labels.unique() if labels.ndim == 1 else labels.unique(dim=0)
    count = torch.arange(size)
    chosen = torch.randint(len(values), (size,), generator=torch.Generator().manual_seed(0))
    orders = (count * 0, count % len(values), chosen)
    return [labels[count % len(labels)], *(values[order] for order in orders)]


def made_up_targets(targets: Tensor, outputs: Any, loss: PerExampleLoss, *, count: int) -> Tensor:
    """As many targets that the loss takes, each of the values that it takes in turn."""
    values = values_of(torch.zeros_like(targets[:1]), outputs, loss)
    return values[torch.arange(count) % len(values)]


def values_of(targets: Tensor, outputs: Any, loss: PerExampleLoss) -> Tensor:
    """Targets [m, ...] to fill batches with: the given ones, or made-up ones that the loss takes where these are alike.

    A loss that refuses a label on the CPU is not asked for it: the outputs may hold more than one number a class.
    """
    if bool((targets != targets[:1]).any()):
        return targets
    leaf = next(x for x in tree_leaves(outputs) if isinstance(x, Tensor))
    if targets.is_floating_point():
        fills = torch.linspace(0.0, 1.0, 7)
    else:
        classes = min(leaf.shape[1], leaf.shape[-1]) if leaf.ndim == targets.ndim + 1 else 2
        fills = torch.arange(2 if targets.dtype == torch.bool else max(2, classes))
    few = tree_map(lambda x: x[:1].cpu() if isinstance(x, Tensor) else x, outputs)
    taken = list[Tensor]()
    for fill in fills.tolist():
        value = torch.full_like(targets[:1], fill, device="cpu")
        with suppress(Exception):  # a stranger's loss may raise anything, and is asked again
            loss(few, value)
            taken.append(value)
    return torch.cat(taken).to(targets.device) if taken else torch.zeros_like(targets[:1])


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
