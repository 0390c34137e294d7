"""What does not fit is refused with one sentence that names the argument and says what to do; nothing is cut to fit."""

import re

import numpy as np
import pytest
import torch
from numpy.random import default_rng

from pacdp import certify_predictions
from tests.marks import every_case, parametrize, refusal

Y, P = [0, 1, 2, 1], [0, 1, 1, 1]
SOFT = np.array([[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6], [0.3, 0.4, 0.3]])


def said(**how):
    """A sound call, but for what is told."""
    return {"labels": Y, "predictions": P, **how}


def soft(**how):
    return {"labels": Y, "probabilities": SOFT, **how}


class Index(list):
    equals = list.__eq__


class Frame:
    """Columns as data frames have them."""

    def __init__(self, values, index=(0, 1, 2, 3), *, columns=()):
        self.values, self.index, self.columns = np.asarray(values), Index(index), columns

    def __array__(self, dtype=None, copy=None):
        return self.values


WRONG = {
    "lengths": (said(predictions=P[:3]),
        "predictions must have one row for each of the 4 examples, got 3"),
    "types": (said(predictions=["0", "1", "1", "1"]),
        "predictions must be whole numbers like the labels, got text"),
    "float labels": ({"labels": [0.0, 1.0, 2.0, 1.0], "predictions": P},
        "labels must be whole numbers or text, got float64: nothing is truncated here; if they are "
        "whole, pass labels.astype(int) yourself; if they are real, pass within="),
    "float people": (said(people=[0.0, 0.0, 1.0, 1.0]), "if they are whole, pass people.astype(int) yourself"),
    "one-hot labels": ({"labels": np.eye(3)[[0, 1, 2, 1]], "predictions": P}, "shape (4, 3): pass one column, as"),
    "positive without recall": (said(labels=[0, 1, 0, 1], predictions=[0, 1, 1, 1], ask=["error"], positive=1),
        "ask for one of them, of labels with two classes, each of some examples, or leave positive out"),
    "nothing said": ({"labels": Y}, "give predictions, probabilities or losses"),
    "both": (said(probabilities=SOFT), "give predictions or probabilities, not both"),
    "logits": (soft(probabilities=SOFT * 9), "probabilities must lie in [0, 1], got 7.2"),
    "a NaN": (soft(probabilities=np.where(SOFT == 0.6, np.nan, SOFT)), "got nan in row 2, column 2"),
    "sums": (soft(probabilities=SOFT * 0.9), "probabilities must sum to one in every row, got 0.9"),
    "labels beyond": ({"labels": [0, 1, 3, 1], "probabilities": SOFT},
        "labels must lie from 0 to 2, as the columns of probabilities say, got 3"),
    "classes without an order": (said(classes={0, 1, 2}), "classes must be a list of names, got a set"),
    "classes by name": (soft(classes={2: 0, 1: 1, 0: 2}), "classes must be a list of names, got a dict, whose order"),
    "classes twice": (said(classes=[0, 1, 1, 2]),
        "classes must be at least two different names"),
    "one person": (said(people=[7, 7, 7, 7]),
        "people must be at least two, got 7 in every row"),
    "unknown people": (said(people=[3, -1, 4, -1]), "people must have no gaps, got '-1' in row 1"),
    "people of UCI": (said(people=["a", "?", "b", "?"]), "people must have no gaps, got '?' in row 1"),
    "people of NaN": (said(people=[3, 4, -2**63, 4]), "people must have no gaps, got '-9223372036854775808' in row 2"),
    "people and weights": (said(people=Y, weights=[1] * 4),
        "give people or weights, not both"),
    "large weights": (said(weights=[1, 2, 1, 1]),
        "weights must lie in (0, 1], got 2.0 in row 1"),
    "ids": (said(ids=["a", "b", "a", "c"]),
        "ids must be different in every row, got 'a' in rows 0 and 2"),
    "masked labels": (said(labels=np.ma.masked_equal(Y, 2)), "labels must have no gaps, got none in row 2"),
    "masked probabilities": (soft(probabilities=np.ma.masked_equal(SOFT, 0.6)), "probabilities must have no gaps"),
    "classes of losses": ({"losses": {"loss": [0.5]}, "classes": [0, 1]}, "classes go with labels"),
    "large losses": ({"losses": {"loss": [0.5, 1.5]}}, "loss must lie in [0, 1], got 1.5 in row 1"),
    "losses of which": (said(predictions={"a": P, "b": P}, losses={"l": [0.1] * 4}),
        "losses must say whose they are"),
    "asked for probabilities": (said(ask="brier"),
        "ask names 'brier', which needs probabilities"),
    "asked for bins of people": (soft(people=Y, ask=["bins"]),
        "which needs examples, not people"),
    "asked by a number": (said(ask=5), "ask must be among error"),
    "interval by a word": (said(interval="no"), "interval must be True or False, got 'no'"),
    "one end": ({"labels": [0.5], "predictions": [0.5], "within": 1}, "within must be two numbers"),
    "ends too close": ({"labels": [0.0], "predictions": [0.0], "within": (0, 1e-170)}, "from 1e-150 to 1e150 apart"),
    # nanoseconds since 1970, of which doubles tell those apart that lie 256 from each other
    "ends of rounded numbers": ({"labels": [17 * 10**17 + 100], "predictions": [17 * 10**17],
        "within": (17 * 10**17, 17 * 10**17 + 1000)}, "subtract what labels, predictions and both ends share"),
    "a text cut off": (said(labels=["a", "a\0", "b", "c"], predictions=["a"] * 4), "labels must not end in a NUL"),
    "by weight, without weights": ({"losses": {"weighted loss": [0.5] * 4}}, "a loss must have a name of its own"),
    "a name of two lines": ({"losses": {"a\nAt most 0%": [0.5]}}, "no name for a sentence"),
    "another order of rows": (said(labels=Frame(Y), people=Frame(P, [3, 0, 1, 2])),
        "labels and people name the same rows in another order"),
    "another order of losses": ({"losses": {"a": {"l": Frame([0.5] * 4)}, "b": {"l": Frame([0.5] * 4, [3, 0, 1, 2])}}},
        "losses and losses name the same rows in another order"),
    "another order of classes": (soft(probabilities=Frame(SOFT, columns=[2, 1, 0])),
        "probabilities must have its columns in the order of the classes, 0, 1, 2, got 2, 1, 0"),
    "another order of columns that begin alike": (soft(probabilities=Frame(SOFT, columns=["p0", "p2", "p1"])),
        "in the order of the classes, 0, 1, 2, got p0, p2, p1"),
    "failure_prob": (said(failure_prob=1.0), "failure_prob must lie strictly between 0 and 1"),
}  # fmt: skip


@pytest.mark.wrong_types
@every_case("why", WRONG)
def test_a_sentence_names_the_argument_and_what_to_do(why):
    given, said = WRONG[why]
    with refusal(re.escape(said)) as refused:
        certify_predictions(**given)
    assert "\n" not in str(refused.value)


@parametrize("make", [tuple, torch.tensor, lambda values: np.array(values, "uint8")])
def test_labels_come_from_any_framework(make):
    expected, found = (certify_predictions(form(Y * 5), form(P * 5)) for form in (list, make))
    assert found.statements == expected.statements


class NAType:
    """As pandas has it: neither equal to anything nor different."""

    def __repr__(self):
        return "<NA>"

    def __eq__(self, other):
        raise TypeError("boolean value of NA is ambiguous")

    __hash__ = object.__hash__


def objects(column):
    return np.array(column, dtype=object)


@pytest.mark.wrong_types
@every_case("missing", [None, float("nan"), "", NAType(), "nan", "NA", " null", "None"])
@parametrize("where", ["labels", "predictions", "groups", "people"])
@parametrize("form", [objects, list, np.array])
def test_gaps_of_data_frames_are_found(missing, where, form):
    names = ["a", "b", "a", "b"]
    given = dict.fromkeys(("labels", "predictions", "groups", "people"), names)
    given[where] = form(["a", "b", missing, "a"])
    with refusal(f"{where} must have no gaps, got (none|'{missing}') in row 2"):
        certify_predictions(**given)


def test_a_class_that_is_called_like_a_gap_is_one_where_the_caller_names_it():
    names = ["NA", "EU"] * 10
    found = certify_predictions(names, names, classes=["EU", "NA"])
    assert found.statement("recall of class 'NA'").n == 10


def test_columns_of_data_frames_go_by_place_where_no_row_has_two():
    of_parts = certify_predictions(Frame(Y, [7, 3, 5, 9]), Frame(P), ask="error")
    assert of_parts == certify_predictions(Y, P, ask="error")


def test_one_long_text_does_not_widen_every_other():
    texts = ["a", "b"] * 5000 + ["x" * 200_000]  # 7.45 GiB in an array of one width
    assert certify_predictions(texts, texts, ask="error").n == 10_001


def test_models_of_which_different_losses_are_known_are_not_compared():
    losses = {"a": {"one": [0.1, 0.2]}, "b": {"two": [0.1, 0.2]}}
    assert {row.family for row in certify_predictions(losses=losses).statements} == {"error"}
    with refusal("ask names 'differences', which needs the same of two models"):
        certify_predictions(losses=losses, ask="differences")


def test_rows_that_repeat_another_are_remarked_upon_unless_ids_tell_them_apart():
    labels, soft = np.tile(Y, 5), np.tile(SOFT, (5, 1))
    (remark,) = certify_predictions(labels, probabilities=soft).remarks
    assert remark.startswith("16 rows of your model repeat")
    remark, _ = certify_predictions(labels[:5], probabilities=soft[:5], people=np.arange(5)).remarks
    assert remark.startswith("1 row of your model repeats"), "and counts twice in the mean of a person"
    assert certify_predictions(labels, probabilities=soft, ids=np.arange(20)).remarks == ()
    labels = default_rng(3).integers(0, 3, 60)
    hard = np.eye(3)[labels]
    assert certify_predictions(labels, probabilities=hard).remarks == (), "saturated outputs repeat by nature"


MIXED = default_rng(8).integers(0, 2, 40)
NUMBERS = default_rng(8).random(40)
COINS = default_rng(9).integers(0, 2, 480)
TILES = np.arange(40) % 7 + 1
OFTEN = np.repeat(default_rng(8).random(60) < 0.3, 8)
FLAT = (default_rng(8).random((100, 4)) < [0.1, 0.3, 0.5, 0.2]).astype(int).ravel()
REMARKS = {
    "copies": ({"labels": np.tile(MIXED, 10), "predictions": np.tile(MIXED[::-1], 10)},
        "the 40 first rows stand 10 times over"),
    "answers again": ({"labels": np.tile(MIXED, 10), "predictions": default_rng(9).integers(0, 2, 400),
                       "ids": np.arange(400)}, "the labels of the 40 first rows stand 10 times over: if seeds"),
    "labels again": ({"labels": default_rng(9).integers(0, 2, 400), "predictions": np.tile(MIXED, 10)},
        "the predictions of your model of the 40 first rows stand 10 times over"),
    "numbers again": ({"labels": np.tile(NUMBERS, 3), "predictions": default_rng(9).random(120), "within": (0, 1)},
        "the labels of the 40 first rows stand 3 times over"),
    "answers again by example": (
        {"labels": np.repeat(MIXED, 5), "predictions": default_rng(9).integers(0, 2, 200)}, "90% of all rows have the"),
    "tiles in unequal numbers": ({"labels": np.repeat(MIXED, TILES), "predictions": np.arange(155) % 2},
        "87% of all rows have the label of the row before"),
    "hours": ({"labels": np.sin(np.arange(400) / 20) ** 2, "predictions": default_rng(9).random(400), "within": (0, 1)},
        "97% of all rows have a label on the same side of the median as the row before"),
    "slices": ({"losses": {"1 - Dice": np.repeat(NUMBERS, 20) * 0.9 + 0.1 * default_rng(9).random(800)}},
        "91% of all rows have a loss on the same side of the median as the row before"),
    "questions a passage": ({"losses": {"wrong": np.repeat(default_rng(8).random(600) < 0.3, 3)}},
        "88% of all rows have the loss of the row before, where rows further apart have up to 59%"),
    "slices of one scanner": (
        {"labels": COINS, "predictions": COINS ^ np.repeat(default_rng(8).random(60) < 0.3, 8)},
        "95% of neighbours with one label are both right or both wrong"),
    "nobody": ({"labels": MIXED, "predictions": 1 - MIXED, "people": [*range(20), *[99] * 20]},
        "50% of all rows are of one person, 99, and count as one"),
    "patients as groups": ({"labels": MIXED, "predictions": 1 - MIXED, "groups": [*range(30), *range(10)]},
        "there are 30 groups of 1.3 rows on average: if a group is a person"),
    "a space": ({"labels": MIXED, "predictions": 1 - MIXED, "people": ["P1", "p1 "] * 20},
        "the people 'P1' and 'p1 ' differ by a space, case or zeros alone"),
    "zeros": ({"labels": MIXED, "predictions": 1 - MIXED, "people": ["1", "01", "2", "snan"] * 10},
        "the people '01' and '1' differ by a space, case or zeros alone"),
    "zeros in a name": ({"labels": MIXED, "predictions": 1 - MIXED, "people": ["p7", "p1.5", "p1.05", "P007"] * 10},
        "the people 'P007' and 'p7' differ by a space, case or zeros alone"),
    "examples of two spellings": ({"labels": MIXED, "predictions": 1 - MIXED, "ids": [
        *(f"x-{k}" for k in range(39)), "X-01"]}, "the ids 'X-01' and 'x-1' differ by a space, case or zeros alone"),
    "a question mark": ({"labels": np.array(["?", "ill"])[MIXED], "predictions": np.array(["?", "ill"])[MIXED]},
        "a class is called '?', as some write a missing value"),
    "no label": ({"labels": [-1, -1, *MIXED[2:]], "predictions": MIXED}, "a class is called '-1', as some mark"),
    "groups of errors": ({"labels": MIXED, "predictions": MIXED[::-1], "groups": MIXED == MIXED[::-1]},
        "in every group your model errs always or never"),
    "training rows": ({"labels": MIXED, "predictions": 1 - MIXED, "groups": ["Train", "test"] * 20},
        "a group is called 'Train': if the model learnt from its rows"),
    "folders of classes": ({"labels": np.arange(480) // 240, "predictions": (np.arange(480) // 240 + OFTEN) % 2},
        "95% of neighbours with one label are both right or both wrong"),
    "several labels flattened": ({"labels": FLAT, "predictions": 1 - FLAT}, "labels come in turns of 4 rows"),
    "ties": ({"labels": MIXED, "probabilities": np.full((40, 2), 0.5)}, "40 rows of your model tie for the largest "
        "probability, which counts as an error that names no class: precision and false alarms of what argmax"),
}  # fmt: skip


@every_case("why", REMARKS)
def test_a_remark_says_what_should_be_looked_at(why):
    given, said = REMARKS[why]
    assert any(one.startswith(said) for one in certify_predictions(**given).remarks)


@parametrize("seed", range(3))
def test_honest_examples_bring_no_remark(seed):
    rng = default_rng(seed)
    labels, groups, people = rng.integers(0, 2, (3, 400))
    said = np.where(rng.random(400) < 0.1, 1 - labels, labels)
    assert certify_predictions(labels, said, groups=groups).remarks == ()
    (of_people,) = certify_predictions(labels, labels, groups=groups, people=people).remarks
    assert of_people.startswith("every person counts alike"), "which says what rates are, and no more"
    by_subject = rng.random(4000) < np.repeat(rng.beta(4, 8, 20), 200)
    for losses in (rng.random(400), rng.random(400) < 0.1, np.sort(rng.random(400)), by_subject):
        assert certify_predictions(losses={"loss": losses}).remarks == ()
    coins = rng.integers(0, 2, 4000)
    assert certify_predictions(coins, coins ^ by_subject).remarks == ()
    ordered, turns = np.sort(labels), np.arange(400) % 2
    assert certify_predictions(turns, said).remarks == (), "a turn of classes, on purpose"
    ran_out = np.r_[np.arange(300) % 2, np.zeros(100, int)]
    assert certify_predictions(ran_out, said).remarks == (), "turns until one class ran out"
    wrong = np.sort((rng.random((4, 100)) < 0.2).astype(int), 1)[:, :: rng.choice([-1, 1])].ravel()
    classes = np.repeat(np.arange(4), 100)
    assert certify_predictions(classes, (classes + wrong * rng.integers(1, 4, 400)) % 4).remarks == (), "errors apart"
    by_class = np.repeat(rng.permutation(10), 40)  # of which some are harder
    others = np.where(rng.random(400) < np.repeat(rng.beta(2, 8, 10), 40), (by_class + 1) % 10, by_class)
    assert certify_predictions(by_class, others).remarks == ()
    assert certify_predictions(ordered, ordered, groups=np.arange(400) // 20).remarks == ()
    signs = 2 * labels - 1  # of which one is -1
    assert certify_predictions(signs, np.ones(400, dtype=int)).remarks == ()
    p = np.sort(rng.random(400))  # as tables are looked through
    labels = (rng.random(400) < p).astype(int)
    assert certify_predictions(labels, probabilities=np.c_[1.0 - p, p]).remarks == ()
    ages, people = np.repeat(rng.random(100), 4), np.repeat(np.arange(100), 4)
    remarks = [certify_predictions(ages, rng.random(400), within=(0, 1), people=of).remarks for of in (None, people)]
    assert [len(one) for one in remarks] == [3, 2], "R-squared, ends, and neighbours of nobody"
