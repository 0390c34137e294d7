"""What a certificate rests on is proved where it can be, shown where it cannot, and choices are paid for."""

import math
from dataclasses import replace

import numpy as np
from door_toys import MU, PURE, examples, gaussian, network, plain, split

import bounds
from pacdp import HeldOut, Network, Private, Settings, certify
from pacdp.certify import Finite
from pacdp.verify.claim import DOES_NOT, FOLLOWS
from pacdp.verify.report import check_report
from tests.marks import every_case, near, refusal

DATA, FRESH = examples(80), examples(40, seed=2)
OF_PEOPLE = replace(DATA, people=np.repeat(np.arange(16), 5).astype(np.int64))
PLACED = replace(DATA, indices=split(0, 80), data_hash="same")
PRIOR, COVERS, FIXED = ("prior saw none of these rows", "privacy covers these rows", "settings fixed beforehand")
STANDINGS = {
    "indices are what the caller says": (
        lambda: gaussian(PLACED, HeldOut(indices=split(100, 180), data_hash="same")), PRIOR, "declared"),
    "the prior's rows": (lambda: gaussian(DATA, HeldOut(rows=FRESH.rows)), PRIOR, "proved"),
    "rows of a claim": (lambda: gaussian(DATA, Private(privacy=MU, rows=DATA.rows)), COVERS, "proved"),
    "a claim without rows": (lambda: gaussian(DATA, Private(privacy=MU)), COVERS, "declared"),
    "settings": (lambda: gaussian(DATA), FIXED, "declared"),
    "settings chosen elsewhere": (
        lambda: gaussian(DATA, test=FRESH, settings=Settings.chosen_on(examples(seed=6).rows)), FIXED, "proved"),
    "some networks": (lambda: certify(Finite(networks=[network()] * 2), DATA), PRIOR, "declared"),
}  # fmt: skip


@every_case("what", STANDINGS)
def test_what_row_hashes_show_is_proved_and_all_else_declared(what):
    call, name, standing = STANDINGS[what]
    found = [one for one in call().certificates if any(each.name == name for each in one.hypotheses)]
    assert found
    assert {one.hypothesis(name).standing for one in found if not one.name.startswith("test_set")} == {standing}


def test_people_are_the_records_where_they_are_known():
    private = Private(privacy=MU, unit="person", rows=OF_PEOPLE.rows)
    found, of_run = plain(OF_PEOPLE, ask="error"), plain(OF_PEOPLE, prior=private)
    (made,), (released,) = found.certificates, of_run.certificates
    for one in (made, released):
        assert one.measures == "0-1 risk of a new person"
        assert one.hypothesis("records independent").unit == "person"
    assert (of_run.n, of_run.unit, of_run.examples, released.inputs["n"]) == (16, "person", 80, 16)
    expected = bounds.printed.private_kl_chernoff(risk=of_run.measured[0].mean, n=16, privacy=MU, failure_prob=0.05)
    assert released.value == expected.value
    alone = plain(DATA, ask="error").certificates[0]
    assert made.value > 1.5 * alone.value
    assert alone.hypothesis("records independent").unit == "example"


def test_endless_epsilon_says_nothing():
    assert plain(prior=Private(privacy=replace(PURE, epsilon=math.inf))).certificates[0].value == 1.0


def test_every_setting_is_paid_for_unless_it_was_chosen_elsewhere():
    free, paid = gaussian(DATA), gaussian(DATA, settings=Settings.tried(8, "the study"))
    assert {made.failure_prob for made in paid.certificates} == {paid.failure_prob} == {0.05 / 8}
    assert paid.certificate().value > free.certificate().value
    assert paid.choices["count"] == 8
    chosen = gaussian(DATA, settings=Settings.chosen_on(FRESH.rows))
    assert chosen.certificate().value == free.certificate().value


def test_the_best_certificate_of_one_kind_pays_for_its_kind_alone():
    found = gaussian(DATA, test=FRESH, failure_prob=0.01)
    assert found.best().failure_prob > found.best(of="one draw").failure_prob == near(0.01)


def test_assessments_of_the_same_examples_are_joined():
    same = certify(Network(network=network(), of="another"), DATA)
    both = plain(DATA).joined(same)
    assert len(both.certificates) == 2 * len(same.certificates)
    assert "Each certificate holds by itself with 95% confidence." in str(both), "together they pay 10%"
    assert {*map(len, both.cells())} == {6}
    assert len(both.cells()) == len(both.certificates)


def test_what_held_at_once_is_checked_each_by_itself_once_it_is_joined():
    """Before, the checker called such a report damaged, and two networks of one name stood in it as one."""
    one = certify(network(), DATA, ask="error")
    said = one.joined(certify(Network(network=network(), of="another"), DATA)).to_dict()
    verdicts = {each.claim: each.verdict for each in check_report(said) if each.subject == "report"}
    assert DOES_NOT not in verdicts.values()
    assert verdicts["failure probability of each by itself"] == FOLLOWS
    (refuted,) = (each for each in check_report({**said, "failure_prob": 0.04}) if each.verdict == DOES_NOT)
    assert refuted.claim == "failure probability of each by itself"
    with refusal("two reports differ in what they measured of 'your network'"):
        one.joined(certify(lambda x: -network()(x), DATA, ask="error"))


def test_a_report_on_a_law_is_joined_with_one_on_answers_from_either_side():
    """Before, the checker called the one that began with the law false, and the other not."""
    law, answers = gaussian(DATA), certify(Network(network=network(), of="another"), DATA)
    for one in (law.joined(answers), answers.joined(law)):
        assert DOES_NOT not in {each.verdict for each in check_report(one.to_dict())}


def test_what_is_joined_is_said_at_the_confidence_that_it_has():
    """Before, a certificate at 80% stood under "each certificate holds by itself with 99.9% confidence"."""
    one, tried = plain(DATA, failure_prob=0.01), plain(DATA, failure_prob=0.08, settings=Settings.tried(8))
    assert "with 92% confidence" in str(one.joined(tried)), "of one of eight settings"
    with refusal("reports at one failure_prob"):
        one.joined(plain(DATA, failure_prob=0.2))
