"""What does not fit is refused with one sentence that names the argument and says what to do; nothing is cut to fit."""

import re

import numpy as np
import pytest
import torch

import pacdp

Y, P = [0, 1, 2, 1], [0, 1, 1, 1]
SOFT = np.array([[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6], [0.3, 0.4, 0.3]])


def said(**how):
    """A sound call, but for what is told."""
    return {"labels": Y, "predictions": P, **how}


def soft(**how):
    return {"labels": Y, "probabilities": SOFT, **how}


WRONG = {
    "lengths": (said(predictions=P[:3]),
        "predictions must have one row for each of the 4 examples, got 3"),
    "types": (said(predictions=["0", "1", "1", "1"]),
        "predictions must be whole numbers like the labels, got text"),
    "mixed types": ({"labels": [0, "1", 2], "predictions": [0, 1, 2]},
        "labels must be of one type, got int and str mixed"),
    "class sets": ({"labels": ["cat", "dog"], "predictions": ["Cat", "dog"]},
        "predictions must name classes that the labels have, got 'Cat'"),
    "float labels": ({"labels": [0.0, 1.0, 2.0, 1.0], "predictions": P},
        "labels must be whole numbers or text, got float64: nothing is truncated"),
    "two axes": ({"labels": [Y], "predictions": P},
        "labels must be one value for each example, got an array of shape (1, 4)"),
    "dates": ({"labels": np.array(["2020-01-01"] * 4, "M8[D]"), "predictions": P},
        "labels must be whole numbers or text, got datetime64"),
    "nothing said": ({"labels": Y}, "give predictions, probabilities or losses"),
    "no labels": ({"predictions": P}, "give labels"),
    "both": (said(probabilities=SOFT), "give predictions or probabilities, not both"),
    "logits": (soft(probabilities=SOFT * 9), "probabilities must lie in [0, 1], got 7.2"),
    "a NaN": (soft(probabilities=np.where(SOFT == 0.6, np.nan, SOFT)), "got nan in row 2, column 2"),
    "sums": (soft(probabilities=SOFT * 0.9), "probabilities must sum to one in every row, got 0.9"),
    "one column": (soft(probabilities=SOFT[:, 0]), "for two classes pass the columns 1 - p and p"),
    "labels beyond": ({"labels": [0, 1, 3, 1], "probabilities": SOFT},
        "labels must lie from 0 to 2, as the columns of probabilities say, got 3"),
    "named labels": ({"labels": list("abcb"), "probabilities": SOFT},
        "pass classes=[...] in the order of the columns"),
    "too few classes": ({"labels": list("abab"), "probabilities": SOFT, "classes": list("ab")},
        "must have a column for each of the 2 classes, got 3"),
    "classes twice": (said(classes=[0, 1, 1, 2]),
        "classes must be at least two different names"),
    "classes as text": ({"labels": list("abab"), "predictions": list("abab"), "classes": "ab"},
        "classes must be a list of names"),
    "a gap in people": (said(people=[1, 1, np.nan, 2]),
        "people must have no gaps, got none in row 2"),
    "one person": (said(people=[7, 7, 7, 7]),
        "people must be at least two, got 7 in every row"),
    "float people": (said(people=[1.0, 2.0, 3.5, 4.0]),
        "people must be whole numbers or text"),
    "people and weights": (said(people=Y, weights=[1] * 4),
        "give people or weights, not both"),
    "large weights": (said(weights=[1, 2, 1, 1]),
        "weights must lie in (0, 1], got 2.0 in row 1"),
    "ids": (said(ids=["a", "b", "a", "c"]),
        "ids must be different in every row, got 'a' in rows 0 and 2"),
    "large losses": ({"losses": {"loss": [0.5, 1.5]}}, "loss must lie in [0, 1], got 1.5 in row 1"),
    "nameless losses": ({"losses": [0.1, 0.2]}, "losses must be columns by name"),
    "losses of which": (said(predictions={"a": P, "b": P}, losses={"l": [0.1] * 4}),
        "losses must say whose they are"),
    "losses of another": (said(predictions={"a": P, "b": P}, losses={"c": {"l": [0.1] * 4}}),
        "got 'c': one of a, b"),
    "a model's length": (said(predictions={"a": P, "b": P[:2]}), "predictions of b must have one row"),
    "asked nothing": (said(ask=[]), "ask must name what to certify"),
    "asked the unknown": (said(ask=["accuracy"]), "ask must be among error, recall"),
    "asked for probabilities": (said(ask="brier"),
        "ask names 'brier', which needs probabilities"),
    "asked for bins of people": (soft(people=Y, ask=["bins"]),
        "which needs examples, not people"),
    "asked for top 3 of 3": (soft(ask=["top-3"]),
        "ask names 'top-3' of 3 classes"),
    "a graph": (soft(probabilities=torch.tensor(SOFT, requires_grad=True)), "requires grad"),
    **{f"failure_prob {value}": (said(failure_prob=value),
                                 "failure_prob must lie strictly between 0 and 1")
       for value in (0, 1.0, float("nan"), True)},
}  # fmt: skip


@pytest.mark.every_case
@pytest.mark.wrong_types
@pytest.mark.parametrize("why", WRONG)
def test_a_sentence_names_the_argument_and_what_to_do(why):
    given, said = WRONG[why]
    with pytest.raises(ValueError, match=re.escape(said)) as refused:
        pacdp.certify_predictions(**given)
    sentence = str(refused.value)
    assert "\n" not in sentence
    assert len(sentence) < 300


@pytest.mark.parametrize("kind", ["list", "tuple", "int8", "uint8", "int64", "object", "torch"])
def test_labels_come_from_any_framework(kind):
    make = {"list": list, "tuple": tuple, "torch": torch.tensor}.get(kind) or (lambda values: np.array(values, kind))
    expected = pacdp.certify_predictions(Y * 5, P * 5)
    found = pacdp.certify_predictions(make(Y * 5), make(P * 5))
    assert found.statements == expected.statements


class NAType:
    """As pandas has it: neither equal to anything nor different."""

    def __repr__(self):
        return "<NA>"

    def __eq__(self, other):
        raise TypeError("boolean value of NA is ambiguous")

    __hash__ = object.__hash__


@pytest.mark.wrong_types
@pytest.mark.every_case
@pytest.mark.parametrize("missing", [None, float("nan"), "", NAType()])
def test_gaps_of_data_frames_are_found(missing):
    column = np.array(["a", "b", missing, "a"], dtype=object)
    with pytest.raises(ValueError, match="labels must have no gaps, got none in row 2"):
        pacdp.certify_predictions(column, ["a", "b", "a", "a"])


def test_models_of_which_different_losses_are_known_are_not_compared():
    losses = {"a": {"one": [0.1, 0.2]}, "b": {"two": [0.1, 0.2]}}
    assert {row.family for row in pacdp.certify_predictions(losses=losses).statements} == {"error"}
    with pytest.raises(ValueError, match="ask names 'differences', which needs the same of two models"):
        pacdp.certify_predictions(losses=losses, ask="differences")


def test_rows_that_repeat_another_are_remarked_upon_unless_ids_tell_them_apart():
    labels, soft = np.tile(Y, 5), np.tile(SOFT, (5, 1))
    (remark,) = pacdp.certify_predictions(labels, probabilities=soft).remarks
    assert remark.startswith("16 rows of your model repeat")
    assert pacdp.certify_predictions(labels, probabilities=soft, ids=np.arange(20)).remarks == ()
    hard = np.eye(3)[labels]
    assert pacdp.certify_predictions(labels, probabilities=hard).remarks == (), "saturated outputs repeat by nature"


def test_a_statement_that_is_not_there_is_refused_with_those_that_are():
    with pytest.raises(ValueError, match="no statement is about 'recall of class 1': there are error"):
        pacdp.certify_predictions(Y, P, ask="error").statement("recall of class 1")
