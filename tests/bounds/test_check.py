"""Refusals by themselves: at both ends of every range, and of what is no number."""

from math import inf, nan

import numpy as np
import pytest
from cells import refused

from bounds import _check

WHOLE = 2**53
ENDS = {
    "probability": ((0.0, 0.3, 1.0, 0, 1, np.float64(0.5)), (-5e-324, 1.0 + 2.0**-52, inf)),
    "open_probability": ((5e-324, 1.0 - 2.0**-53), (0.0, 1.0, -0.1, 1.1)),
    "positive": ((5e-324, 1.7e308, 3), (0.0, -5e-324, inf, 0)),
    "nonnegative": ((0.0, 5e-324, inf, 0), (-5e-324, -inf, -1)),
    "divergence": ((0.0, inf, 7), (-5e-324,)),
    "above_minus_infinity": ((-1.7e308, 0.0, inf), (-inf,)),
    "real": ((-inf, 0.0, 1, WHOLE, -WHOLE, True, np.float64(1.0), np.int8(3)), (WHOLE + 1, -WHOLE - 1, 10**400)),
    "whole": ((0, 1, WHOLE, np.int64(3)), (-1, WHOLE + 1, 1.0, True)),
    "count": ((1, WHOLE), (0, -1, WHOLE + 1, 1.0, False)),
}
NO_NUMBERS = (nan, np.float32(0.5), np.longdouble(0.5), "0.5", None, 1j, [0.5])


@pytest.mark.every_case
@pytest.mark.parametrize("name", ENDS)
def test_both_ends_of_a_range(name):
    good, bad = ENDS[name]
    for value in good:
        getattr(_check, name)(size=value)
    for value in (*bad, *NO_NUMBERS):
        refused(r"^size must ", getattr(_check, name), size=value)


@pytest.mark.parametrize("values", ["12", 3.0, [0.1, nan]])
def test_lists_of_other_things(values):
    refused(r"^losses must be a (list of )?real number", _check.reals, "losses", values)


def test_no_key_of_json_stands_twice():
    assert _check.json_value('{"a": 1, "b": {"a": 2}}') == {"a": 1, "b": {"a": 2}}
    refused("key 'a' stands twice", _check.json_value, '{"b": {"a": 1, "a": 2}}')
    refused("nested too deeply", _check.json_value, "[" * 100_000)
