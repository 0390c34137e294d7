"""What ``pacdp.self_certify`` writes: the smallest of several certificates, each at its share of one ledger."""

from collections.abc import Iterator, Mapping
from typing import Any

from flint import arb  # pyright: ignore[reportMissingImports]

from pacdp.verify.arithmetic import total
from pacdp.verify.certificate import check_certificate
from pacdp.verify.claim import (
    LOST,
    Fields,
    Statement,
    Unchecked,
    Wrong,
    about,
    exactly,
    fields,
    judged,
    parsed,
)

FORMAT = "pacdp-self-certified/1"
SUM = 1 + 2.0**-45
"""Shares are decimal fractions, added up."""
_KNOWN = {
    "format",
    "certificate",
    "chosen",
    "tried",
    "budget",
    "split",
}


def check_self_certified(record: Mapping[str, Any]) -> list[Statement]:
    """A statement on each certificate, on the choice among them, the ledger, the counts, and on what is only told."""
    made = fields(record)
    found = check_certificate(made.certificate)
    for one in _certified(made):
        for said in check_certificate(one.certificate):
            found.append(said._replace(subject=f"{one.name}: {said.subject}"))
    checks = {
        "choice": _choice,
        "ledger": _ledger,
        "counts": _counts,
        "what is told beside": _told,
    }
    return [
        *found,
        *(
            judged("self-certified", claim, check, made)
            for claim, check in checks.items()
        ),
    ]


def _certified(record: Fields) -> list[Fields]:
    """The routes that came to a certificate."""
    return [one for one in record.tried if one.certificate is not None]


def _choice(record: Fields) -> None:
    """The certificate is the smallest of those tried, and is called by the route that it came from."""
    made, tried = record.certificate, _certified(record)
    names = ("name", "of", "value", "failure_prob")
    listed = [[one.certificate[name] for name in names] for one in tried]
    if parsed(made.inputs.among) != listed:
        raise Wrong(
            "the certificates that were compared are not those of the routes that were tried"
        )
    best = tried[made.inputs.chosen_position]
    if best.name != record.chosen or best.certificate.measures != made.measures:
        raise Wrong(
            f"the route that was chosen is not {record.chosen!r}, or bounds another risk"
        )
    own = set(_standings(made))
    theirs = {said for one in tried for said in _standings(one.certificate)}
    if own - theirs:
        raise Wrong(
            f"the hypothesis {min(own - theirs)[0]!r} stands otherwise in the certificates that were compared"
        )
    missing = dict(theirs).keys() - dict(own).keys()
    if missing:
        raise Wrong(
            f"the hypothesis {min(missing)!r} of a certificate that was compared is left out"
        )


def _standings(certificate: Fields) -> Iterator[tuple[str, str]]:
    return ((one.name, one.standing) for one in certificate.hypotheses)


def _ledger(record: Fields) -> None:
    """Every route is tried at its own share, those that came to nothing too."""
    shares = shares_of(record.budget)
    tried = [one.name for one in record.tried]
    if set(shares) != set(tried):
        raise Wrong(
            f"the ledger pays for {', '.join(shares)}, and {', '.join(tried)} were tried"
        )
    if any(not share > 0 for share in shares.values()):
        raise Wrong("the ledger has nothing for a route")
    whole = exactly(record.budget.total) * SUM
    if not exactly(record.certificate.failure_prob) <= whole:
        raise Wrong("the certificate may fail more often than the ledger says")
    lost = total(
        shares[one.name] for one in record.tried if one.certificate is None
    )
    said = record.certificate.budget.get(LOST, 0)
    about("what is paid for routes that came to nothing", said, lost)
    for one in _certified(record):
        if not exactly(one.certificate.failure_prob) <= shares[one.name] * SUM:
            raise Wrong(
                f"the certificate of {one.name} may fail more often than its share"
            )


def shares_of(ledger: Fields) -> dict[str, arb]:
    """What a ledger has for each entry, none negative, none twice, together no more than its total."""
    shares = {name: exactly(amount) for name, amount in ledger.entries}
    if len(shares) < len(ledger.entries) or any(
        not share >= 0 for share in shares.values()
    ):
        raise Wrong(f"the ledger's entries are {ledger.entries}")
    if not total(shares.values()) <= exactly(ledger.total) * SUM:
        raise Wrong(f"the ledger spends more than {ledger.total!r}")
    return shares


def _counts(record: Fields) -> None:
    """Errors and sizes of each route are those of its certificate, and the two parts of the split make all records."""
    for one in _certified(record):
        inputs, split = one.certificate.inputs, record.split
        if (
            inputs.n != one.bound
            or not one.bound <= split.n
            or not one.train <= split.n
        ):
            raise Wrong(
                f"{one.name} rests on {inputs.n} records, of {one.bound} and {split.n}"
            )
        if one.route == "held-out count":
            _check_held_out(one, split)
        units = {
            said.unit
            for said in one.certificate.hypotheses
            if said.name == "records independent"
        }
        if units != {split.unit}:
            raise Wrong(
                f"{one.name} counts records of unit {', '.join(units)!r}, and the split {split.unit!r}"
            )


def _check_held_out(one: Fields, split: Fields) -> None:
    inputs = one.certificate.inputs
    if one.train != split.train or one.train + one.bound != split.n:
        raise Wrong(
            f"{one.name} splits {split.n} records into {one.train} and {one.bound}"
        )
    measured = (
        arb(inputs.k) / inputs.n if "k" in inputs else exactly(inputs.risk)
    )
    about(f"the error of {one.name}", one.error, measured)


def _told(record: Fields) -> None:
    told = sorted(record.keys() - _KNOWN)
    raise Unchecked(
        f"nothing in the file determines {', '.join(told)} and other routes' errors"
    )
