"""The commands that draw figures and write pages: plot, report."""

from pathlib import Path

import tyro

from pacdp.cli.extensions import studies
from pacdp.cli.serial import record


@record
class Plot:
    """Draw the figure of a run (training and certificates) or of a study's table, into its folder."""

    path: tyro.conf.Positional[Path]
    """A run folder, that of a study's results, or the name of a study whose results lie in experiments/results."""

    def __call__(self) -> None:
        """Draw the figures of the run or of the study's results."""
        from pacdp.cli.figures.run import caption, plot
        from pacdp.cli.folder import as_written

        folder = _folder(self.path)
        if not folder.is_dir():
            raise ValueError(
                f"{folder} is no folder: give that of a run or of a study's results, or a study's name"
            )
        with as_written(folder):
            known = studies(folder)
            drawn = known and known.plot(folder)
            said = caption(folder) if drawn is None else []
            drawn = plot(folder) if drawn is None else drawn
        print(*(f"wrote {path}" for path in drawn), *said, sep="\n")


@record
class Report:
    """Write one HTML page of a run, its certificates or a study: values, assumptions, costs, privacy, provenance."""

    path: tyro.conf.Positional[Path]
    """A run folder, one that holds a certificates.json, the folder of a study's results, or the name of a study whose
    results lie in experiments/results."""
    out: Path | None = None
    """Where the page goes; by default report.html in that folder."""

    def __call__(self) -> None:
        """Write the page of the run or of the study's results."""
        from pacdp.cli.report import write_report

        print(f"wrote {write_report(_folder(self.path), self.out)}")


def _folder(path: Path) -> Path:
    known = None if path.is_dir() else studies()
    return (known and known.named(str(path))) or path
