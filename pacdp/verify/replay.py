"""Steps taken again: what the records added to kept steps of a chain, and the noise that entered with it.

A chain that keeps norms keeps its state before and after some steps. With the data and the network the gradients of all
records are taken again at such a state, by torch alone, and

- their squared norms must add up to the number that was kept: those of sampled records only, or of what momentum made
  of them, do not;
- what remains of the move, less the gradient's part, must have the mean square that the settings say, d numbers within
  six standard deviations of a chi-square: noise that is 10% smaller shows where the steps move some thousand numbers.

The noise is not drawn again, so that nothing is taken from the generator that drew it.
"""

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from pacdp.verify.claim import CANNOT, Statement, Unchecked, Wrong, judged
from pacdp.verify.files import Stored

_PART = 500
_FEWEST = 2000
"""Numbers whose mean square lies within 19% of its law's, that of noise 10% off, at six standard deviations."""


def replay(stored: Stored, network: Any, inputs: Any, labels: Any, people: Any = None) -> list[Statement]:
    """Statements on the steps that the checkpoint keeps; none where it keeps no norms."""
    if "trace.squared_norms" not in stored.tensors:
        return []
    subject, s = "replay", stored.header["sampler"]
    if not s.get("every_record", False) or s.get("clip_norm") is not None:
        return [Statement(subject, "norms", CANNOT, "batches are drawn by a generator that this checker does not have")]
    steps = sorted(int(name.split(".")[2]) for name in stored.tensors if name.endswith(".weights") and ".kept." in name)
    kept = [step for step in steps if step + 1 in steps and (step + 1 & step) == 0]
    moved: list[np.ndarray] = []

    def norms() -> None:
        count, known = (
            (stored.header.get("people") or {}).get("count"),
            None if people is None else np.unique(people).size,
        )
        if count is not None and known is None:
            raise Unchecked("norms are of people, and the data do not say whose the examples are")
        if known != count:
            raise Wrong(f"norms of {count or 'no'} people were kept, and the data name {known}")
        if not kept or kept[0] != 0:
            raise Wrong("the checkpoint keeps no first step")
        each = s.get("inner_steps", 1) if s["kind"] == "EntropySGD" else 1
        said = _array(stored, "squared_norms")
        for step in kept:
            found, gradient = _gradients(stored, network, inputs, labels, people, step)
            moved.extend(_noise(stored, gradient, step))
            if not found * (1 - 1e-5) <= said[step * each] <= found * (1 + 1e-3):
                raise Wrong(f"norms of {said[step * each]} were kept at step {step}, and all records add {found}")

    def noise() -> None:
        if s["kind"] == "EntropySGD":
            raise Unchecked("inner steps are not kept, the noise that entered there cannot be told from outer noise")
        size, square = sum(map(len, moved)), sum(float(one @ one) for one in moved)
        if not abs(square / max(1, size) - 1) <= 6 * math.sqrt(2 / max(1, size)):
            raise Wrong(f"what {size} numbers moved beside the gradient has {square / size} times the noise's variance")
        if size < _FEWEST:
            raise Unchecked(f"{size} numbers do not tell noise from noise that is 10% smaller")

    return [judged(subject, f"norms of steps {', '.join(map(str, kept))}", norms), judged(subject, "noise", noise)]


def _array(stored: Stored, name: str) -> np.ndarray:
    kind, shape, content = stored.tensors[f"trace.{name}"]
    return np.frombuffer(content, kind).reshape(shape).astype(np.float64)


def _gradients(
    stored: Stored, network: Any, inputs: Any, labels: Any, people: Any, step: int
) -> tuple[float, np.ndarray]:
    """Σ over records of ‖what they add to n times the gradient‖², and the gradient as the flat weights lie.

    It is the mean over n examples, or over people of the mean over their own.
    """
    import torch

    flat, named, at = torch.from_numpy(_array(stored, f"kept.{step}.weights").copy()), {}, 0
    linear = {f"{name}.weight" for name, layer in network.named_modules() if type(layer) is torch.nn.Linear}
    for name, own in network.named_parameters():
        piece = flat[at : at + own.numel()]
        # the weights of a linear layer lie input by input
        named[name] = piece.reshape(own.shape[::-1]).T if name in linear else piece.reshape(own.shape)
        at += own.numel()
    if at != len(flat):
        raise Wrong(f"the network has {at} weights, and the checkpoint {len(flat)}")
    loss, model = _loss(stored.header["loss"]), network.double().eval()

    def of_one(own: Mapping[str, Any], x: Any, y: Any) -> Any:
        return loss(torch.func.functional_call(model, dict(own), (x[None],)).reshape(-1), y)

    each, whole, added = torch.func.vmap(torch.func.grad(of_one), in_dims=(None, 0, 0)), 0.0, None
    given = [torch.from_numpy(np.array(one)) for one in (inputs, labels)]
    owners = len(inputs) if people is None else np.unique(np.asarray(people)).size
    for places, owner in _parts(len(inputs), people):
        x, y = (one[places] for one in given)
        rows, sizes = each(named, x.double(), y), torch.bincount(owner)
        share = (len(inputs) / owners / sizes)[owner]
        rows = {name: one * share.reshape(-1, *[1] * (one.ndim - 1)) for name, one in rows.items()}
        for one in rows.values():
            own = torch.zeros(len(sizes), one[0].numel(), dtype=torch.float64).index_add_(0, owner, one.flatten(1))
            whole += float(own.square().sum())
        sums = [rows[name].sum(dim=0).T.reshape(-1) if name in linear else rows[name].sum(dim=0).reshape(-1)
                for name in named]  # fmt: skip
        added = torch.cat(sums) + (0.0 if added is None else added)
    assert added is not None
    return whole, (added / len(inputs)).numpy()


def _parts(n: int, people: Any) -> Iterator[tuple[Any, Any]]:
    """Examples by the hundred and the record of each, counted from 0; all that a person has stands in one part."""
    import torch

    owner = np.arange(n) if people is None else np.unique(np.asarray(people), return_inverse=True)[1].ravel()
    order, start = np.argsort(owner, kind="stable"), 0
    while start < n:
        own = owner[order[start : start + _PART + 1]]
        stop = min(n, start + _PART)
        if stop < n and own[-1] == own[-2]:  # the part would end inside a person
            first = start + int(np.searchsorted(own, own[-1]))
            stop = first if first > start else int(np.searchsorted(owner[order], own[-1], side="right"))
        places = order[start:stop]
        yield torch.from_numpy(places), torch.from_numpy(owner[places] - owner[places[0]])
        start = stop


def _loss(said: Mapping[str, Any]) -> Any:
    """The bounded cross-entropy, -ln(e^-L + (1 - K e^-L) p), of one example's outputs."""
    import torch

    high = float(said["high"])
    if said["name"] != f"bounded-cross-entropy(max={high:g})":
        raise Unchecked(f"the loss {said['name']} is not known here")

    def loss(outputs: Any, label: Any) -> Any:
        if len(outputs) == 1:
            p, classes = torch.sigmoid(torch.where(label == 1, outputs[0], -outputs[0])), 2
        else:
            p, classes = outputs.softmax(0).gather(0, label[None])[0], len(outputs)
        return -torch.log(math.exp(-high) + (1 - classes * math.exp(-high)) * p)

    return loss


def _noise(stored: Stored, gradient: np.ndarray, step: int) -> Iterator[np.ndarray]:
    """What the step moved beside its gradient, over the deviation that the settings say."""
    s, t = stored.header["sampler"], step + 1
    if s["kind"] == "EntropySGD":
        return
    rate, tau = s["step_size"] * t ** -s["decay"], s["tau"] * t ** s.get("cooling", 0.0)
    before, after = (_array(stored, f"kept.{at}.weights") for at in (step, t))
    pull, friction = rate / (tau * s["base_std"] ** 2), s.get("friction", 1.0)
    moved = after - before + rate * gradient + pull * before
    if s["kind"] == "SGHMC":
        was, now = (_array(stored, f"kept.{at}.velocity") for at in (step, t))
        moved = now - (1 - friction) * was + rate * gradient + pull * before
    yield moved / math.sqrt(2 * friction * rate / tau)
