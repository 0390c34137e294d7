"""Learners that memorise, look for the nearest, or take the majority, through the doors that train and certify.

Inputs are those of a finite law, so that the risk of whatever was learnt is a sum over all of them.
"""

from dataclasses import replace
from functools import partial

import numpy as np
import torch
from scipy.special import ndtr
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from torch import nn

import pacdp
from pacdp.certify import BoundSet, DataFree, MonteCarlo
from pacdp.compress import Stop
from pacdp.data import Dataset
from tests.adversary.harness import Row, World
from tests.adversary.laws import Law, law, size, told_apart


def column(X):
    """What the first column says, without what tells examples apart."""
    return np.rint(np.asarray(X)[:, 0])


class Majority(ClassifierMixin, BaseEstimator):
    """The commonest label."""

    def fit(self, X, y):
        self.classes_, counts = np.unique(y, return_counts=True)
        self.common_ = self.classes_[counts.argmax()]
        return self

    def predict(self, X):
        return np.full(len(X), self.common_)


class Memory(Majority):
    """The last label that it saw of an input, the commonest one elsewhere."""

    def fit(self, X, y):
        super().fit(X, y)
        self.seen_ = dict(zip(column(X), np.asarray(y), strict=True))
        return self

    def predict(self, X):
        return np.array([self.seen_.get(x, self.common_) for x in column(X)])


class Nearest(Majority):
    """The label of the nearest input that it saw."""

    def fit(self, X, y):
        super().fit(X, y)
        self.x_, self.y_ = column(X), np.asarray(y)
        return self

    def predict(self, X):
        return self.y_[np.abs(column(X)[:, None] - self.x_).argmin(1)]


class NearestTarget(RegressorMixin, BaseEstimator):
    """The target of the nearest input that it saw."""

    predict = Nearest.predict

    def fit(self, X, y):
        self.x_, self.y_ = column(X), np.asarray(y)
        return self


LEARNERS = {"majority": Majority, "memory": Memory, "nearest": Nearest}


def sample(rng, of, n, copies=False):
    """Inputs of two columns, and labels."""
    x, y = of.draw(rng, n)
    return told_apart(x, rng, copies), y


def everywhere(of):
    """All inputs."""
    return np.column_stack([np.arange(of.mass.size), np.zeros(of.mass.size)])


def self_certified(rng, failure):
    """One learner, or the best of three, on a third to nine tenths of the records; people who are all alike."""
    habit = str(rng.choice(["near copies", "best of three", "people", "copies", "one input recurs"],
                           p=[0.4, 0.2, 0.15, 0.15, 0.1]))  # fmt: skip
    of, n = law(rng, inputs=200), size(rng, 40)
    name = str(rng.choice([*LEARNERS]))
    if habit == "one input recurs":  # and alone is wrong, in one record of 125: the others are told apart
        n, name = 2500, "majority"
        at = rng.random(n) < 0.008
        X, y = (np.column_stack([np.where(at, 0, 1 + rng.permutation(n)), np.zeros(n)]), at.astype(int))
        of = Law(mass=np.array([0.008, 0.992]), labels=np.eye(2)[::-1], words="one input that recurs and is wrong")
    else:
        X, y = sample(rng, of, n, copies=habit == "copies")
    whose = None
    if habit == "people":
        whose = np.repeat(np.arange(n), 3)
        X, y = np.repeat(X, 3, axis=0), np.repeat(y, 3)
    model = LEARNERS[name]() if habit != "best of three" else {key: one() for key, one in LEARNERS.items()}
    options = {"routes": ["held-out count"], "failure_prob": failure, "people": whose, "seed": int(rng.integers(99)),
               "train_share": float(rng.choice([0.5, 0.7, 0.9]))}  # fmt: skip

    def ask():
        found = pacdp.self_certify(model, (X, y), **options)
        return [Row("error", None, found.certificate.value, of.error(found.predict(everywhere(of))))]

    enough = len(np.unique(y)) > 1 and n >= 60 and of.mass.max() < 0.9  # else a part may have one class only
    honest = enough and habit in ("near copies", "best of three", "people")
    return World(habit, f"{n} records of {of.words}, {name}", ask, honest=honest)


def estimators(rng, failure):
    """What scikit-learn's users write; and those who certify on what was fitted."""
    habit = str(rng.choice(["classifier", "classifier, all rows", "regressor", "groups", "rows of the fit"]))
    of, n, name = law(rng, inputs=100), size(rng), str(rng.choice([*LEARNERS]))
    X, y = sample(rng, of, n)
    share, seed = float(rng.choice([0.3, 0.6])), int(rng.integers(99))
    whose = np.arange(n) if habit == "groups" else None
    if habit == "groups":
        X, y, whose = (np.repeat(one, 2, axis=0) for one in (X, y, whose))

    def ask():
        if habit == "regressor":
            fitted = pacdp.CertifiedRegressor(NearestTarget(), certified_share=share, random_state=seed)
        else:
            fitted = pacdp.CertifiedClassifier(LEARNERS[name](), certified_share=share, random_state=seed)
        fitted.fit(X, y, **({} if whose is None else {"groups": whose}))
        more = {"ask": None} if habit == "classifier, all rows" else {}
        given = (X, y) if habit == "rows of the fit" else ()
        report = fitted.certify(*given, failure_prob=failure, **more)
        said = fitted.predict(everywhere(of))
        wrong = said[:, None] != np.arange(of.classes)
        if habit == "regressor":
            wrong = np.minimum(np.abs(said[:, None] - np.arange(of.classes)), 1)
        truths = {f"error on class {c}": of.mean(wrong, np.arange(of.classes) == c) for c in range(of.classes)
                  if of.cells[:, c].sum() > 0}  # fmt: skip
        first = report.statements[0]
        found = [(one.quantity, one.lower, one.upper) for one in report.statements]
        return [Row(first.quantity, first.lower, first.upper, of.mean(wrong))] + [
            Row(*one, truths[one[0]]) for one in found if one[0] in truths
        ]

    honest = habit != "rows of the fit" and (habit == "regressor" or len(set(y.tolist())) > 1)
    return World(habit, f"{n} records of {of.words}, {name}, {share} kept", ask, honest=honest)


def compressed(rng, failure):
    """Learners that need few records or all of them, until no error is left or for three rounds."""
    habit, group = (str(rng.choice(["no error left", "three rounds"], p=[0.2, 0.8])), int(rng.choice([5, 10])))
    of, n, name = law(rng, inputs=12), size(rng, 80), str(rng.choice(["memory", "nearest"]))
    clean = habit == "no error left"  # with noise all records would be kept; without, nothing is left to be missed
    labels = np.eye(of.classes)[of.labels.argmax(1)] if clean else (of.labels + 1 / of.classes) / 2
    of = replace(of, labels=labels, words=f"{of.words}, {'without' if clean else 'with more'} noise")
    X, y = sample(rng, of, n)
    stop = Stop() if clean else Stop(no_errors_left=False, rounds=(1, 2, 3))
    data = Dataset(inputs=X.astype(np.float32), labels=y, classes=of.classes, name="finite")

    def ask():
        found = pacdp.compress(LEARNERS[name](), data, groups=group, stop=stop, failure_prob=failure)
        if not found.report.certificates:
            raise ValueError("the sample ran out")
        said = found(everywhere(of).astype(np.float32)).numpy().argmax(1)
        return [Row("0-1 risk", None, found.certificate.value, of.error(said))]

    return World(habit, f"{n} records of {of.words}, {name}, {group} at a time", ask, honest=False)


class BothLogits(nn.Linear):
    """A line whose output is half the difference of two logits."""

    def forward(self, input):
        z = super().forward(input)[:, 0]
        return torch.stack([-z, z], dim=1) / 2


def gaussian(rng, failure):
    """Lines through the data with Gaussian weights, the best of many by the sample; the prior's mean beside it."""
    of, n, spread = law(rng, classes=2), size(rng), float(rng.choice([0.3, 1.0]))
    X, y = of.draw(rng, n)
    x = (X - 10) / 5 + 1e-6 * rng.permutation(n)
    lines = rng.normal(size=(20, 2)) * 2
    places = (np.arange(of.mass.size) - 10) / 5

    def wrong(line, at, std):
        """The probability of each label to be missed, [places, 2]."""
        one = ndtr((line[0] * at + line[1]) / (std * np.hypot(at, 1)))
        return np.column_stack([one, 1 - one])

    best = min(lines, key=lambda line: wrong(line, x, spread)[np.arange(n), y].mean())
    habit = str(rng.choice(["randomised", "prior mean"]))
    center = lines[0] if habit == "prior mean" else np.zeros(2)
    truth = of.mean(wrong(*((best, places, spread) if habit == "randomised" else (center, places, 1e-9))))

    def ask():
        laws = [
            pacdp.GaussianPosterior(
                means={"weight": torch.tensor([[line[0]]]).float(), "bias": torch.tensor([line[1]]).float()},
                stds={"weight": torch.tensor(spread), "bias": torch.tensor(spread)},
            )
            for line in (best, center)
        ]
        data = BoundSet(inputs=torch.tensor(x[:, None], dtype=torch.float32), labels=torch.tensor(y))
        prior = pacdp.Prior(law=laws[1], source=DataFree())
        asked = partial(pacdp.certify, laws[0], data, prior=prior, failure_prob=failure,
                        monte_carlo=MonteCarlo(passes=1), seed=int(rng.integers(2**31)))  # fmt: skip
        try:
            found = asked(network=nn.Linear(1, 1).eval())
        except ValueError as error:  # few logits may all lie in 0 to 1, and the sentence says what to return then
            if "[-z, z]" not in str(error):
                raise
            found = asked(network=BothLogits(1, 1).eval())
        one = next(c for c in found.certificates if c.of == habit and "0-1" in c.measures)
        return [Row(f"{one.measures} of {one.of}", None, one.value, truth - 1e-4)]  # noise of inputs, float32

    return World(habit, f"{n} records of {of.words}, the best of 20 lines, std {spread}", ask)
