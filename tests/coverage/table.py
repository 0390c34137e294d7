"""Writes docs/coverage.md and docs/coverage.json: ``python -m tests.coverage.table``, minutes on one core."""

import sys
import time
from math import inf
from pathlib import Path

from pacdp.cli.folder import provenance, write_json
from tests.adversary.harness import MARK
from tests.coverage import predicted
from tests.coverage.broken import BROKEN
from tests.coverage.entries import ENTRIES
from tests.coverage.harness import FRACTIONS, LEVEL, SEED, run, run_at, worst
from tests.coverage.priced import PRICED, PRICES, TOLD
from tests.coverage.prices import exact_prices
from tests.coverage.worlds import DELTA

DATASETS = 20_000
REPORTS = 1000
DOCS = Path(__file__).parents[2] / "docs"
NAMES = dict(zip((1.0, *FRACTIONS), ("1", "2/3", "1/2", "1/3", "1/5", "1/10"), strict=True))
HEAD = """# Coverage

Read this page if you want to know whether the bounds of this package hold, before you publish one of them. It says how
often each fails on data whose truth is known exactly: finite hypothesis classes, exact Gibbs posteriors, exactly
private priors and weights, exact draws. The [proofs](guarantees.md) say that a bound holds; this table would show where
code or proof is wrong.

Each bound allows itself failures of probability {nominal:g}, and is tried on {datasets:,} data sets in each of several
worlds. `observed` is the share that failed in the world where the bound fails most often. `slack` is the mean distance
to the truth in the world where that is smallest (for ln Z in nats). A bound passes if no binomial test at level
{level:g} refutes its failure probability. Each is then tried again at 2/3, 1/2, 1/3, 1/5 and 1/10 of its cost: `fails
at` is the largest of these at which the same test catches it, and `there` the share that fails then. Bounds marked *
must also reach a stated share of their failure probability at full cost. Rows "no divergence" leave a divergence of 60
nats out. [coverage.json](coverage.json) holds every world, its counts and the 99% interval of each share (seed {seed});
`python -m tests.coverage.table` writes both.

"""
PRICED_HEAD = """
## Formulas at the prices of private priors and of noisy sums

Here each formula is tried at each price, under the mechanisms that are worst for the price (randomised response, coarse
shared noise, signs in Gaussian noise), with a prior that is a point. A cell holds the share observed, and the part of
the cost at which the formula is caught. How often a price is not enough for the worst function of release and sample
that was found, by exact binomial tails, stands under `prices` in [coverage.json](coverage.json).

"""
LOOSE_HEAD = """
Some bounds give away more than a third of their cost, for these reasons:

"""
PREDICTED_HEAD = """
## Reports on predictions

Labels and predictions are drawn {trials:,} times from laws whose rates are known. A report of `certify_predictions` at
a failure probability of {nominal:g} is false when any of the rows in question is. Beside it stands a fault that is made
in practice. A binomial test at 10⁻⁴ may not refute the report, and must refute the fault.

"""
BROKEN_HEAD = """
## Broken bounds, all caught by the same test

Each of these mistakes was planted in a bound that allows itself failures of probability {nominal:g}.

"""


def main():
    """Run every entry, write both files; 1 if a bound fails too often, has no power, or a broken one is not caught."""
    began, made_by, rows, wrong = time.perf_counter(), provenance(device="cpu", seed=SEED), [], []
    for entry in (*ENTRIES, *PRICED):
        row = _row(entry, broken=False) | _power(entry)
        if row["caught"] or row["fails_at"] < entry.caught:
            wrong.append(entry.name)
        rows.append(row)
        print(f"{entry.name}: {row['observed']:.4f}, fails at {row['fails_at']:.3g}", flush=True)
    prices, reports = list(exact_prices(NAMES)), predicted.lines(REPORTS)
    wrong += [str(line["report"]) for line in reports if not line["as_it_should_be"]]
    for entry in BROKEN:
        row = _row(entry, broken=True)
        if not row["caught"]:
            wrong.append(entry.name)
        rows.append(row)
    record = {
        "format": "pacdp-coverage/2",
        "datasets_in_each_world": DATASETS,
        "seconds": round(time.perf_counter() - began, 1),
        "provenance": made_by,
        "rows": rows,
        "prices": prices,
        "reports": reports,
    }
    _, mark, others = (DOCS / "coverage.md").read_text(encoding="utf-8").partition(MARK)  # of another command
    (DOCS / "coverage.md").write_text(rendered(record) + (f"\n{mark}{others}" if mark else ""), encoding="utf-8")
    write_json(DOCS / "coverage.json", record)
    print(f"wrong: {wrong}" if wrong else "every bound covers and has power, every broken bound is caught")
    return 1 if wrong else 0


def rendered(record):
    """The page, up to the part that ``python -m tests.adversary`` writes; what can go wrong stands below it."""
    rows, reports = {row["bound"]: row for row in record["rows"]}, record["reports"]
    loose = "".join(f"- {', '.join(names)}: {why}.\n" for why, names in _loose().items())
    return (
        HEAD.format(datasets=record["datasets_in_each_world"], seed=SEED, level=LEVEL, nominal=DELTA)
        + _table(["bound", "observed", "slack", "fails at", "there"], [_line(one, rows[one.name]) for one in ENTRIES])
        + PRICED_HEAD + _table(["", *PRICES], [_at_prices(formula, rows) for formula in TOLD])
        + LOOSE_HEAD + loose + PREDICTED_HEAD.format(trials=reports[0]["trials"], nominal=predicted.FAILURE)
        + _table(
            ["what is certified", "false", "fault", "false then"],
            [[row[key] for key in ("report", "false", "fault", "false_with_the_fault")] for row in reports],
        )
        + BROKEN_HEAD.format(nominal=DELTA)
        + _table(["mistake", "observed"], [[one.name, rows[one.name]["observed"]] for one in BROKEN])
    )  # fmt: skip


def _row(entry, broken):
    outcomes = run(entry, DATASETS)
    least = worst(outcomes)
    return {
        "bound": entry.name,
        "broken_on_purpose": broken,
        "caught": min(outcome.p_value for outcome in outcomes) < LEVEL,
        "nominal": least.nominal,
        "observed": least.observed,
        "interval_99": list(least.interval),
        "p_value": least.p_value,
        "mean_slack": min(outcome.slack for outcome in outcomes),
        "world": least.world,
        "worlds": [_world(outcome) for outcome in outcomes],
        "seed": SEED,
    }


def _world(outcome):
    return {
        "world": outcome.world,
        "failures": outcome.failures,
        "datasets": outcome.datasets,
        "mean_slack": outcome.slack if outcome.slack < inf else "inf",
    }


def _power(entry):
    """The largest fraction of the cost that is caught, and where; 0 if none is."""
    for fraction in FRACTIONS:
        outcomes = run_at(entry, DATASETS, fraction)
        most = worst(outcomes)
        if most.p_value < LEVEL:
            break
    else:
        fraction = 0.0
    there = {"world": most.world, "observed": most.observed, "p_value": most.p_value}
    return {"fails_at": fraction, "failure_there": there, "why_not_more": entry.why}


def _line(entry, row):
    name = f"{entry.name} *" if entry.share else entry.name
    return [name, row["observed"], row["mean_slack"], NAMES.get(row["fails_at"]), row["failure_there"]["observed"]]


def _at_prices(formula, rows):
    """A formula's cells, one for each price; an empty one where there is no theorem."""
    found = (rows.get(f"{formula} at {price}") for price in PRICES)
    return [formula, *(row and f"{row['observed']:.4f}, {NAMES.get(row['fails_at'])}" for row in found)]


def _loose():
    """The bounds that give away much, by their reasons; of formulas at prices the formulas alone."""
    found = dict[str, list[str]]()
    for entry in (*ENTRIES, *PRICED):
        for why in filter(None, entry.why.split("; ")):
            names, name = found.setdefault(why, []), entry.name.partition(" at ")[0]
            names += [] if name in names else [name]
    return found


def _table(head, rows):
    """Lines of Markdown; numbers with four digits, nothing for None."""
    return "".join(f"|{'|'.join(map(_cell, line))}|\n" for line in (head, ["---"] * len(head), *rows))


def _cell(value):
    return f"{value:.4f}" if isinstance(value, float) else value or ""


if __name__ == "__main__":
    sys.exit(main())
