"""The benches of the calibration frontier and their runs, by scale."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, Literal, NamedTuple

from experiments.papers.runs.frontier import FRONTIER, KL_CLIPPED, FrontierRun, MethodName
from pacdp.cli.private.config import Budget
from pacdp.cli.recipes import Scale
from pacdp.cli.serial import digest
from pacdp.cli.sweep.jobs import Job

FOLDS = {"MNIST": 5, "X-rays": 2}
"""The reductions of ECE that Knolle et al. name ("MNIST ~5-fold, PPD ~2-fold")."""
SLOTS: tuple[Literal["gradient", "parameter"], ...] = ("gradient", "parameter")
TOO_LONG = 2.0
"""A second length of pre-noise, beside half the clip norm: twice the clip norm."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """One data set and network with everything that its runs share."""

    name: str
    data: str
    """Whose sentences it answers: MNIST or X-rays."""
    run: FrontierRun
    """Data, network, sampling and budget; its ``reach`` is that of all comparisons at one step size."""
    clips: tuple[float, ...]
    """Of the grid; the comparisons have the first, the middle and the last."""
    reaches: tuple[float, ...]
    steps: tuple[int, ...] = ()
    """Other numbers of steps, at the bench's own reach: epsilon stays, and with it falls or rises the noise."""
    seeds: int
    others: tuple[MethodName, ...] = ("DP-BBP", "DP-MC-Dropout")
    """The variational networks, at the same clip norms and step sizes."""
    pre_noise_seeds: int
    """Noise on every unit's gradient costs as many normal numbers as there are units times weights."""
    long_noise_seeds: int = 0
    """Of the comparison that needs most: pre-noise longer than the clip norm, beside DP-SGD at every clip norm."""
    dropout_seeds: int = 0
    """Of DP-MC-Dropout beside DP-SGD, whose errors differ by about as much as what is asked for."""
    plain: tuple[tuple[float, int], ...]
    """Step sizes and numbers of passes of SGD without privacy."""
    plain_batch: int = 128

    @property
    def compared(self) -> tuple[float, ...]:
        """Clip norms at which decay, pre-noise and slots are compared."""
        return tuple(dict.fromkeys((self.clips[0], self.clips[len(self.clips) // 2], self.clips[-1])))


_MNIST = FrontierRun(dataset="mnist", pooled=True, hidden=(32,), sample_rate=0.01, steps=200, reach=2.0,
                     budget=Budget(epsilon=0.5, delta=1e-5))  # fmt: skip
_LUNGS = FrontierRun(dataset="xrays224", patients=True, hidden=(16,), sample_rate=0.1, steps=100, reach=0.6,
                     budget=Budget(epsilon=6.0, delta=1e-4))  # fmt: skip
_CNN = replace(_MNIST, pooled=False, architecture="cnn5", hidden=(), kept=4)
_DIGITS = FrontierRun(dataset="digits", hidden=(8,), sample_rate=0.1, steps=6, reach=1.0, kept=2,
                      budget=Budget(epsilon=8.0, delta=1e-3))  # fmt: skip

MNIST = Bench(
    name="MNIST", data="MNIST", run=_MNIST, clips=(0.1, 0.3, 1.0, 3.0, 10.0), reaches=(1.0, 2.0, 4.0, 8.0),
    steps=(50, 800), seeds=6, pre_noise_seeds=3, long_noise_seeds=24, plain=((0.05, 5), (0.1, 20), (0.1, 60)),
)  # fmt: skip
XRAYS = Bench(
    name="X-rays by patient", data="X-rays", run=_LUNGS, clips=(0.1, 0.3, 1.0, 3.0, 10.0),
    reaches=(0.15, 0.3, 0.6, 1.2), steps=(25, 400), seeds=8, pre_noise_seeds=4, dropout_seeds=12,
    plain=((0.01, 5), (0.01, 20), (0.03, 60)),
)  # fmt: skip
CNN = Bench(
    name="MNIST, five-layer CNN", data="MNIST", run=_CNN, clips=(0.1, 1.0, 10.0), reaches=(2.0,), seeds=4, others=(),
    pre_noise_seeds=0, plain=(),
)  # fmt: skip
_SMALL: dict[str, Any] = {
    "run": _DIGITS, "clips": (0.1, 10.0), "reaches": (1.0,), "seeds": 2, "pre_noise_seeds": 1, "plain": ((0.1, 1),),
}  # fmt: skip
_FULL = replace(_CNN, sample_rate=0.02, steps=500, kept=20)


class TwoClips(NamedTuple):
    """Two clip norms of DP-SGD at one reach and number of steps, the larger ECE first."""

    more: float
    less: float
    reach: float
    steps: int
    seeds: int


class BestClip(NamedTuple):
    """DP-SGD's clip norm of least ECE at a bench's reach and steps, which long noise is compared with."""

    clip: float
    seeds: int


TWO_CLIPS: dict[Scale, dict[str, TwoClips]] = {
    "smoke": {"X-rays by patient": TwoClips(0.1, 10.0, 1.0, 6, 2)},
    "cpu": {
        "X-rays by patient": TwoClips(0.1, 10.0, 0.6, 100, 16),
        "MNIST, five-layer CNN": TwoClips(10.0, 1.0, 2.0, 200, 6),
    },
}
BEST_CLIP: dict[Scale, dict[str, BestClip]] = {
    "smoke": {"MNIST": BestClip(10.0, 2)},
    "cpu": {"MNIST": BestClip(3.0, 40), "X-rays by patient": BestClip(10.0, 16)},
}
"""What private-calibration's own seeds leave open, by bench: asked of new seeds in settings that all of its seeds have
chosen (private-calibration-pairs)."""
LATER = 1000
"""The first of these seeds, beyond those that choose."""
BENCHES: dict[Scale, tuple[Bench, ...]] = {
    "smoke": (
        Bench(name="MNIST", data="MNIST", **_SMALL),
        Bench(
            name="X-rays by patient", data="X-rays", others=(), **{**_SMALL, "reaches": (0.5, 1.0, 2.0), "steps": (3,)}
        ),
    ),
    "cpu": (MNIST, XRAYS, CNN),
    "paper": (
        replace(MNIST, run=_FULL, seeds=20, pre_noise_seeds=10),
        replace(XRAYS, run=replace(_LUNGS, hidden=(32,), steps=200), seeds=50, pre_noise_seeds=20),
    ),
}
"""Knolle et al.'s two data sets; at ``smoke`` scikit-learn's digits in the place of both, one with all methods, the
other with a grid. On two cores MNIST's grid is that of a small network on images of 14x14, and the CNN has a few of its
cells."""


def jobs(scale: Scale, seed: int) -> list[Job]:
    """All runs of a scale, those of a first seed before those of the next, the dearest last."""
    found = [(bench, run) for bench in BENCHES[scale] for run in _runs(bench)]
    named = [_job(bench, replace(run, seed=seed + k)) for bench, run in found for k in range(_seeds(bench, run))]
    once = {job.key: job for job in named}
    return sorted(once.values(), key=lambda job: (_price(job.config), job.config.seed))


def jobs_of_pairs(scale: Scale, seed: int) -> list[Job]:
    """The runs that judge pairs of settings chosen by :func:`jobs`, those of a first seed before those of the next."""
    found = list[Job]()
    for bench in BENCHES[scale]:
        base, two, best = bench.run, TWO_CLIPS[scale].get(bench.name), BEST_CLIP[scale].get(bench.name)
        if two:
            own = [replace(base, clip_norm=clip, reach=two.reach, steps=two.steps) for clip in (two.more, two.less)]
            found += _judges(bench, own, seed, two.seeds)
        if best:
            found += _judges(bench, [replace(base, clip_norm=best.clip), _noisy(bench)], seed, best.seeds)
    return list({job.key: job for job in found}.values())


def _judges(bench: Bench, runs: Sequence[FrontierRun], seed: int, count: int) -> Iterator[Job]:
    for number in range(seed + LATER, seed + LATER + count):
        yield from (_job(bench, replace(run, seed=number)) for run in runs)


def _seeds(bench: Bench, run: FrontierRun) -> int:
    usual = bench.pre_noise_seeds if run.pre_noise else bench.seeds
    base = bench.run
    sgd = run.method == "DP-SGD" and run.steps == base.steps and not run.decay
    more = [usual]
    if run.pre_noise == TOO_LONG or (sgd and run.reach == base.reach):
        more.append(bench.long_noise_seeds)
    if run.method == "DP-MC-Dropout" or (sgd and run.clip_norm in bench.compared):
        more.append(bench.dropout_seeds)
    return max(more)


def _price(run: FrontierRun) -> int:
    return 2 * (run.architecture == "cnn5") + (run.pre_noise > 0.0 or run.method in KL_CLIPPED)


def _noisy(bench: Bench) -> FrontierRun:
    return replace(bench.run, method="DP-SGLD", pre_noise=TOO_LONG, clip_norm=bench.compared[1])


def _runs(bench: Bench) -> Iterator[FrontierRun]:
    base = bench.run
    for clip, reach in product(bench.clips, bench.reaches):
        yield replace(base, clip_norm=clip, reach=reach)
    for clip, steps in product(bench.compared, bench.steps):
        yield replace(base, clip_norm=clip, steps=steps)
    if not bench.others:
        yield replace(base, clip_norm=bench.compared[1], method="DP-SGLD", decay=True)
        return
    for clip in bench.compared:
        cell = replace(base, clip_norm=clip)
        yield replace(cell, decay=True)
        for slot, decay in product(SLOTS, (False, True)):
            yield replace(cell, method="DP-SGLD", slot=slot, decay=decay)
        for decay in (False, True):
            yield replace(cell, method="DP-SGLD", pre_noise=0.5, decay=decay)
    yield _noisy(bench)
    for method, clip, reach in product(bench.others, bench.compared, bench.reaches):
        yield replace(base, method=method, clip_norm=clip, reach=reach)
    for method, clip in product(KL_CLIPPED, bench.compared):
        yield replace(base, method=method, clip_norm=clip)
    size = {"mnist": 60_000, "xrays224": 3_654, "digits": 1_437}[base.dataset]
    for rate, passes in bench.plain:
        share = bench.plain_batch / size
        yield replace(base, method="SGD", reach=rate, clip_norm=1.0, sample_rate=share, steps=round(passes / share))


def _job(bench: Bench, run: FrontierRun) -> Job:
    passes = round(run.sample_rate * run.steps) if run.method == "SGD" else None
    named = f"frontier {bench.name} {run.method} seed {run.seed} {digest(run, digits=10)}"
    key = "".join(c if c.isalnum() else "-" for c in named.lower().replace(",", ""))
    own: dict[str, Any] = {name: getattr(run, name) for name in (
        "method", "slot", "clip_norm", "reach", "decay", "pre_noise", "steps", "seed")}  # fmt: skip
    own |= {"slot": run.slot if run.method == "DP-SGLD" else None, "passes": passes}
    return Job(key=key, kind=FRONTIER, config=run, tags={"bench": bench.name, **own})
