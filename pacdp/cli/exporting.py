"""`pacdp export`: the only folder of a private run that may be published, and how its counts are released.

    weights.safetensors   weights and snapshots with the event that they cost, of kind "private-release/1"
    settings.json         the configuration
    certificates.json     a report pacdp-certificates/2 whose errors and n were released with noise

All of it is a function of what the ledger counts: the run's mechanisms, and two counts with noise. The counts are
kept in the private folder until they are released with other noise, so that a next export of the same run at the same
noise releases nothing more.

What of a run may leave it is read first, whichever kind of run that is, and then written down.
"""

import json
import math
import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import Tensor

from bounds._check import json_value
from bounds.accounting import Composed, Event, PrivacyBound, event_to_dict
from pacdp import Network, Private, Report, Settings, certify, load_checkpoint, load_trained
from pacdp.certify import BoundSet
from pacdp.certify.examples import Unit
from pacdp.certify.reading import AtWeights
from pacdp.certify.released_counts import ReleasedErrors, released_errors
from pacdp.cli.commands.export import Export
from pacdp.cli.config import Run, require_own_run
from pacdp.cli.folder import Folder, provenance, write_json
from pacdp.cli.private.books import counted_beside, counting
from pacdp.cli.private.config import PrivateConfig
from pacdp.cli.runtime import Runtime
from pacdp.cli.serial import Values, record, to_dict
from pacdp.cli.terminal import messages, refusing, word
from pacdp.errors import CheckpointError
from pacdp.resume import KIND, export
from pacdp.step.accountant import privacy_spent
from pacdp.step.langevin import accounted_privacy
from pacdp.step.noise import SystemRandomness
from pacdp.step.planned_steps import ChargedSteps
from pacdp.store.canonical import digest
from pacdp.store.checkpoint import Checkpoint
from pacdp.store.files import on_disk, remove_partial, replacing
from pacdp.store.ledger import Ledger
from pacdp.store.reservation import SYSTEM

FORMAT = "pacdp-release/1"
COUNTS = "pacdp-released-counts/2"
_ROOM = 2**12
"""Bytes for the counts and what is said of them: four times what they take."""


@record
class Leaving:
    """A run's checkpoint beside its data, and what of both may be told."""

    checkpoint: Checkpoint
    config: PrivateConfig | Run
    bound: BoundSet
    event: Event
    """What the certificates pay for."""
    charged: ChargedSteps
    source: Private
    predictor: Network
    """As deployed: weights, or an average over snapshots or draws."""

    @property
    def seeded(self) -> bool:
        """Whether a seed fixes the noise, or nothing shows that none does."""
        header, private = self.checkpoint.header, self.config.KIND == "private"
        shown = header.get("randomness") == "SystemRandomness" if private else "noise_key" in header
        return self.config.reproducible or not shown

    @property
    def snapshots(self) -> Tensor | None:
        """Weights kept on the way, which the event covers."""
        return self.checkpoint.state.get("extra.snapshots")

    def spent(self, event: Event) -> PrivacyBound:
        """Epsilon of an event at the run's own delta and adjacency."""
        return privacy_spent(event, **self.config.relation)

    def told(self, found: Report, **details: Any) -> Report:
        """The assessment with what the run spent, and with what shows that its steps were planned.

        ``found`` is made at a failure probability that was divided by the moments at which the run may have ended.
        """
        whole = self.charged.stopping_times * found.failure_prob
        spent = {"spent": self.spent(self.event).to_dict(), **details}
        found = found.at_any_of(self.charged, failure_prob=whole)
        return replace(found, details={**found.details, **spent})


def leaving(path: Path, runtime: Runtime) -> Leaving:
    """What of the run in a folder may leave.

    Raises:
        ValueError: the run promises nothing, or not to those whom its examples belong to.
        CheckpointError: there is no checkpoint, or it is not the run's or that of the data here.
    """
    header = load_checkpoint(path).header
    if header.get("kind") == KIND:
        from pacdp.cli.private.certify import released  # which is one of these

        return released(path, runtime)
    if (header.get("sampler") or {}).get("clip_norm") is None:
        raise ValueError(
            f"{path} holds no private run: only what a private recipe, or a chain with a clip norm, has trained may "
            "leave, and is exported"
        )
    runtime.apply()
    trained = load_trained(path, data_root=runtime.data_root)
    checkpoint, data = trained.checkpoint, trained.objective
    run = require_own_run(path, checkpoint.header, n=data.n)
    if not run.promising or trained.records is not None:
        why = (
            "hides examples, and its data are of people"
            if run.promising
            else "promises nothing of its steps"
        )
        raise ValueError(f"{path} cannot be exported: {run.algorithm} {why}")
    charged = trained.charged
    event = run.sampler.promise(data.n, charged.steps)
    if event is None:
        raise CheckpointError(
            f"{path} has no step: nothing was released that could be certified; train first"
        )
    bound = BoundSet.behind(data)
    claim = accounted_privacy(run.sampler, n=data.n, steps=charged.steps)
    return Leaving(
        checkpoint=checkpoint, config=run, bound=bound, event=event, charged=charged,
        source=Private(privacy=claim, rows=bound.rows, noise=trained.noise),
        predictor=Network(network=AtWeights(data.model, checkpoint.model), of="weights"),
    )  # fmt: skip


def export_run(asked: Export) -> Values:
    """Write the folder ``asked.out`` of a finished private run, all of it or none, and return its certificates.

    Raises:
        Overdrawn: the ledger's limit would be passed; nothing was released.
        ValueError: the folder exists; the run is no finished private run, or its noise is known to whoever knows a
            seed, or no ledger, or another one, counts it.
    """
    run, out, folder = asked.run, asked.out, Folder(asked.run)
    if os.path.lexists(out):
        raise ValueError(f"{out} exists: give the name of a folder that is not there yet")
    if Path(os.path.realpath(out)).is_relative_to(os.path.realpath(run)):
        raise ValueError(
            f"{out} lies in the private folder {run}: give a place of its own to what may be published"
        )
    if not folder.checkpoint.is_file():
        raise ValueError(
            f"{run} holds no private run, nor any other: give the folder of one that pacdp train has left"
        )
    with folder.lock():
        if not folder.finished:
            raise ValueError(
                f"{run} is not finished, and stopping it may depend on the data: pacdp train --resume --out "
                f"{word(run)}, after pacdp ledger limit --raise where the ledger's limit has halted it, then export it"
            )
        one = leaving(run, asked.runtime)
        if one.seeded:
            raise ValueError(
                f"the noise of {run} came from a seed, and whoever knows it can subtract it: train with "
                "--no-reproducible to publish"
            )
        for name, std in (("std_errors", asked.std_errors), ("std_n", asked.std_n)):
            if std * 6.0 > one.bound.units:
                raise ValueError(
                    f"{name} = {std:g} is too much noise for so few records: give a smaller "
                    f"--{name.replace('_', '-')}, which costs more epsilon"
                )
        noise = ReleasedErrors(
            errors=0, n=0, std_errors=asked.std_errors, std_n=asked.std_n, unit=one.bound.unit
        )
        together = Composed(events=(one.event, noise.event))
        epsilon = one.spent(together).upper
        if math.isinf(epsilon):
            raise ValueError("epsilon of what would leave is unbounded: give a larger --std-errors and --std-n, of a "
                             "run whose own epsilon is finite")  # fmt: skip
        book, name = _counted(asked, one)
        counts: Values = {}

        def release(errors: float, n: int, unit: Unit) -> ReleasedErrors:
            true = replace(noise, errors=errors, n=n, unit=unit)
            made = _released_once(run / "released.json", one, true, book, name)
            counts.update(made.to_dict())
            return made

        found = certify(
            one.predictor,
            one.bound,
            prior=one.source,
            failure_prob=asked.failure_prob / one.charged.stopping_times,
            settings=Settings.tried(asked.tried),
            release=release,
        )
        counts["with_the_run"] = {
            "event": event_to_dict(together), "epsilon": epsilon, **one.config.relation
        }  # fmt: skip
        return _written(out, one, one.told(found, counts=counts))


def _counted(asked: Export, one: Leaving) -> tuple[Ledger, str]:
    """The ledger that counts the run's steps, and the run's name in it."""
    run, header = asked.run, one.checkpoint.header
    ledger, own = asked.ledger or counted_beside(run, header), header.get("ledger")
    if own is not None:
        return counting(ledger, own["receipt"]), str(own["run"])
    if (ledger / "ledger.jsonl").exists() or asked.correct:
        book = Ledger.open(ledger)
        # a digest that is keyed by this ledger
        keys = ["run", one.checkpoint.content_hash]
        name = book.stream(keyed_by=keys, settings=None).numbers[:16]
        counted = ("correction", name) in [
            (each.stretch.kind, each.stretch.run) for each in book.entries
        ]
        if asked.correct and not counted:
            label = "trained without a ledger, exported"
            tells, key = bool(one.config.public), header.get("noise_key")
            numbers = ["ChaCha20", key, header.get("chain")]  # which two copies of a chain share
            stream = (
                book.stream(keyed_by=numbers, settings=one.checkpoint.content_hash, secret=True)
                if key
                else SYSTEM
            )
            book.correct(
                event=one.event,
                unit=one.bound.unit,
                label=label,
                run=name,
                tells_size=tells,
                stream=stream,
            )
            messages.print(f"the steps of {run} are entered into {ledger} as a correction")
        if asked.correct or counted:
            return book, name
    raise ValueError(
        f"the steps of {run} are counted in no ledger: give --correct to enter them into {ledger}, which cannot be "
        "undone"
    )


def _released_once(
    kept: Path, one: Leaving, true: ReleasedErrors, book: Ledger, name: str
) -> ReleasedErrors:
    """The ``true`` counts with noise: those that were released before of this checkpoint, or new ones."""
    content, again = one.checkpoint.content_hash, ""
    if kept.is_file():
        what = "restore it, or remove it to release the counts again, for more epsilon"
        with refusing(f"{kept} is damaged", KeyError, TypeError, ValueError, or_else=what):
            record = json_value(kept.read_text())
            if record["format"] != COUNTS:
                raise ValueError(f"it is of format {record['format']!r}")
            if record.pop("hash") != digest(record):
                raise ValueError("its counts have another hash than it says")
            known = ReleasedErrors(**record["counts"], receipt=record["receipt"])
        if (known.event, known.unit, record["of"]) == (true.event, true.unit, content):
            book.require(known.receipt)
            messages.print(
                "errors and n were released before with this noise: the same numbers leave again, at no further cost"
            )
            return known
        again = ", once more"
    with replacing(kept) as file:
        file.write(b" " * _ROOM)  # a full disk is met before anything is paid
        file.flush()
        os.fsync(file.fileno())
        made = released_errors(
            true.errors if true.unit == "person" else int(true.errors), int(true.n), std_errors=true.std_errors,
            std_n=true.std_n, randomness=SystemRandomness(), ledger=book, run=name, unit=true.unit,
            label="errors and n, exported",
        )  # fmt: skip
        record = {
            "format": COUNTS, "of": content, "counts": made.to_dict(), "receipt": dict(made.receipt or {}),
        }  # fmt: skip
        file.seek(0)
        file.write(f"{json.dumps({**record, 'hash': digest(record)}, indent=2)}\n".encode())
        file.truncate()
    messages.print(
        f"errors and n are released{again} with noise {made.std_errors:g} and {made.std_n:g}, counted in {book.folder}"
    )
    return made


def _written(out: Path, one: Leaving, found: Report) -> Values:
    """Write the folder beside its place, and move it there once it is whole; the report in it."""
    partial = remove_partial(out)
    made, run = provenance(device="cpu", seed=0), to_dict(one.config)
    weights = partial / "weights.safetensors"
    settings = {"format": FORMAT, "run": run, "config_hash": digest(run), "unit": one.bound.unit,
                "remarks": list(one.config.public)}  # fmt: skip
    try:
        partial.mkdir(parents=True)
        export(weights, weights=one.checkpoint.model, event=one.event, adjacency=one.config.relation["adjacency"],
               snapshots=one.snapshots)  # fmt: skip
        subject = {
            "checkpoint": weights.name,
            "content_hash": load_checkpoint(weights).content_hash,
            "algorithm": one.config.algorithm,
        }
        source = {name: made[name] for name in ("commit", "dirty", "versions")}
        report = found.to_dict(subject=subject, provenance=source)
        write_json(partial / "settings.json", settings)
        write_json(partial / "certificates.json", report)
        on_disk(partial)
        partial.rename(out)
        on_disk(out.parent)
    except OSError as error:
        raise ValueError(
            f"cannot write {out}: {error}; make room or choose another place, and export again"
        ) from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return report
