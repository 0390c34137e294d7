"""The commands about data, figures and experiments: plot, report, data, experiment."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl
import tyro

from experiments import certifying, random_labels
from experiments.config import Runtime
from experiments.console import DownloadBar, progress, row_line
from experiments.fleet import Workers
from experiments.folder import Folder
from experiments.recipes import Scale
from experiments.report import write_report
from experiments.terminal import no_more, usage
from pacdp.data import NAMES, load


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """Draw the figure of a run (training and certificates) or of an experiment's table, into its folder."""

    path: tyro.conf.Positional[Path]
    """A run folder, or the folder of an experiment's results."""

    def __call__(self, rest: list[str]) -> None:
        no_more(rest)
        if (self.path / "table.csv").is_file():
            table = pl.read_csv(self.path / "table.csv", infer_schema_length=None)
            written = random_labels.draw(table, self.path)
        else:
            written = certifying.plot(Folder(self.path))
        for path in written:
            print(f"wrote {path}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Write one HTML page about a run or its certificates: values, assumptions, costs, privacy, provenance."""

    path: tyro.conf.Positional[Path]
    """A run folder, or a folder that holds a certificates.json."""
    out: Path | None = None
    """Where the page goes; by default report.html in that folder."""

    def __call__(self, rest: list[str]) -> None:
        no_more(rest)
        print(f"wrote {write_report(self.path, self.out)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Data:
    """Find, verify and if need be download data sets; print what they are."""

    names: tyro.conf.Positional[tuple[str, ...]] = NAMES
    root: str | None = None
    """Folder to look in first; then PACDP_DATA, the user's cache, the mirrors."""
    json: bool = False

    def __call__(self, rest: list[str]) -> None:
        no_more(rest)
        found: list[dict[str, Any]] = []
        for name in self.names:
            for role, data in zip(
                ("train", "test"), load(name, root=self.root, progressbar=DownloadBar()), strict=True
            ):
                shape = "x".join(str(size) for size in data.inputs.shape[1:])
                found.append({"name": name, "role": role, "n": data.n, "shape": shape, "classes": data.classes,
                              "sha256": data.hash})  # fmt: skip
        if self.json:
            print(json.dumps(found))
            return
        for row in found:
            size = f"{row['n']:6} examples of {row['shape']:8} {row['classes']:3} classes"
            print(f"{row['name']:8} {row['role']:6} {size} sha256 {row['sha256'][:16]}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """Carry out an experiment: its runs, figure, table, configuration and provenance."""

    name: tyro.conf.Positional[str]
    """random-labels"""
    scale: Scale = "smoke"
    workers: tyro.conf.OmitArgPrefixes[Workers] = field(default_factory=Workers)
    out: Path | None = None
    """Where figure and table go; by default experiments/results/NAME/SCALE."""
    runs: Path = Path("runs")
    """Where the runs' folders go; finished ones are not run again."""
    seed: int = 0
    json: bool = False
    """Print the summary as JSON."""
    runtime: tyro.conf.OmitArgPrefixes[Runtime] = field(default_factory=lambda: Runtime(threads=1))

    def __call__(self, rest: list[str]) -> None:
        no_more(rest)
        if self.name != "random-labels":
            usage(f"no experiment is called {self.name!r}; there is random-labels")
        out = self.out or Path("experiments/results") / self.name / self.scale
        plan = random_labels.cells(self.scale, self.seed)
        folder = self.runs / f"{self.name}-{self.scale}"
        failed = []
        with progress(f"{self.name} ({self.scale})", len(plan)) as advance:
            for done, (cell, error) in enumerate(
                random_labels.conduct(plan, folder, self.runtime, workers=self.workers), start=1
            ):
                label = f"{cell.run.algorithm} noise {cell.thermal_noise:.3g} {cell.labels} labels"
                rows = Folder(folder / cell.run.key).rows()
                state = f"FAILED: {error}" if error else row_line(rows[-1], rows[-1]["step"])
                advance(done, f"[{done}/{len(plan)}] {label}: {state}")
                failed += [cell] if error else []
        summary = random_labels.publish(plan, folder, out, scale=self.scale, device=self.runtime.device, seed=self.seed)
        if self.json:
            print(json.dumps(summary, allow_nan=False))
        else:
            print(f"{summary['rows']} rows, {summary['bounds_compared']} bounds compared with test errors, "
                  f"{len(summary['violations'])} below them")  # fmt: skip
            for row in summary["violations"]:
                print(f"  bound below test error: {row}")
            print(f"wrote figure, table, configuration and provenance to {out}")
        if failed:
            raise RuntimeError(f"{len(failed)} of {len(plan)} runs failed, as said above; the rest is written")
