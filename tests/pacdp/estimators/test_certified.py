"""Estimators with a certificate behave as scikit-learn's, and count nothing that they were fitted on."""

import copy
from fractions import Fraction
from threading import Lock

import numpy as np
import polars
import pytest
import torch
from numpy.random import default_rng
from scipy import sparse
from sklearn import config_context
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import load_diabetes, load_digits, make_regression
from sklearn.dummy import DummyClassifier
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV, GroupKFold, PredefinedSplit
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler, scale
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

import bounds
from pacdp import CertifiedClassifier, CertifiedRegressor, self_certify
from pacdp.data import DataError
from pacdp.trials import kept_draws
from tests.marks import every_case, near, parametrize, refusal


@pytest.mark.every_case
@pytest.mark.wrong_types
@parametrize_with_checks([
    CertifiedClassifier(LogisticRegression(), random_state=0),
    CertifiedRegressor(Ridge(), clip=5.0, random_state=0),
])  # fmt: skip
def test_scikit_learn_s_own_checks(estimator, check):
    check(estimator)


def test_a_certificate_counts_what_was_kept_back_and_nothing_else():
    x, y = load_digits(return_X_y=True)
    model = CertifiedClassifier(KNeighborsClassifier(1), certified_share=0.4, random_state=1).fit(x, y)
    found = model.certify()
    assert model.n_fitted_ + model.n_kept_ == len(y)
    assert found.n == model.n_kept_ == round(0.4 * len(y) + 0.5)
    row = found.statements[0]
    errors = round(row.measured * found.n)
    assert 0 < errors  # one nearest neighbour has none on what it was fitted on
    assert row.upper == bounds.clopper_pearson_upper(errors, found.n, 0.05)
    assert "At most" in found.headline()


def test_new_examples_may_be_given():
    x, y = load_digits(return_X_y=True)
    model = CertifiedClassifier(DecisionTreeClassifier(), random_state=0).fit(x[:900], y[:900])
    assert model.certify(x[900:], y[900:]).n == len(y) - 900
    with refusal("give X and y, or neither"):
        model.certify(x)
    for whose in (None, np.arange(len(x))[900:] // 2):  # it was told nobody's
        by = (
            model.certify(x[900:], y[900:], groups=whose)
            .certificates[0]
            .hypothesis("predictor saw none of these rows")
            .by
        )
        assert ("told no groups" in by) is (whose is not None)
    assert hasattr(CertifiedClassifier(), "predict_proba")  # of the default, before it is fitted


def coins(n=200, *, seed=7):
    rng = default_rng(seed)
    return rng.normal(size=(n, 3)), rng.integers(0, 2, n)


def thrice(x, y):
    """Every example three times."""
    return np.tile(x, (3, 1)), np.tile(y, 3)


def test_columns_of_a_frame_in_another_order_are_refused_and_count_as_no_new_examples():
    x, y = coins()
    table = polars.DataFrame({name: x[:, k] for k, name in enumerate("abc")})
    model = CertifiedClassifier(NEAREST, random_state=0).fit(table, y)
    for answer in (lambda: model.predict(table[["c", "b", "a"]]), lambda: model.certify(table[["c", "b", "a"]], y)):
        with refusal("feature names"):
            answer()


NEAREST, SAW = KNeighborsClassifier(1), "have an input that training saw too"


def cells(x, number=float):
    """A table of numbers and texts."""
    mixed = np.array([[f"Row {k}", *map(number, row)] for k, row in enumerate(x * 64)], dtype=object)
    return mixed[:, ::-1]


FORMS = {
    "an array": (np.asarray, lambda x: x.astype(np.float32)),
    "sparse": (sparse.csr_matrix, lambda x: sparse.csr_matrix(x.astype(np.float32))),
    "texts": (lambda x: x.astype(str).astype(object), lambda x: np.char.add(x.astype(str), " ").astype(object)),
    "cells": (lambda x: cells(x, int), lambda x: cells(np.trunc(x * 64) / 64, np.float32)),
}


@every_case("kind", FORMS)
def test_what_the_estimator_was_fitted_on_is_not_counted(kind):
    (x, y), (form, again) = coins(), FORMS[kind]
    model = CertifiedClassifier(DummyClassifier(), certified_share=0.6, random_state=0).fit(form(x), y)
    for rows, labels in ((form(x), y), (form(x), 1 - y), (again(x), y)):
        with refusal(SAW, DataError):
            model.certify(rows, labels)
    whole = CertifiedClassifier(DummyClassifier(), random_state=0).fit(np.rint(9e3 * x).astype(int), y)
    with refusal(SAW, DataError):
        whole.certify(np.rint(9e3 * x).astype(int).astype(object), y)
    new, others = coins(seed=8)
    assert model.certify(form(new), others).certificates[0].status == "rigorous"


def test_copies_are_not_counted_and_draws_that_recur_are_named():
    x, y = coins()
    model = CertifiedClassifier(NEAREST, random_state=0)
    with refusal(f"{SAW}.*groups=", DataError):
        model.fit(*thrice(x, y)).certify()
    whose = np.tile(np.arange(200), 3)
    assert model.fit(*thrice(x, y), groups=whose).certify().statements[0].measured > 0.3
    for form in (np.asarray, torch.tensor, lambda one: [*torch.tensor(one)], lambda one: one.astype(str)):
        with refusal("groups have some", DataError):
            model.certify(*coins(seed=8), groups=form(whose[:200]))
    padded = [f"{one:04d}" for one in range(200)]  # as a spreadsheet may write them
    with refusal("groups have some", DataError):
        model.certify(*coins(seed=8), groups=padded)
    with refusal("groups must say whose"):
        model.certify(*coins(seed=8))
    with refusal("100 of the 300 .* an earlier one has", DataError):
        model.fit(x, y).certify(*(np.concatenate([one, one[:100]]) for one in coins(seed=8)))
    for groups in ([None] * 600, np.zeros((600, 2)), ["a"] * 600, (one for one in whose)):
        with refusal("groups must"):
            model.fit(*thrice(x, y), groups=groups)
    with refusal("people must have no gaps, got '-1'"):  # of whom each may be on both sides
        model.fit(*thrice(x, y), groups=np.where(whose < 9, -1, whose))
    for recur, status in ((0, "rigorous"), (20, "optimistic")):
        x[:recur] = x[0]
        found = model.fit(x, y).certify()
        assert found.certificates[0].status == status
        assert any("equal inputs" in one for one in found.remarks) == bool(recur)


class Ranks(DummyClassifier):
    """The upper half of whatever batch it is asked about."""

    def predict(self, X):
        return (X[:, 0] > np.median(X[:, 0])).astype(int)


class Lazy(DummyClassifier):
    """Right on whatever it is asked first."""

    def predict(self, X):
        self.first_ = getattr(self, "first_", X[:, 0])
        return np.isin(X[:, 0], self.first_, invert=True).astype(int)


class Locked(Lazy):
    """The same, of which no copy can be made."""

    def fit(self, X, y):
        self.lock_ = Lock()
        return super().fit(X, y)


class Alone(Ridge):
    """Says another thing of one row alone, as ``squeeze`` may."""

    def predict(self, X):
        return super().predict(X) if len(X) > 1 else np.full(1, -5.0)


def test_answers_that_other_examples_decide_are_refused_and_predict_cannot_write_into_what_was_kept():
    x, _ = coins()
    y = (x[:, 0] > 0).astype(int)
    whole = make_pipeline(FunctionTransformer(scale), LogisticRegression())
    for made in (Ranks(), whole):
        with refusal("depends on the examples beside it"):
            CertifiedClassifier(made, random_state=0).fit(x + 5, y).certify()
        with refusal("depends on the examples beside it"):
            self_certify(made, (x + 5, y), routes=["held-out count"])
    lazy = CertifiedClassifier(Lazy(), random_state=0).fit(x, (np.arange(200) == 0).astype(int))
    for new in ((), (), (x + 1, np.zeros(200, int))):
        with refusal("depends on the examples beside it"):
            lazy.certify(*new)
    few = (default_rng(9).random(200) < 0.1).astype(int)
    locked = CertifiedClassifier(Locked(), random_state=0).fit(x, few)  # what it was fitted on came first
    held = self_certify(Locked(), (x, few), routes=["held-out count"]).report
    assert locked.certify().certificates[0].value > held.certificates[0].value > 0.8
    y = np.arange(3000) % 2  # of so many a batch of half hardly moves one, and 33 alone are few
    x = default_rng(0).normal(size=(3000, 3)) / 3 + 2 * y[:, None] - 1
    for model in (CertifiedClassifier(whole, random_state=0), CertifiedRegressor(Alone(), clip=2.0, random_state=0)):
        with refusal("depends on the examples beside it"):
            model.fit(x, y).certify()
    with refusal("depends on the examples beside it"):
        self_certify(whole, (x, y), routes=["held-out count"])
    x, y = x[:200], y[:200]
    writes = CertifiedClassifier(make_pipeline(StandardScaler(copy=False), KNeighborsClassifier(1)), random_state=0)
    assert writes.fit(x + 5, y).certify() == writes.certify()
    with refusal(SAW, DataError):
        writes.fit(*thrice(x, y)).certify()


class Fails(KNeighborsClassifier):
    """Cannot be fitted on a label beyond 1."""

    def fit(self, X, y, sample_weight=None):
        if y.max() > 1:
            raise KeyboardInterrupt
        assert sample_weight is None or len(sample_weight) == len(y)
        return super().fit(X, y)


def test_a_fit_that_was_broken_off_leaves_the_one_before_and_columns_are_cut_with_the_rows():
    x, y = coins()
    model = CertifiedClassifier(Fails(1), random_state=0).fit(x, y, sample_weight=y + 1)
    before = model.certify()
    with pytest.raises(KeyboardInterrupt):
        model.set_params(random_state=1).fit(x, y + 1)
    assert model.certify() == before
    assert "set aside by place" in before.certificates[0].hypothesis("predictor saw none of these rows").by
    assert "the best of several calls" in before.certificates[0].hypothesis("settings fixed beforehand").by


def test_an_estimator_that_learnt_more_since_fit_is_refused_and_hidden_labels_are():
    x, y = coins()
    model = CertifiedClassifier(NEAREST, random_state=0).fit(x, y)
    model.estimator_.fit(x, y)  # those kept back among them
    days = y + 20250101.0  # whose names differ by less than a millionth
    dated = CertifiedClassifier(NEAREST, random_state=0).fit(x, days)
    dated.estimator_.fit(x, days)
    with refusal("answers other than when fit ended"):
        dated.certify()
    new, others = coins(seed=8)
    for more in ((), (new, others)):
        with refusal("answers other than when fit ended"):
            model.certify(*more)
    far = default_rng(9).normal(size=(200, x.shape[1])) + 1e3  # of another hospital: no answer of the first moves
    model = CertifiedClassifier(NEAREST, random_state=0).fit(x, y)
    model.estimator_.fit(np.concatenate([model.estimator_._fit_X, far]), [*model.estimator_._y, *coins()[1][:200]])
    model.certify()
    with refusal("answers other than when fit ended"):
        model.certify(far, coins()[1][:200])
    masked = np.ma.masked_array(y, y == 1)
    for call in (lambda: model.fit(x, masked), lambda: model.fit(x, y).certify(new, masked)):
        with refusal("y are a masked array", DataError):
            call()


class Mended(DummyClassifier):
    """Answers 0, but for what it was shown since it was fitted."""

    shown = np.empty(0)

    def predict(self, X):
        return np.isin(X[:, 0], self.shown).astype(int)


def test_answers_that_are_others_than_when_fit_ended_are_errors():
    x = default_rng(0).normal(size=(1000, 2))
    y = np.arange(1000) % 100 == 0
    model = CertifiedClassifier(Mended(), random_state=0).fit(x, y.astype(int))
    before = model.certify()
    kept = model._kept[0][:, 0]
    model.estimator_.shown = kept[model._kept[1] == 1][:1]
    assert model.certify() == before
    model.estimator_.shown = kept[model._kept[1] == 1][:2]
    with refusal("answers other than when fit ended"):
        model.certify()


class Times(Alone):
    """Seconds since 1970, for all but single rows; the millionth of such a number is half an hour."""

    def predict(self, X):
        return 1.7e9 + 500.0 * np.sign(X[:, 0]) * (len(X) > 1)


def test_rounding_of_large_answers_is_less_than_the_errors_that_are_clipped():
    x = default_rng(0).normal(size=(400, 2))
    y = 1.7e9 + 500.0 * np.sign(x[:, 0])
    with refusal("depends on the examples beside it"):
        CertifiedRegressor(Times(), clip=60.0, random_state=0).fit(x, y).certify()
    single, targets = (one.astype(np.float32) for one in make_regression(2000, 10, noise=100.0, random_state=0))
    CertifiedRegressor(KernelRidge(), clip=100.0, random_state=0).fit(single, targets).certify()  # sums of 1,400 terms
    model = CertifiedRegressor(Ridge(), clip=60.0, random_state=0).fit(x, y)
    model.certify()
    model.estimator_.fit(x, y + 9.0 * x[:, 0])
    with refusal("answers other than when fit ended"):
        model.certify()


class Slips(Mended):
    """Knows three classes from the input, and says 2 of those that it was shown."""

    def predict(self, X):
        return np.where(np.isin(X[:, 0], self.shown), 2, X[:, 0] % 3).astype(int)


def test_an_error_that_moved_stays_a_false_alarm_of_the_class_that_it_named():
    x, y = np.arange(300.0)[:, None], np.arange(300) % 3
    model = CertifiedClassifier(Slips(), random_state=0).fit(x, y)
    model.estimator_.shown = model._kept[0][model._kept[1] == 1][:1, 0]
    measured = {one.quantity: one.measured for one in model.certify(ask="precision").statements}
    assert measured["precision of class 0"] == 1.0 > measured["precision of class 2"]


class Column(KNeighborsClassifier):
    """Answers in a column, as gradient boosting elsewhere does."""

    def predict(self, X):
        return super().predict(X)[:, None]


def test_classes_may_be_whole_floats_and_answers_and_new_classes_a_column():
    x, y = coins()
    new, others = coins(seed=8)
    whole, floats = (CertifiedClassifier(NEAREST, random_state=0).fit(x, one) for one in (y, y.astype(float)))
    assert whole.certify() == floats.certify()
    beside = CertifiedClassifier(Column(1), random_state=0).fit(x, y)
    assert beside.certify() == whole.certify()
    assert beside.certify(new, others[:, None]) == whole.certify(new, others)
    counts = (self_certify(one, (x, y), routes=["held-out count"]).to_dict() for one in (NEAREST, Column(1)))
    assert next(counts) == next(counts)
    names = np.array([np.str_("None" if one else "Mild") for one in y], dtype=object)  # classes, and no gaps
    for form in (names, names.tolist()):
        measured = CertifiedClassifier(NEAREST, random_state=0).fit(x, form).certify().statements[0].measured
        assert measured == whole.certify().statements[0].measured
    for targets, said in ((others.astype(str), "y, beside .* got int and str"), (others + 0.5, "y must be whole")):
        with refusal(said):
            whole.certify(new, targets)
    gaps = [None, *names[1:]]
    for form in (gaps, np.array(gaps, dtype=object)):
        with refusal("y must have no gaps, got none in row 0: fill it in"):
            CertifiedClassifier(NEAREST).fit(x, form)
    attached = torch.tensor(0.0, requires_grad=True)
    for answer, kind in (
        (None, r"an array of shape \(\)"),
        (attached, "Tensor"),
        (torch.zeros(2).bfloat16(), "Tensor"),
    ):
        with refusal(f"predict must answer .*, got {kind}"):
            CertifiedClassifier(Odd(answer), random_state=0).fit(x, y).certify()


class Signal:
    """A recording, which is brought to size once."""

    def __init__(self, values):
        self.values, self.sized = values, None


class Nearest(KNeighborsClassifier):
    """Of recordings, which it leaves other than it got them."""

    def sized(self, X):
        for one in X:
            one.values -= one.values.mean()
            one.sized = one.values if one.sized is None else one.sized
        return np.stack([one.sized for one in X])

    def fit(self, X, y):
        return super().fit(self.sized(X), y)

    def predict(self, X):
        return super().predict(self.sized(X))


class Scaled(KNeighborsClassifier):
    """Scales the examples of early stopping where they lie."""

    def fit(self, X, y, validation):
        for one in validation:
            values = getattr(one, "values", one)
            values /= 10.0
        return super().fit(self.rows(X), y)

    def predict(self, X):
        return super().predict(self.rows(X))

    def rows(self, X):
        return np.stack([getattr(one, "values", one) for one in X])


def test_rows_that_fit_writes_into_are_known_again_as_they_came():
    x, y = coins()
    whole = [Signal(one) for one in x.copy()]
    model = CertifiedClassifier(Nearest(1), random_state=0).fit(whole, y)
    assert all(np.array_equal(one.values, row) and one.sized is None for one, row in zip(whole, x, strict=True))
    assert model.certify().certificates[0].value > 0.4
    for again in (whole, [Signal(one) for one in x.copy()]):
        with refusal(SAW, DataError):
            model.certify(again, y)
    copies = [Signal(one) for one in np.tile(x, (3, 1))]
    with refusal(SAW, DataError):
        CertifiedClassifier(Nearest(1), random_state=0).fit(copies, np.tile(y, 3)).certify()
    for form in (x, whole):
        model = CertifiedClassifier(Scaled(1), random_state=0).fit(form, y, validation=copy.deepcopy(form[1:]))
        with refusal(SAW, DataError):
            model.certify()


class NotAvailable:
    """What pandas has for a gap, which is neither equal to anything nor true or false."""

    def __ne__(self, other):
        return self

    __hash__ = object.__hash__

    def __bool__(self):
        raise TypeError("boolean value of NA is ambiguous")

    def __repr__(self):
        return "<NA>"


@parametrize("kind", [NotAvailable, lambda: float("nan"), lambda: None])
def test_a_gap_among_texts_is_named_whatever_it_is(kind):
    gap = kind()
    x, texts = np.arange(20.0)[:, None], np.array(["ill", "well"] * 10, dtype=object)
    any_length = np.dtypes.StringDType(na_object=None)
    whole = CertifiedClassifier(NEAREST, random_state=0).fit(x, texts).certify()
    assert CertifiedClassifier(NEAREST, random_state=0).fit(x, texts.astype(any_length)).certify() == whole
    texts[0] = gap
    forms = [texts, *([texts.astype(any_length)] if gap is None else [])]
    for form in forms:
        for one in (CertifiedClassifier(NEAREST), CertifiedRegressor()):
            with refusal("y must have no gaps, got none in row 0: fill it in"):
                one.fit(x, form)
        with refusal("labels must have no gaps, got none in row 0: fill it in"):
            self_certify(NEAREST, (x, form))


class NoAnswerAboveTwo(Ridge):
    """One without an answer for some inputs."""

    def predict(self, X):
        return np.where(X[:, 0] > 2.0, np.nan, super().predict(X))


def test_no_answer_is_the_largest_error_and_warns_of_nothing():
    x, y = coins()
    model = CertifiedRegressor(NoAnswerAboveTwo(), clip=9.0, random_state=0).fit(3.0 * x, 1.0 * y)
    found, asked = model.certify(), model._kept[0]
    missed = (asked[:, 0] > 2.0).mean()
    assert 0.0 < missed <= found.statements[0].measured < missed + 0.2


@parametrize("targets", [np.array(["1", "2"] * 10), np.arange(20).astype("M8[s]"), np.arange(20) + 2**60])
def test_targets_that_are_no_real_numbers_are_refused_before_the_fit(targets):
    with refusal("targets must be real numbers, one for each example: "):
        CertifiedRegressor(DummyClassifier()).fit(np.arange(20.0)[:, None], targets)


class Odd(DummyClassifier):
    """Forgot to return, or to detach."""

    def __init__(self, answer=None):
        super().__init__()
        self.answer = answer

    def predict(self, X):
        return self.answer


def test_nobody_is_on_both_sides_of_a_split_or_a_search_s_folds_and_people_are_counted():
    rng = default_rng(0)
    people = np.repeat(np.arange(80), 5)
    x = rng.normal(size=(400, 3)) + people[:, None]
    y = rng.integers(0, 2, 80)[people]
    with refusal("groups must be so many that certified_share=0.3 of them are two or more, got 3"):
        CertifiedClassifier().fit(x, y, groups=people % 3)
    model = CertifiedClassifier(KNeighborsClassifier(1), random_state=0).fit(x, y, groups=people)
    found = model.certify()
    assert found.unit == "person"
    assert found.n == 24
    assert set(model._kept[2].tolist()).isdisjoint(np.setdiff1d(people, model._kept[2]).tolist())
    assert found.statements[0].measured > 0.3  # a label of one's own says nothing of somebody else's
    assert not found.remarks
    spelt = np.char.add("p", people.astype(str)).astype("U4")
    spelt[::5] = np.char.add(spelt[::5], " ")  # as files from two places may have them
    for said in (
        CertifiedClassifier(NEAREST, random_state=0).fit(x, y, groups=spelt).certify(),
        self_certify(NEAREST, (x, y), people=spelt, routes=["held-out count"]).report,
    ):
        assert any("differ by a space, case or zeros alone" in one for one in said.remarks)
    search = GridSearchCV(KNeighborsClassifier(), {"n_neighbors": [1]}, cv=GroupKFold(2))
    by_group = CertifiedClassifier(search, random_state=0).fit(x, y, groups=people)
    assert by_group.certify() == found
    assert by_group.estimator_.best_score_ < 0.7
    with config_context(enable_metadata_routing=True):
        routed = CertifiedClassifier(make_pipeline(StandardScaler(), search), random_state=0)
        assert routed.fit(x, y, groups=people).estimator_[-1].best_score_ < 0.7
        assert CertifiedClassifier(NEAREST, random_state=0).fit(x, y, groups=people).certify() == found
    for cv in (PredefinedSplit(people % 2), [*GroupKFold(2).split(x, y, people)]):
        with refusal("gridsearchcv__cv of the estimator must say how rows are divided"):
            CertifiedClassifier(make_pipeline(StandardScaler(), search.set_params(cv=cv))).fit(x, y)


def test_a_certificate_holds_as_often_as_it_says():
    """A rule of known error, at a failure probability of 0.2: false at most that often, by a binomial test."""
    rng, failed = default_rng(3), 0
    for seed in range(150):
        y = (rng.random(400) < 0.3).astype(int)
        model = CertifiedClassifier(DummyClassifier(strategy="constant", constant=0), random_state=seed)
        failed += model.fit(np.arange(400.0)[:, None], y).certify(failure_prob=0.2).statements[0].upper < 0.3
    assert 5 <= failed <= 48  # 150 draws of at most 0.2: beyond it with probability 1e-4


@parametrize("how", ["the number", "a generator", "NumPy's own, set to it"])
def test_the_seed_of_the_split_may_be_that_of_the_data(how):
    """A random half was labelled anew by hand; the others are wrong in three of ten, all in all in 15%."""
    measured = []
    for seed in range(20):
        rng = np.random.RandomState(seed)
        by_hand = rng.choice(400, 200, replace=False)
        y = (rng.random(400) < 0.3).astype(int)
        y[by_hand] = 0
        given = {"the number": seed, "a generator": np.random.RandomState(seed)}.get(how)
        model = CertifiedClassifier(DummyClassifier(strategy="constant", constant=0), random_state=given)
        with kept_draws() as of_numpy:
            of_numpy.seed(seed)
            measured.append(model.fit(np.arange(400.0)[:, None], y).certify().statements[0].measured)
    assert np.mean(measured) == pytest.approx(0.15, abs=0.03)


def test_regression_is_certified_by_a_clipped_error():
    x, y = load_diabetes(return_X_y=True)
    model = CertifiedRegressor(Ridge(), clip=200.0, random_state=0).fit(x, y)
    row = model.certify().statements[0]
    kept_x, kept_y, _ = model._kept
    assert row.measured == near(np.minimum(np.abs(model.predict(kept_x) - kept_y) / 200.0, 1.0).mean())
    assert row.measured < row.upper < row.measured + 0.15
    assert "clipped at 200" in model.certify().headline()
    beyond = y.astype(int) + 2**53
    for targets in (y + 1j, y.astype(str), beyond, beyond.astype(object), beyond.astype(np.longdouble)):
        with refusal("targets must be real numbers"):
            model.certify(x + 1, targets)
    assert model.set_params(clip=Fraction(400, 2)).certify().statements[0] == row
    with refusal("positive number, got '200'"):
        model.set_params(clip="200").certify()


@pytest.mark.wrong_types
@parametrize(
    ("made", "said"),
    [
        (lambda: CertifiedClassifier(certified_share=1.0), "certified_share must lie"),
        (lambda: CertifiedClassifier(certified_share="0.3"), "certified_share must lie"),
        (lambda: CertifiedClassifier(Ridge()), "must be a classifier"),
        (lambda: CertifiedClassifier(Ridge), "must be an object, got the class Ridge"),
        (lambda: CertifiedClassifier("svc"), "must be one of scikit-learn, got str: derive"),
        (lambda: CertifiedRegressor(clip=0.0), "positive number"),
        (lambda: CertifiedRegressor(clip=10**400), "positive number"),
        (lambda: CertifiedRegressor(kind="cubic"), "'absolute' or 'squared'"),
    ],
)
def test_bad_settings_are_refused_before_anything_is_fitted(made, said):
    with refusal(said):
        made().fit(np.arange(20.0)[:, None], np.arange(20) % 2)


def test_one_class_alone_is_no_classification():
    with refusal("y must hold at least two classes, got 1 in every row"):
        CertifiedClassifier().fit(np.arange(20.0)[:, None], np.ones(20, int))


@pytest.mark.parametrize("of", [CertifiedClassifier, CertifiedRegressor])
def test_neighbours_alike_are_named_though_those_kept_back_are_shuffled(of):
    draws = default_rng(0)
    people = np.repeat(np.arange(60), 8)
    x, y = draws.normal(size=(60, 5))[people], draws.integers(0, 2, 60)[people] * 1.0
    y += 0.1 * draws.normal(size=480) * (of is CertifiedRegressor)
    x += 0.05 * draws.normal(size=x.shape)
    tree = KNeighborsClassifier(1) if of is CertifiedClassifier else Ridge()
    model = of(tree, random_state=0)
    assert any("give groups" in one for one in model.fit(x, y).certify().remarks)
    assert not any("neighbours" in one for one in model.fit(x, y, groups=people).certify().remarks)
    order = draws.permutation(480)
    assert not any("neighbours" in one for one in model.fit(x[order], y[order]).certify().remarks)


def test_neighbours_alike_are_named_by_self_certify():
    draws = default_rng(0)
    people = np.repeat(np.arange(60), 8)
    x, y = draws.normal(size=(480, 5)), draws.integers(0, 2, 60)[people]
    found = self_certify(KNeighborsClassifier(1), (x, y), routes="held-out count")
    assert "give people" in found.report.remarks[0]
    found = self_certify(KNeighborsClassifier(1), (x, y), people=people, routes="held-out count")
    assert not any("neighbours" in one for one in found.report.remarks)


class _Stopped(KNeighborsClassifier):
    """Takes further tables, as boosting does for early stopping."""

    def fit(self, X, y, **further):
        return super().fit(X, y)


class _Reads(ClassifierMixin, BaseEstimator):
    """Of texts, with further ones for early stopping."""

    def __init__(self, words):
        self.words = words

    def fit(self, X, y, **further):
        self.inner_ = make_pipeline(self.words, KNeighborsClassifier(1)).fit(X, y)
        self.classes_ = self.inner_.classes_
        return self

    def predict(self, X):
        return self.inner_.predict(X)


@pytest.mark.parametrize("name", ["eval_set", "X_val"])
def test_rows_that_fit_is_given_besides_are_among_those_seen(name):
    x, y = load_digits(return_X_y=True)
    table = polars.from_numpy(x[900:1200])
    besides = {name: table if name == "X_val" else [(table, y[900:1200])]}
    model = CertifiedClassifier(_Stopped(), random_state=0).fit(x[:900], y[:900], **besides)
    with pytest.raises(DataError, match="have an input that training saw too"):
        model.certify(x[900:1200], y[900:1200])
    assert model.certify(x[1200:], y[1200:]).n == len(y) - 1200
    assert model.certify().n == 270
    model.fit(x[:900], y[:900], eval_set=[(x, y)], sample_weight=np.ones(900))
    with pytest.raises(DataError, match="270 of the 270"):
        model.certify()


@every_case("form", ["sparse", "lists", "texts"])
def test_rows_that_fit_is_given_besides_are_known_in_every_form(form):
    x, y = load_digits(return_X_y=True)
    words = CountVectorizer(token_pattern=r"\S+")
    of, estimator = {
        "sparse": (sparse.csr_array, _Stopped()),
        "lists": (np.ndarray.tolist, _Stopped()),
        "texts": (lambda rows: [" ".join(f"{at}:{one:.0f}" for at, one in enumerate(row)) for row in rows],
                  _Reads(words)),
    }[form]  # fmt: skip
    more, told = of(x[300:400]), y[300:400]
    model = CertifiedClassifier(estimator, random_state=0).fit(of(x[:300]), y[:300], eval_set=[(more, told)])
    with pytest.raises(DataError, match="have an input that training saw too"):
        model.certify(more, told)
    assert model.certify(of(x[400:500]), y[400:500]).n == 100
    assert model.certify().n == 90


class _Frame:
    """What pandas does of rows: all of them in their order share memory."""

    def __init__(self, values):
        self.values, self.shape, self.iloc = values, values.shape, self

    def __len__(self):
        return len(self.values)

    def __array__(self, dtype=None, copy=None):
        return self.values

    def __getitem__(self, key):
        return self.take(key)

    def take(self, key, axis=0):
        return _Frame(self.values if len(key) == len(self) else self.values[key])

    def to_numpy(self):
        return self.values

    def copy(self):
        return _Frame(self.values.copy())


def test_rows_of_frames_are_copies_however_many_are_taken():
    draws = default_rng(0)
    x, y = _Frame(draws.normal(5.0, 3.0, size=(120, 4))), draws.integers(0, 2, 120)
    new = _Frame(draws.normal(5.0, 3.0, size=(120, 4)))
    before = new.values.copy()
    writes = make_pipeline(StandardScaler(copy=False), KNeighborsClassifier(1))
    model = CertifiedClassifier(writes, random_state=0).fit(x, y)
    assert model.certify().n == 36
    assert model.certify(new, y).n == 120
    assert (new.values == before).all()


class _Buffered(KNeighborsClassifier):
    """Writes all its answers into one array."""

    def predict(self, X):
        said = super().predict(X)
        self.__dict__.setdefault("kept", np.zeros(1000, said.dtype))[: len(said)] = said
        return self.kept[: len(said)]


def test_answers_are_kept_though_the_next_ones_overwrite_them():
    x, y = load_digits(return_X_y=True)
    model = CertifiedClassifier(_Buffered(), random_state=0).fit(x[:400], y[:400])
    assert model.certify().n == 120


class _Validates(KNeighborsClassifier):
    """Learns from what it validates on, which it brings along or is given in a dictionary or a loader."""

    def __init__(self, on=None):
        super().__init__(1)
        self.on = on

    def fit(self, X, y, further=None):
        more = [one() if callable(one) else one for one in (self.on, further) if one is not None]
        x, labels = zip((X, y), *((one["x"], one["y"]) for one in more), strict=True)
        return super().fit(np.concatenate(x), np.concatenate(labels))


def test_an_estimator_that_has_the_rows_kept_back_at_hand_is_refused():
    """With labels that are coins it had no error on them."""
    x, y = default_rng(0).normal(size=(200, 4)), default_rng(1).integers(0, 2, 200)
    everything = {"x": x, "y": y}
    frozen = FrozenEstimator(KNeighborsClassifier(1).fit(x, y))
    cases = [(_Validates(everything), None), (frozen, None),
             (_Validates(), everything), (_Validates(), lambda: everything)]  # fmt: skip
    for estimator, further in cases:
        besides = {} if further is None else {"further": further}
        with pytest.raises(DataError, match="refers to 60 of the 60 inputs that fit keeps back"):
            CertifiedClassifier(estimator).fit(x, y, **besides)
    others = {"x": default_rng(2).normal(size=(200, 4)), "y": y}
    assert CertifiedClassifier(_Validates(others)).fit(x, y, further=others).certify().headline()
