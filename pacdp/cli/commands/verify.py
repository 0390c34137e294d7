"""The command that checks certificates with code that shares nothing with what made them: verify."""

import sys
from dataclasses import dataclass
from pathlib import Path

import tyro

from pacdp.cli.terminal import no_more


@dataclass(frozen=True, slots=True, kw_only=True)
class Verify:
    """Recompute every number of a report or of a run: it follows, does not follow, or cannot be checked and why.

    Exit status 1 if anything does not follow.
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
        no_more(rest)
        from pacdp.verify.report import main

        options = [f"--{name}={value}" for name, value in (("data", self.data), ("model", self.model)) if value]
        status = main([str(self.path), *options, *(["--json"] if self.json else [])])
        if status:
            sys.exit(status)
