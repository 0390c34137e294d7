"""The verdict on random labels, on planted tables: what holds, what fails, what chance leaves open."""

import polars as pl
import pytest
from planted import changed, claims

from experiments.papers.random_labels import RANDOM_LABELS as STUDY
from pacdp.cli.figures.names import CONVERGED

BOUNDS = [name for name in CONVERGED if name != "test_set_clopper_pearson"]
PRIVATE = 2.0**0.5 * 60_000**-0.25
CONTRAST, WORSE, TIGHTER = "tau = sqrt(n) does not", "same privacy has higher", "tighter (bound minus"


def _row(algorithm, labels, noise, train, test, **values):
    errors = {"train_error": train, "test_error": test, "gibbs_train_error": train, "gibbs_test_error": test}
    bounds = {"dp_pac_bayes_2018": test + 0.03, "dp_hoeffding_2018": test + 0.05, "dp_chernoff_2018": test + 0.06}
    private = noise == PRIVATE
    tau = 60_000**0.5 if private else (2.0 / noise**2 if noise else None)
    return {"algorithm": algorithm, "labels": labels, "thermal_noise": noise, "tau": tau, "step": 1, "epochs": 1.0,
            "n_test": 10_000, **errors, "epsilon": 0.0325 if private else None, **dict.fromkeys(BOUNDS, None),
            **(bounds if private else {}), **values}  # fmt: skip


ROWS = [
    _row("SGD", "random", 0.0, 0.1, 0.5), _row("Entropy-SGD", "random", 0.001, 0.2, 0.5),
    _row("Entropy-SGD", "random", 0.005, 0.4, 0.5), _row("Entropy-SGLD", "random", PRIVATE, 0.5, 0.5),
    _row("Entropy-SGLD", "true", PRIVATE, 0.1, 0.1), _row("SGLD", "true", PRIVATE, 0.15, 0.15),
    _row("SGLD", "random", PRIVATE, 0.5, 0.5), _row("SGD", "true", 0.0, 0.001, 0.02),
    _row("Entropy-SGD", "true", 0.001, 0.01, 0.02), _row("Entropy-SGD", "true", 0.005, 0.02, 0.03),
]  # fmt: skip


def _verdict(rows, scale="cpu"):
    made = [{"run": str(k), **row} for k, row in enumerate(rows)]
    return STUDY.judge(pl.DataFrame(made, infer_schema_length=None), scale)


def _claim(rows, words):
    (found,) = [claim for sentence, claim in claims(_verdict(rows)).items() if words in sentence]
    return found


SGD = {"algorithm": "SGD", "labels": "random"}
HARMLESS = "random labels, Entropy-SGLD does not overfit"
TRUE_SGLD, TRUE = {"algorithm": "SGLD", "labels": "true"}, {"algorithm": "Entropy-SGLD", "labels": "true"}
TURNED = [
    (CONTRAST, {}, {}, True),
    (CONTRAST, SGD, {"train_error": 0.45}, None),
    (CONTRAST, SGD, {"train_error": 0.48}, False),
    (CONTRAST, {"thermal_noise": 0.005, "labels": "random"}, {"train_error": 0.48}, False),
    (CONTRAST, {"algorithm": "Entropy-SGLD", "labels": "random"}, {"gibbs_train_error": 0.485}, None),
    (CONTRAST, {"algorithm": "Entropy-SGLD", "labels": "random"}, {"train_error": 0.45}, False),
    (CONTRAST, SGD, {"algorithm": "other"}, None),
    (CONTRAST, TRUE, {"train_error": 0.3}, None),
    (HARMLESS, {}, {}, True),
    (HARMLESS, {"algorithm": "Entropy-SGLD", "labels": "random"}, {"train_error": 0.4}, False),
    (HARMLESS, TRUE, {"train_error": 0.24}, True),
    (HARMLESS, TRUE, {"train_error": 0.249}, None),
    (HARMLESS, TRUE, {"gibbs_train_error": 0.3}, None),
    (HARMLESS, TRUE, {"algorithm": "other"}, None),
    ("Entropy-SGD overfits", {"thermal_noise": 0.005, "labels": "random"}, {"train_error": 0.41}, True),
    ("Entropy-SGD overfits", {"thermal_noise": 0.005, "labels": "random"}, {"train_error": 0.455}, None),
    ("Entropy-SGD overfits", {"thermal_noise": 0.005, "labels": "random"}, {"train_error": 0.48}, False),
    ("Entropy-SGD overfits", {"thermal_noise": 0.005}, {"train_error": 0.48}, None),
    (WORSE, {}, {}, True),
    (WORSE, TRUE_SGLD, {"test_error": 0.05}, False),
    (WORSE, TRUE_SGLD, {"dp_chernoff_2018": 0.1}, False),
    (WORSE, TRUE_SGLD, {"test_error": 0.105}, None),
    (WORSE, TRUE_SGLD, {"train_error": 0.499, "test_error": 0.5, "dp_chernoff_2018": 0.55}, None),
    (WORSE, TRUE_SGLD, {"train_error": 0.52, "test_error": 0.52, "dp_chernoff_2018": 0.55}, None),
    (TIGHTER, {}, {}, True),
    (TIGHTER, TRUE, {"dp_pac_bayes_2018": 0.149}, None),
    (TIGHTER, TRUE, {"dp_pac_bayes_2018": 0.2}, False),
    (TIGHTER, TRUE, {"gibbs_test_error": 0.14, "dp_pac_bayes_2018": 0.16}, True),
    ("nonvacuous", {}, {}, True),
    ("nonvacuous", TRUE, {"dp_hoeffding_2018": 1.0}, False),
    ("nonvacuous", TRUE, {"train_error": 0.4, "gibbs_train_error": 0.4}, None),
    ("nonvacuous", {"algorithm": "Entropy-SGLD", "labels": "random"}, {"dp_chernoff_2018": 0.45}, True),
    ("violated", TRUE, {"dp_kl_chernoff": 0.05}, False),
    ("violated", TRUE, {"dp_kl_chernoff": 0.0999}, True),
    ("violated", {}, dict.fromkeys(("dp_pac_bayes_2018", "dp_hoeffding_2018", "dp_chernoff_2018"), 1.0), None),
]


@pytest.mark.parametrize(("words", "where", "values", "holds"), TURNED)
def test_claims_hold_fail_or_stay_open(words, where, values, holds):
    assert _claim(changed(ROWS, where, **values), words).holds is holds


def test_bounds_below_one_are_counted_against_guessing_too():
    told = _claim(ROWS, "nonvacuous").evidence
    assert "below 1; 3 of 6 also below the error of guessing, 0.5" in told
    assert "PAC-Bayes bound 0.1300, H-bound 0.15" in told


def test_a_run_that_has_learnt_nothing_is_said_to_decide_nothing():
    lost = changed(ROWS, TRUE_SGLD, train_error=0.51)
    assert "0.5100 is not below that of guessing, 0.5: it has learnt nothing" in _claim(lost, WORSE).evidence
    notes = _verdict(lost).notes
    assert any("Training errors: SGLD 0.510 (guessing: 0.5)" in note for note in notes)
    assert not any("was learnt" in note for note in _verdict(ROWS).notes)


def test_epsilon_differs_by_the_oscillation_and_the_other_study_is_named():
    (epsilon,) = [one for one in _verdict(ROWS).comparisons if "epsilon" in one.what]
    assert epsilon.why == "ours has the loss's exact oscillation, 3.98, for the paper's 4"
    assert any("entropy-sgld-figure-1" in note for note in _verdict(ROWS).notes)
    assert not any("entropy-sgld-figure-1" in note for note in _verdict(ROWS, "paper").notes)


def test_what_is_left_open_for_want_of_learning_is_said():
    told = _claim(changed(ROWS, TRUE, train_error=0.3), HARMLESS).evidence
    assert "open where little was learnt (training error on true labels not below 0.25" in told
    assert told.endswith("Entropy-SGLD on true labels, noise 0.0904: 0.300")
    assert "little was learnt" not in _claim(ROWS, HARMLESS).evidence


def test_no_point_guesses_why_a_chain_stops():
    assert not [one for one in _verdict(ROWS).points if one.said.startswith("Why")]


def test_that_little_is_fitted_is_told_with_how_much_was_learnt():
    (said,) = [one.said for one in _verdict(ROWS).points if "does not: test minus" in one.said]
    error = next(row["train_error"] for row in ROWS if row["algorithm"] == "Entropy-SGLD" and row["labels"] == "true")
    assert said.endswith(f"its training error on true labels is {error:.3f}, below 0.25 being asked")
