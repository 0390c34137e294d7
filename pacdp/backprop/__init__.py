"""PAC-Bayes with backprop: priors learnt on other examples, posteriors trained on a bound."""

from pacdp.backprop.fit import Augmentation as Augmentation
from pacdp.backprop.fit import Examples as Examples
from pacdp.backprop.fit import FitSettings as FitSettings
from pacdp.backprop.fit import augmented as augmented
from pacdp.backprop.fit import fit as fit
from pacdp.backprop.prior import Parts as Parts
from pacdp.backprop.prior import choose_scale as choose_scale
from pacdp.backprop.prior import data_free_prior as data_free_prior
from pacdp.backprop.prior import fit_prior as fit_prior
from pacdp.backprop.prior import hold_out as hold_out
from pacdp.backprop.prior import scaled as scaled
from pacdp.backprop.train import Coordinates as Coordinates
from pacdp.backprop.train import Objective as Objective
from pacdp.backprop.train import PosteriorSettings as PosteriorSettings
from pacdp.backprop.train import f_kl as f_kl
from pacdp.backprop.train import train_posterior as train_posterior
