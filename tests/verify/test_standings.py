"""No certificate can keep silent about what it takes for true, or call it better shown than it is."""

import copy
import json
from itertools import product

import pytest
from cli_tools import read
from made import everything, verdicts
from test_predicted import GIVEN, report

from bounds import Certificate
from bounds.hypotheses import NEEDS
from pacdp.verify import certificate, needs
from pacdp.verify.certificate import check_certificate
from pacdp.verify.claim import CANNOT, DOES_NOT, FOLLOWS
from pacdp.verify.folder import check_folder
from pacdp.verify.report import check_report
from tests.marks import parametrize

CONTROLLED = ("risk", "selective_risk", "set_size", "groups", "false_negatives", "miscoverage")
CLAIMS = ("hypotheses", "proofs of hypotheses", "surrogate")


@pytest.fixture
def words(monkeypatch):
    """A function that tells what the checker says of words alone: numbers are judged elsewhere."""
    for name in ("costs", "value"):
        monkeypatch.setitem(certificate._CHECKS, name, lambda *_: None)
    return lambda record: {one.verdict for one in check_certificate(record) if one.claim in CLAIMS}


def changed(record, place, standing=None):
    """A certificate without one of its hypotheses, or with another standing of it, and the status that follows."""
    said = list(record["hypotheses"])
    said[place : place + 1] = [{**said[place], "standing": standing}] if standing else []
    unproved = any(one["standing"] == "unproved" for one in said)
    return {**record, "hypotheses": said, "status": "optimistic" if unproved else "rigorous"}


def predicted():
    """Certificates of predictions of every family."""
    counted = [name for name in GIVEN if name != "losses"]  # whose range no certificate tells
    return [Certificate.from_dict(one) for name in counted for one in report(name)["certificates"]]


@parametrize("kinds", [everything, predicted])
def test_no_hypothesis_of_any_kind_can_be_left_out_or_promoted(kinds, words, whole):
    missed = set()
    for made in list({made.name: made for made in kinds()}.values())[:: 1 if whole or kinds is predicted else 6]:
        record = made.to_dict()
        assert words(record) <= {FOLLOWS, CANNOT}, made.name
        for place, one in enumerate(record["hypotheses"]):
            edits = {None: DOES_NOT, "proved": DOES_NOT if one["standing"] == "unproved" else CANNOT}
            edits |= {"declared": DOES_NOT} if one["standing"] == "unproved" else {}
            for standing, verdict in edits.items():
                if not {verdict, DOES_NOT} & words(changed(record, place, standing)):
                    missed.add((made.name, one["name"], standing))
    assert not missed


@parametrize("name", ["by", "unit"])
def test_a_hypothesis_says_by_whom_and_for_which_unit(name, words):
    record = predicted()[0].to_dict()
    for place, one in enumerate(record["hypotheses"]):
        said = copy.deepcopy(record)
        del said["hypotheses"][place][name]
        assert DOES_NOT in words(said), one["name"]


def silenced(report):
    """Reports whose optimistic certificates were made rigorous, by leaving out what is unproved or by declaring it.

    And one with less epsilon than a draw from the chain's law has.
    """
    edited = copy.deepcopy(report)
    paying = [made["inputs"] for made in edited["certificates"] if "epsilon" in made["inputs"]]
    for inputs in paying:
        inputs["epsilon"] *= 0.01
    if paying:
        yield edited
    for standing in (None, "declared"):
        edited = copy.deepcopy(report)
        for made in edited["certificates"]:
            said = [one for one in made["hypotheses"] if standing or one["standing"] != "unproved"]
            made["hypotheses"] = [{**one, "standing": standing or one["standing"]} for one in said]
            made["status"] = "rigorous"
        yield edited


@parametrize("name", ["sgld", "entropy-sgld", "clipped-sgld"])
def test_what_rests_on_a_chain_stays_unproved(runs, name, words):
    report = read(runs[name] / "certificates.json")
    bare = {**report, "subject": None}
    for edited in silenced(report):
        for given in (edited, {**edited, "subject": None}):
            found = check_folder(runs[name], given) if given["subject"] is None else check_report(given)
            assert DOES_NOT in verdicts(found, "hypotheses")
    assert verdicts(check_folder(runs[name], bare), "hypotheses") == {FOLLOWS}


def test_a_proof_is_accepted_where_the_folder_is_one(runs, private_runs):
    """Noise, clipping and the number of steps are functions of the settings, which the folder holds."""
    from pacdp.verify.report import check_path

    for folder, shown in product((runs["clipped-sgld"], private_runs["halted"]), (True, False)):
        found = check_path(folder if shown else folder / "certificates.json")
        (sums,) = [one for one in found if one.claim == "proofs of hypotheses" and "poisson_sum" in one.subject]
        assert sums.verdict == (FOLLOWS if shown else CANNOT)
        assert all("draws" in one.why or "rows" in one.why for one in found if shown and one.verdict == CANNOT
                   and one.claim == "proofs of hypotheses")  # fmt: skip


def test_no_standing_can_hide_in_a_second_entry(words):
    record = everything()[0].to_dict()
    twice = [*record["hypotheses"], {**record["hypotheses"][0], "standing": "proved"}]
    assert words({**record, "hypotheses": twice}) == {DOES_NOT}
    assert DOES_NOT in words({**record, "hypotheses": json.loads("[]")})


def test_the_checkers_own_table_says_what_that_of_bounds_says():
    """Of every formula that it knows, at every price; the others are certificates that it cannot check."""
    known = {key: names for key, names in NEEDS.items() if key[0] in needs.OF_FORMULA}
    hybrid = "hybrid_pac_bayes"  # an alias of the formula, with a need of its own
    assert set(NEEDS[hybrid, "private_"]) == needs.needed("private_", "maurer", hybrid, {})
    assert {key[0] for key in NEEDS.keys() - known.keys()} <= {
        "Monitor",
        hybrid,
        *(f"control_{word}" for word in CONTROLLED),
    }
    for (formula, prefix), names in known.items():
        assert set(names) == needs.needed(prefix, formula, formula, {}), (formula, prefix)
    assert {prefix for _, prefix in known} == needs.OF_PRICE.keys()
    assert needs.OF_FORMULA.keys() - {key[0] for key in known} == {"one_of_finitely_many"}
