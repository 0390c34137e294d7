"""How the calibration frontier decides: by differences between runs of one seed, cell by cell, against a tenth."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple

import polars as pl

from experiments.claims import (
    MISSING,
    RELEVANT,
    Claim,
    Measured,
    Ratio,
    Seen,
    every,
    more_than_half,
    mostly,
    relevant,
    some,
)
from experiments.papers.runs.frontier import KL_CLIPPED
from experiments.papers.runs.frontier_plans import SLOTS, TOO_LONG, Bench
from experiments.tables import by_key, mean, part

ERRORS = ("ece", "sce", "ace")
SAME_ACCURACY = 0.01
"""Settings whose mean accuracies differ by no more than this count as equally accurate."""
Where = dict[str, Any]
_LISTED = 6
_A_GRID = 6
"""Cells from which on our own addition is asked of a problem."""
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

    def at(self, clip: float, method: str = "DP-SGD", **other: Any) -> Where:
        """A cell of the comparisons: the bench's own reach and steps unless others are given."""
        slot = {"slot": other.pop("slot", "gradient")} if method == "DP-SGLD" else {}
        return {**self.usual, "method": method, "clip_norm": clip, **slot, **other}

    def langevin(self, clip: float, **other: Any) -> Where:
        """A cell of DP-SGLD; with constant steps and no noise before clipping it is DP-SGD's, which is always run."""
        plain = not other.get("decay") and not other.get("pre_noise")
        return self.at(clip, "DP-SGD" if plain else "DP-SGLD", **other)

    def values(self, name: str, where: Where, *, half: int | None = None) -> dict[int, float]:
        """A score by seed; of the first or second half of the seeds where ``half`` is 0 or 1."""
        found = by_key(self.table, name, by="seed", **where)
        first = set(sorted(found)[: (len(found) + 1) // 2])
        return {seed: value for seed, value in found.items() if half is None or (seed in first) == (half == 0)}

    def gain(self, name: str, before: Where, after: Where, *, half: int | None = None) -> Measured | None:
        """By how much an error falls from one cell to another, seed by seed."""
        return Measured.between(self.values(name, before, half=half), self.values(name, after, half=half))

    def best(self, rows: pl.DataFrame) -> Where | None:
        """The settings with the greatest mean accuracy over the first half of the seeds."""
        names = ("method", "slot", "averaged", "clip_norm", "reach", "steps", "decay", "pre_noise")
        ranked = [(_mean(self.values("accuracy", where, half=0)), where) for where in _settings(rows, names)]
        return max(ranked, key=lambda one: one[0], default=(0.0, None))[1]

    def shown(self, where: Where) -> str:
        """Settings with accuracy and ECE on the second half of the seeds."""
        scores = (f"{name} {_mean(self.values(key, where, half=1)):.4f}" for name, key in _SHOWN.items())
        steps = f"at clip norm {where['clip_norm']:g}, reach {where['reach']:g}, {where['steps']} steps"
        return f"{steps}: {', '.join(scores)}"

    def clip_pair(self) -> tuple[Where, Where] | None:
        """The two clip norms of DP-SGD that differ most in ECE at one reach, number of steps and accuracy, by the first
        half of the seeds; the larger ECE first."""
        rows = part(self.table, method="DP-SGD", averaged=False, decay=False)
        cells = list(_settings(rows, ("method", "averaged", "decay", "clip_norm", "reach", "steps")))
        score = {name: [_mean(self.values(name, where, half=0)) for where in cells] for name in ("ece", "accuracy")}
        pairs = [
            (score["ece"][i] / max(score["ece"][j], 1e-9), cells[i], cells[j])
            for i, j in product(range(len(cells)), repeat=2)
            if all(cells[i][name] == cells[j][name] for name in ("reach", "steps"))
            and abs(score["accuracy"][i] - score["accuracy"][j]) <= SAME_ACCURACY
            and i != j
        ]
        return max(pairs, key=lambda one: one[0])[1:] if pairs else None

    def clip_effect(self) -> dict[str, float | None]:
        """That pair's clip norms and mean ECEs."""
        one, other = self.clip_pair() or ({}, {})
        ends: dict[str, float | None] = {"at": one.get("clip_norm"), "there": other.get("clip_norm")}
        for name, where in (("one", one), ("other", other)):
            ends[name] = mean(self.table, "ece", **where) if where else None
        return ends


def _settings(rows: pl.DataFrame, names: Sequence[str]) -> Iterator[Where]:
    if not rows.is_empty():
        yield from rows.select(names).unique(maintain_order=True).iter_rows(named=True)


def _mean(values: Mapping[int, float]) -> float:
    return sum(values.values()) / len(values) if values else 0.0


class Change(NamedTuple):
    """Two cells of which the second is said to be better, and the words for them."""

    what: str
    before: Where
    after: Where


def counted(cells: Cells, sentence: str, changes: Sequence[Change], *, error: str = "ece") -> Claim:
    """A sentence that holds where the error falls by a tenth or more in more than half of the cells.

    Each cell is decided by :func:`relevant`, the majority by :func:`mostly`. The evidence has every cell's change as a
    share of the error before, and the range where there are many.
    """
    seen, shares, moved = list[bool | None](), list[str](), list[float]()
    for what, before, after in changes:
        level, gain = _mean(cells.values(error, before)), cells.gain(error, before, after)
        holds = relevant(what, gain, RELEVANT * level if level else None).holds
        seen.append(holds)
        moved += [] if gain is None or not level else [-gain.mean / level]
        shares.append(f"{what} {_change(gain, level)}{' (open)' if holds is None else ''}")
    over = Ratio.over_all([(cells.values(error, after), cells.values(error, before)) for _, before, after in changes])
    told = f"{error.upper()} falls by a tenth in {seen.count(True)} of {len(seen)} cells, not in {seen.count(False)}"
    told += f"; over all cells {over or 'missing'} times as large"
    ends = f"changes from {min(moved):+.0%} to {max(moved):+.0%}" if moved else MISSING
    told += f"; {ends}" if len(changes) > _LISTED else f"; change: {', '.join(shares)}"
    return Claim(f"{cells.name}: {sentence}", mostly(seen, over), told)


def _change(gain: Measured | None, level: float) -> str:
    """A mean change with two standard errors, in percent of the error before."""
    if gain is None or not level:
        return "missing"
    return f"{-gain.mean / level:+.0%}" + ("" if gain.noise is None else f" ± {gain.noise / level:.0%}")


def harm(cells: Cells) -> Iterator[Claim]:
    """Whether DP-SGD harms calibration: where it is most accurate, and where it is best calibrated at that accuracy."""
    private, plain = (part(cells.table, method=name, averaged=False) for name in ("DP-SGD", "SGD"))
    theirs, most = cells.best(plain), cells.best(private)
    sentence = f"{cells.name}: DP-SGD has a negative impact on model calibration compared to standard SGD"
    yield _harmed(cells, f"{sentence} (each where it is most accurate)", theirs, most)
    calm = None
    if most is not None:
        enough = _mean(cells.values("accuracy", most, half=0)) - SAME_ACCURACY
        rivals = [
            one for one in _settings(private, list(most)) if _mean(cells.values("accuracy", one, half=0)) >= enough
        ]
        calm = min(rivals, key=lambda one: _mean(cells.values("ece", one, half=0)))
    chosen = "DP-SGD at the clip norm and steps of least ECE within a hundredth of its best accuracy; our addition"
    yield _harmed(cells, f"{sentence} ({chosen})", theirs, calm)


def _harmed(cells: Cells, sentence: str, plain: Where | None, private: Where | None) -> Claim:
    if plain is None or private is None:
        return Claim(sentence, None, MISSING)
    found = list[Seen]()
    for name in ERRORS:
        margin = RELEVANT * _mean(cells.values(name, plain, half=1))
        found.append(relevant(name.upper(), cells.gain(name, private, plain, half=1), margin))
    shown = " against ".join(cells.shown(one) for one in (private, plain))
    told = "; ".join(one.evidence for one in found)
    return Claim(
        sentence, every(one.holds for one in found), f"DP-SGD {shown} of SGD; by all of three errors, larger by {told}"
    )


def langevin(cells: Cells) -> Iterator[Claim]:
    """What DP-SGLD adds at equal clip norm, reach and number of steps."""
    clips = cells.bench.compared
    if cells.bench.others:
        constant = [
            Change(f"{slot} slot, clip norm {clip:g}", cells.at(clip), cells.at(clip, "DP-SGLD", slot=slot))
            for clip, slot in product(clips, SLOTS)
        ]
        sentence = "DP-SGLD with constant steps is better calibrated than DP-SGD at its clip norm, step size and noise"
        yield counted(cells, f"{sentence}, in either slot (it has DP-SGD's law)", constant)
    for beside, averaged in (("", False), (", both averaged over weights", True)):
        changes = [
            Change(
                f"{'with pre-noise, ' if rho else ''}clip norm {clip:g}",
                cells.at(clip, averaged=averaged),
                cells.langevin(clip, averaged=averaged, decay=True, pre_noise=rho),
            )
            for clip, rho in product(*cells.fallen)
        ]
        sentence = "DP-SGLD provides [...] better calibrated predictive uncertainty than standard DP-SGD"
        yield counted(cells, f"{sentence}{beside} (falling steps, equal clip norm, noise and steps)", changes)
    if cells.bench.others:
        yield counted(
            cells,
            "the decaying learning rate improves calibration of DP-SGLD",
            [
                Change(name, cells.langevin(**own), cells.langevin(**own, decay=True))
                for name, own in _variants(clips, "pre_noise", (0.0, 0.5))
            ],
        )
        yield counted(
            cells,
            "pre-noising (which the paper conjectures to help) improves calibration of DP-SGLD",
            [
                Change(name, cells.langevin(**own), cells.langevin(**own, pre_noise=0.5))
                for name, own in _variants(clips, "decay", (False, True))
            ],
        )
        yield counted(
            cells,
            "noise that follows falling steps, as Langevin dynamics has it, is better calibrated than constant noise "
            "at the same falling steps",
            [
                Change(name, cells.at(**_without(own, "slot"), decay=True), cells.langevin(**own, decay=True))
                for name, own in _variants(clips, "slot", SLOTS)
            ],
        )


def long_noise(cells: Cells) -> Iterator[Claim]:
    """Noise before clipping that is longer than the clip norm: beside none, and beside DP-SGD's best clip norm."""
    clip = cells.bench.compared[1]
    after = cells.langevin(clip, pre_noise=TOO_LONG)
    sentence = f"noise before clipping {TOO_LONG:g} times as long as a clip norm of {clip:g} improves calibration"
    yield counted(cells, f"{sentence} (our addition)", [Change("last", cells.at(clip), after)])
    rivals = [cells.at(one) for one in cells.bench.clips]
    best = min(rivals, key=lambda one: _mean(cells.values("ece", one, half=0)) or 1.0)
    sentence = f"{sentence} beyond what DP-SGD has at the clip norm that suits its step size and noise"
    yield counted(cells, f"{sentence} (our addition)", [Change(f"clip norm {best['clip_norm']:g}", best, after)])


def _variants(clips: Sequence[float], name: str, states: Sequence[Any]) -> Iterator[tuple[str, Where]]:
    """Last weights and averages, with a setting's states, at each clip norm: words and settings."""
    for averaged, state, clip in product((False, True), states, clips):
        beside = f"{state} slot" if name == "slot" else f"{'with' if state else 'without'} {name.replace('_', '-')}"
        words = f"{'averaged' if averaged else 'last'}, {beside}, clip norm {clip:g}"
        yield words, {"averaged": averaged, name: state, "clip": clip}


def _without(settings: Where, name: str) -> Where:
    return {key: value for key, value in settings.items() if key != name}


def fold(cells: Cells, folds: int) -> Claim:
    """The printed reduction of ECE, asked of DP-SGLD at equal clip norm, noise and steps."""
    least, ratios = folds - 0.5, dict[str, Ratio | None]()
    for clip, rho in product(*cells.fallen):
        after = cells.langevin(clip, decay=True, pre_noise=rho)
        name = f"clip norm {clip:g}{', with pre-noise' if rho else ''}"
        ratios[name] = Ratio.of(cells.values("ece", cells.at(clip)), cells.values("ece", after))
    seen = [None if one is None else one.above(least) for one in ratios.values()]
    told = "; ".join(f"{name} {one or 'missing'}" for name, one in ratios.items())
    sentence = f"{cells.name}: a reduction in ECE ~{folds}-fold against DP-SGD (falling steps, equal clip norm, noise "
    return Claim(
        f"{sentence}and steps)",
        more_than_half(seen),
        f"ECE of DP-SGD over DP-SGLD's, at least {least:g} being asked: {told}",
    )


def clip_norm_alone(cells: Cells, folds: int) -> Claim:
    """Whether DP-SGD's clip norm makes as much of a difference as DP-SGLD is said to make."""
    sentence = (
        f"{cells.name}: the clip norm alone changes DP-SGD's ECE ~{folds}-fold at one epsilon, noise, number of steps "
        "and accuracy (our addition)"
    )
    pair = cells.clip_pair()
    if pair is None:
        return Claim(sentence, None, f"no two clip norms within {SAME_ACCURACY:g} in accuracy, or {MISSING}")
    found = Ratio.of(*(cells.values("ece", where, half=1) for where in pair))
    shown = " against ".join(cells.shown(where) for where in pair)
    told = f"{shown}: ratio {found or 'missing'}, at least {folds - 0.5:g} being asked"
    return Claim(sentence, found and found.above(folds - 0.5), told)


def averaging(cells: Cells) -> Iterator[Claim]:
    """What the average over weights kept on the way does for DP-SGD, where a grid of settings was run."""
    changes = [
        Change(
            f"clip norm {clip:g}, reach {reach:g}",
            cells.at(clip, reach=reach),
            cells.at(clip, reach=reach, averaged=True),
        )
        for clip, reach in product(cells.bench.clips, cells.bench.reaches)
    ]
    sentence = "the mean prediction of weights kept on the way is better calibrated than the last weights of DP-SGD"
    if len(changes) >= _A_GRID:
        yield counted(cells, f"{sentence} (our addition)", changes)


def bayesian(cells: Cells) -> Iterator[Claim]:
    """Zhang, Bu et al.'s sentences, of the private networks."""
    bench = cells.bench
    changes = {
        method: [
            Change(
                f"clip norm {clip:g}, reach {reach:g}",
                cells.at(clip, reach=reach),
                cells.at(clip, method, reach=reach, averaged=True),
            )
            for clip, reach in product(bench.compared, bench.reaches)
        ]
        for method in bench.others
    }
    changes["DP-SGLD"] = [
        Change(f"clip norm {clip:g}", cells.at(clip), cells.langevin(clip, averaged=True, decay=True))
        for clip in bench.compared
    ]
    for method, own in changes.items():
        sentence = f'"BNNs often enjoy smaller MCE than the regular MLP": {method} (averaged) against DP-SGD'
        yield counted(cells, f"{sentence} at its clip norm and reach, by RMSCE", own, error="rmsce")
    sentence = (
        f'{cells.name}: "DP-SGLD outperforms other Bayesian and non-Bayesian methods under almost identical privacy '
        f'budgets" (more accurate than each by {SAME_ACCURACY:g} or more, each at its best setting)'
    )
    yield _accurate(cells, sentence, ("DP-SGD", *bench.others))


def as_printed(cells: Cells) -> Iterator[Claim]:
    """The same sentences of DP-BBP with the KL inside the clip, and what that changes."""
    clips = cells.bench.compared
    for method in KL_CLIPPED:
        pairs = [
            (clip, cells.at(clip, "DP-BBP", averaged=True), cells.at(clip, method, averaged=True)) for clip in clips
        ]
        lost = [relevant(f"clip norm {clip:g}", cells.gain("accuracy", outside, inside), SAME_ACCURACY)
                for clip, outside, inside in pairs]  # fmt: skip
        yield Claim(
            f"{cells.name}: {method}, loses {SAME_ACCURACY:g} or more of the accuracy that DP-BBP has with the KL "
            "outside the clip (averaged, at some clip norm; our addition)",
            some(one.holds for one in lost), "; ".join(one.evidence for one in lost),
        )  # fmt: skip
        changes = [Change(f"clip norm {clip:g}", cells.at(clip), inside) for clip, _, inside in pairs]
        sentence = f'"BNNs often enjoy smaller MCE than the regular MLP": {method} (averaged) against DP-SGD'
        yield counted(cells, f"{sentence} at its clip norm and reach, by RMSCE", changes, error="rmsce")
        sentence = f'{cells.name}: "DP-SGLD outperforms" {method}, in accuracy (by {SAME_ACCURACY:g} or more, each at '
        yield _accurate(cells, f"{sentence}its best setting)", (method,))


def _accurate(cells: Cells, sentence: str, others: Sequence[str]) -> Claim:
    # DP-SGLD with constant steps is DP-SGD, which has the whole grid: its rows are DP-SGLD's too
    ours = cells.best(cells.table.filter(pl.col("method").is_in(["DP-SGLD", "DP-SGD"])))
    rivals = {name: cells.best(part(cells.table, method=name)) for name in others}
    if ours is None or None in rivals.values():
        return Claim(sentence, None, MISSING)
    found = [
        relevant(f"over {name}", cells.gain("accuracy", ours, rival or {}, half=1), SAME_ACCURACY)
        for name, rival in rivals.items()
    ]
    told = "; ".join(one.evidence for one in found)
    return Claim(sentence, every(one.holds for one in found), f"DP-SGLD {cells.shown(ours)}; lead {told}")
