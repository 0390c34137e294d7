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
from collections.abc import Iterator
from typing import Any

import numpy as np

from pacdp.verify.claim import CANNOT, Fields, Statement, Unchecked, Wrong, judged
from pacdp.verify.files import Stored

_PART = 500
_FEWEST = 2000
"""Numbers whose mean square lies within 19% of its law's, that of noise 10% off, at six standard deviations."""


def replay(stored: Stored, network: Any, inputs: Any, labels: Any, people: Any = None) -> list[Statement]:
    """Statements on the steps that the checkpoint keeps; none where it keeps no norms."""
    if "trace.squared_norms" not in stored.tensors:
        return []
    sampler = stored.header.sampler
    if not sampler.get("every_record", False) or sampler.get("clip_norm") is not None:
        why = "batches are drawn by a generator that this checker does not have"
        return [Statement("replay", "norms", CANNOT, why)]
    again = Replay(stored, _Records(network, inputs, labels, people))
    return [
        judged("replay", f"norms of steps {', '.join(map(str, again.kept))}", again.check_norms),
        judged("replay", "noise", again.check_noise),
    ]


class Replay:
    """A chain's kept steps, and the records that entered them.

    Attributes:
        kept: steps before and after which the state was kept: 0, 3, 15, 63, ...
        moved: what these steps moved beside the gradient, over the deviation that the settings say.
    """

    def __init__(self, stored: Stored, records: "_Records") -> None:
        self.stored, self.records = stored, records
        self.sampler = stored.header.sampler
        names = [name for name in stored.tensors if name.endswith(".weights") and ".kept." in name]
        steps = sorted(int(name.split(".")[2]) for name in names)
        self.kept = [step for step in steps if step + 1 in steps and (step + 1 & step) == 0]
        self.moved: list[np.ndarray] = []

    def check_norms(self) -> None:
        """The squared norms of all records' gradients add up to the number that was kept."""
        self._check_people()
        if not self.kept or self.kept[0] != 0:
            raise Wrong("the checkpoint keeps no first step")
        inner = 1
        if self.sampler.kind == "EntropySGD":
            inner = self.sampler.get("inner_steps", 1)
        norms = self.stored.traced("squared_norms")
        for step in self.kept:
            weights = self.stored.traced(f"kept.{step}.weights")
            found, gradient = self.records.gradients(weights, self.stored.header.loss)
            if self.sampler.kind != "EntropySGD":
                self.moved.append(self._noise(gradient, step))
            said = norms[step * inner]
            if not found * (1 - 1e-5) <= said <= found * (1 + 1e-3):
                raise Wrong(f"norms of {said} were kept at step {step}, and all records add {found}")

    def _check_people(self) -> None:
        count = (self.stored.header.get("people") or {}).get("count")
        known = self.records.count if self.records.grouped else None
        if count is not None and known is None:
            raise Unchecked("norms are of people, and the data do not say whose the examples are")
        if known != count:
            raise Wrong(f"norms of {count or 'no'} people were kept, and the data name {known}")

    def _noise(self, gradient: np.ndarray, step: int) -> np.ndarray:
        """What the step moved beside its gradient, over the deviation √(2κh/τ) that the settings say."""
        s, after = self.sampler, step + 1
        size = s.step_size * after**-s.decay
        heat = s.tau * after ** s.get("cooling", 0.0)
        friction = s.get("friction", 1.0)
        weights = self.stored.traced(f"kept.{step}.weights")
        if s.kind == "SGHMC":
            was, now = (self.stored.traced(f"kept.{at}.velocity") for at in (step, after))
            moved = now - (1 - friction) * was
        else:
            moved = self.stored.traced(f"kept.{after}.weights") - weights
        attraction = size / (heat * s.base_std**2)
        moved = moved + size * gradient + attraction * weights
        return moved / math.sqrt(2 * friction * size / heat)

    def check_noise(self) -> None:
        """Its mean square is within six standard deviations of a chi-square's."""
        if self.sampler.kind == "EntropySGD":
            raise Unchecked("inner steps are not kept, the noise that entered there cannot be told from outer noise")
        size = sum(map(len, self.moved))
        square = sum(float(one @ one) for one in self.moved)
        ratio = square / max(1, size)
        if not abs(ratio - 1) <= 6 * math.sqrt(2 / max(1, size)):
            raise Wrong(f"what {size} numbers moved beside the gradient has {ratio} times the noise's variance")
        if size < _FEWEST:
            raise Unchecked(f"{size} numbers do not tell noise from noise that is 10% smaller")


class _Records:
    """A network, and examples with the record of each."""

    def __init__(self, network: Any, inputs: Any, labels: Any, people: Any) -> None:
        self.network, self.inputs, self.labels = network, inputs, labels
        self.grouped = people is not None
        self.owner = np.arange(len(inputs))
        if self.grouped:
            self.owner = np.unique(np.asarray(people), return_inverse=True)[1].ravel()
        self.count = int(self.owner.max()) + 1

    def gradients(self, weights: np.ndarray, loss: Fields) -> tuple[float, np.ndarray]:
        """Σ over records of ‖what they add to n times the gradient‖², and the gradient as the flat weights lie.

        It is the mean over n examples, or over people of the mean over their own.
        """
        import torch

        named, one_by_one = self._named(weights), _gradient_of_one(self.network, loss)
        given = [torch.from_numpy(np.array(one)) for one in (self.inputs, self.labels)]
        whole, added = 0.0, torch.zeros(len(weights), dtype=torch.float64)
        for places, owner in _parts(self.owner):
            x, y = (one[places] for one in given)
            rows = self._flat(one_by_one(named, x.double(), y))
            sizes = torch.bincount(owner)
            share = len(self.inputs) / self.count / sizes[owner]
            rows = rows * share[:, None]
            own = torch.zeros(len(sizes), len(weights), dtype=torch.float64).index_add_(0, owner, rows)
            whole += float(own.square().sum())
            added += rows.sum(dim=0)
        return whole, (added / len(self.inputs)).numpy()

    def _linear(self) -> set[str]:
        """The weights of linear layers, which lie input by input."""
        import torch

        layers = self.network.named_modules()
        return {f"{name}.weight" for name, layer in layers if type(layer) is torch.nn.Linear}

    def _named(self, weights: np.ndarray) -> dict[str, Any]:
        """The parameters of the network from flat weights."""
        import torch

        flat, named, start = torch.from_numpy(weights.copy()), dict[str, Any](), 0
        for name, own in self.network.named_parameters():
            piece = flat[start : start + own.numel()]
            if name in self._linear():
                named[name] = piece.reshape(own.shape[::-1]).T
            else:
                named[name] = piece.reshape(own.shape)
            start += own.numel()
        if start != len(flat):
            raise Wrong(f"the network has {start} weights, and the checkpoint {len(flat)}")
        return named

    def _flat(self, gradients: dict[str, Any]) -> Any:
        """The gradient of each example, as flat weights lie."""
        import torch

        rows = list[Any]()
        for name, one in gradients.items():
            if name in self._linear():
                one = one.transpose(1, 2)
            rows.append(one.reshape(len(one), -1))
        return torch.cat(rows, dim=1)


def _gradient_of_one(network: Any, loss: Fields) -> Any:
    """A function that gives the gradient of every example's loss."""
    import torch

    model, loss_of = network.double().eval(), _loss(loss)

    def of_one(named: dict[str, Any], x: Any, y: Any) -> Any:
        outputs = torch.func.functional_call(model, named, (x[None],))
        return loss_of(outputs.reshape(-1), y)

    return torch.func.vmap(torch.func.grad(of_one), in_dims=(None, 0, 0))


def _parts(owner: np.ndarray) -> Iterator[tuple[Any, Any]]:
    """Examples by the hundred and the record of each, counted from 0; all that a person has stands in one part."""
    import torch

    order, start = np.argsort(owner, kind="stable"), 0
    owner = owner[order]
    while start < len(owner):
        stop = min(len(owner), start + _PART)
        last = owner[stop - 1]
        if stop < len(owner) and last == owner[stop]:  # the part would end inside a person
            stop = int(np.searchsorted(owner, last))
            if stop <= start:
                stop = int(np.searchsorted(owner, last, side="right"))
        own = owner[start:stop] - owner[start]
        yield torch.from_numpy(order[start:stop]), torch.from_numpy(own)
        start = stop


def _loss(said: Fields) -> Any:
    """The bounded cross-entropy, -ln(e^-L + (1 - K e^-L) p), of one example's outputs ("Bounded cross-entropy")."""
    import torch

    high = float(said.high)
    if said.name != f"bounded-cross-entropy(max={high:g})":
        raise Unchecked(f"the loss {said.name} is not known here")

    def loss(outputs: Any, label: Any) -> Any:
        if len(outputs) == 1:
            signed = torch.where(label == 1, outputs[0], -outputs[0])
            p, classes = torch.sigmoid(signed), 2
        else:
            p = outputs.softmax(0).gather(0, label[None])[0]
            classes = len(outputs)
        least = math.exp(-high)
        return -torch.log(least + (1 - classes * least) * p)

    return loss
