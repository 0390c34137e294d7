"""Where PAC-Bayes pays: certificates by route from 500 to 5,000 labelled records, on the same fixed features."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from experiments import job_costs
from experiments.claims import Claim, Measured, Point, Seen, by_seeds, every, judging, least_risk, point
from experiments.figures import small_samples as figures
from experiments.papers.runs import small_samples
from experiments.papers.runs.small_samples import COMPRESSED, COUNT, HALF, NOTHING, PRIVATE, ROUTES, SmallConfig
from experiments.study import Done, Row, Study, columns, drawing, tabled
from experiments.tables import by_key, part
from pacdp.cli.config import Runtime
from pacdp.cli.figures.numbers import up
from pacdp.cli.reading import certificates_of
from pacdp.cli.recipes import Scale
from pacdp.cli.sweep.jobs import Job, single

_PATIENTS = (COUNT, NOTHING, HALF)
_COLUMNS = columns(
    (pl.String, "dataset unit route certificate status"),
    (pl.Int64, "records seed n_test"),
    (pl.Float64, "value test_error empirical_risk kl_nats failure_prob seconds"),
)
NOTES = (
    "One set of fixed features a data set, one support vector machine for the count and for compression, one Gaussian "
    "head for PAC-Bayes. Test errors are those on records of the same training set that were not drawn.",
    "X-rays: one film of each patient, in three classes, so that films are independent records. Malaria: all cells of "
    "a patient; patients are counted, and the risk is that on a new patient's cells. There compression bounds another "
    "risk, and the private prior hides single images, so neither is run.",
    "The settings were fixed on a few trial draws of 500 to 2,000 records; the private prior's were looked at on MNIST "
    "at n = 2,000, and nothing pays for that. The prior from half has a noise four times smaller than its half's own "
    "posterior.",
)


def _of(config: SmallConfig, runtime: Runtime, folder: Path) -> Row:
    return small_samples.conduct(config, root=runtime.data_root)


SMALL = single(_of)
_LESS = {"steps": 5, "rounds": 2, "iterations": 2, "passes": 2}
_PROBLEMS: dict[Scale, list[tuple[dict[str, Any], tuple[int, ...], int]]] = {
    "smoke": [({"dataset": "digits", "features": "coarse-gradients", **_LESS}, (60,), 2)],
    "cpu": [
        ({"dataset": "mnist", "features": "oriented-gradients"}, (500, 1000, 2000, 5000), 3),
        ({"dataset": "xrays", "features": "film-gradients", "one_each": True}, (500, 1000, 2000), 3),
        ({"dataset": "malaria", "features": "spots", "routes": _PATIENTS, "passes": 10}, (40, 120), 3),
    ],
}  # fmt: skip
_PROBLEMS["paper"] = [(how, sizes, 10) for how, sizes, _ in _PROBLEMS["cpu"]]


def jobs(scale: Scale, seed: int = 0) -> list[Job]:
    """Every data set, number of records and seed; a job carries out all routes."""
    return [
        Job(
            key=f"small-{how['dataset']}-{n}-{seed + k}", kind=SMALL, config=SmallConfig(n=n, seed=seed + k, **how),
            tags={"dataset": how["dataset"], "records": n, "seed": seed + k},
        )
        for how, sizes, seeds in _PROBLEMS[scale] for n in sizes for k in range(seeds)
    ]  # fmt: skip


def rows(done: Done) -> Iterator[Row]:
    """A row a route: its rigorous certificate of the 0-1 risk, of the randomised head where there is one."""
    report = done.result
    for one in (report, *report["details"]["references"].values()):
        details = one["details"]
        made = next((each for each in certificates_of(one) if _is_risk(each.measures) and _is_own(each)), None)
        costs = {} if made is None else {each.name: each for each in made.costs}
        yield {
            **done.tags, "unit": one["unit"], "route": details["route"],
            "certificate": None if made is None else made.name,
            "status": "nothing certified" if made is None else made.status,
            "value": 1.0 if made is None else made.value,
            "empirical_risk": None if made is None else made.terms.get("empirical_risk"),
            "kl_nats": costs["kl"].nats if "kl" in costs else None, "failure_prob": one["failure_prob"],
            "test_error": details["test_error"], "n_test": details["n_test"],
            "seconds": details["cpu_seconds"]["route"],
        }  # fmt: skip


def _least(row: dict[str, Any]) -> float:
    """The least risk that the test error allows; of people, for whom nothing is known of its noise, that error."""
    error = float(row["test_error"])
    return least_risk(error, row["n_test"]) if row["unit"] == "example" else error


def _is_risk(measures: str) -> bool:
    return measures.startswith("0-1 risk")


def _is_own(made: Any) -> bool:
    return not made.name.startswith("test_set") and made.of not in ("mean weights", "prior mean")


def _values(table: pl.DataFrame, dataset: str, n: int, route: str) -> list[float]:
    return part(table, dataset=dataset, records=n, route=route).sort("seed")["value"].to_list()


def _less(table: pl.DataFrame, dataset: str, one: str, other: str) -> Seen:
    """Whether one route certifies less than another at every n, in the mean over seeds, beyond two standard errors."""
    found, told, gaps = list[bool | None](), list[str](), list[Measured]()
    for n in sorted(part(table, dataset=dataset)["records"].unique().to_list()):
        ours, theirs = (
            by_key(table, "value", by="seed", dataset=dataset, records=n, route=route) for route in (one, other)
        )
        gap = Measured.between(theirs, ours)
        if gap is not None:
            found.append(gap.above(0.0))
            gaps.append(gap)
            both = sorted(ours.keys() & theirs.keys())
            means = [up(sum(values[seed] for seed in both) / len(both)) for values in (ours, theirs)]
            told.append(f"n = {n}: {means[0]} against {means[1]}")
    return Seen(every(found), "; ".join(told), by_seeds(*gaps))


def claims(table: pl.DataFrame, scale: Scale) -> Iterator[Claim]:
    """Which route wins where, and that no certificate lies below its test error."""
    able = table.filter(pl.col("value") < 1.0)
    low = [
        row for row in able.iter_rows(named=True) if row["value"] < _least(row)
    ]  # fmt: skip
    yield Claim(
        "Every certificate is at least its predictor's test error.", not low if able.height else None,
        f"{able.height - len(low)} of {able.height}",
    )  # fmt: skip
    for dataset in table["dataset"].unique(maintain_order=True):
        for one, other in (
            (COUNT, NOTHING), (COUNT, HALF), (HALF, NOTHING), (NOTHING, PRIVATE), (COUNT, COMPRESSED),
            (NOTHING, COMPRESSED),
        ):  # fmt: skip
            seen = _less(table, dataset, one, other)
            if seen.evidence:
                yield Claim(f"{dataset}: {one} certifies less than {other}, at every n.", *seen)


def points(table: pl.DataFrame, scale: Scale, claims: Sequence[Claim]) -> Iterator[Point]:
    """Which route is the least, by data set and n."""
    for dataset in table["dataset"].unique(maintain_order=True):
        sizes = sorted(part(table, dataset=dataset)["records"].unique().to_list())
        told = list[str]()
        for n in sizes:
            means = {
                route: sum(values) / len(values) for route in ROUTES if (values := _values(table, dataset, n, route))
            }
            (first, least), (second, next_) = sorted(means.items(), key=lambda each: each[1])[:2]
            told.append(f"{n}: {first} {up(least)}, then {second} {up(next_)}")
        yield point(
            claims,
            f"{dataset}: {COUNT} certifies less",
            f"Least certificate, {dataset}, by records (mean over draws of them): {'; '.join(told)}",
        )


STUDY = Study(
    name="small-samples",
    title="Certificates by route from few labelled records",
    paper="beside Dziugaite and Roy 2018; Pérez-Ortiz et al. 2021; Campi and Garatti 2023",
    jobs=jobs,
    table=tabled(rows, _COLUMNS),
    draw=drawing(figure=figures.draw),
    judge=judging(claims=claims, notes=lambda table, scale: NOTES, points=points, settled_by=job_costs.by_seeds(jobs)),
)
