"""The command that checks certificates with code that shares nothing with what made them: verify."""

import sys
from pathlib import Path

import tyro

from pacdp.cli.serial import record


@record
class Verify:
    """Recompute every number of a report or of a run: it follows, does not follow, or cannot be checked and why.

    Exit status: 0 if everything follows, 1 if anything does not follow or nothing could be read, 3 if all that can be
    checked follows and something cannot be checked, which is named.
    """

    path: tyro.conf.Positional[Path]
    """A file of certificates, or a run's folder."""
    data: str | None = None
    """package.module:callable that returns (inputs, labels) or (inputs, labels, people), to count rows again."""
    model: str | None = None
    """package.module:callable that returns the network, to count errors again."""
    json: bool = False
    """Print JSON instead of lines."""

    def __call__(self) -> None:
        """Check the certificates again and print what was found."""
        from pacdp.verify.report import UNREADABLE, main

        given = {"data": self.data, "model": self.model}
        options = [f"--{name}={value}" for name, value in given.items() if value]
        status = main([str(self.path), *options, *["--json"] * self.json])
        if status:
            sys.exit(1 if status == UNREADABLE else status)
