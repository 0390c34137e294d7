"""Figures 1 and 2: accuracy against epsilon of DP-SGLD among DP-SGDs; what batch size and step size do to each."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl

from experiments.claims import Claim, Verdict, above, count_noise, every
from experiments.figures import bayesian_dp as drawing
from experiments.figures import style
from experiments.papers.bayesian_dp.classify import CLASSIFY
from experiments.papers.bayesian_dp.config import CNN, BayesRun
from experiments.papers.bayesian_dp.notes import SMOKE, SOURCES, numbers_of
from experiments.papers.bayesian_dp.plans import (
    DELTA,
    DRIFT,
    LANGEVIN_RATE,
    RATE,
    SETTINGS,
    SIGMA,
    langevin_clip,
    named,
    sampling,
)
from experiments.papers.bayesian_dp.tables import epsilon_shown, finished, frame, privacy_columns
from experiments.private.config import Budget, PrivateConfig
from experiments.private.methods import DPSGD, DPSGLD
from experiments.recipes import Scale
from experiments.study import Job, Study

GRIDS: dict[Scale, dict[str, tuple[float, ...]]] = {
    "smoke": {"sigma": (1.3,), "clip": (0.5, 5.0), "langevin_clip": (1.0, 1.5), "batch": (72, 288), "rate": (0.1, 0.5),
              "langevin_rate": (0.2, 0.6)},
    "cpu": {"sigma": (0.9, 2.0), "clip": (0.5, 1.5, 5.0), "langevin_clip": (0.5, 1.0, 1.5), "batch": (128, 512),
            "rate": (0.05, 1.0), "langevin_rate": (0.15, 2.4)},
    "paper": {"sigma": (0.5, 0.9, 1.3, 2.0, 3.0), "clip": (0.5, 1.0, 1.5, 2.0, 5.0),
              "langevin_clip": (0.5, 1.0, 1.5, 2.0, 5.0), "batch": (64, 128, 512, 1024),
              "rate": (0.05, 0.1, 0.5, 1.0), "langevin_rate": (0.06, 0.2, 2.0)},
}  # fmt: skip
"""σ and C of Figure 1's DP-SGD and C of its DP-SGLD; batch sizes and step sizes of Figure 2, around the usual ones."""
PANELS = ("grid", "batch", "rate")
"""Figure 1; Figure 2 by batch size and by step size (DP-SGLD: n η)."""
_AXIS = {"batch": "batch_size", "rate": "step_size"}
EPOCHS: dict[Scale, tuple[float, float]] = {"smoke": (2.0, 1.0), "cpu": (2.0, 1.0), "paper": (15.0, 15.0)}
"""Of Figure 1 and of Figure 2."""


def jobs(scale: Scale, seed: int) -> list[Job]:
    """Private runs of the CNN, one seed, judged as they go; a run that several panels ask for is made once."""
    grid, setting = GRIDS[scale], SETTINGS[scale]
    first, second = EPOCHS[scale]
    found = [
        _descent(scale, seed, first, "grid", sigma=sigma, clip=clip) for sigma in grid["sigma"] for clip in grid["clip"]
    ]
    found += [_langevin(scale, seed, first, "grid", clip=clip) for clip in grid["langevin_clip"]]
    for batch in (setting.batch, *map(int, grid["batch"])):
        found += [
            _descent(scale, seed, second, "batch", batch=batch),
            _langevin(scale, seed, second, "batch", batch=batch),
        ]
    found += [_descent(scale, seed, second, "rate", rate=rate) for rate in (RATE, *grid["rate"])]
    found += [_langevin(scale, seed, second, "rate", rate=rate) for rate in (LANGEVIN_RATE, *grid["langevin_rate"])]
    return _once(found)


def _once(jobs: list[Job]) -> list[Job]:
    """Each key once, in all panels that it was asked for."""
    once: dict[str, Job] = {}
    for job in jobs:
        before = once.get(job.key)
        panels = {name: bool(job.tags[name] or (before and before.tags[name])) for name in PANELS}
        once[job.key] = replace(job, tags={**job.tags, **panels})
    return list(once.values())


def _descent(scale: Scale, seed: int, epochs: float, panel: str, *, sigma: float = SIGMA, clip: float = 1.0,
             rate: float = RATE, batch: int = 0) -> Job:  # fmt: skip
    return _job(scale, seed, epochs, panel, DPSGD(learning_rate=rate), batch=batch, rate=rate, clip=clip, sigma=sigma)


def _langevin(scale: Scale, seed: int, epochs: float, panel: str, *, clip: float = 0.0, rate: float = LANGEVIN_RATE,
              batch: int = 0) -> Job:  # fmt: skip
    setting = SETTINGS[scale]
    clip = clip or langevin_clip(batch=setting.batch, size=setting.size, rate=LANGEVIN_RATE, sigma=SIGMA)
    method = DPSGLD(convention="parameter-slot", step_size=rate / setting.size, drift=DRIFT, noise=1.0, snapshots=1)
    return _job(scale, seed, epochs, panel, method, batch=batch, rate=rate, clip=clip, sigma=0.0)


def _job(scale: Scale, seed: int, epochs: float, panel: str, method: DPSGD | DPSGLD, *, batch: int, rate: float,
         clip: float, sigma: float) -> Job:  # fmt: skip
    setting = SETTINGS[scale]
    size = batch or setting.batch
    config = PrivateConfig(
        dataset=setting.dataset, architecture=CNN, method=method, seed=seed,
        budget=Budget(epsilon=100_000.0, delta=DELTA),
        sampling=sampling(setting, batch=size, epochs=epochs, clip_norm=clip, sigma=sigma),
    )  # fmt: skip
    run = BayesRun(config=config, members=1, curve=max(2, min(round(epochs), 15)), image=setting.image)
    panels = {name: name == panel for name in PANELS}
    return named(run, CLASSIFY, algorithm=run.algorithm, batch_size=size, step_size=rate, **panels)


def table(jobs: Sequence[Job], folder: Path) -> pl.DataFrame:
    """A row a judged step of a run; the last of each run has ``last``."""
    return frame([
        {**job.tags, **privacy_columns(result["privacy"]), **point, "last": point is result["curve"][-1],
         "n_test": result["test"]["n"], "run": job.key}
        for job, result in finished(jobs, folder) for point in result["curve"]
    ])  # fmt: skip


def draw(table: pl.DataFrame, out: Path) -> list[Path]:
    """figure: accuracy against epsilon; effects: against batch size and step size."""
    drawn, grid = style.figure(1, 1, width=5.2, height=3.8)
    drawing.accuracy_against_epsilon(grid[0][0], table)
    paths = style.save(drawn, out / "figure")
    drawn, grid = style.figure(2, 2, width=4.4)
    drawing.effects(grid, table)
    return [*paths, *style.save(drawn, out / "effects")]


def judge(table: pl.DataFrame, scale: Scale) -> Verdict:
    """The sentences about Figures 1 and 2, which print no numbers."""
    accounted = (_trend(table, "SGLD", "batch", falls=True), _trend(table, "SGD", "batch", falls=False),
                 _trend(table, "SGLD", "rate", falls=False), _flat(table))  # fmt: skip
    claims = (_corner(table), *accounted, _faster(table))
    mine = ("Appendix C.3, with the settings of Figure 2, is not in the text at hand: batch and step sizes are ours, "
            "at equal epochs. One seed.")  # fmt: skip
    sums = (f"Of the {len(claims)} claims {len(accounted)} are computations of epsilon from the settings; no training "
            "could change them.")  # fmt: skip
    return Verdict(claims=claims, notes=(*_cut(scale), *SOURCES, mine, sums, numbers_of(table)))


def _cut(scale: Scale) -> tuple[str, ...]:
    if scale == "smoke":
        return (SMOKE,)
    ours, papers = EPOCHS[scale], EPOCHS["paper"]
    said = " and ".join(f"{one:g} (Figure {k}) rather than {other:g}"
                        for k, (one, other) in enumerate(zip(ours, papers, strict=True), 1))  # fmt: skip
    return () if ours == papers else (f"Cut for two cores: epochs {said}; fewer σ, C, batch and step sizes.",)


def _corner(table: pl.DataFrame) -> Claim:
    """Every DP-SGLD against the best DP-SGD that costs no more, whichever panel either is from."""
    sentence = ('Figure 1: DP-SGLD "is superior to other members of this family as it occupies the top left corner" '
                "(each is more accurate by two standard errors than the best DP-SGD at no larger epsilon)")  # fmt: skip
    rows = [] if table.is_empty() else table.filter(pl.col("last")).to_dicts()
    ours, others = ([r for r in rows if r["algorithm"] == name] for name in ("SGLD", "SGD"))
    if not ours or not others:
        return Claim(sentence=sentence, holds=None, evidence="runs are missing")
    rivals = [max((r for r in others if r["epsilon"] <= one["epsilon"] * (1.0 + 1e-9)),
                  key=lambda r: r["accuracy"], default=None) for one in ours]  # fmt: skip
    verdicts = [_beats(one, rival) for one, rival in zip(ours, rivals, strict=True)]
    alone = rivals.count(None)
    won, lost, tied = verdicts.count(True), verdicts.count(False), verdicts.count(None) - alone
    return Claim(sentence=sentence, holds=every(verdicts),
                 evidence=f"{len(ours)} DP-SGLD, {len(others)} DP-SGD: {won} beat it, {lost} are beaten, {tied} tie, "
                          f"{alone} have no DP-SGD at no larger epsilon" + _closest(ours, rivals))  # fmt: skip


def _beats(one: dict[str, Any], rival: dict[str, Any] | None) -> bool | None:
    if rival is None:
        return None
    return above(one["accuracy"], rival["accuracy"], count_noise(*((r["accuracy"], r["n_test"]) for r in (one, rival))))


def _closest(ours: list[dict[str, Any]], rivals: list[dict[str, Any] | None]) -> str:
    """The pair in which DP-SGLD does worst, as (epsilon, accuracy)."""
    pairs = [(one, rival) for one, rival in zip(ours, rivals, strict=True) if rival is not None]
    if not pairs:
        return ""
    pair = min(pairs, key=lambda two: two[0]["accuracy"] - two[1]["accuracy"])
    one, other = (f"({epsilon_shown(r['epsilon'])}, {r['accuracy']:.4f})" for r in pair)
    return f"; least lead: {one} against {other}"


def _trend(table: pl.DataFrame, algorithm: str, panel: str, *, falls: bool) -> Claim:
    values = [(row[_AXIS[panel]], row["epsilon"]) for row in _panel(table, algorithm, panel)]
    moves = [later < before if falls else later > before for (_, before), (_, later) in pairwise(values)]
    said = {("SGLD", "batch"): '"DP-SGLD with larger |B| is more private"',
            ("SGD", "batch"): '"smaller |B| amplifies the privacy for DP-SGD"',
            ("SGLD", "rate"): 'DP-SGLD: "smaller η is more private"'}[algorithm, panel]  # fmt: skip
    return Claim(
        sentence=f"{said} (epsilon after the same epochs, monotone)",
        holds=every(moves),
        evidence=", ".join(f"{value:g}: epsilon {epsilon_shown(epsilon)}" for value, epsilon in values),
    )


def _flat(table: pl.DataFrame) -> Claim:
    values = [row["epsilon"] for row in _panel(table, "SGD", "rate")]
    return Claim(sentence="the learning rate has no effect on the privacy of DP-SGD (equal epsilon; said of "
                          "DP-MC Dropout and DP-BBP, which cost what DP-SGD costs)",
                 holds=None if len(values) < 2 else max(values) - min(values) <= 1e-12,
                 evidence="epsilon " + ", ".join(map(epsilon_shown, values)))  # fmt: skip


def _faster(table: pl.DataFrame) -> Claim:
    rows = _panel(table, "SGLD", "rate")
    rise = None if len(rows) < 2 else above(rows[-1]["accuracy"], rows[0]["accuracy"], count_noise(
        *((row["accuracy"], row["n_test"]) for row in (rows[0], rows[-1]))))  # fmt: skip
    return Claim(
        sentence='DP-SGLD: "larger η converges faster" (largest against smallest n η, after the same epochs, '
        "beyond two standard errors)",
        holds=rise,
        evidence=", ".join(f"n η {row['step_size']:g}: {row['accuracy']:.3f}" for row in rows),
    )


def _panel(table: pl.DataFrame, algorithm: str, panel: str) -> list[dict[str, Any]]:
    """The last rows of a panel's runs, in the order of its axis."""
    if table.is_empty():
        return []
    return table.filter(pl.col("last"), pl.col(panel), algorithm=algorithm).sort(_AXIS[panel]).to_dicts()


STUDY = Study(
    name="dp-bnn-tradeoff", title="DP-SGLD among DP-SGDs: accuracy, epsilon, batch size, step size",
    paper="Zhang, Bu et al. (2021), Figures 1 and 2", jobs=jobs, table=table, draw=draw, judge=judge,
)  # fmt: skip
