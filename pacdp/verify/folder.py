"""A run's folder: header, configuration, steps, event and hashes, compared with each other and with the report.

``_checks`` lists what is checked of a run, in its order, and ``checks`` in ``release`` what is of an exported folder.
What the trajectory of a chain is paid for is asked in ``norms``.
"""

import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from pacdp.verify import needs, release
from pacdp.verify.certificate import read_claim
from pacdp.verify.claim import (
    CANNOT,
    FOLLOWS,
    Fields,
    Statement,
    Unchecked,
    agree,
    all_judged,
    exactly,
    fields,
    parsed,
    require,
    same,
)
from pacdp.verify.compressed import check_kept, check_numbers
from pacdp.verify.events import Step, steps_in_order, steps_of
from pacdp.verify.files import Folder, content_hash, digest
from pacdp.verify.norms import (
    PAYING,
    check_norms,
    every_record,
)
from pacdp.verify.plan import (
    length,
    planned_steps,
    require_same,
    steps_of_chain,
    steps_paid_for,
)
from pacdp.verify.private import check_mechanism, check_spent

_READ = """
    checkpoint.safetensors config.json metrics.jsonl result.json certificates.json provenance.json
"""
"""What is read of a folder; its provenance for the version alone."""


def check_folder(path: Path, report: Any) -> list[Statement]:
    """Everything in the folder that another file, or the settings, determine; what they do not is named."""
    f = Folder(path, fields(report))
    if why := f.another_version():
        return [Statement(path.name, "format", CANNOT, why)]
    checks = release.checks if f.released else _checks
    return all_judged(path.name, checks(f), f)


def _checks(f: Folder) -> dict[str, Callable[[Folder], None]]:
    """What is checked of this folder, in this order; without a run it is anyone's folder."""
    header = f.header
    report = f.report
    result = f.result is not None
    checks = {
        "content of the checkpoint": (_content, header),
        "run": (_run, header),
        "steps": (_steps, header),
        "metrics.jsonl": (_metrics, f.lines),
        "result.json": (_result, result),
        "mechanism": (check_mechanism, f.private and f.run),
        "privacy spent": (check_spent, f.private and f.run),
        "kept records": (check_kept, f.compression and f.run),
        "report": (_report, report and header),
        "hypotheses": (_hypotheses, report and header.get("sampler")),
        "norms": (
            check_norms,
            header
            and any(PAYING in one.inputs for one in f.certificates),
        ),
        "the rest of result.json": (_rest, result),
        "other files": (_name_others, header and _others(f)),
    }
    return {
        claim: check for claim, (check, due) in checks.items() if due
    }


def _content(f: Folder) -> None:
    """The checkpoint's bytes have the hash that its header says."""
    if "content_hash" not in f.header:
        raise Unchecked("it has no hash of its content")
    same("its hash", f.header.content_hash, content_hash(f.stored))


def _run(f: Folder) -> None:
    """Header and config.json name one configuration."""
    header = f.header
    run = f.run
    if run is None:
        raise Unchecked("the header names no configuration")
    require(
        f.configured in (None, run),
        "the header's run is not that of config.json",
    )
    if f.config is not None:
        same("the kind of run", f.config.kind, f.kind)
    own = digest(run)
    same("the hash of the run", header.get("config_hash", own), own)
    repeated = (
        () if f.private else ("problem", "sampler", "seed", "chain")
    )
    for name in repeated:
        same(
            f"the header's {name}",
            header.get(name, 0),
            run.get(name, 0),
        )


def _steps(f: Folder) -> None:
    """As many steps as the configuration plans, and a private run's mechanisms."""
    header = f.header
    run = f.run
    if f.private and run:
        planned_steps(header, run, f.report.get("n"))
    if "planned_steps" not in header:
        return
    planned = length(run, header.n)
    same("the number of planned steps", header.planned_steps, planned)
    require(
        0 <= header.step <= planned,
        f"step {header.step} is not planned",
    )
    marks = {
        round(k * planned / run.records)
        for k in range(1, run.records + 1)
    }
    listed = sorted(marks - {0})
    same("listed_steps", header.get("listed_steps", listed), listed)
    stopping = run.get("stopping", "planned")
    same("how it stops", header.get("stopping", "planned"), stopping)


def _metrics(f: Folder) -> None:
    """The rows of metrics.jsonl are of rising steps, none beyond the checkpoint's."""
    steps = [row.step for row in f.rows]
    last = f.header.step if f.header else math.inf
    require(
        steps == sorted(set(steps)) and steps[-1] <= last,
        f"its rows are of the steps {steps}",
    )


def _result(f: Folder) -> None:
    """It rests on these files, and repeats their last row, step, event and sizes."""
    said = f.result
    header = f.header
    last = dict(f.rows[-1]) if f.rows else {}
    here = {
        "config": digest(f.config),
        "metrics": last.pop("hash", None),
        "checkpoint": header.get("content_hash"),
    }
    rests_on = {name: said.rests_on.get(name) for name in here}
    same("what it rests on", {**rests_on, **said.rests_on}, here)
    final = {**(said.get("final", last) or {})}
    final.pop("hash", None)
    require(final == last, "its final row is not the last one recorded")
    event = header.get("event")
    require(
        said.part("privacy").get("event", event) == event,
        "its event is not the checkpoint's",
    )
    if header:
        same("its number of steps", said.steps, header.step)
    if "planned_steps" in header and last:
        same("the step of the last row", last["step"], header.step)
    n = header.get("n") or f.report.get("examples")
    if n is not None:
        same("its n", said.n, n)
    if f.compression:
        check_numbers(f)


def _rest(f: Folder) -> None:
    """Name what is written in result.json and determined by nothing in the folder."""
    told = f.result.unasked("seconds private")
    spent = f.result.part("privacy")
    told += [f"privacy.{name}" for name in spent.unasked()]
    if "final" in f.result and f.rows:
        measured = f.rows[-1].unasked("epochs hash seconds")
        told += [f"final.{name}" for name in measured]
    if told:
        raise Unchecked(
            f"nothing in the folder determines {', '.join(told)}"
        )


def _report(f: Folder) -> None:
    """The report is of this checkpoint, and pays for moments to stop and mechanisms."""
    header = f.header
    report = f.report
    subject = report.part("subject")
    details = report.part("details")
    if "content_hash" not in subject:
        raise Unchecked("it does not say that it is of this checkpoint")
    for name in (
        "content_hash",
        "step",
        "loss",
        "sampler",
        "data",
        "n",
    ):
        if name in subject:
            own = header.get(name)
            same(f"the report's {name}", subject[name], own)
    stops = len(header.get("listed_steps", [1]))
    same("stopping_times", details.get("stopping_times", 1), stops)
    events = _events(f)
    for event in events:
        due = _due(f, events[0])
        require_same(list(steps_of(event).elements()), due)


def _events(f: Folder) -> list[Any]:
    """Those that the report and its certificates pay for."""
    paying = [f.report.part("privacy").get("event")]
    for name in ("sum_event", "privacy_event"):
        for one in f.certificates:
            paying.append(parsed(one.inputs.get(name, "null")))
    if any(paying):
        accounted = f.report.part("details").part("accounted")
        paying.append(accounted.get("event"))
    return [event for event in paying if event]


def _due(f: Folder, event: Any) -> list[Step]:
    """The mechanisms that a certificate of this run has to pay for."""
    header = f.header
    if f.private:
        made = steps_in_order(header.event)
        if not f.run:
            return made
        planned = planned_steps(header, f.run, f.report.n)
        return steps_paid_for(event, len(made), planned, f.run)
    due = header.get("planned_steps", header.step)
    for step in reversed(header.get("listed_steps", [])):
        if step >= header.step:
            due = step
    charged = f.report.part("details").get("charged_steps", due)
    same("the number of steps paid for", charged, due)
    return steps_of_chain(header.sampler, header.n, due)


def _hypotheses(f: Folder) -> None:
    """What rests on a chain's having converged is unproved, and what rests on its steps says who fixed them."""
    require_of_a_chain(f.certificates, f.header, f.header.n)
    network = f.header.part("problem").get("architecture", {})
    for made in f.certificates:
        standing = needs.standings(made)
        if needs.COVERED in standing:
            needs.require_named([needs.FIXED_STEPS], standing)
        if network.get("norm") == "batch":
            needs.require_unproved(["losses one an example"], standing)


def require_of_a_chain(
    certificates: Iterable[Fields],
    chain: Fields,
    n: int,
) -> None:
    """Raise Wrong unless epsilon is that of the chain's law, and what rests on its having converged is unproved.

    The law is private at ε = 2βτΔ/n, Δ the loss's largest value minus its smallest ("Private weights").

    Args:
        certificates: those of a chain.
        chain: its sampler and loss, under these names.
        n: how many examples it ran on.
    """
    sampler = chain.sampler
    loss = chain.loss
    for record in certificates:
        c = read_claim(record)
        names = needs.never_shown_of_a_chain(
            c.prefix, c.formula, c.inputs, sampler
        )
        needs.require_unproved(names, needs.standings(record))
        if "epsilon" in c.inputs:
            require(
                not sampler.get("cooling", 0),
                "a chain that cools has no stationary law",
            )
            spread = exactly(loss.high) - exactly(loss.low)
            heat = exactly(sampler.get("beta", 1)) * exactly(
                sampler.tau
            )
            epsilon = 2 * heat * spread / n
            agree("inputs.epsilon", c.raw("epsilon"), epsilon)


def _others(f: Folder) -> list[str]:
    """Files that are not read, and those that are not there."""
    names = {one.name for one in f.path.iterdir() if one.name[0] != "."}
    return sorted(names ^ {*_READ.split()})


def _name_others(f: Folder) -> None:
    raise Unchecked(
        f"this checker does not read, or the folder does not hold, {', '.join(_others(f))}"
    )


def proofs_redone(
    path: Path, report: Any, found: Iterable[Statement]
) -> set[str]:
    """The hypotheses whose proofs these statements on a folder are, where all that they rest on follows too."""
    follows = {one.claim for one in found if one.verdict == FOLLOWS}
    shown = set[str]()
    if not {"content of the checkpoint", "run", "steps"} <= follows:
        return shown
    f = Folder(path, report)
    inputs = [one.inputs for one in f.certificates]
    if "report" in follows and any(
        "sum_event" in one for one in inputs
    ):
        shown |= {*needs.BY_SUMS, needs.BOUNDED}
    if "norms" in follows:
        shown |= {*needs.BY_SUMS}
        if every_record(f.header):
            shown.add(needs.KNOWN_BATCHES)
    if "report" in follows and _ended_as_planned(f):
        shown.add(needs.FIXED_STEPS)
    return shown


def _ended_as_planned(f: Folder) -> bool:
    """Whether the run made all steps that are paid for, or stopped at one that was listed."""
    if f.private:
        event = f.report.part("privacy").get("event")
        made = steps_in_order(f.header.event)
        return event is not None and len(made) == sum(
            steps_of(event).values()
        )
    planned = [f.header.get("planned_steps")]
    return f.header.step in (f.header.get("listed_steps") or planned)
