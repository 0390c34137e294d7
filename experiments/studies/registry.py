"""All studies by name. A line makes a study: its module is imported when the study is asked for."""

import importlib

from experiments.study import Study

STUDIES = {
    "certificates": "experiments.papers.certificates:STUDY",
    "random-labels": "experiments.papers.random_labels:RANDOM_LABELS",
    "entropy-sgld-figure-1": "experiments.papers.entropy_sgld:FIGURE_1",
    "entropy-sgld-figure-2": "experiments.papers.entropy_sgld:FIGURE_2",
    "entropy-sgld-figure-3": "experiments.papers.entropy_sgld:FIGURE_3",
    "entropy-sgld-figure-4": "experiments.papers.entropy_sgld:FIGURE_4",
    "entropy-sgld-figure-5": "experiments.papers.entropy_sgld_cifar:FIGURE_5",
    "entropy-sgld-figure-6": "experiments.papers.entropy_sgld_cifar:FIGURE_6",
    "random-labels-corruption": "experiments.papers.random_labels:CORRUPTION",
    "knolle-table-1": "experiments.papers.knolle:TABLE_1",
    "knolle-table-2": "experiments.papers.knolle:TABLE_2",
    "knolle-figure-1": "experiments.papers.knolle:FIGURE_1",
    "knolle-ablation": "experiments.papers.knolle:ABLATION",
    "dp-bnn-accuracy": "experiments.papers.bayesian_dp:TABLE_1",
    "dp-bnn-calibration": "experiments.papers.bayesian_dp:TABLE_2",
    "dp-bnn-reliability": "experiments.papers.bayesian_dp_figures:FIGURES_3_7",
    "dp-bnn-tradeoff": "experiments.papers.bayesian_dp_figures:FIGURES_1_2",
    "dp-bnn-regression": "experiments.papers.bayesian_dp_regression:REGRESSION",
    "p3sgd-table-1": "experiments.papers.p3sgd:TABLE_1",
    "p3sgd-table-2": "experiments.papers.p3sgd:TABLE_2",
    "p3sgd-figure-2": "experiments.papers.p3sgd_figures:FIGURE_2",
    "p3sgd-figure-3": "experiments.papers.p3sgd_figures:FIGURE_3",
}
"""Where the study of each name is: module:attribute."""


def study(name: str) -> Study:
    """The study of that name.

    Raises:
        ValueError: there is none.
    """
    if name not in STUDIES:
        raise ValueError(f"no study is called {name!r}: choose one of\n{titles()}")
    module, attribute = STUDIES[name].split(":")
    found: Study = getattr(importlib.import_module(module), attribute)
    return found


def titles() -> str:
    """A line for every study: name, title and paper."""
    width = max(map(len, STUDIES))
    found = (study(name) for name in STUDIES)
    return "\n".join(f"  {one.name:{width}}  {one.title} ({one.paper})" for one in found)
