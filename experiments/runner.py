"""Carrying out studies, and what is kept of them: table, figures, verdict, configuration and provenance.

All studies' jobs go over one set of workers; each study's results are written as soon as its jobs have ended. Figures
and verdict are made of the table as it is read back from its file, so that they can be made again from it.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from experiments.registry import studies, study
from experiments.study import Study
from experiments.watch import Watch
from pacdp.cli.config import Runtime
from pacdp.cli.folder import Folder, provenance, read_json, write_json
from pacdp.cli.recipes import Scale
from pacdp.cli.serial import to_dict
from pacdp.cli.sweep.batches import carry_out
from pacdp.cli.sweep.jobs import Job
from pacdp.cli.sweep.workers import Workers
from pacdp.files import replacing

FORMAT = "pacdp-verdict/2"
RESULTS = Path("experiments/results")
SCALES: tuple[Scale, ...] = ("paper", "gpu", "cpu", "smoke")
"""The most telling first."""
_FILES = ("config.json", "provenance.json", "table.csv", "figure.png", "figure.pdf", "summary.json", "verdict.json",
          "certificates")  # fmt: skip
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


def conduct(plans: Sequence[Plan], runtime: Runtime, *, workers: Workers) -> Iterator[Plan]:
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
    first = [users[0] for users in wanted.values()]
    with Watch(jobs=[(plan.study.name, job) for plan, job in first]) as watch:
        jobs, outs = [job for _, job in first], list(wanted)
        for i, error in carry_out(jobs, outs, runtime, workers=workers, started=watch.started):
            watch.ended(i, error)
            for plan, job in wanted[outs[i]]:
                if error:
                    plan.failed[job.key] = error
                left[plan.study.name] -= 1
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


def publish(
    found: Study, jobs: Sequence[Job], folder: Path, out: Path, *, scale: Scale, device: str, seed: int,
    failed: Mapping[str, str],
) -> dict[str, Any]:  # fmt: skip
    """Write all that is kept of a study into ``out`` and return its verdict; ``failed`` are the errors by jobs' keys.

    Raises:
        ValueError: no job has left anything, or what is to be kept is too large or not finite.
    """
    table = found.table(jobs, folder)
    if table.is_empty():
        raise ValueError(f"no run in {folder} has recorded anything: there is nothing to publish")
    if table.estimated_size() > _MOST_BYTES:
        raise ValueError(
            f"the table of {found.name} takes {table.estimated_size():,} bytes: keep fewer rows of each run"
        )
    made_by = provenance(device=device, seed=seed)  # before any file is written: the results may be tracked
    finished = sum(Folder(folder / job.key).finished for job in jobs if job.key not in failed)
    made_by |= {"runs": _origins(jobs, folder),
                "jobs": {"planned": len(jobs), "finished": finished, "failed": dict(failed)}}  # fmt: skip
    _require_own(out)
    out.mkdir(parents=True, exist_ok=True)
    planned = {job.key: {"config": to_dict(job.config), "tags": dict(job.tags)} for job in jobs}
    write_json(out / "config.json", {"study": found.name, "scale": scale, "seed": seed, "jobs": planned})
    write_json(out / "provenance.json", made_by)
    with replacing(out / "table.csv") as file:
        table.write_csv(file)
    _keep_reports(jobs, folder, out / "certificates")
    table = read_table(out)
    found.draw(table, out)
    if found.summary:
        write_json(out / "summary.json", found.summary(jobs, table))
    return judge(found, out, scale)


def _require_own(out: Path) -> None:
    """Refuse a folder with files of the names that a study's results have, which are not a study's results."""
    theirs = [name for name in _FILES if (out / name).exists()]
    config = out / "config.json"
    if theirs and not (config.is_file() and "study" in read_json(config)):
        raise ValueError(f"{out / theirs[0]} is there and {out} holds no study's results: choose another --out")


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
            write_json(out / f"{job.key}-{name.replace('_', '-')}.json", reference)


def judge(found: Study, out: Path, scale: Scale) -> dict[str, Any]:
    """Write the verdict on the table in ``out`` and return it.

    Raises:
        ValueError: there is no table, or a number of the verdict is not finite.
    """
    of = {"format": FORMAT, "study": found.name, "title": found.title, "paper": found.paper, "scale": scale}
    verdict = of | found.judge(read_table(out), scale).to_dict()
    try:
        write_json(out / "verdict.json", verdict)
    except ValueError as error:
        raise ValueError(f"the verdict on {found.name} holds a number that is not finite: correct its judge") from error
    return json.loads(json.dumps(verdict))


def read_table(folder: Path) -> pl.DataFrame:
    """The table in a folder of results, of the types that it was written with.

    Raises:
        ValueError: there is none.
    """
    path = folder / "table.csv"
    if not path.is_file():
        raise ValueError(f"{path} is missing: run the study, or give the folder of its results")
    table = pl.read_csv(path, infer_schema_length=None, schema_overrides=_TEXT)
    empty = [
        name for name, kind in table.schema.items() if kind == pl.String and table[name].null_count() == len(table)
    ]
    return table.with_columns(pl.lit(None).alias(name) for name in empty)


def results_of(name: str, scale: Scale | None = None, *, root: Path = RESULTS) -> Path:
    """The folder of a study's results, of the most telling scale unless one is given.

    Raises:
        ValueError: the study has no results there.
    """
    found = [root / name / one for one in ([scale] if scale else SCALES)]
    for folder in found:
        if (folder / "table.csv").is_file():
            return folder
    raise ValueError(f"{found[0].parent} holds no results of {name}: make them with pacdp experiment {name}")


def draw_again(folder: Path) -> list[Path]:
    """Draw the figures of the study whose results a folder holds, from its table, into it; returns where.

    Raises:
        ValueError: the folder does not say whose results it holds.
    """
    for file in ("verdict.json", "config.json"):
        name = read_json(folder / file).get("study") if (folder / file).is_file() else None
        if name in studies():
            return study(str(name)).draw(read_table(folder), folder)
    raise ValueError(f"neither verdict.json nor config.json in {folder} names a study: run the experiment again")


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
