"""What the measures of uncertainty refuse, in one sentence each."""

from functools import partial

import numpy as np
import pytest
import torch

from pacdp import uncertainty as u
from tests.refusals import refuses

GOOD, MARKED = np.full((2, 3, 2), 0.5), np.arange(12).reshape(2, 3, 2) == 5
MEMBERS = [
    np.where(MARKED, np.nan, GOOD), GOOD + np.array([-0.6, 0.6]), GOOD * 1.01, np.ones((2, 3, 1)), np.ones((0, 3, 2)),
]  # fmt: skip
ZEROS = np.zeros((2, 3))
SPREADS = [
    (ZEROS, np.zeros((2, 4))), (ZEROS[:0], ZEROS[:0]), (ZEROS + np.nan, ZEROS), (ZEROS, ZEROS - 1.0),
    (ZEROS, np.full((2, 3), np.inf)), (ZEROS.tolist(), ZEROS), (np.ma.masked_array(ZEROS, ZEROS == 0.0), ZEROS),
]  # fmt: skip
REFUSED = [
    *((partial(u.class_uncertainty, members), "expected") for members in (*MEMBERS, GOOD.tolist())),
    *((partial(u.predictive_spread, *given), "expected") for given in SPREADS),
    (u.PredictiveAverage().result, "expected one member or more"),
    (partial(u.gaussian_nll_nats, torch.zeros(4, 2), torch.zeros(5)), "expected outputs"),
    (partial(u.gaussian_head, torch.zeros(4, 3)), "two outputs"),
]


test_what_is_no_prediction_is_refused_in_one_sentence = pytest.mark.wrong_types(refuses(REFUSED))
