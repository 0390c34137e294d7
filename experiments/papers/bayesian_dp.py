"""Zhang, Bu, Chen and Long (2021), Differentially Private Bayesian Neural Networks on Accuracy, Privacy and
Reliability: Table 1, test accuracy and time per epoch on MNIST.

Table 2 is :mod:`experiments.papers.bayesian_dp_calibration`. Figures 1, 2, 3 and 7 are
:mod:`experiments.papers.bayesian_dp_figures`, Table 3 and Figure 4 :mod:`experiments.papers.bayesian_dp_regression`.
"""

from collections.abc import Iterator, Mapping, Sequence

import polars as pl

from experiments.claims import (
    MISSING,
    Claim,
    Comparison,
    Measured,
    Point,
    below,
    count_noise,
    decide,
    every,
    judging,
    point,
    relevant,
    say,
)
from experiments.costs import TWO_CORES
from experiments.figures import bayesian_dp as figures
from experiments.job_costs import by_seeds, cost
from experiments.papers.bayesian_dp_plans import (
    MLP,
    SETTINGS,
    cut,
    differing,
    image_jobs,
    image_rows,
    numbers_of,
)
from experiments.papers.runs.bayesian import CNN
from experiments.study import Study, drawing, tabled
from experiments.tables import by_key, column, epsilon_shown, mean, measured, shown
from pacdp.cli.recipes import Scale
from pacdp.cli.sweep.jobs import Job

CELLS = (
    *(("SGLD", "normal"), ("SGLD", "laplace"), ("BBP", "normal"), ("BBP", "laplace"), ("MC Dropout", "normal")),
    ("SGD", "none"),
)
TWIN = "SGD as SGLD"
LEAD = 0.01
"""The least lead in accuracy that counts: differences of two seeds' runs are of this size by chance."""
DROP, MOST_DROP = "does not deteriorate", 0.06
TABLE_1_PRINTED = {
    ("SGLD", "normal", "MLP"): (0.90, 0.95),
    ("SGLD", "normal", "CNN"): (0.95, 0.96),
    ("SGLD", "laplace", "MLP"): (0.89, 0.90),
    ("SGLD", "laplace", "CNN"): (0.89, 0.89),
    ("BBP", "normal", "MLP"): (0.80, 0.97),
    ("BBP", "laplace", "MLP"): (0.81, 0.98),
    ("MC Dropout", "normal", "MLP"): (0.78, 0.98),
    ("MC Dropout", "normal", "CNN"): (0.77, 0.97),
    ("SGD", "none", "MLP"): (0.77, 0.97),
    ("SGD", "none", "CNN"): (0.95, 0.99),
}
"""Accuracy with and without privacy, as printed."""
PAPER_SECONDS = {
    **{("SGLD", "normal"): 10.0, ("SGLD", "laplace"): 10.0, ("BBP", "normal"): 480.0, ("BBP", "laplace"): 480.0},
    **{("MC Dropout", "normal"): 9.0, ("SGD", "none"): 10.0},
}
"""Per epoch with privacy, on a P100."""


def mean_shown(found: Measured | None) -> str:
    """For sentences: the mean, or that there is none."""
    return shown(found and found.mean)


def _listed(found: Mapping[str, Measured | None]) -> str:
    return ", ".join(f"{name} {mean_shown(one)}" for name, one in found.items())


def jobs_1(scale: Scale, seed: int) -> list[Job]:
    """BBP on the CNN is left out, as in the paper; DP-SGD at DP-SGLD's numbers (Theorem 1) is added."""
    cells = [*CELLS, (TWIN, "normal")]
    wide = [(algorithm, prior, MLP) for algorithm, prior in cells]
    networks = wide + [(one, prior, CNN) for one, prior in cells if one != "BBP"]
    return image_jobs(networks, scale, seed, seeds=SETTINGS[scale].seeds)


def numbers_1(table: pl.DataFrame, scale: Scale) -> Iterator[Comparison]:
    """Every number of Table 1."""
    for (algorithm, prior, network), printed in TABLE_1_PRINTED.items():
        for private, number in zip((True, False), printed, strict=True):
            where = {"algorithm": algorithm, "prior": prior, "network": network, "private": private}
            why = differing(scale, network=MLP if network == "MLP" else CNN, several=algorithm != "SGD")
            if private:
                most = max(column(table, "epsilon", where), default=None)
                why = f"epsilon {epsilon_shown(most)} (ours, sound); the text prints none"
            what = f"Table 1, MNIST, {network}, {'DP-' if private else ''}{algorithm}, prior {prior}: accuracy"
            yield Comparison(what, number, mean(table, "accuracy", **where), why)
    for (algorithm, prior), seconds in PAPER_SECONDS.items():
        ours = mean(table, "seconds_per_epoch", algorithm=algorithm, prior=prior, private=True, network="MLP")
        why = "another machine; per-example gradients of Bayesian layers are not formed one by one here; both on one "
        why += "machine would tell which counts"
        yield Comparison(f"Table 1, DP-{algorithm}, MLP, prior {prior}: seconds per epoch", seconds, ours, why)


def _seeds(table: pl.DataFrame, algorithm: str, prior: str, network: str) -> dict[int, float]:
    """Private accuracies by seed."""
    return by_key(table, "accuracy", by="seed", algorithm=algorithm, prior=prior, network=network, private=True)


def _accuracy(table: pl.DataFrame, algorithm: str, prior: str, network: str, *, private: bool) -> Measured | None:
    where = {"algorithm": algorithm, "prior": prior, "network": network, "private": private}
    found, n = measured(table, "accuracy", **where), mean(table, "n", **where)
    return None if found is None or n is None else found.counted(n)


def _drop(table: pl.DataFrame, algorithm: str, prior: str) -> Measured | None:
    plain, private = (_accuracy(table, algorithm, prior, "MLP", private=private) for private in (False, True))
    return None if plain is None or private is None else plain.minus(private)


def _similar(table: pl.DataFrame) -> Claim:
    """Whether all methods without privacy come near each other in every seed; one that fails in one seed denies it."""
    names = ("algorithm", "prior", "network")
    cells = {cell: by_key(table, "accuracy", by="seed", private=False, **dict(zip(names, cell, strict=True)))
             for cell in TABLE_1_PRINTED}  # fmt: skip
    seeds = set(next(iter(cells.values()))).intersection(*cells.values())
    size, spreads = mean(table, "n", private=False), list[tuple[float, float, str]]()
    for seed in sorted(seeds):
        ranked = sorted(cells, key=lambda cell, seed=seed: cells[cell][seed])
        low, high = ranked[0], ranked[-1]
        ends = [cells[cell][seed] for cell in (low, high)]
        noise = count_noise(*((value, size or 1.0) for value in ends))
        spreads.append((ends[1] - ends[0], noise, f"{ends[0]:.3f} ({' '.join(low)}) to {ends[1]:.3f}"))
    sentence = (
        '"all of non-DP methods have similar high test accuracy" (within 0.11: printed 0.10, rounded; in every seed)'
    )
    if not spreads:
        return Claim(sentence, None, MISSING)
    holds = every(below(spread, 0.11, noise) for spread, noise, _ in spreads)
    return Claim(sentence, holds, f"widest in {len(spreads)} seeds: {max(spreads)[2]}, narrowest {min(spreads)[2]}")


def claims_1(table: pl.DataFrame, scale: Scale) -> Iterator[Claim]:
    """The sentences about Table 1."""
    for network in ("MLP", "CNN"):
        cells = [cell for cell in CELLS if cell[0] != "SGLD" and (*cell, network) in TABLE_1_PRINTED]
        ours = _seeds(table, "SGLD", "normal", network)
        leads = {
            f"DP-{name} ({prior})": Measured.between(ours, _seeds(table, name, prior, network))
            for name, prior in [*cells, (TWIN, "normal")]
        }
        seen = [relevant(f"over {name}", lead, LEAD) for name, lead in leads.items()]
        yield Claim(
            f'{network}: "DP-SGLD outperforms other Bayesian and non-Bayesian methods under almost identical privacy '
            f"budgets\" (more accurate than each by {LEAD:g} or more, prior normal; DP-SGD at DP-SGLD's own numbers is "
            "one of them)",
            every(one.holds for one in seen),
            f"DP-SGLD {mean_shown(Measured.of(list(ours.values())))}; lead {'; '.join(one.evidence for one in seen)}",
        )
    yield _similar(table)
    drop = _drop(table, "SGLD", "normal")
    yield Claim(
        f'MLP: "DP-SGLD ... {DROP} comparing to its non-DP version" (drop below {MOST_DROP:g}: printed 0.05, rounded)',
        None if drop is None else drop.below(MOST_DROP),
        f"drop {mean_shown(drop)}, two standard errors {shown(drop and drop.noise)}, most of which is the number of "
        "test images",
    )
    drops = {f"{a} ({p})": _drop(table, a, p) for a, p in CELLS if a != "SGLD"}
    yield Claim(
        'MLP: "other methods experience an accuracy drop ≈ 20%" (at least 0.1 each)',
        every(None if one is None else one.above(0.1) for one in drops.values()),
        f"drops: {_listed(drops)}",
    )
    where = {"private": True, "network": "MLP"}
    slow, quick = (mean(table, "seconds_per_epoch", algorithm=name, **where) for name in ("BBP", "SGLD"))
    ratio = None if slow is None or not quick else slow / quick
    yield Claim(
        '"DP-SGLD requires only 10 sec/epoch, while DP-BBP takes 480 sec/epoch" (a factor of 10 or more)',
        None if ratio is None else ratio > 10.0,
        f"DP-BBP {shown(slow, 2)} s, DP-SGLD {shown(quick, 2)} s: factor {shown(ratio, 1)}",
    )
    one = mean(table, "last_accuracy", algorithm="SGLD", prior="normal", **where)
    other = mean(table, "accuracy", algorithm=TWIN, **where)
    yield Claim(
        '"every DP-SGLD is equivalent to some DP-SGD" (Theorem 1: same noise, last weights within 0.005 in accuracy)',
        _within(one, other, mean(table, "n", algorithm="SGLD", private=True)),
        f"DP-SGLD's last weights {shown(one, 4)}, DP-SGD at lr n η {shown(other, 4)}",
    )


def _within(one: float | None, other: float | None, n: float | None) -> bool | None:
    """Whether they differ by less than 0.005; None where only the noise of two counts lies beyond."""
    if one is None or other is None:
        return None
    gap, noise = abs(one - other), 0.0 if n is None else count_noise((one, n), (one, n))
    return True if gap < 0.005 else None if gap <= 0.005 + noise else False


def points_1(table: pl.DataFrame, scale: Scale, claims: Sequence[Claim]) -> Iterator[Point]:
    """What privacy costs each method, and whether DP-SGLD is the best."""
    where = {"network": "MLP", "private": True}
    ours, other = (mean(table, "accuracy", algorithm=one, prior=p, **where) for one, p in (CELLS[0], CELLS[-1]))
    said = "DP-SGLD is more accurate than any other private network: {ours:.3f} on the MLP, DP-SGD {other:.3f}"
    yield point(claims, 'MLP: "DP-SGLD outperforms', say(said, ours=ours, other=other))
    drops = [one.mean for one in (_drop(table, *cell) for cell in CELLS if cell[0] != "SGLD") if one]
    said = "BBP, MC Dropout and SGD lose about 20 % in accuracy to privacy: ours lose {least:.0%} to {most:.0%}"
    ends = {"least": min(drops, default=None), "most": max(drops, default=None)}
    yield point(claims, "accuracy drop", say(said, **ends))
    slow, quick = (mean(table, "seconds_per_epoch", algorithm=one, **where) for one in ("BBP", "SGLD"))
    said, printed = "DP-BBP takes {printed:.0f} times as long as DP-SGLD: ours {factor:.1f} times", PAPER_SECONDS
    factors = {"printed": printed["BBP", "normal"] / printed["SGLD", "normal"]}
    factors |= {"factor": decide(lambda slow, quick: slow / quick, slow, quick)}
    yield point(claims, "480 sec/epoch", say(said, **factors))


def notes_1(table: pl.DataFrame, scale: Scale) -> Iterator[str]:
    """Cuts, sources, epsilons."""
    yield from cut(scale, seeds=SETTINGS[scale].seeds)
    yield numbers_of(table)


def settled_1(table: pl.DataFrame, scale: Scale, claim: Claim) -> str:
    """What would settle an open sentence about Table 1: seeds, unless the noise of the test images leaves it open by
    itself; then the runs at the paper's widths and epochs, which may move the numbers."""
    drop = _drop(table, "SGLD", "normal") if DROP in claim.sentence else None
    if drop is None:
        return by_seeds(jobs_1)(table, scale, claim)
    images, off = mean(table, "n", algorithm="SGLD", prior="normal", network="MLP"), abs(drop.mean - MOST_DROP)
    plain, private = (mean(table, "accuracy", algorithm="SGLD", prior="normal", network="MLP", private=one)
                      for one in (False, True))  # fmt: skip
    counts = decide(lambda n, one, other: count_noise((one, n), (other, n)), images, plain, private)
    if images is None or counts is None or off > counts:
        return by_seeds(jobs_1)(table, scale, claim)
    runs = [job for job in jobs_1("paper", 0) if job.tags["algorithm"] == "SGLD" and job.tags["network"] == "MLP"]
    return (
        f"no number of seeds, for two standard errors of {images:,.0f} test images alone are {counts:.4f} and the drop "
        f"is {off:.4f} from the limit; the paper's widths and epochs may move the drop itself: "
        f"{cost(runs, TWO_CORES)}"
    )


_PAPER = "Zhang, Bu et al. (2021)"
TABLE_1 = Study(
    name="dp-bnn-accuracy",
    title="Accuracy and time of private Bayesian networks",
    paper=f"{_PAPER}, Table 1",
    jobs=jobs_1,
    table=tabled(image_rows),
    draw=drawing(figure=figures.accuracies),
    judge=judging(numbers=numbers_1, claims=claims_1, notes=notes_1, points=points_1, settled_by=settled_1),
)
STUDIES = (TABLE_1,)
