"""Bad input: a sentence that names the argument, before any work is lost."""

import math

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression
from torch import nn

import pacdp

X = np.random.default_rng(0).normal(size=(40, 3))
Y = (X[:, 0] > 0).astype(np.int64)


MODEL, MODULE = LogisticRegression(), nn.Sequential(nn.Linear(4, 2))


def planned(**how):
    return pacdp.plan_routes(**{"n": 100, "expected_error": 0.1, **how})


def of_module(module=MODULE, labels=Y):
    return certified(module, (np.hstack([X, X[:, :1]]).astype(np.float32), labels))


def certified(model=MODEL, data=(X, Y), **how):
    return pacdp.self_certify(model, data, **how)


REFUSED = {
    "few labels": (lambda: certified(data=(X, Y[:-1])), "one label for each input"),
    "one class": (lambda: certified(data=(X, 0 * Y)), "at least two classes, got 0 alone"),
    "three examples": (lambda: certified(data=(X[:3], Y[:3])), "at least 4 examples"),
    "one person": (lambda: certified(people=["me"] * 40), "people must be at least 4"),
    "few people": (lambda: certified(people=["me"] * 39), "people must have one entry"),
    "labels as floats": (lambda: certified(data=(X, Y.astype(float))), "labels must be whole numbers or text"),
    "a gap": (lambda: certified(data=(X, [None, *Y[1:]])), "labels must"),
    "no labels": (lambda: certified(data=X), "pass \\(X, y\\)"),
    "a dictionary": (lambda: certified(data={"x": X}), "pair"),
    "failure_prob": (lambda: certified(failure_prob=0.0), "failure_prob must lie strictly"),
    "train_share": (lambda: certified(train_share=1.0), "train_share must lie strictly"),
    "seed": (lambda: certified(seed=-1), "seed must be"),
    "routes": (lambda: certified(routes="quick"), "routes must be"),
    "no routes": (lambda: certified(routes=[]), "routes must be"),
    "a route of networks": (lambda: certified(routes="PAC-Bayes"), "no torch module"),
    "training of one's own": (lambda: certified(train=print), "train is for torch modules"),
    "expected_error": (lambda: certified(expected_error=2.0), "expected_error must be"),
    "no model": (lambda: certified(object()), "torch module or have fit"),
    "a class": (lambda: certified(LogisticRegression), "call it, LogisticRegression"),
    "no models": (lambda: certified([]), "at least one model"),
    "regression": (lambda: certified(LinearRegression()), "predictions must be whole numbers or text"),
    "one logit": (lambda: of_module(nn.Sequential(nn.Linear(4, 1))), "one logit for each class"),
    "labels beyond": (lambda: of_module(labels=Y + 1), "labels must be from 0 to 1"),
    "another width": (lambda: of_module(nn.Sequential(nn.Linear(5, 2))), "network fails on inputs"),
    "nothing to train": (lambda: of_module(nn.Flatten()), "must have parameters"),
    "more names": (lambda: of_module(labels=np.array(list("abcd") * 10)), "one output for each class"),
    "no records": (lambda: planned(n=0), "n must"),
    "an error of 2": (lambda: planned(expected_error=2.0), "expected_error"),
    "a target of 1": (lambda: planned(target=1.0), "target"),
    "a plan's failure_prob": (lambda: planned(failure_prob=0.0), "failure_prob"),
    "exponent": (lambda: planned(exponent=-1.0), "exponent"),
    "kl_nats": (lambda: planned(kl_nats=-1.0), "kl_nats"),
    "kept_share": (lambda: planned(kept_share=math.nan), "kept_share"),
    "price_share": (lambda: planned(price_share=math.inf), "price_share"),
}


@pytest.mark.every_case
@pytest.mark.wrong_types
@pytest.mark.parametrize("what", REFUSED)
def test_a_bad_argument_is_named(what):
    call, words = REFUSED[what]
    with pytest.raises(ValueError, match=words):
        call()
