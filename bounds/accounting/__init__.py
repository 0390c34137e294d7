"""Privacy accounting: what a composed mechanism promises, bounded from above, and from below to say how tightly.

A mechanism is described by events; every question names the neighbouring relation. docs/accounting.md tells what is
proved, and how.
"""

# Names imported here are public.
# pyright: reportUnusedImport=false
# ruff: noqa: F401
from bounds.accounting.accountant import (
    Calibration,
    calibrate_noise,
    loss_distribution,
    privacy_delta,
    privacy_epsilon,
    privacy_record,
    scaled,
)
from bounds.accounting.events import (
    Composed,
    Event,
    ExponentialMechanism,
    Gaussian,
    LastAlone,
    NonPrivate,
    OnceAnEpoch,
    PoissonSampled,
    SelfComposed,
    event_from_dict,
    event_from_json,
    event_to_dict,
    event_to_json,
    sampled_gaussians,
)
from bounds.accounting.gaussian import gaussian_delta, gaussian_epsilon
from bounds.accounting.last_iterate import LastIterate, ridge_head
from bounds.accounting.renyi import ORDERS, renyi_divergences, renyi_epsilon
from bounds.accounting.tradeoff import (
    Profile,
    best_true_positive_rate,
    clt_gdp,
    privacy_profile,
    trade_off,
)
from bounds.accounting.tuning import NegativeBinomialRuns, PoissonRuns, tuned_divergences, tuned_epsilon
from bounds.privacy import PrivacyBound
