"""Upper bounds on risk, with everything they rest on: PAC-Bayes, private priors, test sets.

A bound is a function with keyword-only arguments; it returns a ``Certificate``. ``failure_prob`` is the probability
that a bound fails; ``epsilon`` belongs to differential privacy; divergences are in nats. The theorems, with proofs,
are in docs/guarantees.md.
"""

# Names imported here are public, a line or two for each room.
# ruff: noqa: I001

from bounds import accounting
from bounds._threshold_tests import RiskControl, ThresholdTest
from bounds.budget import FailureBudget
from bounds.certificate import Certificate, Cost
from bounds.combine import GridScale, best_of, overall_certificate, prior_scale_grid
from bounds.compression import compression, compression_weights
from bounds.disagreement import disagreement
from bounds.divergence import (
    gaussian_kl,
    gaussian_log_density_ratio,
    gaussian_renyi,
    triangular_gaussian_kl,
    triangular_log_density_ratio,
)
from bounds.exchangeability import Exchangeability, exchangeable
from bounds.gibbs import GibbsKL, gibbs_kl, gibbs_kl_lower, gibbs_kl_upper
from bounds.gibbs_posterior import gibbs_catoni, gibbs_pac_bayes
from bounds.hypotheses import Hypothesis, declared, proved, unproved
from bounds.kl import binary_kl, binary_kl_lower, binary_kl_upper
from bounds.means import betting_upper, clopper_pearson_lower, clopper_pearson_upper, empirical_bernstein_upper
from bounds.means import hoeffding_upper, kl_chernoff_upper, second_moment_upper
from bounds.monitor import Monitor
from bounds.monotone_control import control_false_negatives, control_miscoverage
from bounds.monte_carlo import correlated_risk_upper, effective_sample_size, gibbs_risk_upper, weighted_average_size
from bounds.monte_carlo import weighted_risk_upper
from bounds.new_example import new_example_betting, new_example_kl, new_example_pac_bayes
from bounds.noisy_plan import NoisySumPlan, langevin_noise, plan_noisy_sum
from bounds.noisy_runs import noisy_sum_realised, noisy_sum_worst_case, poisson_sum, poisson_sum_realised
from bounds.noisy_steps import poisson_log_moments
from bounds.noisy_sums import ORDERS, PoissonSum, RealisedPoissonSum, RealisedSum, WorstCaseSum
from bounds.objectives import KLObjective, best_lambda, binary_kl_lower_gradient, binary_kl_upper_gradient
from bounds.objectives import cost_per_example, f_classic, f_kl, f_lambda, f_quad
from bounds.one_draw import disintegrated, disintegrated_renyi
from bounds.pac_bayes import catoni, catoni_grid, langford_seeger, linear, maurer, mcallester, quadratic, thiemann
from bounds.pac_bayes import tolstikhin_seldin
from bounds.partition import LogPartition, StreamingLogMeanExp, log_partition_best, log_partition_chernoff
from bounds.partition import log_partition_jensen, log_partition_lower
from bounds.people import PeopleSample, for_a_new_person, new_example_monte_carlo, new_person_bernstein
from bounds.people import new_person_betting, new_person_clopper_pearson, new_person_hoeffding, new_person_kl
from bounds.people import new_person_monte_carlo, new_person_second_moment, people_sample, thinned
from bounds.prices import Accounted, Independent, MaxInformation, Price, Printed2018, Sharp
from bounds.privacy import ApproxDP, GaussianDP, PrivacyClaim, PureDP, ZeroConcentratedDP, exponential_mechanism_epsilon
from bounds.privacy_loss import PrivacyLossDistribution
from bounds.private import (
    dp_chernoff,
    dp_ece_pac_bayes,
    dp_gibbs_pac_bayes,
    dp_hoeffding,
    dp_kl_chernoff,
    dp_pac_bayes,
    dp_pac_bayes_2018,
    dp_pac_bayes_max_information,
    hybrid_pac_bayes,
    private_catoni,
    private_ece_pac_bayes,
    private_kl_chernoff,
    private_pac_bayes,
)
from bounds.pure_transfer import max_information_nats, transfer_nats, transfer_nats_2018
from bounds.refined import ExcessStep, recursive, split_kl, unexpected_bernstein
from bounds.released import chernoff, dp_chernoff_2018, dp_hoeffding_2018, hoeffding, kl_chernoff
from bounds.reliability import BrierRisk, brier_risk, ece_hoeffding, ece_pac_bayes, ece_second_moment
from bounds.reliability_bins import CalibrationSample, ConfidenceBin, calibration_sample, mce_clopper_pearson
from bounds.reliability_bins import mce_hoeffding
from bounds.risk_control import control_groups, control_risk, control_selective_risk, control_set_size
from bounds.transfer import (
    InExpectation,
    TransferCost,
    in_expectation_nats,
    markov_transfer_nats,
    max_information_composition,
    transfer_cost,
)
from bounds.xi import log_xi

__version__ = "0.1.0"
__all__ = [
    "ORDERS",
    "Accounted",
    "ApproxDP",
    "BrierRisk",
    "CalibrationSample",
    "Certificate",
    "ConfidenceBin",
    "Cost",
    "ExcessStep",
    "Exchangeability",
    "FailureBudget",
    "GaussianDP",
    "GibbsKL",
    "GridScale",
    "Hypothesis",
    "InExpectation",
    "Independent",
    "KLObjective",
    "LogPartition",
    "MaxInformation",
    "Monitor",
    "NoisySumPlan",
    "PeopleSample",
    "PoissonSum",
    "Price",
    "Printed2018",
    "PrivacyClaim",
    "PrivacyLossDistribution",
    "PureDP",
    "RealisedPoissonSum",
    "RealisedSum",
    "RiskControl",
    "Sharp",
    "StreamingLogMeanExp",
    "ThresholdTest",
    "TransferCost",
    "WorstCaseSum",
    "ZeroConcentratedDP",
    "accounting",
    "best_lambda",
    "best_of",
    "betting_upper",
    "binary_kl",
    "binary_kl_lower",
    "binary_kl_lower_gradient",
    "binary_kl_upper",
    "binary_kl_upper_gradient",
    "brier_risk",
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
    "cost_per_example",
    "declared",
    "disagreement",
    "disintegrated",
    "disintegrated_renyi",
    "dp_chernoff",
    "dp_chernoff_2018",
    "dp_ece_pac_bayes",
    "dp_gibbs_pac_bayes",
    "dp_hoeffding",
    "dp_hoeffding_2018",
    "dp_kl_chernoff",
    "dp_pac_bayes",
    "dp_pac_bayes_2018",
    "dp_pac_bayes_max_information",
    "ece_hoeffding",
    "ece_pac_bayes",
    "ece_second_moment",
    "effective_sample_size",
    "empirical_bernstein_upper",
    "exchangeable",
    "exponential_mechanism_epsilon",
    "f_classic",
    "f_kl",
    "f_lambda",
    "f_quad",
    "for_a_new_person",
    "gaussian_kl",
    "gaussian_log_density_ratio",
    "gaussian_renyi",
    "gibbs_catoni",
    "gibbs_kl",
    "gibbs_kl_lower",
    "gibbs_kl_upper",
    "gibbs_pac_bayes",
    "gibbs_risk_upper",
    "hoeffding",
    "hoeffding_upper",
    "hybrid_pac_bayes",
    "in_expectation_nats",
    "kl_chernoff",
    "kl_chernoff_upper",
    "langevin_noise",
    "langford_seeger",
    "linear",
    "log_partition_best",
    "log_partition_chernoff",
    "log_partition_jensen",
    "log_partition_lower",
    "log_xi",
    "markov_transfer_nats",
    "maurer",
    "max_information_composition",
    "max_information_nats",
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
    "overall_certificate",
    "people_sample",
    "plan_noisy_sum",
    "poisson_log_moments",
    "poisson_sum",
    "poisson_sum_realised",
    "prior_scale_grid",
    "private_catoni",
    "private_ece_pac_bayes",
    "private_kl_chernoff",
    "private_pac_bayes",
    "proved",
    "quadratic",
    "recursive",
    "second_moment_upper",
    "split_kl",
    "thiemann",
    "thinned",
    "tolstikhin_seldin",
    "transfer_cost",
    "transfer_nats",
    "transfer_nats_2018",
    "triangular_gaussian_kl",
    "triangular_log_density_ratio",
    "unexpected_bernstein",
    "unproved",
    "weighted_average_size",
    "weighted_risk_upper",
]
