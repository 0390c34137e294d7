"""Dziugaite and Roy (2018), "Entropy-SGD optimizes the prior of a PAC-Bayes bound": a study for each of its figures."""

from experiments.papers.entropy_sgld import figure_1, figure_5, figure_6
from experiments.papers.entropy_sgld.figures_2_3_4 import FIGURE_2, FIGURE_3, FIGURE_4
from experiments.study import Study

STUDIES: tuple[Study, ...] = (figure_1.STUDY, FIGURE_2, FIGURE_3, FIGURE_4, figure_5.STUDY, figure_6.STUDY)
"""entropy-sgld-figure-1 to -6."""
