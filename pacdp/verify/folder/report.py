"""The report beside a run is of this run: what its certificates pay for, and what they take for true."""

from typing import Any

from pacdp.verify import needs
from pacdp.verify.certificate import require_of_a_chain
from pacdp.verify.claim import Unchecked, Wrong, parsed
from pacdp.verify.events import Step, steps_in_order, steps_of
from pacdp.verify.folder.plan import require_same, steps_of_chain
from pacdp.verify.folder.private_plan import planned_steps, steps_paid_for
from pacdp.verify.folder.read import Folder


def check_report_of_run(f: Folder) -> None:
    """The report is of this checkpoint, and pays for settings that were tried, moments to stop and mechanisms."""
    subject, details = (
        f.report.part("subject"),
        f.report.part("details"),
    )
    if "content_hash" not in subject:
        raise Unchecked("it does not say that it is of this checkpoint")
    for name in ("content_hash", "step", "loss", "sampler", "data", "n"):
        if name in subject and subject[name] != f.header.get(name):
            raise Wrong(f"the report's {name} is not the checkpoint's")
    _check_choices_paid(f)
    stops = f.header.get("listed_steps", [1])
    if details.get("stopping_times", 1) != len(stops):
        raise Wrong(f"{details.stopping_times} moments to stop are paid for")
    events = _events(f)
    for event in events:
        require_same(list(steps_of(event).elements()), _due(f, events[0]))


def _check_choices_paid(f: Folder) -> None:
    count = f.report.part("choices").get("count", 1)
    if count == 1:
        return
    tried = f"a list of {count} settings, all paid for"
    for made in f.certificates:
        for one in made.hypotheses:
            if one.name == "settings fixed beforehand" and tried in one.by:
                return
    raise Wrong(
        f"{count} settings are paid for, and no certificate says that they were tried"
    )


def _events(f: Folder) -> list[Any]:
    """Those that the report and its certificates pay for."""
    paying = [f.report.part("privacy").get("event")]
    for name in ("sum_event", "privacy_event"):
        paying += [
            parsed(one.inputs[name])
            for one in f.certificates
            if name in one.inputs
        ]
    if not any(paying):
        return []
    accounted = f.report.part("details").part("accounted")
    return [event for event in (*paying, accounted.get("event")) if event]


def _due(f: Folder, event: Any) -> list[Step]:
    """The mechanisms that a certificate of this run has to pay for."""
    header = f.header
    if f.private:
        made = steps_in_order(header.event)
        if not f.run:
            return made
        return steps_paid_for(
            event, len(made), planned_steps(header, f.run, f.report.n), f.run
        )
    due = header.get("planned_steps", header.step)
    later = [
        step for step in header.get("listed_steps", []) if step >= header.step
    ]
    if later:
        due = later[0]
    charged = f.report.part("details").get("charged_steps", due)
    if charged != due:
        raise Wrong(f"{charged} steps are paid for, and {due} are due")
    return steps_of_chain(header.sampler, header.n, due)


def check_hypotheses(f: Folder) -> None:
    """What rests on a chain's having converged is unproved, and what rests on its steps says who fixed them."""
    require_of_a_chain(f.certificates, f.header, f.header.n)
    network = f.header.part("problem").get("architecture", {})
    for made in f.certificates:
        standing = needs.standings(made)
        if "privacy covers these rows" in standing:
            needs.require(["steps fixed beforehand"], standing)
        if network.get("norm") == "batch":
            needs.require_unproved(["losses one an example"], standing)


def ended_as_planned(f: Folder) -> bool:
    """Whether the run made all steps that are paid for, or stopped at one that was listed."""
    if f.private:
        event = f.report.part("privacy").get("event")
        made = steps_in_order(f.header.event)
        return event is not None and len(made) == sum(steps_of(event).values())
    planned = [f.header.get("planned_steps")]
    return f.header.step in (f.header.get("listed_steps") or planned)
