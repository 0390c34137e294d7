"""From predictions to certificates, without torch: error, recall, precision, groups, calibration, differences.

:func:`certify_predictions` takes labels and what one or several models said, from any framework, and returns a
:class:`Report`: rows that all hold together with a stated probability. docs/predictions.md.
"""

from pacdp.predictions.bounding import Statement
from pacdp.predictions.certify import certify_predictions
from pacdp.predictions.report import Report

__all__ = ["Report", "Statement", "certify_predictions"]
