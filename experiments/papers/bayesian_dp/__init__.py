"""Zhang, Bu, Chen and Long (2021), "Differentially Private Bayesian Neural Networks on Accuracy, Privacy and
Reliability": its tables and figures.
"""

from experiments.papers.bayesian_dp import accuracy, calibration, regression, reliability, tradeoff

STUDIES = (accuracy.STUDY, calibration.STUDY, reliability.STUDY, tradeoff.STUDY, regression.STUDY)
