"""What a sweep carries out: jobs, each a frozen configuration with its own folder, and how those of one kind run."""

import functools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any

from pacdp.cli.folder import Folder, write_json
from pacdp.cli.runtime import Training
from pacdp.cli.serial import Values, record
from pacdp.store.files import let_go


@record
class Kind:
    """How configurations of one type are carried out. Its functions reach other processes by name or as partials."""

    carry_out: Callable[[Any, Path, Training], Any]
    """One in its own folder, taking up what an interrupted run left there: config.json and provenance.json first,
    result.json last, by rename."""
    together: Callable[[Any], str] | None = None
    """Configurations with equal strings may go as one batch; None carries out each by itself."""
    batch: Callable[[Sequence[Any], Sequence[Path], Training], Sequence[Any]] | None = None
    """Carries out a batch at once, and returns what became of each: its error where it ended early."""


@record
class Job:
    """One run of a study."""

    key: str
    """Its folder's name: readable, and another for another configuration."""
    kind: Kind
    config: Any
    """A frozen record as in :mod:`pacdp.cli.serial`, which alone decides the run's numbers."""
    tags: Mapping[str, Any] = field(default_factory=dict)
    """Where the run belongs in table and figure: plain values by column."""


def single(compute: Callable[[Any, Training, Path], Values]) -> Kind:
    """The kind of runs that ``compute``, a function of a module, carries out one by one.

    ``compute(config, how, folder)`` gives the values of result.json; it may keep what it needs for resuming in the
    folder. The configuration has a ``seed``.
    """
    return Kind(carry_out=functools.partial(_one, compute=compute))


def _one(config: Any, out: Path, how: Training, *, compute: Callable[..., Values]) -> None:
    folder = Folder(out)
    with folder.at_work(config, how):
        how.apply()
        if how.force or not folder.started:
            folder.begin(config, how)
            let_go(folder.path)  # a job is resumed from what it keeps by itself
        started = time.monotonic()
        result = compute(config, how, folder.path)
        # a report of certificates has room for other things under its details
        result.get("details", result)["seconds"] = round(time.monotonic() - started, 2)
        write_json(folder.result, result)
