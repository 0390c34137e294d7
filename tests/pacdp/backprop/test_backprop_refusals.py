"""What priors, their training and the training of posteriors refuse, and in which words."""

import math
import re
from functools import partial

import numpy as np
import torch
from backprop_toys import blobs, network
from torch.nn import Dropout, Linear, Sequential

import bounds
from pacdp import GaussianPosterior, HeldOut, Prior, certify
from pacdp.backprop import (
    Augmentation,
    Coordinates,
    Examples,
    FitSettings,
    PosteriorSettings,
    fit,
    hold_out,
    train_posterior,
)
from pacdp.certify import BoundSet
from pacdp.data import Split, index_hash
from pacdp.errors import Diverged
from pacdp.losses import bounded_cross_entropy
from tests.pacdp.toys import pair, seeded
from tests.refusals import refuses


class Untouchable(Linear):
    def forward(self, input):
        raise AssertionError("work was done before the refusal")


def split_of(*indices):
    return Split(np.array(indices, dtype=np.int64), index_hash(np.array(indices, dtype=np.int64)))


DATA, PARTS, MODULE = blobs(40), hold_out(40, seed=0), network()
SOURCE = HeldOut(indices=PARTS.prior, data_hash=DATA.hash)
OVERLAPPING = split_of(*sorted({*PARTS.bound.indices.tolist(), int(PARTS.prior.indices[0])}))
WHOLE = Untouchable(4, 3).eval()
LAW = GaussianPosterior.around(WHOLE, std=0.1)
GIVEN = Examples(*pair(DATA))
FEW = Examples(GIVEN.inputs, GIVEN.labels[:3])
UNDEFINED = Examples(GIVEN.inputs * math.nan, GIVEN.labels)
PRIOR = GaussianPosterior.around(MODULE, std=0.3)
FITTED = partial(fit, MODULE, settings=FitSettings(epochs=1), generator=seeded(0))
TRAINED = partial(train_posterior, PRIOR, objective=bounds.objectives.f_quad, loss=bounded_cross_entropy(classes=3),
                  settings=PosteriorSettings(steps=2), failure_prob=0.05, generator=seeded(0))  # fmt: skip


def coordinates(weight, others):
    stds = dict.fromkeys(PRIOR.means, others) | {"0.weight": weight}
    return partial(Coordinates.at, GaussianPosterior.around(MODULE, std=stds))


REFUSED = [
    (partial(certify, LAW, BoundSet.part(DATA, OVERLAPPING), prior=Prior(law=LAW, source=SOURCE), network=WHOLE),
     "share 1 example;"),
    (partial(BoundSet.part, DATA, split_of(3, 40)), "some of the 40 examples"),
    (partial(hold_out, 10, prior_share=1.2, seed=0), "at least 0"),
    (partial(FITTED, UNDEFINED), "NaN or infinite"),
    (partial(FITTED, FEW), "one label for each"),
    (partial(FitSettings, epochs=0), "epochs must be"),
    (coordinates(torch.arange(8.0)[:, None], 0.1), "random or fixed as a whole"),
    (coordinates(0.0, 0.0), "fixed weights alone"),
    (partial(TRAINED, network(hidden=5), GIVEN), "other names or shapes in"),
    (partial(TRAINED, Sequential(Dropout(), *network()), GIVEN), "call eval() first"),
    (partial(TRAINED, MODULE, FEW), "one label for each"),
    (partial(TRAINED, MODULE, UNDEFINED), "objective"),
    (partial(PosteriorSettings, step_size=0.0), "step_size"),
    *((partial(Augmentation, **bad), "expected")
      for bad in ({"shift": -1.0}, {"scale": 1.5}, {"rotation": math.nan})),
]  # fmt: skip


test_what_cannot_be_is_refused = refuses([(call, re.escape(words)) for call, words in REFUSED], (ValueError, Diverged))
