"""pacdp: networks, samplers and their certificates.

``certify`` turns a posterior, a prior and data into certificates; ``load_checkpoint`` and ``save_checkpoint`` read and
write weights without running code; ``load_trained`` rebuilds everything that a checkpoint needs to be certified.
"""

from pacdp import _mkl as _mkl
from pacdp.assess_gaussian import MonteCarlo as MonteCarlo
from pacdp.assess_gaussian import assess_gaussian as assess_gaussian
from pacdp.bound_set import BoundSet as BoundSet
from pacdp.certify import Assessment as Assessment
from pacdp.certify import assess as assess
from pacdp.certify import certify as certify
from pacdp.checkpoint import Checkpoint as Checkpoint
from pacdp.checkpoint import load_checkpoint as load_checkpoint
from pacdp.checkpoint import save_checkpoint as save_checkpoint
from pacdp.errors import CheckpointError as CheckpointError
from pacdp.errors import Diverged as Diverged
from pacdp.gibbs import GibbsSettings as GibbsSettings
from pacdp.models import Architecture as Architecture
from pacdp.posterior import GaussianPosterior as GaussianPosterior
from pacdp.posterior import LocalGibbs as LocalGibbs
from pacdp.posterior import Point as Point
from pacdp.prior import DataFree as DataFree
from pacdp.prior import GaussianPrior as GaussianPrior
from pacdp.prior import HeldOut as HeldOut
from pacdp.prior import NoPrivacy as NoPrivacy
from pacdp.prior import Prior as Prior
from pacdp.prior import Private as Private
from pacdp.problem import Problem as Problem
from pacdp.trained import Trained as Trained
from pacdp.trained import load_trained as load_trained
