"""A report on predictions: its ledger, the rows that its certificates carry, and counts that must add up."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from flint import arb  # pyright: ignore[reportMissingImports]

from pacdp.verify.arithmetic import ball
from pacdp.verify.certificate import check_certificate
from pacdp.verify.claim import Statement, Unchecked, Wrong, about, agree, judged, number, without_unit

ROUTE = "predictions"
_GAP = "largest_gap"
_CALLED = {
    "error": ("0-1 risk", "accuracy"),
    "Brier risk": ("half the Brier risk", "1 - half the Brier risk"),
    "calibration error (ECE)": ("ECE", ""),
    "largest gap between groups": ("largest gap between groups", ""),
}
"""What the certificates of a row bound, above and below, where they call it by another name."""
_PARTITIONS = {
    "recall": ("error on class ", "upper_by"),
    "groups": ("error in group ", "upper_by"),
    "precision": ("precision of class ", "lower_by"),
    "false-alarms": ("false-alarm rate of class ", "upper_by"),
}
"""Families whose parts hold every example: how their rows begin, and the end that counts errors."""
_COMPLEMENTS = (
    ("error on class ", "recall of class "),
    ("share of errors among predictions of class ", "precision of class "),
    ("false-alarm rate of class ", "specificity of class "),
    ("error in group ", "accuracy in group "),
)
"""How a rate and one minus it are called."""
_SUM = 1 + 2.0**-45  # decimal amounts, added up


def check_predictions(report: Mapping[str, Any]) -> list[Statement]:
    """A statement on every certificate, on what all of them pay, on every row, and on counts of parts and whole."""
    found = [
        one._replace(subject=f"{made.get('measures')} of {made.get('of')}")
        for made in report["certificates"]
        for one in check_certificate(made)
    ]
    checks = {"failure probability of everything together": _paid, "rows": _rows, "counts": _counts,
              "completeness": _complete, "gaps": _gaps}  # fmt: skip
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
    if (idle := set(entries) - set(payers.values())) and not report["not_applicable"]:
        raise Wrong(f"the ledger pays for {', '.join(sorted(idle))}, and no row is of it")
    if unpaid := set(payers.values()) - set(entries):
        raise Wrong(f"the ledger has no entry for {', '.join(sorted(unpaid))}")


def _rows(report: Mapping[str, Any]) -> None:
    """Both ends of every row, and what was measured, follow from the certificates that it names."""
    made = report["certificates"]
    for row in report["details"]["statements"]:
        of = f"{row['quantity']} of {row['of']}"
        for end in ("upper", "lower"):
            if (row[end] is None) != (row[f"{end}_by"] is None):
                raise Wrong(f"the {end} end of {of} and its certificate are not both there")
        if row["upper_by"] is not None:
            one = made[row["upper_by"]]
            value = one["terms"][row["term"]] if row["term"] else one["value"]
            agree(f"the upper end of {of}", row["upper"], _scaled(row, ball(number(value))))
            _same(row, one, upper=True)
            if (mean := _mean(row, one)) is not None:
                about(f"the measured {of}", row["measured"], _scaled(row, mean))
        if row["lower_by"] is not None:
            one = made[row["lower_by"]]
            agree(f"the lower end of {of}", -number(row["lower"]), -_scaled(row, 1 - ball(number(one["value"]))))
            _same(row, one, upper=False)
            if (mean := _mean(row, one)) is not None:
                about(f"the measured {of}", row["measured"], _scaled(row, 1 - mean))


def _scaled(row: Mapping[str, Any], mean: arb) -> arb:
    """The quantity of a row at a mean in [0, 1]."""
    low, high = (ball(number(end)) for end in row["range"])
    return low + (high - low) * mean


def _mean(row: Mapping[str, Any], made: Mapping[str, Any]) -> arb | None:
    """The mean that the certificate was made from; None where it has none."""
    inputs = made["inputs"]
    if row["term"]:  # of one bin
        place = int(row["term"].removeprefix("gap_"))
        counts, corrects, confidences = (
            ball(float(inputs[name].split(",")[place])) for name in ("counts", "corrects", "mean_confidences")
        )
        return abs(corrects / counts - confidences)
    if "k" in inputs:
        return arb(inputs["k"]) / inputs["n"]
    said = made["terms"]["empirical_gap"] if made["name"] == _GAP else None
    said = inputs.get("risk", inputs.get("calibration_error", said))
    return None if said is None else ball(number(said))


def _same(row: Mapping[str, Any], made: Mapping[str, Any], *, upper: bool) -> None:
    """A row and its certificate are about one model, one quantity, and as many records where these are counted."""
    if row["of"] != made["of"] or (not row["term"] and made["inputs"].get("n", row["n"]) != row["n"]):
        raise Wrong(f"{row['quantity']} of {row['of']} rests on a certificate of {made['of']} with another n")
    said, expected = without_unit(made["measures"])[0], _measures(row)[0 if upper else 1]
    weighted = "weighted " + ("error" if expected == "0-1 risk" else expected)
    if said not in (expected, weighted):
        raise Wrong(f"{row['quantity']} of {row['of']} rests on a certificate of {made['measures']!r}")


def _measures(row: Mapping[str, Any]) -> tuple[str, str]:
    """What the certificates behind the upper and the lower end of a row have to bound."""
    said = row["quantity"]
    if row["family"] == "bins":
        return "MCE", ""
    if row["family"] == "differences":
        (model, first), loss = row["of"].rsplit(" against ", 1), said.split(" of ", 1)[0]
        if said != f"{loss} of {model} minus {loss} of {first}":
            raise Wrong(f"the difference of {row['of']} is called {said!r}")
        above, below = f"{loss} of {model} - {loss} of {first}", f"{loss} of {first} - {loss} of {model}"
        return f"(1 + {above})/2", f"(1 + {below})/2"
    if said in _CALLED:
        return _CALLED[said]
    if said.startswith("top-"):
        return said, said.replace("error", "accuracy")
    for error, right in _COMPLEMENTS:
        for begins, ends in ((error, right), (right, error)):
            if said.startswith(begins):
                return said, ends + said.removeprefix(begins)
    return said, f"1 - {said}"


def _counts(report: Mapping[str, Any]) -> None:
    """Errors on all classes, in all groups, and among all predictions, add up to the errors on all examples."""
    made, rows = report["certificates"], report["details"]["statements"]
    if report["unit"] == "example" and report["n"] != report["examples"]:
        raise Wrong(f"{report['n']} records are {report['examples']} examples")
    if not report["n"] <= report["examples"] or any(row["n"] > report["n"] for row in rows):
        raise Wrong(f"a row counts more than the {report['n']} records that there are")
    for whole in (row for row in rows if row["family"] == "error"):
        if whole["n"] != report["n"]:
            raise Wrong(f"the error of {whole['of']} rests on {whole['n']} records of {report['n']}")
        inputs = made[whole["upper_by"]]["inputs"]
        for family in _PARTITIONS:
            parts = _parts(report, family, whole["of"])
            if not parts or "k" not in inputs or any("k" not in part for part in parts):
                continue
            k, n = (sum(part[name] for part in parts) for name in ("k", "n"))
            times = len(parts) - 1 if family == "false-alarms" else 1  # of how many classes an example is none
            expected = inputs["k"], inputs["n"] * times
            complete = not report["not_applicable"]
            if k > expected[0] or (n > expected[1] and complete) or (complete and (k, n) != expected):
                raise Wrong(f"{family} count {k} errors of {n}, and by the error of {whole['of']} there are {expected}")


def _parts(report: Mapping[str, Any], family: str, of: str) -> list[Mapping[str, Any]]:
    """The inputs of the certificates that count the errors of a family's parts."""
    begins, end = _PARTITIONS[family]
    rows = [
        row
        for row in report["details"]["statements"]
        if (row["family"], row["of"]) == (family, of) and row["quantity"].startswith(begins)
    ]
    return [report["certificates"][row[end]]["inputs"] for row in rows if row[end] is not None]


def _complete(report: Mapping[str, Any]) -> None:
    """What the ledger pays for is there, for every model and every part, as far as counts show it."""
    rows, entries = report["details"]["statements"], [name for name, _ in report["details"]["budget"]["entries"]]
    if report["not_applicable"]:
        raise Unchecked("nothing in the file determines which rows have no answer")
    models = {row["of"] for row in rows if row["family"] == "error"}
    open_ = list[str]()
    for family in entries:
        own = [row for row in rows if row["family"] == family]
        of = {row["of"] for row in own}
        if len(of) != len(models) - 1 if family == "differences" else of != models:
            raise Wrong(f"{family} has no rows of {', '.join(sorted(models - of)) or 'a model'}")
        said = [row["quantity"].split(" of class ")[0].split(" on class ")[0] for row in own]
        if family == "recall" and said.count("recall") != said.count("error"):
            raise Wrong("an error on a class has no row of its recall, or the other way round")
        if family in ("top-k", "losses", "bins"):
            open_.append(family)
        elif family in _PARTITIONS and any("k" not in part for one in models for part in _parts(report, family, one)):
            open_.append(family)
    if open_:
        raise Unchecked(f"no counts show whether all rows of {', '.join(open_)} are there")


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
