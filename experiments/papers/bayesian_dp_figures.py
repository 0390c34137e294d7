"""Zhang, Bu et al. (2021), Figures 1 and 2: accuracy against epsilon of DP-SGLD among DP-SGDs, what batch size and step
size do to each; Figures 3 and 7: reliability diagrams, and the members' predictions of one image."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import combinations, pairwise
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from experiments.claims import MISSING, Claim, Measured, above, count_noise, every, judging, smaller
from experiments.figures import bayesian_dp as figures
from experiments.job_costs import by_seeds
from experiments.papers.bayesian_dp import LEAD, mean_shown
from experiments.papers.bayesian_dp_plans import (
    DELTA,
    DRIFT,
    LANGEVIN_RATE,
    MLP,
    RATE,
    SETTINGS,
    SIGMA,
    SMOKE,
    SOURCES,
    cut,
    image_jobs,
    langevin_clip,
    named,
    numbers_of,
    privacy_columns,
    sampling,
)
from experiments.papers.runs.bayesian import CNN, BayesRun
from experiments.papers.runs.bayesian_runs import CLASSIFY
from experiments.study import Done, Row, Study, drawing, tabled
from experiments.tables import column, epsilon_shown, mean, measured, part, shown
from pacdp.cli.private.config import Budget, PrivateConfig
from pacdp.cli.private.methods import DPSGD, DPSGLD
from pacdp.cli.recipes import Scale
from pacdp.cli.sweep.jobs import Job

GRIDS: dict[Scale, dict[str, tuple[float, ...]]] = {
    "smoke": {
        **{"sigma": (1.3,), "clip": (0.5, 5.0), "langevin_clip": (1.0,), "batch": (72,), "rate": (0.1,)},
        "langevin_rate": (0.2,),
    },
    "cpu": {
        **{"sigma": (0.9, 2.0), "clip": (0.5, 1.5, 5.0), "langevin_clip": (0.5, 1.0, 1.5), "batch": (128, 512)},
        **{"rate": (0.05, 1.0), "langevin_rate": (0.15, 2.4)},
    },
    "paper": {
        **{"sigma": (0.5, 0.9, 1.3, 2.0, 3.0), "clip": (0.5, 1.0, 1.5, 2.0, 5.0)},
        **{"langevin_clip": (0.5, 1.0, 1.5, 2.0, 5.0), "batch": (64, 128, 512, 1024)},
        **{"rate": (0.05, 0.1, 0.5, 1.0), "langevin_rate": (0.06, 0.2, 2.0)},
    },
}
"""σ and C of Figure 1's DP-SGD and C of its DP-SGLD; batch sizes and step sizes of Figure 2, around the usual ones."""
PANELS = ("grid", "batch", "rate")
"""Figure 1; Figure 2 by batch size and by step size (DP-SGLD: n η)."""
_AXIS = {"batch": "batch_size", "rate": "step_size"}
EPOCHS: dict[Scale, tuple[float, float]] = {"smoke": (0.4, 0.4), "cpu": (2.0, 1.0), "paper": (15.0, 15.0)}
"""Of Figure 1 and of Figure 2."""
BAYESIAN = ("SGLD", "BBP", "MC Dropout")
DIAGRAMS = (("SGD", "none", False), ("SGD", "none", True), ("SGLD", "none", True), ("SGLD", "normal", True))
"""Of Figure 3: SGD, DP-SGD, and DP-SGLD without and with prior."""
MOVED, CHANCE = 0.1, 0.05
"""Total variation between mean predictions from which on privacy is said to change them, and the level of the test."""


def jobs_1(scale: Scale, seed: int) -> list[Job]:
    """Private runs of the CNN, one seed, judged as they go; a run that several panels ask for is made once."""
    grid, setting = GRIDS[scale], SETTINGS[scale]
    usual = langevin_clip(batch=setting.batch, size=setting.size, rate=LANGEVIN_RATE, sigma=SIGMA)
    descent, langevin = {"clip": 1.0, "sigma": SIGMA}, {"clip": usual, "sigma": 0.0}
    asked: list[tuple[str, str, dict[str, float]]] = [
        ("grid", "SGD", {"sigma": sigma, "clip": clip}) for sigma in grid["sigma"] for clip in grid["clip"]
    ]
    asked += [("grid", "SGLD", langevin | {"clip": clip}) for clip in grid["langevin_clip"]]
    for batch in (setting.batch, *grid["batch"]):
        asked += [("batch", "SGD", descent | {"batch": batch}), ("batch", "SGLD", langevin | {"batch": batch})]
    asked += [("rate", "SGD", descent | {"rate": rate}) for rate in (RATE, *grid["rate"])]
    asked += [("rate", "SGLD", langevin | {"rate": rate}) for rate in (LANGEVIN_RATE, *grid["langevin_rate"])]
    once: dict[str, Job] = {}
    for panel, algorithm, settings in asked:
        job = _job(scale, seed, EPOCHS[scale][panel != "grid"], algorithm, **settings)
        before = once.get(job.key)
        panels = {name: name == panel or bool(before and before.tags[name]) for name in PANELS}
        once[job.key] = replace(job, tags={**job.tags, **panels})
    return list(once.values())


def _job(scale: Scale, seed: int, epochs: float, algorithm: str, *, clip: float, sigma: float, **given: float) -> Job:
    setting = SETTINGS[scale]
    size = int(given.get("batch", setting.batch))
    rate = given.get("rate", RATE if algorithm == "SGD" else LANGEVIN_RATE)
    steps: dict[str, Any] = {"step_size": rate / setting.size, "drift": DRIFT, "noise": 1.0, "snapshots": 1}
    langevin = algorithm == "SGLD"
    config = PrivateConfig(
        dataset=setting.dataset,
        architecture=CNN,
        method=DPSGLD(convention="parameter-slot", **steps) if langevin else DPSGD(learning_rate=rate),
        seed=seed,
        budget=Budget(epsilon=100_000.0, delta=DELTA),
        sampling=sampling(setting, batch=size, epochs=epochs, clip_norm=clip, sigma=sigma),
    )
    run = BayesRun(config=config, members=1, curve=max(2, min(round(epochs), 15)), image=setting.image)
    return named(run, CLASSIFY, algorithm=run.algorithm, batch_size=size, step_size=rate)


def by_step(done: Done) -> Iterator[Row]:
    """A row a judged step of a run; the last of each run has ``last``."""
    result = done.result
    own = {"n_test": result["test"]["n"], "run": done.job.key}
    for point in result["curve"]:
        yield {**done.tags, **privacy_columns(result["privacy"]), **point, "last": point is result["curve"][-1], **own}


def claims_1(table: pl.DataFrame, scale: Scale) -> Iterator[Claim]:
    """The sentences about Figures 1 and 2, which print no numbers; all but the first and the last are accounted."""
    yield _corner(table)
    for algorithm, panel, falls, said in (
        ("SGLD", "batch", True, '"DP-SGLD with larger |B| is more private"'),
        ("SGD", "batch", False, '"smaller |B| amplifies the privacy for DP-SGD"'),
        ("SGLD", "rate", False, 'DP-SGLD: "smaller η is more private"'),
    ):
        values = [(row[_AXIS[panel]], row["epsilon"]) for row in _panel(table, algorithm, panel)]
        moves = [later < before if falls else later > before for (_, before), (_, later) in pairwise(values)]
        told = ", ".join(f"{value:g}: epsilon {epsilon_shown(epsilon)}" for value, epsilon in values)
        yield Claim(f"{said} (epsilon after the same epochs, monotone)", every(moves), told)
    spent = [row["epsilon"] for row in _panel(table, "SGD", "rate")]
    yield Claim(
        "the learning rate has no effect on the privacy of DP-SGD (equal epsilon; said of DP-MC Dropout and DP-BBP, "
        "which cost what DP-SGD costs)",
        None if len(spent) < 2 else max(spent) - min(spent) <= 1e-12,
        f"epsilon {', '.join(map(epsilon_shown, spent))}",
    )
    rows = _panel(table, "SGLD", "rate")
    yield Claim(
        'DP-SGLD: "larger η converges faster" (largest against smallest n η, after the same epochs, beyond two '
        "standard errors)",
        None if len(rows) < 2 else _beats(rows[-1], rows[0]),
        ", ".join(f"n η {row['step_size']:g}: {row['accuracy']:.3f}" for row in rows),
    )


def _panel(table: pl.DataFrame, algorithm: str, panel: str) -> list[Row]:
    """The last rows of a panel's runs, in the order of its axis."""
    rows = part(table, last=True, algorithm=algorithm, **{panel: True})
    return rows.to_dicts() if rows.is_empty() else rows.sort(_AXIS[panel]).to_dicts()


def _beats(one: Row, rival: Row | None, *, by: float = 0.0) -> bool | None:
    """Whether a run is more accurate than another by so much, beyond the noise of the counts."""
    if rival is None:
        return None
    noise = count_noise(*((run["accuracy"], run["n_test"]) for run in (one, rival)))
    return above(one["accuracy"], rival["accuracy"] + by, noise)


def _corner(table: pl.DataFrame) -> Claim:
    """Every DP-SGLD against the best DP-SGD that costs no more, whichever panel either is from."""
    sentence = (
        'Figure 1: DP-SGLD "is superior to other members of this family as it occupies the top left corner" (each is '
        f"more accurate by {LEAD:g} or more than the best DP-SGD at no larger epsilon)"
    )
    ours, others = (part(table, last=True, algorithm=name).to_dicts() for name in ("SGLD", "SGD"))
    if not ours or not others:
        return Claim(sentence, None, MISSING)
    rivals: list[Row | None] = []
    for one in ours:
        cheaper = (row for row in others if row["epsilon"] <= one["epsilon"] * (1.0 + 1e-9))
        rivals.append(max(cheaper, key=lambda row: row["accuracy"], default=None))
    verdicts = [_beats(one, rival, by=LEAD) for one, rival in zip(ours, rivals, strict=True)]
    alone = rivals.count(None)
    won, lost, tied = verdicts.count(True), verdicts.count(False), verdicts.count(None) - alone
    told = f"{len(ours)} DP-SGLD, {len(others)} DP-SGD: {won} beat it by {LEAD:g}, {lost} do not, {tied} are open"
    pairs = [(one, rival) for one, rival in zip(ours, rivals, strict=True) if rival is not None]
    closest = min(pairs, key=lambda two: two[0]["accuracy"] - two[1]["accuracy"], default=())
    shown = [f"({epsilon_shown(row['epsilon'])}, {row['accuracy']:.4f})" for row in closest]
    least = f"; least lead: {' against '.join(shown)}" if shown else ""
    return Claim(sentence, every(verdicts), f"{told}, {alone} have no DP-SGD at no larger epsilon{least}")


def notes_1(table: pl.DataFrame, scale: Scale) -> Iterator[str]:
    """Cuts, sources, and what is accounting alone."""
    ours, papers = EPOCHS[scale], EPOCHS["paper"]
    if scale == "smoke":
        yield SMOKE
    elif ours != papers:
        both = enumerate(zip(ours, papers, strict=True), 1)
        said = " and ".join(f"{one:g} (Figure {k}) rather than {other:g}" for k, (one, other) in both)
        yield f"Cut for two cores: epochs {said}; fewer σ, C, batch and step sizes."
    yield from SOURCES
    yield (
        "Appendix C.3, with the settings of Figure 2, is not in the text at hand: batch and step sizes are ours, at "
        "equal epochs. One seed."
    )
    yield "Of the 6 claims 4 are computations of epsilon from the settings; no training could change them."
    yield numbers_of(table)


def jobs_3(scale: Scale, seed: int) -> list[Job]:
    """Runs of Table 2, of its first seeds."""
    cells = [("SGD", "none", MLP), ("SGLD", "none", MLP), *((name, "normal", MLP) for name in BAYESIAN)]
    return image_jobs(cells, scale, seed, seeds=SETTINGS[scale].diagram_seeds)


def by_bin(done: Done) -> Iterator[Row]:
    """A row a run (part "run"), a bin of its reliability curve ("bin"), a class of a member's prediction ("member")."""
    result = done.result
    confidence, curve = result["uncertainty"]["confidence"], result["reliability"]
    yield {
        **{**done.tags, "part": "run", "ece": result["test"]["ece"], "mce": result["test"]["mce"]},
        **{"confidence_right": confidence["right"], "confidence_wrong": confidence["wrong"]},
        **{"label": result["image"]["label"], "failure_prob": curve["failure_prob"]},
    }
    names = ("left", "right", "count", "confidence", "accuracy", "lower", "upper")
    for values in zip(*(curve[name] for name in names), strict=True):
        yield {**done.tags, "part": "bin", **dict(zip(names, values, strict=True))}
    for member, probabilities in enumerate(result["image"]["probabilities"]):
        for k, value in enumerate(probabilities):
            yield {**done.tags, "part": "member", "member": member, "class": k, "probability": value}


def claims_3(table: pl.DataFrame, scale: Scale) -> Iterator[Claim]:
    """The sentences about Figures 3 and 7; the figures print no numbers."""
    label, plain = mean(table, "label"), {name: _predictions(table, name, private=False) for name in BAYESIAN}
    shares: dict[str, tuple[float, int] | None] = {}
    for name, runs in plain.items():
        found = [] if label is None else [(float((one.argmax(1) == label).mean()), len(one)) for one in runs]
        shares[name] = min(found, default=None)
    yield Claim(
        '"non-DP BNNs usually predict correctly" (the image, more than half of the members of each)',
        every(None if one is None else above(one[0], 0.5, count_noise(one)) for one in shares.values()),
        "; ".join(f"{name} {shown(one and one[0], 2)}" for name, one in shares.items()),
    )
    private = {name: _predictions(table, name, private=True) for name in BAYESIAN}
    moved = {name: _moved(plain[name], private[name]) for name in BAYESIAN}
    yield Claim(
        '"DP changes the empirical posterior probabilities significantly" (the image: mean predictions differ by '
        f"{MOVED} or more in total variation, and a permutation of the seeds' runs differs as much in at most "
        f"{CHANCE:.0%} of all, each)",
        every(None if one is None else one.holds for one in moved.values()),
        "; ".join(f"{name} {'missing' if one is None else one}" for name, one in moved.items()),
    )
    one, other = (_wrong(table, name) for name in ("SGLD", "BBP"))
    noise = one.minus(other).noise if one and other else None
    yield Claim(
        '"DP-SGLD is less confident about its mistake compared to DP-BBP" (mean confidence of all wrong predictions)',
        smaller(one, other),
        f"DP-SGLD {mean_shown(one)}, DP-BBP {mean_shown(other)}; two standard errors of the difference {shown(noise)}",
    )


def _predictions(table: pl.DataFrame, algorithm: str, *, private: bool) -> list[np.ndarray]:
    """[members, classes] of the image, for each seed."""
    rows = part(table, part="member", algorithm=algorithm, prior="normal", private=private)
    runs = [] if rows.is_empty() else rows.sort("member", "class").partition_by("seed", maintain_order=True)
    return [of["probability"].to_numpy().reshape(-1, int(str(of["class"].max())) + 1) for of in runs]


class _Moved(NamedTuple):
    """How far privacy moves the mean prediction, and the share of relabelled runs that differ as much or more."""

    distance: float
    chance: float

    @property
    def holds(self) -> bool | None:
        """Whether it moves by MOVED, beyond what seeds explain; no where it moves by less than half of that."""
        if self.distance < 0.5 * MOVED:
            return False
        return True if self.distance >= MOVED and self.chance <= CHANCE else None

    def __str__(self) -> str:
        return f"{self.distance:.2f} (as much by chance: {shown(self.chance)} of the permutations)"


def _moved(plain: list[np.ndarray], private: list[np.ndarray]) -> _Moved | None:
    """Total variation between mean predictions over runs, by the exact permutation test."""
    if not plain or not private:
        return None
    runs, own = np.array([one.mean(0) for one in (*plain, *private)]), range(len(plain))
    every_way = [_distance(runs, way) for way in combinations(range(len(runs)), len(plain))]
    distance = _distance(runs, own)
    return _Moved(distance, float(np.mean([one >= distance - 1e-12 for one in every_way])))


def _distance(runs: np.ndarray, chosen: Iterable[int]) -> float:
    """Total variation between the mean of some rows and that of the others."""
    of = np.zeros(len(runs), dtype=bool)
    of[list(chosen)] = True
    return float(0.5 * np.abs(runs[of].mean(0) - runs[~of].mean(0)).sum())


def _wrong(table: pl.DataFrame, name: str) -> Measured | None:
    """Mean confidence of wrong predictions, and its noise: of the images, at most as of counts, and of the seeds."""
    where: dict[str, Any] = {"algorithm": name, "prior": "normal", "private": True}
    found = measured(table, "confidence_wrong", part="run", **where)
    if found is None:
        return None
    bins = part(table, part="bin", **where).filter(pl.col("count") > 0)
    return found.counted(float((bins["count"] * (1.0 - bins["accuracy"])).sum()) / found.seeds)


def notes_3(table: pl.DataFrame, scale: Scale) -> Iterator[str]:
    """Cuts, the image, and how many images the bins hold that set the MCEs."""
    yield from cut(scale, seeds=len(set(column(table, "seed", {}))))
    yield (
        "The paper does not say which image Figure 7 shows; here it is one that is hard to read. What the authors see "
        "in one image is judged on all test images where a number can say it. What the right two diagrams of Figure 3 "
        "show, DP-SGLD with and without prior, is judged by dp-bnn-calibration."
    )
    if not table.is_empty():
        bins = part(table, part="bin").filter(pl.col("count") > 0)
        gaps = bins.with_columns(gap=(pl.col("confidence") - pl.col("accuracy")).abs()).sort("gap", descending=True)
        counts = gaps.group_by("algorithm", "prior", "private", "seed", maintain_order=True).first()["count"]
        few = f"here {counts.min()} to {counts.max()}"
        yield f"MCE is the largest gap of any bin, however few images are in it: {few}."


FIGURES_1_2 = Study(
    name="dp-bnn-tradeoff",
    title="DP-SGLD among DP-SGDs: accuracy, epsilon, batch size, step size",
    paper="Zhang, Bu et al. (2021), Figures 1 and 2",
    jobs=jobs_1,
    table=tabled(by_step),
    draw=drawing(figure=figures.accuracy_against_epsilon, effects=figures.effects),
    judge=judging(
        claims=claims_1,
        notes=notes_1,
        settled_by=by_seeds(jobs_1, "more seeds than one, of whose spread nothing is known"),
    ),
)
FIGURES_3_7 = Study(
    name="dp-bnn-reliability",
    title="Reliability diagrams and one image's posterior predictions",
    paper="Zhang, Bu et al. (2021), Figures 3 and 7",
    jobs=jobs_3,
    table=tabled(by_bin),
    draw=drawing(
        figure=lambda table: figures.reliability(table, DIAGRAMS),
        posteriors=lambda table: figures.posteriors(table, BAYESIAN),
    ),
    judge=judging(
        claims=claims_3,
        notes=notes_3,
        settled_by=by_seeds(jobs_3),
    ),
)
STUDIES = (FIGURES_1_2, FIGURES_3_7)
