"""Upper bounds on risk, with everything they rest on: PAC-Bayes, private priors, test sets.

A bound is a function with keyword-only arguments; it returns a ``Certificate``. ``failure_prob`` is the probability
that a bound fails; ``epsilon`` belongs to differential privacy; divergences are in nats. The theorems, with proofs,
are in docs/guarantees.md.
"""

# Names imported here are public, a line or two for each room.
# ruff: noqa: I001

from bounds import accounting, divergence, gibbs_draws, objectives, partition, printed, transfer
from bounds._threshold_tests import RiskControl, ThresholdTest
from bounds.budget import FailureBudget
from bounds.certificate import Certificate, Cost
from bounds.combine import best_of, overall_certificate, prior_scale_grid
from bounds.compression import compression, compression_weights
from bounds.combine import disagreement
from bounds.exchangeability import Exchangeability, exchangeable
from bounds.gibbs_posterior import gibbs_catoni, gibbs_pac_bayes
from bounds.hypotheses import Hypothesis, declared, proved, unproved
from bounds.kl import binary_kl, binary_kl_lower, binary_kl_upper
from bounds.means import betting_upper, clopper_pearson_lower, clopper_pearson_upper, empirical_bernstein_upper
from bounds.means import hoeffding_upper, kl_chernoff_upper, second_moment_upper
from bounds.monitor import Monitor
from bounds.risk_control import control_false_negatives, control_miscoverage
from bounds.monte_carlo import correlated_risk_upper, gibbs_risk_upper, weighted_risk_upper
from bounds.new_example import new_example_betting, new_example_kl, new_example_pac_bayes
from bounds.noisy_runs import noisy_sum_realised, noisy_sum_worst_case, poisson_sum_realised
from bounds.noisy import OnceSum, PoissonSum, RealisedPoissonSum, RealisedSum, WorstCaseSum
from bounds.pac_bayes import disintegrated, disintegrated_renyi
from bounds.pac_bayes import catoni, catoni_grid, langford_seeger, linear, maurer, mcallester, quadratic, thiemann
from bounds.pac_bayes import tolstikhin_seldin
from bounds.people import PeopleSample, for_a_new_person, new_example_monte_carlo, new_person_bernstein
from bounds.people import new_person_betting, new_person_clopper_pearson, new_person_hoeffding, new_person_kl
from bounds.people import new_person_monte_carlo, new_person_second_moment, people_sample, thinned
from bounds.prices import Accounted, Independent, MaxInformation, Price, Sharp
from bounds.privacy import ApproxDP, GaussianDP, PrivacyClaim, PureDP, ZeroConcentratedDP, exponential_mechanism_epsilon
from bounds.privacy import PrivacyLossDistribution
from bounds.refined import recursive, split_kl, unexpected_bernstein
from bounds.printed import chernoff, hoeffding, kl_chernoff
from bounds.reliability import ece_hoeffding, ece_pac_bayes, ece_second_moment
from bounds.reliability import CalibrationSample, calibration_sample, mce_clopper_pearson
from bounds.reliability import mce_hoeffding
from bounds.risk_control import control_groups, control_risk, control_selective_risk, control_set_size
from bounds.kl import log_xi

__version__ = "0.1.0"
__all__ = [
    "Accounted",
    "ApproxDP",
    "CalibrationSample",
    "Certificate",
    "Cost",
    "Exchangeability",
    "FailureBudget",
    "GaussianDP",
    "Hypothesis",
    "Independent",
    "MaxInformation",
    "Monitor",
    "OnceSum",
    "PeopleSample",
    "PoissonSum",
    "Price",
    "PrivacyClaim",
    "PrivacyLossDistribution",
    "PureDP",
    "RealisedPoissonSum",
    "RealisedSum",
    "RiskControl",
    "Sharp",
    "ThresholdTest",
    "WorstCaseSum",
    "ZeroConcentratedDP",
    "accounting",
    "best_of",
    "betting_upper",
    "binary_kl",
    "binary_kl_lower",
    "binary_kl_upper",
    "calibration_sample",
    "catoni",
    "catoni_grid",
    "chernoff",
    "clopper_pearson_lower",
    "clopper_pearson_upper",
    "compression",
    "compression_weights",
    "control_false_negatives",
    "control_groups",
    "control_miscoverage",
    "control_risk",
    "control_selective_risk",
    "control_set_size",
    "correlated_risk_upper",
    "declared",
    "disagreement",
    "disintegrated",
    "disintegrated_renyi",
    "divergence",
    "ece_hoeffding",
    "ece_pac_bayes",
    "ece_second_moment",
    "empirical_bernstein_upper",
    "exchangeable",
    "exponential_mechanism_epsilon",
    "for_a_new_person",
    "gibbs_catoni",
    "gibbs_draws",
    "gibbs_pac_bayes",
    "gibbs_risk_upper",
    "hoeffding",
    "hoeffding_upper",
    "kl_chernoff",
    "kl_chernoff_upper",
    "langford_seeger",
    "linear",
    "log_xi",
    "maurer",
    "mcallester",
    "mce_clopper_pearson",
    "mce_hoeffding",
    "new_example_betting",
    "new_example_kl",
    "new_example_monte_carlo",
    "new_example_pac_bayes",
    "new_person_bernstein",
    "new_person_betting",
    "new_person_clopper_pearson",
    "new_person_hoeffding",
    "new_person_kl",
    "new_person_monte_carlo",
    "new_person_second_moment",
    "noisy_sum_realised",
    "noisy_sum_worst_case",
    "objectives",
    "overall_certificate",
    "partition",
    "people_sample",
    "poisson_sum_realised",
    "printed",
    "prior_scale_grid",
    "proved",
    "quadratic",
    "recursive",
    "second_moment_upper",
    "split_kl",
    "thiemann",
    "thinned",
    "tolstikhin_seldin",
    "transfer",
    "unexpected_bernstein",
    "unproved",
    "weighted_risk_upper",
]
