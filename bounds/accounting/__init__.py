"""Privacy accounting: what a composed mechanism promises, bounded from above, and from below to say how tightly.

A mechanism is described by events; every question names the neighbouring relation. docs/accounting.md tells what is
proved, and how.
"""

from bounds.accounting.accountant import privacy_delta as privacy_delta
from bounds.accounting.accountant import privacy_epsilon as privacy_epsilon
from bounds.accounting.events import Composed as Composed
from bounds.accounting.events import Event as Event
from bounds.accounting.events import ExponentialMechanism as ExponentialMechanism
from bounds.accounting.events import Gaussian as Gaussian
from bounds.accounting.events import NonPrivate as NonPrivate
from bounds.accounting.events import PoissonSampled as PoissonSampled
from bounds.accounting.events import SelfComposed as SelfComposed
from bounds.accounting.events import event_from_dict as event_from_dict
from bounds.accounting.events import event_from_json as event_from_json
from bounds.accounting.events import event_to_dict as event_to_dict
from bounds.accounting.events import event_to_json as event_to_json
from bounds.accounting.events import sampled_gaussians as sampled_gaussians
from bounds.accounting.gaussian import full_batch_gdp as full_batch_gdp
from bounds.accounting.gaussian import gaussian_delta as gaussian_delta
from bounds.accounting.gaussian import gaussian_epsilon as gaussian_epsilon
from bounds.accounting.gaussian import gaussian_mu as gaussian_mu
from bounds.accounting.handover import loss_distribution as loss_distribution
from bounds.accounting.handover import privacy_record as privacy_record
from bounds.accounting.least_noise import Calibration as Calibration
from bounds.accounting.least_noise import calibrate_noise as calibrate_noise
from bounds.accounting.least_noise import scaled as scaled
from bounds.accounting.records import PrivacyBound as PrivacyBound
from bounds.accounting.renyi import ORDERS as ORDERS
from bounds.accounting.renyi import renyi_divergences as renyi_divergences
from bounds.accounting.renyi import renyi_epsilon as renyi_epsilon
from bounds.accounting.tradeoff import Profile as Profile
from bounds.accounting.tradeoff import best_true_positive_rate as best_true_positive_rate
from bounds.accounting.tradeoff import clt_gdp as clt_gdp
from bounds.accounting.tradeoff import gaussian_envelope as gaussian_envelope
from bounds.accounting.tradeoff import privacy_profile as privacy_profile
from bounds.accounting.tradeoff import trade_off as trade_off
