"""Cells of the calibration frontier: a bench's rows by settings, what is chosen among them, and on which seeds.

What is chosen among settings is chosen on the first half of the seeds that all of them share, and judged on the other
seeds that the chosen ones share: no seed does both, whichever setting has more of them.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple

import polars as pl

from experiments.claims import Measured
from experiments.papers.runs.frontier_plans import Bench
from experiments.tables import by_key, part

SAME_ACCURACY = 0.01
"""Settings whose mean accuracies differ by no more than this count as equally accurate."""
Where = dict[str, Any]
_SHOWN = {"accuracy": "accuracy", "ECE": "ece"}


class Cells:
    """The rows of one bench, by settings."""

    def __init__(self, table: pl.DataFrame, bench: Bench) -> None:
        self.table, self.bench, self.name = table, bench, bench.name
        run = bench.run
        usual: Where = {"averaged": False, "reach": run.reach, "steps": run.steps, "decay": False, "pre_noise": 0.0}
        self.usual = usual
        full = bool(bench.others)
        self.fallen = (bench.compared, (0.0, 0.5)) if full else (bench.compared[1:2], (0.0,))
        """Clip norms and lengths of pre-noise at which DP-SGLD's steps fall."""
        self._found: dict[Any, dict[int, float]] = {}

    def at(self, clip: float, method: str = "DP-SGD", **other: Any) -> Where:
        """A cell of the comparisons: the bench's own reach and steps unless others are given."""
        slot = {"slot": other.pop("slot", "gradient")} if method == "DP-SGLD" else {}
        return {**self.usual, "method": method, "clip_norm": clip, **slot, **other}

    def langevin(self, clip: float, **other: Any) -> Where:
        """A cell of DP-SGLD; with constant steps and no noise before clipping it is DP-SGD's, which is always run."""
        plain = not other.get("decay") and not other.get("pre_noise")
        return self.at(clip, "DP-SGD" if plain else "DP-SGLD", **other)

    def values(self, name: str, where: Where, seeds: Collection[int] | None = None) -> dict[int, float]:
        """A score by seed; of some seeds alone where they are given."""
        key = (name, *sorted(where.items()))
        if key not in self._found:
            self._found[key] = by_key(self.table, name, by="seed", **where)
        found = self._found[key]
        return {seed: value for seed, value in found.items() if seeds is None or seed in seeds}

    def shared(self, cells: Sequence[Where]) -> set[int]:
        """The seeds that all of some cells have."""
        own = [set(self.values("accuracy", where)) for where in cells]
        return set[int].intersection(*own) if own else set()

    def halves(self, cells: Sequence[Where]) -> set[int]:
        """The seeds on which is chosen among these cells: the first half of those that all of them have."""
        common = sorted(self.shared(cells))
        return set(common[: (len(common) + 1) // 2])

    def mean(self, name: str, where: Where, seeds: Collection[int] | None = None) -> float:
        """Mean of a score, over some seeds alone where they are given; 0 where there is none."""
        return _mean(self.values(name, where, seeds))

    def gain(self, name: str, before: Where, after: Where, seeds: Collection[int] | None = None) -> Measured | None:
        """By how much an error falls from one cell to another, seed by seed."""
        return Measured.between(self.values(name, before, seeds), self.values(name, after, seeds))

    def settings(self, **where: Any) -> list[Where]:
        """All settings with rows where columns have these values."""
        names = ("method", "slot", "averaged", "clip_norm", "reach", "steps", "decay", "pre_noise")
        return list(_settings(part(self.table, **where), names))

    def best(self, cells: Sequence[Where], seeds: Collection[int]) -> Where | None:
        """The settings with the greatest mean accuracy over some seeds; of equal ones the first."""
        return max(cells, key=lambda where: self.mean("accuracy", where, seeds), default=None)

    def plain(self) -> Where | None:
        """SGD's settings that DP-SGD is compared with: the most accurate ones, on the seeds that choose."""
        theirs, private = (self.settings(method=name, averaged=False) for name in ("SGD", "DP-SGD"))
        return self.best(theirs, self.halves([*theirs, *private]))

    def shown(self, where: Where, seeds: Collection[int]) -> str:
        """Settings with accuracy and ECE on some seeds."""
        scores = (f"{name} {self.mean(key, where, seeds):.4f}" for name, key in _SHOWN.items())
        clipped = f"clip norm {where['clip_norm']:g}, reach {where['reach']:g}"
        size = f"step size {where['reach']:g}" if where["method"] == "SGD" else clipped
        return f"at {size}, {where['steps']} steps: {', '.join(scores)}"

    def clip_pair(self, *, all_choose: bool = False) -> "Pair | None":
        """The two clip norms of DP-SGD that differ most in ECE at one reach, number of steps and accuracy, by the seeds
        that choose, or by all that the settings share; the larger ECE first."""
        cells = self.settings(method="DP-SGD", averaged=False, decay=False)
        chosen = self.shared(cells) if all_choose else self.halves(cells)
        score = {name: [self.mean(name, where, chosen) for where in cells] for name in ("ece", "accuracy")}
        pairs = [
            (score["ece"][i] / max(score["ece"][j], 1e-9), cells[i], cells[j])
            for i, j in product(range(len(cells)), repeat=2)
            if all(cells[i][name] == cells[j][name] for name in ("reach", "steps"))
            and abs(score["accuracy"][i] - score["accuracy"][j]) <= SAME_ACCURACY
            and i != j
        ]
        if not chosen or not pairs:
            return None
        _, one, other = max(pairs, key=lambda found: found[0])
        return Pair(one, other, self.shared([one, other]) - chosen)


class Pair(NamedTuple):
    """Two cells, and the seeds that both have and that did not choose them."""

    one: Where
    other: Where
    seeds: set[int]


def _settings(rows: pl.DataFrame, names: Sequence[str]) -> Iterator[Where]:
    if not rows.is_empty():
        yield from rows.select(names).unique(maintain_order=True).iter_rows(named=True)


def _mean(values: Mapping[int, float]) -> float:
    return sum(values.values()) / len(values) if values else 0.0
