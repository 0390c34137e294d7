"""A network that is there already, certified without labels of its own: by another one with a certificate.

R(f) ≤ R(h) + P(f ≠ h) ("Untouched networks" in docs/guarantees.md): f may have learnt from every labelled record, h is
the network that is certified on them, and examples that neither saw say how often they differ.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

import bounds
from bounds.hypotheses import Hypothesis, declared, proved
from pacdp.certify.batches import bound_set
from pacdp.certify.evidence import Settings, rows_of, summaries
from pacdp.certify.examples import BoundSet, Device
from pacdp.certify.outputs import classes_of, error_share
from pacdp.certify.reading import Function, Network, Reading
from pacdp.data.errors import DataError
from pacdp.data.row_checks import require_plain
from pacdp.data.rows import Rows
from pacdp.losses import in_error
from pacdp.predictions.report import Measured, Report
from pacdp.trials.buffers import Holdings

SEEN = "neither network saw the unlabelled rows"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Surrogate:
    """A network with a certificate, by which another one is certified.

    Attributes:
        network: any function from inputs to one row of logits an example.
        certificate: of its 0-1 risk.
        saw: all data that it depends on, or their rows, by what to call them.
    """

    network: Function
    certificate: bounds.Certificate
    saw: Mapping[str, Any]

    def __post_init__(self) -> None:
        if not self.saw:
            raise ValueError(
                "Surrogate.saw must name the rows that the surrogate depends on, got none: give their Dataset.rows()"
            )


def disagreement(
    law: Network,
    data: Any,
    surrogate: Surrogate,
    settings: Settings,
    *,
    seen: Any,
    failure_prob: float,
    device: Device,
) -> Report:
    """A network as it is by another one, from examples without labels that neither saw.

    Formal guarantee: that of :func:`bounds.disagreement`. ``failure_prob`` pays for the surrogate's certificate, and
    with what is left for the count of differences.

    Raises:
        DataError: unlabelled rows that either network saw, or that repeat each other.
        ValueError: outputs of other classes, people among the rows, or a certificate that leaves nothing for the count.
    """
    if law.scores:
        raise ValueError(
            "Network.scores goes without a surrogate, whose classes are told by logits: give logits"
        )
    spent = surrogate.certificate.failure_prob
    own = (failure_prob - spent) * (1.0 - 1e-13)  # so that the sum of both, rounded up, is no more
    if own <= 0.0:
        raise ValueError(
            f"failure_prob must pay for the surrogate's certificate, which fails with "
            f"{spent:g}, and for the count of differences, got {failure_prob:g}: certify "
            "the surrogate at half of it"
        )
    if isinstance(data, Tensor):
        data = BoundSet(inputs=data, labels=torch.zeros(len(data), dtype=torch.int64))
    found = bound_set(data)
    if found.people is not None:
        raise ValueError(
            "data of a certificate by a surrogate must be independent examples, and these are of people: give one "
            "example of each, without people"
        )
    saw = {name: rows_of(one, f"saw[{name!r}]") for name, one in surrogate.saw.items()}
    known = saw if seen is None else {**saw, "the network's rows": rows_of(seen, "seen")}
    fresh = _unseen(found.rows, known, seen is not None)
    settings.standing(found)
    Holdings(law.network).require_none(
        found.inputs, hashes=found.rows.inputs, whose="the unlabelled"
    )
    other = Network(network=surrogate.network, batch_size=2**30)
    outputs = (Reading(law=one, device=device).outputs(found.inputs) for one in (law, other))
    k = int(disagreements(*outputs).sum())
    made = bounds.disagreement(surrogate=surrogate.certificate, k=k, n=found.n, failure_prob=own)
    made = replace(made, of=law.of).resting_on(fresh)
    differ = Measured(of=law.of, on="bound", loss="differs from the surrogate", mean=error_share(k, found.n),
                      errors=k, n=found.n)  # fmt: skip
    details = {"surrogate_saw": {name: one.summary() for name, one in saw.items()}}
    return Report.of([made, differ], found, route="disagreement", failure_prob=made.failure_prob,
                     rows=summaries(found), details=details, choices={"count": settings.count})  # fmt: skip


def _unseen(rows: Rows, known: Mapping[str, Rows], both: bool) -> Hypothesis:
    """That none of these rows is among the known ones, whatever their labels; DataError where some are."""
    require_plain(rows, name="the unlabelled rows")
    for name, one in known.items():
        if shared := rows.shared_inputs(one):
            raise DataError(
                f"{shared} of the unlabelled rows are among {name}: give rows that were set aside by their place, "
                "because networks that learnt from a row agree there more often than on new ones."
            )
    listed = ", ".join(known)
    if both:
        return proved(SEEN, f"row hashes show that they are not among {listed}")
    said = f"the caller, for the network; row hashes show that they are not among {listed}"
    return declared(SEEN, said)


def disagreements(one: Tensor, other: Tensor) -> Any:
    """Where two networks do not give the same class by a largest output of their own: a tie or a NaN is a difference.

    Raises:
        ValueError: outputs of other numbers of classes.
    """
    counts = classes_of(one), classes_of(other)
    if counts[0] != counts[1]:
        raise ValueError(
            f"expected networks of the same classes, got {counts[0]} and {counts[1]} of the surrogate"
        )
    flat = other.ndim == 1 or other.shape[1] == 1
    answers = (other.reshape(-1) > 0).long() if flat else other.argmax(dim=1)
    return (in_error(one, answers) | in_error(other, answers)).numpy()
