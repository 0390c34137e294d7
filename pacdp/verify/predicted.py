"""A report on predictions: its ledger, the rows that its certificates carry, and counts that must add up."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from flint import arb  # pyright: ignore[reportMissingImports]

from pacdp.verify.arithmetic import ball
from pacdp.verify.certificate import check_certificate
from pacdp.verify.claim import Statement, Wrong, about, agree, judged, number

ROUTE = "predictions"
_GAP = "largest_gap"
_SUM = 1 + 2.0**-45  # decimal amounts, added up


def check_predictions(report: Mapping[str, Any]) -> list[Statement]:
    """A statement on every certificate, on what all of them pay, on every row, and on counts of parts and whole."""
    found = [
        one._replace(subject=f"{made.get('measures')} of {made.get('of')}")
        for made in report["certificates"]
        for one in check_certificate(made)
    ]
    checks = {"failure probability of everything together": _paid, "rows": _rows, "counts": _counts, "gaps": _gaps}
    return [*found, *(judged("report", name, partial(check, report)) for name, check in checks.items())]


def _paid(report: Mapping[str, Any]) -> None:
    """The ledger is within the failure probability, and every certificate within its entry of the ledger."""
    ledger, made = report["details"]["budget"], report["certificates"]
    whole = ball(number(report["failure_prob"]))
    about("the ledger's total", ledger["total"], whole)
    entries = {name: ball(number(amount)) for name, amount in ledger["entries"]}
    if len(entries) < len(ledger["entries"]) or any(not 0 <= amount for amount in entries.values()):
        raise Wrong(f"the ledger's entries are {ledger['entries']}")
    if not _total(entries.values()) <= whole * _SUM:
        raise Wrong(f"the ledger spends more than {report['failure_prob']!r}")
    payers = dict[int, str]()
    for row in report["details"]["statements"]:
        for place in (row["upper_by"], row["lower_by"]):
            if place is not None and payers.setdefault(place, row["family"]) != row["family"]:
                raise Wrong(f"{row['quantity']} is paid for by two entries of the ledger")
    if sorted(payers) != list(range(len(made))):
        raise Wrong("a certificate is behind no row, and nothing pays for it")
    for name, amount in entries.items():
        places = [place for place, family in payers.items() if family == name and made[place]["name"] != _GAP]
        spent = _total(ball(number(made[place]["failure_prob"])) for place in places)
        if not spent <= amount * _SUM:
            raise Wrong(f"certificates of {name} may fail with {float(spent)!r}, and the ledger has {float(amount)!r}")
    if unpaid := set(payers.values()) - set(entries):
        raise Wrong(f"the ledger has no entry for {', '.join(sorted(unpaid))}")


def _rows(report: Mapping[str, Any]) -> None:
    """Both ends of every row follow from the certificates that it names."""
    made = report["certificates"]
    for row in report["details"]["statements"]:
        low, high = (ball(number(end)) for end in row["range"])
        of = f"{row['quantity']} of {row['of']}"
        for end in ("upper", "lower"):
            if (row[end] is None) != (row[f"{end}_by"] is None):
                raise Wrong(f"the {end} end of {of} and its certificate are not both there")
        if row["upper_by"] is not None:
            one = made[row["upper_by"]]
            value = one["terms"][row["term"]] if row["term"] else one["value"]
            agree(f"the upper end of {of}", row["upper"], low + (high - low) * ball(number(value)))
            _same(row, one)
        if row["lower_by"] is not None:
            one = made[row["lower_by"]]
            agree(f"the lower end of {of}", -number(row["lower"]), (high - low) * ball(number(one["value"])) - high)
            _same(row, one)
        for end, k, n in ((end, *(made[row[f"{end}_by"]]["inputs"].get(name) for name in ("k", "n")))
                          for end in ("upper", "lower") if row[f"{end}_by"] is not None):  # fmt: skip
            if k is not None:
                about(f"the measured {of}", row["measured"], arb(k if end == "upper" else n - k) / n)


def _same(row: Mapping[str, Any], made: Mapping[str, Any]) -> None:
    """A row and its certificate are about one model, and as many records where the certificate counts them."""
    if row["of"] != made["of"] or (not row["term"] and made["inputs"].get("n", row["n"]) != row["n"]):
        raise Wrong(f"{row['quantity']} of {row['of']} rests on a certificate of {made['of']} with another n")


def _counts(report: Mapping[str, Any]) -> None:
    """Errors on all classes, and in all groups, add up to the errors on all examples."""
    made, rows = report["certificates"], report["details"]["statements"]
    if report["unit"] == "example" and report["n"] != report["examples"]:
        raise Wrong(f"{report['n']} records are {report['examples']} examples")
    if not report["n"] <= report["examples"] or any(row["n"] > report["n"] for row in rows):
        raise Wrong(f"a row counts more than the {report['n']} records that there are")
    for whole in (row for row in rows if row["family"] == "error"):
        if whole["n"] != report["n"]:
            raise Wrong(f"the error of {whole['of']} rests on {whole['n']} records of {report['n']}")
        inputs = made[whole["upper_by"]]["inputs"]
        for family in ("recall", "groups"):
            parts = [
                made[row["upper_by"]]["inputs"]
                for row in rows
                if (row["family"], row["of"]) == (family, whole["of"]) and row["upper_by"] is not None
                and made[row["upper_by"]]["name"] != _GAP and not row["quantity"].startswith("recall")
            ]  # fmt: skip
            if not parts or "k" not in inputs or any("k" not in part for part in parts):
                continue
            k, n = (sum(part[name] for part in parts) for name in ("k", "n"))
            complete = not report["not_applicable"]
            if k > inputs["k"] or n > inputs["n"] or (complete and (k, n) != (inputs["k"], inputs["n"])):
                raise Wrong(
                    f"{family} count {k} errors of {n}, and the error of {whole['of']} {inputs['k']} of {inputs['n']}"
                )


def _gaps(report: Mapping[str, Any]) -> None:
    """The largest gap between groups is that of the ends of the groups' own rows, and fails when they do."""
    made, rows = report["certificates"], report["details"]["statements"]
    for place, gap in enumerate(made):
        if gap["name"] != _GAP:
            continue
        groups = [
            row for row in rows if (row["family"], row["of"]) == ("groups", gap["of"]) and row["upper_by"] != place
        ]
        ends = {name: ", ".join(repr(float(row[name[:-1]])) for row in groups) for name in ("uppers", "lowers")}
        if ends != {name: gap["inputs"][name] for name in ends}:
            raise Wrong(f"the largest gap of {gap['of']} is not one between its groups")
        behind = {row[name] for row in groups for name in ("upper_by", "lower_by")}
        about("what the groups fail with", gap["failure_prob"],
              _total(ball(number(made[one]["failure_prob"])) for one in behind))  # fmt: skip


def _total(amounts: Any) -> arb:
    return sum(amounts, arb(0))
