"""Zhang, Bu, Chen and Long (2021), Differentially private Bayesian neural networks: Tables 1 to 3, Figures 1, 2 and 4.

The text at hand lacks the appendix. Figure 1's caption gives delta, batch size, the step sizes of DP-SGD and DP-SGLD,
15 epochs and the ranges of C and σ; the authors' published notebooks give two hidden layers of 1200, σ = 1.3, C = 1.5,
dropout 0.5, priors of scale 0.1, and all that is known of the regression: data, widths, 200 full-batch steps. DP-SGLD
is Theorem 1 with the notebooks' factor c = 1 before the gradient and noise of variance η, that is temperature 1/2; its
clip norm is the one whose σ = B/(n √η C), and hence epsilon, is the others'. SGLD without privacy has c = 1/2 on
images, temperature 1. The notebooks' private BBP adds noise after Adam's step, which is no private mechanism, and
standardises targets with the data; neither is done here.

On images, rates of DP-BBP and DP-MC Dropout were searched with one seed, on the last 10,000 training images, which
were not learnt from; DP-SGD and DP-SGLD keep the printed ones, the twins without privacy DP-SGD's, but for SGD on the
CNN. Table 2 has one rate for all. On the regression each method, private or not, has the rate (of SGLD: n η) with the
least geometric mean error on new points of six simulations; 41 others judge. Figure 4 is drawn of that one whose mean
error, over all methods, is their median. No epsilon counts a search.
"""

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, product, zip_longest
from typing import Any

import polars as pl
from matplotlib.figure import Figure

from experiments.claims import (
    Below,
    Cell,
    Every,
    Measured,
    Most,
    Number,
    Printed,
    Relation,
    Sentence,
    cell,
    count,
    exactly,
    made_of,
    ratio,
    within,
)
from experiments.runs import bayesian_plans as plans
from experiments.study import Done, Row, Section, Study
from experiments.tables import part
from pacdp.cli.figures import style

PRIORS = {"normal": "Gaussian", "laplace": "Laplace", "none": "flat"}
METHODS = ("SGLD", "BBP", "MC Dropout", "SGD")
Line = tuple[str, ...]
"""Of a paper's table: key, algorithm, prior, network and its numbers."""


def _lines(text: str) -> list[Line]:
    return [tuple(line.split(", ")) for line in text.strip().splitlines()]


TABLE_1_PRINTED = _lines("""
Z12, SGLD, normal, MLP, 0.90, 0.95
Z13, SGLD, laplace, MLP, 0.89, 0.90
Z14, SGLD, normal, CNN, 0.95, 0.96
Z15, BBP, normal, MLP, 0.80, 0.97
Z16, BBP, laplace, MLP, 0.81, 0.98
Z17, MC Dropout, normal, MLP, 0.78, 0.98
Z18, MC Dropout, normal, CNN, 0.77, 0.97
Z19, SGD, none, MLP, 0.77, 0.97
Z20, SGD, none, CNN, 0.95, 0.99
""")
"""Accuracy with and without privacy."""
TABLE_2_PRINTED = _lines("""
Z31, BBP, normal, MLP, 0.204, 0.641, 0.024, 0.052
Z32, BBP, none, MLP, 0.167, 0.141, 0.166, 0.166
Z33, SGLD, normal, MLP, 0.007, 0.175, 0.035, 0.175
Z34, SGLD, none, MLP, 0.126, 0.465, 0.008, 0.289
Z35, MC Dropout, normal, MLP, 0.008, 0.080, 0.030, 0.041
Z36, MC Dropout, none, MLP, 0.078, 0.225, 0.002, 0.725
Z37, SGD, normal, MLP, 0.013, 0.089, 0.016, 0.139
Z38, SGD, none, MLP, 0.106, 0.625, 0.005, 0.299
""")
"""ECE and MCE with privacy, then without."""
TABLE_3_PRINTED = _lines("""
Z46, SGLD, normal, MLP, 0.510, 0.523
Z47, BBP, normal, MLP, 1.276, 0.562
Z48, MC Dropout, normal, MLP, 0.682, 0.591
""")
"""Mean squared error with and without privacy, medians of 20 simulations."""
_CELLS = [line[1:4] for line in TABLE_1_PRINTED]


def rows(done: Done) -> Iterator[Row]:
    """One a run; of the drawn simulation one a point of its bands and of its data as well."""
    plain = {name: value for name, value in done.result.items() if not isinstance(value, list | dict)}
    yield {**done.tags, **plain}
    if done.tags.get("judges") and done.tags["seed"] == plans.DRAWN:
        yield from ({**done.tags, **point} for point in done.result["points"])


def _image(name: str, algorithm: str, prior: str = "normal", network: str = "MLP", *, private: bool = True) -> Cell:
    where = {"algorithm": algorithm, "prior": prior, "network": network, "private": private, "held_out": 0}
    return Cell(name, where, examples="n" if "accuracy" in name else None, exact=name == "epsilon")


def _numbers(place: str, why: str, lines: Sequence[Line], ours: Mapping[str, Callable[..., Number]]) -> list[Printed]:
    """A paper's table beside ours: by heading, what makes a number of algorithm, prior and network."""
    return [
        Printed(
            answers=(line[0],),
            place=place,
            what=f"{line[1]}, {PRIORS[line[2]]}, {line[3]}",
            numbers={name: (found, number(*line[1:4]))
                     for (name, number), found in zip_longest(ours.items(), line[4:])},
            why=why,
        )
        for line in lines
    ]  # fmt: skip


_accuracy = partial(_image, "accuracy")
_RIVALS = [one for one in _CELLS if one[0] != "SGLD"]
_ACCURACIES = {
    f"{algorithm.split()[-1]}_{network}{'' if private else '_plain'}".lower(): _accuracy(
        algorithm, prior, network, private=private
    )
    for (algorithm, prior, network), private in product(_CELLS, plans.EITHER)
    if prior != "laplace"
}
"""By names such as sgld_mlp and dropout_cnn_plain."""
TABLE_1 = Study(
    name="dp-bnn-accuracy",
    title="Accuracy of private Bayesian networks on MNIST",
    paper="Zhang, Bu et al., 2021, Table 1",
    jobs=partial(plans.table_1_jobs, _CELLS),
    rows=rows,
    sentences=(
        Sentence(
            answers=("Z02",),
            place="Theorem 1",
            printed="Every DP-SGLD is equivalent to some DP-SGD.",
            ours="DP-SGLD's last weights have an accuracy of {langevin:.4f}, those of DP-SGD at its numbers "
            "{descent:.4f}.",
            holds=within(_image("last_accuracy", "SGLD"), _accuracy(*plans.TWIN), 0.005),
            evidence={"langevin": _image("last_accuracy", "SGLD"), "descent": _accuracy(*plans.TWIN)},
        ),
        Sentence(
            answers=("Z23", "Z24"),
            place="5.1",
            printed="DP-SGLD outperforms other Bayesian and non-Bayesian methods, with a clear advantage on the CNN.",
            ours="On the MLP DP-SGLD has {sgld_mlp}, DP-BBP {bbp_mlp}, DP-MC Dropout {dropout_mlp} and DP-SGD "
            "{sgd_mlp}; on the CNN DP-SGLD has {sgld_cnn:.3f}, DP-MC Dropout {dropout_cnn:.3f} and DP-SGD {sgd_cnn}.",
            holds=Every([
                Below(_accuracy(*one), _accuracy("SGLD", "normal", one[2]), margin=0.01) for one in _RIVALS
            ]),
            evidence=_ACCURACIES,
            why="A lead counts from one point.",
        ),
        Sentence(
            answers=("Z25", "Z26"),
            place="5.1",
            printed="DP-SGLD does not deteriorate comparing to its non-DP version, while other methods experience an "
            "accuracy drop of about 20%.",
            ours="On the MLP privacy takes SGLD from {sgld_mlp_plain} to {sgld_mlp}, BBP from {bbp_mlp_plain} to "
            "{bbp_mlp}, MC Dropout from {dropout_mlp_plain} to {dropout_mlp}, SGD from {sgd_mlp_plain} to {sgd_mlp}.",
            holds=Every([
                Below(_accuracy("SGLD", private=False), _accuracy("SGLD"), margin=-0.06),
                *(Below(_accuracy(*one), _accuracy(*one, private=False), margin=0.1)
                  for one in _RIVALS if "MLP" in one),
            ]),
            evidence=_ACCURACIES,
            why="DP-SGLD may lose 6 points, a little more than printed; the others must lose 10.",
        ),
    ),
    numbers=_numbers(
        "Table 1, accuracy on MNIST",
        "Layers of 200 rather than 1200, 3 epochs (CNN: 2) rather than 15, 20 members rather than 100; DP-BBP and "
        "DP-MC Dropout at the best of five rates.",
        TABLE_1_PRINTED,
        {"with privacy": _accuracy, "without": partial(_accuracy, private=False),
         "epsilon at most": partial(_image, "epsilon")},
    ),
)  # fmt: skip


def _smaller(one: tuple[str, str, bool], other: tuple[str, str, bool]) -> Relation:
    """Whether the MCE of filled bins is a tenth smaller for one method, prior and privacy than for another."""
    return Below(*(_image("filled_mce", *cell, private=private) for *cell, private in (one, other)), share=0.1)


_PLAIN, _PRIVATE = ([_smaller((one, "normal", flag), (one, "none", flag)) for one in METHODS] for flag in (False, True))
_WORSE = [_smaller((one, "none", False), (one, "none", True)) for one in METHODS]
_BAYESIAN = [_smaller((one, prior, private), ("SGD", prior, private))
             for one, prior, private in product(METHODS[:3], ("normal", "none"), plans.EITHER)]  # fmt: skip
TABLE_2 = Study(
    name="dp-bnn-calibration",
    title="Calibration of private Bayesian networks, with and without prior",
    paper="Zhang, Bu et al., 2021, Table 2",
    jobs=partial(plans.table_2_jobs, [line[1:4] for line in TABLE_2_PRINTED]),
    rows=rows,
    sentences=(
        Sentence(
            answers=("Z39", "Z40"),
            place="5.1",
            printed="On the MLP the Gaussian prior significantly improves the MCE, in the non-DP regime and in the DP "
            "regime.",
            ours="The MCE of filled bins, which the table does not print, is a tenth smaller with the prior for "
            "{plain} of 4 methods without privacy, for {private} with it.",
            holds=Every([Most(_PLAIN), Most(_PRIVATE)]),
            evidence={"plain": count(_PLAIN), "private": count(_PRIVATE)},
        ),
        Sentence(
            answers=("Z41",),
            place="5.1",
            printed="DP leads to worse MCE when the non-informative prior is used.",
            ours="Privacy makes the MCE of filled bins a tenth larger for {worse} of 4 methods.",
            holds=Most(_WORSE),
            evidence={"worse": count(_WORSE)},
            why="The printed table has 2 of 4 as well.",
        ),
        Sentence(
            answers=("Z43",),
            place="5.1",
            printed="BNNs often enjoy smaller MCE than the regular MLP.",
            ours="The MCE of filled bins is a tenth smaller in {smaller} of 12 comparisons.",
            holds=Most(_BAYESIAN),
            evidence={"smaller": count(_BAYESIAN)},
            why="A filled bin holds a hundredth of the test images.",
        ),
    ),
    numbers=_numbers(
        "Table 2, calibration errors of the MLP",
        "ECE has one bin, as in the authors' notebooks; their MCE leaves out bins without a right prediction, ours "
        "none. Rates are those of Table 1.",
        TABLE_2_PRINTED,
        {f"{'DP-' if private else ''}{heading}": partial(_image, name, private=private)
         for private, (heading, name) in product(plans.EITHER, (("ECE", "one_bin_ece"), ("MCE", "mce")))},
    ),
)  # fmt: skip


def _step(name: str, algorithm: str, clip: float, sigma: float | None = None) -> Cell:
    noise: Row = {"noise_multiplier": sigma} if sigma else {}
    return cell(name, examples="n", algorithm=algorithm, clip_norm=clip, **noise)


FIGURE_1 = Study(
    name="dp-bnn-tradeoff",
    title="Accuracy against epsilon of DP-SGLD among DP-SGDs",
    paper="Zhang, Bu et al., 2021, Figure 1",
    jobs=plans.figure_1_jobs,
    rows=rows,
    sentences=(
        Sentence(
            answers=("Z04",),
            place="Figure 1",
            printed="DP-SGLD is superior to other members of the DP-SGD family, as it occupies the top left corner.",
            ours="After two epochs DP-SGLD has an accuracy of {own:.4f} at an epsilon of {epsilon:up}, DP-SGD "
            "{other:.4f} at {less:up}.",
            holds=Every([
                Below(_step("accuracy", "SGD", clip, sigma), _step("accuracy", "SGLD", own))
                for own, sigma in ((1.0, 2.0), (1.5, 2.0), (1.5, 0.9)) for clip in (0.5, 1.5, 5.0)
            ]),
            evidence={"own": _step("accuracy", "SGLD", 1.5), "other": _step("accuracy", "SGD", 5.0, 0.9),
                      "epsilon": _step("epsilon", "SGLD", 1.5), "less": _step("epsilon", "SGD", 5.0, 0.9)},
            why="One seed; its lead lies within the noise of the test set.",
        ),
    ),
)  # fmt: skip


def _curve(name: str, algorithm: str, *_: str, private: bool = True) -> Cell:
    where = {"part": "run", "judges": True, "algorithm": algorithm, "private": private}
    return Cell(name, where, exact=name == "epsilon")


def _effect(name: str, algorithm: str) -> Number:
    """With privacy over without."""
    return ratio(_curve(name, algorithm), _curve(name, algorithm, private=False))


def _median(algorithm: str, *_: str, private: bool) -> Number:
    every = _curve("train_mse", algorithm, private=private)
    return made_of(lambda found: Measured({0: statistics.median(found.values.values())}), every)


def _bands(table: pl.DataFrame) -> Figure:
    """Mean prediction with the aleatoric and the total deviation around it, and the data."""
    drawn, grid = style.figure(2, 3, width=3.0, height=2.5)
    for axes, (private, name) in zip(chain(*grid), product(plans.EITHER, METHODS[:3]), strict=True):
        own = part(table, judges=True, private=private, algorithm=name)
        band, data = part(own, part="band"), part(own, part="data")
        for parts, colour in ((["aleatoric", "epistemic"], "tab:orange"), (["aleatoric"], "tab:blue")):
            wide = band.select(pl.sum_horizontal(parts).sqrt()).to_series()
            axes.fill_between(band["x"], band["mean"] - wide, band["mean"] + wide, color=colour, alpha=0.4,
                              label=f"{' and '.join(parts)} deviation")  # fmt: skip
        axes.plot(data["x"], data["y"], "x", color="0.3", markersize=2, label="data")
        axes.plot(band["x"], band["mean"], "k", label="mean prediction")
        axes.set(ylim=(-4.0, 4.0), xlabel="x", ylabel="y", title=f"{'DP-' if private else ''}{name}")
    drawn.legend(*grid[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    drawn.suptitle(f"The median simulation, n = 250, epsilon {table['epsilon'].max():.2f}, delta 0.001")
    return drawn


_OVER = {one: ratio(_curve("test_mse", one), _curve("test_mse", "SGLD")) for one in ("BBP", "MC Dropout")}
_MOVED = {f"{one}_{name}".lower(): _effect(f"{name}_std", one)
          for one, name in product(("SGLD", "BBP"), ("epistemic", "aleatoric"))}  # fmt: skip
TABLE_3 = Study(
    name="dp-bnn-regression",
    title="Heteroscedastic regression: error and uncertainty under privacy",
    paper="Zhang, Bu et al., 2021, Table 3 and Figure 4",
    jobs=plans.curve_jobs,
    rows=rows,
    figures={"figure": _bands},
    sentences=(
        Sentence(
            answers=("Z49",),
            place="5.2",
            printed="SGLD is surprisingly accurate in both DP and non-DP scenarios.",
            ours="Its squared error on new points is {ratio:.3f} times as large with privacy as without.",
            holds=Below(_effect("test_mse", "SGLD"), 1.1),
            evidence={"ratio": _effect("test_mse", "SGLD")},
        ),
        Sentence(
            answers=("Z51",),
            place="5.2",
            printed="DP-SGLD has much better mean squared error than DP-BBP and DP-MC Dropout.",
            ours="On new points DP-BBP's error is {bbp:.3f} times DP-SGLD's and DP-MC Dropout's {dropout:.3f} times.",
            holds=Every([Below(1.1, one) for one in _OVER.values()]),
            evidence={"bbp": _OVER["BBP"], "dropout": _OVER["MC Dropout"]},
            why="Much better counts from a tenth, over 41 simulations.",
        ),
        Sentence(
            answers=("Z52",),
            place="5.2",
            printed="The prediction uncertainty of SGLD and BBP is barely affected by DP.",
            ours="Privacy makes SGLD's epistemic deviation {sgld_epistemic:.2f} times as large and its aleatoric one "
            "{sgld_aleatoric:.2f} times, BBP's {bbp_epistemic:.2f} and {bbp_aleatoric:.2f} times.",
            holds=Every([relation for one in _MOVED.values() for relation in (Below(one, 4 / 3), Below(3 / 4, one))]),
            evidence=_MOVED,
        ),
    ),
    numbers=_numbers(
        "Table 3, mean squared error of the regression",
        "Medians over simulations, on training points; the paper's epsilon is lost in the text. Step sizes were "
        "searched for each method, with privacy and without, on other simulations.",
        TABLE_3_PRINTED,
        {"with privacy": partial(_median, private=True), "without": partial(_median, private=False),
         "epsilon at most": partial(_curve, "epsilon")},
    ),
)  # fmt: skip


def _limits(table: pl.DataFrame) -> Figure:
    """What the central limit lacks of the proved lower end, by noise multiplier, for each paper's settings."""
    drawn, ((axes,),) = style.figure(1, 1, width=5.8, height=3.6)
    groups = {f"Zhang, Bu: {one} epochs": {"batch": 256, "epochs": one} for one in plans.EPOCHS}
    for (label, where), mark in zip((groups | {"Knolle": plans.KNOLLE}).items(), "os^", strict=True):
        own = part(table, **where)
        axes.plot(own["noise_multiplier"], own["lacks"], mark, label=label, alpha=0.7)
    axes.set(yscale="log", xlabel="noise multiplier", title=f"n = {plans.SIZE:,}, delta {plans.DELTA:g}")
    axes.set_ylabel("share of the proved lower end\nthat the central limit lacks")
    axes.legend()
    return drawn


def _account(name: str, **where: Any) -> Cell:
    return exactly(name, **{"batch": 256, "noise_multiplier": 1.3, "epochs": 15} | where)


def _valid(**where: Any) -> Relation:
    """Whether the central limit's epsilon is not below the proved lower end."""
    return Below(_account("lower", **where), _account("central_limit", **where))


_DP = {"base": _account("upper"), "more": _account("upper", batch=512)}
_DP |= {name: _account("upper", **plans.langevin(*one)) for name, one in plans.EFFECTS.items()}
ACCOUNTING = Study(
    name="central-limit",
    title="Epsilon by the central limit beside proved bounds, at the papers' settings",
    paper="Zhang, Bu et al., 2021, Theorems 2 and 3, Figure 2; Knolle et al., 2021, 4.1",
    jobs=plans.accounting_jobs,
    rows=rows,
    figures={"figure": _limits},
    sentences=(
        Sentence(
            answers=("Z01", "Z03"),
            place="2, Theorems 2 and 3",
            printed="Gaussian differential privacy and the moments accountant both give valid upper bounds of epsilon.",
            ours="At noise multiplier 1.3 and 15 epochs the former's central limit says {limit:.4f}, where at least "
            "{lower:.4f} is proved; it is {least:.1%} low at noise 3 and {most:.1%} at 0.5.",
            holds=Every([_valid(noise_multiplier=sigma) for sigma in plans.SIGMAS]),
            evidence={"limit": _account("central_limit"), "lower": _account("lower"),
                      "least": _account("lacks", noise_multiplier=plans.SIGMAS[-1]),
                      "most": _account("lacks", noise_multiplier=plans.SIGMAS[0])},
            why="The moments accountant proves its bound.",
        ),
        Sentence(
            answers=("Z05", "Z06", "Z07", "Z08", "Z09"),
            place="4.4, Figure 2",
            printed="DP-SGLD with larger |B|, smaller C or smaller η is more private, while smaller |B| amplifies the "
            "privacy for DP-SGD, on which C and η have no effect.",
            ours="DP-SGLD's epsilon of {own:up} becomes {batch:up} with twice |B|, {clip:up} with half of C and "
            "{rate:up} with half of η; DP-SGD's of {base:up} becomes {more:up} with twice |B|.",
            holds=Every([*(Below(_DP[name], _DP["own"]) for name in ("batch", "clip", "rate")),
                         Below(_DP["base"], _DP["more"])]),
            evidence=_DP,
            why="All are after 15 epochs.",
        ),
    ),
)  # fmt: skip
BESIDE_KNOLLE: tuple[Sentence, ...] = (
    Sentence(
        answers=("K07",),
        place="4.1",
        printed="Gaussian differential privacy offers a tighter bound on the privacy loss.",
        ours="At our settings of MNIST its central limit says {limit:.4f}, where at least {lower:.4f} is proved.",
        holds=_valid(**plans.KNOLLE),
        evidence={"limit": _account("central_limit", **plans.KNOLLE), "lower": _account("lower", **plans.KNOLLE)},
        why="Less than what is proved to be spent is no bound.",
    ),
)
"""Of the study central-limit."""
SECTION = Section(
    title="Private Bayesian networks (Zhang, Bu et al. 2021)",
    about="The paper makes SGLD, Bayes by Backprop and MC Dropout private and compares them with DP-SGD by accuracy, "
    "calibration and regression error. Its text lacks the appendix; settings are those of the authors' notebooks. "
    "Private rates of DP-BBP and DP-MC Dropout were searched on data that do not judge, and are not counted in any "
    "epsilon. Four seeds in Table 1, six in Table 2.",
    studies=(TABLE_1, TABLE_2, FIGURE_1, TABLE_3, ACCOUNTING),
    figure=(
        "central-limit",
        "figure",
        "How far the central limit's epsilon falls short of what is proved to be spent.",
    ),
)
