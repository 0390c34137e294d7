"""Upper bounds on risk, with everything they rest on: PAC-Bayes, private priors, test sets.

A bound is a function with keyword-only arguments; it returns a ``Certificate``. ``failure_prob`` is the probability
that a bound fails; ``epsilon`` belongs to differential privacy; divergences are in nats. The theorems, with proofs,
are in docs/guarantees.md.
"""

from bounds.budget import FailureBudget as FailureBudget
from bounds.certificate import Certificate as Certificate
from bounds.divergence import gaussian_kl as gaussian_kl
from bounds.gibbs import GibbsKL as GibbsKL
from bounds.gibbs import StreamingLogMeanExp as StreamingLogMeanExp
from bounds.gibbs import effective_sample_size as effective_sample_size
from bounds.gibbs import gibbs_kl as gibbs_kl
from bounds.gibbs import log_partition_lower as log_partition_lower
from bounds.gibbs import weighted_average_size as weighted_average_size
from bounds.information import InExpectation as InExpectation
from bounds.information import in_expectation_nats as in_expectation_nats
from bounds.information import markov_transfer_nats as markov_transfer_nats
from bounds.kl import binary_kl as binary_kl
from bounds.kl import binary_kl_lower as binary_kl_lower
from bounds.kl import binary_kl_upper as binary_kl_upper
from bounds.pac_bayes import catoni as catoni
from bounds.pac_bayes import linear as linear
from bounds.pac_bayes import log_xi as log_xi
from bounds.pac_bayes import maurer as maurer
from bounds.pac_bayes import mcallester as mcallester
from bounds.pac_bayes import quadratic as quadratic
from bounds.pac_bayes import thiemann as thiemann
from bounds.privacy import ApproxDP as ApproxDP
from bounds.privacy import GaussianDP as GaussianDP
from bounds.privacy import PrivacyClaim as PrivacyClaim
from bounds.privacy import PureDP as PureDP
from bounds.privacy import ZeroConcentratedDP as ZeroConcentratedDP
from bounds.privacy import exponential_mechanism_epsilon as exponential_mechanism_epsilon
from bounds.privacy_loss import PrivacyLossDistribution as PrivacyLossDistribution
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
from bounds.private_pac_bayes import hybrid_pac_bayes as hybrid_pac_bayes
from bounds.private_pac_bayes import private_catoni as private_catoni
from bounds.private_pac_bayes import private_kl_chernoff as private_kl_chernoff
from bounds.private_pac_bayes import private_pac_bayes as private_pac_bayes
from bounds.tails import clopper_pearson_lower as clopper_pearson_lower
from bounds.tails import clopper_pearson_upper as clopper_pearson_upper
from bounds.tails import hoeffding_upper as hoeffding_upper
from bounds.tails import kl_chernoff_upper as kl_chernoff_upper
from bounds.transfer import TransferCost as TransferCost
from bounds.transfer import max_information_composition as max_information_composition
from bounds.transfer import transfer_cost as transfer_cost
