"""What ``pacdp.self_certify`` writes: the smallest of several certificates, each at its share of one ledger."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from flint import arb  # pyright: ignore[reportMissingImports]

from pacdp.verify.arithmetic import ball
from pacdp.verify.certificate import LOST, check_certificate
from pacdp.verify.claim import Statement, Unchecked, Wrong, about, judged, number, parsed

FORMAT = "pacdp-self-certified/1"
_ROUNDED = 1 + 2.0**-45
"""Shares are decimal fractions, added up."""


def check_self_certified(record: Mapping[str, Any]) -> list[Statement]:
    """A statement on each certificate, on the choice among them, the ledger, the counts, and on what is only told."""
    found = check_certificate(record["certificate"])
    for one in record["tried"]:
        if one["certificate"] is not None:
            own = check_certificate(one["certificate"])
            found += [said._replace(subject=f"{one['name']}: {said.subject}") for said in own]
    checks = {"choice": _choice, "ledger": _ledger, "counts": _counts, "what is told beside": _told}
    return [*found, *(judged("self-certified", name, partial(check, record)) for name, check in checks.items())]


def _choice(record: Mapping[str, Any]) -> None:
    """The certificate is the smallest of those tried, and is called by the route that it came from."""
    made, tried = record["certificate"], [one for one in record["tried"] if one["certificate"] is not None]
    listed = [[one["certificate"][name] for name in ("name", "of", "value", "failure_prob")] for one in tried]
    if parsed(made["inputs"]["among"]) != listed:
        raise Wrong("the certificates that were compared are not those of the routes that were tried")
    best = tried[made["inputs"]["chosen_position"]]
    if (best["name"], best["certificate"]["measures"]) != (record["chosen"], made["measures"]):
        raise Wrong(f"the route that was chosen is not {record['chosen']!r}, or bounds another risk")
    of_all = {(one["name"], one["standing"]) for each in tried for one in each["certificate"]["hypotheses"]}
    if odd := [one["name"] for one in made["hypotheses"] if (one["name"], one["standing"]) not in of_all]:
        raise Wrong(f"the hypothesis {odd[0]!r} stands otherwise in the certificates that were compared")
    own = {one["name"] for one in made["hypotheses"]}
    if missing := sorted({name for name, _ in of_all} - own):
        raise Wrong(f"the hypothesis {missing[0]!r} of a certificate that was compared is left out")


def _ledger(record: Mapping[str, Any]) -> None:
    """Every route is tried at its own share, those that came to nothing too."""
    ledger, tried = record["budget"], {one["name"]: one for one in record["tried"]}
    shares = {name: ball(number(amount)) for name, amount in ledger["entries"]}
    if set(shares) != set(tried) or any(not share > 0 for share in shares.values()):
        raise Wrong(f"the ledger pays for {', '.join(shares)}, and {', '.join(tried)} were tried")
    whole = ball(number(ledger["total"]))
    if not sum(shares.values(), arb(0)) <= whole * _ROUNDED:
        raise Wrong(f"the ledger spends more than {ledger['total']!r}")
    if not ball(number(record["certificate"]["failure_prob"])) <= whole * _ROUNDED:
        raise Wrong("the certificate may fail more often than the ledger says")
    lost = sum((shares[name] for name, one in tried.items() if one["certificate"] is None), arb(0))
    about("what is paid for routes that came to nothing", number(record["certificate"]["budget"].get(LOST, 0)), lost)
    for name, one in tried.items():
        if one["certificate"] and not ball(number(one["certificate"]["failure_prob"])) <= shares[name] * _ROUNDED:
            raise Wrong(f"the certificate of {name} may fail more often than its share")


def _counts(record: Mapping[str, Any]) -> None:
    """Errors and sizes of each route are those of its certificate, and the two parts of the split make all records."""
    n, unit = record["split"]["n"], record["split"]["unit"]
    for one in record["tried"]:
        made = one["certificate"]
        if made is None:
            continue
        inputs, name = made["inputs"], one["name"]
        if inputs["n"] != one["bound"] or not one["bound"] <= n or not one["train"] <= n:
            raise Wrong(f"{name} rests on {inputs['n']} records, of {one['bound']} and {n}")
        if one["route"] == "held-out count":
            if (one["train"], one["train"] + one["bound"]) != (record["split"]["train"], n):
                raise Wrong(f"{name} splits {n} records into {one['train']} and {one['bound']}")
            measured = arb(inputs["k"]) / inputs["n"] if "k" in inputs else ball(number(inputs["risk"]))
            about(f"the error of {name}", one["error"], measured)
        units = {said["unit"] for said in made["hypotheses"] if said["name"] == "records independent"}
        if units != {unit}:
            raise Wrong(f"{name} counts records of unit {', '.join(units)!r}, and the split {unit!r}")


def _told(record: Mapping[str, Any]) -> None:
    told = sorted(set(record) - {"format", "certificate", "chosen", "tried", "budget", "split"})
    raise Unchecked(f"nothing in the file determines {', '.join(told)} and other routes' errors")
