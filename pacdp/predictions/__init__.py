"""From predictions to certificates, without torch: error, recall, precision, groups, calibration, differences.

:func:`certify_predictions` takes labels and what one or several models said, from any framework, and returns a
:class:`PredictionReport`: rows that all hold together with a stated probability. docs/predictions.md.
"""

from pacdp.predictions.bounding import Statement
from pacdp.predictions.certify import certify_predictions
from pacdp.predictions.report import PredictionReport

__all__ = ["PredictionReport", "Statement", "certify_predictions"]
