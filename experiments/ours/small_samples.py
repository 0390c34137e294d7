"""Where PAC-Bayes pays: certificates by route from 40 to 5,000 labelled records, on the same fixed features.

One set of fixed features a data set, one support vector machine for the count and for compression, one Gaussian head
for PAC-Bayes. Test errors are those on records of the same training set that were not drawn. The settings were fixed on
a few trial draws of 500 to 2,000 records; the private prior's were looked at on MNIST at n = 2,000, and nothing pays
for that. The prior from half has a noise four times smaller than its half's own posterior.

Beside them Gibbs laws that are exact, with a trajectory, a count and compression, from one draw of as many records:
on the gradients of MNIST, and on rows of the frozen backbone of one film of each patient and of twenty cells of each.
Their settings were looked at on another draw of 1,000 images of MNIST, which nothing pays for.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import polars as pl
from matplotlib.figure import Figure

from experiments.claims import Below, Every, Number, Printed, Sentence, cell, count, exact, exactly
from experiments.ours.certificates import UNCONTRADICTED
from experiments.panels import plain_log
from experiments.runs.small_samples import (
    COMPRESSED,
    COUNT,
    DRAWN,
    GIBBS,
    HALF,
    NOTHING,
    PRIVATE,
    ROUTES,
    TRAJECTORY,
    SmallConfig,
    small_sample,
)  # fmt: skip
from experiments.study import Done, Row, Section, Study
from experiments.tables import ordered, part
from pacdp.cli.figures import style
from pacdp.cli.reading import certificates_of
from pacdp.cli.sweep.jobs import Job, single

_KIND = single(small_sample)
_SIZES = {"mnist": (500, 1000, 2000, 5000), "xrays": (500, 1000, 2000), "malaria": (40, 120)}
_HOW: dict[str, dict[str, Any]] = {
    "mnist": {"features": "oriented-gradients"},
    "xrays": {"features": "film-gradients", "one_each": True},
    "malaria": {"features": "spots", "routes": (COUNT, NOTHING, HALF), "passes": 10},
    "digits": {"features": "coarse-gradients", "steps": 2, "rounds": 1, "iterations": 1, "passes": 1},
}


def jobs(smoke: bool, seed: int) -> list[Job]:
    """Every data set, number of records and seed; a job carries out all routes."""
    return [
        Job(key=f"small-{data}-{n}-{k}", kind=_KIND, config=SmallConfig(dataset=data, n=n, seed=k, **_HOW[data]),
            tags={"dataset": data, "records": n, "seed": k})
        for data, sizes in ({"digits": (60,)} if smoke else _SIZES).items()
        for n in sizes
        for k in range(seed, seed + (1 if smoke else 3))
    ]  # fmt: skip


_LAWS = (COUNT, COMPRESSED, *GIBBS)
_LAW_SIZES = {"mnist": (500, 1000, 2000, 5000), "xrays224": (500, 1000, 2000), "malaria": (120,)}
_SEEN: dict[str, dict[str, Any]] = {
    "mnist": {"features": "oriented-gradients", "routes": _LAWS},
    "xrays224": {"features": "backbone", "one_each": True, "routes": _LAWS},
    "malaria": {"features": "backbone", "routes": (COUNT, TRAJECTORY, DRAWN)},
    "digits": {"features": "coarse-gradients", "chain_steps": 3, "routes": _LAWS},
}


def law_jobs(smoke: bool, seed: int) -> list[Job]:
    """Every data set and number of records, one draw of them; the small ones first."""
    return [
        Job(key=f"laws-{data}-{n}", kind=_KIND, config=SmallConfig(dataset=data, n=n, seed=seed, **_SEEN[data]),
            tags={"dataset": data, "records": n, "seed": seed})
        for data, sizes in ({"digits": (60,)} if smoke else _LAW_SIZES).items()
        for n in sizes
    ]  # fmt: skip


def rows(done: Done) -> Iterator[Row]:
    """A row a route: its certificate of the 0-1 risk, of the randomised head where there is one."""
    report = done.result
    for one in (report, *report["details"]["references"].values()):
        made, details = certificates_of(one)[0], one["details"]
        yield {
            **done.tags, "unit": one["unit"], "route": details["route"], "certificate": made.name,
            "status": made.status, "value": made.value, "test_error": details["test_error"],
            "n_test": details["n_test"],
            "kl_nats": next((cost.nats for cost in made.costs if cost.name == "kl"), None),
        }  # fmt: skip


_COLOURS = "tab:blue", "tab:orange", "tab:green", "tab:red", "tab:purple"


def _figure(table: pl.DataFrame, routes: Sequence[str] = ROUTES) -> Figure:
    """A dot a seed, hollow means, mean test errors dotted in the route's colour."""
    found = ordered(table, "dataset")
    drawn, (line,) = style.figure(1, len(found), width=3.6)
    for axes, data in zip(line, found, strict=True):
        own = part(table, dataset=data)
        for route, colour, marker in zip(routes, _COLOURS, "os^Dv", strict=True):
            draws = part(own, route=route)
            means = draws.group_by("records").agg(pl.mean("value", "test_error")).sort("records")
            axes.plot(draws["records"], draws["value"], marker, color=colour, markersize=3)
            axes.plot(means["records"], means["value"], marker + "-", color=colour, markerfacecolor="none", label=route)
            axes.plot(means["records"], means["test_error"], ":", color=colour)
        axes.set(xscale="log", yscale="log", title=f"{data}, {own['seed'].n_unique()} draws",
                 xlabel="patients" if own["unit"][0] == "person" else "labelled records")  # fmt: skip
        plain_log(axes.xaxis)
        plain_log(axes.yaxis)
    line[0].set_ylabel("certificate, 95%; dotted: test error")
    drawn.legend(*line[0].get_legend_handles_labels(), loc="outside lower center", ncols=len(routes))
    return drawn


def _less(
    printed: str, one: str, others: Sequence[str], data: Iterable[str] = ("mnist", "xrays"),
    number: Callable[..., Number] = cell,
) -> Sentence:  # fmt: skip
    holds = [
        Below(
            number("value", dataset=name, records=n, route=one), number("value", dataset=name, records=n, route=other)
        )
        for other in others
        for name in data
        for n in _SIZES[name]
    ]
    return Sentence(
        printed=printed, holds=Every(holds), ours="It does in {wins} of {pairs} comparisons.",
        evidence={"wins": count(holds), "pairs": lambda table: exact(len(holds))},
    )  # fmt: skip


STUDY = Study(
    name="small-samples",
    title="Certificates by route from few labelled records",
    paper="beside Dziugaite and Roy 2018; Pérez-Ortiz et al. 2021; Campi and Garatti 2023",
    jobs=jobs,
    rows=rows,
    figures={"figure": _figure},
    sentences=(
        _less("The held-out count certifies less than PAC-Bayes with either prior.", COUNT, [NOTHING, HALF], _SIZES),
        _less("It certifies less than a private prior and compression, too.", COUNT, [PRIVATE, COMPRESSED]),
        _less("A prior from half certifies less than one that saw nothing.", HALF, [NOTHING], _SIZES),
        _less("A private prior certifies less than one that saw nothing.", PRIVATE, [NOTHING]),
        UNCONTRADICTED,
    ),
    numbers=tuple(
        Printed(place="Means of three draws' certificates", what=f"{data}, {n}", numbers={
            route: (None, exactly("value", dataset=data, records=n, route=route)) for route in ROUTES
        })
        for data, sizes in _SIZES.items() for n in sizes
    ),
)  # fmt: skip
LAWS = Study(
    name="small-laws",
    title="Gibbs laws that are exact, and other routes, from few labelled records",
    paper="beside Lever, Laviolette and Shawe-Taylor 2013; Campi and Garatti 2023",
    jobs=law_jobs,
    rows=rows,
    figures={"laws": partial(_figure, routes=_LAWS)},
    sentences=(
        _less("The held-out count certifies less than compression, trajectory and Gibbs laws.", COUNT,
              [COMPRESSED, *GIBBS], ["mnist"], number=exactly),
        _less("A head drawn exactly certifies less than compression, trajectory and the law that nobody draws.", DRAWN,
              [one for one in (COMPRESSED, *GIBBS) if one != DRAWN], ["mnist"], number=exactly),
    ),
    numbers=tuple(
        Printed(place="Certificates of one draw of records", what=f"{data}, {n}", numbers={
            route: (None, exactly("value", dataset=data, records=n, route=route)) for route in _LAWS
        })
        for data, sizes in _LAW_SIZES.items() for n in sizes
    ),
)  # fmt: skip
SECTION = Section(
    title="Certificates from few records",
    about="Where does PAC-Bayes pay? From the same few records and fixed features five routes certify. Settings were "
    "fixed on trial draws, which nothing pays for. MNIST has ten classes, the X-rays a film a patient; malaria counts "
    "patients and certifies the share of a new one's cells in error. A dash is a route that does not apply. Gibbs laws "
    "have one draw, X-rays and malaria through the backbone; 1,000 X-rays and more have not run yet.",
    studies=(STUDY, LAWS),
    figure=(
        "small-samples",
        "figure",
        "Certificates by number of records; a dot a draw, dotted lines are test errors.",
    ),
)
