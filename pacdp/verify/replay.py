"""Steps taken again: what the records added to kept steps of a chain, and the noise that entered with it.

A chain that keeps norms keeps its state before and after some steps. With the data and the network the gradients of all
records are taken again at such a state, by torch alone, and

- their squared norms must add up to the number that was kept: those of sampled records only, or of what momentum made
  of them, do not;
- what remains of the move, less the gradient's part, must have the mean square that the settings say, d numbers within
  six standard deviations of a chi-square: noise that is 10% smaller shows where the steps move some thousand numbers.

The noise is not drawn again, so that nothing is taken from the generator that drew it.
"""

from math import exp, sqrt
from typing import Any

import numpy as np
from numpy import ndarray

from pacdp.verify.claim import (
    CANNOT,
    Fields,
    Statement,
    Unchecked,
    judged,
    require,
    same,
)
from pacdp.verify.examples import Examples
from pacdp.verify.files import Stored
from pacdp.verify.given import with_given

_PART = 500
_FEWEST = 2000
"""Numbers whose mean square lies within 19% of its law's, that of noise 10% off, at six standard deviations."""


def replay(
    stored: Stored, network: Any, data: Examples
) -> list[Statement]:
    """Statements on the steps that the checkpoint keeps; none where it keeps no norms."""
    if "trace.squared_norms" not in stored.tensors:
        return []
    sampler = stored.header.sampler
    if (
        not sampler["every_record"]
        or sampler["clip_norm"] is not None
    ):
        why = "batches are drawn by a generator that this checker does not have"
        return [Statement("replay", "norms", CANNOT, why)]
    # 0, 3, 15, 63, ...: other steps stand after one of these
    kept = [
        step
        for step in [4**k - 1 for k in range(32)]
        if f"trace.kept.{step + 1}.weights" in stored.tensors
    ]
    moved = []
    norms = f"norms of steps {', '.join(map(str, kept))}"
    checks = with_given(
        {norms: _check_norms, "noise": _check_noise}
    )
    return judged(
        "replay", checks, stored, moved, kept, network, data
    )


def _check_norms(
    stored: Stored,
    moved: list[ndarray],
    kept: list[int],
    network: Any,
    data: Examples,
) -> None:
    """The squared norms of all records' gradients add up to the number that was kept.

    What the steps moved beside the gradient is added to the list.
    """
    header = stored.header
    count = header.part("people")["count"]
    known = data.count if data.people is not None else None
    if count is not None and known is None:
        raise Unchecked(
            "norms are of people, and the data do not say whose the examples are"
        )
    same("the number of people", known, count)
    require(
        kept and kept[0] == 0, "the checkpoint keeps no first step"
    )
    entropy = header.sampler.kind == "EntropySGD"
    inner = header.sampler.inner_steps if entropy else 1
    for step in kept:
        weights = stored.numbers(f"trace.kept.{step}.weights")
        found, gradient = _gradients(
            network, weights, header.loss, data
        )
        if not entropy:
            moved.append(_noise(stored, gradient, step))
        said = stored.numbers("trace.squared_norms")[step * inner]
        require(
            found * (1 - 1e-5) <= said <= found * (1 + 1e-3),
            f"norms of {said} were kept at step {step}, and all records add {found}",
        )


def _noise(stored: Stored, gradient: ndarray, step: int) -> ndarray:
    """What the step moved beside its gradient, over the deviation √(2κh/τ) that the settings say."""
    s = stored.header.sampler
    after = step + 1
    size = s.step_size * after**-s.decay
    heat = s.tau * after ** s.get("cooling", 0.0)
    friction = s.get("friction", 1.0)
    weights, new = (
        stored.numbers(f"trace.kept.{one}.weights")
        for one in (step, after)
    )
    moved = new - weights
    if s.kind == "SGHMC":
        was, moved = (
            stored.numbers(f"trace.kept.{one}.velocity")
            for one in (step, after)
        )
        moved = moved - (1 - friction) * was
    moved = moved + size * gradient
    moved += size / (heat * s.base_std**2) * weights
    return moved / sqrt(2 * friction * size / heat)


def _check_noise(
    stored: Stored, moved: list[ndarray], *_: object
) -> None:
    """Its mean square is within six standard deviations of a chi-square's."""
    if stored.header.sampler.kind == "EntropySGD":
        raise Unchecked(
            "inner steps are not kept, the noise that entered there cannot be told from outer noise"
        )
    numbers = np.concatenate([np.zeros(0), *moved])
    size = max(1, len(numbers))
    ratio = float(numbers @ numbers) / size
    require(
        abs(ratio - 1) <= 6 * sqrt(2 / size),
        f"what {size} numbers moved beside the gradient has {ratio} times the noise's variance",
    )
    if size < _FEWEST:
        raise Unchecked(
            f"{size} numbers do not tell noise from noise that is 10% smaller"
        )


def _gradients(
    network: Any, weights: ndarray, loss: Fields, data: Examples
) -> tuple[float, ndarray]:
    """Σ over records of ‖what they add to n times the gradient‖², and the gradient as the flat weights lie.

    It is the mean over n examples, or over people of the mean over their own. All that a person has stands in one part
    of about 500 examples.
    """
    import torch

    model = network.double().eval()
    loss_of = _loss(loss)

    def of_one(flat: Any, x: Any, y: Any) -> Any:
        named = _named(model, flat)
        outputs = torch.func.functional_call(
            model, named, (x[None],)
        )
        return loss_of(outputs.reshape(-1), y)

    gradient = torch.func.grad(of_one)
    of_each = torch.func.vmap(gradient, in_dims=(None, 0, 0))
    flat = torch.from_numpy(weights)
    whole = 0.0
    added = torch.zeros_like(flat)
    parts = np.unique(data.starts[:-1] // _PART, return_index=True)[
        1
    ]
    for records in np.split(np.arange(data.count), parts[1:]):
        x, y, of = data.of(records)
        owner = torch.from_numpy(of)
        sizes = torch.bincount(owner)
        share = len(data.inputs) / data.count / sizes[owner]
        rows = of_each(flat, x.double(), y) * share[:, None]
        own = rows.new_zeros(len(sizes), len(weights))
        own.index_add_(0, owner, rows)
        whole += float(own.square().sum())
        added += own.sum(dim=0)
    return whole, (added / len(data.inputs)).numpy()


def _named(network: Any, weights: Any) -> dict[str, Any]:
    """The parameters of the network from flat weights; those of a linear layer lie input by input."""
    import torch

    named = dict(network.named_parameters())
    sizes = [own.numel() for own in named.values()]
    same("the number of weights", len(weights), sum(sizes))
    for (name, own), piece in zip(
        named.items(), weights.split(sizes), strict=True
    ):
        layer, _, kind = name.rpartition(".")
        named[name] = piece.reshape(own.shape)
        layer = network.get_submodule(layer)
        if type(layer) is torch.nn.Linear and kind == "weight":
            named[name] = piece.reshape(own.shape[::-1]).T
    return named


def _loss(said: Fields) -> Any:
    """The bounded cross-entropy, -ln(e^-L + (1 - K e^-L) p), of one example's outputs ("Bounded cross-entropy")."""
    import torch

    high = float(said.high)
    if said.name != f"bounded-cross-entropy(max={high:g})":
        raise Unchecked(f"the loss {said.name} is not known here")

    def loss(outputs: Any, label: Any) -> Any:
        if len(outputs) == 1:  # of two classes: it, and nothing
            outputs = torch.stack(
                [torch.zeros_like(outputs[0]), outputs[0]]
            )
        least = exp(-high)
        p = outputs.softmax(0).gather(0, label[None])[0]
        return -torch.log(least + (1 - len(outputs) * least) * p)

    return loss
