"""Certificates: a network or a law over networks and examples in, a :class:`Report` out. There is no other door.

What is proved of hypotheses is decided in ``evidence`` (rows, settings), ``trajectory`` (noisy sums), ``heads`` (Gibbs
laws) and ``trained`` (promises of privacy); whatever nobody decides is unproved, by the table ``bounds.hypotheses``.
"""

from pacdp.certify.evidence import Settings as Settings
from pacdp.certify.examples import BoundSet as BoundSet
from pacdp.certify.finite import Finite as Finite
from pacdp.certify.gaussian import MonteCarlo as MonteCarlo
from pacdp.certify.gaussian import one_draw_weights as one_draw_weights
from pacdp.certify.networks import Surrogate as Surrogate
from pacdp.certify.outputs import ClippedError as ClippedError
from pacdp.certify.priors import DataFree as DataFree
from pacdp.certify.priors import HeldOut as HeldOut
from pacdp.certify.priors import Prior as Prior
from pacdp.certify.priors import Private as Private
from pacdp.certify.reading import Network as Network
from pacdp.certify.routes import certify as certify
from pacdp.certify.trajectory import Certified as Certified
from pacdp.certify.trajectory import train_certified as train_certified
from pacdp.predictions.report import Measured as Measured
from pacdp.predictions.report import Refusal as Refusal
from pacdp.predictions.report import Report as Report
from pacdp.step.event import NoPrivacy as NoPrivacy
