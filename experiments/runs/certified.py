"""A chain that is trained and certified in a study's folder, and reports that say nothing of where that folder was."""

from pathlib import Path

from experiments.study import Row
from pacdp import Settings
from pacdp.cli import certifying
from pacdp.cli.config import Run, Runtime
from pacdp.cli.folder import Folder
from pacdp.cli.run import train


def certified_chain(run: Run, runtime: Runtime, folder: Path, *, unlisted: Settings | None = None) -> Row:
    """The report on a run that is trained in ``folder``, unless it is there already, and certified."""
    if not Folder(folder / "run").finished:
        train(run, folder / "run", runtime, resume=True)
    return anywhere(certifying.certify(folder / "run", runtime, seed=run.seed, unlisted=unlisted))


def anywhere(report: Row) -> Row:
    """The report without the place of its checkpoint, which is another on another machine."""
    subject = {name: value for name, value in report["subject"].items() if name != "checkpoint"}
    return report | {"subject": subject}
