"""The network, the data and the loss of an audit with canaries; :mod:`pacdp.audit.canaries` says what they are for."""

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from pacdp.audit.observed import Planned, Subject
from pacdp.loop import PrivateRun, train
from pacdp.step.clip import Weights
from pacdp.step.noise import Randomness

_MARKS = 2


class CanaryNetwork(nn.Module):
    """``inner`` with a slot for every canary.

    Its inputs are flat, with a last column that is 0 for examples and i + 1 for canary i. The outputs are those of
    ``inner``, shape (batch, outputs), then the slot's output, then 1 for canaries, else 0.
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


def canary_run(
    subject: Subject,
    included: Bool[np.ndarray, " canaries"],
    *,
    signs: Float[np.ndarray, " steps"],
    scale: float,
    records: int = 1,
    randomness: Randomness | None = None,
) -> tuple[PrivateRun, Float[np.ndarray, "steps releases canaries"]]:
    """Train on the examples, and after them the included canaries.

    These are zeros, and their loss is s_t·scale times their slot's output.

    Args:
        records: of each canary.

    Returns:
        The run, and what it released on the canaries' coordinates.
    """
    inputs, targets = subject.dataset.tensors
    codes = torch.from_numpy(np.flatnonzero(included) + 1).repeat_interleave(records)
    flat = torch.cat([inputs.flatten(1), inputs.new_zeros(len(inputs), 1)], 1)
    extra = inputs.new_zeros(len(codes), flat.shape[1])
    extra[:, -1] = codes
    unused = targets[:1].expand(len(codes), *targets.shape[1:])
    people, released = subject.people, list[Tensor]()
    releases = len(subject.algorithm.noises(0, subject.mechanism))

    def loss(outputs: Tensor, targets: Tensor) -> Tensor:
        """The sign is that of the step under way: its losses are asked for before anything of it is released."""
        sign = float(signs[min(len(released) // releases, len(signs) - 1)])
        slot, is_canary = outputs[:, -_MARKS], outputs[:, -1].detach() > 0.5
        return torch.where(
            is_canary, sign * scale * slot, subject.loss(outputs[:, :-_MARKS], targets)
        )

    def watch(sums: Weights) -> None:
        released.append(sums["slots.weight"].detach().double().reshape(-1).cpu().clone())

    run = train(
        subject.algorithm,
        CanaryNetwork(subject.module, canaries=len(included), shape=tuple(inputs.shape[1:])),
        TensorDataset(torch.cat([flat, extra]), torch.cat([targets, unused])),
        mechanism=subject.mechanism,
        loss=loss,
        people=None if people is None else torch.cat([people, (codes + people.max()).to(people)]),
        randomness=randomness,
        watch=watch,
    )
    return run, torch.stack(released).view(-1, releases, len(included)).numpy()


def gain_of(subject: Subject, records: int) -> float:
    """What a canary contributes over the gradient of one of its records, with its sign.

    A step without noise on all units and one canary, whose loss is too small to be clipped, says so.
    """
    small = 1e-3 * subject.mechanism.clip_norm
    _, released = canary_run(subject.lasting(1), np.ones(1, dtype=bool), signs=np.ones(1), scale=small,
                             records=records, randomness=Planned([None]))  # fmt: skip
    gain = float(released[0, 0, 0]) / small
    if not abs(gain) > 0.0:
        raise ValueError(
            f"{type(subject.algorithm).__name__} adds nothing of a canary to its sums: it cannot be audited so"
        )
    return gain
