"""The folder that `pacdp export` writes: counts with noise in its certificate, and that nothing else is in it.

``_CHECKS`` lists what is checked, in its order; that the counts with noise give the certificate is asked of the
certificate itself (``pacdp.verify.formulas.counts``).
"""

from pathlib import Path

from pacdp.verify.claim import (
    CANNOT,
    DOES_NOT,
    Fields,
    Statement,
    Unchecked,
    Wrong,
    judged,
    other_format,
)
from pacdp.verify.events import steps_in_order, steps_of
from pacdp.verify.files import (
    CHECKPOINT,
    content_hash,
    digest,
    maker_of,
    read_checkpoint,
    read_json,
)
from pacdp.verify.folder.plan import length, require_same, steps_of_chain
from pacdp.verify.folder.private_plan import (
    relation,
    steps_by_settings,
    steps_paid_for,
)

WEIGHTS = "weights.safetensors"
_SETTINGS_FILE = "settings.json"
_PAGE = "report.html"
_WITHOUT_NOISE = ("rows", "gibbs", "diagnosis", "measured", "monte_carlo")
"""What a report may not have here, since it was counted without noise."""
_HEADER = {
    "kind",
    "event",
    "adjacency",
    "remark",
    "format",
    "parameters",
    "content_hash",
}
_SETTINGS = {
    "format",
    "run",
    "config_hash",
    "unit",
    "remarks",
}
_COUNTS = {
    "errors",
    "n",
    "std_errors",
    "std_n",
    "unit",
    "with_the_run",
}
_TOLD = {
    "subject": {"checkpoint", "content_hash", "algorithm"},
    "details": {"counts", "spent", "seeded"},
    "prior": {"source", "privacy", "unit", "choice_nats"},
    "privacy": {"adjacency", "status", "event", "record"},
    "provenance": {"commit", "dirty", "versions"},
}
"""What parts of the report hold."""
_RELEASED = {
    "errors": "released_errors",
    "n": "released_n",
    "std_errors": "std_errors",
    "std_n": "std_n",
}
"""Released counts, and the inputs of certificates that repeat them."""


class Release:
    """The files of an exported folder."""

    def __init__(
        self,
        path: Path,
        report: Fields,
        settings: Fields,
    ) -> None:
        self.path, self.report, self.settings = path, report, settings
        self.stored = read_checkpoint(path / WEIGHTS)
        self.header = self.stored.header
        self.details = report.details


def check_release(path: Path, report: Fields) -> list[Statement]:
    """Weights, settings and report say the same, and hold nothing about the data but counts with noise."""
    settings = read_json(path / _SETTINGS_FILE)
    if settings is None:
        return [
            Statement(
                path.name, "settings", DOES_NOT, f"there is no {_SETTINGS_FILE}"
            )
        ]
    r = Release(path, report, settings)
    if r.header.get("format") != CHECKPOINT:
        why = other_format(
            r.header.get("format"),
            CHECKPOINT,
            maker_of(report.get("provenance")),
        )
        return [Statement(WEIGHTS, "format", CANNOT, why)]
    return [
        judged(path.name, claim, check, r) for claim, check in _CHECKS.items()
    ]


def _weights(r: Release) -> None:
    """The weights have the hash that their header and the report say."""
    if (
        not content_hash(r.stored)
        == r.header.content_hash
        == r.report.subject.content_hash
    ):
        raise Wrong(
            "their content has another hash than their header or the report says"
        )
    if r.header.kind != "private-release/1":
        raise Wrong(f"they are of kind {r.header.kind!r}")


def _event(r: Release) -> None:
    """Weights and report name one event, of add-remove neighbours."""
    privacy = r.report.privacy
    if r.header.event != privacy.event:
        raise Wrong("the weights name another event than the report")
    if {r.header.adjacency, privacy.adjacency} != {"add-remove"}:
        raise Wrong(
            f"the weights' event is about {r.header.adjacency} neighbours"
        )


def _settings(r: Release) -> None:
    """The settings plan the event, and the report's epsilon is for the run's delta and neighbours."""
    run, spent = r.settings.run, r.details.spent
    if (
        r.settings.config_hash != digest(run)
        or r.settings.unit != r.report.unit
    ):
        raise Wrong("the settings have another hash or unit than they say")
    if relation(run) != (spent.delta, spent.adjacency == "replace-one"):
        raise Wrong(
            "the report's epsilon is at another delta or adjacency than the run's, whose n may be public"
        )
    if spent.epsilon != spent.upper:
        raise Wrong(
            f"the report's epsilon is {spent.epsilon!r}, and its upper end {spent.upper!r}"
        )
    if run.get("reproducible") and not r.header.get("remark"):
        raise Wrong(
            "the settings take the noise from a seed, and the weights do not say so"
        )
    _check_event_is_planned(r, run)


def _check_event_is_planned(r: Release, run: Fields) -> None:
    event = r.header.event
    if "sampler" in run:
        made = list(steps_of(event).elements())
        n = round(
            run.sampler.batch_size / made[0].rate
        )  # which the rate gives away
        require_same(made, steps_of_chain(run.sampler, n, length(run, n)))
        return
    made = steps_in_order(event)
    batch = run.sampling.public_size * run.sampling.sample_rate
    planned = steps_by_settings(made, run, batch)
    steps_paid_for(event, len(made), planned, run)


def _counts(r: Release) -> None:
    """What the counts cost with the run is of both events, and certificates have the counts that were released."""
    said, spent = r.details.counts, r.details.spent
    together = said.with_the_run
    noise = [
        {"event": "Gaussian", "noise_multiplier": said[name]}
        for name in ("std_errors", "std_n")
    ]
    expected = steps_of(
        {"event": "Composed", "inner": [r.report.privacy.event, *noise]}
    )
    if steps_of(together.event) != expected:
        raise Wrong(
            "what the counts cost with the run is of another event than the run's with theirs"
        )
    if (together.delta, together.adjacency) != (spent.delta, spent.adjacency):
        raise Wrong(
            "what the counts cost with the run is at another delta or adjacency than the run's epsilon"
        )
    if said.unit != r.report.unit:
        raise Wrong(
            f"the counts are of {said.unit}s, and the report of {r.report.unit}s"
        )
    for made in r.report.certificates:
        for name, entry in _RELEASED.items():
            if made.inputs.get(entry) != said[name]:
                raise Wrong(f"{made.name} has other {name} than were released")


def _nothing_else(r: Release) -> None:
    """No other file, tensor or entry is there; a page is not read, which is said."""
    for name in _WITHOUT_NOISE:
        if r.report[name]:
            raise Wrong(
                f"the report has {name}, which were counted without noise"
            )
    tensors = {f"model.{name}" for name in r.header.parameters} | {
        "state.extra.snapshots"
    }
    more = {
        "weights' header has": r.header.keys() - _HEADER,
        "file of the weights has": {*r.stored.beside, *r.stored.tensors}
        - tensors,
        "settings have": r.settings.keys() - _SETTINGS,
        "released counts have": r.details.counts.keys() - _COUNTS,
        **{
            f"report's {part} has": r.report.part(part).keys() - known
            for part, known in _TOLD.items()
        },
        "folder holds": {one.name for one in r.path.iterdir()}
        - {WEIGHTS, _SETTINGS_FILE, "certificates.json"},
    }
    page = more["folder holds"] == {_PAGE} and (r.path / _PAGE).is_file()
    if page:
        more["folder holds"] = set()
    for where, names in more.items():
        if names:
            raise Wrong(f"the {where} {min(names)} too")
    if page:
        raise Unchecked(f"this checker does not read {_PAGE}")


_CHECKS = {
    "weights": _weights,
    "event": _event,
    "settings": _settings,
    "counts": _counts,
    "nothing else": _nothing_else,
}
"""What is checked of an exported folder, in this order."""
