"""How the calibration frontier decides: by differences between runs of one seed, cell by cell, against a tenth."""

import math
from collections.abc import Collection, Iterator, Sequence
from itertools import product
from typing import NamedTuple

from experiments.claims import (
    MISSING,
    RELEVANT,
    Claim,
    Measured,
    Ratio,
    Seen,
    by_seeds,
    every,
    more_than_half,
    relevant,
    some,
)
from experiments.papers.calibration_cells import SAME_ACCURACY, Cells, Pair, Where
from experiments.papers.runs.frontier import KL_CLIPPED
from experiments.papers.runs.frontier_plans import FOLDS, SLOTS, TOO_LONG, Bench

ERRORS = ("ece", "sce", "ace")
HARM = "DP-SGD has a negative impact on model calibration compared to standard SGD"
MOST_ACCURATE = "each where it is most accurate"
CALMEST = "DP-SGD at the clip norm and steps of least ECE within a hundredth of its best accuracy; our addition"
_LISTED = 6
_A_GRID = 6
"""Cells from which on our own addition is asked of a problem."""


def beyond(bench: Bench) -> str:
    """The sentence on long noise before clipping beside DP-SGD's best clip norm, without the name of its data."""
    what = "what DP-SGD has at the clip norm that suits its step size and noise"
    return f"{_long_noise_helps(bench)} beyond {what} (our addition)"


def _long_noise_helps(bench: Bench) -> str:
    clip = bench.compared[1]
    return f"noise before clipping {TOO_LONG:g} times as long as a clip norm of {clip:g} improves calibration"


def alone(bench: Bench) -> str:
    """The sentence on what the clip norm does alone, without the name of its data."""
    return (
        f"the clip norm alone changes DP-SGD's ECE ~{FOLDS[bench.data]}-fold at one epsilon, noise, number of steps "
        "and accuracy (our addition)"
    )


class Change(NamedTuple):
    """Two cells of which the second is said to be better, and the words for them."""

    what: str
    before: Where
    after: Where


def counted(
    cells: Cells, sentence: str, changes: Sequence[Change], *, error: str = "ece", seeds: Collection[int] | None = None
) -> Claim:
    """A sentence that holds where the geometric mean of the error over all cells falls by a tenth or more.

    There is one value a seed, so that cells of one seed do not count as if they were independent. The evidence has
    every cell's change as a share of the error before, or the range where there are many, and in how many of them the
    fall is relevant by itself (:func:`relevant`): a majority of these decides nothing, for others may rise by more.
    """
    seen, shares, moved = list[bool | None](), list[str](), list[float]()
    for what, before, after in changes:
        level, gain = cells.mean(error, before, seeds), cells.gain(error, before, after, seeds)
        holds = relevant(what, gain, RELEVANT * level if level else None).holds
        seen.append(holds)
        moved += [] if gain is None or not level else [-gain.mean / level]
        shares.append(f"{what} {_change(gain, level)}{' (open)' if holds is None else ''}")
    both = [tuple(cells.values(error, where, seeds) for where in (after, before)) for _, before, after in changes]
    over = Ratio.over_all([(one, other) for one, other in both])
    told = f"{error.upper()} over all cells {over or 'missing'} times as large, {1.0 - RELEVANT:g} being asked"
    told += f"; it falls by a tenth in {seen.count(True)} of {len(seen)} cells, not in {seen.count(False)}"
    ends = f"changes from {min(moved):+.0%} to {max(moved):+.0%}" if moved else MISSING
    told += f"; {ends}" if len(changes) > _LISTED else f"; change: {', '.join(shares)}"
    holds = over and over.below(1.0 - RELEVANT)
    return Claim(f"{cells.name}: {sentence}", holds, told, _seeds(over, 1.0 - RELEVANT, beside=seeds is not None))


def _seeds(ratio: Ratio | None, limit: float, *, beside: bool) -> str:
    """How many seeds would tell a ratio from a limit, if it stays as it is; beside those that chose what is judged."""
    if ratio is None or ratio.known is None:
        return ""
    told = by_seeds(Measured(ratio.log - math.log(limit), ratio.noise, ratio.pairs))
    return f"{told} that judge, beside those that choose" if told and beside else told


def _change(gain: Measured | None, level: float) -> str:
    """A mean change with two standard errors, in percent of the error before."""
    if gain is None or not level:
        return "missing"
    return f"{-gain.mean / level:+.0%}" + ("" if gain.noise is None else f" ± {gain.noise / level:.0%}")


def harm(cells: Cells) -> Iterator[Claim]:
    """Whether DP-SGD harms calibration: where it is most accurate, and where it is best calibrated at that accuracy."""
    for sentence, pair in harms(cells).items():
        yield _harmed(cells, f"{cells.name}: {HARM} ({sentence})", pair)


def harms(cells: Cells) -> dict[str, Pair | None]:
    """The settings of DP-SGD and SGD of either question, with the seeds that judge them."""
    private, theirs = cells.settings(method="DP-SGD", averaged=False), cells.plain()
    chosen = cells.halves([*private, *cells.settings(method="SGD", averaged=False)])
    most = cells.best(private, chosen)
    if theirs is None or most is None or not chosen:
        return dict.fromkeys((MOST_ACCURATE, CALMEST))
    enough = cells.mean("accuracy", most, chosen) - SAME_ACCURACY
    rivals = [one for one in private if cells.mean("accuracy", one, chosen) >= enough]
    calm = min(rivals, key=lambda one: cells.mean("ece", one, chosen))
    return {
        name: Pair(one, theirs, cells.shared([one, theirs]) - chosen)
        for name, one in {MOST_ACCURATE: most, CALMEST: calm}.items()
    }


def _harmed(cells: Cells, sentence: str, pair: Pair | None) -> Claim:
    if pair is None:
        return Claim(sentence, None, MISSING)
    private, plain, seeds = pair
    found = list[Seen]()
    for name in ERRORS:
        margin = RELEVANT * cells.mean(name, plain, seeds)
        found.append(relevant(name.upper(), cells.gain(name, private, plain, seeds), margin))
    shown = f"DP-SGD {cells.shown(private, seeds)} against SGD {cells.shown(plain, seeds)}"
    told = "; ".join(one.evidence for one in found)
    return Claim(
        sentence, every(one.holds for one in found), f"{shown}{_ties(cells, plain)}; by all of three errors, larger by "
        f"{told}"
    )  # fmt: skip


def _ties(cells: Cells, plain: Where) -> str:
    """That other settings of SGD are as accurate, and how well they are calibrated."""
    enough = cells.mean("accuracy", plain) - SAME_ACCURACY
    rivals = [one for one in cells.settings(method="SGD", averaged=False) if cells.mean("accuracy", one) >= enough]
    found = sorted(cells.mean("ece", one) for one in rivals)
    if len(found) < 2:
        return ""
    return (
        f", whose {len(found)} settings within a hundredth of that accuracy have ECE {found[0]:.4f} to {found[-1]:.4f}"
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
    change = Change("last", cells.at(clip), after)
    yield counted(cells, f"{_long_noise_helps(cells.bench)} (our addition)", [change])
    rivals = [cells.at(one) for one in cells.bench.clips]
    chosen = cells.halves([*rivals, after])
    best = min(rivals, key=lambda one: cells.mean("ece", one, chosen) or 1.0)
    yield beyond_clip_norm(cells, best, cells.shared([best, after]) - chosen)


def beyond_clip_norm(cells: Cells, best: Where, seeds: Collection[int]) -> Claim:
    """Noise before clipping that is longer than the clip norm, beside DP-SGD at the clip norm that suits it."""
    after = cells.langevin(cells.bench.compared[1], pre_noise=TOO_LONG)
    change = Change(f"clip norm {best['clip_norm']:g}", best, after)
    return counted(cells, beyond(cells.bench), [change], seeds=seeds)


def _variants(clips: Sequence[float], name: str, states: Sequence[object]) -> Iterator[tuple[str, Where]]:
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


def clip_norm_alone(cells: Cells, pair: Pair | None) -> Claim:
    """Whether DP-SGD's clip norm makes as much of a difference as DP-SGLD is said to make, by two that are chosen."""
    folds, sentence = FOLDS[cells.bench.data], f"{cells.name}: {alone(cells.bench)}"
    if pair is None:
        return Claim(sentence, None, f"no two clip norms within {SAME_ACCURACY:g} in accuracy, or {MISSING}")
    found = clip_ratio(cells, pair)
    shown = " against ".join(cells.shown(where, pair.seeds) for where in pair[:2])
    told = f"{shown}: ratio {found or 'missing'}, at least {folds - 0.5:g} being asked"
    gap = cells.gain("accuracy", pair.one, pair.other, pair.seeds)
    near = relevant("accuracies differ by", gap and gap._replace(mean=abs(gap.mean)), SAME_ACCURACY)
    told += f"; {near.evidence}"
    if near.holds is not False:
        left = gap and by_seeds(gap._replace(mean=abs(gap.mean) - SAME_ACCURACY))
        return Claim(sentence, None, f"{told}; not known to be of one accuracy, the pair decides nothing", left or "")
    return Claim(sentence, found and found.above(folds - 0.5), told, _seeds(found, folds - 0.5, beside=True))


def clip_ratio(cells: Cells, pair: Pair) -> Ratio | None:
    """The larger ECE over the smaller, on the seeds that judge."""
    return Ratio.of(*(cells.values("ece", where, pair.seeds) for where in pair[:2]))


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
    own = [*cells.settings(method="DP-SGLD"), *cells.settings(method="DP-SGD")]
    theirs = {name: cells.settings(method=name) for name in others}
    chosen = cells.halves([*own, *(one for of in theirs.values() for one in of)])
    ours, rivals = cells.best(own, chosen), {name: cells.best(of, chosen) for name, of in theirs.items()}
    if ours is None or None in rivals.values() or not chosen:
        return Claim(sentence, None, MISSING)
    judges = cells.shared([ours]) - chosen
    found = [
        relevant(f"over {name}", cells.gain("accuracy", ours, rival or {}, judges), SAME_ACCURACY)
        for name, rival in rivals.items()
    ]
    told = "; ".join(one.evidence for one in found)
    return Claim(sentence, every(one.holds for one in found), f"DP-SGLD {cells.shown(ours, judges)}; lead {told}")
