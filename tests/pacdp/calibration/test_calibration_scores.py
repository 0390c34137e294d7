"""Accuracy, NLL, Brier, AUC: scikit-learn, slow twins, exact identities."""

import math

import numpy as np
from calibration_tools import continuous, ties
from sklearn.metrics import accuracy_score, brier_score_loss, log_loss, roc_auc_score

from pacdp.calibration import accuracy, auc, brier, macro_auc, nll_nats
from tests.marks import near

CASES = [made for seed in range(15) for made in (continuous(seed), ties(seed, pieces=10))]
WHOLE = [case for case in CASES if len(set(case.labels.tolist())) == case.probabilities.shape[1]]


def test_scikit_learn_finds_the_same_scores():
    for probabilities, labels in CASES:
        classes = list(range(probabilities.shape[1]))
        right = accuracy_score(labels, probabilities.argmax(axis=1))
        assert accuracy(probabilities, labels) == near(right)
        theirs = brier_score_loss(labels, probabilities, labels=classes, scale_by_half=False)
        assert brier(probabilities, labels) == near(theirs, rel=1e-12)
        possible = (np.take_along_axis(probabilities, labels[:, None], axis=1) > 1e-12).all()
        theirs = log_loss(labels, probabilities, labels=classes) if possible else math.inf
        assert nll_nats(probabilities, labels) == near(theirs)


def test_scikit_learn_finds_the_same_auc():
    assert len(WHOLE) > 15
    for probabilities, labels in WHOLE:
        scores, positive = probabilities[:, 0], labels == 0
        assert auc(scores, positive) == near(roc_auc_score(positive, scores), abs=1e-12)
        given = probabilities[:, 1] if probabilities.shape[1] == 2 else probabilities
        theirs = roc_auc_score(labels, given, multi_class="ovr", average="macro")
        assert macro_auc(probabilities, labels) == near(theirs, abs=1e-12)
