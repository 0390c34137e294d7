"""Standard output and standard error of the command, and its refusals; nothing here takes long to import."""

import shlex
import sys
from pathlib import Path
from typing import NoReturn

from rich.console import Console

messages = Console(stderr=True, highlight=False, markup=False, emoji=False, soft_wrap=True)
"""Everything that is not the result goes to standard error; "[red]" and ":x:" in names are printed as they stand."""


def output() -> Console:
    """Standard output, wide enough for tables where it is no terminal."""
    width = None if sys.stdout.isatty() else 150
    return Console(file=sys.stdout, highlight=False, markup=False, emoji=False, width=width)


def word(text: Path | str) -> str:
    """A word of a command line: quoted where a shell needs it, in one line; a path is never an option."""
    written = f"./{text}" if isinstance(text, Path) and str(text).startswith("-") else str(text)
    if written.isprintable():
        return shlex.quote(written)
    escaped = written.encode("unicode_escape").decode().replace("'", "\\'")
    return f"$'{escaped}'"


def usage(sentence: str) -> NoReturn:
    """Say what is wrong with the arguments and exit with status 2."""
    messages.print(f"pacdp: {sentence}")
    sys.exit(2)
