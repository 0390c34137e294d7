"""The network, the data and the loss of an audit with canaries; :mod:`pacdp.audit.canaries` says what they are for."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.utils.data import Dataset, TensorDataset

from pacdp.algorithms.algorithm import Algorithm
from pacdp.audit.observed import Planned, of_length
from pacdp.loop import train
from pacdp.losses import PerExampleLoss
from pacdp.step.clip import Weights
from pacdp.step.units import size, take

_MARKS = 2


class CanaryNetwork(nn.Module):
    """``inner`` with a slot for every canary; see :func:`canary_dataset` for its inputs.

    The outputs are those of ``inner``, shape (batch, outputs), then the slot's output, then 1 for canaries, else 0.
    """

    def __init__(self, inner: nn.Module, *, canaries: int, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.inner, self.shape = inner, shape
        like = next(inner.parameters())
        self.slots = nn.Linear(canaries, 1, bias=False, dtype=like.dtype, device=like.device)
        nn.init.zeros_(self.slots.weight)

    def forward(self, inputs: Tensor) -> Tensor:
        """Outputs and marks."""
        outputs = self.inner(inputs[:, :-1].unflatten(1, self.shape))
        if outputs.dim() != 2:
            raise ValueError(
                f"the audited network must give (batch, outputs), got shape {tuple(outputs.shape)}"
            )
        codes = inputs[:, -1].round()
        slots = torch.arange(1, self.slots.in_features + 1, device=codes.device)
        chosen = (codes[:, None] == slots).to(outputs.dtype)
        return torch.cat([outputs, self.slots(chosen), (codes > 0).to(outputs.dtype)[:, None]], 1)


@dataclass(slots=True, kw_only=True)
class Recorder:
    """What the trainer releases on the canaries' coordinates, and the sign of the step to come."""

    signs: Float[np.ndarray, " steps"]
    each: int = 1
    """Sums that a step releases."""
    released: list[np.ndarray] = field(default_factory=list)

    @property
    def sign(self) -> float:
        """s_t of the step under way: its losses are asked for before anything of it is released."""
        return float(self.signs[min(len(self.released) // self.each, len(self.signs) - 1)])

    def record(self, released: Weights) -> None:
        """Keep what was released of the canaries' coordinates."""
        self.released.append(
            released["slots.weight"].detach().double().reshape(-1).cpu().numpy().copy()
        )


def canary_dataset(
    dataset: Dataset[Any], included: Bool[np.ndarray, " canaries"], *, records: int = 1
) -> TensorDataset:
    """The examples flat, with a last column 0, and after them the included canaries: zeros, with i + 1 there.

    Args:
        records: of each canary.
    """
    inputs, targets = take(dataset, torch.arange(size(dataset)))
    codes = torch.from_numpy(np.flatnonzero(included) + 1).to(inputs).repeat_interleave(records)
    flat = torch.cat([inputs.flatten(1), inputs.new_zeros(len(inputs), 1)], 1)
    extra = torch.cat([inputs.new_zeros(len(codes), flat.shape[1] - 1), codes[:, None]], 1)
    unused = targets[:1].expand(len(codes), *targets.shape[1:])
    return TensorDataset(torch.cat([flat, extra]), torch.cat([targets, unused]))


def canary_loss(loss: PerExampleLoss, recorder: Recorder, scale: float) -> PerExampleLoss:
    """``loss`` on examples; s_t·scale times the slot's output on canaries."""

    def per_example(outputs: Tensor, targets: Tensor) -> Tensor:
        slot, is_canary = outputs[:, -_MARKS], outputs[:, -1].detach() > 0.5
        return torch.where(
            is_canary, recorder.sign * scale * slot, loss(outputs[:, :-_MARKS], targets)
        )

    return per_example


def gain_of(
    algorithm: Algorithm,
    module: nn.Module,
    dataset: Dataset[Any],
    loss: PerExampleLoss,
    shape: tuple[int, ...],
    records: int,
) -> float:
    """What a canary contributes over the gradient of one of its records, with its sign.

    A step without noise on all units and one canary, whose loss is too small to be clipped, says so.
    """
    recorder, small = Recorder(signs=np.ones(1)), 1e-3 * algorithm.mechanism.clip_norm
    train(
        of_length(algorithm, 1),
        CanaryNetwork(module, canaries=1, shape=shape),
        canary_dataset(dataset, np.ones(1, dtype=bool), records=records),
        loss=canary_loss(loss, recorder, small),
        people=with_canaries(torch.zeros(size(dataset), dtype=torch.int64), 1, records),
        randomness=Planned([None]),
        watch=recorder.record,
    )
    gain = float(recorder.released[0][0]) / small
    if not abs(gain) > 0.0:
        raise ValueError(
            f"{type(algorithm).__name__} adds nothing of a canary to its sums: it cannot be audited so"
        )
    return gain


def with_canaries(people: Tensor, canaries: int, records: int) -> Tensor:
    """The people of the data, and after them as many canaries, each with so many records."""
    own = torch.arange(canaries).repeat_interleave(records) + people.max() + 1
    return torch.cat([people, own.to(people)])
