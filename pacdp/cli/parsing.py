"""Command lines, by tyro, whose refusals in boxes of many lines become one sentence that names the nearest option."""

import contextlib
import difflib
import io
import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import Any

import tyro

from pacdp.cli.serial import Values
from pacdp.cli.terminal import usage

_RULE = re.compile(r"^[\s│├╰╭]*[-─]{4,}")
_COLOUR = re.compile(r"\x1b\[[\d;]*m")
_OPTIONS = r"^[\s│]*((?:--?[a-z][\w.-]*(?:, )?)+)"
_FRAME = re.compile(r"^\s*│ ?| ?│\s*$")
tried: list[tuple[Any, Values]] = []
"""What the words of this command line were parsed as so far: where the options stand that could have been meant."""


def parsed(
    kind: Any,
    words: Sequence[str],
    *,
    prog: str,
    config: Sequence[Any] = (),
    repeatable: Collection[str] | None = None,
    **default: Any,
) -> tuple[Any, list[str]]:
    """The command or configuration that the words describe, and the words that it did not take.

    Exits with status 2 and one sentence where a value is missing or of another type.

    Args:
        repeatable: the options that may stand more than once, where others may not; by default the last one of each
            holds, as where a recipe is changed.
        default: ``default=...``, whose values hold where no word changes them.
    """
    how = {"prog": prog, "config": tuple(config), **default}
    tried.append((kind, how))
    given = Counter(word.split("=")[0].replace("_", "-") for word in words if word.startswith("--"))
    for name, count in given.items() if repeatable is not None else ():
        if count > 1 and name not in (repeatable or ()):
            usage(f"{name} stands {count} times: give it once")
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            return tyro.cli(kind, args=list(words), return_unknown_args=True, **how)
    except SystemExit as stop:
        if stop.code:
            usage(_sentence(_COLOUR.sub("", said.getvalue()), prog))
        raise


def no_more(rest: Sequence[str]) -> None:
    """Refuse words that nothing took, and name the option that may have been meant."""
    if not rest:
        return
    option = next((word.split("=")[0] for word in rest if word.startswith("-")), None)
    if option is None:
        usage(f"too many words: {' '.join(rest)}")
    known = [name for kind, how in tried for name in _options(kind, how)]
    near = difflib.get_close_matches(option, known, n=1, cutoff=0.75)
    where = _explained(tried[-1][1]["prog"] if tried else "pacdp")
    usage(
        f"there is no option {option}: " + (f"did you mean {near[0]}?" if near else f"see {where}")
    )


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


def _options(kind: Any, how: Values) -> list[str]:
    """The names of all options, which begin the lines of the help."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.suppress(SystemExit):
        tyro.cli(kind, args=["--help"], **how)
    lines = re.findall(_OPTIONS, _COLOUR.sub("", said.getvalue()), re.MULTILINE)
    return [name for line in lines for name in line.split(", ") if name.startswith("--")]


def _explained(prog: str) -> str:
    """The command that explains."""
    return prog if prog.endswith("--fields") else f"{prog} --help"


def _sentence(text: str, prog: str) -> str:
    """What a refusal says: its first paragraph."""
    lines = [_FRAME.sub("", line) for line in text.splitlines()[1:]]
    while lines and _RULE.match(lines[0]):
        lines.pop(0)
    ends = next((i for i, line in enumerate(lines) if _RULE.match(line)), len(lines))
    found = " ".join(" ".join(lines[:ends]).split())
    if found.startswith("Missing from"):
        lines = [
            line
            for line in lines[1:ends]
            if re.match(r"\s{3,6}\S", line) and "(required)" not in line
        ]
        where = found.removeprefix("Missing from ").split(":")[0]
        needed = ", ".join(line.strip() for line in lines)
        return f"{where.removeprefix('pacdp ')} needs {needed}: see {_explained(where)}"
    if one := re.match(
        r"Error parsing (\S+): no type matching (\S+) could be instantiated from \[(.*?)\]\.", found
    ):
        return (
            f"{one[1]} takes {one[2].replace('{None}|', '')}, got {one[3]}: see {_explained(prog)}"
        )
    found = (
        re.sub(r"^Error parsing (?!-)\S+: ", "", found).removeprefix("Error parsing ").rstrip(".")
    )
    found = found.replace(". Expected", ", expected")
    return found[:1].lower() + found[1:] + f" (see {_explained(prog)})"
