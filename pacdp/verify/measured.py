"""What a report counts: settings paid for, rows, records and measured errors, alike everywhere and each once."""

import re
from collections.abc import Iterator
from typing import Any

from flint import arb  # pyright: ignore[reportMissingImports]

from pacdp.verify.claim import (
    Fields,
    Unchecked,
    about,
    exactly,
    number,
    parsed,
    require,
    same,
    without_unit,
)
from pacdp.verify.files import text_of

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
_PAID = re.compile(
    r"(?:a list of|among) (\d+)(?: settings)?, all paid for"
)
"""How a hypothesis says among how many settings was chosen."""


_KNOWN_BY = {
    "certificates": "",
    "not_applicable": "",
    "measured": "of on loss",
    "monte_carlo": "loss",
    "statements": "of quantity",
}
"""By which entries one is known among others; by all of them where none are named."""


def _paid_for(report: Fields) -> None:
    """The count of settings is a whole number, and every certificate says that so many were paid for."""
    count = 1
    if report.choices is not None or report.rows:
        count = report.part("choices")["count"]
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
    chain = (dict.get(report, "subject") or {}).get("data")
    private = "counts" in report.details
    if report.rows:
        named = [one.digest for one in report.rows.values() if one]
        require(
            len(named) == len(set(named)),
            "one digest is that of two sets of rows",
        )
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
    parts = {**report, **report.details}
    for name, words in _KNOWN_BY.items():
        texts = [
            text_of({key: one[key] for key in words.split() or one})
            for one in parts.get(name) or ()
        ]
        twice = [one for one in texts if texts.count(one) > 1]
        require(not twice, f"{name} has twice {twice[:1]}")


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


def same_rows(report: Fields) -> None:
    """Rows, records and measured errors are as many as the report says."""
    _sizes(report)


def agrees(report: Fields) -> None:
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


def bounded(report: Fields) -> None:
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


def held_by_nothing(report: Fields) -> Iterator[str]:
    """Rows that are not named, and what was measured and no certificate, draw or row repeats."""
    if report.rows:
        yield "the digests of rows, but with --data"
    elif report.choices:
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


SHARED = {
    "measured errors": _measured,
    "settings paid for": _paid_for,
    "rows named": _named_rows,
    "nothing twice": _once,
}
"""What is asked of every report, whatever its route."""
