"""Certificates of two-class and ten-class digits by route: which prior, which posterior, and what they cost.

Each certificate has its failure probability by itself: quoting the smallest of k needs k times as much. The settings
were chosen with MNIST in view, from lists written down after the tries; each certificate pays for its list. Those of
the test set do not pay for test errors that were looked at. MNIST's test images are other people's handwriting than the
training images: a bound for the law of the latter may lie below an error on the former. All runs have seed 0.
"""

from collections.abc import Iterator
from typing import Any

import polars as pl

from experiments.claims import Below, Every, Measured, Printed, Sentence, cell, exact, exactly, least_risk
from experiments.ours.all_data import risks
from experiments.runs.held_out import SMOKE, data_free_config, held_out, held_out_config
from experiments.study import Section, Study
from experiments.tables import part
from pacdp.cli.sweep.jobs import Job, single

DATA = {"mnist": "ten classes", "mnist2": "two classes"}
HALF, COUNT = ("held-out", "randomised_maurer"), ("held-out", "prior_mean_clopper_pearson")
ROUTES = {
    "prior from half": HALF,
    "that prior's mean, errors counted": COUNT,
    "prior that saw nothing": ("data-free", HALF[1]),
}
"""Recipes and certificates by what they are called."""
_KIND = single(held_out)
_MADE = {"data-free": data_free_config, HALF[0]: held_out_config}


def jobs(smoke: bool, seed: int) -> list[Job]:
    """Both priors, on two-class and on ten-class images; for ``smoke`` one on digits."""
    plan = [(name, make(data, seed=seed)) for data in DATA for name, make in _MADE.items()]
    return [
        Job(key=f"{name}-{one.dataset}", kind=_KIND, config=one, tags={"dataset": one.dataset, "recipe": name})
        for name, one in ([(HALF[0], SMOKE)] if smoke else plan)
    ]


def _able(table: pl.DataFrame) -> pl.DataFrame:
    """The certificates below 1 of a predictor that was tested, but not those by the test set."""
    return table.filter(
        pl.col("value") < 1.0, pl.col("test_error").is_not_null(), ~pl.col("certificate").str.starts_with("test_set")
    )


def _contradicted(table: pl.DataFrame) -> Measured | None:
    """Those below the least risk that the test error allows."""
    found = _able(table).iter_rows(named=True)
    return exact(sum(row["value"] < least_risk(row["test_error"], row["n_test"]) for row in found))


UNCONTRADICTED = Sentence(
    printed="No certificate is contradicted by the test error of what it certifies.",
    ours="Of {able} compared {below} lies below the printed test error and {wrong} below its lower 95% Chernoff limit, "
    "which alone contradicts.",
    holds=Below(_contradicted, 0.5),
    evidence={"able": lambda table: exact(_able(table).height),
              "below": lambda table: exact(_able(table).filter(pl.col("value") < pl.col("test_error")).height),
              "wrong": _contradicted},
)  # fmt: skip


_TEN, _TEN_COUNT, _TWO, _TWO_COUNT = (
    exactly("value", dataset=data, recipe=recipe, certificate=name)
    for data in DATA for recipe, name in (HALF, COUNT)
)  # fmt: skip


def _idle(table: pl.DataFrame) -> Measured | None:
    return exact(part(table, kl_nats=0).height)


def _printed() -> Iterator[Printed]:
    for what, (own, made) in ROUTES.items():
        numbers = dict[str, Any]()
        for data, name in DATA.items():
            where = {"dataset": data, "recipe": own, "certificate": made}
            numbers[name] = (None, exactly("value", **where))
            numbers[f"{name}: test error"] = (None, cell("test_error", **where))
        numbers["n"] = (None, exactly("n", dataset="mnist", recipe=own, certificate=made))
        yield Printed(place="Our certificates by route, at 95%", what=what, numbers=numbers)


STUDY = Study(
    name="certificates",
    title="Certificates of two-class and ten-class digits, by prior and posterior",
    paper="beside Dziugaite and Roy 2018; Pérez-Ortiz et al. 2021; Viallard et al. 2023",
    jobs=jobs,
    rows=risks,
    columns="dataset recipe of certificate status n n_test value test_error empirical_risk kl_nats",
    sentences=(
        Sentence(
            printed="With a prior from half of the data, PAC-Bayes certifies less than a count of the errors of its "
            "mean.",
            ours="On ten classes it certifies {ten:up} against {ten_count:up}, on two {two:up} against {two_count:up}.",
            holds=Every([Below(_TEN, _TEN_COUNT), Below(_TWO, _TWO_COUNT)]),
            evidence={"ten": _TEN, "ten_count": _TEN_COUNT, "two": _TWO, "two_count": _TWO_COUNT},
            why="Its posterior is its prior: no descent repaid its divergence. Published on ten classes with a learnt "
            "posterior: .0155 (Pérez-Ortiz et al. 2021); of one draw, .012 (Viallard et al. 2023).",
        ),
        Sentence(
            printed="Every posterior has left its prior.",
            ours="Of {all} certificates of 0-1 risks that pay a KL, {idle} pay one of 0: the posterior is the prior.",
            holds=Below(_idle, 0.5),
            evidence={"idle": _idle, "all": lambda table: exact(table["kl_nats"].count())},
        ),
        UNCONTRADICTED,
    ),
    numbers=tuple(_printed()),
)  # fmt: skip
SECTION = Section(
    title="Certificates by route",
    about="What does each route certify on MNIST, beside the test error of the same classifier? n counts the images "
    "that a bound uses; we ran one seed.",
    studies=(STUDY,),
)
