"""What a report counts: settings paid for, rows, records and measured errors, alike everywhere and each once."""

import re
from collections.abc import Collection, Iterable, Iterator
from typing import Any

from flint import arb  # pyright: ignore[reportMissingImports]

from pacdp.verify.arithmetic import ball, kl_upper, total
from pacdp.verify.claim import (
    GROUPED,
    Checks,
    Claim,
    Fields,
    Unchecked,
    about,
    agree,
    exactly,
    hold,
    number,
    parsed,
    require,
    same,
)
from pacdp.verify.files import text_of
from pacdp.verify.needs import check_units

_BY_COUNTS = ("predictions", "self-certified")
"""Routes whose certificates are of counts, that need not stand among what was measured."""
SUM = 1 + 2.0**-45
"""Shares of a ledger are decimal fractions, added up."""
_APART = "differs from the surrogate"
_MEASURED = {
    "0-1 risk": "zero-one",
    "half the Brier risk": "brier",
    "ECE": "ece",
}
"""The measured loss by the risk that is its mean."""
_RANGES = {"zero-one": (0, 1), "brier": (0, 2)}
"""Between which values a loss lies."""
_OF_A_RAMP = ("dp_", "printed")
"""How certificates begin whose risk may be that of a loss above the 0-1 loss."""
_SHARES = ("zero-one", _APART)
"""Measured losses that are shares of the records."""
_OF_NOTHING_MEASURED = ("split_kl", "recursive", "_bernstein")
"""How the names of bounds end whose inputs are held against nothing that a report measures."""
_PAID = re.compile(
    r"(?:a list of|among) (\d+)(?: settings)?, all paid for"
)
"""How a hypothesis says among how many settings was chosen."""
_KL = {"randomised": "details", "Gibbs classifier": "gibbs"}
"""Where a report says the divergence of the law that a predictor is drawn from."""
_KNOWN_BY = {
    "certificates": "",
    "not_applicable": "",
    "measured": "of on loss",
    "monte_carlo": "loss",
    "statements": "of quantity",
}
"""By which entries one is known among others; by all of them where none are named."""


def without_unit(measures: str, unit: str) -> str:
    """A risk's name without the kind of record that has several examples, where it is the risk of a new one."""
    return measures.removesuffix(
        f" of a new {unit}" if unit in GROUPED else ""
    )


def require_due(said: Collection[str], due: Iterable[str]) -> None:
    """Raise Wrong where a remark that is due is not there, and Unchecked where there are others."""
    due = list(due)
    for one in due:
        require(one in said, f"there is no remark that {one}")
    require(len({*said}) == len(said), "a remark stands twice")
    told = [one for one in said if one not in due]
    if told:
        raise Unchecked(
            f"nothing in the file determines that {'; '.join(told)}"
        )


def at_price_zero(report: Fields) -> None:
    """The first of this name keeps its error, n, failure probability and ln ξ(n), and pays for nothing else."""
    said = report.details.at_price_zero
    named = (said.name, said.of, said.measures)
    c, *_ = (
        Claim(one)
        for one in report.certificates
        if (one.name, one.of, one.measures) == named
    )
    confidence = -c.failure_prob.log()
    if c.name == "compression":
        exact = 1 - (-confidence / c.n).exp()
    else:
        own = {"log_xi", "log_two_sqrt_n"} & c.costs.keys()
        costs = total(ball(c.costs[name]) for name in own)
        exact = kl_upper(c.risk, (costs + confidence) / c.n)
    agree("the value at a price of zero", said.value, exact)


def shares_of(ledger: Fields) -> dict[str, arb]:
    """What a ledger has for each entry, none negative, none twice, together no more than its total."""
    same("its format", ledger.format, "pacdp-failure-budget/1")
    entries = ledger.entries
    shares = {name: exactly(amount) for name, amount in entries}
    whole = exactly(ledger.total) * SUM
    require(
        len(shares) == len(entries)
        and all(share >= 0 for share in shares.values())
        and total(shares.values()) <= whole,
        f"the ledger's entries are {entries}, of {ledger.total!r}",
    )
    return shares


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
                what = f"the settings that {made.name} pays for"
                same(what, int(said[-1]), count)
        other = parsed(made.inputs.get("surrogate", "{}"))
        for one in other.get("hypotheses", []):
            said = max(map(int, _PAID.findall(one.by)), default=1)
            why = f"the other network is one of {said} settings"
            require(said <= count, why)


def _named_rows(report: Fields) -> None:
    """What hashes of rows show is shown of rows that are named, and each set that was measured on is among them."""
    chain = (dict.get(report, "subject") or {}).get("data")
    if report.rows:
        rows = filter(None, report.rows.values())
        named = [dict.get(one, "digest") for one in rows]
        require(
            all(type(one) is str and one for one in named),
            f"the digests of rows are {named}, and each has to be there",
        )
        require(
            len(named) == len(set(named)),
            "one digest is that of two sets of rows",
        )
        for role in ["bound", *(one.on for one in report.measured)]:
            why = f"the rows of {role} are not named"
            require(report.rows.get(role), why)
    elif report.choices and not chain:
        require(
            report.route in ("gibbs", "released")
            or "counts" in report.details,
            "the report names no rows, and its route compares them",
        )


def _once(report: Fields) -> None:
    """Nothing stands twice: no certificate, no row, no measured value, no sum of draws, no refusal."""
    parts = {**report, **report.details}
    for name, words in _KNOWN_BY.items():
        texts = [
            text_of(
                {k: dict.get(one, k) for k in words.split() or one}
            )
            for one in parts.get(name) or ()
        ]
        twice = [one for one in texts if texts.count(one) > 1]
        require(not twice, f"{name} has twice {twice[:1]}")


def sizes(report: Fields) -> dict[str, set[int | None]]:
    """How many records each set of rows has, which is what was measured on it, and as many as the report says."""
    rows = report.part("rows")
    people = report.n
    if report.unit == "example":
        same("the number of examples", report.examples, people)
        people = None
    found: dict[str, set[int | None]] = {
        "bound": {report.n, dict.get(report, "examples")},
        "test": {one.n for one in report.measured},
    }
    for role, said in rows.items():
        if said:
            require(
                (said.people is None) == (people is None)
                and (said.people or 0) <= said.n,
                f"the {said.n} rows of {role} have {said.people} people",
            )
            found[role] = {said.n, said.people or said.n}
    if bound := rows["bound"]:
        said = bound.n, bound.people
        same("the number of rows", said, (report.examples, people))
    for one in report.measured:
        why = f"{one.of} was measured on {one.n} records"
        require(one.n in found.get(one.on, ()), why)
    return found


def agrees(report: Fields) -> None:
    """Certificates count the report's records, at its failure probability, and have its privacy and divergence."""
    of_rows = sizes(report)
    whole = exactly(report.failure_prob)
    privacy = report.part("privacy")
    ran = dict.get(privacy, "event")
    require(ran is None or isinstance(ran, Fields), f"{ran!r} ran")
    for made in report.certificates:
        name = made.name
        inputs = made.inputs
        own = of_rows[_bounds(report, made)[1]]
        # examples are no records where people, who are fewer, are
        for entry, end in (("n", min), ("examples", max)):
            require(
                inputs[entry] in (None, end(filter(None, own))),
                f"{name} has {inputs[entry]} as {entry}, and the report {own}",
            )
        about(f"failure_prob of {name}", made.failure_prob, whole)
        if "privacy_notion" in inputs:
            for entry in privacy.part("record"):
                said = dict.get(inputs, f"privacy_{entry}")
                what = f"{entry} of the privacy of {name}"
                same(what, said, privacy.record[entry])
        kl = report.part(_KL.get(made.of, ""))["kl_nats"]
        if kl is not None:
            hold("inputs.kl_nats? = kl", inputs=inputs, kl=kl)
        event = parsed(inputs.get("privacy_event", "null"))
        if event and privacy["event"]:
            same(f"the event of {name}", event, privacy.event)


_Key = tuple[str, str, str | None]
"""By which a measured mean is known: of which predictor, on which examples, of which loss."""


def _measured_means(report: Fields) -> dict[_Key, Fields]:
    return {
        (one.of, one.on, one.loss): one for one in report.measured
    }


def _bounds(report: Fields, made: Fields) -> _Key:
    """The measured mean that a certificate bounds; the loss is None where it bounds another quantity."""
    measures = without_unit(made.measures, report.unit)
    loss = _MEASURED.get(measures)
    if made.name == "disagreement":
        loss = _APART
    on = "test" if made.name.startswith("test_set") else "bound"
    vote = made.name.startswith("vote_")  # of those who vote
    return "ensemble" if vote else made["of"], on, loss


def held_by_nothing(report: Fields) -> Iterator[str]:
    """Rows that are not named or counted, what ran unnamed, what was measured and nothing repeats, or was not."""
    if report.choices and not report.rows:
        yield "rows, which are null"
    if report.unit != "example":
        for role, said in report.part("rows").items():
            if said and role != "bound":
                yield f"rows.{role}.n"
    ran = report.part("privacy")["event"]
    for made in report.certificates:
        for what in ("privacy_notion", "sum_mu"):
            event = what.split("_")[0] + "_event"
            if what in made.inputs and not (
                made.inputs[event]
                or (ran and what == "privacy_notion")
            ):
                yield f"what ran for {made.name}"
    means = _measured_means(report)
    for of, on, loss in means:
        counted = means[of, on, loss].errors is not None
        if counted and report.unit != "example":
            yield f"the errors of {of} on {on}"  # whose mean is that over people
    held = {
        ("randomised", "bound", one.loss)
        for one in report.monte_carlo
    }
    for made in report.certificates:
        bounds = _bounds(report, made)
        if bounds[2] in _SHARES:
            held.add(bounds)
        if bounds not in means and report.route not in _BY_COUNTS:
            yield f"the measured {made.measures} of {made.of}"
    for key in means:
        if key not in held:
            of, on, loss = key
            yield f"the measured {loss} of {of} on {on}"


def _measured(report: Fields) -> None:
    """Means are those of the counts beside them, and certificates are made of what was measured."""
    means = _measured_means(report)
    for one in report.measured:
        mean = number(one.mean)
        what = f"the mean of {one.of}"
        most = 1 if one.loss in _SHARES else mean
        require(0 <= mean <= most, f"{what} is {mean!r}")
        errors = one.errors
        if report.unit == "example" and errors is not None:
            require(
                type(errors) is int and 0 <= errors <= one.n,
                f"{errors!r} of {one.n} are said to be in error",
            )
            about(what, mean, arb(errors) / one.n)
    for one in report.monte_carlo:
        alone = report.unit == "example"
        whole = one.n if alone else one.people
        same("the records of draws", whole, report.n)
        _check_draws(one, means["randomised", "bound", one.loss])
    drawn = [(one.mean, one.terms) for one in report.monte_carlo]
    for made in report.certificates:
        inputs = made.inputs
        kind = dict.get(inputs, "chosen", made.name)
        kind = str(dict.get(inputs, "bound", kind))
        holds = not kind.endswith(_OF_NOTHING_MEASURED)
        require(holds, f"no report measures what is in {kind}")
        if "monte_carlo_mean" in inputs:
            said = (
                inputs.monte_carlo_mean,
                inputs.monte_carlo_draws,
            )
            why = f"{made.name} rests on draws that the report does not have"
            require(said in drawn, why)
        said = means.get(_bounds(report, made))
        if said and said.loss != "ece":
            _check_counted(made, said)


def _check_draws(one: Fields, said: Fields) -> None:
    """Their mean is that of the total, and the one that was measured; terms are at most draws."""
    draws = one.n * one.passes
    what = f"the mean {one.loss} loss"
    about(what, one.mean, arb(one.total) / draws / 2**32)
    about(f"randomised {what}", said.mean, exactly(one.mean))
    require(
        1 <= one.terms <= draws,
        f"{one.terms} independent terms are said to be in {one.passes} passes",
    )
    if one.loss in _RANGES:
        ends = one.low, one.high
        same(f"the range of {what}", ends, _RANGES[one.loss])


def _check_counted(made: Fields, said: Fields) -> None:
    """A certificate's errors, or its mean, are those that were measured."""
    inputs = made.inputs
    name = made.name
    if name == "compression":
        # all that is in error is among the k records kept
        require(
            said.errors is None or said.errors <= inputs.k,
            f"{said.errors} records are in error, and no more than {inputs.k} were kept",
        )
    elif "k" in inputs:
        counted = said.errors, said.n
        same(f"what {name} counts", (inputs.k, inputs.n), counted)
    for entry in ("monte_carlo_mean", "risk"):
        if entry in inputs:
            what = f"{entry} of {name}"
            mean = exactly(said.mean)
            # that of a ramp is above the errors
            if name.startswith(_OF_A_RAMP):
                mean = mean.max(exactly(inputs[entry]))
            about(what, inputs[entry], mean)
            return


def mean_of(made: Fields) -> Any:
    """The mean that a certificate was made from; None where it names none."""
    inputs = made.inputs
    if "k" in inputs:
        return inputs.k / arb(inputs.n)
    if "more" in inputs:
        return (
            1 + (inputs.more - inputs.fewer) / arb(inputs.n)
        ) / 2
    for said in (
        inputs["risk"],
        inputs["calibration_error"],
        made.terms["empirical_gap"],
    ):
        if said is not None:
            return exactly(said)
    return None


SHARED: Checks = {
    "measured errors": _measured,
    "settings paid for": _paid_for,
    "units": check_units,
    "rows named": _named_rows,
    "nothing twice": _once,
}
"""What is asked of every report, whatever its route."""
