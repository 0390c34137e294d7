"""The folder that `pacdp export` writes: counts with noise in its certificate, and that nothing else is in it.

``check_release`` lists what is checked, in its order; that the counts with noise give the certificate is asked of the
certificate itself (``pacdp.verify.formulas.counts``).
"""

from pathlib import Path
from typing import Any

from pacdp.verify.claim import (
    CANNOT,
    DOES_NOT,
    Fields,
    Statement,
    Unchecked,
    all_judged,
    number,
    require,
    same,
)
from pacdp.verify.events import steps_in_order, steps_of
from pacdp.verify.files import (
    CHECKPOINT,
    content_hash,
    digest,
    other_format,
    read_checkpoint,
    read_json,
)
from pacdp.verify.plan import (
    length,
    relation,
    require_same,
    steps_by_settings,
    steps_of_chain,
    steps_paid_for,
)

WEIGHTS = "weights.safetensors"
_SETTINGS = "settings.json"
_PAGE = "report.html"
_WITHOUT_NOISE = (
    "rows",
    "gibbs",
    "diagnosis",
    "measured",
    "monte_carlo",
)
"""What a report may not have here, since it was counted without noise."""
_METHODS = (
    "Gaussian mechanism, closed form",
    "privacy loss distribution, dots connected",
    "privacy loss distribution, dots connected, two add-remove steps",
)
"""By which an epsilon may have been accounted."""
_REPEATED = {
    "errors": "released_errors",
    "n": "released_n",
    "std_errors": "std_errors",
    "std_n": "std_n",
}
"""Released counts, and the inputs of certificates that repeat them."""

_KNOWN = {
    "folder": f"{WEIGHTS} {_SETTINGS} certificates.json",
    "file of the weights": "state.extra.snapshots",
    "header of the weights": "kind event adjacency remark format parameters content_hash",
    "settings": "format run config_hash unit remarks",
    "counts": f"{' '.join(_REPEATED)} unit with_the_run",
    "cost": "event epsilon delta adjacency",
    "details": "counts spent seeded",
    "spent": "lower estimate upper epsilon delta adjacency status method",
    "subject": "checkpoint content_hash algorithm",
    "prior": "source privacy unit choice_nats",
    "privacy": "adjacency status event record",
    "provenance": "commit dirty versions",
}
"""All that each part may hold."""


class Release:
    """The files of an exported folder."""

    def __init__(
        self,
        path: Path,
        report: Fields,
        settings: Fields,
    ) -> None:
        self.path = path
        self.report = report
        self.settings = settings
        self.stored = read_checkpoint(path / WEIGHTS)
        self.header = self.stored.header
        self.details = report.details


def check_release(path: Path, report: Fields) -> list[Statement]:
    """Weights, settings and report say the same, and hold nothing about the data but counts with noise."""
    settings = read_json(path / _SETTINGS)
    if settings is None:
        why = f"there is no {_SETTINGS}"
        return [Statement(path.name, "settings", DOES_NOT, why)]
    r = Release(path, report, settings)
    form = r.header.get("format")
    if form != CHECKPOINT:
        why = other_format(form, CHECKPOINT, report.get("provenance"))
        return [Statement(WEIGHTS, "format", CANNOT, why)]
    checks = {
        "weights": _weights,
        "event": _event,
        "settings": _settings,
        "spent": _spent,
        "counts": _counts,
        "nothing else": _nothing_else,
    }
    return all_judged(path.name, checks, r)


def _weights(r: Release) -> None:
    """The weights have the hash that their header and the report say."""
    said = r.header.content_hash, r.report.subject.content_hash
    same("the hash of the weights", {*said}, {content_hash(r.stored)})
    same("their kind", r.header.kind, "private-release/1")


def _event(r: Release) -> None:
    """Weights and report name one event; the weights, the neighbours of epsilon, and certificates add-remove ones."""
    header = r.header
    privacy = r.report.privacy
    same("the event of the weights", header.event, privacy.event)
    replaced = relation(r.settings.run)[1]
    said = header.adjacency == "replace-one", privacy.adjacency
    same("its neighbours", said, (replaced, "add-remove"))


def _settings(r: Release) -> None:
    """The settings have their hash and the report's unit, say whose the noise is, and plan the event."""
    run = r.settings.run
    event = r.header.event
    said = r.settings.config_hash, r.settings.unit
    same("their hash and unit", said, (digest(run), r.report.unit))
    require(
        not run.get("reproducible") or r.header.get("remark"),
        "the settings take the noise from a seed, and the weights do not say so",
    )
    if "sampler" in run:
        made = list(steps_of(event).elements())
        # the rate tells how many records there are
        n = round(run.sampler.batch_size / made[0].rate)
        require_same(
            made, steps_of_chain(run.sampler, n, length(run, n))
        )
        return
    made = steps_in_order(event)
    batch = run.sampling.public_size * run.sampling.sample_rate
    planned = steps_by_settings(made, run, batch)
    steps_paid_for(event, len(made), planned, run)


def _spent(r: Release) -> None:
    """The report's epsilon is for the run's delta and neighbours, and nothing else is told beside it."""
    spent = r.details.spent
    said = spent.delta, spent.adjacency == "replace-one"
    same("delta and neighbours", said, relation(r.settings.run))
    same("the report's epsilon", spent.epsilon, spent.upper)
    require(
        0
        <= number(spent.lower)
        <= number(spent.estimate)
        <= spent.upper,
        f"epsilon is said to be {spent.estimate!r}, from {spent.lower!r} to {spent.upper!r}",
    )
    same("how it was accounted", spent.status, "accounted")
    require(
        spent.method in _METHODS,
        f"by {spent.method!r} nothing is accounted",
    )


def _counts(r: Release) -> None:
    """What the counts cost with the run is of both events, and certificates have the counts that were released."""
    said = r.details.counts
    spent = r.details.spent
    together = said.with_the_run
    noise = [
        {"event": "Gaussian", "noise_multiplier": said[name]}
        for name in ("std_errors", "std_n")
    ]
    both = {
        "event": "Composed",
        "inner": [r.report.privacy.event, *noise],
    }
    require(
        steps_of(together.event) == steps_of(both),
        "what the counts cost with the run is of another event than the run's with theirs",
    )
    relations = [
        (one.delta, one.adjacency) for one in (together, spent)
    ]
    same("delta and neighbours of counts", *relations)
    same("the unit of the counts", said.unit, r.report.unit)
    for made in r.report.certificates:
        for name, entry in _REPEATED.items():
            what = f"{name} of {made.name}"
            same(what, made.inputs.get(entry), said[name])


def _nothing_else(r: Release) -> None:
    """No other file, tensor or entry is there; a page is not read, which is said."""
    report = r.report
    counts = r.details.counts
    for name in _WITHOUT_NOISE:
        require(
            not report[name],
            f"the report has {name}, which were counted without noise",
        )
    files = {one.name for one in r.path.iterdir()}
    page = _PAGE in files and (r.path / _PAGE).is_file()
    tensors = {f"model.{name}" for name in r.header.parameters}
    found: dict[str, Any] = {
        "folder": files - {_PAGE} if page else files,
        "file of the weights": {*r.stored.beside, *r.stored.tensors}
        - tensors,
        "header of the weights": r.header,
        "settings": r.settings,
        "counts": counts,
        "cost": counts.with_the_run,
        "details": r.details,
        "spent": r.details.spent,
    }
    for name in ("subject", "prior", "privacy", "provenance"):
        found[name] = report.part(name)
    for where, entries in found.items():
        more = set(entries) - set(_KNOWN[where].split())
        require(
            not more,
            f"the {where} of the release: {', '.join(more)} too",
        )
    if page:
        raise Unchecked(f"this checker does not read {_PAGE}")
