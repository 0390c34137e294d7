"""A run's folder: header, configuration, steps, event and hashes, compared with each other and with the report.

``_checks`` lists what is checked of a run, in its order, and ``_OF_A_REPORT`` in ``release`` the same of an exported
folder. What the trajectory of a chain is paid for is asked in ``norms``.
"""

from collections.abc import Iterable
from math import inf
from pathlib import Path
from typing import Any

from flint import arb  # pyright: ignore[reportMissingImports]

from pacdp.verify.certificate import read_claim
from pacdp.verify.claim import (
    CANNOT,
    FOLLOWS,
    Checks,
    Fields,
    Statement,
    Unchecked,
    about,
    exactly,
    judged,
    parsed,
    require,
    require_asked,
    same,
)
from pacdp.verify.compressed import check_kept, check_numbers
from pacdp.verify.events import Step, made_in, steps_of
from pacdp.verify.files import (
    ABOUT,
    Folder,
    check_content,
    digest,
    ends_of,
    unasked,
)
from pacdp.verify.needs import (
    BOUNDED,
    BY_SUMS,
    COVERED,
    FIXED_STEPS,
    KNOWN_BATCHES,
    UNPROVED,
    check_unit,
    require_named,
    require_of_a_chain,
    standings,
)
from pacdp.verify.norms import (
    PAYING,
    check_moments,
    check_norms,
    every_record,
    steps_of_chain,
)
from pacdp.verify.plan import (
    check_mechanism,
    check_spent,
    planned_steps,
    require_same,
    steps_paid_for,
)
from pacdp.verify.prior import OF_A_RUN, PRICES

_READ = """
    checkpoint.safetensors config.json metrics.jsonl result.json certificates.json provenance.json
"""
"""What is read of a folder; its provenance for the version alone."""
_RUN = "header.config_hash? = hash"
_NOT_PRIVATE = """
header.problem = run.problem
header.sampler = run.sampler
header.seed = run.seed
header.chain = run.chain
"""
_PLAN = """
header.planned_steps = planned
header.listed_steps = listed
"""
_RESULT = """
result.rests_on.config = config_hash
result.rests_on.metrics = last_hash
result.rests_on.checkpoint = header.content_hash
result.privacy.event? = header.event?
"""
_STEPS = """
result.steps = header.step
last.step? = told
"""
_SUBJECT = """
report.subject.step? = header.step
report.subject.loss? = header.loss
report.subject.sampler? = header.sampler
report.subject.data? = header.data
report.subject.n? = header.n
"""
"""What has to be the same in two files of a run, or in one and by what follows from others."""


def check_folder(path: Path, report: Any) -> list[Statement]:
    """Everything in the folder that another file, or the settings, determine; what they do not is named.

    Of a folder that holds none of a run's files there is nothing to say.
    """
    *read, _ = _READ.split()
    if not any((path / name).is_file() for name in read):
        return []
    f = Folder(path, parsed(report))
    if why := f.another_version():
        return [Statement(path.name, "format", CANNOT, why)]
    return judged(path.name, _checks(f), f)


def _checks(f: Folder) -> Checks:
    """What is checked of this folder, in this order; without a run it is anyone's folder."""
    header = f.header
    report = f.report and header
    private = f.kind == "private" and f.run
    result = f.result is not None
    paying = any(PAYING in one.inputs for one in f.certificates)
    checks = {
        "content of the checkpoint": (check_content, header),
        "run": (_run, header or f.config is not None),
        "steps": (_steps, header),
        "metrics.jsonl": (_metrics, f.lines),
        "result.json": (_result, result),
        "mechanism": (check_mechanism, private),
        "privacy spent": (check_spent, private),
        "kept records": (
            check_kept,
            f.kind == "compression" and f.run,
        ),
        "report": (_report, report),
        "hypotheses": (_hypotheses, report),
        "norms": (check_norms, header and paying),
        "what is told beside": (_rest, True),
        "other files": (_others, header),
    }
    return {
        claim: check
        for claim, (check, due) in checks.items()
        if due
    }


def _run(f: Folder) -> None:
    """Header and config.json name one configuration."""
    run = f.run
    if run is None:
        raise Unchecked(
            "no checkpoint's header names a configuration"
        )
    if f.config is not None:
        same("the kind of run", f.config.kind, f.kind)
        require(
            {**f.config, **run} == f.config
            and f.config.keys() <= run.keys() | ABOUT,
            "the header's run is not that of config.json",
        )
    f.hold(_RUN, hash=digest(run))
    if f.kind != "private":
        f.hold(_NOT_PRIVATE)


def _steps(f: Folder) -> None:
    """As many steps as the configuration plans, and a private run's mechanisms."""
    header = f.header
    run = f.run
    if f.kind == "private" and run:
        planned_steps(header, run, f.report["n"])
    if f.kind != "chain" or not run:
        return
    planned, listed = ends_of(run, header.n)
    require(
        0 <= header.step <= planned,
        f"step {header.step} is not planned",
    )
    f.hold(_PLAN, planned=planned, listed=listed)
    stops = [
        one.get("stopping", "planned") for one in (header, run)
    ]
    same("how it stops", *stops)


def _metrics(f: Folder) -> None:
    """The rows of metrics.jsonl are of rising steps, none beyond the checkpoint's, which a row comes before."""
    steps = [row.step for row in f.rows]
    last = f.header.step if f.header else inf
    beyond = [step for step in steps if step > last]
    broken_off = f.result is None and len(beyond) == 1
    require(
        steps == sorted(set(steps)) and (broken_off or not beyond),
        f"its rows are of the steps {steps}",
    )
    if beyond:
        raise Unchecked(
            "the run was broken off between its last row and the checkpoint"
        )


def _result(f: Folder) -> None:
    """It rests on these files, and repeats their last row, step, event and sizes."""
    header = f.header
    parts = "config", "metrics", "checkpoint"
    for name, found in zip(
        parts, (f.config, f.lines, header), strict=True
    ):
        if not found and f.result["rests_on"][name]:
            raise Unchecked(
                f"it rests on {name}, which is not there"
            )
    last = dict(f.rows[-1]) if f.rows else {}
    own = last.pop("hash", None)
    final = dict(f.result.get("final", last) or {})
    final.pop("hash", None)
    same("its final row", final, last)
    f.hold(_RESULT, config_hash=digest(f.config), last_hash=own)
    if header:
        told = header.step
        if f.kind == "private" and f.run:
            # a private run has rows at equal distances
            planned = f.run.sampling.steps
            told -= told % max(1, planned // f.run.records)
        f.hold(_STEPS, last=last, told=told)
    n = header["n"] or f.report["examples"]
    if n is not None:
        same("its n", f.result.n, n)
    if f.kind == "compression":
        check_numbers(f)


def _rest(f: Folder) -> None:
    """Name what the files say that nothing in the folder determines."""
    parts = {
        "header": (f.header, ()),
        "config": (
            f.config,
            [f"config.{name}" for name in f.run or ()],
        ),
        "result": (f.result, ("result.final",)),
        "metrics": (f.rows[-1:], ("metrics.hash",)),
    }
    told = [f"checkpoint: {name}" for name in f.stored.beside]
    told += [
        name
        for at, (part, known) in parts.items()
        for name in unasked(part, known, at)
    ]
    earlier = unasked(f.rows[:-1], parts["metrics"][1], "metrics")
    told += [
        f"{name} before the last row"
        for name in earlier
        if name not in told
    ]
    require_asked(told, of="folder")


def _report(f: Folder) -> None:
    """The report is of this checkpoint, and pays for moments to stop and mechanisms."""
    header = f.header
    report = f.report
    subject = report.part("subject")
    if "content_hash" not in subject:
        raise Unchecked(
            "it does not say that it is of this checkpoint"
        )
    require(
        subject.content_hash == header["content_hash"],
        "it is about another checkpoint than the one that is there: certify that one again",
    )
    f.hold(_SUBJECT)
    way = report.route
    own = way in OF_A_RUN
    require(own, f"the route is {way!r}, and no run's is")
    listed = header["listed_steps"]
    times = len(listed or [0])
    f.hold("report.details.stopping_times? = times", times=times)
    if listed:
        check_moments(f.certificates, listed)
    if f.kind == "private" and f.run:
        check_unit(report, f.run)
    for one in f.certificates:
        require(
            read_claim(one).prefix in ("", *PRICES),
            f"{one.name} is at a price that no run pays",
        )
    events = events_of(report)
    for event in events:
        require_same(steps_of(event), _due(f, events[0]))


def events_of(report: Fields) -> list[Any]:
    """What ran, wherever a report on a run says it: of its privacy, its certificates, and its account."""
    found = [report.part("privacy")["event"]]
    for name in ("sum_event", "privacy_event"):
        for one in report.get("certificates", []):
            found.append(parsed(one.inputs.get(name, "null")))
    if any(found):
        accounted = report.part("details").part("accounted")
        found.append(accounted["event"])
    return list(filter(None, found))


def check_events(report: Fields) -> None:
    """One event ran, wherever the report says what did."""
    first, *others = events_of(report) or [None]
    for event in others:
        if event != first:
            require_same(steps_of(event), steps_of(first))


def _due(f: Folder, event: Any) -> list[Step]:
    """The mechanisms that a certificate of this run has to pay for."""
    header = f.header
    if f.kind == "private":
        made = steps_of(header.event)
        if not f.run:
            return made
        planned = planned_steps(header, f.run, f.report.n)
        return steps_paid_for(event, len(made), planned, f.run)
    due = header.get("planned_steps", header.step)
    for step in reversed(header.get("listed_steps", [])):
        if step >= header.step:
            due = step
    f.hold("report.details.charged_steps? = due", due=due)
    return steps_of_chain(header.sampler, header.n, due)


def _hypotheses(f: Folder) -> None:
    """What rests on a chain's law is unproved, at the range of its loss; what rests on steps says who fixed them."""
    if f.header["sampler"]:
        claims = map(read_claim, f.certificates)
        require_of_a_chain(claims, f.header, f.header.n)
        if f.header["problem"]:
            # a bounded cross-entropy, of two classes with one output too
            f.hold("header.loss.high = header.problem.max_loss")
            last = f.header.parameters[-1]
            outputs = f.stored.tensors[f"model.{last}"].shape[0]
            loss = f.header.loss
            high = exactly(loss.high)
            low = -(1 - (max(outputs, 2) - 1) * (-high).exp()).log()
            about("loss.low", loss.low, low)
            about("loss.oscillation", loss.oscillation, high - low)
            for one in f.certificates:
                error = exactly(one.inputs.get("error_loss", 0))
                why = "an error may cost less than ln 2"
                require(error <= arb(2).log(), why)
    network = f.header.part("problem").part("architecture")
    for made in f.certificates:
        standing = standings(made)
        if COVERED in standing:
            require_named([FIXED_STEPS], standing)
        if network["norm"] == "batch":
            require_named(
                ["losses one an example"], standing, UNPROVED
            )


def _others(f: Folder) -> None:
    """Every file of the folder is read, and every file that is read is there."""
    names = {one.name for one in f.path.iterdir()}
    shown = {name for name in names if name[0] != "."}
    if odd := sorted(shown ^ {*_READ.split()}):
        raise Unchecked(
            f"this checker does not read, or the folder does not hold, {', '.join(odd)}"
        )


def proofs_redone(
    path: Path, report: Any, found: Iterable[Statement]
) -> set[str]:
    """The hypotheses whose proofs these statements on a folder are, where all that they rest on follows too."""
    follows = {one.claim for one in found if one.verdict == FOLLOWS}
    shown = set()
    if not {"content of the checkpoint", "run", "steps"} <= follows:
        return shown
    f = Folder(path, report)
    header = f.header
    if "report" in follows:
        if any("sum_event" in one.inputs for one in f.certificates):
            shown |= {*BY_SUMS, BOUNDED}
        # all steps that are paid for were made, or it stopped at one that was listed
        made = header.step
        ends = header["listed_steps"] or [header["planned_steps"]]
        if f.kind == "private":
            event = f.report.part("privacy")["event"]
            ends = event and [made_in(event)]
        if ends and made in ends:
            shown.add(FIXED_STEPS)
    if "norms" in follows:
        shown.update(BY_SUMS)
        if every_record(header):
            shown.add(KNOWN_BATCHES)
    return shown
