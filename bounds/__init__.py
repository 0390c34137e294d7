"""Upper bounds on risk, with everything they rest on: PAC-Bayes, private priors, test sets.

A bound is a function with keyword-only arguments; it returns a ``Certificate``. ``failure_prob`` is the probability
that a bound fails; ``epsilon`` belongs to differential privacy; divergences are in nats. The theorems, with proofs,
are in docs/guarantees.md.
"""

from bounds.budget import FailureBudget as FailureBudget
from bounds.certificate import Certificate as Certificate
from bounds.disintegrated import disintegrated as disintegrated
from bounds.disintegrated import disintegrated_renyi as disintegrated_renyi
from bounds.disintegrated import gaussian_log_density_ratio as gaussian_log_density_ratio
from bounds.disintegrated import gaussian_renyi as gaussian_renyi
from bounds.divergence import gaussian_kl as gaussian_kl
from bounds.gibbs import GibbsKL as GibbsKL
from bounds.gibbs import StreamingLogMeanExp as StreamingLogMeanExp
from bounds.gibbs import effective_sample_size as effective_sample_size
from bounds.gibbs import gibbs_kl as gibbs_kl
from bounds.gibbs import log_partition_lower as log_partition_lower
from bounds.gibbs import weighted_average_size as weighted_average_size
from bounds.grids import GridScale as GridScale
from bounds.grids import catoni_grid as catoni_grid
from bounds.grids import prior_scale_grid as prior_scale_grid
from bounds.kl import binary_kl as binary_kl
from bounds.kl import binary_kl_lower as binary_kl_lower
from bounds.kl import binary_kl_upper as binary_kl_upper
from bounds.kl_gradient import binary_kl_lower_gradient as binary_kl_lower_gradient
from bounds.kl_gradient import binary_kl_upper_gradient as binary_kl_upper_gradient
from bounds.means import betting_upper as betting_upper
from bounds.means import empirical_bernstein_upper as empirical_bernstein_upper
from bounds.means import second_moment_upper as second_moment_upper
from bounds.objectives import KLObjective as KLObjective
from bounds.objectives import best_lambda as best_lambda
from bounds.objectives import cost_per_example as cost_per_example
from bounds.objectives import f_classic as f_classic
from bounds.objectives import f_kl as f_kl
from bounds.objectives import f_lambda as f_lambda
from bounds.objectives import f_quad as f_quad
from bounds.pac_bayes import catoni as catoni
from bounds.pac_bayes import langford_seeger as langford_seeger
from bounds.pac_bayes import linear as linear
from bounds.pac_bayes import log_xi as log_xi
from bounds.pac_bayes import maurer as maurer
from bounds.pac_bayes import mcallester as mcallester
from bounds.pac_bayes import quadratic as quadratic
from bounds.pac_bayes import thiemann as thiemann
from bounds.pac_bayes import tolstikhin_seldin as tolstikhin_seldin
from bounds.privacy import PureDP as PureDP
from bounds.privacy import exponential_mechanism_epsilon as exponential_mechanism_epsilon
from bounds.private import dp_chernoff as dp_chernoff
from bounds.private import dp_chernoff_2018 as dp_chernoff_2018
from bounds.private import dp_hoeffding as dp_hoeffding
from bounds.private import dp_hoeffding_2018 as dp_hoeffding_2018
from bounds.private import dp_kl_chernoff as dp_kl_chernoff
from bounds.private import dp_pac_bayes as dp_pac_bayes
from bounds.private import dp_pac_bayes_2018 as dp_pac_bayes_2018
from bounds.private import dp_pac_bayes_max_information as dp_pac_bayes_max_information
from bounds.private import max_information_nats as max_information_nats
from bounds.private import transfer_nats as transfer_nats
from bounds.private import transfer_nats_2018 as transfer_nats_2018
from bounds.recursive import ExcessStep as ExcessStep
from bounds.recursive import recursive as recursive
from bounds.refined import split_kl as split_kl
from bounds.refined import unexpected_bernstein as unexpected_bernstein
from bounds.tails import clopper_pearson_lower as clopper_pearson_lower
from bounds.tails import clopper_pearson_upper as clopper_pearson_upper
from bounds.tails import hoeffding_upper as hoeffding_upper
from bounds.tails import kl_chernoff_upper as kl_chernoff_upper
