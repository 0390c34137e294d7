"""An estimator that certifies itself, within a search that chooses among copies of it."""

from numpy.random import default_rng
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.tree import DecisionTreeClassifier

from pacdp import CertifiedClassifier

DEPTHS = {"max_depth": [1, 2]}


def test_the_copy_that_a_search_keeps_says_that_the_examples_kept_back_chose_it():
    """And one that is fitted by itself, after copies of it were scored, or around the search, does not."""
    x = default_rng(0).normal(size=(90, 3))
    y = (x[:, 0] > 0.0).astype(int)
    alone = CertifiedClassifier(DecisionTreeClassifier(), random_state=0)
    outside = GridSearchCV(alone, {f"estimator__{name}": one for name, one in DEPTHS.items()}, cv=2).fit(x, y)
    kept = outside.best_estimator_
    assert any(one.startswith("this is copy 5 of one estimator") for one in kept.certify().remarks)
    assert not kept.certify(x[:0:-9] + 1.0, y[:0:-9]).remarks, "of examples that are new to the search"
    _ = cross_val_score(alone, x, y, cv=3)
    within = CertifiedClassifier(GridSearchCV(DecisionTreeClassifier(), DEPTHS, cv=2), random_state=0)
    for one in (alone, within):
        assert not one.fit(x, y).certify().remarks
