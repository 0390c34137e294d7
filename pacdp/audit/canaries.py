"""Canaries for every private algorithm: examples, or people, whose gradient is a vector of the auditor's choice.

The audited network has one weight more for each canary, a linear layer that ordinary examples feed with zeros. Canary
i feeds it scale·e_i, and its loss is s_t times that layer's output, so that its gradient is s_t·scale·e_i: a Dirac in a
coordinate that no other example touches, clipped to s_t·C·e_i when scale > C. (Nasr et al. 2023, "Tight auditing of
differentially private machine learning"; Dirac canaries as in Steinke, Nasr and Jagielski 2023, section 6.) Everything
else is the trainer itself: its Poisson batches, its per-example gradients in any mode, its clipping, its noise.

After the noise the trainer hands over ỹ_t, the released gradient times the divisor, at step t. Two scores:

    linear             Σ_t s_t ỹ_t[i] / σ_t²
    likelihood ratio   Σ_t ln(1 - q + q exp((s_t ỹ_t[i]/C - 1/2)/σ_t²)),

the second the best there is if the mechanism is what it claims. The public signs s_t, as many + as -, cancel noise
that is used twice.

One run cannot tell a mechanism from one that is careless with all canaries at once with probability failure_prob, which
weakens every bound that holds for any mechanism. A trainer claims more: noise that is independent between coordinates.
Then the canaries, each in a coordinate of its own, are independent experiments, and counting those whose score exceeds
a fixed threshold gives error rates to hold against the trade-off function (Nasr et al. 2023). Here likelihood ratios
for half and a quarter of the noise serve as well, which find a fault of that size where the claim is large.
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float
from scipy.special import ndtri
from torch import Tensor, nn
from torch.utils.data import Dataset, TensorDataset

from bounds import _check, clopper_pearson_lower, clopper_pearson_upper
from bounds.accounting import Event, trade_off
from pacdp.algorithms.algorithm import Algorithm
from pacdp.audit.observed import Planned, Subject
from pacdp.audit.scores import AuditResult, audit_scores, contradicts
from pacdp.loop import PrivateRun, train
from pacdp.losses import PerExampleLoss
from pacdp.step.accountant import epsilon
from pacdp.step.clip import Weights
from pacdp.step.event import ADJACENCY, told_of
from pacdp.step.mechanism import Mechanism
from pacdp.step.noise import Randomness
from pacdp.step.units import size, take

_SCALE = 10.0
"""Raw norm of a canary's contribution over the clipping norm: above 1, so that the clipping is put to the test too."""
_RECORDS = 2
"""Of a canary that is a person."""
_PARTS = (1.0, 0.5, 0.25)
_NATS = (-2.0, -1.0, 0.0, 1.0, 2.0)
_THRESHOLDS = ((0.25, 0.5, 0.75, 1.0, 1.5), _NATS, _NATS, _NATS)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainerAudit:
    """An audited run beside what it claims."""

    result: AuditResult
    """See there for the formal guarantee."""
    event: Event
    """The mechanisms that the trainer says it ran."""
    claimed_epsilon: float
    """The Rényi accountant's, at the same delta."""
    independent_mu_lower: float
    """If besides the noise is independent between coordinates and the mechanism is μ-GDP, no larger than μ with
    probability at least 1 - failure_prob; 0 where nothing follows."""
    contradicted: bool
    """Whether ``epsilon_lower`` exceeds ``claimed_epsilon``, or the guesses or the independent error rates refute the
    event's trade-off function. A trainer that ran its event, with independent noise, is contradicted with
    probability at most 3 failure_prob."""


class ErrorRates(NamedTuple):
    """A test of "the canary is in" (or "is out") with confidence bounds on its rates."""

    false_positive_upper: float
    true_positive_lower: float


def audit_training(
    algorithm: Algorithm,
    module: nn.Module,
    dataset: Dataset[Any],
    *,
    mechanism: Mechanism,
    loss: PerExampleLoss,
    generator: np.random.Generator,
    delta: float,
    canaries: int = 1000,
    failure_prob: float = 0.05,
    randomness: Randomness | None = None,
    people: Tensor | None = None,
) -> TrainerAudit:
    """Train once with canaries among the data, and see what the released sums give away.

    Formal guarantee: that of :class:`pacdp.audit.scores.AuditResult` for the mechanism "all released gradients", which
    contains whatever the trainer publishes, under add-remove adjacency.

    Args:
        algorithm: settings of any trainer.
        mechanism: the public numbers of its run.
        module: its network, with outputs of shape (batch, outputs); it is not changed.
        dataset: (input, target) pairs of tensors; loaded into memory at once.
        loss: per-example losses of (outputs, targets), shape (batch,).
        generator: decides which canaries are in, and the signs. Independent of ``randomness``.
        delta: at which epsilon is claimed and bounded.
        canaries: m.
        failure_prob: of each bound.
        randomness: the trainer's; the operating system's generator by default.
        people: the person's number for each record, where people are the units: a canary is then one with two records.

    Raises:
        ValueError: no canary, or what ``train`` refuses.
    """
    _check.count(canaries=canaries)
    included = generator.random(canaries) < 0.5
    records = TensorDataset(*take(dataset, torch.arange(size(dataset))))
    subject = Subject(
        algorithm=algorithm,
        mechanism=mechanism,
        module=module,
        dataset=records,
        loss=loss,
        people=people,
    )
    copies = 1 if people is None else _RECORDS
    gain = 1.0 if algorithm.contribution is None else _gain_of(subject, copies)
    signs = generator.permutation(np.resize([1.0, -1.0], mechanism.steps))
    run, sums = canary_run(
        subject, included, signs=signs * math.copysign(1.0, gain),
        scale=_SCALE * mechanism.fixed_clip_norm / abs(gain), records=copies, randomness=randomness,
    )  # fmt: skip
    event, noises = run.event, [algorithm.noises(t, mechanism) for t in range(len(sums))]
    assert event is not None
    # one sum with the noise of all of them
    precision = np.maximum(noises, 1e-3)[:, :, None] ** -2.0
    released = (sums * precision).sum(1) / precision.sum(1) / mechanism.clip_norm
    noise = np.array([step.noise for step in told_of(event)])
    scores = canary_scores(released * signs[:, None], noise, mechanism.sample_rate)
    result = audit_scores(scores[:2], included, delta=delta, failure_prob=failure_prob)
    claimed = epsilon(event, delta=delta, adjacency=ADJACENCY)
    rates = error_rates(scores, included, failure_prob=failure_prob)
    found, false_alarms = np.transpose(ndtri([r[::-1] for r in rates]))
    return TrainerAudit(
        result=result,
        event=event,
        claimed_epsilon=claimed,
        independent_mu_lower=max(0.0, float((found - false_alarms).max())),
        contradicted=result.epsilon_lower > claimed
        or contradicts(result, event)
        or rates_refute(rates, event),
    )


class CanaryNetwork(nn.Module):
    """``inner`` with a slot for every canary.

    Its inputs are flat, with a last column that is 0 for examples and i + 1 for canary i. The outputs are those of
    ``inner``, shape (batch, outputs), zeros for canaries, and then the slot's output, zero for examples.
    """

    def __init__(self, inner: nn.Module, *, canaries: int, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.inner, self.shape = inner, shape
        like = next(inner.parameters())
        self.slots = nn.Linear(canaries, 1, bias=False, dtype=like.dtype, device=like.device)
        nn.init.zeros_(self.slots.weight)

    def forward(self, inputs: Tensor) -> Tensor:
        """Outputs and the slot's."""
        outputs = self.inner(inputs[:, :-1].unflatten(1, self.shape))
        if outputs.dim() != 2:
            raise ValueError(
                f"the audited network must give (batch, outputs), got shape {tuple(outputs.shape)}"
            )
        codes = inputs[:, -1:].round()
        slots = torch.arange(1, self.slots.in_features + 1, device=codes.device)
        chosen = (codes == slots).to(outputs.dtype)
        return torch.cat([outputs * (codes == 0), self.slots(chosen)], 1)


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

    These are zeros, and their loss is a constant and s_t·scale times their slot's output.

    Args:
        records: of each canary.

    Returns:
        The run, and what it released on the canaries' coordinates.
    """
    inputs, targets = subject.dataset.tensors
    codes = torch.from_numpy(np.flatnonzero(included) + 1).repeat_interleave(records)
    examples = torch.cat([inputs.flatten(1), inputs.new_zeros(len(inputs), 1)], 1)
    extra = examples.new_zeros(len(codes), examples.shape[1])
    extra[:, -1] = codes
    unused = targets[:1].expand(len(codes), *targets.shape[1:])
    data = TensorDataset(torch.cat([examples, extra]), torch.cat([targets, unused]))
    people, released = subject.people, list[Tensor]()
    releases = len(subject.algorithm.noises(0, subject.mechanism))

    def loss(outputs: Tensor, targets: Tensor) -> Tensor:
        """The sign is that of the step under way: its losses are asked for before anything of it is released."""
        sign = float(signs[min(len(released) // releases, len(signs) - 1)])
        return subject.loss(outputs[:, :-1], targets) + sign * scale * outputs[:, -1]

    def watch(sums: Weights) -> None:
        released.append(sums["slots.weight"].detach().double().reshape(-1).cpu().clone())

    run = train(
        subject.algorithm,
        CanaryNetwork(subject.module, canaries=len(included), shape=tuple(inputs.shape[1:])),
        data,
        mechanism=subject.mechanism,
        loss=loss,
        people=None if people is None else torch.cat([people, (codes + people.max()).to(people)]),
        randomness=randomness,
        watch=watch,
    )
    return run, torch.stack(released).view(-1, releases, len(included)).numpy()


def _gain_of(subject: Subject, records: int) -> float:
    """What a canary contributes over the gradient of one of its records, with its sign.

    A step without noise on all units and one canary, whose loss is too small to be clipped, says so.
    """
    small = 1e-3 * subject.mechanism.clip_norm
    _, released = canary_run(
        subject.lasting(1), np.ones(1, dtype=bool), signs=np.ones(1), scale=small, records=records,
        randomness=Planned([None]),
    )  # fmt: skip
    gain = released.item(0) / small
    if not abs(gain) > 0.0:
        kind = type(subject.algorithm).__name__
        raise ValueError(f"{kind} adds nothing of a canary to its sums: it cannot be audited so")
    return gain


def canary_scores(
    released: Float[np.ndarray, "steps canaries"],
    noise: Float[np.ndarray, " steps"],
    sample_rate: float,
) -> Float[np.ndarray, "4 canaries"]:
    """The linear score, and likelihood ratios for all, half and a quarter of the noise, from s_t ỹ_t/C and σ_t.

    The linear one is scaled so that an included canary's has expectation 1, another's 0.
    """
    sigma = np.maximum(noise, 1e-3)[:, None]
    precision = sigma**-2
    linear = (released * precision / precision.sum()).sum(0) / sample_rate
    with np.errstate(divide="ignore"):
        missed, came = np.log1p(-sample_rate), np.log(sample_rate)
    ratios = [
        np.logaddexp(missed, came + (released - 0.5) / (part * sigma) ** 2).sum(0)
        for part in _PARTS
    ]
    return np.stack([linear, *ratios])


def error_rates(
    scores: Float[np.ndarray, "4 canaries"],
    included: Bool[np.ndarray, " canaries"],
    *,
    failure_prob: float,
) -> list[ErrorRates]:
    """Bounds on the rates of "in above a threshold" and "out at or below it", at thresholds fixed beforehand.

    Formal guarantee: for independent canaries all hold at once with probability at least 1 - failure_prob (Clopper and
    Pearson 1934, and a union bound).

    Args:
        scores: of :func:`canary_scores`.
        included: whether each canary was in the data.
        failure_prob: of all bounds together.

    Raises:
        ValueError: no canary in, or none out.
    """
    inside, outside = scores[:, included], scores[:, ~included]
    if not (inside.size and outside.size):
        raise ValueError("both sorts of canaries are needed, got one only: take more canaries")
    share = failure_prob / (4 * sum(map(len, _THRESHOLDS)))

    def bounded(alarms: np.ndarray, found: np.ndarray) -> ErrorRates:
        most = clopper_pearson_upper(int(alarms.sum()), len(alarms), share)
        return ErrorRates(most, clopper_pearson_lower(int(found.sum()), len(found), share))

    return [
        rates
        for own, others, levels in zip(inside, outside, _THRESHOLDS, strict=True)
        for level in levels
        for rates in (bounded(others > level, own > level), bounded(own <= level, others <= level))
    ]


def rates_refute(rates: list[ErrorRates], event: Event) -> bool:
    """Whether some test is better than any test of ``event``'s output can be, add-remove."""
    false_positive, true_positive = zip(*rates, strict=True)
    missed = trade_off(event=event, adjacency=ADJACENCY, type_i=false_positive)
    return bool((np.array(true_positive) > 1.0 - np.array(missed)).any())
