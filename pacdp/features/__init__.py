"""Fixed features of images: maps without trainable parameters and without statistics of any data set.

Since no example enters them, they cost neither privacy nor a part of a bound. Each is an ``nn.Module`` from images
[n, channels, height, width] to unit vectors [n, dim]; ``transform`` applies it to a data set once, in batches.
``Backbone`` and ``embed`` are the exception: a network trained on a public data set of its own, ImageNet, rows not of
unit length; they are public as far as ImageNet is.
"""

from pacdp.features.alignment import aligned as aligned
from pacdp.features.backbone import Backbone as Backbone
from pacdp.features.backbone import embed as embed
from pacdp.features.convolutions import RandomConvolutions as RandomConvolutions
from pacdp.features.gibbs_head import GibbsHead as GibbsHead
from pacdp.features.gibbs_head import anchored_head as anchored_head
from pacdp.features.gradients import OrientedGradients as OrientedGradients
from pacdp.features.head import fit_mean as fit_mean
from pacdp.features.head import gaussian_errors as gaussian_errors
from pacdp.features.head_law import SimplexHead as SimplexHead
from pacdp.features.head_law import fit_law as fit_law
from pacdp.features.pooling import transform as transform
from pacdp.features.pooling import unit as unit
from pacdp.features.ridge_head import UndrawnHeads as UndrawnHeads
from pacdp.features.ridge_head import nearest as nearest
from pacdp.features.ridge_head import ridge_heads as ridge_heads
from pacdp.features.waves import RandomWaves as RandomWaves
