"""A certificate by another network: its sum is taken again, and so is the certificate that it carries."""

import json

import pytest

import bounds
from pacdp.verify.certificate import check_certificate
from pacdp.verify.claim import CANNOT, DOES_NOT, FOLLOWS

SURROGATE = bounds.compression(k=40, n=2000, failure_prob=0.03)
RECORD = bounds.disagreement(surrogate=SURROGATE, k=9, n=700, failure_prob=0.02).to_dict()


def _verdicts(record):
    return {one.claim: one.verdict for one in check_certificate(record)}


def test_what_bounds_writes_follows():
    assert set(_verdicts(RECORD).values()) == {FOLLOWS}
    assert _verdicts(RECORD)["surrogate"] == FOLLOWS


def _changed(**surrogate):
    other = {**json.loads(RECORD["inputs"]["surrogate"]), **surrogate}
    return {**RECORD, "inputs": {**RECORD["inputs"], "surrogate": json.dumps(other)}}


@pytest.mark.parametrize(
    ("record", "claim"),
    [
        ({**RECORD, "value": RECORD["value"] * 0.99}, "value"),
        ({**RECORD, "inputs": {**RECORD["inputs"], "k": 8}}, "value"),
        ({**RECORD, "inputs": {**RECORD["inputs"], "n": 701}}, "value"),
        ({**RECORD, "budget": {"surrogate": 0.02, "test set": 0.02}}, "surrogate"),
        (_changed(value=0.001), "surrogate"),
        (_changed(failure_prob=0.01), "surrogate"),
        (_changed(measures="ECE"), "surrogate"),
        (_changed(inputs={**SURROGATE.to_dict()["inputs"], "k": 30}), "surrogate"),
        ({**RECORD, "hypotheses": RECORD["hypotheses"][:-1]}, "hypotheses"),
        ({**RECORD, "hypotheses": RECORD["hypotheses"][1:]}, "surrogate"),
    ],
)
def test_nothing_of_it_can_be_changed(record, claim):
    assert _verdicts(record)[claim] == DOES_NOT


def test_a_hypothesis_of_the_other_network_cannot_be_hidden():
    other = SURROGATE.resting_on(bounds.unproved("chain stationary", "nothing shows it"))
    record = bounds.disagreement(surrogate=other, k=9, n=700, failure_prob=0.02).to_dict()
    assert set(_verdicts(record).values()) == {FOLLOWS}
    better = [{**one, "standing": "declared"} for one in record["hypotheses"]]
    assert _verdicts({**record, "hypotheses": better, "status": "rigorous"})["surrogate"] == DOES_NOT


def test_another_network_s_certificate_that_is_not_known_is_not_believed():
    assert _verdicts(_changed(name="a theorem of its own"))["surrogate"] == CANNOT
