"""Carrying out studies, and what is kept of them: the table, its figures and what made it.

All studies' jobs go over one set of workers; each study's results are written as soon as its jobs have ended. Figures,
sentences and the page are made of the table as it is read back from its file.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from experiments.registry import RESULTS as RESULTS
from experiments.registry import studies
from experiments.study import Study
from pacdp.cli.folder import Folder, provenance, read_json, write_json
from pacdp.cli.runtime import Training
from pacdp.cli.sweep.batches import carry_out
from pacdp.cli.sweep.jobs import Job
from pacdp.cli.sweep.workers import Workers
from pacdp.cli.terminal import messages
from pacdp.store.files import replacing

_FILES = ("table.csv", "provenance.json")
_MOST_BYTES = 5_000_000
_TEXT = {"labels": pl.String}
"""Columns whose text would be read as another type: where all labels are "true", as truth values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A study's jobs and where their folders go."""

    study: Study
    jobs: list[Job]
    folder: Path
    failed: dict[str, str] = field(default_factory=dict)
    """Errors by the keys of the jobs that failed, as they become known."""


def conduct(plans: Sequence[Plan], how: Training, *, workers: Workers) -> Iterator[Plan]:
    """Carry out the jobs that have not finished, yielding each plan when its last job has ended.

    A job that several studies need, with one key and one folder, is carried out once.

    Raises:
        ValueError: two jobs of a study have the same key, or jobs of two studies one folder and other configurations.
    """
    for plan in plans:
        if len({job.key for job in plan.jobs}) != len(plan.jobs):
            raise ValueError(f"two jobs of {plan.study.name} have the same key: their folder would be the same")
    wanted = _wanted(plans)
    left = {plan.study.name: len(plan.jobs) for plan in plans}
    jobs, outs = [users[0][1] for users in wanted.values()], list(wanted)
    for i, error in carry_out(jobs, outs, how, workers=workers):
        for plan, job in wanted[outs[i]]:
            if error:
                plan.failed[job.key] = error
            left[plan.study.name] -= 1
            done = f"[{len(plan.jobs) - left[plan.study.name]}/{len(plan.jobs)}] {plan.study.name} {job.key}"
            messages.print(f"{done}: {f'FAILED: {error}' if error else 'finished'}", markup=False)
            if not left[plan.study.name]:
                yield plan


def _wanted(plans: Sequence[Plan]) -> dict[Path, list[tuple[Plan, Job]]]:
    """By folder, the studies that need a job and what each calls it."""
    found: dict[Path, list[tuple[Plan, Job]]] = {}
    for plan in plans:
        for job in plan.jobs:
            users = found.setdefault(plan.folder / job.key, [])
            if users and users[0][1].config != job.config:
                raise ValueError(f"{users[0][0].study.name} and {plan.study.name} have jobs of one key, {job.key}, and "
                                 "other configurations: their folder would be the same")  # fmt: skip
            users.append((plan, job))
    return found


def publish(plan: Plan, out: Path, *, smoke: bool, device: str, seed: int) -> None:
    """Write all that is kept of a study into ``out``.

    Raises:
        ValueError: no job has left anything, what is to be kept is too large, or ``out`` holds something else.
    """
    require_own(plan.study, out, smoke=smoke)
    found, jobs = plan.study, [job for job in plan.jobs if job.key not in plan.failed]
    table = found.table(jobs, plan.folder)
    if table.is_empty():
        raise ValueError(f"no run in {plan.folder} has recorded anything: there is nothing to publish")
    if table.estimated_size() > _MOST_BYTES:
        raise ValueError(
            f"the table of {found.name} takes {table.estimated_size():,} bytes: keep fewer rows of each run"
        )
    finished = sum(Folder(plan.folder / job.key).finished for job in jobs)
    made_by = provenance(device=device, seed=seed) | {
        "study": found.name, "smoke": smoke, "runs": _origins(jobs, plan.folder),
        "jobs": {"planned": len(plan.jobs), "finished": finished, "failed": dict(plan.failed)},
    }  # fmt: skip
    out.mkdir(parents=True, exist_ok=True)
    write_json(out / "provenance.json", made_by)
    with replacing(out / "table.csv") as file:
        table.write_csv(file)
    _keep_reports(jobs, plan.folder, out / "certificates")
    found.draw(read_table(out), out)


def require_own(found: Study, out: Path, *, smoke: bool) -> None:
    """Refuse a folder with files of the names that results have, which are not this study's.

    Raises:
        ValueError: they are of something else, or smoke runs would take the place of results.
    """
    theirs = [name for name in _FILES if (out / name).exists()]
    made = out / "provenance.json"
    held = read_json(made) if made.is_file() else {}
    if theirs and held.get("study") != found.name:
        raise ValueError(
            f"{out / theirs[0]} is there and {out} does not hold results of {found.name}: choose another --out"
        )
    if smoke and held.get("smoke") is False:
        raise ValueError(f"{out} holds results of {found.name}, and smoke runs say nothing: choose another --out")


def _keep_reports(jobs: Sequence[Job], folder: Path, out: Path) -> None:
    """Copy the reports of runs that certify, so that ``pacdp verify`` can recompute what the table says."""
    for job in jobs:
        result = Folder(folder / job.key).result
        report = read_json(result) if result.is_file() else {}
        if report.get("format") != "pacdp-certificates/2":
            continue
        report = {name: value for name, value in report.items() if name != "seconds"}
        references = report["details"].pop("references", {})
        out.mkdir(parents=True, exist_ok=True)
        write_json(out / f"{job.key}.json", report)
        for name, reference in references.items():
            write_json(out / f"{job.key}-{re.sub('[^A-Za-z0-9]+', '-', name)}.json", reference)


def read_table(folder: Path, file: str = "table.csv") -> pl.DataFrame:
    """A table in a folder of results, of the types that it was written with."""
    table = pl.read_csv(folder / file, infer_schema_length=None, schema_overrides=_TEXT)
    empty = [
        name for name, kind in table.schema.items() if kind == pl.String and table[name].null_count() == len(table)
    ]
    return table.with_columns(pl.lit(None).alias(name) for name in empty)


def results_of(name: str, *, root: Path = RESULTS) -> Path:
    """The folder of a study's results.

    Raises:
        ValueError: the study has no results there.
    """
    if not (root / name / "table.csv").is_file():
        raise ValueError(f"{root / name} holds no results of {name}: make them with pacdp experiment {name}")
    return root / name


def study_of(folder: Path) -> Study:
    """The study whose results a folder holds.

    Raises:
        ValueError: the folder does not say whose results it holds.
    """
    made = folder / "provenance.json"
    name = read_json(made).get("study") if made.is_file() else None
    if name not in studies():
        raise ValueError(f"{made} names no study: run the experiment again")
    return studies()[name]


def _origins(jobs: Sequence[Job], folder: Path) -> list[dict[str, Any]]:
    """The commits that the runs themselves were made at, each once, with how many runs."""
    found: dict[tuple[Any, Any], int] = {}
    for job in jobs:
        path = Folder(folder / job.key).provenance
        if path.is_file():
            record = read_json(path)
            origin = (record["commit"], record["dirty"])
            found[origin] = found.get(origin, 0) + 1
    return [{"commit": commit, "dirty": dirty, "runs": count} for (commit, dirty), count in found.items()]


def made_by(made: Mapping[str, Any]) -> str:
    """A sentence about the commits, the seed and the jobs behind a study's results."""
    commits = ", ".join(f"`{str(one['commit'])[:12]}`{' with uncommitted changes' if one['dirty'] else ''} "
                        f"({one['runs']} runs)" for one in made.get("runs", []))  # fmt: skip
    device = made.get("device", {}).get("type", "an unrecorded device")
    said = "Smoke runs, whose numbers say nothing. " if made.get("smoke") else ""
    said += f"Runs made at commit {commits or 'unknown'}, seed {made.get('seed', 'unrecorded')}, on {device}."
    jobs = made.get("jobs", {"finished": 0, "planned": 0})
    if jobs["finished"] != jobs["planned"]:
        errors = "; ".join(f"{key}: {error}" for key, error in jobs["failed"].items())
        said += f" Only {jobs['finished']} of {jobs['planned']} runs finished{': ' + errors if errors else ''}."
    return said
