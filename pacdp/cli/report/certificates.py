"""Certificates as rows of tables: values, hypotheses, ledger of failure probabilities, costs."""

import math
from collections.abc import Sequence
from typing import Any

from bounds import Certificate
from bounds.hypotheses import UNITS
from bounds.sentence import headline, records, up_digits
from pacdp.cli.figures.names import label
from pacdp.cli.figures.numbers import bound, probability, vacuous
from pacdp.cli.reading import Note, cited, cost_names, error_on_test


def certificate_rows(
    report: dict[str, Any], certificates: Sequence[Certificate], found: Sequence[Note]
) -> list[dict[str, Any]]:
    """A row a certificate, values rounded up, measured errors to the nearest."""
    return [
        {
            "name": label(made.name),
            "bounds": f"{made.measures}, {made.of}",
            "status": made.status,
            "optimistic": made.status == "optimistic",
            "value": bound(made.value),
            "vacuous": vacuous(made.value),
            "failure_prob": probability(made.failure_prob),
            "records": records(made) or "–",
            "empirical": _measured(made.terms.get("empirical_risk")),
            "test": _measured(error_on_test(report, made.of, made.measures)),
            "rests": cited(position, found),
            "reference": made.reference,
            "sentence": headline(made),
        }
        for position, made in enumerate(certificates)
    ]


def hypothesis_rows(
    certificates: Sequence[Certificate], found: Sequence[Note]
) -> list[dict[str, Any]]:
    """Each hypothesis once, with the certificates that rest on it."""
    return [
        {
            "mark": note.mark,
            "name": note.hypothesis.name,
            "standing": note.hypothesis.standing,
            "by": note.hypothesis.by,
            "unit": UNITS.get(note.hypothesis.unit, ""),
            "users": [_caption(certificates[position]) for position in note.users],
        }
        for note in found
    ]


def ledger(certificates: Sequence[Certificate]) -> list[dict[str, Any]]:
    """What each certificate's failure probability pays for; what it does not spend is an entry too."""
    found = []
    for made in certificates:
        entries = [(name, probability(paid)) for name, paid in made.budget.items()]
        left = made.failure_prob - math.fsum(made.budget.values())
        if left > 1e-12 * made.failure_prob:
            entries.append(("not spent", probability(left)))
        found.append(
            {
                "name": _caption(made),
                "status": made.status,
                "entries": entries or [("–", "0")],
                "total": probability(made.failure_prob),
            }
        )
    return found


def cost_rows(certificates: Sequence[Certificate]) -> list[dict[str, Any]]:
    """The costs of those that pay in nats, rounded up."""
    columns, rows = cost_names(certificates), []
    for made in certificates:
        nats = {cost.name: up_digits(cost.nats, 4) for cost in made.costs}
        draws = made.terms.get("monte_carlo_nats_per_draw")
        rows.append(
            {
                "name": _caption(made),
                "status": made.status,
                "parts": [nats.get(name, "–") for name in columns],
                "total": up_digits(made.total_nats, 4),
                "share": up_digits(made.total_per_example, 4),
                "monte_carlo": "–" if draws is None else up_digits(draws, 4),
            }
        )
    return [row for row, made in zip(rows, certificates, strict=True) if made.costs]


def _caption(made: Certificate) -> str:
    return f"{label(made.name)}: {made.measures}, {made.of}"


def _measured(value: float | None) -> str:
    return "–" if value is None else f"{value:.4f}"
