"""The command that checks certificates with code that shares nothing with what made them: verify."""

import contextlib
import io
import sys
from pathlib import Path

import tyro

from pacdp.cli.parsing import no_more
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

    def __call__(self, rest: list[str]) -> None:
        """Check the certificates again and print what was found."""
        no_more(rest)
        from pacdp.verify.report import main

        options = [
            f"--{name}={value}"
            for name, value in (("data", self.data), ("model", self.model))
            if value
        ]
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            status = main([str(self.path), *options, *(["--json"] if self.json else [])])
        if status == 2:
            why = said.getvalue().strip().removeprefix("pacdp verify: ")
            nothing = f"{self.path} holds no certificates and no run: give a file of certificates, or a run's folder"
            raise ValueError(why if why.startswith("cannot read") else nothing)
        print(said.getvalue(), end="")
        if status:
            sys.exit(status)
