from .certify import HeldOut as HeldOut
from .certify import Network as Network
from .certify import Prior as Prior
from .certify import Private as Private
from .certify import Settings as Settings
from .certify import certify as certify
from .certify.trained import load_trained as load_trained
from .compress import compress as compress
from .estimators import CertifiedClassifier as CertifiedClassifier
from .estimators import CertifiedRegressor as CertifiedRegressor
from .posterior import GaussianPosterior as GaussianPosterior
from .predictions import Report as Report
from .predictions import certify_predictions as certify_predictions
from .selfcert.call import self_certify as self_certify
from .store.checkpoint import load_checkpoint as load_checkpoint
from .store.checkpoint import save_checkpoint as save_checkpoint

__version__: str
