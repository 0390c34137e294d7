"""One call that splits, trains and certifies: what enters training, what is paid for, and what comes back."""

import json
import math
import pickle
from functools import partial
from typing import ClassVar

import numpy as np
import polars as pl
from numpy import array_equal
from numpy.random import default_rng
from scipy import sparse, stats
from sklearn.base import clone
from sklearn.ensemble import StackingClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, Perceptron
from sklearn.model_selection import GridSearchCV, GroupKFold
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import bounds
from pacdp import compress, self_certify
from pacdp.compress import Stop
from pacdp.data import DataError, load
from pacdp.data.hashing import row_hashes
from pacdp.selfcert.examples import given, require_apart
from pacdp.selfcert.plan import COMPRESSION, HELD_OUT, NOISY, PAC_BAYES
from pacdp.verify.claim import DOES_NOT
from pacdp.verify.report import check_report
from tests.marks import made_once, near, parametrize, refusal

NOISE = 0.1
held_out = partial(self_certify, routes=HELD_OUT)


def world(n, *, seed):
    """x uniform in a cube, y the side of a plane, turned over with probability NOISE."""
    rng = default_rng(seed)
    x = rng.uniform(-1.0, 1.0, (n, 4))
    return x, ((x[:, 0] > 0) ^ (rng.random(n) < NOISE)).astype(np.int64)


class Spy:
    """An estimator that remembers what it was fitted on."""

    seen: ClassVar[list] = []

    def fit(self, x, y):
        Spy.seen.append((np.array(x), np.array(y)))
        return self

    def predict(self, x):
        return (np.asarray(x)[:, 0] > 0).astype(np.int64)


class Fixed:
    """The side of a plane that no label had a part in."""

    def __init__(self, normal):
        self.normal = normal

    def fit(self, x, y):
        return self

    def predict(self, x):
        return (np.asarray(x) @ self.normal > 0).astype(np.int64)


def digits():
    train, test = load("digits")
    return (train.inputs.reshape(train.n, -1), train.labels), (test.inputs.reshape(test.n, -1), test.labels)


@made_once
def found():
    return self_certify(SVC(C=10.0, gamma=0.05), digits()[0])


def test_digits_get_the_smallest_certificate_at_the_failure_probability_of_all_routes(found):
    x, y = digits()[1]
    values = {one.route: one.certificate.value for one in found.tried}
    assert set(values) == {HELD_OUT, COMPRESSION}
    assert found.certificate.value == min(values.values()) == values[found.chosen]
    assert found.certificate.status == "rigorous"
    assert found.certificate.failure_prob == near(0.05, rel=1e-12)
    assert math.fsum(found.report.budget.spent.values()) == near(0.05)
    assert np.mean(found.predict(x) != y) < found.certificate.value < 0.06
    assert {one.name for one in found.report.refusals} == {PAC_BAYES, NOISY}
    again = pickle.loads(pickle.dumps(found))  # noqa: S301
    for one, other in zip(found.tried, again.tried, strict=True):
        assert array_equal(one.predictor.predict(x), other.predictor.predict(x))


def spied(data, **how):
    """What a call found, and which of the examples were trained on."""
    Spy.seen.clear()
    found = self_certify(Spy(), data, **{"routes": HELD_OUT, **how})
    return found, np.isin(row_hashes(data[0]), row_hashes(Spy.seen[0][0]))


def test_the_count_is_clopper_and_pearson_s_of_what_predict_says_on_the_part_that_was_not_trained_on():
    x, y = world(200, seed=1)
    found, learning = spied((x, y))
    assert (learning.sum(), len(Spy.seen)) == (found.train, 1)
    errors = int(np.sum(found.predict(x[~learning]) != y[~learning]))
    assert found.tried[0].certificate.value == bounds.clopper_pearson_upper(errors, 200 - found.train, 0.05)


def test_labels_of_the_bound_s_examples_change_nothing_but_the_count():
    x, y = world(300, seed=2)
    model = LogisticRegression()
    _, learning = spied((x, y), seed=3)
    first, again = (held_out(model, (x, labels), seed=3) for labels in (y, np.where(learning, y, 1 - y)))
    assert array_equal(first.predictor.coef_, again.predictor.coef_)
    assert (first.train, first.report.budget) == (again.train, again.report.budget)
    assert again.tried[0].error == near(1.0 - first.tried[0].error)
    assert not hasattr(model, "coef_"), "the caller's own estimator stays as it is"


def test_a_seed_gives_the_same_predictor_and_certificate_and_another_one_another_split():
    data = world(120, seed=4)
    as_sparse = sparse.coo_matrix(data[0]), data[1]
    cases = (data, 0), (data, 0), (data, 1), (as_sparse, 0)
    runs = [held_out(LogisticRegression(), given, seed=seed) for given, seed in cases]
    coefficients = [run.predictor.coef_ for run in runs]
    assert array_equal(coefficients[0], coefficients[1])
    assert runs[0].certificate == runs[1].certificate
    assert runs[3].tried[0].error == runs[0].tried[0].error
    assert not array_equal(coefficients[0], coefficients[2])


def blank(share, *, seed, n=2000):
    """Points with a margin, and among those of one class a share of blank records, all alike, of the other one."""
    rng = default_rng([seed, 12])
    y = rng.integers(0, 2, n)
    x = np.stack([rng.normal(size=n) ** 2 + 3.0, rng.normal(size=n)], axis=1) * np.where(y, 1.0, -1.0)[:, None]
    empty = rng.random(n) < share
    x[empty], y[empty] = [5.0, 0.0], 0
    return x, y


BLANK, HELD = "equal inputs are separate draws", {"routes": HELD_OUT, "train_share": 0.8}


@parametrize(("share", "standing"), [(0.008, "declared"), (0.04, "unproved")])
def test_repeats_stay_and_the_count_holds_as_often_as_it_says(share, standing, whole):
    """The predictor errs on blank records alone, so that its risk is their share."""
    failed, calls, sides = 0, 100 if whole else 30, Fixed(np.eye(2)[0])
    for seed in range(calls):
        data = blank(share, seed=seed)
        failed += self_certify(sides, data, failure_prob=FAIL, seed=seed, **HELD).certificate.value < share
    assert stats.binomtest(failed, calls, FAIL, alternative="greater").pvalue > 1e-6
    found = self_certify(sides, blank(share, seed=0, n=20_000), **HELD)
    assert (found.report.n, found.certificate.hypothesis(BLANK).standing) == (20_000, standing)
    assert found.certificate.hypothesis("predictor saw none of these rows").standing == "declared"
    assert f"Remark: {BLANK}" in str(found)


def test_copies_are_refused_until_somebody_says_whose_they_are():
    x, y = world(100, seed=5)
    data, model = (np.tile(x, (3, 1)), np.tile(y, 3)), Fixed(np.eye(4)[0])
    with refusal(r"have an input that training saw too.*people=", DataError):
        self_certify(model, data, **HELD)
    assert self_certify(model, data, people=np.tile(np.arange(100), 3), **HELD).report.n == 100
    dicts = [dict(zip("abcd", row, strict=True)) for row in x] + [
        dict(zip("dcba", row[::-1], strict=True)) for row in x
    ]
    with refusal("have an input that training saw too", DataError):
        held_out(model, (dicts, np.tile(y, 2)), train_share=0.8)


def test_an_example_or_a_person_on_both_sides_of_a_split_is_refused():
    x, y = world(20, seed=9)
    one = given((x, y), people=np.arange(20) // 2)
    with refusal("2 examples stand on both sides", DataError):
        require_apart(one.at(np.arange(10)), one.at(np.arange(8, 20)))
    with refusal("people stand on both sides", DataError):
        require_apart(one.at(np.arange(9)), one.at(np.arange(9, 20)))


@parametrize("names", [np.array([False, True]), np.array(["a", "b"]), np.array([3, 9])])
def test_a_bound_s_part_with_one_class_only_is_counted_too(names):
    x, y = world(60, seed=10)
    found = held_out(LogisticRegression(), (x, names[y]), train_share=0.965)
    assert found.report.n - found.train == 2
    assert 0.0 < found.certificate.value <= 1.0


@parametrize("frozen", [False, True])
def test_a_search_that_validates_by_group_is_told_whose_the_examples_are(frozen):
    x, y = world(120, seed=5)
    whose = np.arange(120) // 3
    search = GridSearchCV(LogisticRegression(), {"C": [0.1, 1.0]}, cv=GroupKFold(3))
    model = FrozenEstimator(search.fit(*world(90, seed=6), groups=whose[:90])) if frozen else search
    assert held_out(model, (x, y), people=whose).report.n == 40
    if frozen:  # which needs nobody, since it fits nothing
        assert held_out(model, (x, y)).report.n == 120


def test_people_are_split_whole_and_counted():
    x, y = world(600, seed=6)
    people = [f"p{place % 150}" for place in range(600)]
    x[150], people[150] = x[0], people[0]  # a repeat of one's own does no harm
    found, learning = spied((x, y), people=people, routes=[HELD_OUT, COMPRESSION, PAC_BAYES])
    assert (found.report.unit, found.report.n) == ("person", 150)
    assert found.certificate.measures == "0-1 risk of a new person"
    sides = {person: set(learning[np.array(people) == person]) for person in set(people)}
    assert all(len(side) == 1 for side in sides.values())
    assert sum(side == {True} for side in sides.values()) == found.train
    assert "another risk" in {one.name: one.reason for one in found.report.refusals}[COMPRESSION]


def test_of_several_models_the_smallest_is_taken_and_all_are_paid_for():
    data = world(400, seed=7)
    models = {"good": Fixed(np.eye(4)[0]), "bad": Fixed(np.eye(4)[1])}
    found = held_out(models, data)
    assert found.chosen == "held-out count, good"
    assert [one.certificate.failure_prob for one in found.tried] == [0.025, 0.025]
    assert found.certificate.failure_prob == near(0.05)


class Shared(Perceptron):
    """An estimator whose class remembers how many examples each copy was fitted on."""

    fits: ClassVar[list[int]] = []

    def fit(self, X, y):
        Shared.fits.append(len(X))
        return super().fit(X, y)


def test_no_model_is_counted_after_another_one_was_shown_everything():
    found = self_certify([Shared(), Shared(max_iter=500)], world(200, seed=11))
    assert {one.route for one in found.tried} == {HELD_OUT, COMPRESSION}
    assert Shared.fits[:2] == [found.train] * 2
    assert len(Shared.fits) > 2


class Pooled(Fixed):
    """An estimator that keeps what it learnt in a dictionary of its class."""

    learnt: ClassVar[dict] = {}

    def fit(self, x, y):
        self.learnt["normal"] = self.normal
        return self

    def predict(self, x):
        return (np.asarray(x) @ self.learnt["normal"] > 0).astype(np.int64)


def test_a_predictor_that_a_later_fit_changed_is_refused():
    axes, data = np.eye(4), world(400, seed=7)
    with refusal("predictor of held-out count, good answers other than when its errors were counted: .* in no class"):
        held_out({"good": Pooled(axes[0]), "bad": Pooled(axes[1])}, data)
    assert held_out({"good": Pooled(axes[0]), "same": Pooled(2 * axes[0])}, data).chosen.endswith("good")


def test_an_estimator_s_probabilities_stay_what_they_are_where_it_is_compressed():
    x, y = (one[::4] for one in (load("digits2")[0].inputs.reshape(1437, -1), load("digits2")[0].labels))
    found = self_certify(KNeighborsClassifier(3), (x, y), routes=[COMPRESSION])
    assert not any("drawn by the seed for training" in one for one in found.report.remarks)  # nothing is held out
    threes = found.predict_proba(x) * 3.0
    assert np.allclose(threes, np.rint(threes), atol=1e-9)
    assert {*np.rint(threes).ravel()} > {0.0, 3.0}


def test_estimators_that_say_once_fitted_how_they_answer_are_taken_by_every_door():
    stack = StackingClassifier([("a", SVC()), ("b", KNeighborsClassifier(3))], cv=2)
    data = (load("digits2")[0].inputs[:200, 0, :, 4], load("digits2")[0].labels[:200])
    for model in (stack, make_pipeline(StandardScaler(), stack)):
        assert not hasattr(model, "predict")
        found = self_certify(model, data, routes=[HELD_OUT])
        assert found.predict(data[0]).shape == (200,)
        assert compress(model, data, groups=20, stop=Stop(rounds=(2,))).certificate.value < 1.0


def test_an_estimator_begins_unfitted_on_every_route_and_writes_into_no_other_s_examples():
    rng = default_rng(2)
    data = rng.normal(size=(100, 30)), rng.integers(0, 2, 100)  # which no input tells anything about
    warm = Perceptron(warm_start=True, max_iter=200)
    known, new = (self_certify(one, data, routes=["compression"]) for one in (clone(warm).fit(*data), warm))
    assert known.to_dict() == new.to_dict()
    assert known.certificate.value > 0.5
    scaled = make_pipeline(StandardScaler(copy=False), LogisticRegression())
    calls = (held_out({"a": one, "b": LogisticRegression()}, data) for one in (Fixed(np.ones(30)), scaled))
    first, after = (one.tried[1].certificate for one in calls)
    assert first == after


class Series:
    """The largest of a few numbers, which ``predict`` may centre in place."""

    def __init__(self, centred):
        self.centred = centred

    def fit(self, x, y):
        return self

    def predict(self, x):
        for one in x:
            one -= one.mean() if self.centred else 0.0
        return np.array([0 if self.centred else int(one[0] > 0) for one in x])


class Cells:
    """A column of a data frame, whose cells are arrays: pandas copies what refers to them alone."""

    def __init__(self, rows):
        self.cells = np.fromiter(rows, dtype=object, count=len(rows))
        self.iloc, self.dtypes, self.shape = self, np.dtype(object), self.cells.shape

    def __iter__(self):
        return iter(self.cells)

    def __len__(self):
        return len(self.cells)

    def __getitem__(self, places):
        return Cells(self.cells[places])

    def copy(self):
        return Cells(self.cells)

    def to_numpy(self):
        return self.cells


@parametrize("form", [list, lambda rows: np.array([*rows, None], dtype=object)[:-1], Cells])
def test_rows_that_are_objects_are_copied_for_who_writes_on_them(form):
    """The second model was counted on what the first had made of the rows: no errors, where half of all are."""
    rows = [5.0 + one for one in default_rng(0).normal(size=(200, 4))]
    before, y = np.array(rows), np.array([one[0] > one.mean() for one in rows]).astype(int)
    found = held_out({"first": Series(True), "second": Series(False)}, (form(rows), y))
    assert array_equal(np.array(rows), before)
    assert found.tried[1].error > 0.3


class Validated(KNeighborsClassifier):
    """Learns from what it validates on, too."""

    def __init__(self, on=None):
        super().__init__(1)
        self.on = on

    def fit(self, x, y):
        return super().fit(np.concatenate([x, self.on[0]]), np.concatenate([y, self.on[1]]))


def test_an_estimator_that_brings_the_bound_s_rows_is_refused_and_what_is_frozen_is_copied():
    x, y = world(200, seed=3)
    with refusal("the model refers to .* of the .* inputs that the bound rests on .*on", DataError):
        held_out(Validated((x[150:], y[150:])), (x, y))
    with refusal("the model refers to all labels", DataError):
        held_out(Validated((np.round(x, 3), y)), (x, y))
    held_out(Validated(world(50, seed=4)), (x, y))
    for form in (pl.DataFrame, sparse.csr_matrix):
        with refusal("the model refers to .* of the .* inputs that the bound rests on .*on", DataError):
            held_out(Validated((form(x)[150:], y[150:])), (form(x), y))
    scaler = StandardScaler().fit(world(50, seed=5)[0])
    found = held_out(make_pipeline(FrozenEstimator(scaler), KNeighborsClassifier(3)), (x, y))
    said = found.predict(x)
    scaler.fit(9.0 * x + 4.0)
    assert array_equal(found.predict(x), said)


def test_routes_that_came_to_nothing_are_paid_for_and_what_was_given_is_declared():
    class Wild(LogisticRegression):
        def fit(self, x, y):
            return super().fit(x + default_rng().normal(size=x.shape), y)

    found = self_certify(Wild(), world(200, seed=7))
    assert found.tried[1].certificate is None
    assert found.certificate.failure_prob == near(0.05)
    assert "weights and fitted parts included" in found.certificate.hypothesis("settings fixed beforehand").by
    assert DOES_NOT not in {one.verdict for one in check_report(json.loads(json.dumps(found.to_dict())))}


MODELS, FAIL = 8, 0.2


def _coin(seed):
    """Labels that no input tells anything about, so that every model errs with probability 1/2."""
    rng = default_rng([seed, 11])
    normals = default_rng(0).normal(size=(MODELS, 6))
    models = {str(place): Fixed(normal) for place, normal in enumerate(normals)}
    return models, (rng.normal(size=(100, 6)), rng.integers(0, 2, 100))


def test_the_chosen_certificate_holds_as_often_as_it_says_and_an_unpaid_choice_does_not(whole):
    failed, unpaid, repeats = 0, 0, 150 if whole else 60
    for seed in range(repeats):
        models, data = _coin(seed)
        found = held_out(models, data, failure_prob=FAIL, train_share=0.4, seed=seed)
        failed += found.certificate.value < 0.5
        counts = [one.certificate.inputs for one in found.tried]
        unpaid += min(bounds.clopper_pearson_upper(at["k"], at["n"], FAIL) for at in counts) < 0.5
    assert stats.binomtest(failed, repeats, FAIL, alternative="greater").pvalue > 1e-4
    assert stats.binomtest(unpaid, repeats, FAIL, alternative="greater").pvalue < 1e-9, "this test would notice"


def test_routes_that_all_took_the_whole_failure_probability_are_refused(monkeypatch):
    monkeypatch.setattr(bounds.FailureBudget, "share", lambda self, name, ways: self.total)
    models, data = _coin(0)
    with refusal("sum to a failure probability"):
        held_out(models, data)


def test_text_labels_come_back_as_text_and_an_estimator_s_own_probabilities_too():
    x, y = world(200, seed=8)
    names = np.array([np.str_("cat"), np.str_("dog")], dtype=object)[y]
    found = held_out(LogisticRegression(), (x, names))
    assert set(found.predict(x)) <= {"cat", "dog"}
    assert found.predict_proba(x).shape == (200, 2)
