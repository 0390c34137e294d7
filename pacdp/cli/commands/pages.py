"""The commands about data and figures: plot, report, data."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tyro

from pacdp.cli import certifying
from pacdp.cli.console import DownloadBar
from pacdp.cli.extensions import folders
from pacdp.cli.folder import Folder, as_written
from pacdp.cli.parsing import no_more
from pacdp.cli.report import write_report
from pacdp.data import NAMES, load


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """Draw the figure of a run (training and certificates) or of a study's table, into its folder."""

    path: tyro.conf.Positional[Path]
    """A run folder, that of a study's results, or the name of a study whose results lie in experiments/results."""

    def __call__(self, rest: list[str]) -> None:
        """Draw the figures of the run or of the study's results."""
        no_more(rest)
        folder = _folder(self.path)
        if not folder.is_dir():
            raise ValueError(
                f"{folder} is no folder: give that of a run or of a study's results, or a study's name"
            )
        with as_written(folder):
            others = (known.plot(folder) for known in folders(folder))
            drawn = next((paths for paths in others if paths is not None), None)
            drawn = certifying.plot(Folder(folder)) if drawn is None else drawn
        for path in drawn:
            print(f"wrote {path}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Write one HTML page of a run, its certificates or a study: values, assumptions, costs, privacy, provenance."""

    path: tyro.conf.Positional[Path]
    """A run folder, one that holds a certificates.json, the folder of a study's results, or the name of a study whose
    results lie in experiments/results."""
    out: Path | None = None
    """Where the page goes; by default report.html in that folder."""

    def __call__(self, rest: list[str]) -> None:
        """Write the page of the run or of the study's results."""
        no_more(rest)
        print(f"wrote {write_report(_folder(self.path), self.out)}")


def _folder(path: Path) -> Path:
    found = [] if path.is_dir() else [known.named(str(path)) for known in folders()]
    return next((one for one in found if one), path)


@dataclass(frozen=True, slots=True, kw_only=True)
class Data:
    """Find, verify and if need be download data sets; print what they are."""

    names: tyro.conf.Positional[tuple[str, ...]] = NAMES
    root: str | None = None
    """Folder to look in first; then PACDP_DATA, the user's cache, the mirrors."""
    json: bool = False

    def __call__(self, rest: list[str]) -> None:
        """Load the data sets and print what they are."""
        no_more(rest)
        found: list[dict[str, Any]] = []
        for name in self.names:
            for role, data in zip(
                ("train", "test"),
                load(name, root=self.root, progressbar=DownloadBar()),
                strict=True,
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
