"""A report, a certificate or a folder, and the program that prints a verdict on each statement in it.

``check_path`` asks what a path is, ``check_report`` what a report is: its certificates, what they share, every measured
error and every epsilon. ``_OF_ROUTES`` lists what is asked of a report by its route.
"""

import json
import sys
from argparse import ArgumentParser
from collections.abc import Collection, Iterator, Mapping, Sequence
from math import inf
from pathlib import Path
from typing import Any

from pacdp.verify import loss
from pacdp.verify.certificate import FORMAT as CERTIFICATE
from pacdp.verify.certificate import (
    TOLD,
    check_certificate,
    read_claim,
)
from pacdp.verify.claim import (
    CANNOT,
    DAMAGED,
    DOES_NOT,
    FOLLOWS,
    Checks,
    Fields,
    Statement,
    Unchecked,
    damage,
    hold,
    judged,
    number,
    parsed,
    require,
    require_asked,
)
from pacdp.verify.compressed import check_told
from pacdp.verify.events import replaces, steps_of
from pacdp.verify.files import (
    SETTINGS,
    WEIGHTS,
    other_format,
    read_checkpoint,
    read_json,
    unasked,
)
from pacdp.verify.folder import (
    check_events,
    check_folder,
    proofs_redone,
)
from pacdp.verify.measured import (
    SHARED,
    agrees,
    at_price_zero,
    held_by_nothing,
)
from pacdp.verify.needs import require_of_a_chain
from pacdp.verify.predicted import OF_PREDICTIONS
from pacdp.verify.prior import (
    of_finitely_many,
    price_of_the_prior,
    the_prior,
)
from pacdp.verify.recount import recount
from pacdp.verify.release import check_release
from pacdp.verify.selfcertified import OF_SELF_CERTIFIED

FORMAT = "pacdp-certificates/2"
UNREADABLE = 2
UNSOUND = 1
OPEN = 3
"""Exit statuses: nothing could be read, something does not follow, something cannot be checked."""
_WORDS = "format route n unit examples failure_prob".split()
_PARTS = """
    subject certificates not_applicable measured monte_carlo prior privacy rows choices gibbs diagnosis details
    provenance
""".split()
"""What every report has, be it null: numbers and words, and records, or lists of records."""
_ENDS = {
    "epsilon": False,
    "upper": False,
    "epsilon_add_remove": False,
    "epsilon_replace_one": True,
}
"""What must be private enough at the delta beside it, and whether it is for replace-one neighbours whatever is said."""


def check_path(
    path: Path, *, data: str | None = None, model: str | None = None
) -> list[Statement]:
    """All statements of a file of certificates, or of a run's folder."""
    path = path.absolute()  # which has a name, as "." has not
    file = path / "certificates.json" if path.is_dir() else path
    report = read_json(file)
    beside = []
    if path.is_dir():
        # weights of anybody have no header of pacdp
        weights = path / WEIGHTS
        exported = weights.is_file() and (
            (path / SETTINGS).is_file()
            or read_checkpoint(weights).header
        )
        check = check_release if exported else check_folder
        beside = check(path, report)
    if report is None:
        return beside
    if not beside and type(report["format"]) is not str:
        raise ValueError(
            f"{file.name}: it names no format, as every file of certificates does"
        )
    redone = proofs_redone(path, report, beside)
    if data or model:
        stored = read_checkpoint(
            file.parent / "checkpoint.safetensors"
        )
        beside += recount(report, stored, data, model)
    if report["format"] != CERTIFICATE:
        return [*check_report(report, redone), *beside]
    alone = "no report beside the certificate says what was measured, and of what"
    bare = Statement(file.name, "what it is about", CANNOT, alone)
    return [*check_certificate(report), bare, *beside]


def _format(r: Fields) -> None:
    """It is of this checker's format, and holds all that every report of it has."""
    if r["format"] != FORMAT:
        known = f"{FORMAT} and {CERTIFICATE}"
        why = other_format(r["format"], known, r["provenance"])
        raise Unchecked(why)
    missing = ", ".join(sorted({*_WORDS, *_PARTS} - r.keys()))
    why = f"its format has {missing}, and they are not there"
    require(not missing, why)
    for name in _PARTS:
        said = dict.get(r, name) or []
        parts = said if isinstance(said, list) else [said]
        require(
            all(isinstance(one, Fields) for one in parts),
            f"what stands under {name!r} is no record, with names and values: check the file as it was written",
        )


def check_report(
    report: Mapping[str, Any], redone: Collection[str] = ()
) -> list[Statement]:
    """All statements of a report and those in it; ``redone`` names hypotheses proved again by the files beside it."""
    r = parsed(report)
    (form,) = judged("report", {"format": _format}, r)
    if form.verdict != FOLLOWS:
        return [form]
    table = r.route == "predictions"
    joined = table and "budget" not in r.part("details")
    found = []
    for made in r.certificates:
        own = check_certificate(made, r.privacy, redone, not table)
        if table:
            whose = f"{made['measures']} of {made['of']}"
            own = [one._replace(subject=whose) for one in own]
        found += own
    details = r.part("details")
    checks = {
        claim: check
        for claim, (name, check) in _OF_DETAILS.items()
        if name in details
    }
    checks |= (
        _OF_JOINED if joined else _OF_ROUTES.get(r.route, _OF_RUNS)
    )
    if r.route == "finite":
        checks["weights of networks"] = of_finitely_many
    found += judged("report", checks, r)
    if r.route not in _OF_ROUTES:
        found += _of_a_run(r)
    found += judged("report", {"what is told beside": _beside}, r)
    for name, other in details.part("references").items():
        own = check_report(other)
        found += [
            one._replace(subject=f"{name}: {one.subject}")
            for one in own
        ]
    return found


def _each(report: Fields) -> None:
    """Of a report that was joined from two, no certificate fails more often than is said of each."""
    worst = max(one.failure_prob for one in report.certificates)
    require(
        worst <= report.failure_prob,
        f"one fails with {worst}, and each is said to with {report.failure_prob}",
    )


def _at_once(_: Any) -> None:
    raise Unchecked(
        "there is no budget, as where two reports were joined, whose certificates then hold each by itself"
    )


def _of_a_run(report: Fields) -> list[Statement]:
    """What a chain leaves unproved, every epsilon of a mechanism, and that certificates may lack."""
    found = []
    if report.part("subject")["sampler"]:
        of_a_chain = {"hypotheses": require_of_a_chain}
        given = (
            map(read_claim, report.certificates),
            report.subject,
            report.examples,
        )
        found += judged("report", of_a_chain, *given)
    epsilons = [*_epsilons(report)]
    if spent := report.part("details")["spent"]:
        epsilons.append((spent, report.part("privacy")["event"]))
    for given in epsilons:
        found += judged("report", {"epsilon": _epsilon}, *given)
    why = "nothing in the file says whether a certificate was taken out of it"
    last = Statement("report", "completeness", CANNOT, why)
    return [*found, last]


def _beside(report: Fields) -> None:
    """Nothing is told that nothing in it, or beside it, determines; certificates name their own."""
    names = [
        *unasked(report, ("certificates", "details.references")),
        *held_by_nothing(report),
    ]
    for made in report.certificates:
        names += sorted({*unasked(made)} & TOLD)
    require_asked(names)


_OF_RUNS: Checks = {
    "certificates agree with it": agrees,
    **SHARED,
    "what is said of the prior": the_prior,
    "hypotheses of the prior": price_of_the_prior,
    "what ran": check_events,
}
_OF_JOINED: Checks = {
    "failure probability of each by itself": _each,
    "what held at once": _at_once,
    **SHARED,
}
_OF_DETAILS = {
    "value at a price of zero": ("at_price_zero", at_price_zero),
    "rounds": ("compression", check_told),
    "epsilon in its bracket": (
        "spent",
        lambda r: loss.require_bracket(r.details.spent),
    ),
}
_OF_ROUTES = {
    "predictions": OF_PREDICTIONS,
    "self-certified": OF_SELF_CERTIFIED,
}
"""What is asked of a report on a run or a network, and of those of other routes."""


def _epsilons(value: Any) -> Iterator[tuple[Fields, Fields]]:
    """Everything in a report that has an event and an epsilon beside it; nested reports are asked themselves."""
    parts = value if isinstance(value, list) else []
    if isinstance(value, Fields):
        event = isinstance(dict.get(value, "event"), Fields)
        if _ENDS.keys() & value.keys() and event:
            yield value, value.event
        parts = [
            part
            for name, part in value.items()
            if name != "references"
        ]
    for part in parts:
        yield from _epsilons(part)


def _epsilon(claim: Fields, event: Fields) -> None:
    """The event is (ε, δ)-private in both directions for each ε that stands beside it."""
    added = steps_of(event)
    hold("it.mechanisms? = steps", it=claim, steps=len(added))
    for name in _ENDS.keys() & claim.keys():
        said = number(claim[name])
        delta = number(claim.delta)
        replaced = _ENDS[name]
        if not name.startswith("epsilon_"):
            replaced = replaces(claim["adjacency"])
        ran = added
        if not loss.chosen_on_samples(added):
            ran = steps_of(event, replaced)
        if said < inf:
            what = f"{name} = {said!r} at delta = {delta!r}"
            loss.require_private(what, ran, said, delta, replaced)


_ARGUMENTS = {
    "path": "a file of certificates, or a run's folder",
    "--data": "module:callable that returns the bound's inputs, labels and, if known, people",
    "--model": "module:callable that returns the network, to count its errors on those rows",
}
"""What the program is given."""
_NOTHING = {
    True: "it is neither a file of certificates nor a run's folder",
    False: "there is no such file or folder",
}
"""Why there is nothing to say of a path, by whether it exists."""
_UNFIT = (OSError, ImportError, RecursionError, MemoryError)


def _told(error: BaseException) -> str:
    """What an error says, with its kind or its place where it is no sentence."""
    kind = type(error)
    if kind is ValueError:
        return str(error)
    if isinstance(error, DAMAGED):
        return damage(error)
    return f"{kind.__name__}: {error}"


def main(argv: Sequence[str] | None = None) -> int:
    """Print a verdict on each statement, on one line, with what is not printable escaped.

    Returns the exit status: 0 where everything follows, or ``UNREADABLE``, ``UNSOUND`` or ``OPEN``, which say when.
    """
    parser = ArgumentParser(
        prog="pacdp verify", description=__doc__
    )
    for name, said in _ARGUMENTS.items():
        parser.add_argument(name, help=said)
    parser.add_argument(
        "--json", action="store_true", help="print JSON"
    )
    args = parser.parse_args(argv)
    path = Path(args.path)
    try:
        found = check_path(path, data=args.data, model=args.model)
        if not found:
            raise ValueError(_NOTHING[path.exists()])
    except (*_UNFIT, *DAMAGED) as error:
        print(
            f"pacdp verify: cannot read {args.path}: {_told(error)}",
            file=sys.stderr,
        )
        return UNREADABLE
    if args.json:
        listed = [one._asdict() for one in found]
        print(json.dumps(listed, indent=2))
    for one in () if args.json else found:
        because = f", because {one.why}" if one.why else ""
        line = f"{one.verdict}: {one.subject}, {one.claim}{because}"
        shown = (
            c if c.isprintable() else ascii(c)[1:-1] for c in line
        )
        print("".join(shown))
    verdicts = {one.verdict for one in found}
    if DOES_NOT in verdicts:
        return UNSOUND
    return OPEN if CANNOT in verdicts else 0
