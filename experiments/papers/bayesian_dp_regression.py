"""Zhang, Bu et al. (2021), Table 3 and Figure 4: heteroscedastic regression, its error and the parts of its predicted
variance."""

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any, NamedTuple

import polars as pl

from experiments.claims import Claim, Comparison, Point, Ratio, every, judging, point, say
from experiments.figures import bayesian_dp as figures
from experiments.job_costs import by_seeds
from experiments.papers.bayesian_dp_plans import named, privacy_columns
from experiments.papers.runs.bayesian import BayesRun
from experiments.papers.runs.bayesian_runs import DATASET, REGRESS
from experiments.study import Done, Row, Study, drawing, tabled
from experiments.tables import column, epsilon_shown, ratio, shown
from pacdp.cli.private.config import Budget, PrivateConfig, Sampling
from pacdp.cli.private.methods import DPBBP, DPSGD, DPSGLD, DPMCDropout, Method
from pacdp.cli.recipes import Scale
from pacdp.cli.sweep.jobs import Job

ALGORITHMS = ("SGLD", "BBP", "MC Dropout", "SGD")
BAYESIAN = ALGORITHMS[:3]
PRINTED = {"SGLD": (0.510, 0.523), "BBP": (1.276, 0.562), "MC Dropout": (0.682, 0.591)}
"""Mean square errors with and without privacy, medians of 20 simulations."""
SIGMA, CLIP, DELTA, RATE, STEP_SIZE = 12.0, 5.0, 1e-3, 0.1, 2.5e-4
SIZES: dict[Scale, tuple[int, int, int]] = {"smoke": (1, 6, 3), "cpu": (80, 200, 50), "paper": (20, 200, 1000)}
"""Simulations, steps, members."""
PARTS = {
    "epistemic": "epistemic_std",
    "aleatoric": "aleatoric_std",
    "epistemic beyond the data": "epistemic_std_beyond",
}
"""Mean deviations of a run, over the data and, of what it recorded there, beyond them."""
DRAWN = ("epistemic", "aleatoric")
"""The variances of Figure 4's bands, over its own range."""
_ERRORS = (
    *("train_mse", "test_mse", "noise_mse", "test_nll_nats", "coverage_two_std", "epistemic_std", "aleatoric_std"),
    *("epistemic_std_beyond", "seconds_per_epoch", "steps", "members"),
)
_NOTES = (
    "Data, widths (200; two hidden layers for SGLD, one for the others), 200 full-batch steps, dropout 0.5, SGLD's "
    "step size and prior, and BBP's prior are those of the authors' notebooks; the text at hand has lost epsilon, "
    f"delta and the appendix. Here σ = {SIGMA:g} for all, at delta {DELTA:g}; C = {CLIP:g}, for SGLD what gives that "
    f"σ; learning rate {RATE:g} and plain SGD for BBP and MC Dropout, where the notebooks have Adam for BBP.",
    "The notebooks' private BBP adds noise after Adam's step, which is no private mechanism, and standardises targets "
    "with the data; neither is done here. Their error is that of the last weights on the training points; train_mse "
    "here is that of the members' mean, and test_mse that on new points of the same curve.",
    "Numbers of Table 3 are medians, as in the paper; claims are judged by geometric means of ratios, of runs paired "
    "by simulation, with two standard errors in brackets.",
)


def jobs(scale: Scale, seed: int) -> list[Job]:
    """Every algorithm with and without privacy on each simulation."""
    simulations, steps, members = SIZES[scale]
    found = []
    for number in range(simulations):
        for algorithm in ALGORITHMS:
            for private in (True, False):
                most = _members(algorithm, steps, members)
                run = _run(algorithm, private=private, steps=steps, members=most, seed=seed + number)
                found.append(named(run, REGRESS, algorithm=algorithm, simulation=number))
    return found


def _members(algorithm: str, steps: int, members: int) -> int:
    """SGLD has no more snapshots than steps after its burn-in."""
    return min(members, steps // 2) if algorithm == "SGLD" else members


def _run(algorithm: str, *, private: bool, steps: int, members: int, seed: int) -> BayesRun:
    langevin = algorithm == "SGLD"
    clip, sigma = (1.0 / (STEP_SIZE**0.5 * SIGMA), 0.0) if langevin else (CLIP, SIGMA)
    config = PrivateConfig(
        dataset=DATASET,
        architecture="fc",
        hidden=(200, 200) if langevin else (200,),
        seed=seed,
        method=_method(algorithm, members),
        budget=Budget(epsilon=1000.0, delta=DELTA),
        sampling=Sampling(sample_rate=1.0, steps=steps, clip_norm=clip, noise_multiplier=sigma),
    )
    return BayesRun(config=config, private=private, members=members)


def _method(algorithm: str, members: int) -> Method:
    decay: dict[str, Any] = {"prior": "normal", "prior_std": 50**-0.5}
    match algorithm:
        case "SGLD":
            steps = {"step_size": STEP_SIZE, "drift": 1.0, "noise": 1.0, "snapshots": members}
            return DPSGLD(convention="parameter-slot", **steps, **decay)
        case "BBP":
            return DPBBP(learning_rate=RATE, prior="normal", prior_std=1.0, initial_std=0.05, test_draws=members)
        case "MC Dropout":
            return DPMCDropout(rate=0.5, learning_rate=RATE, prior="normal", prior_std=10.0, test_draws=members)
        case _:
            return DPSGD(learning_rate=RATE, **decay)


def rows(done: Done) -> Iterator[Row]:
    """A row a run (part "run"); of the first simulation a row a point of the band and of the data as well."""
    result = done.result
    errors = {name: result[name] for name in _ERRORS}
    yield {**done.tags, "part": "run", **errors, **privacy_columns(result["privacy"] or {}), "run": done.job.key}
    if done.tags["simulation"] == 0:
        for part, names in (("band", ("x", "mean", "epistemic", "aleatoric")), ("data", ("x", "y"))):
            for values in zip(*(result[part][name] for name in names), strict=True):
                yield {**done.tags, "part": part, **dict(zip(names, values, strict=True))}


def numbers(table: pl.DataFrame, scale: Scale) -> Iterator[Comparison]:
    """Every number of Table 3."""
    most = max(column(table, "epsilon", {"part": "run", "private": True}), default=None)
    for name, printed in PRINTED.items():
        for private, number in zip((True, False), printed, strict=True):
            where = {"part": "run", "algorithm": name, "private": private}
            values = {error: column(table, error, where) for error in ("train_mse", "test_mse", "noise_mse")}
            middle = {error: statistics.median(found) if found else None for error, found in values.items()}
            why = f"on training points; on new ones {shown(middle['test_mse'])}"
            why += f", where the noise alone makes {shown(middle['noise_mse'])}"
            why += f"; epsilon {epsilon_shown(most)}, the paper's is lost in the text" if private else ""
            what = f"Table 3, {'DP-' if private else ''}{name}: mean square error"
            yield Comparison(what, number, middle["train_mse"], why)


def notes(table: pl.DataFrame, scale: Scale) -> Iterator[str]:
    """Cuts, runs that are missing, sources."""
    planned, steps, members = SIZES[scale]
    papers = SIZES["paper"][2]
    if scale == "smoke":
        yield f"Smoke scale: simulations: {planned}, steps: {steps}."
    elif members != papers:
        most = _members("SGLD", steps, papers)
        yield f"{members} members rather than {papers} (SGLD at most {most} at any scale: it has {steps} steps)."
    for name in ALGORITHMS:
        for private in (True, False):
            there = len(set(column(table, "simulation", {"part": "run", "algorithm": name, "private": private})))
            if 0 < there < planned:
                yield (
                    f"{planned - there} of {planned} runs of {name} {'with' if private else 'without'} privacy left no "
                    f"result (a run that diverges leaves none); medians are of the other {there}."
                )
    yield from _NOTES


def _ratio(table: pl.DataFrame, name: str, one: str, other: str, private: tuple[bool, bool]) -> Ratio | None:
    """A column of one algorithm over that of another, or of itself, simulation by simulation."""
    over, under = (
        {"part": "run", "algorithm": which, "private": flag} for which, flag in zip((one, other), private, strict=True)
    )
    return ratio(table, name, by="simulation", one=over, other=under)


def claims(table: pl.DataFrame, scale: Scale) -> Iterator[Claim]:
    """The sentences about Table 3 and Figure 4."""

    def effect(name: str, algorithm: str) -> Ratio | None:
        """With privacy over without."""
        return _ratio(table, name, algorithm, algorithm, (True, False))

    sgld = effect("test_mse", "SGLD")
    yield Claim(
        '"SGLD is surprisingly accurate in both DP and non-DP scenarios" (its error on new points grows by less than a '
        "tenth)",
        sgld.below(1.1) if sgld else None,
        _listed({"SGLD": sgld}, "ratio"),
    )
    worse = {name: effect("test_mse", name) for name in ("BBP", "MC Dropout")}
    yield Claim(
        '"BBP and MC Dropout suffer notably from DP" (error on new points up by more than a tenth, each)',
        every(one.above(1.1) if one else None for one in worse.values()),
        _listed(worse, "ratio"),
    )
    over = {name: _ratio(table, "test_mse", name, "SGLD", (True, True)) for name in ALGORITHMS[1:]}
    plain = over.pop("SGD")
    yield Claim(
        '"DP-SGLD has much better mean squared error" than DP-BBP and DP-MC Dropout (new points; theirs larger by more '
        "than a tenth, each)",
        every(one.above(1.1) if one else None for one in over.values()),
        _listed(over, "over DP-SGLD's") + f"; not counted: DP-SGD, not Bayesian, {plain or 'missing'}",
    )
    within = {f"{n} {name}": effect(column, n) for n in ("SGLD", "BBP") for name, column in PARTS.items()}
    drawn = {n: {part: _farthest(table, part, (n, True), (n, False)) for part in DRAWN} for n in ("SGLD", "BBP")}
    yield Claim(
        '"the prediction uncertainty of SGLD and BBP are barely affected by DP" (both parts, deviations within a '
        "factor of 4/3: over the data, and everywhere in Figure 4)",
        every([*(one.within(4 / 3) if one else None for one in within.values()), _near(drawn, 4 / 3)]),
        f"{_listed(within, 'DP over non-DP')}; {_drawn(drawn)}",
    )
    wider = {name: effect(column, "MC Dropout") for name, column in PARTS.items() if "epistemic" in name}
    yield Claim(
        '"for MC Dropout, DP leads to substantially greater posterior uncertainty" (epistemic deviation up by a third '
        "or more, over the data and beyond)",
        every(one.above(4 / 3) if one else None for one in wider.values()),
        _listed(wider, "MC Dropout, DP over non-DP"),
    )
    pairs = list(combinations(BAYESIAN, 2))
    alike = {
        f"{one} over {two}, {name}": _ratio(table, column, one, two, (False, False))
        for one, two in pairs
        for name, column in PARTS.items()
    }
    drawn = {f"{a} over {b}": {p: _farthest(table, p, (a, False), (b, False)) for p in DRAWN} for a, b in pairs}
    yield Claim(
        '"all three non-DP BNNs ... characterize similar prediction uncertainty" (both parts, deviations within a '
        "factor of 1.5: over the data, and everywhere in Figure 4)",
        every([*(one.within(1.5) if one else None for one in alike.values()), _near(drawn, 1.5)]),
        f"{_listed(alike, 'ratio')}; {_drawn(drawn)}",
    )


def points(table: pl.DataFrame, scale: Scale, claims: Sequence[Claim]) -> Iterator[Point]:
    """Which of the three is accurate under privacy, and how far their uncertainties are apart."""
    over = [_ratio(table, "test_mse", name, "SGLD", (True, True)) for name in BAYESIAN[1:]]
    bbp, dropout = (one and math.exp(one.log) for one in over)
    said = (
        "DP-SGLD's squared error on new points is the least of three private Bayesian networks: DP-BBP's is {bbp:.2f} "
        "times, DP-MC Dropout's {dropout:.2f} times as large"
    )
    yield point(claims, "much better mean squared", say(said, bbp=bbp, dropout=dropout))
    far = _farthest(table, "aleatoric", ("SGLD", False), ("BBP", False))
    said = (
        "Without privacy SGLD, BBP and MC Dropout predict similar uncertainty: at x = {x:g} SGLD's aleatoric deviation "
        "is {one:.2g}, BBP's {other:.2g}"
    )
    yield point(claims, "characterize similar", "" if far is None else say(said, **far._asdict()))


class Place(NamedTuple):
    """Where two bands of Figure 4 differ most."""

    x: float
    one: float
    other: float

    @property
    def factor(self) -> float:
        """How many times the larger deviation is the smaller."""
        return max(self.one, self.other) / min(self.one, self.other)


def _farthest(table: pl.DataFrame, part: str, one: tuple[str, bool], other: tuple[str, bool]) -> Place | None:
    """Where the deviations of two drawn bands differ most over the figure's range; None where either is not drawn."""
    bands = [
        dict(zip(column(table, "x", where), column(table, part, where), strict=True))
        for where in ({"part": "band", "algorithm": name, "private": private} for name, private in (one, other))
    ]
    places = (Place(x, *(math.sqrt(band[x]) for band in bands)) for x in bands[0] if x in bands[1])
    return max((place for place in places if min(place[1:]) > 0.0), key=lambda place: place.factor, default=None)


def _near(drawn: Mapping[str, Mapping[str, Place | None]], factor: float) -> bool | None:
    """Whether all drawn bands lie within a factor of each other; the figure is one simulation, ours as the paper's."""
    return every(one.factor < factor if one else None for parts in drawn.values() for one in parts.values())


def _drawn(drawn: Mapping[str, Mapping[str, Place | None]]) -> str:
    shown = (
        f"{name} {part} {f'{one.one:.3g} against {one.other:.3g} at x = {one.x:g}' if one else 'missing'}"
        for name, parts in drawn.items()
        for part, one in parts.items()
    )
    return f"farthest apart in Figure 4 (one simulation): {'; '.join(shown)}"


def _listed(values: Mapping[str, Ratio | None], what: str) -> str:
    return f"{what}: " + "; ".join(f"{name} {value or 'missing'}" for name, value in values.items())


REGRESSION = Study(
    name="dp-bnn-regression",
    title="Heteroscedastic regression: error and uncertainty under privacy",
    paper="Zhang, Bu et al. (2021), Table 3 and Figure 4",
    jobs=jobs,
    table=tabled(rows),
    draw=drawing(figure=lambda table: figures.bands(table, BAYESIAN)),
    judge=judging(
        numbers=numbers,
        claims=claims,
        notes=notes,
        points=points,
        settled_by=by_seeds(jobs, "four times the simulations, which halve the noise of ratios"),
    ),
)
STUDIES = (REGRESSION,)
