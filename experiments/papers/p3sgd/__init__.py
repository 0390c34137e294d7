"""P3SGD (Wu et al. 2019): patient-level privacy as a regulariser. Tables 1 and 3, Table 2, Figures 2 and 3."""

from experiments.papers.p3sgd import figure_2, figure_3, table_1, table_2

STUDIES = (table_1.STUDY, table_2.STUDY, figure_2.STUDY, figure_3.STUDY)
