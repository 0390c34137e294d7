"""Private training on Opacus: an engine with public rates and a history, and the trainers built on it.

``PrivateEngine.make_private`` feels like Opacus's. ``train(settings, module, dataset, loss=...)`` runs DP-SGD, DP-Adam,
DP-SGLD, DP-BBP or DP-MC-Dropout from start to end and returns weights with the :class:`MechanismHistory` they cost.
``audit_training`` and ``attack_training`` test such a run from outside. Importing this registers the accountant "pld"
with Opacus.
"""

from pacdp.private.accountant import HistoryAccountant as HistoryAccountant
from pacdp.private.accountant import epsilon as epsilon
from pacdp.private.accountant import epsilon_by_renyi as epsilon_by_renyi
from pacdp.private.accountant import privacy_claim as privacy_claim
from pacdp.private.accountant import privacy_event as privacy_event
from pacdp.private.accountant import privacy_spent as privacy_spent
from pacdp.private.audit import AuditResult as AuditResult
from pacdp.private.audit import audit_scores as audit_scores
from pacdp.private.audit import contradicts as contradicts
from pacdp.private.audit import epsilon_lower_bound as epsilon_lower_bound
from pacdp.private.audit import mu_lower_bound as mu_lower_bound
from pacdp.private.bayes_layers import BayesConv2d as BayesConv2d
from pacdp.private.bayes_layers import BayesLinear as BayesLinear
from pacdp.private.bayes_layers import bayesian as bayesian
from pacdp.private.budget import PrivacyBudget as PrivacyBudget
from pacdp.private.calibration import calibrated as calibrated
from pacdp.private.calibration import planned as planned
from pacdp.private.canaries import TrainerAudit as TrainerAudit
from pacdp.private.canaries import audit_training as audit_training
from pacdp.private.dp_adam import DPAdam as DPAdam
from pacdp.private.dp_bbp import DPBBP as DPBBP
from pacdp.private.dp_mc_dropout import DPMCDropout as DPMCDropout
from pacdp.private.dp_sgd import DPSGD as DPSGD
from pacdp.private.dp_sgld import DPSGLD as DPSGLD
from pacdp.private.dp_sgld import Convention as Convention
from pacdp.private.dp_sgld import GradientSlot as GradientSlot
from pacdp.private.dp_sgld import ParameterSlot as ParameterSlot
from pacdp.private.dp_sgld import Tempered as Tempered
from pacdp.private.dropout import ExampleDropout as ExampleDropout
from pacdp.private.dropout import with_example_dropout as with_example_dropout
from pacdp.private.engine import PrivateEngine as PrivateEngine
from pacdp.private.independence import require_independent_examples as require_independent_examples
from pacdp.private.inversion import class_attack as class_attack
from pacdp.private.inversion import closest_psnr as closest_psnr
from pacdp.private.inversion import decoder_attack as decoder_attack
from pacdp.private.inversion import psnr as psnr
from pacdp.private.inversion import search_attack as search_attack
from pacdp.private.loader import PoissonLoader as PoissonLoader
from pacdp.private.membership import MembershipAttack as MembershipAttack
from pacdp.private.membership import attack_training as attack_training
from pacdp.private.membership import evaluate_attack as evaluate_attack
from pacdp.private.p3sgd import P3SGD as P3SGD
from pacdp.private.p3sgd import IndependentNoise as IndependentNoise
from pacdp.private.p3sgd import NestedNoise as NestedNoise
from pacdp.private.p3sgd import published_epsilon as published_epsilon
from pacdp.private.patient_training import PatientAlgorithm as PatientAlgorithm
from pacdp.private.patient_training import PatientBudget as PatientBudget
from pacdp.private.patient_training import PatientProgress as PatientProgress
from pacdp.private.patient_training import PatientRun as PatientRun
from pacdp.private.patient_training import planned_patients as planned_patients
from pacdp.private.patient_training import train_patients as train_patients
from pacdp.private.patients import PatientData as PatientData
from pacdp.private.patients import PatientHistory as PatientHistory
from pacdp.private.patients import PatientMechanism as PatientMechanism
from pacdp.private.predict import average_over_draws as average_over_draws
from pacdp.private.predict import average_over_snapshots as average_over_snapshots
from pacdp.private.predict import with_weights as with_weights
from pacdp.private.priors import Laplace as Laplace
from pacdp.private.priors import Normal as Normal
from pacdp.private.priors import NormalMixture as NormalMixture
from pacdp.private.priors import Prior as Prior
from pacdp.private.privacy_events import GaussianRun as GaussianRun
from pacdp.private.privacy_events import MechanismHistory as MechanismHistory
from pacdp.private.regularise import kl_nats as kl_nats
from pacdp.private.schedules import Constant as Constant
from pacdp.private.schedules import Exponential as Exponential
from pacdp.private.schedules import Polynomial as Polynomial
from pacdp.private.schedules import Scaled as Scaled
from pacdp.private.schedules import Schedule as Schedule
from pacdp.private.schedules import Table as Table
from pacdp.private.state import export as export
from pacdp.private.training import Algorithm as Algorithm
from pacdp.private.training import Mechanism as Mechanism
from pacdp.private.training import PrivateRun as PrivateRun
from pacdp.private.training import Progress as Progress
from pacdp.private.training import train as train
from pacdp.private.user_level import UserLevelDPSGD as UserLevelDPSGD
from pacdp.step.noise import SeededRandomness as SeededRandomness
from pacdp.step.noise import SystemRandomness as SystemRandomness
