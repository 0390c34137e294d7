"""What decides which cases are run, and when annotations are checked."""

import pytest

from tests.conftest import spread


@pytest.mark.parametrize(
    ("cases", "of", "places"),
    [(3, 2, {0, 1}), (3, 7, {0, 3, 6}), (1, 7, {0}), (4, 10, {0, 3, 6, 9}), (0, 5, {0, 1, 2, 3, 4})],
)
@pytest.mark.every_case
def test_cases_are_evenly_spread_from_the_first_to_the_last(cases, of, places):
    assert spread(cases, of) == places
