"""pacdp: networks, samplers and their certificates.

``certify`` turns a law over networks, a prior and examples into certificates; ``load_checkpoint`` and
``save_checkpoint`` read and write weights without running code; ``load_trained`` rebuilds everything that a checkpoint
needs to be certified.
"""

from pacdp import _mkl as _mkl
from pacdp.certify import Assessment as Assessment
from pacdp.certify import BoundSet as BoundSet
from pacdp.certify import DataFree as DataFree
from pacdp.certify import Finite as Finite
from pacdp.certify import HeldOut as HeldOut
from pacdp.certify import MonteCarlo as MonteCarlo
from pacdp.certify import Network as Network
from pacdp.certify import NoPrivacy as NoPrivacy
from pacdp.certify import Prior as Prior
from pacdp.certify import Private as Private
from pacdp.certify import Settings as Settings
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
from pacdp.problem import Problem as Problem
from pacdp.trained import Trained as Trained
from pacdp.trained import load_trained as load_trained
