"""What the members of a posterior or an ensemble disagree about: uncertainty of predictions, and what it is made of.

Members are draws of the weights: snapshots of a chain, draws of a variational posterior, masks, networks of an
ensemble. For classes: entropies of the predictive distribution and the mutual information of label and weights. For
numbers: the variance of the prediction as epistemic (the means differ) and aleatoric (each member's own variance)
parts, of networks with a mean and a log-variance output, trained on :func:`gaussian_nll_nats`.
"""

from pacdp.uncertainty.classification import ClassUncertainty as ClassUncertainty
from pacdp.uncertainty.classification import PredictiveAverage as PredictiveAverage
from pacdp.uncertainty.classification import class_uncertainty as class_uncertainty
from pacdp.uncertainty.regression import Spread as Spread
from pacdp.uncertainty.regression import gaussian_head as gaussian_head
from pacdp.uncertainty.regression import gaussian_nll_nats as gaussian_nll_nats
from pacdp.uncertainty.regression import predictive_spread as predictive_spread
