"""A compression's number is recomputed from k, n and the weights, of which nothing can be changed without notice."""

import pytest

import bounds
from pacdp.verify.certificate import check_certificate
from pacdp.verify.claim import DOES_NOT, FOLLOWS

CASES = [(0, 1, 0.05), (3, 40, 1e-9), (1137, 60_000, 0.05), (7, 10**9, 1e-300), (40, 40, 0.05)]


def _verdicts(record):
    return {one.verdict for one in check_certificate(record)}


@pytest.mark.parametrize(("k", "n", "failure_prob"), CASES)
def test_what_bounds_writes_follows(k, n, failure_prob):
    assert _verdicts(bounds.compression(k=k, n=n, failure_prob=failure_prob).to_dict()) == {FOLLOWS}
    if k < n:
        weights = bounds.compression_weights(n=n, expected=[k], failure_prob=failure_prob)
        made = bounds.compression(k=k, n=n, failure_prob=failure_prob, weights=weights)
        assert _verdicts(made.to_dict()) == {FOLLOWS}


@pytest.mark.parametrize(
    "change",
    [
        {"weight_sizes": "4700, 4800"},
        {"weight_shares": "0.6, 0.6"},
        {"weight_shares": "0.9, 0.1"},
        {"weight_sizes": "4700, 4700"},
        {"weight_sizes": "4700, 5000"},
    ],
    ids=str,
)
def test_weights_cannot_be_changed(change):
    weights = {4700: 0.5, 4900: 0.5}
    record = bounds.compression(k=60, n=5000, failure_prob=0.05, weights=weights).to_dict()
    assert _verdicts(record) == {FOLLOWS}
    assert DOES_NOT in _verdicts({**record, "inputs": {**record["inputs"], **change}})


def test_nothing_is_believed_of_a_learner_of_which_nothing_is_said():
    record = bounds.compression(k=60, n=5000, failure_prob=0.05).to_dict()
    left = [one for one in record["hypotheses"] if one["name"] != "learner saw picked records alone"]
    assert DOES_NOT in _verdicts({**record, "hypotheses": left})
