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
from tests.coverage.priced import PRICED
from tests.coverage.prices import exact_prices
from tests.coverage.worlds import DELTA

DATASETS = 20_000
REPORTS = 1000
DOCS = Path(__file__).parents[2] / "docs"
NAMES = dict(zip((1.0, *FRACTIONS), ("1", "2/3", "1/2", "1/3", "1/5", "1/10"), strict=True))
HEAD = """# Coverage

How often each bound fails on data sets whose truth is known exactly: finite hypothesis classes, exact Gibbs posteriors,
exactly private priors and weights (exponential and Gaussian mechanisms, randomised response, noise shared by all
records), exact draws. For every bound the world of several in which it fails most often, relative to what it may.
{datasets} data sets in each world, seed {seed}; every bound allows itself failures of probability {nominal:g}; the
interval is Clopper and Pearson's at 99%. `slack` is the mean distance to the truth in the world where that is smallest
(for ln Z in nats).

A bound passes when the observed failures are compatible with the nominal probability (one-sided binomial test at level
{level:g}). That alone would let a bound pass that is never wrong because it says nothing, and a table of zeros could
not tell a sound bound from one that charges half of what it must. So every bound is also tried at fractions of its
cost, all its nats together (divergence, constants, price, unions), in worlds near the worst case: `fails at` is the
largest of 2/3, 1/2, 1/3, 1/5 and 1/10 of the cost at which the same test catches it, `there` how often it fails then.
Where that is less than 2/3, no better world is known, and the reason stands below the table. Bounds marked * must also
reach a stated share of the nominal probability at their full cost. Where a divergence of 60 nats is most of the
cost, it is most of what is taken away; rows "no divergence" show the rest alone. Written by
`python -m tests.coverage.table`; the default test suite does the same on as few data sets as catch it there, 100 to
20,000.

| bound | observed | interval | slack | worst of its worlds | fails at | there | in |
| --- | --- | --- | --- | --- | --- | --- | --- |
"""
PRICED_HEAD = """
## Formulas at the prices of private priors and of noisy sums

The same for every formula at the sharp and at the general price and at the prices of noisy sums, under the mechanisms
that are worst for the price (randomised response, coarse shared noise, signs in Gaussian noise), with a prior that is a
point. In rows without a formula, such as `poisson_sum`, f(Y, S) itself is compared with the price, on the likeliest
events of their probability.

| formula and price | observed | interval | slack | worst of its worlds | fails at | there | in |
| --- | --- | --- | --- | --- | --- | --- | --- |
"""
LOOSE_HEAD = """
Bounds that give away more than a third of their cost:

"""
EXACT_HEAD = """
## The prices of privacy, exactly

How often a price is not enough for the worst function of release and sample that was found, by exact binomial tails.
*Randomised response* of n labels is epsilon-DP. *Shared noise*: g ~ N(mu, 1) is common to all records, |g| is released,
and of every label a bit that is right with probability 1/(1 + e^(-2 mu |g|)): exactly mu-GDP for leaving out a record.
*Coarse* shared noise releases only whether |g| is large, at the level that is worst for each column. The nominal
failure probability is {nominal:g} everywhere.

| price | mechanism | nats | at all of it | at 2/3 | at 1/2 | at 1/3 |
| --- | --- | --- | --- | --- | --- | --- |
"""
PREDICTED_HEAD = """
## Reports on predictions

Labels and predictions are drawn {trials:,} times from laws whose rates are known. A report of `certify_predictions` at
a failure probability of {nominal:g} is false when any of the rows in question is. Beside it a fault that is made in
practice. A binomial test at 10⁻⁴ may not refute the report, and must refute the fault. Groups of rows fail less often
than they may, since their failures coincide and since a count of errors is a whole number; betting at a few hundred
records has room to spare.

| what is certified | false | fault | false then |
| --- | --- | --- | --- |
"""
BROKEN_HEAD = """
## Broken bounds, all caught by the same test

| fault | nominal | observed | interval | p-value | world |
| --- | --- | --- | --- | --- | --- |
"""


def main():
    """Run every entry, write both files; 1 if a bound fails too often, has no power, or a broken one is not caught."""
    began, made_by, rows, wrong = time.perf_counter(), provenance(device="cpu", seed=SEED), [], []
    text = HEAD.format(datasets=f"{DATASETS:,}", seed=SEED, level=LEVEL, nominal=DELTA)
    for head, entries in (("", ENTRIES), (PRICED_HEAD, PRICED)):
        text += head
        for entry in entries:
            row = _row(entry, broken=False) | _power(entry)
            if row["caught"] or row["fails_at"] < entry.caught:
                wrong.append(entry.name)
            rows.append(row)
            text += _line(entry, row)
            print(f"{entry.name}: {row['observed']:.4f}, fails at {row['fails_at']:.3g}", flush=True)
    text += LOOSE_HEAD + "".join(f"- {entry.name}: {entry.why}\n" for entry in [*ENTRIES, *PRICED] if entry.why)
    prices, reports = list(exact_prices(NAMES)), predicted.lines(REPORTS)
    wrong += [str(line["report"]) for line in reports if not line["as_it_should_be"]]
    text += EXACT_HEAD.format(nominal=DELTA) + "".join(map(_price_line, prices))
    text += PREDICTED_HEAD.format(trials=REPORTS, nominal=predicted.FAILURE) + "".join(map(_report_line, reports))
    text += BROKEN_HEAD
    for entry in BROKEN:
        row = _row(entry, broken=True)
        if not row["caught"]:
            wrong.append(entry.name)
        rows.append(row)
        text += _broken_line(row)
    _, mark, others = (DOCS / "coverage.md").read_text(encoding="utf-8").partition(MARK)  # of another command
    (DOCS / "coverage.md").write_text(f"{text}\n{mark}{others}" if mark else text, encoding="utf-8")
    record = {
        "format": "pacdp-coverage/2",
        "datasets_in_each_world": DATASETS,
        "seconds": round(time.perf_counter() - began, 1),
        "provenance": made_by,
        "rows": rows,
        "prices": prices,
        "reports": reports,
    }
    write_json(DOCS / "coverage.json", record)
    print(f"wrong: {wrong}" if wrong else "every bound covers and has power, every broken bound is caught")
    return 1 if wrong else 0


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


def _price_line(row):
    rates = " | ".join(f"{rate:.4f}" for rate in row["failure"].values())
    return f"| {row['price']} | {row['mechanism']} | {row['nats']:.2f} | {rates} |\n"


def _report_line(row):
    then = "" if row["false_with_the_fault"] is None else f"{row['false_with_the_fault']:.3f}"
    return f"| {row['report']} | {row['false']:.3f} | {row['fault']} | {then} |\n"


def _line(entry, row):
    low, high = row["interval_99"]
    name, there = f"{entry.name}{' *' if entry.share else ''}", row["failure_there"]
    full = f"{row['observed']:.4f} | {low:.4f} to {high:.4f} | {row['mean_slack']:.3f} | {row['world']}"
    at = NAMES.get(row["fails_at"], "none")
    return f"| {name} | {full} | {at} | {there['observed']:.4f} | {there['world']} |\n"


def _broken_line(row):
    low, high = row["interval_99"]
    full = f"{row['nominal']:g} | {row['observed']:.4f} | {low:.4f} to {high:.4f} | {_digits(row['p_value'])}"
    return f"| {row['bound']} | {full} | {row['world']} |\n"


def _digits(p_value):
    return f"{p_value:.0e}" if p_value > 1e-300 else "below 1e-300"


if __name__ == "__main__":
    sys.exit(main())
