"""Bad input: a sentence that names the argument, before any work is lost."""

from threading import Lock
from warnings import catch_warnings

import numpy as np
import pytest
import torch
from numpy.random import default_rng
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch.nn import EmbeddingBag, Flatten, Linear, Sequential
from torch.nn.utils import weight_norm
from torch.utils.data import ConcatDataset, Dataset, Subset

from pacdp import self_certify
from pacdp.backprop import FitSettings
from pacdp.selfcert.plan import plan_routes
from tests.pacdp.small_networks import Made
from tests.refusals import refuses

X = default_rng(0).normal(size=(40, 3))
Y = (X[:, 0] > 0).astype(np.int64)


MODEL, SMALL = LogisticRegression(), torch.tensor(X).to(torch.float8_e4m3fn)


class Median(LogisticRegression):
    """Answers by what else it is asked."""

    def predict(self, x):
        return (x[:, 0] > np.median(x[:, 0])).astype(int)


class Renames(LogisticRegression):
    """Keeps what it is given under another name."""

    def __init__(self, depth=1):
        super().__init__()
        self.levels = depth


class Moves(Dataset):
    """Examples that are moved a little at every look."""

    def __len__(self):
        return 40

    def __getitem__(self, k):
        return X[k] + 0.01 * default_rng().normal(size=3), str(Y[k])


class Table:
    """Columns by name, as those of Arrow, and no rows by many places."""

    def __init__(self, values):
        self.values, self.shape = values, values.shape

    def __array__(self, dtype=None, copy=None):
        return self.values

    def __getitem__(self, k):
        raise TypeError("Index must either be string or integer")


class Hides(LogisticRegression):
    """Answers of which some are masked."""

    def predict(self, x):
        return np.ma.masked_array(super().predict(x), mask=x[:, 0] > 0)


def computed():
    with catch_warnings(action="ignore", category=FutureWarning):
        return weight_norm(Linear(4, 2))


def of_module(module, **how):
    return certified(module, (np.hstack([X, X[:, :1]]).astype(np.float32), Y), **how)


def certified(model=MODEL, data=(X, Y), **how):
    return self_certify(model, data, **how)


REFUSED = {
    "few labels": (lambda: certified(data=(X, Y[:-1])), "one label for each input"),
    "names alike": (lambda: certified({1: MODEL, "1": MODEL}), "model must have names that differ as text, got 1, '1'"),
    "days of Julius": (
        lambda: certified(data=(2451545.0 + 0.01 * X[:, :1], Y)),
        "have an input that training saw too.* compared to 24 bits: of dates .* subtract what they share",
    ),
    "inputs of 8 bits": (lambda: certified(data=(SMALL, Y)), "inputs are torch.float8_e4m3fn, in which nothing"),
    "weights of 8 bits": (lambda: of_module(Linear(4, 2).to(SMALL.dtype)), r"train model.float\(\)"),
    "labels of 8 bits": (lambda: certified(data=(X, SMALL[:, 0])), "labels must be whole numbers or text"),
    "outputs in a pair": (
        lambda: of_module(Made(lambda own, x: (own.out(x), None), out=Linear(4, 2))),
        "the network returned tuple, and this training takes its logits alone",
    ),
    "outputs of 8 bits": (
        lambda: of_module(Made(lambda own, x: own.out(x).to(SMALL.dtype), out=Linear(4, 2))),
        "the network returned Tensor of torch.float8_e4m3fn",
    ),
    "gaps": (lambda: certified(data=(np.ma.masked_greater(X, 1), Y)), "inputs are a masked array"),
    "one class": (lambda: certified(data=(X, 0 * Y)), "at least two classes, got 0 alone"),
    "one person": (lambda: certified(people=["me"] * 40), "people must be at least 4"),
    "labels as floats": (lambda: certified(data=(X, Y.astype(float))), "labels must be whole numbers or text"),
    "no labels": (lambda: certified(data=X), "pass \\(X, y\\)"),
    "failure_prob": (lambda: certified(failure_prob=0.0), "failure_prob must lie strictly"),
    "routes": (lambda: certified(routes="quick"), "routes must be"),
    "a route of networks": (lambda: certified(routes="PAC-Bayes"), "no torch module"),
    "settings": (lambda: certified(settings=5), "expected settings to be of type"),
    "a model of many examples": (
        lambda: certified(Median(), routes="held-out count"),
        "depends on the examples beside it",
    ),
    "training of one's own": (lambda: certified(train=print), "train is for torch modules"),
    "training of a module that has its own": (
        lambda: of_module(Made(lambda own, x: own.out(x), out=Linear(4, 2), fit=print, predict=print), train=print),
        "or has fit and predict of its own",
    ),
    "another network without a logit a class": (
        lambda: of_module(Linear(4, 2), train=lambda m, x, y: Linear(4, 1)),
        "the network must give one logit for each class",
    ),
    "expected_error": (lambda: certified(expected_error=2.0), "expected_error must lie"),
    "the split said twice": (lambda: certified(expected_error=0.1, train_share=0.5), "leave one of them out"),
    "a device for no module": (lambda: certified(device="meta"), "device is where torch modules are trained"),
    "three columns": (lambda: certified(data=(X, Y, Y)), "give whose they are as people="),
    "training that fails": (
        lambda: of_module(Linear(4, 2), train=lambda m, x, y: {}["k"]),
        "train failed with KeyError",
    ),
    "settings of no training": (lambda: certified(settings=FitSettings()), "settings are of the default training"),
    "weights that stand still": (lambda: of_module(Linear(4, 2).requires_grad_(False)), "must have parameters"),
    "complex numbers": (lambda: certified(Linear(3, 2), (X + 1j, Y)), "inputs must be numbers for a network"),
    "words in an array": (
        lambda: certified(Sequential(EmbeddingBag(120, 4), Linear(4, 2)), (np.arange(120).reshape(40, 3), Y)),
        r"does not accept inputs of shape \(1, 3\) and torch.float32: .*Long.*; .* words whole numbers in a tensor",
    ),
    "bytes in a tensor": (
        lambda: certified(Sequential(Flatten(), Linear(3, 2)), (torch.arange(120, dtype=torch.uint8).view(40, 3), Y)),
        r"torch.uint8: .*; let inputs and weights be of one type, as .float\(\) and astype\('float32'\) make them",
    ),
    "a model that holds a lock": (
        lambda: of_module(Made(lambda own, x: own.out(x), out=Linear(4, 2), lock=Lock())),
        r"Made must be something that can be copied: make locks.* in fit or forward.* \(TypeError: cannot pickle",
    ),
    "a parameter under another name": (
        lambda: certified(Renames(3)),
        r"Renames must be something that can be copied.* same names \(AttributeError: .*depth",
    ),
    "folds by group, and no groups": (
        lambda: certified(GridSearchCV(MODEL, {"C": [1.0]}, cv=GroupKFold(2)), routes="held-out count"),
        "the estimator validates by group: say whose each example is, with people=",
    ),
    "folds of all rows": (
        lambda: certified(GridSearchCV(MODEL, {"C": [1.0]}, cv=[*KFold(2).split(X)]), routes="held-out count"),
        "cv of the estimator must say how rows are divided.* fitted on a part of them",
    ),
    "weights of a hook": (
        lambda: of_module(Sequential(computed())),
        "weight of layer 0 is computed from other weights by a hook, as torch.nn.utils.weight_norm and prune do: take",
    ),
    "training that nothing needs": (
        lambda: of_module(Linear(4, 2), routes=["noisy gradients"], train=lambda m, x, y: None),
        "train and settings are of other routes than 'noisy gradients'",
    ),
    "settings that nothing needs": (
        lambda: of_module(Linear(4, 2), routes=["noisy gradients"], settings=FitSettings()),
        "train and settings are of other routes",
    ),
    "numbers to learn": (
        lambda: certified(data=(X, X[:, 0])),
        "labels must be whole numbers or text, got float64.* a regressor to train to pacdp.CertifiedRegressor",
    ),
    "rows by one place": (lambda: certified(data=(Table(X), Y)), "got Table, of which no rows can be taken"),
    "text alone": (
        lambda: certified(data=(np.array(["a b", "b c"] * 20, object), Y), routes="compression"),
        "no route can be tried: .*compression: it needs inputs that are one array of numbers",
    ),
    "answers to nothing": (
        lambda: of_module(Linear(4, 2), routes="held-out count", settings=FitSettings(epochs=1)).predict(X[:0]),
        "inputs must be of at least one example, got none",
    ),
    "inputs that move": (lambda: certified(data=Moves()), "data must be the same rows at every reading"),
    "copies beside their source": (
        lambda: certified(data=ConcatDataset([[(x, "0") for x in X], Moves()])),
        "leave its random transforms out",
    ),
    "copies that move": (lambda: certified(data=Subset(Moves(), [*range(40)] * 2)), "40 of its 80 examples again"),
    "an empty list": (lambda: certified([]), "model must be at least one"),
    "a name of two lines": (lambda: certified({"a\nb": MODEL}), "no name for a sentence"),
    "hidden answers": (lambda: certified(Hides(), routes="held-out count"), "answers of the estimator are a masked"),
    "no model": (lambda: certified(object()), "torch module or have fit"),
    "no predict": (
        lambda: certified(make_pipeline(StandardScaler())),
        "predict failed with AttributeError: This 'Pipe",
    ),
    "regression": (lambda: certified(LinearRegression()), "predictions must be whole numbers or text"),
    "one logit": (lambda: of_module(Sequential(Linear(4, 1))), "one logit for each class"),
    "nothing to train": (lambda: of_module(Flatten()), "must have parameters"),
    "no records": (lambda: plan_routes(n=0), "n must"),
}


test_a_bad_argument_is_named = pytest.mark.wrong_types(refuses(REFUSED))
