"""What `pacdp bound` prints."""

import json
from typing import Any

from rich.table import Table

import bounds
from bounds.sentence import headline, up_digits
from pacdp.cli import calculator
from pacdp.cli.reading import bill, cost_name
from pacdp.cli.terminal import output
from pacdp.selfcert.plan import RoutePlan


def print_certificate(certificate: bounds.Certificate, *, json_only: bool) -> None:
    """One bound as a sentence, with its costs, terms, hypotheses and source."""
    if json_only:
        print(certificate.to_json())
        return
    out = output()
    out.print(headline(certificate))
    out.print(
        f"{certificate.name}: {certificate.measures} of {certificate.of} <= {_value(certificate)}, failing with "
        f"probability at most {certificate.failure_prob:g}; {certificate.status}"
    )
    for cost in certificate.costs:
        out.print(
            f"  {cost_name(cost.name):24} {up_digits(cost.nats, 8)} nats, {up_digits(cost.per_example, 8)} a record"
        )
    if certificate.costs:
        total, share = (
            up_digits(certificate.total_nats, 8),
            up_digits(certificate.total_per_example, 8),
        )
        out.print(f"  {'in all':24} {total} nats, {share} a record")
    for name, value in certificate.terms.items():
        out.print(f"  {name:24} {value:.8g}")
    for one in certificate.hypotheses:
        out.print(f"rests on: {one}")
    out.print(f"source: {certificate.reference}")


def print_comparison(
    certificates: list[bounds.Certificate], others: dict[str, str], *, json_only: bool
) -> None:
    """All bounds that apply, smallest first, with what each pays and rests on, and what the others lack."""
    if json_only:
        print(
            json.dumps(
                {"certificates": [c.to_dict() for c in certificates], "not_applicable": others}
            )
        )
        return
    out = output()
    needs = [
        {f"{one.name} ({one.standing})": None for one in made.hypotheses} for made in certificates
    ]
    shared = [name for name in (needs[0] if needs else ()) if all(name in own for own in needs)]
    table = Table(title="each bound by itself; quoting the smallest of J needs failure_prob / J")
    table.add_column("bound", overflow="fold")
    table.add_column("of", overflow="fold")
    table.add_column("at most", justify="right", no_wrap=True)
    table.add_column("status", no_wrap=True)
    for column in ("pays", "rests also on"):
        table.add_column(column, overflow="fold")
    for made, own in zip(certificates, needs, strict=True):
        also = "; ".join(name for name in own if name not in shared)
        table.add_row(
            made.name, f"{made.measures}, {made.of}", _value(made), made.status, bill(made), also
        )
    out.print(table)
    if shared:
        out.print(f"each rests on: {'; '.join(shared)}; by whoever calls")
    lacking: dict[str, list[str]] = {}
    for name, why in others.items():
        lacking.setdefault(why, []).append(name)
    for why, names in lacking.items():
        out.print(f"not applicable: {', '.join(names)}: {why}")


def print_plan(goal: calculator.Goal, *, json_only: bool) -> None:
    """How many records each bound needs for the target, and how many draws a Monte Carlo risk needs."""
    examples = calculator.plan_examples(goal)
    draws = None
    if goal.risk is not None and goal.risk < goal.target < 1:
        draws = calculator.plan_draws(
            risk=goal.risk, target=goal.target, failure_prob=goal.failure_prob
        )
    if json_only:
        plan: dict[str, Any] = {"target": goal.target, "examples": examples, "draws": draws}
        print(json.dumps(plan))
        return
    out = output()
    for name, n in sorted(examples.items(), key=lambda item: item[1] or 2**62):
        out.print(
            f"{name}: {n} examples" if n is not None else f"{name}: never reaches {goal.target:g}"
        )
    if draws is not None:
        out.print(
            f"Monte Carlo: {draws} independent draws put the upper bound on a mean of {goal.risk:g} at {goal.target:g}"
        )
    if not examples and draws is None:
        out.print("nothing can be planned from this: give --risk, and --kl-nats or the privacy")


def print_routes(plan: RoutePlan, *, json_only: bool) -> None:
    """What each route would promise at which split, what that assumes, and which one to take."""
    if json_only:
        print(json.dumps(plan.to_dict(), allow_nan=False))
        return
    out = output()
    table = Table(title="forecasts, not certificates: what each route would promise")
    for column in ("route", "split"):
        table.add_column(column, overflow="fold")
    for column in ("trained on", "bound on", "expected error", "at most"):
        table.add_column(column, justify="right", no_wrap=True)
    for one in plan.routes:
        value = "1 (vacuous)" if one.value >= 1.0 else up_digits(one.value, 4)
        error = up_digits(one.expected_error, 3)
        table.add_row(one.route, one.split, f"{one.train:,}", f"{one.bound:,}", error, value)
    out.print(table)
    for said in plan.assumed:
        out.print(f"assumed: {said}")
    out.print(plan.recommendation())


def _value(made: bounds.Certificate) -> str:
    return "1 (vacuous)" if made.vacuous else up_digits(made.value, 6)
