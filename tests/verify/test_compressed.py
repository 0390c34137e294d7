"""A compression's number, and a certificate by another network, follow from k, n, the weights and what is said."""

import json

import pytest
from made import SURROGATE, by_another_network

import bounds
from pacdp.verify.claim import CANNOT, DOES_NOT, FOLLOWS
from tests.edits import judged


@pytest.mark.every_case
@pytest.mark.parametrize(
    ("k", "n", "failure_prob"), [(0, 1, 0.05), (3, 40, 1e-9), (1137, 60_000, 0.05), (7, 10**9, 1e-300), (40, 40, 0.05)]
)
def test_what_bounds_writes_follows(k, n, failure_prob):
    given = {"n": n, "failure_prob": failure_prob}
    assert judged(bounds.compression(k=k, **given).to_dict()) == {FOLLOWS}
    if k < n:
        weights = bounds.compression_weights(expected=[k], **given)
        assert judged(bounds.compression(k=k, weights=weights, **given).to_dict()) == {FOLLOWS}


def test_weights_cannot_be_changed():
    record = bounds.compression(k=60, n=5000, failure_prob=0.05, weights={4700: 0.5, 4900: 0.5}).to_dict()
    assert judged(record) == {FOLLOWS}
    for sizes in ("4700, 4800", "4700, 4700", "4700, 5000"):
        assert DOES_NOT in judged(record, weight_sizes=sizes)
    for shares in ("0.6, 0.6", "0.9, 0.1"):
        assert DOES_NOT in judged(record, weight_shares=shares)


@pytest.mark.parametrize("made", [SURROGATE, by_another_network()], ids=lambda made: made.name)
def test_no_hypothesis_of_its_own_can_be_left_out(made):
    record = made.to_dict()
    for one in record["hypotheses"]:
        left = [other for other in record["hypotheses"] if other is not one]
        if made is not SURROGATE or one["name"] == "learner saw picked records alone":
            assert DOES_NOT in judged({**record, "hypotheses": left}), one["name"]


def test_nothing_of_another_network_can_be_changed_or_hidden():
    record = by_another_network().to_dict()
    whole = json.loads(record["inputs"]["surrogate"])

    def with_another(**changes):
        return judged(record, surrogate=json.dumps({**whole, **changes}))

    assert with_another() == {FOLLOWS}
    assert CANNOT in with_another(name="a theorem of its own")
    assert DOES_NOT in with_another(measures="ECE")
    assert DOES_NOT in judged({**record, "budget": {"surrogate": 0.02, "test set": 0.02}})
    resting = SURROGATE.resting_on(bounds.unproved("chain stationary", "nothing shows it"))
    record = by_another_network(resting).to_dict()
    assert judged(record) == {FOLLOWS}
    better = [{**one, "standing": "declared"} for one in record["hypotheses"]]
    assert DOES_NOT in judged({**record, "hypotheses": better, "status": "rigorous"})
