"""What SGLD and Entropy-SGLD certify if they are stationary, at the price of the draw beside those of its privacy.

Dziugaite and Roy (2018) take their chains for draws from a Gibbs law, and pay for the draw's privacy. Here chains as
those of the temperature map end at weights that are priced as one exact draw of the law: as the paper prints, by the
sharp transfer of the same privacy (today's), by the range of the loss, and by the losses that were reached on all
records. `law` says what is covered: w of SGLD; inner weights w' of Entropy-SGLD at β = 1, and copies of them at whole
β; w of Entropy-SGLD at any β ("Gibbs draws" in docs/guarantees.md). Its averages of inner weights are no such draw.
Every certificate is of a temperature that was fixed beforehand, and is optimistic: nothing shows that a chain is
stationary. R-hat of the loss is that of the chains from both starts; above 1.1 it refutes. Nothing was tuned.
"""

import math
from collections.abc import Iterator
from typing import Any

import polars as pl
from matplotlib.figure import Figure

from experiments.claims import Below, Every, Number, Sentence, exact
from experiments.ours.temperature_map import BOTH, START
from experiments.panels import plain_log
from experiments.runs.gibbs import INNER, WEIGHTS
from experiments.runs.temperature import CLIMB, ENTROPY, Ladder
from experiments.study import Done, Row, Section, Study
from experiments.tables import part
from pacdp.cli.config import SIZES
from pacdp.cli.figures import style
from pacdp.cli.sweep.jobs import Job
from pacdp.models import Architecture
from pacdp.problem import Problem

_MIXED = 1.1
"""R-hat up to which chains from both starts are called one (Gelman and Rubin's usual limit)."""
_TIMES = (1.0, 4.0, 8.0, 16.0, 32.0, 64.0, 100.0, 256.0)
_SOME, _FEW = (1.0, 4.0, 16.0, 64.0), (1.0, 16.0, 64.0)
"""Multiples of √n: of SGLD, of Entropy-SGLD, and of this at other β."""
_LAWS = {"SGLD": WEIGHTS, "Entropy-SGLD": INNER}
PRICES = {"printed": "as printed", "today": "sharp transfer", "range": "by range", "losses": "by losses"}


def jobs(smoke: bool, seed: int) -> list[Job]:
    """Temperatures of each law; one on small digits for ``smoke``."""
    entropy: dict[str, Any] = {**ENTROPY, "gibbs": None}
    plan: dict[str, tuple[tuple[float, ...], float, dict[str, Any]]] = {
        "sgld": (_TIMES, 40.0, {"step_size": 0.2}),
        **{f"entropy-{times:g}": ((times,), 20.0, entropy) for times in _SOME},
        "entropy-half": (_FEW, 20.0, {**entropy, "beta": 0.5}),
        "entropy-two": (_FEW, 20.0, {**entropy, "beta": 2.0}),
    }
    data, less = "mnist2", dict[str, Any]()
    problem = Problem(dataset=data, architecture=Architecture(hidden=(100,)))
    if smoke:
        data = "digits2"
        problem, less = Problem(dataset=data), {"batch_size": 32, "fit": 1.0}
        plan = {name: (_TIMES[:1], 4.0, one) for name, (times, _, one) in plan.items() if times[0] == 1.0}
    root = math.sqrt(SIZES[data])
    return [
        Job(key=f"gibbs-{name}", kind=CLIMB,
            config=Ladder(problem=problem, taus=tuple(root * one for one in times), starts=BOTH, epochs=epochs,
                          records=1, seed=seed, **settings, **less))
        for name, (times, epochs, settings) in plan.items()
    ]  # fmt: skip


def rows(done: Done) -> Iterator[Row]:
    """A row a chain and law that is covered."""
    config, result = done.job.config, done.result
    for chain in result["chains"]:
        own = {"run": done.job.key, "algorithm": config.algorithm, "times": chain["tau"] / math.sqrt(result["n"]),
               "beta": config.beta if config.algorithm == "Entropy-SGLD" else None}  # fmt: skip
        for one in chain["drawn"]:
            yield {**result, **chain, **own, **one}


def least(algorithm: str, price: str, of: str = "", *, start: str = "sgd", mixed: bool = False) -> Number:
    """The least certificate at a price over temperatures, or another column of that row.

    Args:
        algorithm: with its law that has a price by losses, at β = 1.
        price: a column.
        of: the other column.
        start: of the chains.
        mixed: whether temperatures are left out at which R-hat tells both starts apart.
    """

    def number(table: pl.DataFrame, /) -> Any:
        own = part(table, algorithm=algorithm, law=_LAWS[algorithm], start=start)
        found = own.filter(pl.col(price).is_not_null()) if len(own) else own
        if mixed and len(found):
            found = found.filter(pl.col("r_hat") <= _MIXED)
        return exact(found.sort(price)[of or price][0]) if len(found) else None

    return number


def _figure(table: pl.DataFrame) -> Figure:
    """Certificates of both algorithms against temperature, from both starts."""
    drawn, (line,) = style.figure(1, len(_LAWS), width=4.0)
    for axes, (algorithm, law) in zip(line, _LAWS.items(), strict=True):
        for start, way in (("base", "--"), ("sgd", "-")):
            own = part(table, algorithm=algorithm, law=law, start=start).sort("times")
            for (price, name), colour in zip(PRICES.items(), ("tab:red", "tab:orange", "tab:blue", "tab:green"),
                                             strict=True):  # fmt: skip
                axes.plot(own["times"], own[price], way, marker=".", color=colour, label=f"{name}, {START[start]}")
            axes.plot(own["times"], own["drawn_test_error"], way, color="black", label=f"test error, {START[start]}")
        axes.set(xscale="log", yscale="log", title=f"{algorithm}, {law}", xlabel="inverse temperature τ over √n")
        plain_log(axes.yaxis)
    line[0].set_ylabel("certificate, 95%, if stationary")
    drawn.legend(*line[0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
    return drawn


def _both(price: str, of: str = "") -> dict[str, Number]:
    """``least`` of both algorithms, by the names that their numbers have in sentences."""
    return {f"{one.split('-')[0].lower()}_{of or price}": least(one, price, of) for one in _LAWS}


_LEAST = {name: number for price in PRICES for name, number in _both(price).items()}
STUDY = Study(
    name="gibbs",
    title="SGLD and Entropy-SGLD, if stationary, at the price of the draw",
    paper="beside Dziugaite and Roy 2018, and Lever, Laviolette and Shawe-Taylor 2013",
    jobs=jobs,
    rows=rows,
    columns="run algorithm beta start tau times law n n_test epsilon r_hat mean_error drawn_loss drawn_error "
    "drawn_test_error printed printed_nats today today_nats range range_nats losses losses_nats nested nested_nats "
    "status",
    figures={"figure": _figure},
    sentences=(
        Sentence(
            printed="Of the paper's asterisk, most was price: by its losses a draw is certified at less than half.",
            ours="From SGD's weights the least certificates over temperatures are {sgld_printed:up} as printed, "
            "{sgld_today:up} by the sharp transfer, {sgld_range:up} by range and {sgld_losses:up} by losses with "
            "SGLD, at a test error of {sgld_drawn_test_error:.3f}; {entropy_printed:up}, {entropy_today:up}, "
            "{entropy_range:up} and {entropy_losses:up} with Entropy-SGLD, at {entropy_drawn_test_error:.3f}.",
            holds=Every([
                Below(least(one, "losses"), least(one, "printed"), share=0.5) for one in _LAWS
            ]),
            evidence=_LEAST | _both("losses", "drawn_test_error"),
            why="Temperatures are not paid for.",
        ),
        Sentence(
            printed="The rest of it, stationarity, is not refuted where the least of these certificates are.",
            ours="R-hat is {sgld_r_hat:.2f} with SGLD and {entropy_r_hat:.2f} with Entropy-SGLD there; where it is at "
            "most 1.1, the least certificate by losses is {sgld_mixed:up} with SGLD, and with Entropy-SGLD it is "
            "{entropy_hat:.2f} or more at every temperature.",
            holds=Every([Below(least(one, "losses", "r_hat"), _MIXED) for one in _LAWS]),
            evidence={
                **_both("losses", "r_hat"), "sgld_mixed": least("SGLD", "losses", mixed=True),
                "entropy_hat": least("Entropy-SGLD", "r_hat"),
            },
        ),
    ),
)  # fmt: skip
SECTION = Section(
    title="Langevin chains, if stationary, at the price of the draw",
    about="The paper pays for one draw from a Gibbs law by the draw's privacy. Chains as those above end at weights "
    "that are certified as such a draw, by prices of the draw itself, on two-class MNIST with 100 hidden units; one "
    "noise seed a chain. Every certificate takes the chain for stationary.",
    studies=(STUDY,),
    figure=(
        "gibbs",
        "figure",
        "Certificates by temperature and price, from both starts, and test errors of what is certified.",
    ),
)
