"""A scikit-learn estimator that keeps part of its data back, and says at the end how wrong it may be on new data."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownParameterType=false, reportMissingTypeArgument=false, reportUntypedBaseClass=false
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from numbers import Integral, Number, Real
from types import SimpleNamespace
from typing import Any, Literal, cast

import numpy as np
from sklearn import get_config
from sklearn.base import (
    BaseEstimator,
    ClassifierMixin,
    MetaEstimatorMixin,
    RegressorMixin,
    _clone_parametrized,
    clone,
)
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GroupShuffleSplit, PredefinedSplit, ShuffleSplit
from sklearn.model_selection._split import GroupsConsumerMixin
from sklearn.utils import _safe_indexing, check_random_state
from sklearn.utils.metadata_routing import get_routing_for_object
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    _check_method_params,
    _num_samples,
    check_array,
    check_is_fitted,
    column_or_1d,
    indexable,
    validate_data,
)

from bounds.hypotheses import declared
from pacdp.certify.evidence import equal_inputs
from pacdp.certify.outputs import ClippedError
from pacdp.data import DataError
from pacdp.data.hashing import require_no_mask, table_hashes
from pacdp.data.rows import FEW
from pacdp.predictions import Report, certify_predictions
from pacdp.predictions.columns import coded, require_no_gaps, require_one_order
from pacdp.predictions.described import alike, spelling
from pacdp.predictions.order import told_by_order
from pacdp.store.record import Values
from pacdp.trials import column, later_answers, own_answers, own_rows, settle, twin
from pacdp.trials.buffers import Holdings
from pacdp.trials.reachable import numbers_of

_KEPT = 0.5
"""The share of the examples kept back that may have inputs which the estimator was fitted on; of others, ``FEW``."""
_SPLIT = 0x73706C
"""What sets the draws of the split apart from those of ``random_state``, and of NumPy's global numbers, themselves."""

_FIXED = declared(
    "settings fixed beforehand",
    "the caller: estimator, its settings, the share, random_state and clip; the best of several calls was chosen on "
    "these examples, which is not paid for",
)
_OTHERS = (
    "estimator_ answers other than when fit ended: what it was fitted on since may be the examples that are counted, "
    "so fit anew"
)


def _has(name: str) -> Any:
    return available_if(lambda self: hasattr(getattr(self, "estimator_", self._chosen), name))


class _Certified(MetaEstimatorMixin, BaseEstimator):
    """What both have in common."""

    estimator: Any
    estimator_: Any
    certified_share: float
    random_state: Any
    _scale = 0.0
    """Of errors, where answers are numbers."""

    def __sklearn_clone__(self) -> Any:
        """A copy that knows which of its kind it is, since searches make many and keep one."""
        made: Any = _clone_parametrized(self)
        self._copies = made._place = getattr(self, "_copies", 0) + 1
        return made

    def _default(self) -> Any:
        raise NotImplementedError

    def _checked(self, X: Any, y: Any) -> tuple[Any, Any]:
        """Inputs that rows can be taken of, and one target an example; the estimator checks the rest."""
        if y is None:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is None"
            )
        require_no_mask(y, "y")
        X, y = indexable(X, y)
        validate_data(self, X, skip_check_array=True)
        if (targets := np.asarray(y)).dtype.kind in "OT":  # where scikit-learn's own look fails
            require_no_gaps("y", targets.ravel().tolist())
            y = targets.astype(object) if targets.dtype.kind == "T" else y
        return X, column_or_1d(
            check_array(y, ensure_2d=False, dtype=cast(Any, None), input_name="y"), warn=True
        )

    def fit(self, X: Any, y: Any, *, groups: Any = None, **fit_params: Any) -> Any:
        """Fit on a part of the examples and keep the rest.

        Args:
            X: [n, features], or whatever the estimator takes.
            y: one target an example.
            groups: whose each example is: nobody is then on both sides, and the certificate counts people; a search
                with folds by group, as an estimator, is given those that it is fitted on.
            fit_params: passed on to the estimator; of a column with one value an example, those that it is fitted on.
                Rows in tables with the columns of ``X``, as those of early stopping, are among those that it saw.

        Raises:
            DataError: the estimator, or a parameter of fit that is no table, refers to rows of numbers kept back.
            ValueError: things that do not fit each other, one class alone, or fewer than two examples to divide.
        """
        require_one_order(X=X, y=y, groups=groups)
        X, y = self._checked(X, y)
        self._require(y)
        if not isinstance(self.certified_share, Real) or not 0.0 < self.certified_share < 1.0:
            raise ValueError(f"certified_share must lie strictly between 0 and 1, got {self.certified_share!r}; 0.3 is "
                             "customary")  # fmt: skip
        whose = None
        if groups is not None:
            named = coded("people", coded("groups", groups))  # of whom nobody is unknown
            whose = np.asarray(named.names)[named.codes]
            if len(named.names) < 2:
                raise ValueError(
                    f"groups must be at least two, got {whose[0].item()!r} in every row: one is fitted on"
                )
        parts = ShuffleSplit if whose is None else GroupShuffleSplit
        number: Any = self.random_state
        if not isinstance(number, Integral):
            number = check_random_state(number).randint(2**32, dtype=np.uint32)
        # the caller's own draws may have made the data
        drawn = np.random.RandomState([int(number), _SPLIT])
        split = parts(n_splits=1, test_size=self.certified_share, random_state=drawn)
        fitted, kept = next(split.split(X, y, whose))
        if whose is not None and len(np.unique(whose[kept])) < 2:
            raise ValueError(
                f"groups must be so many that certified_share={self.certified_share} of them are two or more, got "
                f"{len(np.unique(whose))}: give a larger share, or leave groups out if examples are independent"
            )
        made: Any = clone(self._chosen)
        require_no_rows(made)
        cut = _check_method_params(X, fit_params, indices=fitted)
        if whose is not None and takes_groups(made):
            cut["groups"] = whose[fitted]  # of a search that validates by group
        given = _like(X, [*cut.values()])
        aside = _rows(X, kept), _safe_indexing(y, kept)
        _require_unread(aside[0], made, cut, without=given)
        # fit may write into what it is given, or have objects keep what it asks of them
        others = [table_hashes(one, name="X") for one in given]
        made.fit(_rows(X, fitted), _safe_indexing(y, fitted), **cut)
        if isinstance(self, ClassifierMixin) and not hasattr(made, "classes_"):
            raise ValueError(
                f"estimator must be a classifier, which has classes_ once fitted, got {made}"
            )
        settle(made, _rows(X, fitted))
        seen = np.concatenate([table_hashes(_safe_indexing(X, fitted), name="X"), *others])
        said = column(twin(made).predict(_rows(aside[0])))
        # all at once: a fit that fails leaves what was there
        self._people, people = (None, None) if whose is None else (whose[fitted], whose[kept])
        self._kept, self._seen, self._said = (*aside, people), seen, said
        # those kept back stand in an order that tells nothing
        order = () if people is not None else told_by_order([], {"labels": self._ordered(y)}, [])
        self._by_order = tuple(order)
        self._first = twin(made)  # the caller may fit estimator_ further
        self.estimator_, self.n_fitted_, self.n_kept_ = made, len(fitted), len(kept)
        return self

    @property
    def _chosen(self) -> Any:
        """The estimator as it was given, or the default."""
        if isinstance(self.estimator, type):
            raise ValueError(
                f"estimator must be an object, got the class {self.estimator.__name__}: call it"
            )
        chosen = self._default() if self.estimator is None else self.estimator
        if not hasattr(chosen, "__sklearn_tags__"):
            raise ValueError(
                f"estimator must be one of scikit-learn, got {type(chosen).__name__}: derive its class from "
                "sklearn.base.BaseEstimator, or give it to pacdp.self_certify, which asks for fit and predict alone"
            )
        return chosen

    def _require(self, y: Any) -> None:
        """Refuse what cannot be fitted or certified."""
        raise NotImplementedError

    def _ordered(self, y: np.ndarray) -> np.ndarray:
        """The targets as numbers, of which neighbours are compared."""
        raise NotImplementedError

    def _table(self, said: np.ndarray, targets: np.ndarray, moved: np.ndarray) -> Values:
        """What is certified of answers beside targets; those that moved with the examples beside them are wrong."""
        raise NotImplementedError

    def _new(self, X: Any, y: Any, groups: Any) -> tuple[Any, Any, Any]:
        """The examples that the certificate counts: those kept back, or others that are new to the estimator."""
        check_is_fitted(self, "estimator_")
        if (X is None) != (y is None):
            raise ValueError(
                "give X and y, or neither: without them the examples that fit kept back are counted"
            )
        if X is None and groups is not None:
            raise ValueError(
                "groups go with X and y: those of the examples kept back were given to fit"
            )
        if X is not None and groups is None and self._people is not None:
            raise ValueError(
                "groups must say whose the examples are, as those of fit did: people are counted"
            )
        if groups is not None and self._people is not None:
            new, fitted = (
                {spelling(one) for one in coded("groups", names).names}
                for names in (groups, self._people)
            )
            if new & fitted:
                raise DataError(
                    "groups have some whose examples the estimator was fitted on, however spelt: give those of others"
                )
        return self._kept if X is None else (X, y, groups)

    def _certify(self, X: Any, y: Any, groups: Any, **how: Any) -> Report:
        """The report on what the estimator answers, with what rows show.

        Raises:
            DataError: too many inputs that it was fitted on too, or that recur in ``X``, see ``_KEPT`` and ``FEW``.
            ValueError: answers depend on the examples beside them.
        """
        require_one_order(X=X, y=y, groups=groups)
        X_new, targets, people = self._new(X, y, groups)
        require_no_mask(targets, "y")
        most, by = _KEPT, "set aside by place before fit"
        if X is not None:
            most, by = FEW, "fit saw none of these inputs, by row hashes"
        hashes = table_hashes(X_new, name="X")
        among = X is not None and people is None
        shared = equal_inputs(self._seen, hashes, whose="groups", most=most, among=among)
        said, moved = own_answers(
            self,
            lambda one, places: one.predict(_rows(X_new, places)),
            _num_samples(X_new),
            scale=self._scale,
        )
        again = said if X is None else twin(self).predict(_rows(self._kept[0]))
        others = later_answers(again, self._said, _OTHERS, scale=self._scale)
        if X is not None:
            first = twin(self._first).predict(_rows(X_new))
            others = later_answers(first, said, _OTHERS, scale=self._scale)
        moved = moved | others
        table = self._table(said, column(targets), moved)
        found = certify_predictions(**table, people=people, **how)
        brought = f"the caller, for what the estimator brings along and gets besides; {by}"
        if people is not None and self._people is None:
            brought += "; that fit, which was told no groups, saw no other example of these people"
        unseen = declared("predictor saw none of these rows", brought)
        by_order = (*self._by_order, *self._of_a_search()) if X is None else ()
        remarks = (*by_order, *found.remarks, *(f"{one.name}: {one.by}" for one in shared))
        remarks = tuple(one.replace("give people", "give groups") for one in remarks)
        if people is not None and self._people is not None:  # those of one side alone were compared
            both = coded("groups", [*self._people, *coded("groups", people).names])
            remarks = tuple(dict.fromkeys((*alike("people", both.names), *remarks)))
        return replace(
            found.each(lambda one: one.resting_on(unseen, _FIXED, *shared)), remarks=remarks
        )

    def _of_a_search(self) -> list[str]:
        """What is said of the copy of an estimator that a search around it kept, of its third one on."""
        if (place := getattr(self, "_place", 0)) < 3:
            return []
        return [
            f"this is copy {place} of one estimator, as searches make them: if others' scores on these examples chose "
            "its settings, those kept back had a part in it, and groups were not passed on; make the search the "
            "estimator, CertifiedClassifier(GridSearchCV(...)), and give groups to fit"
        ]

    def predict(self, X: Any) -> Any:
        """What the fitted estimator answers, [n] or [n, outputs]."""
        check_is_fitted(self, "estimator_")
        if len(getattr(X, "shape", ())) == 2:  # else the estimator says what is wrong
            validate_data(self, X, reset=False, skip_check_array=True)
        return self.estimator_.predict(X)

    def __sklearn_tags__(self) -> Any:
        tags, own = super().__sklearn_tags__(), self._chosen.__sklearn_tags__()
        tags.input_tags = own.input_tags
        tags.target_tags.multi_output = False
        return tags


def takes_groups(estimator: Any) -> bool:
    """Whether fit is told whose the examples are: of a search by group, or wherever metadata are routed to one."""
    if get_config()["enable_metadata_routing"]:
        return "groups" in get_routing_for_object(estimator).consumes("fit", ["groups"])
    return isinstance(getattr(estimator, "cv", None), GroupsConsumerMixin)


def require_no_rows(estimator: Any) -> None:
    """Refuse folds that are lists of rows of all examples, which the estimator is fitted on a part of."""
    for name, folds in estimator.get_params().items():
        listed = isinstance(folds, Iterable) and not hasattr(folds, "split")
        if name.rpartition("__")[2] == "cv" and (listed or isinstance(folds, PredefinedSplit)):
            raise ValueError(
                f"{name} of the estimator must say how rows are divided, as 5 or GroupKFold(5) do, got "
                f"{type(folds).__name__}: it names rows of all examples, and the estimator is fitted on a part of them"
            )


def _rows(X: Any, places: np.ndarray | None = None) -> Any:
    """Rows, by default all, once more, since an estimator may write into what it is asked about."""
    return own_rows(_safe_indexing(X, np.arange(_num_samples(X)) if places is None else places))


def _require_unread(kept: Any, estimator: Any, given: Values, *, without: Iterable[Any]) -> None:
    """Refuse an estimator that brings along what is kept back, or gets it in other than tables; raises DataError."""
    if (table := numbers_of(kept)) is None or 0 in table.shape:
        return
    beside = {id(one) for one in without}
    held = SimpleNamespace(**{"estimator": estimator, **given})
    Holdings(held, around=True, without=beside).require_unread(
        table,
        who="the estimator, or what fit is given besides,",
        what="fit keeps back",
        mend="build it from other examples, or keep these out of X and y",
    )


def _like(X: Any, given: Any) -> list[Any]:
    """The tables with rows such as those of X in what fit is given besides, such as eval_set."""
    if (row := _row(given)) is not None and row == _row(X):
        return [given]
    inner = given if isinstance(given, list | tuple) else ()
    return [table for one in inner if hasattr(one, "__len__") for table in _like(X, one)]


def _row(table: Any) -> Any:
    """What a row of a table is known by: its shape, or its kind, such as a text or record; None of single numbers."""
    shape = getattr(table, "shape", ())
    if len(shape) > 1:  # of which sparse ones have no length
        return shape[1:] if shape[0] else None
    if not isinstance(table, str | dict):
        with suppress(Exception):
            one = np.asarray(_safe_indexing(table, [0]))
            if one.ndim > 1:
                return one.shape[1:]
            if not isinstance(one[0], Number):
                return next(kind for kind in (str, dict, type(one[0])) if isinstance(one[0], kind))
    return None


def _whole(names: Any) -> np.ndarray:
    """Names of classes; of floats that are whole numbers, as scikit-learn takes them, these numbers."""
    found = np.asarray(names)
    whole = found.dtype.kind == "f" and bool((found == np.rint(found)).all())
    return found.astype(np.int64) if whole else found


class CertifiedClassifier(ClassifierMixin, _Certified):
    """A classifier that keeps examples back and certifies its own error on them.

    >>> model = pacdp.CertifiedClassifier(RandomForestClassifier()).fit(X, y)
    >>> print(model.certify().headline())

    Args:
        estimator: any classifier; by default a logistic regression.
        certified_share: the share of the examples (with groups: of the groups) that is kept for the certificate.
        random_state: of the split.

    Attributes:
        estimator_: the classifier, fitted on the other examples, and the one that predicts.
        classes_: the classes that it knows.
        n_fitted_: how many examples it was fitted on.
        n_kept_: how many examples were kept back.

    Formal guarantee: ``certify`` is :func:`pacdp.certify_predictions` on examples that ``fit`` did not give to the
    estimator, chosen at random before. Rows of numbers are looked for in what it refers to; else it is the caller's
    word that it learnt from none: one that holds texts or an encoder that saw them, is frozen, reads a file, or stands
    behind a selection that saw all examples. The best of several that were certified one by one, by model or by
    ``random_state``, was chosen on what is counted, and its number is not paid for: give a search as the estimator.
    """

    def __init__(
        self, estimator: Any = None, *, certified_share: float = 0.3, random_state: Any = None
    ) -> None:
        self.estimator, self.certified_share = estimator, certified_share
        self.random_state = random_state

    def _default(self) -> Any:
        return LogisticRegression(max_iter=1000)

    @property
    def classes_(self) -> Any:
        """The classes that the fitted estimator knows."""
        return self.estimator_.classes_

    def _require(self, y: Any) -> None:
        if y.dtype.kind == "O":  # where scikit-learn sees no gaps
            _ = coded("y", y, known=y.tolist())
        check_classification_targets(y)
        names = set(y.tolist())
        if len(names) == 1 < len(y):
            raise ValueError(
                f"y must hold at least two classes, got {names.pop()!r} in every row: nothing is told apart"
            )

    def _ordered(self, y: np.ndarray) -> np.ndarray:
        return np.unique(y, return_inverse=True)[1]

    def _table(self, said: np.ndarray, targets: np.ndarray, moved: np.ndarray) -> Values:
        said, targets, classes = map(_whole, (said, targets, self.classes_))
        known = classes.tolist()
        names = [*known, *coded("y", targets, known=known).names]
        _ = coded("y, beside the classes of fit,", names, known=known)
        known = list(dict.fromkeys(names))
        if moved.any():
            other = np.where(targets == known[0], known[-1], known[0])
            said = np.where(moved & (said == targets), other, said)
        return {"labels": targets, "predictions": said, "classes": known}

    def certify(
        self, X: Any = None, y: Any = None, *, groups: Any = None, failure_prob: float = 0.05,
        ask: Sequence[str] | str | None = "error"
    ) -> Report:  # fmt: skip
        """What the examples that were kept back, or others that are new, say of the error on further ones.

        Args:
            X: further examples that the estimator was not fitted on; by default those kept back.
            y: their classes.
            groups: whose they are.
            failure_prob: of everything that is asked, together.
            ask: as for :func:`pacdp.certify_predictions`; None asks for all there is.

        Raises:
            DataError: inputs or groups that the estimator was fitted on: of ``X``, over one in a hundred inputs; of the
                examples kept back, over half. Fewer are named as a hypothesis, "equal inputs are separate draws", which
                is unproved beyond one in a hundred.
            ValueError: answers that depend on the examples beside them.
        """
        return self._certify(X, y, groups, failure_prob=failure_prob, ask=ask)

    @_has("predict_proba")
    def predict_proba(self, X: Any) -> Any:
        """Probabilities [n, classes] of the fitted estimator, where it has them."""
        check_is_fitted(self, "estimator_")
        return self.estimator_.predict_proba(X)

    @_has("decision_function")
    def decision_function(self, X: Any) -> Any:
        """Scores of the fitted estimator, where it has them."""
        check_is_fitted(self, "estimator_")
        return self.estimator_.decision_function(X)


class CertifiedRegressor(RegressorMixin, _Certified):
    """A regressor that keeps examples back and certifies its own clipped error on them.

    >>> model = pacdp.CertifiedRegressor(GradientBoostingRegressor(), clip=10.0).fit(X, y)
    >>> print(model.certify().headline())

    Errors have no bound of their own, and so no certificate: each is clipped at ``clip``, which has to be fixed before
    the data were looked at, and the mean is certified as a share of it.

    Args:
        estimator: any regressor; by default a ridge regression.
        clip: the size, in the unit of y, from which on all errors count alike.
        kind: "absolute" or "squared" error.
        certified_share: the share of the examples (with groups: of the groups) that is kept for the certificate.
        random_state: of the split.

    Attributes: as of :class:`CertifiedClassifier`.
    """

    kind: Literal["absolute", "squared"]

    def __init__(
        self, estimator: Any = None, *, clip: float = 1.0, kind: Literal["absolute", "squared"] = "absolute",
        certified_share: float = 0.3, random_state: Any = None
    ) -> None:  # fmt: skip
        self.estimator, self.certified_share = estimator, certified_share
        self.random_state, self.clip, self.kind = random_state, clip, kind

    def _default(self) -> Any:
        return Ridge()

    @property
    def _loss(self) -> ClippedError:
        return ClippedError(at=self.clip, kind=self.kind)

    def _require(self, y: Any) -> None:
        _ = self._loss.of_arrays(np.zeros(len(y)), y)  # which names what is no real number

    @property
    def _scale(self) -> float:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self._loss.at

    def _ordered(self, y: np.ndarray) -> np.ndarray:
        return column(y).astype(np.float64)

    def _table(self, said: np.ndarray, targets: np.ndarray, moved: np.ndarray) -> Values:
        losses = self._loss.of_arrays(said, targets)
        return {"losses": {self._loss.name: np.where(moved, 1.0, losses)}}

    def certify(
        self, X: Any = None, y: Any = None, *, groups: Any = None, failure_prob: float = 0.05
    ) -> Report:  # fmt: skip
        """As :meth:`CertifiedClassifier.certify`, for the clipped error."""
        return self._certify(X, y, groups, failure_prob=failure_prob)
