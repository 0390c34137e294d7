"""A compression's number, and a certificate by another network, follow from k, n, the weights and what is said."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from cli_tools import forge, read
from made import SURROGATE, by_another_network, verdicts

from bounds import compression, compression_weights, maurer, unproved
from pacdp import load_checkpoint
from pacdp.verify.claim import CANNOT, DOES_NOT, FOLLOWS
from pacdp.verify.report import check_path, check_report
from tests.edits import judged, written
from tests.marks import every_case


@every_case(
    ("k", "n", "failure_prob"), [(0, 1, 0.05), (3, 40, 1e-9), (1137, 60_000, 0.05), (7, 10**9, 1e-300), (40, 40, 0.05)]
)
def test_what_bounds_writes_follows(k, n, failure_prob):
    given = {"n": n, "failure_prob": failure_prob}
    assert judged(compression(k=k, **given).to_dict()) == {FOLLOWS}
    if k < n:
        weights = compression_weights(expected=[k], **given)
        assert judged(compression(k=k, weights=weights, **given).to_dict()) == {FOLLOWS}


def test_weights_cannot_be_changed():
    record = compression(k=60, n=5000, failure_prob=0.05, weights={4700: 0.5, 4900: 0.5}).to_dict()
    assert judged(record) == {FOLLOWS}
    for sizes in ("4700, 4800", "4700, 4700", "4700, 5000"):
        assert DOES_NOT in judged(record, weight_sizes=sizes)
    for shares in ("0.6, 0.6", "0.9, 0.1"):
        assert DOES_NOT in judged(record, weight_shares=shares)


def test_nothing_of_another_network_can_be_changed_or_hidden():
    record = by_another_network().to_dict()
    whole = json.loads(record["inputs"]["surrogate"])

    def with_another(**changes):
        return judged(record, surrogate=json.dumps({**whole, **changes}))

    assert with_another() == {FOLLOWS}
    assert CANNOT in with_another(name="a theorem of its own")
    assert DOES_NOT in with_another(measures="ECE")
    brier = {"measures": "half the Brier risk"}
    assert DOES_NOT in judged({**record, **brier}, surrogate=json.dumps({**whole, **brier})), "no sum of two errors"
    assert DOES_NOT in judged({**record, "budget": {"surrogate": 0.02, "test set": 0.02}})
    law = maurer(risk=0.02, kl_nats=3.0, n=2000, failure_prob=0.03)
    for of, due in (("prior", {FOLLOWS}), ("randomised", {FOLLOWS, DOES_NOT}), ("ensemble", {FOLLOWS, DOES_NOT})):
        other = replace(law, of=of, measures="0-1 risk")
        assert judged(by_another_network(other).to_dict()) == due, "a mean over networks, none of which is as good"
    resting = SURROGATE.resting_on(unproved("chain stationary", "nothing shows it"))
    record = by_another_network(resting).to_dict()
    assert judged(record) == {FOLLOWS}
    better = [{**one, "standing": "declared"} for one in record["hypotheses"]]
    assert DOES_NOT in judged({**record, "hypotheses": better, "status": "rigorous"})


def test_what_a_compression_repeats_is_compared(compressed, tmp_path):
    """Value, n, algorithm and steps of its result, rows and tolerance of its header."""

    def wrong(result=(), header=()):
        folder = tmp_path / "run"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(compressed, folder)
        forge(folder, **dict(header))
        said = read(folder / "result.json")
        said["rests_on"]["checkpoint"] = load_checkpoint(folder).content_hash
        written(folder / "result.json", said | dict(result))
        return "; ".join(
            one.why for one in check_path(folder) if one.verdict == DOES_NOT and one.claim == "result.json"
        )

    assert not wrong()
    for name, value in {"value": 0.01, "n": 7, "algorithm": "SGLD, compressed", "steps": 3}.items():
        said = wrong(result={name: value})
        assert repr(value) in said or f" {value} " in said, name
    for name, value in {"tolerance": 0.5, "rows": "0"}.items():
        assert name in wrong(header={name: value})
    folder = tmp_path / "run"
    report = read(folder / "certificates.json")
    for weights, due in ((None, FOLLOWS), ({1200: 1.0}, DOES_NOT)):  # for sizes that no setting names
        (made,) = report["certificates"]
        inputs = made["inputs"]
        other = compression(k=inputs["k"], n=inputs["n"], failure_prob=inputs["failure_prob"], weights=weights)
        made |= {"value": other.value, "inputs": dict(other.inputs)}
        written(folder / "certificates.json", report)
        assert {one.verdict for one in check_path(folder) if one.claim == "kept records"} == {due}


def test_no_fewer_records_are_in_error_than_a_compression_left(compressed, tmp_path):
    """Of those that it had not picked; the certificate counts them, whatever is said to have been measured."""
    report = read(compressed / "certificates.json")
    told = report["details"]["compression"]
    told |= {"picked": told["picked"] - 1, "errors": told["errors"] + 1}
    told["rounds"][told["number"] - 1][1:3] = told["picked"], told["errors"]
    for errors, due in ((told["errors"], FOLLOWS), (told["errors"] - 1, DOES_NOT)):
        for one in report["measured"]:
            if (one["on"], one["loss"]) == ("bound", "zero-one"):
                one |= {"errors": errors, "mean": errors / one["n"]}
        written(tmp_path / "certificates.json", report)
        path = tmp_path / "certificates.json"
        assert {one.verdict for one in check_path(path) if one.claim == "rounds"} == {due}, errors


def test_a_compression_counts_as_many_records_as_its_file_names(compressed, tmp_path):
    """Three times as many in report and result alike make k of n a third."""
    folder = Path(shutil.copytree(compressed, tmp_path / "run"))
    report, result = read(folder / "certificates.json"), read(folder / "result.json")
    n = 3 * report["n"]
    report |= {"n": n, "examples": n, "details": {**report["details"]}}
    del report["details"]["at_price_zero"]
    for one in [report["rows"]["bound"], *(one for one in report["measured"] if one["on"] == "bound")]:
        one["n"] = n
    (made,) = report["certificates"]
    other = compression(**{**made["inputs"], "n": n}).to_dict()
    made |= {part: other[part] for part in ("inputs", "terms", "value")}
    written(folder / "certificates.json", report)
    written(folder / "result.json", {**result, "n": n, "value": made["value"]})
    assert [one.claim for one in check_path(folder) if one.verdict == DOES_NOT] == ["kept records"]


def test_what_learnt_from_its_rows_is_certified_by_its_size(compressed, tmp_path):
    """On these rows alone, at no price of a prior that there is not, and for the risk that the run counted."""
    folder, path = tmp_path / "run", tmp_path / "report.json"
    shutil.copytree(compressed, folder)
    report = read(folder / "certificates.json")
    (made,) = report["certificates"]
    report["details"].pop("at_price_zero")
    written(folder / "certificates.json", {**report, "certificates": [{**made, "measures": "ECE"}]})
    assert "kept records" in {one.claim for one in check_path(folder) if one.verdict == DOES_NOT}
    other = maurer(risk=0.0, kl_nats=0.0, n=report["n"], failure_prob=made["failure_prob"]).to_dict()
    unseen = {"name": "prior saw none of these rows", "standing": "declared", "by": "whoever", "unit": ""}
    other |= {"of": "weights", "measures": "0-1 risk", "hypotheses": [*made["hypotheses"], unseen]}
    for route in ("compression", "gaussian"):
        written(path, {**report, "route": route, "certificates": [other]})
        assert {one.claim for one in check_path(path) if one.verdict == DOES_NOT} == {"hypotheses of the prior"}


@every_case("name", ["new_examples_compression", "prior_mean_compression"])
def test_a_compression_of_another_name_is_none(compressed, tmp_path, name):
    """Its count would be held against nothing that was kept: none of the records here."""
    report = read(compressed / "certificates.json")
    report["details"].pop("at_price_zero")
    (made,) = report["certificates"]
    other = compression(k=0, n=made["inputs"]["n"], failure_prob=made["failure_prob"]).to_dict()
    made |= {"name": name, **{part: other[part] for part in ("inputs", "terms", "value")}}
    written(tmp_path / "report.json", report)
    assert verdicts(check_path(tmp_path / "report.json"), "hypotheses of the prior") == {DOES_NOT}


def _said_of_settings(record, count):
    for one in record["hypotheses"]:
        if one["name"] == "settings fixed beforehand":
            one["by"] = f"whoever chose: a list of {count} settings, all paid for"
    return record


def test_the_settings_of_a_surrogate_are_paid_for(compressed):
    """By as many as its own certificate says, or more."""
    report, made = read(compressed / "certificates.json"), by_another_network().to_dict()
    surrogate = _said_of_settings(json.loads(made["inputs"]["surrogate"]), 5)
    made["inputs"]["surrogate"] = json.dumps(surrogate)
    for count in (1, 5, 6):
        edited = {**report, "certificates": [_said_of_settings(made, count)], "choices": {"count": count}}
        assert (DOES_NOT in verdicts(check_report(edited), "settings paid for")) == (count == 1)


RESULTS = Path(__file__).parents[2] / "experiments" / "results"


def test_published_certificates_of_compressions_follow():
    """Those of people too, whose risk is the share of people with more errors than a tolerance."""
    shares = 0
    for path in sorted((RESULTS / "compression" / "certificates").glob("*.json")):
        found = check_path(path)
        assert DOES_NOT not in {one.verdict for one in found}, path.name
        shares += any("share of people" in said["measures"] for said in read(path)["certificates"])
    assert shares == 2


COOLED = "a chain that cools has no stationary law"
"""What is rightly refused: certificates of the trajectory study that no version makes any longer, beside others."""


@pytest.mark.slow
def test_all_published_certificates_follow():
    for path in sorted(RESULTS.glob("*/certificates/*.json")):
        wrong = {one.why for one in check_path(path) if one.verdict == DOES_NOT}
        assert wrong <= {COOLED}, path
