"""Knolle et al. (2021), Differentially private training of neural networks with Langevin dynamics: Tables 1 and 2.

The text gives the budgets, "a five layer convolutional neural network" and "a pre-trained, frozen backbone
(EfficientNet B1, ImageNet) with two trainable dense layers". Batch sizes, step sizes, clip norm, temperature, decay and
pre-noise are not in it. Those of MNIST are the private recipes', found on MNIST. Those of the X-rays are from a coarse
search for accuracy (a factor of three between step sizes) on 651 images of 450 training patients, a fourth of them held
out, with the noise that the whole set would see; the test set was not looked at. No epsilon counts either search.

DP-SGLD is that of the paper's Algorithm 1, the gradient slot: σ_t = √(2 α_t τ). The temperatures τ were chosen so that
nearly all planned steps fit into the budget; the accountant halts the run before the first step that does not. It makes
two rows: of its last weights, which is what the paper reports, and of the mean of the predictions of weights kept on
the way, which costs no privacy more. What DP-SGLD adds to DP-SGD is decided by the table of
:mod:`experiments.ours.calibration_frontier`, at equal clip norm, step length and number of steps.
"""

from collections.abc import Iterator
from functools import partial
from typing import Any

import polars as pl
from matplotlib.figure import Figure

from bounds.accounting import clt_gdp, event_from_dict, gaussian_epsilon
from experiments.claims import Below, Cell, Every, Printed, Sentence, cell, exactly
from experiments.ours.calibration_frontier import BESIDE_KNOLLE
from experiments.papers.zhang_bu import BESIDE_KNOLLE as CENTRAL_LIMIT
from experiments.runs.knolle import DATA, PlainConfig, table_jobs
from experiments.study import Done, Erratum, Row, Section, Study
from experiments.tables import part
from pacdp.cli.figures import style
from pacdp.cli.private.config import PrivateConfig

AVERAGED = ", averaged"
COLUMNS = (
    "data stands_for procedure seed pre_noise decay epsilon delta budget unit units epsilon_central_limit steps halted "
    "parameters n n_test accuracy macro_auc ece nll_nats brier smooth_ece adaptive_ece sce ace mean_confidence certain "
    "seconds"
)
"""``certain`` is the share of test examples in the last bin of confidence; ``epsilon_central_limit`` what the paper's
accountant makes of the run: no bound."""


def rows(done: Done) -> Iterator[Row]:
    """One row a set of predictions on the test set."""
    result, procedure = done.result, str(done.tags["procedure"])
    tests = {procedure: result["test"]}
    if "test_of_last_weights" in result:
        tests = {procedure: result["test_of_last_weights"], procedure + AVERAGED: result["test"]}
    for name, test in tests.items():
        own = {"procedure": name, "certain": test["reliability"]["count"][-1] / test["n"], "n": result["n"]}
        yield {**result, **test, **_privacy(done.job.config, result), **done.tags, **own}


def _privacy(config: PlainConfig | PrivateConfig, result: Row) -> Row:
    """What was spent, and what the paper's accountant, Gaussian differential privacy's central limit, makes of it."""
    if isinstance(config, PlainConfig):
        return {}
    spent, limit = result["privacy"], None
    if spent["unit"] == "example":
        limit = gaussian_epsilon(mu=clt_gdp(event=event_from_dict(spent["event"])).mu, delta=config.budget.delta)
    own = {name: spent[name] for name in ("delta", "unit", "units")}
    printed = spent.get("of_budget", {"epsilon": spent["upper"]})  # as the paper's, for add-remove neighbours
    return own | {"epsilon": printed["epsilon"], "budget": config.budget.epsilon, "epsilon_central_limit": limit}


COLOURS = {"SGD": "tab:blue", "DP-SGD": "tab:orange", "DP-SGLD": "tab:green", "DP-SGLD, averaged": "#98df8a",
           "DP-SGD by patient": "tab:brown"}  # fmt: skip
_SCORES = {"accuracy": "accuracy", "AUC": "macro_auc", "ECE": "ece"}
_PRINTED = {
    "MNIST": {"SGD": (0.984, 0.999, 0.0020), "DP-SGD": (0.967, 0.996, 0.0210), "DP-SGLD": (0.963, 0.995, 0.0044)},
    "X-rays": {"SGD": (0.857, 0.942, 0.0526), "DP-SGD": (0.783, 0.910, 0.1790), "DP-SGLD": (0.786, 0.920, 0.0833)},
}
"""Accuracy, AUC and ECE as Tables 1 and 2 print them."""


def _scores(table: pl.DataFrame) -> Figure:
    """Accuracy, AUC and ECE of each procedure, a dot a seed, beside the printed numbers."""
    drawn, (line,) = style.figure(1, 3, width=3.6)
    there = [one for one in COLOURS if one in table["procedure"]]
    for axes, (k, (label, name)) in zip(line, enumerate(_SCORES.items()), strict=True):
        for x, one in enumerate(there):
            found = part(table, procedure=one)[name].to_list()
            axes.plot([x] * len(found), found, "o", color=COLOURS[one], markersize=4, alpha=0.7)
            axes.hlines(sum(found) / len(found), x - 0.25, x + 0.25, color=COLOURS[one], linewidth=2)
            if one in _PRINTED["MNIST"]:
                printed = [_PRINTED["MNIST"][one][k]]
                axes.plot([x + 0.15], printed, "x", color="black", label="paper" if x == 0 else None)
        axes.set_xticks(range(len(there)), [one.replace(", ", ",\n").replace(" by", "\nby") for one in there])
        axes.tick_params("x", labelsize=6)
        axes.set_ylabel({"AUC": "AUC (one against the rest)", "ECE": "ECE (l1, 15 bins)"}.get(label, label))
    line[1].set_title(f"MNIST, n = {table['n'][0]:,}, {table['seed'].n_unique()} seeds, "
                      f"epsilon {table['budget'].max():g}")  # fmt: skip
    line[-1].set_ylim(bottom=0.0)
    line[0].legend(title="dot: a seed, bar: mean")
    return drawn


def _printed(data: str, place: str, answers: dict[str, tuple[str, ...]], why: str) -> Iterator[Printed]:
    for procedure, scores in _PRINTED[data].items():
        pairs = zip(_SCORES.items(), scores, strict=True)
        numbers: dict[str, Any] = {
            label: (paper, cell(name, data=data, procedure=procedure)) for (label, name), paper in pairs
        }
        if procedure != "SGD":
            printed = {"MNIST": 0.5, "X-rays": 6.0}[data]
            numbers["epsilon at most"] = (printed, exactly("epsilon", data=data, procedure=procedure))
        yield Printed(answers=answers[procedure], place=place, what=procedure, numbers=numbers, why=why)


def _mnist(name: str, procedure: str) -> Cell:
    return cell(name, data="MNIST", procedure=procedure)


HARM = Sentence(
    answers=("K01",),
    place="Abstract, 1.1",
    printed="DP-SGD has a negative impact on model calibration compared to standard SGD.",
    ours="On MNIST the ECE of DP-SGD is {ece_private} and that of SGD {ece_plain}; by SCE they are {sce_private} and "
    "{sce_plain}, by ACE {ace_private} and {ace_plain}.",
    holds=Every([Below(_mnist(name, "SGD"), _mnist(name, "DP-SGD")) for name in ("ece", "sce", "ace")]),
    evidence={f"{name}_{key}": _mnist(name, procedure) for name in ("ece", "sce", "ace")
              for key, procedure in (("private", "DP-SGD"), ("plain", "SGD"))},
)  # fmt: skip
TABLE_1 = Study(
    name="knolle-table-1",
    title="DP-SGD, DP-SGLD and SGD on MNIST at epsilon 0.5",
    paper="Knolle et al., 2021, Table 1",
    jobs=partial(table_jobs, DATA[:1]),
    rows=rows,
    columns=COLUMNS,
    figures={"figure": _scores},
    sentences=(HARM,),
    numbers=tuple(_printed(
        "MNIST", "Table 1, MNIST", {"SGD": ("K11",), "DP-SGD": ("K12", "K17"), "DP-SGLD": ("K13",)},
        "The five-layer network and the settings are ours; epsilon counts images, at delta 1e-5.",
    )),
)  # fmt: skip
TABLE_2 = Study(
    name="knolle-table-2",
    title="DP-SGD, DP-SGLD and SGD on children's chest X-rays at epsilon 6",
    paper="Knolle et al., 2021, Table 2",
    jobs=partial(table_jobs, DATA[1:], patients=True),
    rows=rows,
    columns=COLUMNS,
    numbers=tuple(_printed(
        "X-rays", "Table 2, children's chest X-rays", {"SGD": ("K14",), "DP-SGD": ("K15",), "DP-SGLD": ("K16",)},
        "Features of a frozen EfficientNet-Lite0 stand in for B1; SGD has five passes. Epsilon counts images, as in "
        "the paper, at delta 1e-4: a child has up to 30 of them.",
    )),
)  # fmt: skip
SECTION = Section(
    title="Private training and calibration (Knolle et al. 2021)",
    about="The paper compares SGD, DP-SGD and DP-SGLD by accuracy and calibration at one budget each, on MNIST and on "
    "chest X-rays. Its text gives no step sizes, batch sizes, clip norms or temperatures; ours were found on training "
    "images and are not counted in any epsilon. Three seeds on MNIST, five on the X-rays.",
    studies=(TABLE_1, TABLE_2),
    beside={**BESIDE_KNOLLE, "central-limit": CENTRAL_LIMIT},
    figure=("knolle-table-1", "figure", "Scores by procedure on MNIST; crosses are the paper's."),
    errata=(
        Erratum(
            answers=("K21",),
            place="Knolle et al., caption of Figure 1",
            said="Points below the diagonal are said to be underconfident; with confidence on the horizontal axis they "
            "are overconfident.",
        ),
    ),
)
