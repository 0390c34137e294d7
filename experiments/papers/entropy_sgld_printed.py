"""Entropy-SGLD and SGLD at the printed settings, as far as their path of Langevin time goes.

The outer base step of Dziugaite and Roy (2018) is 0.006 t^-0.6. How far a chain has come is the sum of its steps, its
Langevin time; a step m times as long reaches the same time in m^-2.5 of the steps. The same path is run at several m:
where two agree, the path decides and not its number of steps.
"""

import math
from collections.abc import Iterator

import polars as pl

from experiments.claims import Claim, Comparison, Measured, judging
from experiments.figures import temperature as figures
from experiments.papers.chains import BRIEF, COLUMNS, QUICK, SMALL, Size, final, job, mnist, records
from experiments.papers.temperature_verdict import ABOUT, SAME
from experiments.study import Done, Row, Study, columns, drawing, tabled
from pacdp import Architecture
from pacdp.cli.recipes import Scale
from pacdp.cli.sweep.jobs import Job

STEP = {"entropy-sgld": 0.006, "sgld": 0.003}
"""The outer base step, and SGLD's, of which the paper says no more than that it has the same base."""
DECAY = 0.6
SEEDS = 24
"""Of SGLD, whose runs take seconds; four had left open whether longer steps end where shorter ones do."""
BATCH, INNER = 128, 20
FC100, CONV = Architecture(hidden=(100,)), Architecture(name="conv")
FIELD = {"entropy-sgld": "outer_step_size", "sgld": "step_size"}


def shortened(steps: int, times: float) -> int:
    """The number of steps, each ``times`` as long, whose Langevin time is that of ``steps`` printed ones."""
    whole = math.fsum(t**-DECAY for t in range(1, steps + 1))
    gone, count = 0.0, 0
    while gone < whole:
        count += 1
        gone += times * count**-DECAY
    return count


def jobs(scale: Scale, seed: int) -> list[Job]:
    """Entropy-SGLD and SGLD over the printed path, at several step lengths; those that take long first."""
    whole = mnist("mnist2")
    plan = [("entropy-sgld", CONV, 4.0), ("entropy-sgld", CONV, 8.0), ("entropy-sgld", FC100, 2.0)]
    plan += [("entropy-sgld", Architecture(name="conv", norm="batch"), 8.0), ("entropy-sgld", FC100, 4.0)]
    plan += [("entropy-sgld", FC100, 8.0), ("sgld", FC100, 8.0), ("sgld", FC100, 16.0)]
    if scale == "smoke":
        plan = [("entropy-sgld", SMALL, 4.0), ("entropy-sgld", SMALL, 8.0), ("sgld", SMALL, 8.0)]
    if scale == "paper":
        plan = [("entropy-sgld", Architecture(name="conv", norm="batch"), 1.0), ("entropy-sgld", CONV, 1.0)]
        plan += [("sgld", CONV, 1.0)]
    found = []
    for algorithm, network, times in plan:
        size = Size("digits2", 200.0, 2, BRIEF) if scale == "smoke" else Size(whole.dataset, whole.epochs, 10, QUICK)
        each, batch = (INNER if algorithm == "entropy-sgld" else 1), (32 if scale == "smoke" else BATCH)
        steps = shortened(round(size.epochs * size.n / (each * batch)), times)
        size = Size(size.dataset, steps * each * batch / size.n, size.records, size.track)
        for k in range(SEEDS if algorithm == "sgld" and scale == "cpu" else 1):
            made = job(algorithm, size, labels="true", scale="paper", network=network, seed=seed + k,
                       **{FIELD[algorithm]: times * STEP[algorithm]})  # fmt: skip
            found.append(Job(key=made.key, kind=made.kind, config=made.config, tags={**made.tags, "norm": network.norm,
                             "times": times}))  # fmt: skip
    return found


PRINTED_COLUMNS = columns((pl.String, "norm"), (pl.Float64, "times langevin_time")) | COLUMNS


def rows(done: Done) -> Iterator[Row]:
    """A row a record, with the Langevin time that it stands at in printed base steps."""
    for row in records(done):
        name = FIELD["entropy-sgld" if "Entropy" in str(row["algorithm"]) else "sgld"]
        step = getattr(done.job.config.sampler, name)
        yield {**row, "langevin_time": step * math.fsum(t**-DECAY for t in range(1, row["step"] + 1))}


def _ends(table: pl.DataFrame) -> list[Row]:
    """The last record of each run."""
    return final(table).to_dicts() if table.height else []


def _name(row: Row) -> str:
    norm = {"none": "", "batch": " with BatchNorm", "group": " with GroupNorm"}[row["norm"]]
    return f"{row['algorithm']}, {row['network']}{norm}"


def numbers(table: pl.DataFrame, scale: Scale) -> Iterator[Comparison]:
    """The end of each path beside Section 5.2."""
    del scale
    runs = dict[tuple[str, float], list[Row]]()
    for row in _ends(table):
        runs.setdefault((_name(row), row["times"]), []).append(row)
    for (name, times), own in runs.items():
        why = f"steps {times:g} times as long, Langevin time {own[0]['langevin_time']:.3g} of base steps"
        entropy = own[0]["algorithm"] == "Entropy-SGLD"
        shown = {"test error of the mean classifier": ("test_error", "approximately 2%" if entropy else None, why)}
        if entropy:
            shown["test error of the Gibbs classifier"] = ("gibbs_test_error", "approximately 2%", why)
            what = "PAC-Bayes bound of the Gibbs classifier"
            shown[what] = ("dp_pac_bayes_2018", "roughly 3%", f"{why}; optimistic")
        for what, (column, paper, why_not) in shown.items():
            ours = math.fsum(row[column] for row in own) / len(own)
            yield Comparison(f"{name}, {own[0]['epochs']:.0f} epochs: {what}", paper, ours, why_not)


def claims(table: pl.DataFrame, scale: Scale) -> Iterator[Claim]:
    """Whether the printed settings end where the paper says, and whether it is their path that decides."""
    if scale == "smoke":
        return
    ends = _ends(table)
    for name in dict.fromkeys(_name(row) for row in ends):
        own = [row for row in ends if _name(row) == name]
        entropy = own[0]["algorithm"] == "Entropy-SGLD"
        found = _by_length(own, "gibbs_test_error" if entropy else "test_error")
        times, end = min(found.items())
        epochs = next(row["epochs"] for row in own if row["times"] == times)
        if entropy:
            sentence = f"{name}: over the path of the printed steps the Gibbs classifier ends at about 2% (below 0.05)."
            yield Claim(sentence, end.below(ABOUT), f"{end} after {epochs:.0f} epochs, steps {times:g} times as long")
        if len(found) > 1:
            least, most = (choose(found.values(), key=lambda one: one.mean) for choose in (min, max))
            sentence = f"{name}: the path decides, not its number of steps: longer steps end within {SAME:g}."
            told = ", ".join(f"{times:g} times: {one}" for times, one in found.items())
            yield Claim(sentence, most.minus(least).below(SAME), told)


def _by_length(ends: list[Row], error: str) -> dict[float, Measured]:
    """The error where paths end, by how long their steps were, with the noise of seeds and of test examples."""
    found = dict[float, Measured]()
    for times in sorted({row["times"] for row in ends}):
        own = [row for row in ends if row["times"] == times]
        one = Measured.of([row[error] for row in own])
        if one is not None:
            found[times] = one.counted(own[0]["n_test"])
    return found


def notes(table: pl.DataFrame, scale: Scale) -> Iterator[str]:
    """What the path is, and what is not as printed."""
    del table, scale
    size = mnist("mnist2")
    steps = round(size.epochs * size.n / (INNER * BATCH))
    whole = STEP["entropy-sgld"] * math.fsum(t**-DECAY for t in range(1, steps + 1))
    yield (
        f"The printed outer base step of {STEP['entropy-sgld']:g} with its decay of t^-{DECAY:g} adds up, over "
        f"{size.epochs:g} epochs, to a weight of {whole / 2:.2f} on the step from the weights to the local mean, which "
        "is that of half an outer step of length 2. Weights that no gradient reaches keep their first values, and the "
        "chain has not come near the law whose privacy its bounds use (temperature-map shows that law's error)."
    )
    yield "Momentum, which the code base has and the text does not name, is left out here; temperature-map has it."
    yield f"The noise of the longer steps is that of their own Langevin time. One seed; of SGLD at scale cpu {SEEDS}."


PRINTED = Study(
    name="entropy-sgld-printed",
    title="Entropy-SGLD and SGLD over the printed path of Langevin time",
    paper="Dziugaite and Roy (2018), Section 5.2 and Appendix C",
    jobs=jobs,
    table=tabled(rows, PRINTED_COLUMNS),
    draw=drawing(figure=figures.printed),
    judge=judging(numbers=numbers, claims=claims, notes=notes),
)
STUDIES = (PRINTED,)
