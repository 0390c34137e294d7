"""A report, a certificate or a folder, and the program that prints a verdict on each statement in it."""

import argparse
import json
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from flint import arb  # pyright: ignore[reportMissingImports]

from pacdp.verify import loss, needs
from pacdp.verify.arithmetic import ball
from pacdp.verify.certificate import FORMAT as CERTIFICATE
from pacdp.verify.certificate import check_certificate, require_of_a_chain, standings
from pacdp.verify.claim import (
    CANNOT,
    DAMAGED,
    DOES_NOT,
    GROUPED,
    Statement,
    Unchecked,
    Wrong,
    about,
    judged,
    number,
    other_format,
    parsed,
    without_unit,
)
from pacdp.verify.files import maker_of, read_checkpoint, read_json
from pacdp.verify.folder import check_folder, proofs_redone
from pacdp.verify.predicted import ROUTE, check_predictions
from pacdp.verify.recount import recount
from pacdp.verify.release import WEIGHTS, check_release
from pacdp.verify.selfcertified import FORMAT as SELF_CERTIFIED
from pacdp.verify.selfcertified import check_self_certified

FORMAT = "pacdp-certificates/2"
_RESCALED = " risk, rescaled to [0, 1]"
_RISKS = ("0-1 risk", *(f"0-1 risk of a new {unit}" for unit in GROUPED))
_FIELDS = {"format", "route", "subject", "n", "unit", "examples", "failure_prob", "certificates", "measured",
           "monte_carlo", "details", "provenance"}  # fmt: skip
_DETAILS = ({"kl_nats", "references", "spent", "counts", "accounted", "charged_steps", "stopping_times"},
            {"budget", "statements"})  # fmt: skip
"""What is looked at of a report, and of its details; of those of a report on predictions last."""
UNREADABLE, UNSOUND, OPEN = 2, 1, 3
"""Exit statuses: nothing could be read, something does not follow, something cannot be checked."""


def check_report(report: Mapping[str, Any], redone: Collection[str] = ()) -> list[Statement]:
    """Every certificate, what they share, every measured error, every epsilon of a mechanism, and what is only told.

    ``redone`` names the hypotheses whose proofs were done again from the files beside the report.
    """
    if report.get("format") != FORMAT:
        why = other_format(report.get("format"), FORMAT, maker_of(report.get("provenance")))
        return [Statement("report", "format", CANNOT, why)]
    if report.get("route") == ROUTE:
        found = [*check_predictions(report), judged("report", "measured errors", lambda: _measured(report))]
        return [*found, *_told(report)]
    found = [one for made in report["certificates"] for one in check_certificate(made, report.get("privacy"), redone)]
    found.append(judged("report", "certificates agree with it", lambda: _agrees(report)))
    found.append(judged("report", "measured errors", lambda: _measured(report)))
    found.append(judged("report", "what is bounded", lambda: _bounded(report)))
    found.append(judged("report", "hypotheses of the prior", lambda: _of_the_prior(report)))
    if sampler := (report.get("subject") or {}).get("sampler"):
        found.append(judged("report", "hypotheses", lambda: require_of_a_chain(report["certificates"], sampler)))
    found += _told(report)
    nested = (report.get("details") or {}).get("references") or {}
    own = {**report, "details": {**(report.get("details") or {}), "references": None}}
    found += [judged("report", "epsilon", partial(_epsilon, claim)) for claim in _epsilons(own)]
    for name, other in nested.items():
        found += [one._replace(subject=f"{name}: {one.subject}") for one in check_report(other)]
    return found


def _of_the_prior(report: Mapping[str, Any]) -> None:
    """Where the prior's maker saw some rows freely, certificates at its price say that these are others."""
    for made in report["certificates"]:
        standing = standings(made)
        if "privacy covers these rows" in standing:
            needs.require(needs.of_the_prior(report.get("prior")), standing)


def _told(report: Mapping[str, Any]) -> list[Statement]:
    """What a report says that nothing in it determines, and whether all that was certified is there."""
    predicted, details = report.get("route") == ROUTE, report.get("details") or {}
    known = _FIELDS if predicted else _FIELDS | {"prior", "privacy", "rows", "choices"}
    told = [name for name, said in report.items() if said and name not in known]
    told += [f"choices.{name}" for name in report.get("choices") or () if name != "count"]
    told += [f"details.{name}" for name, said in details.items() if said and name not in _DETAILS[predicted]]
    why = f"nothing in the file determines {', '.join(told)}"
    found = [Statement("report", "what is told beside", CANNOT, why)] if told else []
    if not predicted:
        why = "nothing in the file says whether a certificate was taken out of it"
        found.append(Statement("report", "completeness", CANNOT, why))
    return found


def _bounded(report: Mapping[str, Any]) -> None:
    """Predictor and loss of each certificate are among those that the report measured."""
    measured = {(one["of"], one["on"], one["loss"]) for one in report["measured"]}
    open_ = list[str]()
    for made in report["certificates"]:
        on, loss = "test" if made["name"].startswith("test_set") else "bound", _loss_of(made)
        if loss is None or (made["of"], on, loss) not in measured:
            open_.append(f"{made['measures']} of {made['of']}")
    if open_:
        raise Unchecked(f"nothing was measured of {'; '.join(dict.fromkeys(open_))}")


def _loss_of(made: Mapping[str, Any]) -> str | None:
    """The measured loss whose mean a certificate bounds; None where it bounds another quantity."""
    measures = without_unit(made["measures"])[0]
    if made["name"] == "disagreement":
        return "differs from the surrogate"
    named = {"0-1 risk": "zero-one", "half the Brier risk": "brier", "ECE": "ece"}
    return named.get(measures) or (measures.removesuffix(_RESCALED) if measures.endswith(_RESCALED) else None)


def _agrees(report: Mapping[str, Any]) -> None:
    whole, rows, privacy = number(report["failure_prob"]), report.get("rows") or {}, report.get("privacy") or {}
    kl = (report.get("details") or {}).get("kl_nats")
    sizes = {"bound": {report["n"], report["examples"]}, "test": {one["n"] for one in report["measured"]}}
    for role, said in rows.items():
        sizes[role] = {said["n"], said["people"] or said["n"]} if said else sizes.get(role, set())
    expected = (report["examples"], None if report["unit"] == "example" else report["n"])
    if rows.get("bound") and (rows["bound"]["n"], rows["bound"]["people"]) != expected:
        raise Wrong(f"the report's rows are {rows['bound']}, and it counts {expected}")
    if report["unit"] == "example" and report["n"] != report["examples"]:
        raise Wrong(f"{report['n']} records are {report['examples']} examples")
    for one in report["measured"]:
        if one["n"] not in sizes[one["on"]]:
            raise Wrong(f"{one['of']} was measured on {one['n']} records")
    for made in report["certificates"]:
        role, inputs = "test" if made["name"].startswith("test_set") else "bound", made["inputs"]
        about(f"failure_prob of {made['name']}", made["failure_prob"], ball(whole))
        if "n" in inputs and inputs["n"] not in sizes[role]:
            raise Wrong(f"{made['name']} counts {inputs['n']} records, and the report {sizes[role]}")
        record = privacy.get("record") or {}
        odd = [name for name, said in record.items() if inputs.get(f"privacy_{name}", said) != said]
        if odd and "privacy_notion" in inputs:
            raise Wrong(f"{made['name']} has another privacy_{odd[0]} than the report")
        if made["of"] == "randomised" and inputs.get("kl_nats", kl) != kl is not None:
            raise Wrong(f"{made['name']} has another divergence than the report")
        if privacy.get("event") and parsed(inputs.get("privacy_event", "null")) not in (None, privacy["event"]):
            raise Wrong(f"{made['name']} rests on another event than the report")


def _measured(report: Mapping[str, Any]) -> None:
    means = {(one["of"], one["on"], one["loss"]): one for one in report["measured"]}
    for one in report["measured"]:
        if one["errors"] is not None and report["unit"] == "example":
            about(f"the mean of {one['of']}", one["mean"], arb(one["errors"]) / one["n"])
    for one in report["monte_carlo"]:
        about(f"the mean {one['loss']} loss", one["mean"], arb(one["total"]) / (one["n"] * one["passes"]) / 2**32)
        about(f"randomised {one['loss']} loss", means["randomised", "bound", one["loss"]]["mean"], ball(one["mean"]))
        if not 1 <= one["terms"] <= one["n"] * one["passes"]:
            raise Wrong(f"{one['terms']} independent terms are said to be in {one['passes']} passes")
    for made in report["certificates"]:
        inputs, on = made["inputs"], "test" if made["name"].startswith("test_set") else "bound"
        drawn = [one["terms"] for one in report["monte_carlo"] if one["mean"] == inputs.get("monte_carlo_mean")]
        if "monte_carlo_mean" in inputs and inputs["monte_carlo_draws"] not in drawn:
            raise Wrong(f"{made['name']} rests on draws that the report does not have")
        counted = "differs from the surrogate" if made["name"] == "disagreement" else "zero-one"
        one = means.get((made["of"], on, counted))
        if one is None or made["measures"] not in _RISKS:
            continue
        if made["name"] == "compression":  # k records were kept; of the others none but those counted are errors
            if one["errors"] is not None and not one["errors"] <= inputs["k"]:
                raise Wrong(f"{one['errors']} records are in error, and no more than {inputs['k']} were kept")
        elif "k" in inputs and (inputs["k"], inputs["n"]) != (one["errors"], one["n"]):
            raise Wrong(f"{made['name']} counts {inputs['k']} errors of {inputs['n']}, and the report {one['errors']}")
        if "monte_carlo_mean" in inputs:
            about(f"monte_carlo_mean of {made['name']}", inputs["monte_carlo_mean"], ball(one["mean"]))
        elif "risk" in inputs and not made["name"].startswith(("dp_", "printed", "vote_")):
            about(f"risk of {made['name']}", inputs["risk"], ball(one["mean"]))


def _epsilons(value: Any) -> Iterator[Mapping[str, Any]]:
    parts = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    if isinstance(value, Mapping) and isinstance(value.get("event"), Mapping) and "delta" in value:
        yield value
    if isinstance(value, Mapping) and isinstance((value.get("details") or {}).get("spent"), Mapping):  # of a report
        spent = value["details"]["spent"]
        yield {**spent, "epsilon": spent["upper"], "event": value["privacy"]["event"]}
    for part in parts:
        yield from _epsilons(part)


def _epsilon(claim: Mapping[str, Any]) -> None:
    """The event is (ε, δ)-private in both directions for each ε that stands beside it."""
    event, delta = claim["event"], number(claim["delta"])
    made = loss.steps_of(event)
    steps = sum(made.values())
    if claim.get("mechanisms", steps) != steps:
        raise Wrong(f"{claim['mechanisms']} mechanisms are said to have run, and the event has {steps}")
    for name in ("epsilon", "epsilon_add_remove", "epsilon_replace_one"):
        if name not in claim:
            continue
        said, replaced = number(claim[name]), "replace-one" in (name[8:].replace("_", "-"), claim.get("adjacency"))
        ran = made if loss.chosen_on_samples(made) else loss.steps_of(event, replaced)
        found = said == math.inf or loss.private(ran, said, delta, replaced)
        if found is False:
            raise Wrong(f"{name} is {said!r}, and what ran is not that private at delta = {delta!r}")
        if found is None:
            raise Unchecked(f"{name} = {said!r} is between what this checker shows and what it refutes")


def check_path(path: Path, *, data: str | None = None, model: str | None = None) -> list[Statement]:
    """All statements of a file of certificates, or of a run's folder."""
    file = path / "certificates.json" if path.is_dir() else path
    report = read_json(file) if file.is_file() else None
    place = path if path.is_dir() else path.parent
    beside = list[Statement]()
    if path.is_dir():
        if report is not None and (path / WEIGHTS).is_file():
            beside += check_release(path, report)
        else:
            beside += check_folder(path, report)
    if report is not None and (data or model):
        checkpoint = place / "checkpoint.safetensors"
        beside += recount(report, read_checkpoint(checkpoint) if checkpoint.is_file() else None, data, model)
    redone = proofs_redone(path, beside) if path.is_dir() and report is not None else ()
    return [*(_check_file(file, report, redone) if report is not None else ()), *beside]


def _check_file(file: Path, record: Any, redone: Collection[str]) -> list[Statement]:
    """What is said of a file of certificates, by its format."""
    form = record.get("format")
    if form == FORMAT:
        return check_report(record, redone)
    if form == SELF_CERTIFIED:
        return check_self_certified(record)
    if form == CERTIFICATE:
        alone = "no report beside the certificate says what was measured, and of what"
        return [*check_certificate(record), Statement(file.name, "what it is about", CANNOT, alone)]
    known = f"{FORMAT}, {CERTIFICATE} and {SELF_CERTIFIED}"
    return [Statement(file.name, "format", CANNOT, other_format(form, known, maker_of(record.get("provenance"))))]


def main(argv: Sequence[str] | None = None) -> int:
    """Print a verdict on each statement.

    Returns the exit status: 0 where everything follows, 1 if anything does not follow, 2 if there is nothing to read,
    3 if something cannot be checked and all else follows.
    """
    parser = argparse.ArgumentParser(prog="pacdp verify", description=__doc__)
    parser.add_argument("path", type=Path, help="a file of certificates, or a run's folder")
    parser.add_argument("--data", help="module:callable that returns the bound's inputs, labels and, if known, people")
    parser.add_argument("--model", help="module:callable that returns the network, to count its errors on those rows")
    parser.add_argument("--json", action="store_true", help="print JSON")
    args = parser.parse_args(argv)
    try:
        found = check_path(args.path, data=args.data, model=args.model)
        if not found:
            raise ValueError("it is neither a file of certificates nor a run's folder")
    except (OSError, ImportError, RecursionError, MemoryError, *DAMAGED) as error:
        print(f"pacdp verify: cannot read {args.path}: {type(error).__name__}: {error}")
        return UNREADABLE
    if args.json:
        print(json.dumps([one._asdict() for one in found], indent=2))
    else:
        for one in found:
            print(f"{one.verdict}: {one.subject}, {one.claim}" + (f", because {one.why}" if one.why else ""))
    verdicts = {one.verdict for one in found}
    return UNSOUND if DOES_NOT in verdicts else OPEN if CANNOT in verdicts else 0
