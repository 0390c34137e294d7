"""Standard output and standard error of the command, and its refusals; nothing here takes long to import."""

import difflib
import json
import shlex
import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

from rich.console import Console
from rich.table import Table
from rich.text import Text

from pacdp.errors import said

messages = Console(stderr=True, highlight=False, markup=False, emoji=False, soft_wrap=True)
"""Everything that is not the result goes to standard error; "[red]" and ":x:" in names are printed as they stand."""


def output() -> Console:
    """Standard output, wide enough for tables where it is no terminal."""
    width = None if sys.stdout.isatty() else 150
    return Console(file=sys.stdout, highlight=False, markup=False, emoji=False, width=width)


def answer(values: Any, lines: Iterable[str | Table], *, as_json: bool) -> None:
    """Print what a command found: JSON for programs, or lines and tables for people."""
    if as_json:
        print(json.dumps(values, allow_nan=False))
        return
    for line in lines:
        if isinstance(line, Table):
            output().print(line)
        else:
            print(line)


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


def table(
    title: str,
    names: Sequence[str],
    rows: Iterable[Sequence[Any]],
    *,
    numbers: Collection[str] = (),
) -> Table:
    """A table of texts; columns of ``numbers`` stand to the right and are not broken."""
    made = Table(title=title)
    for name in names:
        right = name in numbers
        made.add_column(name, overflow="fold", no_wrap=right, justify="right" if right else "left")
    for row in rows:
        made.add_row(*(one if isinstance(one, Text) else Text(str(one)) for one in row))
    return made


@contextmanager
def refusing(sentence: str, *errors: type[Exception], or_else: str = "") -> Iterator[None]:
    """Turn errors that a stranger's file or function leads to into a ValueError of one sentence.

    Args:
        sentence: names the file, and what it is not.
        errors: which errors; by default those of values of another type or form, and of the system.
        or_else: what to do about it.
    """
    known = errors or (
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        IndexError,
        RecursionError,
        OSError,
    )
    try:
        yield
    except known as error:
        system = isinstance(error, OSError) and error.strerror
        why = system or (error if isinstance(error, ValueError | OSError) else said(error))
        raise ValueError(f"{sentence} ({why}){or_else and ': '}{or_else}") from error


def require_failure_prob(given: float | None) -> None:
    """Refuse a --failure-prob that is no probability."""
    if given is not None and not 0.0 < given < 1.0:
        raise ValueError(
            f"--failure-prob must lie strictly between 0 and 1, got {given}: 0.05 is customary"
        )


def nearest(word: str, known: Iterable[str]) -> str:
    """The end of a sentence about an unknown word: what was meant, or what there is."""
    known = list(known)
    near = difflib.get_close_matches(word, known, n=1)
    return f"did you mean {near[0]}?" if near else f"choose one of {', '.join(known)}"
