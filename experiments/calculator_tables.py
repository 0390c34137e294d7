"""What `pacdp bound` prints."""

import json
from typing import Any

from rich.table import Table

import bounds
from experiments import calculator
from experiments.terminal import output


def print_certificate(certificate: bounds.Certificate, *, json_only: bool) -> None:
    """One bound with its terms, what it assumes and its source."""
    if json_only:
        print(certificate.to_json())
        return
    out = output()
    vacuous = " (vacuous)" if certificate.vacuous else ""
    out.print(f"{certificate.name}: risk <= {certificate.value:.6g}{vacuous}, failing with probability at most "
              f"{certificate.failure_prob:g}; {certificate.status}")  # fmt: skip
    for name, value in certificate.terms.items():
        out.print(f"  {name:24} {value:.8g}")
    out.print(f"assumes: {calculator.assumption(certificate.name)}")
    for sentence in certificate.assumptions:
        out.print(f"assumes: {sentence}")
    out.print(f"source: {certificate.reference}")


def print_comparison(certificates: list[bounds.Certificate], others: dict[str, str], *, json_only: bool) -> None:
    """All bounds that apply, smallest first, and what the others lack."""
    if json_only:
        print(json.dumps({"certificates": [c.to_dict() for c in certificates], "not_applicable": others}))
        return
    out = output()
    table = Table(title="each bound by itself; quoting the smallest of J needs failure_prob / J")
    for column in ("bound", "risk <=", "status", "assumes that"):
        table.add_column(column, justify="right" if column == "risk <=" else "left")
    for c in certificates:
        value = f"{c.value:.6g}" + (" (vacuous)" if c.vacuous else "")
        table.add_row(c.name, value, c.status, calculator.assumption(c.name))
    out.print(table)
    for name, why in others.items():
        out.print(f"not applicable: {name}: {why}")


def print_plan(goal: calculator.Goal, *, json_only: bool) -> None:
    """How many examples each bound needs for the target, and how many draws a Monte Carlo risk needs."""
    examples = calculator.plan_examples(goal)
    draws = None
    if goal.risk is not None and goal.risk < goal.target < 1:
        draws = calculator.plan_draws(risk=goal.risk, target=goal.target, failure_prob=goal.failure_prob)
    if json_only:
        plan: dict[str, Any] = {"target": goal.target, "examples": examples, "draws": draws}
        print(json.dumps(plan))
        return
    out = output()
    for name, n in sorted(examples.items(), key=lambda item: item[1] or 2**62):
        out.print(f"{name}: {n} examples" if n is not None else f"{name}: never reaches {goal.target:g}")
    if draws is not None:
        out.print(
            f"Monte Carlo: {draws} independent draws put the upper bound on a mean of {goal.risk:g} at {goal.target:g}"
        )
    if not examples and draws is None:
        out.print("nothing can be planned from this: give --risk, and --kl-nats or the privacy")
