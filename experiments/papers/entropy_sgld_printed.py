"""Entropy-SGLD and SGLD at the printed settings, as far as their path of Langevin time goes.

The outer base step of Dziugaite and Roy (2018) is 0.006 t^-0.6. How far a chain has come is the sum of its steps, its
Langevin time; a step m times as long reaches the same time in m^-2.5 of the steps. The same path is run at several m:
where two agree, the path decides and not its number of steps.
"""

import math
from collections.abc import Iterator

import polars as pl

from experiments.claims import judging
from experiments.papers.chains import COLUMNS, QUICK, SMALL, Size, job, mnist, records
from experiments.study import Done, Row, Study, columns, drawing, tabled
from pacdp import Architecture
from pacdp.cli.recipes import Scale
from pacdp.cli.sweep.jobs import Job

STEP = {"entropy-sgld": 0.006, "sgld": 0.003}
"""The outer base step, and SGLD's, of which the paper says no more than that it has the same base."""
DECAY = 0.6
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
    plan = [("entropy-sgld", FC100, 1.0), ("entropy-sgld", CONV, 4.0), ("entropy-sgld", CONV, 8.0)]
    plan += [("entropy-sgld", Architecture(name="conv", norm="batch"), 8.0), ("entropy-sgld", FC100, 4.0)]
    plan += [("entropy-sgld", FC100, 8.0), ("sgld", FC100, 8.0), ("sgld", FC100, 16.0)]
    if scale == "smoke":
        plan = [("entropy-sgld", SMALL, 4.0), ("entropy-sgld", SMALL, 8.0), ("sgld", SMALL, 8.0)]
    if scale == "paper":
        plan = [("entropy-sgld", Architecture(name="conv", norm="batch"), 1.0), ("entropy-sgld", CONV, 1.0)]
        plan += [("sgld", CONV, 1.0)]
    found = []
    for algorithm, network, times in plan:
        size = Size("digits2", 400.0, 2, QUICK) if scale == "smoke" else Size(whole.dataset, whole.epochs, 10, QUICK)
        each, batch = (INNER if algorithm == "entropy-sgld" else 1), (32 if scale == "smoke" else BATCH)
        steps = shortened(round(size.epochs * size.n / (each * batch)), times)
        size = Size(size.dataset, steps * each * batch / size.n, size.records, QUICK)
        made = job(algorithm, size, labels="true", scale="paper", network=network, seed=seed,
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


PRINTED = Study(
    name="entropy-sgld-printed",
    title="Entropy-SGLD and SGLD over the printed path of Langevin time",
    paper="Dziugaite and Roy (2018), Section 5.2 and Appendix C",
    jobs=jobs,
    table=tabled(rows, PRINTED_COLUMNS),
    draw=drawing(),
    judge=judging(claims=lambda table, scale: (), notes=lambda table, scale: ()),
)
STUDIES = (PRINTED,)
