"""A report, a certificate or a folder, and the program that prints a verdict on each statement in it.

``check_path`` asks what a path is. ``check_run`` is a report on a run or a network: what its certificates share, every
measured error and every epsilon. A report on predictions is in ``predicted``, that of ``pacdp.self_certify`` in
``selfcertified``.
"""

import argparse
import json
import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from flint import arb  # pyright: ignore[reportMissingImports]

from pacdp.verify import loss, needs
from pacdp.verify.certificate import FORMAT as CERTIFICATE
from pacdp.verify.certificate import (
    check_certificate,
    require_of_a_chain,
)
from pacdp.verify.claim import (
    CANNOT,
    DAMAGED,
    DOES_NOT,
    Fields,
    Statement,
    Unchecked,
    about,
    all_judged,
    exactly,
    fields,
    judged,
    number,
    parsed,
    require,
    same,
    without_unit,
)
from pacdp.verify.events import steps_of
from pacdp.verify.files import (
    other_format,
    read_checkpoint,
    read_json,
    text_of,
)
from pacdp.verify.folder import check_folder, proofs_redone
from pacdp.verify.predicted import ROUTE, check_predictions
from pacdp.verify.recount import recount
from pacdp.verify.release import (
    WEIGHTS,
    check_release,
    check_weights,
)
from pacdp.verify.selfcertified import FORMAT as SELF_CERTIFIED
from pacdp.verify.selfcertified import check_self_certified

FORMAT = "pacdp-certificates/2"
UNREADABLE = 2
UNSOUND = 1
OPEN = 3
"""Exit statuses: nothing could be read, something does not follow, something cannot be checked."""
_RESCALED = " risk, rescaled to [0, 1]"
_MEASURED = {
    "0-1 risk": "zero-one",
    "half the Brier risk": "brier",
    "ECE": "ece",
}
"""The measured loss by the risk that is its mean."""
_APART = "differs from the surrogate"
_SHARES = ("zero-one", _APART)
"""Measured losses that are shares of the records."""
_OF_RUNS = "accounted counts charged_steps stopping_times"
"""Details that a run's folder, or an epsilon, is held against."""
_KEYS = """
    format route subject n unit examples failure_prob certificates not_applicable measured monte_carlo prior privacy
    rows choices gibbs diagnosis details provenance
"""
"""What every report has, be it null."""
_PAID = re.compile(
    r"(?:a list of|among) (\d+)(?: settings)?, all paid for"
)
"""How a hypothesis says among how many settings was chosen."""
_ENDS = {
    "epsilon": False,
    "upper": False,
    "epsilon_add_remove": False,
    "epsilon_replace_one": True,
}
"""What must be private enough at the delta beside it, and whether it is for replace-one neighbours whatever is said."""


def check_path(
    path: Path,
    *,
    data: str | None = None,
    model: str | None = None,
) -> list[Statement]:
    """All statements of a file of certificates, or of a run's folder."""
    beside = list[Statement]()
    redone = set[str]()
    file = path / "certificates.json" if path.is_dir() else path
    report = read_json(file)
    if (path / WEIGHTS).is_file() and report is None:
        beside = check_weights(path)
    elif (path / WEIGHTS).is_file():
        beside = check_release(path, report)
    elif path.is_dir():
        beside = check_folder(path, report)
        redone = proofs_redone(path, report, beside)
    if report is None:
        return beside
    if data or model:
        stored = read_checkpoint(file.parent / "checkpoint.safetensors")
        beside += recount(report, stored, data, model)
    form = report.get("format")
    if form == SELF_CERTIFIED:
        return [*check_self_certified(report), *beside]
    if form == CERTIFICATE:
        alone = "no report beside the certificate says what was measured, and of what"
        bare = Statement(file.name, "what it is about", CANNOT, alone)
        return [*check_certificate(report), bare, *beside]
    return [*check_report(report, redone), *beside]


def check_report(
    report: Mapping[str, Any], redone: Collection[str] = ()
) -> list[Statement]:
    """All statements of a report, and of the reports in it.

    ``redone`` names the hypotheses whose proofs were done again from the files beside the report.
    """
    r = fields(report)
    if r.get("format") != FORMAT:
        known = f"{FORMAT}, {CERTIFICATE} and {SELF_CERTIFIED}"
        why = other_format(r.get("format"), known, r.get("provenance"))
        return [Statement("report", "format", CANNOT, why)]
    if missing := set(_KEYS.split()) - r.keys():
        why = f"its format has {', '.join(sorted(missing))}, and they are not there"
        return [Statement("report", "format", DOES_NOT, why)]
    if r.get("route") == ROUTE:
        found = [
            *check_predictions(r),
            judged("report", "numbers of rows", _same_rows, r),
            *all_judged("report", _SHARED, r),
            *_told_beside(r, "prior", "references"),
        ]
    else:
        found = check_run(r, redone)
    for name, other in r.part("details").part("references").items():
        for said in check_report(other):
            found.append(
                said._replace(subject=f"{name}: {said.subject}")
            )
    return found


def check_run(
    report: Fields, redone: Collection[str]
) -> list[Statement]:
    """Every certificate, what they share, every measured error, every epsilon of a mechanism, and what is only told."""
    found = list[Statement]()
    privacy = report.get("privacy")
    for made in report.certificates:
        found += check_certificate(made, privacy, redone, True)
    checks = {
        "certificates agree with it": _agrees,
        **_SHARED,
        "what is bounded": _bounded,
        "hypotheses of the prior": _of_the_prior,
    }
    found += all_judged("report", checks, report)
    if (subject := report.part("subject")).get("sampler"):
        given = report.certificates, subject, report.examples
        found.append(
            judged("report", "hypotheses", require_of_a_chain, *given)
        )
    event = report.part("privacy").get("event")
    spent = {**report.part("details").part("spent"), "event": event}
    for claim in _epsilons([report, spent]):
        found.append(judged("report", "epsilon", _epsilon, claim))
    why = "nothing in the file says whether a certificate was taken out of it"
    return [
        *found,
        *_told_beside(report, "prior", _OF_RUNS),
        Statement("report", "completeness", CANNOT, why),
    ]


def _told_beside(
    report: Fields,
    told: str,
    of_details: str,
) -> list[Statement]:
    """What a report says that nothing in it determines, but for what is known to be told, or judged elsewhere."""
    parts = {
        "": (report, f"subject provenance {told}"),
        "choices.": (dict.get(report, "choices"), "count"),
        "details.": (report.part("details"), of_details),
    }
    names = [
        f"{where}{name}"
        for where, (part, words) in parts.items()
        for name in (part or Fields()).unasked(words)
        if part[name]
    ]
    names += _held_by_nothing(report)
    if not names:
        return []
    why = f"nothing in the file determines {', '.join(names)}"
    return [Statement("report", "what is told beside", CANNOT, why)]


def _held_by_nothing(report: Fields) -> Iterator[str]:
    """Rows that are not named, and what was measured and no certificate, draw or row repeats."""
    if not report.rows and report.choices:
        yield "rows, which are null"
    held = {
        ("randomised", "bound", one.loss) for one in report.monte_carlo
    }
    for made in report.certificates:
        loss = _loss_of(report, made)
        if loss in _SHARES:
            held.add((made.of, _role(made), loss))
    for one in report.measured:
        if (one.of, one.on, one.loss) not in held:
            yield f"the measured {one.loss} of {one.of} on {one.on}"


def _paid_for(report: Fields) -> None:
    """The count of settings is a whole number, and every certificate says that so many were paid for."""
    count = 1
    if report.choices is not None:
        count = report.choices["count"]
    require(
        type(count) is int and count >= 1,
        f"the count of settings is {count!r}",
    )
    for made in report.certificates:
        for one in made.hypotheses:
            if one.name == "settings fixed beforehand":
                said = _PAID.findall(one.by) or ["1"]
                what = (
                    f"the count of settings that {made.name} pays for"
                )
                same(what, int(said[-1]), count)


def _named_rows(report: Fields) -> None:
    """What hashes of rows show is shown of rows that are named, and each set that was measured on is among them."""
    used = {one.on for one in report.measured} | {"bound"}
    chain = report.part("subject").get("data")
    private = "counts" in report.details
    if report.rows:
        missing = {role for role in used if not report.rows.get(role)}
        require(
            not missing,
            f"the rows of {', '.join(sorted(missing))} are not named",
        )
    elif report.choices and not (chain or private):
        require(
            report.route in ("gibbs", "released"),
            "the report names no rows, and its route compares them",
        )


def _once(report: Fields) -> None:
    """Nothing stands twice: no certificate, no row, no measured value, no sum of draws, no refusal."""
    details = report.details
    keys = {
        "certificates": "",
        "not_applicable": "",
        "measured": "of on loss",
        "monte_carlo": "loss",
    }
    lists = {name: report[name] for name in keys}
    lists["statements"] = details.get("statements", [])
    keys["statements"] = "of quantity"
    for name, found in lists.items():
        words = keys[name].split()
        texts = [
            text_of({key: one[key] for key in words or one})
            for one in found
        ]
        twice = [one for one in texts if texts.count(one) > 1]
        require(
            not twice,
            f"{name} has twice {', '.join(twice[:1])}",
        )


def _of_the_prior(report: Fields) -> None:
    """Where the prior's maker saw some rows freely, certificates at its price say that these are others."""
    for made in report.certificates:
        standing = needs.standings(made)
        if needs.COVERED in standing:
            names = needs.of_the_prior(report.get("prior"))
            needs.require_named(names, standing)


def _role(made: Fields) -> str:
    """The examples that a certificate counts: those of the bound, or of the test set."""
    return "test" if made.name.startswith("test_set") else "bound"


def _loss_of(report: Fields, made: Fields) -> str | None:
    """The measured loss whose mean a certificate bounds; None where it bounds another quantity."""
    if made.name == "disagreement":
        return _APART
    measures = without_unit(made.measures, report.unit)
    if measures.endswith(_RESCALED):
        return measures.removesuffix(_RESCALED)
    return _MEASURED.get(measures)


def _bounded(report: Fields) -> None:
    """Predictor and loss of each certificate are among those that the report measured."""
    measured = {(one.of, one.on, one.loss) for one in report.measured}
    left = {
        f"{made.measures} of {made.of}": None
        for made in report.certificates
        if (made.of, _role(made), _loss_of(report, made))
        not in measured
    }
    if left:
        raise Unchecked(f"nothing was measured of {'; '.join(left)}")


def _sizes(report: Fields) -> dict[str, set[int | None]]:
    """How many records each set of rows has, which is what was measured on it."""
    rows = report.part("rows")
    people = report.n
    if report.unit == "example":
        same("the number of examples", report.examples, report.n)
        people = None
    if bound := rows.get("bound"):
        said = bound.n, bound.people
        same("the number of rows", said, (report.examples, people))
    sizes: dict[str, set[int | None]] = {
        "bound": {report.n, report.examples},
        "test": {one.n for one in report.measured},
    }
    for role, said in rows.items():
        if said:
            sizes[role] = {said.n, said.people or said.n}
    for one in report.measured:
        require(
            one.n in sizes.get(one.on, ()),
            f"{one.of} was measured on {one.n} records",
        )
    return sizes


def _same_rows(report: Fields) -> None:
    """Rows, records and measured errors are as many as the report says."""
    _sizes(report)


def _agrees(report: Fields) -> None:
    """Certificates and measured errors count the report's records, at its failure probability and its privacy."""
    sizes = _sizes(report)
    whole = exactly(report.failure_prob)
    for made in report.certificates:
        n = made.inputs.get("n")
        own = sizes[_role(made)]
        require(
            n is None or n in own,
            f"{made.name} counts {n} records, and the report {own}",
        )
        about(f"failure_prob of {made.name}", made.failure_prob, whole)
        _check_shared(report, made)


def _check_shared(report: Fields, made: Fields) -> None:
    """A certificate has the report's promise of privacy, divergence and event."""
    inputs = made.inputs
    privacy = report.part("privacy")
    expected = dict[str, Any]()
    if "privacy_notion" in inputs:
        for name, said in privacy.part("record").items():
            expected[f"privacy_{name}"] = said
    kl = report.part("details").get("kl_nats")
    if made.of == "randomised" and kl is not None:
        expected["kl_nats"] = kl
    for name, said in expected.items():
        same(f"{name} of {made.name}", inputs.get(name, said), said)
    event = parsed(inputs.get("privacy_event", "null"))
    require(
        not event or privacy.get("event") in (None, event),
        f"{made.name} rests on another event than the report",
    )


def _measured(report: Fields) -> None:
    """Means are those of the counts beside them, and certificates are made of what was measured."""
    means = {(one.of, one.on, one.loss): one for one in report.measured}
    for one in report.measured:
        _check_mean(one, report.unit)
    for one in report.monte_carlo:
        draws = one.n * one.passes
        what = f"the mean {one.loss} loss"
        said = means["randomised", "bound", one.loss]
        about(what, one.mean, arb(one.total) / draws / 2**32)
        about(
            f"randomised {one.loss} loss",
            said.mean,
            exactly(one.mean),
        )
        require(
            1 <= one.terms <= draws,
            f"{one.terms} independent terms are said to be in {one.passes} passes",
        )
    for made in report.certificates:
        inputs = made.inputs
        counted = _loss_of(report, made)
        if "monte_carlo_mean" in inputs:
            said = inputs.monte_carlo_mean, inputs.monte_carlo_draws
            require(
                said
                in [
                    (one.mean, one.terms) for one in report.monte_carlo
                ],
                f"{made.name} rests on draws that the report does not have",
            )
        said = means.get((made.of, _role(made), counted))
        if said is not None and counted in _SHARES:
            _check_counted(made, said)


def _check_mean(one: Fields, unit: str) -> None:
    """A mean loss is one, and that of the errors counted, which are no more than the records."""
    mean = number(one.mean)
    require(
        0 <= mean and (mean <= 1 or one.loss not in _SHARES),
        f"the mean of {one.of} is {mean!r}",
    )
    if one.errors is not None and unit == "example":
        require(
            type(one.errors) is int and 0 <= one.errors <= one.n,
            f"{one.errors!r} of {one.n} are said to be in error",
        )
        exact = arb(one.errors) / one.n
        about(f"the mean of {one.of}", mean, exact)


def _check_counted(made: Fields, said: Fields) -> None:
    """A certificate's errors, or its mean, are those that were measured."""
    inputs = made.inputs
    name = made.name
    if name == "compression":
        # all that is in error is among the k records kept
        require(
            said.errors is None or said.errors <= inputs.k,
            f"{said.errors} records are in error, and no more than {inputs.get('k')} were kept",
        )
    elif "k" in inputs:
        measured = said.errors, said.n
        same(f"what {name} counts", (inputs.k, inputs.n), measured)
    if "monte_carlo_mean" in inputs:
        mean = exactly(said.mean)
        about(
            f"monte_carlo_mean of {name}",
            inputs.monte_carlo_mean,
            mean,
        )
    elif "risk" in inputs and not name.startswith(
        ("dp_", "printed", "vote_")
    ):
        about(f"risk of {name}", inputs.risk, exactly(said.mean))


_SHARED = {
    "measured errors": _measured,
    "settings paid for": _paid_for,
    "rows named": _named_rows,
    "nothing twice": _once,
}
"""What is asked of every report, whatever its route."""


def _epsilons(value: Any) -> Iterator[Fields]:
    """Everything in a report that has an event and an epsilon beside it; nested reports are asked themselves."""
    parts = value if isinstance(value, list) else list[Any]()
    if isinstance(value, Mapping):
        if (
            isinstance(value.get("event"), Mapping)
            and _ENDS.keys() & value.keys()
        ):
            yield fields(value)
        parts = [
            part for name, part in value.items() if name != "references"
        ]
    for part in parts:
        yield from _epsilons(part)


def _epsilon(claim: Fields) -> None:
    """The event is (ε, δ)-private in both directions for each ε that stands beside it."""
    steps = sum(steps_of(claim.event).values())
    same(
        "the number of mechanisms",
        claim.get("mechanisms", steps),
        steps,
    )
    for name in _ENDS.keys() & claim.keys():
        said = number(claim[name])
        delta = number(claim.delta)
        replaced = (
            _ENDS[name] or claim.get("adjacency") == "replace-one"
        )
        ran = steps_of(claim.event)
        if not loss.chosen_on_samples(ran):
            ran = steps_of(claim.event, replaced)
        if said < math.inf:
            what = f"{name} = {said!r} at delta = {delta!r}"
            loss.require_private(what, ran, said, delta, replaced)


def main(argv: Sequence[str] | None = None) -> int:
    """Print a verdict on each statement.

    Returns the exit status: 0 where everything follows, 1 if anything does not follow, 2 if there is nothing to read,
    3 if something cannot be checked and all else follows.
    """
    args = _parser().parse_args(argv)
    try:
        found = check_path(
            Path(args.path), data=args.data, model=args.model
        )
        if not found:
            raise ValueError(
                "it is neither a file of certificates nor a run's folder"
            )
    except (
        OSError,
        ImportError,
        RecursionError,
        MemoryError,
        *DAMAGED,
    ) as error:
        print(
            f"pacdp verify: cannot read {args.path}: {type(error).__name__}: {error}"
        )
        return UNREADABLE
    if args.json:
        print(json.dumps([one._asdict() for one in found], indent=2))
    for one in () if args.json else found:
        because = f", because {one.why}" if one.why else ""
        print(f"{one.verdict}: {one.subject}, {one.claim}{because}")
    verdicts = {one.verdict for one in found}
    if DOES_NOT in verdicts:
        return UNSOUND
    return OPEN if CANNOT in verdicts else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="pacdp verify", description=__doc__
    )
    helps = {
        "path": "a file of certificates, or a run's folder",
        "--data": "module:callable that returns the bound's inputs, labels and, if known, people",
        "--model": "module:callable that returns the network, to count its errors on those rows",
    }
    for name, said in helps.items():
        parser.add_argument(name, help=said)
    parser.add_argument(
        "--json", action="store_true", help="print JSON"
    )
    return parser
