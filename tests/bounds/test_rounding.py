"""Rounding to the safe side: by eight ulp, no less and hardly more, down to the smallest numbers."""

from fractions import Fraction
from math import inf, ulp

import pytest

from bounds._arithmetic import inward, least, log_inverse, outward, total

ULP = Fraction(1, 2**52)
LEAST = ulp(0.0)
VALUES = [k * 2.0**e for e in (-1073, -1000, -959, -958, -500, -52, 0, 7, 600) for k in (1.0, 4 / 3, 1.9)]


@pytest.mark.parametrize("value", VALUES)
def test_eight_ulp_either_way_and_hardly_more(value):
    small = 8 * Fraction(LEAST) if value < 2.0**-960 else 0
    up, down = Fraction(outward(value)), Fraction(inward(value))
    above, below = (Fraction(value) * (1 + 8 * ULP) + small, max(Fraction(0), Fraction(value) / (1 + 8 * ULP) - small))
    assert abs(up - above) <= Fraction(ulp(outward(value))) * (1 if small else Fraction(1, 2))
    assert abs(down - below) <= Fraction(ulp(inward(value))) * (1 if small else Fraction(1, 2))


def test_nothing_and_infinity_stay_what_they_are():
    assert (outward(0.0), inward(0.0), outward(inf), inward(inf)) == (0.0, 0.0, inf, inf)
    assert (outward(LEAST), inward(8 * LEAST), inward(9 * LEAST)) == (9 * LEAST, 0.0, LEAST)
    assert outward(2.0**-960) == 2.0**-960 * (1.0 + 8 * 2.0**-52)
    assert total() == 0.0
    assert total(1e308, 1.7e308) == inf
    assert all(Fraction(total(0.1, one)) >= Fraction(0.1) + Fraction(one) for one in VALUES)


@pytest.mark.parametrize("probability", [LEAST, 1e-300, 0.05, 0.5, 1.0 - 2.0**-53])
def test_logarithms_of_one_over_a_probability(probability):
    import mpmath as mp

    exact = -mp.log(mp.mpf(probability))
    assert exact * (1 + 7 * mp.mpf(2) ** -52) <= log_inverse(probability) <= exact * (1 + 10 * mp.mpf(2) ** -52)
    assert (log_inverse(0.0), log_inverse(1.0)) == (inf, 0.0)


def test_the_least_number_that_is_enough_is_found_from_above():
    found = least(lambda at: at >= 0.3, 0.0, 1.0, relative=1e-9)
    assert 0.3 <= found <= 0.3 * (1.0 + 2e-9)
