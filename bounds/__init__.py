"""Upper bounds on risk, with everything they rest on: PAC-Bayes, private priors, test sets.

A bound is a function with keyword-only arguments; it returns a ``Certificate``. ``failure_prob`` is the probability
that a bound fails; ``epsilon`` belongs to differential privacy; divergences are in nats. The theorems, with proofs,
are in docs/guarantees.md.
"""

from bounds.annealing import ThermodynamicEstimate as ThermodynamicEstimate
from bounds.annealing import annealed_log_weights as annealed_log_weights
from bounds.annealing import thermodynamic_integration as thermodynamic_integration
from bounds.budget import FailureBudget as FailureBudget
from bounds.certificate import Certificate as Certificate
from bounds.combine import best_of as best_of
from bounds.combine import overall_certificate as overall_certificate
from bounds.divergence import gaussian_kl as gaussian_kl
from bounds.gibbs import GibbsKL as GibbsKL
from bounds.gibbs import gibbs_kl as gibbs_kl
from bounds.gibbs import gibbs_kl_lower as gibbs_kl_lower
from bounds.gibbs import gibbs_kl_upper as gibbs_kl_upper
from bounds.gibbs_posterior import dp_gibbs_pac_bayes as dp_gibbs_pac_bayes
from bounds.gibbs_posterior import gibbs_catoni as gibbs_catoni
from bounds.gibbs_posterior import gibbs_pac_bayes as gibbs_pac_bayes
from bounds.kl import binary_kl as binary_kl
from bounds.kl import binary_kl_lower as binary_kl_lower
from bounds.kl import binary_kl_upper as binary_kl_upper
from bounds.monte_carlo import correlated_risk_upper as correlated_risk_upper
from bounds.monte_carlo import effective_sample_size as effective_sample_size
from bounds.monte_carlo import gibbs_risk_upper as gibbs_risk_upper
from bounds.monte_carlo import weighted_average_size as weighted_average_size
from bounds.monte_carlo import weighted_risk_upper as weighted_risk_upper
from bounds.pac_bayes import catoni as catoni
from bounds.pac_bayes import linear as linear
from bounds.pac_bayes import log_xi as log_xi
from bounds.pac_bayes import maurer as maurer
from bounds.pac_bayes import mcallester as mcallester
from bounds.pac_bayes import quadratic as quadratic
from bounds.pac_bayes import thiemann as thiemann
from bounds.partition import LogPartition as LogPartition
from bounds.partition import StreamingLogMeanExp as StreamingLogMeanExp
from bounds.partition import log_partition_best as log_partition_best
from bounds.partition import log_partition_chernoff as log_partition_chernoff
from bounds.partition import log_partition_jensen as log_partition_jensen
from bounds.partition import log_partition_lower as log_partition_lower
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
from bounds.tails import clopper_pearson_lower as clopper_pearson_lower
from bounds.tails import clopper_pearson_upper as clopper_pearson_upper
from bounds.tails import hoeffding_upper as hoeffding_upper
from bounds.tails import kl_chernoff_upper as kl_chernoff_upper
