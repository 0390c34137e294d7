"""The patient as the unit of privacy: records by patient, what each adds to a sum, what such sums cost.

A patient's contribution is a function of the public weights and of that patient's records alone, whoever else is in the
batch. Under ``torch.func.vmap`` patients with fewer records are padded: inside a batch that has records with copies of
its first one at weight zero, which add exact zeros unless that record itself is not finite, and at the end with whole
batches that are computed and thrown away.
"""

import math
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.func import vmap
from torch.utils._pytree import tree_map
from torch.utils.data import Dataset

from bounds import accounting
from pacdp.plain import call_with
from pacdp.private.clipping import clip_factors, drop, joint_norms, row_norms
from pacdp.private.independence import PerExampleLoss
from pacdp.private.loader import size, take
from pacdp.samplers.types import require_fraction, require_positive
from pacdp.step.noise import Randomness, add_noise

Weights = dict[str, Tensor]
ADJACENCY = "add-remove"


class Network(NamedTuple):
    """A module and its loss as a function of the trainable weights."""

    module: nn.Module
    fixed: Weights
    """Buffers and frozen parameters."""
    loss: PerExampleLoss

    def losses(self, weights: Weights, inputs: Tensor, targets: Tensor) -> Float[Tensor, " records"]:
        """One loss for each record."""
        return self.loss(call_with(self.module, {**self.fixed, **weights}, inputs), targets)


class PatientBatch(NamedTuple):
    """The records of some patients, cut into batches of equal width."""

    inputs: Tensor
    """(patients, batches, width, ...)."""
    targets: Tensor
    """(patients, batches, width, ...)."""
    kept: Float[Tensor, "patients batches width"]
    """1 for a record, 0 for padding."""


PatientFunction = Callable[[Network, Weights, Tensor, Tensor, Tensor], Any]
"""Of a network, weights, and inputs, targets, kept of one patient, without the first dimension."""


@dataclass(frozen=True, slots=True, eq=False)
class PatientData:
    """A data set of (input, target) pairs and the record indices of each patient."""

    dataset: Dataset[Any]
    records: tuple[Tensor, ...]

    @classmethod
    def group(cls, dataset: Dataset[Any], patient_of: Tensor) -> "PatientData":
        """Patients in the order of their numbers, records in the order of the data set.

        Args:
            patient_of: the patient's number for each record, (records,), integers.

        Raises:
            ValueError: not one whole number a record.
        """
        n = size(dataset)
        if patient_of.dim() != 1 or len(patient_of) != n or patient_of.is_floating_point():
            raise ValueError(
                f"patient_of must hold a whole number for each of the {n} records, got shape "
                f"{tuple(patient_of.shape)} of {patient_of.dtype}"
            )
        _, inverse, counts = torch.unique(patient_of.cpu(), return_inverse=True, return_counts=True)
        order = torch.argsort(inverse, stable=True)
        return cls(dataset, tuple(torch.split(order, counts.tolist())))

    def batch(self, patients: list[int], width: int | None, device: torch.device) -> PatientBatch:
        """All records of these patients (at least one), ``width`` at a time; all at once by default."""
        lengths = torch.tensor([len(self.records[i]) for i in patients])
        width = int(lengths.max()) if width is None else width
        batches = math.ceil(int(lengths.max()) / width)
        places = torch.arange(batches * width).view(1, batches, width)
        kept = places < lengths.view(-1, 1, 1)
        first = places[:, :, :1].expand_as(places)
        filled = torch.where(kept, places, torch.where(first < lengths.view(-1, 1, 1), first, 0))
        indices = torch.stack([self.records[i][row] for i, row in zip(patients, filled, strict=True)])
        inputs, targets = (x.to(device) for x in take(self.dataset, indices.reshape(-1)))
        shaped = [x.reshape(*indices.shape, *x.shape[1:]) for x in (inputs, targets)]
        return PatientBatch(shaped[0], shaped[1], kept.to(device=device, dtype=_real(shaped[0])))


def each_patient(
    function: PatientFunction, network: Network, weights: Weights, batch: PatientBatch, *, vectorised: bool
) -> Any:
    """``function`` of every patient of the batch, stacked; in one pass if ``vectorised``."""

    def one(inputs: Tensor, targets: Tensor, kept: Tensor) -> Any:
        return function(network, weights, inputs, targets, kept)

    if vectorised:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="There is a performance drop")
            return vmap(one, randomness="different")(*batch)
    rows = [one(*(x[i] for x in batch)) for i in range(len(batch.kept))]
    return tree_map(lambda *leaves: torch.stack(leaves), *rows)


def mean_loss(network: Network, weights: Weights, inputs: Tensor, targets: Tensor, kept: Tensor) -> Tensor:
    """Mean loss of one patient's records; a :data:`PatientFunction`."""
    parts = zip(inputs.unbind(), targets.unbind(), kept.unbind(), strict=True)
    total = sum(torch.where(k > 0.0, network.losses(weights, x, y), 0.0).sum() for x, y, k in parts)
    return total / kept.sum()


class ClippedSum(NamedTuple):
    """What a group of patients adds up to."""

    total: Weights
    nonfinite: int
    """Patients that were dropped; private."""


def clipped_sum(contributions: Weights, clip_norm: float) -> ClippedSum:
    """Σ_i clip_C(Δ_i) over the patients, the first dimension of every entry; norms are over all entries together.

    Formal guarantee: adding or removing one patient moves the sum by at most ``clip_norm`` in Euclidean norm, replacing
    all records of one patient by at most twice that, whatever the records: a contribution that is NaN or infinite
    counts as zero. Up to the rounding of the sum.
    """
    rows = {k: r if r.dtype in (torch.float32, torch.float64) else r.float() for k, r in contributions.items()}
    coarsest = torch.float32 if any(r.dtype == torch.float32 for r in rows.values()) else torch.float64
    factors, finite = clip_factors(joint_norms([row_norms(r) for r in rows.values()]), clip_norm, coarsest)
    total = {
        k: torch.einsum("i,i...->...", factors.to(device=r.device, dtype=r.dtype), drop(r, finite.to(r.device)))
        for k, r in rows.items()
    }
    return ClippedSum(total, int((~finite).sum()))


def noised(total: Weights, std: float, randomness: Randomness) -> Weights:
    """The sum with independent N(0, std²) on every coordinate."""
    return {k: add_noise(s, std=std, randomness=randomness) for k, s in total.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class PatientMechanism:
    """The public numbers of a patient-level run."""

    clip_norm: float
    """C, the norm to which each patient's contribution is clipped."""
    sample_rate: float
    """q, the probability with which a patient takes part in a step."""
    expected_patients: float
    """The divisor of every clipped sum: a public constant, such as q times a rough number of patients."""
    steps: int
    max_physical_patients: int | None = None
    """So many patients at a time, for memory's sake; changes rounding only."""
    vectorise: bool = True
    """Run patients side by side where the network allows it; otherwise one after the other."""

    def __post_init__(self) -> None:
        for name, value in (("clip_norm", self.clip_norm), ("expected_patients", self.expected_patients)):
            if not (math.isfinite(value) and value > 0.0):
                raise ValueError(f"expected {name} > 0 and finite, got {value}")
        require_positive(steps=self.steps)
        require_fraction(sample_rate=self.sample_rate)
        if self.max_physical_patients is not None:
            require_positive(max_physical_patients=self.max_physical_patients)


class PatientSteps(NamedTuple):
    """Equal steps in a row: a Gaussian sum and, on the same sample of patients, a selection."""

    noise_multiplier: float
    sample_rate: float
    selection_epsilon: float
    """Of the exponential mechanism that looks at the same sample; 0 for none."""
    steps: int

    @property
    def event(self) -> accounting.Event:
        """For :mod:`bounds.accounting`; the record is a patient."""
        if self.noise_multiplier == 0.0:
            return accounting.NonPrivate()
        inner: accounting.Event = accounting.Gaussian(noise_multiplier=self.noise_multiplier)
        if self.selection_epsilon > 0.0:
            chosen = accounting.ExponentialMechanism(epsilon=self.selection_epsilon, adjacency=ADJACENCY)
            inner = accounting.Composed(events=(inner, chosen))
        sampled = accounting.PoissonSampled(sample_rate=self.sample_rate, event=inner)
        return accounting.SelfComposed(event=sampled, count=self.steps)


@dataclass(frozen=True, slots=True, kw_only=True)
class PatientHistory:
    """What ran, in order. Neighbours differ by one patient, with all of the patient's records, more or less."""

    runs: tuple[PatientSteps, ...] = ()
    adjacency: Literal["add-remove"] = ADJACENCY

    @property
    def steps(self) -> int:
        """Number of steps."""
        return sum(run.steps for run in self.runs)

    @property
    def event(self) -> accounting.Event:
        """All steps, for :mod:`bounds.accounting`. Raises ValueError when there are none."""
        return accounting.Composed(events=tuple(run.event for run in self.runs))

    def epsilon(self, delta: float) -> accounting.PrivacyBound:
        """Epsilon at a delta; ``upper`` is the number to report. Raises ValueError when there are no steps."""
        return accounting.privacy_epsilon(event=self.event, delta=delta, adjacency=self.adjacency)

    def followed_by(self, other: "PatientHistory") -> "PatientHistory":
        """Both, one after the other, on the same patients."""
        return PatientHistory(runs=merged((*self.runs, *other.runs)))


def merged(runs: Iterable[PatientSteps]) -> tuple[PatientSteps, ...]:
    """The same steps, with equal neighbours counted together."""
    out: list[PatientSteps] = []
    for run in runs:
        if out and out[-1][:3] == run[:3]:
            out[-1] = out[-1]._replace(steps=out[-1].steps + run.steps)
        else:
            out.append(run)
    return tuple(out)


def _real(inputs: Tensor) -> torch.dtype:
    return inputs.dtype if inputs.is_floating_point() else torch.get_default_dtype()
