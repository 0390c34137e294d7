"""Small examples, networks and laws for attacks on the door."""

import numpy as np
import pytest
import torch
from torch import nn

import bounds
from pacdp import (
    BoundSet,
    DataFree,
    GaussianPosterior,
    MonteCarlo,
    Prior,
    certify,
)
from pacdp.data import Split, index_hash

pytestmark = pytest.mark.wrong_types
MU = bounds.GaussianDP(mu=0.02, adjacency="add-remove", status="accounted")
PURE = bounds.PureDP(epsilon=0.01, adjacency="replace-one", status="exact mechanism")
QUICK = MonteCarlo(passes=1)


def examples(n=60, *, seed=0, people=None):
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(0, 2, (n,), generator=generator)
    return BoundSet(inputs=torch.randn(n, 4, generator=generator), labels=labels, people=people)


def network(outputs=1):
    module = nn.Linear(4, outputs, bias=False)
    nn.init.zeros_(module.weight)
    module.weight.data[0, 0] = 1.0
    return module.eval()


def law(std=0.1, module=None):
    return GaussianPosterior.around(module or network(), std=std)


def gaussian(data=None, **options):
    given = {"prior": Prior(law=law(), source=DataFree()), "network": network(), "monte_carlo": QUICK, **options}
    return certify(given.pop("law", law()), examples() if data is None else data, **given)


def split(start, stop):
    return Split(np.arange(start, stop), index_hash(np.arange(start, stop)))
