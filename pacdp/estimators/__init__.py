"""Estimators of scikit-learn that come with a certificate: part of what they are fitted on is kept for counting."""

from pacdp.estimators.certified import CertifiedClassifier as CertifiedClassifier
from pacdp.estimators.certified import CertifiedRegressor as CertifiedRegressor
