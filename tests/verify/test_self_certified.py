"""What `pacdp.self_certify` writes is read: certificates, choice, ledger, split; a file of another format is not."""

import copy
import json

import numpy as np
import torch
from made import verdicts
from numpy.random import default_rng

from bounds import Monitor, maurer
from pacdp.data import Rows
from pacdp.verify.claim import CANNOT, DOES_NOT, FOLLOWS
from pacdp.verify.examples import Examples
from pacdp.verify.report import check_path, check_report, main
from tests.edits import unnoticed, written
from tests.marks import every_case, made_once


@made_once
def record():
    from sklearn.linear_model import LogisticRegression

    from pacdp import self_certify

    rng = default_rng(0)
    inputs = rng.normal(size=(400, 3))
    labels = (inputs[:, 0] + 0.5 * rng.normal(size=400) > 0).astype(int)
    return json.loads(json.dumps(self_certify(LogisticRegression(), (inputs, labels)).to_dict()))


def judged(record, tmp_path):
    path = tmp_path / "self.json"
    written(path, record)
    return verdicts(check_path(path))


EQUAL = {"name": "equal inputs are separate draws", "standing": "declared", "by": "the caller", "unit": ""}


def of_another_route(name):
    """An edit that calls the first route by another name everywhere."""

    def edit(r):
        details = r["details"]
        details["tried"][0].update(route=name, name=name)
        details["chosen"] = details["budget"]["entries"][0][0] = name
        r["not_applicable"] = [one for one in r["not_applicable"] if one["name"] != name]

    return edit


EDITS = {
    "another route": of_another_route("PAC-Bayes"),
    "a route that there is not": of_another_route("proof"),
    "another's value": lambda r: r["certificates"][-1].update(value=0.01),
    "one left out": lambda r: r["details"]["tried"].pop(),
    "another's training": lambda r: r["details"]["tried"][1].update(train=399),
    "training of less than none": lambda r: r["details"]["tried"][1].update(train=-1),
    "true training": lambda r: r["details"]["tried"][1].update(train=True),
    "a reason": lambda r: r["details"]["tried"][1].update(reason="it was not asked for"),
    "no certificate": lambda r: r["certificates"].__setitem__(0, None),
    "another's certificate": lambda r: r["details"]["tried"][0].update(certificate=2),
    "another risk": lambda r: [one.update(measures="half the Brier risk") for one in r["certificates"]],
    "another unit": lambda r: (
        [r.update(unit="hospital")]
        + [one.update(unit="hospital") for made in r["certificates"] for one in made["hypotheses"] if one["unit"]]
    ),
    "more examples than records": lambda r: r.update(examples=4000),
    "hypothesis": lambda r: r["certificates"][0]["hypotheses"].pop(),
    "unremarked": lambda r: [one["hypotheses"].append(EQUAL) for one in r["certificates"]],
    "standing": lambda r: [one.update(standing="proved") for one in r["certificates"][0]["hypotheses"]],
}


@every_case("why", EDITS)
def test_no_part_can_be_changed(record, why, tmp_path):
    assert DOES_NOT not in judged({**record, "at_most": 0.001}, tmp_path)
    assert "at_most" in check_path(tmp_path / "self.json")[-1].why

    edited = copy.deepcopy(record)
    EDITS[why](edited)
    assert DOES_NOT in judged(edited, tmp_path)


def test_what_no_check_holds_is_named(record):
    assert {*unnoticed(record, check_report)} <= {"not_applicable"}, "which may be fewer"


def test_exit_statuses_tell_sound_from_open(record, tmp_path, capsys):
    """3 where something cannot be checked, of other formats all: the version that wrote them is named."""
    path = tmp_path / "file.json"
    bound = maurer(risk=0.1, kl_nats=1.0, n=100, failure_prob=0.05)
    made = bound.to_dict()
    old = {"provenance": {"versions": {"pacdp": "0.0.9"}, "commit": "abc"}, "certificates": []}
    cases = [
        (made, 3),
        ({**made, "value": 0.2}, 1),
        (record, 3),
        ({"format": "pacdp-certificates/1", **old}, 3),
        (Monitor.start(bound, failure_prob=0.05, false_alarm_prob=0.01).to_dict(), 3),
        ([], 2),
    ]
    for content, status in cases:
        written(path, content)
        assert main([str(path)]) == status
    written(path, {"format": "pacdp-certificates/1", **old})
    (said,) = check_path(path)
    assert said.verdict == CANNOT
    assert "check it with pacdp 0.0.9 at commit abc" in said.why


@every_case(("train", "bound"), [(244, 156), (400, 400), (0, 400)])
def test_records_that_trained_are_not_held_out(record, train, bound):
    """A count on as many records as there are, of which as many trained, is on these."""
    edited = copy.deepcopy(record)
    edited["details"]["train"] = train
    for one in edited["details"]["tried"]:
        if one["route"] == "held-out count":
            one.update(train=train, bound=bound, error=1 / bound)
            edited["certificates"][one["certificate"]]["inputs"].update(k=1, n=bound)
    (said,) = [one for one in check_report(edited) if one.claim == "counts"]
    assert (said.verdict == FOLLOWS) == (bound == 156)
    assert (f"{train} of 400 records trained" in said.why) == (bound == 400)


def test_inputs_in_bfloat16_are_hashed_and_handed_on_as_they_are():
    inputs, labels = torch.randn(40, 5).bfloat16(), torch.arange(40) % 3
    found = Examples(inputs, labels)
    assert found.digest() == Rows.of(inputs, labels).digest
    assert torch.equal(found.of(np.array([3, 1]))[0], inputs[[3, 1]])
