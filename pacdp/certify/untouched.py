"""A network that is there already, certified without labels of its own: by another one with a certificate.

R(f) ≤ R(h) + P(f ≠ h) ("Untouched networks" in docs/guarantees.md): f may have learnt from every labelled record, h is
the network that is certified on them, and examples that neither saw say how often they differ.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

import bounds
from bounds.hypotheses import Hypothesis, declared, proved
from pacdp.certify.assessment import Assessment, Measured
from pacdp.certify.evidence import rows_of
from pacdp.certify.examples import BoundSet
from pacdp.certify.networks import Function, classes_of, error_share, outputs_of
from pacdp.data import Dataset
from pacdp.data.errors import DataError
from pacdp.data.row_checks import require_plain
from pacdp.data.rows import Rows
from pacdp.losses import in_error

SEEN = "neither network saw the unlabelled rows"


def certify_untouched(
    network: Function,
    unlabelled: Tensor | Dataset,
    *,
    surrogate: Function,
    certificate: bounds.Certificate,
    saw: Mapping[str, Any],
    failure_prob: float,
    network_saw: Any = None,
) -> Assessment:
    """Certify a network as it is by another one, from examples without labels that neither saw.

    Formal guarantee: that of :func:`bounds.disagreement`.

    Args:
        network: the network, in eval mode, or any function from inputs to one row of logits an example.
        unlabelled: inputs, or a data set whose labels are not looked at.
        surrogate: the other network.
        certificate: of the other network's 0-1 risk.
        saw: all data that the other network depends on, or their rows, by what to call them; that the unlabelled rows
            are others is proved.
        failure_prob: of the count of differences alone; the certificate's own comes on top.
        network_saw: the data that the network depends on, or their rows. Without them the caller vouches that the
            unlabelled rows are not among these.

    Raises:
        DataError: unlabelled rows that either network saw, or that repeat each other.
        ValueError: outputs of other classes, people among the rows, or nothing that the other network saw.
    """
    if isinstance(unlabelled, Dataset) and unlabelled.people is not None:
        raise ValueError(f"unlabelled must be independent examples, and those of {unlabelled.name} are of people: give "
                         "one example of each, without people")  # fmt: skip
    if not saw:
        raise ValueError(
            "saw must name the rows that the surrogate depends on, got none: give their Dataset.rows()"
        )
    inputs = torch.tensor(unlabelled.inputs) if isinstance(unlabelled, Dataset) else unlabelled
    data = BoundSet(inputs=inputs, labels=torch.zeros(len(inputs), dtype=torch.int64))
    saw = {name: rows_of(one, f"saw[{name!r}]") for name, one in saw.items()}
    known = {
        **saw,
        **(
            {}
            if network_saw is None
            else {"the network's rows": rows_of(network_saw, "network_saw")}
        ),
    }
    fresh = _unseen(data.rows, known, network_saw is not None)
    different = disagreements(
        outputs_of(network, inputs), outputs_of(surrogate, inputs, batch_size=2**30)
    )
    k = int(different.sum())
    made = bounds.disagreement(
        surrogate=certificate, k=k, n=data.n, failure_prob=failure_prob
    ).resting_on(fresh)
    differ = Measured(of=made.of, on="bound", loss="differs from the surrogate", mean=error_share(k, data.n), errors=k,
                      n=data.n)  # fmt: skip
    rows = {"bound": data.rows.summary(), "test": None, "prior": None}
    details = {"surrogate_saw": {name: one.summary() for name, one in saw.items()}}
    return Assessment.of([made, differ], data, route="disagreement", failure_prob=made.failure_prob, rows=rows,
                         details=details)  # fmt: skip


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
