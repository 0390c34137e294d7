"""A certificate as a sentence: true of its numbers, and silent about nothing that it rests on."""

import re
from dataclasses import replace
from decimal import ROUND_FLOOR, localcontext
from fractions import Fraction
from math import inf, nan
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis.strategies import floats

import bounds
from bounds import declared, maurer, unproved
from bounds.hypotheses import NAMES, UNITS
from bounds.numbers import confidence, down, down_digits, percent, up, up_digits
from pacdp.predictions.sentence import first_sentence, headline
from tests.marks import every_case

MADE = maurer(risk=0.1, kl_nats=10.0, n=1000, failure_prob=0.05)
MADE = replace(MADE, of="weights", measures="0-1 risk")


@given(value=floats(0.0, 0.9999), failure_prob=floats(1e-300, 1.0 - 1e-9, exclude_min=True))
def test_the_percentages_are_never_better_than_the_certificate(value, failure_prob):
    made = replace(MADE, value=value, failure_prob=failure_prob, budget={})
    found = re.search(r"At most ([\d.]+)%.* \(([\d.]+)% confidence", headline(made))
    assert found is not None
    assert float(found[1]) / 100.0 >= value * (1.0 - 1e-15)
    assert float(found[1]) / 100.0 < value + 1.001e-4
    assert float(found[2]) / 100.0 <= 1.0 - failure_prob + 1e-15
    assert float(found[2]) / 100.0 > 1.0 - failure_prob - 1.001e-4


def test_a_certificate_that_is_printed_as_all_of_them_says_that_it_says_nothing():
    said = headline(replace(MADE, value=0.99990001))
    assert said == "This certificate says nothing of the error of the weights on new examples: it is 1, rounded up."
    assert headline(replace(MADE, value=0.9999)).startswith("At most 99.99% ")


def test_every_hypothesis_without_a_proof_is_in_the_sentence():
    proved = bounds.proved("settings fixed beforehand", "the list, written before the runs")
    made = MADE.resting_on(proved, unproved("chain stationary", "nothing shows it"))
    assert headline(made).endswith(
        "This holds provided that examples are independent, that new ones are of the same kind and answered "
        "in the same way, each by itself and that the prior had seen none of them, which you say, and that the chain "
        "is stationary, which nothing proves. So the number is optimistic."
    )
    assert "optimistic" not in headline(MADE)
    seen = replace(MADE, hypotheses=(*MADE.hypotheses, bounds.proved("predictor saw none of these rows", "hashes")))
    assert "confidence; 1000 examples that the weights had not seen). This" in headline(seen)
    by = bounds.proved("predictor saw none of these rows", "row hashes, of all that the caller says it saw")
    named = headline(replace(MADE, hypotheses=(*MADE.hypotheses, by)))
    assert "confidence; 1000 examples that are none of those named as seen by the weights). This" in named
    for name in NAMES:
        assert " provided that " in headline(replace(MADE, hypotheses=(unproved(name, "nobody says so"),)))


@every_case(
    ("name", "word"),
    [
        ("prior saw none of these rows", "the prior had seen nothing but what was named"),
        ("predictor saw none of these rows", "the weights had seen nothing but what was named"),
        ("neither network saw the unlabelled rows", "both networks had seen nothing but what was named"),
        ("settings fixed beforehand", "their number and what was asked did not depend on them"),
        ("privacy covers these rows", "the privacy that is claimed covers them"),
    ],
)
def test_what_named_rows_prove_rests_on_the_word_that_all_were_named(name, word):
    """Of coins that a prior or a network had met beside the rows that were named, every printed proviso was true."""
    by_rows = (declared("records independent", "you", "example"), bounds.proved(name, "row hashes, of those named"))
    said = headline(replace(MADE, hypotheses=by_rows))
    assert f" that {word}" in said
    assert ("1000 examples that are none of those named as seen by the prior)" in said) == name.startswith("prior")


LINES = Path(__file__).with_name("sentences.txt").read_text().splitlines()
"""To be read by eye: risk, predictor, record, number of records and value; below it what is said of them."""


@every_case(("what", "expected"), [*zip(LINES[::2], LINES[1::2], strict=True)], ids=LINES[::2])
def test_every_risk_has_its_sentence(what, expected):
    measures, of, unit, n, number = what.split(" | ")
    value = float(number)
    independent = (declared("records independent", "you", unit),)
    made = replace(MADE, value=value, measures=measures, of=of, inputs={"n": int(n)}, hypotheses=independent, budget={})
    said, _, provided = headline(made).partition(" This holds")
    assert said == expected.strip()
    named = ", each under one name of their own" if unit == "person" else ""  # two of one name count as one
    assert provided in (f" provided that {UNITS[unit]} are independent{named}, which you say.", "")


@pytest.mark.parametrize(
    ("failure_prob", "said"), [(1e-9, "99.99%"), (1e-300, "99.99%"), (0.025, "97.5%"), (0.1 - 0.05, "95%")]
)
def test_the_confidence_is_rounded_down(failure_prob, said):
    assert confidence(failure_prob) == said
    assert f"({said} confidence; 1000 examples)" in headline(MADE, failure_prob=failure_prob)


def test_the_first_certificate_of_an_error_is_told():
    other = replace(MADE, measures="ECE")
    assert first_sentence([other, MADE, replace(MADE, value=0.9)]) == headline(MADE)
    assert first_sentence([other]) == headline(other)
    hoped = MADE.resting_on(unproved("chain stationary", "nothing shows it"))
    assert first_sentence([hoped, MADE]) == headline(MADE)
    assert first_sentence([]) == "Nothing was certified."


@given(value=floats(-1e12, 1e12))
def test_numbers_as_text_lie_on_their_safe_side(value):
    for more, less in ((up(value), down(value)), (up_digits(value), down_digits(value))):
        assert Fraction(more) >= Fraction(repr(value)) >= Fraction(less)
    assert Fraction(up(value)) - Fraction(down(value)) <= Fraction(max(1.0, abs(value))) / 1000
    assert Fraction(percent(value)) >= 100 * Fraction(repr(value))


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: up(0.00001), "0.0001"),
        (lambda: down_digits(1.234567, 3), "1.23"),
        (lambda: up(inf) + down(-inf), "∞-∞"),
        (lambda: percent(0.07), "7.00"),
        (lambda: up_digits(1.5e20), "1.5e+20"),
    ],
)
def test_numbers_as_text(call, said):
    assert call() == said


@pytest.mark.parametrize("digits", [1, 4])
def test_the_callers_context_of_decimals_rounds_nothing(digits):
    """Before, 4 digits printed 3.637% as 3.63%, and 3 stopped at a raw error."""
    difference = replace(MADE, of="b against a", measures="(1 + error of b - error of a)/2", value=0.5512349)
    least = replace(MADE, measures="1 - score", value=0.12345678)
    texts = [lambda: up(0.123456789), lambda: down_digits(123456.789, 5), lambda: percent(0.024712550046472215)]
    texts += [lambda: confidence(0.0506001175), lambda: headline(difference), lambda: headline(least)]
    known = [each() for each in texts]
    with localcontext(prec=digits, rounding=ROUND_FLOOR):
        assert [each() for each in texts] == known


def test_what_is_no_number_is_refused():
    with pytest.raises(ValueError, match="got NaN"):
        up(nan)
