"""Private training: the algorithms, the loop that runs them, what it cost, and audits of it from the outside.

``train(settings, module, dataset, mechanism=..., loss=...)`` runs DP-SGD, DP-Adam, DP-SGLD, the last iterate of a
linear head alone, DP-BBP, DP-MC-Dropout, and with ``people=`` user-level DP-SGD or P3SGD from start to end; it returns
weights with the event that they cost, which ``epsilon`` and ``privacy_claim`` read. ``PrivateEngine.make_private`` is
for loops of one's own.
``audit_mechanism`` and ``audit_training`` test a mechanism from outside. Importing this registers
the accountant "pld" with Opacus.
"""

from pacdp.algorithms.algorithm import Algorithm as Algorithm
from pacdp.algorithms.algorithm import Descent as Descent
from pacdp.algorithms.dp_adam import DPAdam as DPAdam
from pacdp.algorithms.dp_bbp import DPBBP as DPBBP
from pacdp.algorithms.dp_mc_dropout import DPMCDropout as DPMCDropout
from pacdp.algorithms.dp_sgd import DPSGD as DPSGD
from pacdp.algorithms.dp_sgld import DPSGLD as DPSGLD
from pacdp.algorithms.dp_sgld_head import DPSGLDHead as DPSGLDHead
from pacdp.algorithms.p3sgd import P3SGD as P3SGD
from pacdp.algorithms.p3sgd import published_epsilon as published_epsilon
from pacdp.algorithms.user_dp_sgd import UserDPSGD as UserDPSGD
from pacdp.audit.canaries import TrainerAudit as TrainerAudit
from pacdp.audit.canaries import audit_training as audit_training
from pacdp.audit.checks import MechanismAudit as MechanismAudit
from pacdp.audit.mechanism import audit_mechanism as audit_mechanism
from pacdp.audit.scores import AuditResult as AuditResult
from pacdp.audit.scores import audit_scores as audit_scores
from pacdp.audit.scores import contradicts as contradicts
from pacdp.audit.scores import epsilon_lower_bound as epsilon_lower_bound
from pacdp.audit.scores import mu_lower_bound as mu_lower_bound
from pacdp.layers.bayes import BayesConv2d as BayesConv2d
from pacdp.layers.bayes import BayesLinear as BayesLinear
from pacdp.layers.bayes import bayesian as bayesian
from pacdp.layers.dropout import ExampleDropout as ExampleDropout
from pacdp.layers.dropout import with_example_dropout as with_example_dropout
from pacdp.layers.predict import average_over_draws as average_over_draws
from pacdp.layers.predict import average_over_snapshots as average_over_snapshots
from pacdp.layers.predict import with_weights as with_weights
from pacdp.layers.priors import Laplace as Laplace
from pacdp.layers.priors import Normal as Normal
from pacdp.layers.priors import Prior as Prior
from pacdp.loop import PrivateRun as PrivateRun
from pacdp.loop import Progress as Progress
from pacdp.loop import train as train
from pacdp.opacus.accountant import EventAccountant as EventAccountant
from pacdp.opacus.engine import PrivateEngine as PrivateEngine
from pacdp.opacus.loader import BatchMemoryManager as BatchMemoryManager
from pacdp.opacus.loader import PoissonLoader as PoissonLoader
from pacdp.resume import export as export
from pacdp.schedules import Constant as Constant
from pacdp.schedules import Scaled as Scaled
from pacdp.schedules import Schedule as Schedule
from pacdp.schedules import Table as Table
from pacdp.step.accountant import epsilon as epsilon
from pacdp.step.accountant import privacy_claim as privacy_claim
from pacdp.step.accountant import privacy_spent as privacy_spent
from pacdp.step.budget import PrivacyBudget as PrivacyBudget
from pacdp.step.budget import calibrated as calibrated
from pacdp.step.budget import number_of_runs as number_of_runs
from pacdp.step.budget import planned as planned
from pacdp.step.event import after as after
from pacdp.step.event import first as first
from pacdp.step.event import joined as joined
from pacdp.step.event import runs_of as runs_of
from pacdp.step.event import sampled_step as sampled_step
from pacdp.step.event import steps_of as steps_of
from pacdp.step.mechanism import Mechanism as Mechanism
from pacdp.step.mechanism import QuantileClipping as QuantileClipping
from pacdp.step.noise import SeededRandomness as SeededRandomness
from pacdp.step.noise import SystemRandomness as SystemRandomness
from pacdp.step.units import Units as Units
from pacdp.trials import require_independent_examples as require_independent_examples
