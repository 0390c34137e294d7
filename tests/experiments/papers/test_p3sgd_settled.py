"""What would settle the open claims of P3SGD's tables: a counterpart that has answered, other data, networks that
learn, or seeds; by question and problem."""

import pytest

from experiments.claims import Claim, Verdict
from experiments.papers.p3sgd import TABLE_1, TABLE_2
from experiments.papers.p3sgd_figures import FIGURE_2, FIGURE_3
from experiments.papers.p3sgd_printed import STUDY as AS_PRINTED
from experiments.papers.p3sgd_settled import (
    ACCURATE,
    BLOCKS,
    COUNTERPARTS,
    HALVED,
    NO_GAP,
    OTHERS,
    PRINTED,
    QUESTIONS,
    REDUCES,
    WRITERS,
    answered,
    asked,
    asked_of_more,
)
from experiments.runner import RESULTS, read_table

TABLES = (TABLE_1, TABLE_2, FIGURE_2, FIGURE_3)


def judged(study):
    return study.judge(read_table(RESULTS / study.name / "cpu"), "cpu")


@pytest.fixture(scope="module")
def committed():
    return [claim for study in TABLES for claim in judged(study).claims]


PAIRS = [(problem, there) for problem, places in COUNTERPARTS.items() for there in places]


def counterpart(question, holds, there=OTHERS):
    sentence = f"{asked(there, question.there)} (somewhere)"
    return lambda: Verdict(claims=(Claim(sentence, holds, "1 against 1"),))


@pytest.mark.parametrize(("problem", "there"), PAIRS)
@pytest.mark.parametrize("question", QUESTIONS)
def test_only_a_counterpart_that_is_decided_answers(question, problem, there):
    claim = Claim(f"{asked(problem, question.here)} (Section 4.2)", None, "x")
    assert f'{asked(there, question.there)}" holds there' in answered(claim, counterpart(question, True, there))
    assert "does not hold there" in answered(claim, counterpart(question, False, there))
    assert answered(claim, counterpart(question, None, there)) == ""
    assert answered(claim, lambda: None) == ""


def test_a_counterpart_is_of_the_same_question_and_problem():
    asked_of = [("MNIST writers, conv", HALVED), ("X-rays, conv", ACCURATE), ("malaria, linear on spots", HALVED)]
    for problem, question in asked_of:  # the counterpart is malaria's
        claim = Claim(f"{asked(problem, question.here)} (Section 4.2)", None, "x")
        assert answered(claim, counterpart(question, True)) == ""
    claim = Claim(asked("malaria, conv", REDUCES.here), None, "x")
    assert answered(claim, counterpart(HALVED, True)) == "", "a gap of accuracies says nothing of losses"


def test_p3sgd_printed_asks_all_questions_of_every_counterpart():
    claims = judged(AS_PRINTED).claims
    for _, there in PAIRS:
        for question in QUESTIONS:
            assert [one for one in claims if one.sentence.startswith(asked(there, question.there))], question


def test_every_open_claim_that_another_study_answers_is_decided_there(committed):
    sent = [claim for claim in committed if claim.holds is None and f"{PRINTED} has asked it" in claim.settled_by]
    assert sent
    decided = {one.sentence for one in judged(AS_PRINTED).claims if one.holds is not None}
    for claim in sent:
        assert claim.sentence.startswith(tuple(COUNTERPARTS))
        begins = claim.settled_by.split('"')[1]
        assert any(sentence.startswith(begins) for sentence in decided)


def test_what_few_records_leave_open_is_sent_to_table_1_where_that_decides():
    told = {}
    for there in (WRITERS, OTHERS):
        claim = Claim(f"{asked(there, BLOCKS.there)} (Table 3)", None, "x")
        told[there] = asked_of_more(claim)
        assert told[there].startswith('p3sgd-table-1 has asked it on more records: "')
        assert "2.75" not in told[there], "the sentence, without what the paper printed"
    assert '"MNIST writers, conv: DropBlock gains' in told[WRITERS]
    assert "does not hold there, by 3 seeds; all runs" in told[WRITERS]
    assert "holds there, by 100 seeds; all runs" in told[OTHERS]
    undecided = Claim(asked(WRITERS, HALVED.there), None, "x")
    assert asked_of_more(undecided) == "", "Table 1 has no gap there to narrow"
    assert asked_of_more(Claim("lungs: something", None, "x")) == ""


def test_what_lacks_seeds_says_so_with_the_whole_cost_and_what_lacks_a_gap_says_where_there_is_one(committed):
    opened = [claim for claim in committed if claim.holds is None]
    xrays = [claim for claim in opened if claim.sentence.startswith("X-rays, conv")]
    few = [*xrays, *(one for one in opened if one.sentence.startswith(asked("malaria, conv", BLOCKS.here)))]
    assert few
    for claim in few:
        assert " seeds; all runs of one seed on " in claim.settled_by or " already; all runs" in claim.settled_by
        assert ", of " in claim.settled_by
        assert PRINTED not in claim.settled_by
    flat = [claim for claim in opened if claim.settled_by.startswith(NO_GAP)]
    assert flat
    for claim in flat:
        assert "; a network with more weights has one" in claim.settled_by
        assert ", of 200 seeds " in claim.settled_by


def test_the_points_of_table_1_are_settled_by_what_settles_their_claims():
    verdict = judged(TABLE_1)
    (regularises,) = [one for one in verdict.points if "regularises deep networks" in one.said]
    assert regularises.holds is None
    assert "minutes of two cores" in regularises.settled_by
    assert all(part in regularises.settled_by for part in (NO_GAP, f"{PRINTED} has asked it"))
