"""What a checkpoint's header says of its run, compared with the run: nothing is believed that follows from it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pacdp.cli.config import Run
from pacdp.cli.folder import Folder
from pacdp.cli.serial import from_dict
from pacdp.errors import CheckpointError


def _run_of(checkpoint: Path, header: Mapping[str, Any]) -> Run:
    """The run that a checkpoint's header names."""
    try:
        return from_dict(Run, header.get("run", {}))
    except ValueError as error:
        raise CheckpointError(
            f"{checkpoint} is of no run of pacdp train that this version reads ({error}): put the run's own back; a "
            "loop of your own is certified in Python, by load_trained(...).assess()"
        ) from error


def require_own_run(checkpoint: Path, header: Mapping[str, Any], run: Run, *, n: int) -> None:
    """Refuse a checkpoint that is of another run, or whose planned steps are not those of the run on ``n`` examples.

    Raises:
        CheckpointError: it says what differs, or the header's run is no configuration of this version.
    """
    if _run_of(checkpoint, header) != run:
        raise CheckpointError(
            f"{checkpoint} is of another run or chain than {checkpoint.parent / 'config.json'} says: put its own back, "
            "or start the run again with --force"
        )
    planned = run.plan(n).to_header()
    said = {name: header.get(name) for name in planned}
    if said != planned:
        raise CheckpointError(
            f"{checkpoint} says that it was planned with {said}, but its run on {n} examples makes {planned}: its "
            "header was changed; take it from its source again"
        )


def require_rederived(path: Path, header: Mapping[str, Any], *, n: int) -> Run:
    """The run of a checkpoint to be certified, given as file or folder, compared with config.json where that is there.

    Raises:
        CheckpointError: header, configuration and plan do not agree.
        ValueError: config.json is of another kind of run, or of another version.
    """
    folder = Folder(path if path.is_dir() else path.parent)
    run = _run_of(path if path.is_file() else folder.checkpoint, header)
    own = folder.config.is_file() and path in (folder.path, folder.checkpoint)
    expected = folder.config_of(Run) if own else run
    require_own_run(folder.checkpoint if path.is_dir() else path, header, expected, n=n)
    return run
