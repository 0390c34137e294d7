"""Calibration of predictive probabilities: errors, scores, reliability curves with bands, temperature scaling.

Metrics take ``(probabilities [n, classes], labels [n])`` as NumPy arrays and return a float; what each number means
and which to report is written in docs/calibration.md. These are estimates on the examples given, not certificates.
"""

from pacdp.calibration.inputs import top_label as top_label
from pacdp.calibration.metrics import ace as ace
from pacdp.calibration.metrics import ece as ece
from pacdp.calibration.metrics import mce as mce
from pacdp.calibration.metrics import sce as sce
from pacdp.calibration.reliability import ReliabilityCurve as ReliabilityCurve
from pacdp.calibration.reliability import accuracy_bands as accuracy_bands
from pacdp.calibration.reliability import reliability_curve as reliability_curve
from pacdp.calibration.scores import accuracy as accuracy
from pacdp.calibration.scores import auc as auc
from pacdp.calibration.scores import brier as brier
from pacdp.calibration.scores import macro_auc as macro_auc
from pacdp.calibration.scores import nll_nats as nll_nats
from pacdp.calibration.scores import summary as summary
from pacdp.calibration.temperature import Temperature as Temperature
from pacdp.calibration.temperature import fit_temperature as fit_temperature
from pacdp.calibration.temperature import scaled as scaled
