"""Standard output and standard error of the command, and its refusals; nothing here takes long to import."""

import sys
from typing import NoReturn

from rich.console import Console

messages = Console(stderr=True, highlight=False, soft_wrap=True)
"""Everything that is not the result goes to standard error."""


def output() -> Console:
    """Standard output, wide enough for tables where it is no terminal."""
    return Console(file=sys.stdout, highlight=False, width=None if sys.stdout.isatty() else 150)


def usage(sentence: str) -> NoReturn:
    """Say what is wrong with the arguments and exit with status 2."""
    messages.print(f"pacdp: {sentence}", markup=False)
    sys.exit(2)
