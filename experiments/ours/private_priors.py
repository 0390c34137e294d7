"""Private priors at the price of their noisy sums, beside priors that saw nothing of the bound's rows.

Rows are split once, for all seeds: 5,000 of MNIST's 60,000 for choices, 55,000 for the bound. Every number of the
recipe was chosen on those 5,000, of ten classes, and taken over to two classes; the features are whitened by their
means and covariances. That the two parts share no row is proved by hashes; that no choice looked at the others is this
study's word. Kinds of features and chains were known from earlier studies of all of MNIST: each certificate pays for
1,000.

Prices of noisy sums speak of what one record adds to each sum, at a fixed n, all records being in each sum: no
neighbouring data set occurs in them. The private head is Gaussian DP with mu 0.0735 when a record is added or
removed, twice that when one is replaced; the chain with kept norms clips nothing and promises no privacy. Noise comes
from seeds, sums are in single precision, and their rounding is not accounted for. Seeds differ in the noise of heads
and draws alone: their spread is not that over samples of digits. Test images are other people's handwriting than the
bound's.
"""

from collections.abc import Iterator
from dataclasses import replace

import polars as pl
from matplotlib.figure import Figure

from experiments.claims import RELEVANT, Below, Cell, Every, Number, Sentence, cell, largest
from experiments.ours.certificates import DATA
from experiments.runs.private_priors import CLIPPED, CURVE, KEPT, SMOKE, TAUGHT, ZEROS, Config, conduct
from experiments.study import Done, Row, Section, Study
from experiments.tables import part
from pacdp.cli.figures import style
from pacdp.cli.reading import Reading
from pacdp.cli.sweep.jobs import Job, single

SEEDS = 3
KIND = single(conduct)


def jobs(smoke: bool, seed: int) -> list[Job]:
    """Both data sets, by seed; one run on scikit-learn's digits."""
    configs = [replace(Config(), dataset=name, seed=seed + k) for name in DATA for k in range(SEEDS)]
    return [
        Job(key=f"split-{one.dataset}-{one.seed}", kind=KIND, config=one,
            tags={"dataset": one.dataset, "seed": one.seed})
        for one in ([replace(SMOKE, seed=seed)] if smoke else configs)
    ]  # fmt: skip


def rows(done: Done) -> Iterator[Row]:
    """A row a route: the first certificate of its report, of a 0-1 risk."""
    report = done.result
    for route, one in {KEPT: report, **report["details"]["references"]}.items():
        found = Reading(one)
        made = found.certificates[0]
        own = {"certificate": made.name, "test_error": found.error(made)}
        yield {**made.to_dict(), **done.tags, **own, "route": route, "n": one["n"], "settings": one["choices"]["count"]}


def figure(table: pl.DataFrame) -> Figure:
    """Certificates and test errors by route, a point a seed."""
    drawn, ((axes,),) = style.figure(1, 1, width=6.0)
    for dataset, colour in zip(DATA, ("tab:blue", "tab:orange"), strict=True):
        own = part(table, dataset=dataset)
        for column, mark, what in (("value", "o", "certificate"), ("test_error", "x", "test error")):
            axes.plot(own[column], own["route"], mark, color=colour, label=f"{DATA[dataset]}: {what}")
    axes.set_xlabel("0-1 risk")
    axes.set_title(f"MNIST, {table['n'].max():,} rows of the bound, {table['seed'].n_unique()} seeds of the noise")
    axes.legend()
    return drawn


def _value(dataset: str, route: str) -> Cell:
    return cell("value", dataset=dataset, route=route)


def _worst(dataset: str, route: str) -> Number:
    return largest(_value(dataset, route))


def _less(printed: str, one: str, other: str) -> Sentence:
    """That a route certifies at least a tenth less risk than another on both data sets, over seeds of the noise."""
    return Sentence(
        printed=printed,
        ours="The certificates are {one:up} and {other:up} on ten classes, {two:up} and {more:up} on two.",
        holds=Every([Below(_value(name, one), _value(name, other), share=RELEVANT) for name in DATA]),
        evidence={"one": _worst("mnist", one), "other": _worst("mnist", other),
                  "two": _worst("mnist2", one), "more": _worst("mnist2", other)},
    )  # fmt: skip


PRIVATE, NORMS = _worst("mnist", CLIPPED), _worst("mnist", KEPT)
STUDY = Study(
    name="private-priors",
    title="Private priors at the price of their noisy sums",
    paper="this project; private priors as in Dziugaite and Roy 2018",
    jobs=jobs,
    rows=rows,
    columns="dataset route certificate status seed n settings value failure_prob test_error",
    figures={"figure": figure},
    sentences=(
        Sentence(
            printed="A prior that learnt from the bound's own rows by noisy sums certifies ten classes below 4%.",
            ours="With clipped sums, which are private, it certifies {private:up}; with sums that are not clipped and "
            "whose norms are kept, {norms:up}.",
            holds=Every([Below(PRIVATE, 0.04), Below(NORMS, 0.04)]),
            evidence={"private": PRIVATE, "norms": NORMS},
        ),
        _less("A private prior certifies a tenth less risk at the price of its noisy sums than at that of its privacy "
              "curve.", CLIPPED, CURVE),
        _less("A private prior certifies a tenth less risk than a prior of zeros.", CLIPPED, ZEROS),
        _less("A prior that 5,000 other rows taught certifies a tenth less risk than a private one.", TAUGHT, CLIPPED),
    ),
)  # fmt: skip
SECTION = Section(
    title="Private priors at the price of their sums",
    about="A prior may learn from the bound's own rows if noise pays for it. The recipe's numbers were chosen on 5,000 "
    "digits of MNIST that the bound does not use; the bound counts the other 55,000. Each certificate pays for 1,000 "
    "settings; of three seeds of the noise the worst is given.",
    studies=(STUDY,),
    figure=("private-priors", "figure", "Certificates and test errors by route: a prior's head and what pays for it."),
)
