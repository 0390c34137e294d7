"""Bad input: a sentence that names the argument, before any work is lost."""

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression

import pacdp

X = np.random.default_rng(0).normal(size=(40, 3))
Y = (X[:, 0] > 0).astype(np.int64)


@pytest.mark.parametrize(
    ("data", "how", "said"),
    [
        ((X, Y[:-1]), {}, "one label for each input"),
        ((X, np.zeros(40, int)), {}, "at least two classes, got 0 alone"),
        ((X[:3], Y[:3]), {}, "at least 4 examples"),
        ((X, Y), {"people": ["me"] * 40}, "people must be at least 4"),
        ((X, Y), {"people": ["me"] * 39}, "people must have one entry"),
        ((X, Y.astype(float)), {}, "labels must be whole numbers or text"),
        ((X, [None, *Y[1:]]), {}, "labels must"),
        (X, {}, "pass \\(X, y\\)"),
        ({"x": X}, {}, "pair"),
        (iter([1]), {}, "pair"),
        ((X, Y), {"failure_prob": 0.0}, "failure_prob must lie strictly"),
        ((X, Y), {"failure_prob": 1.0}, "failure_prob must lie strictly"),
        ((X, Y), {"train_share": 1.0}, "train_share must lie strictly"),
        ((X, Y), {"seed": -1}, "seed must be"),
        ((X, Y), {"routes": "quick"}, "routes must be"),
        ((X, Y), {"routes": []}, "routes must be"),
        ((X, Y), {"routes": "PAC-Bayes"}, "no torch module"),
        ((X, Y), {"train": print}, "train is for torch modules"),
        ((X, Y), {"expected_error": 2.0}, "expected_error must be"),
    ],
)  # fmt: skip
def test_a_bad_argument_is_named(data, how, said):
    with pytest.raises(ValueError, match=said):
        pacdp.self_certify(LogisticRegression(), data, **how)


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (object(), "torch module or have fit"),
        (LogisticRegression, "call it, LogisticRegression"),
        ([], "at least one model"),
        (LinearRegression(), "predictions must be whole numbers or text"),
    ],
)
def test_a_model_that_cannot_be_one_is_named(model, said):
    with pytest.raises(ValueError, match=said):
        pacdp.self_certify(model, (X, Y), routes="held-out count")
