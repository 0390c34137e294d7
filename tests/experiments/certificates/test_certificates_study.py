"""The study of certificates: a sentence that can fail."""

import polars as pl
import pytest

from experiments.claims import judge
from experiments.ours.certificates import UNCONTRADICTED


@pytest.mark.parametrize(("value", "below", "wrong"), [(0.11, 0, 0), (0.095, 1, 0), (0.05, 1, 1), (1.0, 0, 0)])
def test_only_what_lies_below_the_lower_limit_of_the_test_error_contradicts(value, below, wrong):
    made = {"certificate": "randomised_maurer", "value": value, "test_error": 0.1, "n_test": 1000}
    table = pl.DataFrame([made, made | {"certificate": "test_set_clopper_pearson", "value": 0.01}])
    seen = judge(UNCONTRADICTED, table)
    assert seen.holds is (wrong == 0)
    assert seen.evidence == f"able {int(value < 1)}; below {below}; wrong {wrong}"
