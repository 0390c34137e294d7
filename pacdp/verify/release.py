"""The folder that `pacdp export` writes: counts with noise in its certificate, and that nothing else is in it.

``_OF_A_REPORT`` lists what is checked, in its order; that the counts with noise give the certificate is asked of the
certificate itself (``pacdp.verify.formulas.counts``).
"""

from itertools import chain
from math import frexp
from pathlib import Path
from typing import Any

from pacdp.verify import loss
from pacdp.verify.claim import (
    CANNOT,
    Checks,
    Statement,
    Unchecked,
    hold,
    judged,
    number,
    parsed,
    require,
    require_asked,
    same,
)
from pacdp.verify.events import Step, last_alone, replaces, steps_of
from pacdp.verify.files import (
    SETTINGS,
    Folder,
    check_content,
    digest,
    ends_of,
    unasked,
)
from pacdp.verify.needs import (
    FIXED_STEPS,
    check_unit,
    require_named,
    standings,
)
from pacdp.verify.norms import (
    check_moments,
    noise_of_one,
    steps_of_chain,
)
from pacdp.verify.plan import (
    relation,
    require_same,
    steps_by_settings,
    steps_paid_for,
)

_SEEDED = "The noise came from a seed and can be subtracted: this folder is for tests, and protects nobody."
_PUBLIC_SIZE = (
    "sampling.public_size is 0: sums were divided by sample_rate times the data's own number of records, which is "
    "public thereby: epsilon is for replace-one neighbours"
)
_PUBLIC_RATE = (
    "an example joins a batch with probability batch_size/n: the number of examples, n, is public thereby: epsilon is "
    "for replace-one neighbours"
)
_PUBLIC_BATCHES = (
    "sample_rate is one over the number of batches of data_loader, so that the number of examples is public: epsilon "
    "is for replace-one neighbours; give sample_rate=, a number that you do not compute from the data, to have it for "
    "add-remove neighbours"
)
"""What may be remarked on weights that leave: other words could tell of the data."""
_ONLY_SAID = ("reproducible", "sampling.public_size", "budget")
"""Settings that decide who protects whom, and of which no file shows that they were not written after the run."""
_FORMAT = "pacdp-release/1"
_FAR = 10
"""Standard deviations beyond which no released count lies."""
_DELTA = 1e-5
"""At which the cost of weights without a report is told."""
_DRAWN = {"report.html", "figure.png", "figure.pdf"}
"""What is made of a report, and is not read."""
_WITHOUT_NOISE = (
    "rows",
    "gibbs",
    "diagnosis",
    "measured",
    "monte_carlo",
)
"""What a report may not have here, since it was counted without noise."""
_OF_WEIGHTS = """
report.subject.content_hash? = header.content_hash
header.kind = kind
"""
_EVENT = """
header.event = report.privacy.event
report.privacy.adjacency = adjacency
said = replaced
"""
_SETTINGS = """
settings.format = format
settings.config_hash = hash
settings.unit = report.unit
"""
_COUNTS = """
report.details.counts.unit = report.unit
report.details.counts.with_the_run.delta = report.details.spent.delta
report.details.counts.with_the_run.adjacency = report.details.spent.adjacency
"""
_REPEATED = """
inputs.released_errors = counts.errors
inputs.released_n = counts.n
inputs.std_errors = counts.std_errors
inputs.std_n = counts.std_n
"""
"""What has to be the same in two files; counts that are released, in the inputs of certificates."""

_KNOWN = """
folder: weights.safetensors settings.json certificates.json
file of the weights: state.extra.snapshots
header of the weights: kind event adjacency remark format parameters content_hash
settings: format run config_hash unit remarks
counts: errors n std_errors std_n unit with_the_run
cost: event epsilon delta adjacency
details: counts spent seeded at_price_zero
spent: lower estimate upper epsilon delta adjacency status method
subject: checkpoint content_hash algorithm
prior: source privacy unit choice_nats
privacy: adjacency status event record
provenance: commit dirty versions
"""
"""All that each part may hold."""


def check_release(path: Path, report: Any) -> list[Statement]:
    """What an exported folder says follows, in this order; without a report it is one of weights alone."""
    f = Folder(path, parsed(report))
    if why := f.another_version():
        return [Statement(path.name, "format", CANNOT, why)]
    checks = _ALONE if not f.report else _OF_A_REPORT
    return judged(path.name, checks, f)


def _weights(f: Folder) -> None:
    """The weights have the hash that their header and the report say, and are those of the settings' network."""
    check_content(f)
    f.hold(_OF_WEIGHTS, kind="private-release/1")


def _event(f: Folder) -> None:
    """Weights and report name one event; the weights, the neighbours of epsilon, and certificates add-remove ones."""
    replaced = relation(f.settings.run)[1]
    said = replaces(f.header.adjacency)
    given = {"said": said, "replaced": replaced}
    f.hold(_EVENT, **given, adjacency="add-remove")


def _settings(f: Folder) -> None:
    """The settings have their hash and the report's unit, say whose the noise is, and plan the event."""
    require(f.settings, f"there is no {SETTINGS}")
    run = f.settings.run
    event = f.header.event
    f.hold(_SETTINGS, format=_FORMAT, hash=digest(run))
    check_unit(f.report, run)
    made = steps_of(event)
    if "sampler" in run:
        n = _records(f, made[0])
        planned, listed = ends_of(run, n)
        require_same(made, steps_of_chain(run.sampler, n, planned))
        check_moments(f.certificates, listed or [planned])
        return
    size = run.sampling.public_size
    counts = f.report.details.counts
    require(
        not (size and last_alone(event))
        or number(counts.n) - _FAR * number(counts.std_n) <= size,
        f"the sum over about {counts.n!r} records is divided by {size!r}, so that no contraction is known",
    )
    tempered = run.method["convention"] == "tempered"
    if tempered and not run.sampling.public_size:
        _records(f, made[0])
    planned = steps_by_settings(
        event,
        run,
        run.sampling.public_size * run.sampling.sample_rate,
    )
    steps_paid_for(event, len(made), planned, run)


def _records(f: Folder, first: Step) -> int:
    """How many records the first step tells of, by a chain's rate or tempered noise: about as many as were released."""
    run = f.settings.run
    if "sampler" in run:
        n = round(run.sampler.batch_size / first.rate)
    else:
        of_one = noise_of_one(run, run.method.step_size)
        n = round(first.noise / of_one / first.rate)
    counts = f.report.details.counts
    require(
        abs(n - number(counts.n)) <= _FAR * number(counts.std_n),
        f"the event is that of {n} records, and about {counts.n!r} were released",
    )
    return n


def _beside(f: Folder) -> None:
    """Nothing is told in settings or header that no check asked for, or that other settings would say as well."""
    parts = {"settings": f.settings, "header": f.header}
    names = (unasked(part, at=at) for at, part in parts.items())
    run = f.settings and f.settings["run"]
    said = (
        f"settings.run.{name}"
        for name in _ONLY_SAID
        if name.split(".")[0] in (run or ())
    )
    require_asked(chain(*names, said), of="folder")


def _remarks(f: Folder) -> None:
    """Those that the settings ask for are there, and no other: of noise from a seed, and of a number that is public."""
    run = f.settings.run
    seeded = _SEEDED in f.settings.remarks
    due = []
    if "sampler" in run:
        due = [_PUBLIC_RATE]
    elif not run.sampling.public_size:
        due = [_PUBLIC_SIZE]
    due += [_SEEDED] * seeded
    same("what the settings remark", f.settings.remarks, due)
    require(
        seeded or not run["reproducible"],
        "the settings take the noise from a seed, and do not say so",
    )
    said = {f.header["remark"], f.report.details["seeded"]}
    same(
        "what is said of the seed",
        said,
        {_SEEDED if seeded else None},
    )


def _spent(f: Folder) -> None:
    """The report's epsilon is for the run's delta and neighbours; its bracket is asked of the report."""
    spent = f.report.details.spent
    said = spent.delta, replaces(spent.adjacency)
    same("delta and neighbours", said, relation(f.settings.run))


def _counts(f: Folder) -> None:
    """What the counts cost with the run is of both events, and certificates have the counts that were released."""
    said = f.report.details.counts
    together = said.with_the_run
    noise = [
        {"event": "Gaussian", "noise_multiplier": said[name]}
        for name in ("std_errors", "std_n")
    ]
    events = [f.report.privacy.event, *noise]
    both = [step for one in events for step in steps_of(one)]
    require(
        steps_of(together.event) == both,
        "what the counts cost with the run is of another event than the run's with theirs",
    )
    f.hold(_COUNTS)
    for count in ("errors", "n"):
        _, exponent = frexp(number(said[f"std_{count}"]))
        cell = 2.0 ** max(-10, exponent - 11)
        require(
            number(said[count]) % cell == 0,
            f"{count} is {said[count]!r}, beside the grid of its noise, and so tells the last bits of the count: "
            "export again by this version",
        )
    for made in f.report.certificates:
        require_named([FIXED_STEPS], standings(made))
        hold(_REPEATED, inputs=made.inputs, counts=said)
        require(
            made.name.startswith("private_"),
            f"{made.name} is not at the price of the event's privacy",
        )


def _nothing_else(f: Folder) -> None:
    """No other file, tensor, entry or remark is there; a page is not read, which is said."""
    header = f.header
    report = f.report
    files = {one.name for one in f.path.iterdir()}
    tensors = {f"model.{name}" for name in header.parameters}
    found: dict[str, Any] = {
        "folder": files - _DRAWN,
        "file of the weights": {*f.stored.beside, *f.stored.tensors}
        - tensors,
        "header of the weights": header,
    }
    if report:
        details = report.details
        found |= {
            "settings": f.settings,
            "counts": details.counts,
            "cost": details.counts.with_the_run,
            "details": details,
            "spent": details.spent,
        }
    for line in _KNOWN.strip().splitlines():
        where, known = line.split(":")
        entries = found.get(where, report.part(where))
        more = ", ".join(set(entries) - set(known.split()))
        require(not more, f"the {where} of the release: {more} too")
    without_noise = [
        name for name in _WITHOUT_NOISE if report[name]
    ]
    what = "what the report has that was counted without noise"
    same(what, without_noise, [])
    if drawn := ", ".join(sorted(files & _DRAWN)):
        raise Unchecked(f"this checker does not read {drawn}")


def _nothing_beside(f: Folder) -> None:
    """Of weights alone: nothing else is there, and no other remark than there may be."""
    same(f"{SETTINGS} beside weights alone", f.settings, None)
    _nothing_else(f)
    remark = f.header["remark"]
    told = f.header.adjacency, remark
    require(
        remark is None or told == ("replace-one", _PUBLIC_BATCHES),
        f"the remark is {remark!r}",
    )


def _cost_alone(f: Folder) -> None:
    """The event costs what is told for the neighbours of the header; that it is what ran, no file shows."""
    words = f.header.adjacency
    replaced = replaces(words)
    ran = steps_of(f.header.event, replaced)
    most = loss.epsilon_upper(ran, _DELTA, replaced)
    raise Unchecked(
        f"the folder holds weights and the event that they cost, and no report: the event is private at epsilon = "
        f"{most!r} and delta = {_DELTA:g} for {words} neighbours, and nothing shows that it is what ran"
    )


_ALONE: Checks = {
    "weights": _weights,
    "nothing else": _nothing_beside,
    "what the event costs": _cost_alone,
    "what is told beside": _beside,
}
_OF_A_REPORT: Checks = {
    "weights": _weights,
    "event": _event,
    "settings": _settings,
    "remarks": _remarks,
    "spent": _spent,
    "counts": _counts,
    "nothing else": _nothing_else,
    "what is told beside": _beside,
}
"""What is checked of an exported folder, in this order: of weights alone, and of weights with a report."""
