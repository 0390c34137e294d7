"""A list of settings, written down before the runs that it covers: what a choice among them costs.

Whoever trains with several settings and quotes the best certificate has made a choice with the data. If the J settings
were listed before the first run, each certificate is made at the failure probability over J; then all of them hold
together, and the best one may be quoted (union bound).

The list is a file of JSON lines: a header {format, name, created, salt}, a line {index, settings} for each setting and
a last line {closed, J}, chained by their hashes (:mod:`pacdp.chained_lines`). Closing fixes J. A run takes the list's
last hash, its ``digest``, into its checkpoint before its first step (:mod:`pacdp.fixed_settings`): a list that was
written or extended afterwards has another one. ``salt`` keeps anyone from guessing settings from a published digest.

What no file can show is that nothing was tried before it was written: publish the digest, or commit the file, when the
list is closed.
"""

import json
import os
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pacdp.canonical import canonical
from pacdp.chained_lines import Kind, Lines, append, create, locked, read

FORMAT = "pacdp-choices/1"


class Choices:
    """A list on disk. :meth:`create` starts one and :meth:`load` reads one; both verify what they hold."""

    def __init__(self, path: Path | str, lines: Lines) -> None:
        self.path = Path(path)
        self._lines = lines

    @classmethod
    def create(cls, path: Path | str, *, name: str = "", settings: Iterable[Mapping[str, Any]] = ()) -> "Choices":
        """Start a list, with these settings, of which equal ones are listed once, or without any.

        Raises:
            ValueError: the file exists, or cannot be written; settings that are no JSON object. There is no list then.
        """
        path = Path(path)
        created = datetime.now(UTC).isoformat(timespec="seconds")
        header = {"name": name or path.stem, "created": created, "salt": secrets.token_hex(16)}
        texts = dict.fromkeys(canonical(_plain(one)) for one in settings)
        then = [{"index": index, "settings": json.loads(text)} for index, text in enumerate(texts)]
        existing = "add to it, or choose another file for a new list"
        return cls(path, create(path, header, _KIND, existing=existing, then=then))

    @classmethod
    def load(cls, path: Path | str) -> "Choices":
        """Read a list and verify it.

        Raises:
            ValueError: no such file; no list of settings; a line that was changed, moved, added or taken out.
        """
        path = Path(path)
        return cls(path, read(path, _KIND))

    @classmethod
    def open(cls, path: Path | str, *, name: str = "") -> "Choices":
        """The list at ``path``, started if there is none."""
        return cls.load(path) if os.path.lexists(path) else cls.create(path, name=name)

    def add(self, settings: Mapping[str, Any]) -> int:
        """Write down a setting, any JSON object, and return its number; one that is listed already keeps its own.

        Raises:
            ValueError: the list is closed; settings that are no JSON object; a file that is no list any more.
        """
        plain = _plain(settings)
        with self._locked():
            found = self._index(plain)
            if self.closed:
                raise ValueError(f"{self.path} is closed, so that its number of settings is fixed: start another list")
            return self._append({"index": len(self.settings), "settings": plain}) if found is None else found

    def close(self) -> None:
        """Fix the number of settings. Closing a closed list changes nothing.

        Raises:
            ValueError: a list without settings; a file that is no list any more.
        """
        with self._locked():
            if not self.settings:
                raise ValueError(f"{self.path} has no settings: add those of the runs before closing it")
            if not self.closed:
                self._append({"closed": True, "J": self._distinct()})

    @property
    def settings(self) -> tuple[dict[str, Any], ...]:
        """All settings, by their numbers."""
        return tuple(line["settings"] for line in self._lines[1:] if "settings" in line)

    @property
    def closed(self) -> bool:
        """Whether the number of settings is fixed."""
        return "closed" in self._lines[-1]

    @property
    def name(self) -> str:
        """What the list is called."""
        return str(self._lines[0]["name"])

    @property
    def created(self) -> str:
        """When it was started, by this machine's clock, UTC."""
        return str(self._lines[0]["created"])

    @property
    def digest(self) -> str:
        """The last hash, which covers the whole list."""
        return str(self._lines[-1]["hash"])

    @property
    def J(self) -> int:
        """The number of different settings: what a choice among them divides the failure probability by.

        Raises:
            ValueError: the list is open, so that the number may still grow.
        """
        if not self.closed:
            raise ValueError(f"{self.path} is not closed, so that its number of settings may grow: close it first")
        return self._distinct()

    def covers(self, settings: Mapping[str, Any]) -> bool:
        """Whether these very settings are listed; 1 and 1.0 are different settings."""
        return self._index(settings) is not None

    def require(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """What the run with these settings carries in its checkpoint: {"digest", "J", "index"}.

        Raises:
            ValueError: the list is open, or does not have these settings.
        """
        size, found = self.J, self._index(settings)
        if found is None:
            raise ValueError(f"{self.path} does not list this run{_nearest(settings, self.settings)}")
        return {"digest": self.digest, "J": size, "index": found}

    def _index(self, settings: Mapping[str, Any]) -> int | None:
        wanted = canonical(dict(settings))
        return next((i for i, one in enumerate(self.settings) if canonical(one) == wanted), None)

    def _distinct(self) -> int:
        return len({canonical(one) for one in self.settings})

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Keep other processes out, and work on what the file holds now."""
        with locked(self.path, _KIND, known=self._lines) as self._lines:
            yield

    def _append(self, values: dict[str, Any]) -> int:
        append(self.path, values, self._lines, _KIND)
        return len(self.settings) - 1


def _plain(settings: Mapping[str, Any]) -> dict[str, Any]:
    if not isinstance(settings, Mapping):
        raise ValueError(f"expected settings to be a JSON object, got {type(settings).__name__}")
    return json.loads(canonical(dict(settings)))


def _possible(line: dict[str, Any], before: Sequence[dict[str, Any]]) -> bool:
    """Whether the line may stand here, its hash apart."""
    if not before:
        return {"name", "created", "salt"} <= line.keys()
    if "closed" in line:
        return len(before) > 1 and line.get("J") == len({canonical(one["settings"]) for one in before[1:]})
    return isinstance(line.get("settings"), dict) and line.get("index") == len(before) - 1


_KIND = Kind(
    format=FORMAT,
    called="the list of settings",
    made_by="give one made by pacdp choices create",
    fits=_possible,
    ends=lambda line: "closed" in line,
    ended="goes on after it was closed: restore the list that was closed, or start another",
)


def _nearest(settings: Mapping[str, Any], listed: tuple[dict[str, Any], ...]) -> str:
    """In which fields the settings differ from the listed ones that are most like them."""
    here, each = flat(settings), [flat(one) for one in listed]
    differing = [sorted(key for key in here.keys() | one.keys() if _text(here, key) != _text(one, key)) for one in each]
    unequal = [sum(here.get(key) != one.get(key) for key in keys) for one, keys in zip(each, differing, strict=True)]
    closest = min(range(len(listed)), key=lambda i: (len(differing[i]), unequal[i]))
    there, names = each[closest], differing[closest]
    told = [f"{name} is {_text(here, name)} here and {_text(there, name)} there" for name in names[:2]]
    more = f" and {len(names) - 2} more differ" if names[2:] else ""
    return f": number {closest} of its settings comes nearest, but {', '.join(told)}{more}"


def flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested objects as one, with dotted names."""
    found: dict[str, Any] = {}
    for key, value in values.items():
        found |= flat(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {f"{prefix}{key}": value}
    return found


def _text(values: Mapping[str, Any], key: str) -> str:
    return canonical(values[key]) if key in values else "nothing"
