"""What differs between frozen and found results, and in which way."""

import math
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from tests.golden.intended import Intended, Way
from tests.golden.records import RAISES

Difference = tuple[Way, str]


def differences(frozen: Mapping[str, Any], found: Mapping[str, Any], *, rel: float) -> dict[str, list[Difference]]:
    """The ways in which each key differs, for keys that do."""
    made: dict[str, list[Difference]] = {}
    for key in sorted(frozen.keys() | found.keys()):
        if key not in found:
            ways: list[Difference] = [("gone", f"was {frozen[key]}")]
        elif key not in frozen:
            ways = [("refused" if found[key] == RAISES else "new", f"is {found[key]}")]
        else:
            ways = list(_ways(key.rpartition("/")[2], frozen[key], found[key], rel))
        if ways:
            made[key] = ways
    return made


def judged(
    made: Mapping[str, Sequence[Difference]], meant: Sequence[Intended]
) -> tuple[list[str], list[tuple[Intended, Way]]]:
    """Differences that nobody meant, and entries with a way in which nothing differs any more."""
    unmeant: list[str] = []
    seen: set[tuple[Intended, Way]] = set()
    for key, ways in made.items():
        for way, said in ways:
            covering = {(entry, way) for entry in meant if way in entry.may and fnmatchcase(key, entry.pattern)}
            seen |= covering
            if not covering:
                unmeant.append(f"{key}: {way} ({said})")
    return unmeant, [(entry, way) for entry in meant for way in entry.may if (entry, way) not in seen]


def _ways(what: str, before: Any, after: Any, rel: float, near: float = 0.0) -> Iterator[Difference]:
    said = f"{what}: {before} -> {after}"
    if before is None:
        return
    if RAISES in (before, after) and before != after:
        yield ("refused" if after == RAISES else "accepted"), said
    elif isinstance(before, dict) and isinstance(after, dict):
        for name, value in before.items():
            yield from _ways(name, value, after.get(name), rel)
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        largest = max((abs(one) for one in before if _number(one) and math.isfinite(one)), default=0.0)
        for place, (one, other) in enumerate(zip(before, after, strict=True)):
            yield from _ways(f"{what}[{place}]", one, other, rel, near=rel * largest)
    elif _number(before) and _number(after):
        # entries of a vector are as near as its largest; 1e-15 is the rounding of sums that cancel
        if not math.isclose(before, after, rel_tol=rel, abs_tol=max(near, 1e-15)):
            yield ("grows" if after > before else "falls"), said
    elif before != after:
        statuses = {("rigorous", "optimistic"): "optimistic", ("optimistic", "rigorous"): "rigorous"}
        yield statuses.get((before, after), "moves") if isinstance(after, str) else "moves", said  # type: ignore[misc]


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
