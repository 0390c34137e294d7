"""A report on a run or a network: what its certificates share, every measured error and every epsilon.

A report on predictions is in ``predicted``, that of ``pacdp.self_certify`` in ``selfcertified``.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from flint import arb  # pyright: ignore[reportMissingImports]

from pacdp.verify import loss, needs
from pacdp.verify.certificate import check_certificate, require_of_a_chain
from pacdp.verify.claim import (
    CANNOT,
    GROUPED,
    Fields,
    Statement,
    Unchecked,
    Wrong,
    about,
    exactly,
    fields,
    judged,
    number,
    parsed,
    without_unit,
)
from pacdp.verify.events import steps_of

_RESCALED = " risk, rescaled to [0, 1]"
_RISKS = ("0-1 risk", *(f"0-1 risk of a new {unit}" for unit in GROUPED))
_FIELDS = {
    "format",
    "route",
    "subject",
    "n",
    "unit",
    "examples",
    "failure_prob",
    "certificates",
    "measured",
    "monte_carlo",
    "details",
    "provenance",
}
_FIELDS_OF_A_RUN = {
    "prior",
    "privacy",
    "rows",
    "choices",
}
_DETAILS_OF_A_RUN = {
    "kl_nats",
    "references",
    "spent",
    "counts",
    "accounted",
    "charged_steps",
    "stopping_times",
}
_DETAILS_OF_PREDICTIONS = {
    "budget",
    "statements",
}
"""What is looked at of a report, and of its details."""
_ENDS = {
    "epsilon": False,
    "upper": False,
    "epsilon_add_remove": False,
    "epsilon_replace_one": True,
}
"""What must be private enough at the delta beside it, and whether it is for replace-one neighbours whatever is said."""


def check_run(report: Fields, redone: Collection[str]) -> list[Statement]:
    """Every certificate, what they share, every measured error, every epsilon of a mechanism, and what is only told."""
    found = list[Statement]()
    for made in report.certificates:
        found += check_certificate(made, report.get("privacy"), redone)
    found += [
        judged("report", claim, check, report)
        for claim, check in _checks(report).items()
    ]
    found += told_beside(report, _FIELDS | _FIELDS_OF_A_RUN, _DETAILS_OF_A_RUN)
    why = "nothing in the file says whether a certificate was taken out of it"
    found.append(Statement("report", "completeness", CANNOT, why))
    return found + [
        judged("report", "epsilon", _epsilon, claim)
        for claim in _epsilons(report)
    ]


def check_shared_with_predictions(report: Fields) -> list[Statement]:
    """What is asked of a report on predictions too: measured errors, and what is only told."""
    measured = judged("report", "measured errors", _measured, report)
    return [measured, *told_beside(report, _FIELDS, _DETAILS_OF_PREDICTIONS)]


def _checks(report: Fields) -> dict[str, Callable[[Fields], None]]:
    """What is asked of a report beside its certificates, in this order."""
    checks: dict[str, Callable[[Fields], None]] = {
        "certificates agree with it": _agrees,
        "measured errors": _measured,
        "what is bounded": _bounded,
        "hypotheses of the prior": _of_the_prior,
    }
    if report.part("subject").get("sampler"):
        checks["hypotheses"] = _of_the_chain
    return checks


def _of_the_prior(report: Fields) -> None:
    """Where the prior's maker saw some rows freely, certificates at its price say that these are others."""
    for made in report.certificates:
        standing = needs.standings(made)
        if "privacy covers these rows" in standing:
            needs.require(needs.of_the_prior(report.get("prior")), standing)


def _of_the_chain(report: Fields) -> None:
    require_of_a_chain(report.certificates, report.subject, report.examples)


def told_beside(
    report: Fields,
    known: set[str],
    known_details: set[str],
) -> list[Statement]:
    """What a report says that nothing in it determines."""
    details = report.part("details")
    told = [name for name, said in report.items() if said and name not in known]
    tried = report.part("choices")
    told += [f"choices.{name}" for name in tried if name != "count"]
    told += [
        f"details.{name}"
        for name, said in details.items()
        if said and name not in known_details
    ]
    if not told:
        return []
    why = f"nothing in the file determines {', '.join(told)}"
    return [Statement("report", "what is told beside", CANNOT, why)]


def _role(made: Fields) -> str:
    """The examples that a certificate counts: those of the bound, or of the test set."""
    return "test" if made.name.startswith("test_set") else "bound"


def _bounded(report: Fields) -> None:
    """Predictor and loss of each certificate are among those that the report measured."""
    measured = {(one.of, one.on, one.loss) for one in report.measured}
    left = dict[str, None]()
    for made in report.certificates:
        if (made.of, _role(made), _loss_of(made)) not in measured:
            left[f"{made.measures} of {made['of']}"] = None
    if left:
        raise Unchecked(f"nothing was measured of {'; '.join(left)}")


def _loss_of(made: Fields) -> str | None:
    """The measured loss whose mean a certificate bounds; None where it bounds another quantity."""
    if made.name == "disagreement":
        return "differs from the surrogate"
    measures = without_unit(made.measures)[0]
    if measures.endswith(_RESCALED):
        return measures.removesuffix(_RESCALED)
    named = {
        "0-1 risk": "zero-one",
        "half the Brier risk": "brier",
        "ECE": "ece",
    }
    return named.get(measures)


def _agrees(report: Fields) -> None:
    """Certificates and measured errors count the report's records, at its failure probability and its privacy."""
    _check_sizes(report)
    sizes = _sizes(report)
    for one in report.measured:
        if one.n not in sizes[one.on]:
            raise Wrong(f"{one['of']} was measured on {one.n} records")
    for made in report.certificates:
        n = made.inputs.get("n")
        if n is not None and n not in sizes[_role(made)]:
            raise Wrong(
                f"{made.name} counts {n} records, and the report {sizes[_role(made)]}"
            )
        about(
            f"failure_prob of {made.name}",
            made.failure_prob,
            exactly(report.failure_prob),
        )
        _check_shared(report, made)


def _check_sizes(report: Fields) -> None:
    """The report's rows are as many as its records and examples."""
    people = None if report.unit == "example" else report.n
    bound = report.part("rows").get("bound")
    if bound and (bound.n, bound.people) != (report.examples, people):
        raise Wrong(
            f"the report's rows are {bound}, and it counts {report.n} of {report.examples} examples"
        )
    if people is None and report.n != report.examples:
        raise Wrong(f"{report.n} records are {report.examples} examples")


def _sizes(report: Fields) -> dict[str, set[int | None]]:
    """How many records there may be, by the role of the rows."""
    sizes = {
        "bound": {report.n, report.examples},
        "test": {one.n for one in report.measured},
    }
    for role, said in report.part("rows").items():
        sizes.setdefault(role, set())
        if said:
            sizes[role] = {said.n, said.people or said.n}
    return sizes


def _check_shared(report: Fields, made: Fields) -> None:
    """A certificate has the report's promise of privacy, divergence and event."""
    inputs, privacy = made.inputs, report.part("privacy")
    for name, said in privacy.part("record").items():
        if (
            "privacy_notion" in inputs
            and inputs.get(f"privacy_{name}", said) != said
        ):
            raise Wrong(
                f"{made.name} has another privacy_{name} than the report"
            )
    kl = report.part("details").get("kl_nats")
    if (
        made.of == "randomised"
        and kl is not None
        and inputs.get("kl_nats", kl) != kl
    ):
        raise Wrong(f"{made.name} has another divergence than the report")
    event = parsed(inputs.get("privacy_event", "null"))
    if event and privacy.get("event") and event != privacy.event:
        raise Wrong(f"{made.name} rests on another event than the report")


def _measured(report: Fields) -> None:
    """Means are those of the counts beside them, and certificates are made of what was measured."""
    means = {(one.of, one.on, one.loss): one for one in report.measured}
    for one in report.measured:
        if one.errors is not None and report.unit == "example":
            about(f"the mean of {one['of']}", one.mean, arb(one.errors) / one.n)
    for one in report.monte_carlo:
        draws = one.n * one.passes
        about(
            f"the mean {one.loss} loss",
            one.mean,
            arb(one.total) / draws / 2**32,
        )
        said = means["randomised", "bound", one.loss]
        about(f"randomised {one.loss} loss", said.mean, exactly(one.mean))
        if not 1 <= one.terms <= draws:
            raise Wrong(
                f"{one.terms} independent terms are said to be in {one.passes} passes"
            )
    for made in report.certificates:
        _check_draws(report, made)
        counted = (
            "differs from the surrogate"
            if made.name == "disagreement"
            else "zero-one"
        )
        said = means.get((made.of, _role(made), counted))
        if said is not None and made.measures in _RISKS:
            _check_counted(made, said)


def _check_draws(report: Fields, made: Fields) -> None:
    inputs = made.inputs
    if "monte_carlo_mean" not in inputs:
        return
    drawn = [
        one.terms
        for one in report.monte_carlo
        if one.mean == inputs.monte_carlo_mean
    ]
    if inputs.monte_carlo_draws not in drawn:
        raise Wrong(f"{made.name} rests on draws that the report does not have")


def _check_counted(made: Fields, said: Fields) -> None:
    """A certificate's errors, or its mean, are those that were measured."""
    inputs = made.inputs
    if (
        made.name == "compression"
    ):  # k records were kept; of the others none but those counted are errors
        if said.errors is not None and not said.errors <= inputs.k:
            raise Wrong(
                f"{said.errors} records are in error, and no more than {inputs.k} were kept"
            )
    elif "k" in inputs and (inputs.k, inputs.n) != (said.errors, said.n):
        raise Wrong(
            f"{made.name} counts {inputs.k} errors of {inputs.n}, and the report {said.errors}"
        )
    if "monte_carlo_mean" in inputs:
        about(
            f"monte_carlo_mean of {made.name}",
            inputs.monte_carlo_mean,
            exactly(said.mean),
        )
    elif "risk" in inputs and not made.name.startswith(
        ("dp_", "printed", "vote_")
    ):
        about(f"risk of {made.name}", inputs.risk, exactly(said.mean))


def _epsilons(value: Any) -> Iterator[Fields]:
    """Everything in a report that has an event and an epsilon beside it; nested reports are asked themselves."""
    if isinstance(value, list):
        for part in value:
            yield from _epsilons(part)
    if not isinstance(value, Mapping):
        return
    if isinstance(value.get("event"), Mapping) and _ENDS.keys() & value.keys():
        yield fields(value)
    details = value.get("details") or {}
    if isinstance(details, Mapping) and isinstance(
        details.get("spent"), Mapping
    ):
        yield Fields(details["spent"], event=fields(value).privacy.event)
    for name, part in value.items():
        if name != "references":
            yield from _epsilons(part)


def _epsilon(claim: Fields) -> None:
    """The event is (ε, δ)-private in both directions for each ε that stands beside it."""
    steps = sum(steps_of(claim.event).values())
    if claim.get("mechanisms", steps) != steps:
        raise Wrong(
            f"{claim.mechanisms} mechanisms are said to have run, and the event has {steps}"
        )
    for name, always_replaced in _ENDS.items():
        if name in claim:
            replaced = (
                always_replaced or claim.get("adjacency") == "replace-one"
            )
            _check_epsilon(claim, name, replaced)


def _check_epsilon(
    claim: Fields,
    name: str,
    replaced: bool,
) -> None:
    said, delta = number(claim[name]), number(claim.delta)
    ran = steps_of(claim.event)
    if not loss.chosen_on_samples(ran):
        ran = steps_of(claim.event, replaced)
    found = said == float("inf") or loss.private(ran, said, delta, replaced)
    if found is False:
        raise Wrong(
            f"{name} is {said!r}, and what ran is not that private at delta = {delta!r}"
        )
    if found is None:
        raise Unchecked(
            f"{name} = {said!r} is between what this checker shows and what it refutes"
        )
