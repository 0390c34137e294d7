"""What ``pacdp.self_certify`` writes: the smallest of several certificates, each at its share of one ledger."""

from collections.abc import Mapping
from typing import Any

from flint import arb  # pyright: ignore[reportMissingImports]

from pacdp.verify.arithmetic import total
from pacdp.verify.certificate import LOST, check_certificate
from pacdp.verify.claim import (
    Fields,
    Statement,
    Unchecked,
    about,
    exactly,
    fields,
    judged,
    parsed,
    require,
    same,
)
from pacdp.verify.measured import mean_of
from pacdp.verify.needs import standings, units
from pacdp.verify.remarks import of_equal_inputs, require_due

ROUTE = "self-certified"
_READ = "format route n unit certificates details".split()
"""What is read under another name."""
SUM = 1 + 2.0**-45
"""Shares are decimal fractions, added up."""


def check_self_certified(
    record: Mapping[str, Any],
) -> list[Statement]:
    """A statement on each certificate, on the choice among them, the ledger, the counts, and on what is only told."""
    made = fields(of_a_report(record))
    found = check_certificate(made.certificate)
    for one in _certified(made):
        for said in check_certificate(one.certificate):
            found.append(
                said._replace(subject=f"{one.name}: {said.subject}")
            )
    checks = {
        "choice": _choice,
        "ledger": _ledger,
        "counts": _counts,
        "remarks": _remarks,
        "what is told beside": _told,
    }
    return [*found, *judged(ROUTE, checks, made)]


def of_a_report(report: Mapping[str, Any]) -> dict[str, Any]:
    """What a report says, each route with its certificate: those behind the first, by their places."""
    details, (best, *others) = (
        report["details"],
        report["certificates"],
    )
    made = dict(enumerate(others, 1))
    tried = [
        {**one, "certificate": made.get(one["certificate"])}
        for one in details["tried"]
    ]
    split = {
        "train": details["train"],
        "n": report["n"],
        "unit": report["unit"],
    }
    rest = {k: v for k, v in report.items() if k not in _READ and v}
    own = {"certificate": best, "others": len(others), "tried": tried}
    return {**rest, **details, **own, "split": split}


def _certified(record: Fields) -> list[Fields]:
    """The routes that came to a certificate."""
    return [
        one for one in record.tried if one.certificate is not None
    ]


def _choice(record: Fields) -> None:
    """The certificate is the smallest of those tried, and is called by the route that it came from."""
    made = record.certificate
    tried = _certified(record)
    names = ("name", "of", "value", "failure_prob")
    require(
        parsed(made.inputs.among)
        == [
            [one.certificate[name] for name in names] for one in tried
        ],
        "the certificates that were compared are not those of the routes that were tried",
    )
    best = tried[made.inputs.chosen_position]
    same("the route that was chosen", best.name, record.chosen)
    same("its risk", best.certificate.measures, made.measures)
    own = set(standings(made).items())
    theirs = set[tuple[str, str]]()
    for one in tried:
        theirs |= set(standings(one.certificate).items())
    require(
        own <= theirs and dict(own).keys() == dict(theirs).keys(),
        "a hypothesis of the certificates that were compared is left out, or stands otherwise there",
    )


def _ledger(record: Fields) -> None:
    """Every route is tried at its own share, those that came to nothing too."""
    shares = shares_of(record.budget)
    made = record.certificate
    tried = {one.name: one.certificate for one in record.tried}
    behind = len(_certified(record))
    same("the certificates of routes", record.others, behind)
    same(
        "the ledger's total", record.budget.total, record.failure_prob
    )
    names = [one.name for one in record.tried]
    same("what the ledger pays for", sorted(shares), sorted(names))
    require(
        all(share > 0 for share in shares.values()),
        "the ledger has nothing for a route",
    )
    limits = {name: (tried[name], shares[name]) for name in tried}
    limits["all together"] = (made, exactly(record.budget.total))
    for name, (one, share) in limits.items():
        require(
            one is None or exactly(one.failure_prob) <= share * SUM,
            f"the certificate of {name} may fail more often than the ledger says",
        )
    lost = total(shares[name] for name in tried if not tried[name])
    what = "what is paid for routes that came to nothing"
    about(what, made.budget.get(LOST, 0), lost)


def shares_of(ledger: Fields) -> dict[str, arb]:
    """What a ledger has for each entry, none negative, none twice, together no more than its total."""
    shares = {
        name: exactly(amount) for name, amount in ledger.entries
    }
    require(
        len(shares) == len(ledger.entries)
        and all(share >= 0 for share in shares.values())
        and total(shares.values()) <= exactly(ledger.total) * SUM,
        f"the ledger's entries are {ledger.entries}, of {ledger.total!r}",
    )
    return shares


def _counts(record: Fields) -> None:
    """Errors and sizes of each route are those of its certificate, and the two parts of the split make all records."""
    split = record.split
    for one in _certified(record):
        made = one.certificate
        name = one.name
        same(f"the records behind {name}", made.inputs.n, one.bound)
        require(
            one.bound <= split.n and one.train <= split.n,
            f"{name} rests on more than the {split.n} records",
        )
        if one.route == "held-out count":
            same(
                f"training records of {name}", one.train, split.train
            )
            same("both parts", one.train + one.bound, split.n)
            about(f"the error of {name}", one.error, mean_of(made))
        for unit in units(made):
            same(f"the unit of {name}", unit, split.unit)


def _remarks(record: Fields) -> None:
    """What certificates take for true of inputs that stand on both sides of the split is remarked on."""
    tried = [one.certificate for one in _certified(record)]
    due = of_equal_inputs([record.certificate, *tried])
    require_due(record.remarks, due)


def _told(record: Fields) -> None:
    told = [*record.unasked("format"), "other routes' errors"]
    raise Unchecked(
        f"nothing in the file determines {', '.join(told)}"
    )
