"""What the rows of a report are: rates by their definitions, exact bounds by SciPy, one failure budget."""

import math
from fractions import Fraction

import numpy as np
from numpy.random import default_rng
from scipy import stats
from sklearn.metrics import balanced_accuracy_score, f1_score, precision_score, r2_score, recall_score, roc_auc_score

import bounds
from pacdp import certify_predictions
from pacdp.predictions.area import _coins
from pacdp.predictions.sentence import headline
from tests.coverage.labelled import THREE, probabilities
from tests.marks import every_case, near, refusal
from tests.schema import validate

RNG = default_rng(19)
LABELS, SAID = THREE.draw(2000, RNG)
SOFT = probabilities(LABELS, RNG)


def _upper(k, n, failure_prob):
    return float(stats.beta.isf(failure_prob, k + 1, n - k)) if k < n else 1.0


def _lower(k, n, failure_prob):
    return float(stats.beta.ppf(failure_prob, k, n - k + 1)) if k else 0.0


def certified(said=SAID, *, labels=LABELS, **how):
    """What is said of these predictions, of the error alone unless something else is asked."""
    return certify_predictions(labels, said, **{"ask": "error", **how})


def soft(**how):
    return certify_predictions(LABELS, probabilities=SOFT, **how)


def test_the_error_alone_has_the_whole_failure_probability_and_is_scipy_s():
    found, k = certified(), int((LABELS != SAID).sum())
    (row,) = found.statements
    assert (row.quantity, row.measured, row.n, row.lower) == ("error", k / 2000, 2000, None)
    assert row.upper == near(_upper(k, 2000, 0.05), rel=1e-9)
    assert found.certificates[0].failure_prob == 0.05
    said = f"At most {100 * row.upper + 0.005:.2f}% of new examples are misclassified by your model (95% confidence; "
    assert found.headline().startswith(f"{said}2000 examples).")
    assert "(95% confidence; " in certified(ask=None).headline(), "that of all rows, which was asked for"
    (both,) = certified(failure_prob=0.1, interval=True).statements
    theirs = stats.binomtest(k, 2000).proportion_ci(0.9, method="exact")
    assert theirs.low * (1 - 1e-9) <= both.lower <= theirs.low
    assert theirs.high <= both.upper <= theirs.high * (1 + 1e-9)


def test_both_ends_are_rounded_to_the_safe_side():
    """In exact arithmetic: an upper end is its certificate's value or more, a lower end one minus it or less."""
    for k in range(0, 60, 3):
        wrong = np.arange(97) < k
        found = certified(wrong.astype(int), labels=np.zeros(97, dtype=int), classes=[0, 1], ask=None, interval=True)
        for row in found.statements:
            if row.upper_by is not None:
                assert Fraction(row.upper) >= Fraction(found.certificates[row.upper_by].value)
            if row.lower_by is not None:
                assert Fraction(row.lower) <= max(0, 1 - Fraction(found.certificates[row.lower_by].value))


def test_rows_are_the_rates_of_their_definition_with_their_own_counts():
    found = certified(ask=None)
    assert dict(found.budget.spent) == {
        "error": 0.025, "recall": 0.025 / 3, "precision": 0.025 / 3, "false-alarms": 0.025 / 3
    }  # fmt: skip
    each = 0.025 / 9
    for c in range(3):
        wrong = {
            f"error on class {c}": SAID[LABELS == c] != c,
            f"false-alarm rate of class {c}": SAID[LABELS != c] == c,
        }
        right = {f"recall of class {c}": SAID[LABELS == c] == c, f"precision of class {c}": LABELS[SAID == c] == c}
        for rates, end, exact in ((wrong, "upper", _upper), (right, "lower", _lower)):
            for name, rate in rates.items():
                row = found.statement(name)
                assert (row.measured, row.n) == (near(rate.mean()), rate.size)
                assert getattr(row, end) == near(exact(int(rate.sum()), rate.size, each), rel=1e-8)


def test_everything_together_costs_what_was_said_and_the_report_keeps_its_format():
    groups = RNG.choice(["north", "south", "west"], size=2000)
    found = soft(groups=groups, ask=None, interval=True)
    own = [made.failure_prob for made in found.certificates if made.name != "largest_gap"]
    assert math.fsum(own) <= 0.05 * (1 + 1e-12)
    assert math.fsum(own) > 0.05 * (1 - 1e-9), "nothing of the budget is left over"
    made = validate(found.to_dict())
    assert made == list(found.certificates)
    assert all(one.status == "rigorous" for one in made)
    assert all(one.hypothesis("new data follow the same law").standing == "declared" for one in made)


def test_the_largest_gap_is_that_of_the_groups_intervals():
    groups = np.array(["a", "b", "c"])[np.arange(2000) % 3]
    found = certified(groups=groups, ask="groups")
    rows = [row for row in found.statements if row.quantity.startswith("error in group")]
    gap = found.statement("largest gap between groups")
    expected = max(one.upper - other.lower for one in rows for other in rows if one is not other)
    assert gap.upper == near(expected, abs=1e-15)
    assert gap.upper >= expected
    assert gap.measured == near(max(row.measured for row in rows) - min(row.measured for row in rows))
    assert found.certificates[-1].failure_prob == near(0.025), "that of the groups, and no more"


def test_the_largest_gap_by_weight_is_not_said_of_all_alike():
    """Light examples of one group are all wrong: by weight the groups are 1 point apart, without it 50."""
    groups, light = np.arange(2000) % 2, np.arange(2000) % 4 < 2
    said = np.where(light & (groups == 0), (LABELS + 1) % 3, LABELS)
    weights = np.where(light, 0.01, 1.0)
    found = certified({"ensemble": said}, groups=groups, weights=weights, ask="groups")
    gap = found.certificates[-1]
    assert any("every row is by weight" in one for one in found.remarks)
    assert " of ensemble in any two groups" in headline(gap), "by the name that its owner gave it"
    assert gap.value < 0.03
    assert gap.measures == "weighted largest gap between groups"
    assert "points, by weight (" in headline(gap)
    assert "the rule of their weights" in headline(gap)


def test_bins_that_were_not_certified_are_in_no_sentence():
    """Twenty sure answers are all wrong, in a bin too small to be certified."""
    sure = np.repeat([0.97, 0.75], [3600, 20])
    labels = np.where(sure == 0.75, 0, RNG.random(3620) < sure).astype(int)
    found = certify_predictions(labels, probabilities=np.stack([1 - sure, sure], axis=1), ask="bins")
    made = found.certificates[-1]
    assert made.value < 0.1
    assert headline(made).startswith("In every bin with enough examples to be certified confidence and accuracy ")


def test_two_models_on_the_same_examples_are_compared_example_by_example():
    other = np.where(RNG.random(2000) < 0.02, (LABELS + 1) % 3, SAID)  # errs where the first does, but for a few
    found = certified({"old": SAID, "new": other}, ask=["differences"])
    row = found.statement("error of new minus error of old")
    truth = (other != LABELS).mean() - (SAID != LABELS).mean()
    assert row.measured == near(truth)
    assert row.lower <= truth <= row.upper
    old, new = (found.statement("error", of=name) for name in ("old", "new"))
    assert row.upper - row.lower < 2 * (new.upper - old.measured), "pairs that agree cost nothing"
    made = found.certificates[row.upper_by]
    only = ((other != LABELS) & (SAID == LABELS)).sum(), ((other == LABELS) & (SAID != LABELS)).sum()
    assert (made.inputs["more"], made.inputs["fewer"]) == only, "which is all that it is made of"
    assert [one.family for one in found.statements] == ["error", "error", "differences"]
    turned = certified({"new": other, "old": SAID}, ask=["differences"]).statement("error of old minus error of new")
    assert (turned.lower, turned.upper) == (near(-row.upper), near(-row.lower))


@every_case("name", ["ensemble", "vote", "randomised", "weights"])
def test_a_model_has_the_name_that_it_was_given_whatever_we_call_by_it(name):
    found = certified({name: SAID, "another": SAID[::-1]})
    said = found.headline()
    assert f"are misclassified by {name} (" in said
    assert f"that {name} had seen none of them" in said


def test_a_leaderboard_tells_apart_what_its_intervals_do():
    """All pairs are paid for at once; equal models are tied, and ranks count those that are better, and worse."""
    right = [LABELS == SAID, *(RNG.random(2000) < p for p in (0.5, 0.99))]
    told = {name: np.where(one, LABELS, (LABELS + 1) % 3) for name, one in zip("abc", right, strict=True)}
    found = certified({**told, "twin": SAID}, ask=["leaderboard", "differences"])
    rows = [row for row in found.statements if row.family == "leaderboard"]
    assert [row.of for row in rows] == [f"{b} against {a}" for k, b in enumerate([*told, "twin"]) for a in [*told][:k]]
    assert found.certificates[-1].failure_prob == near(0.025 / 12)
    board = {one["of"]: (one["best"], one["worst"], one["tied"]) for one in found.details["leaderboard"]}
    assert board == {"c": (1, 1, []), "a": (2, 3, ["twin"]), "twin": (2, 3, ["a"]), "b": (4, 4, [])}
    assert "a: rank 2 to 3, not told apart from twin\n" in str(found)
    assert "c: rank 1\n" in str(found)
    floats = certify_predictions(
        losses={m: {"loss": (one != LABELS) * 0.5} for m, one in told.items()}, ask="leaderboard"
    )
    assert [one["of"] for one in floats.details["leaderboard"]] == ["c", "a", "b"]


def test_people_are_counted_where_they_are_given():
    people = np.repeat(np.arange(200), 10)
    found = certified(people=people)
    wrong = (LABELS != SAID).reshape(200, 10).mean(1)
    row, made = found.statements[0], found.certificates[0]
    assert (found.n, found.unit, found.examples, row.n) == (200, "person", 2000, 200)
    assert row.measured == near(wrong.mean())
    assert made.measures == "0-1 risk of a new person"
    expected = bounds.new_person_betting(
        sample=bounds.people_sample(losses=LABELS != SAID, people=people), failure_prob=0.05
    )
    assert row.upper == near(expected.value, abs=1e-9)
    assert row.upper >= expected.value
    assert made.hypothesis("records independent").unit == "person"
    named = certified(people=np.array([f"p{k // 10}" for k in range(2000)])).statements[0]
    assert named.upper == row.upper
    assert not found.remarks
    rates = certified(people=people, ask="precision", losses={"loss": np.cos(np.arange(2000)) ** 2}, interval=True)
    assert rates.remarks[-1].startswith("every person counts alike: recall and precision of a class are means of each")
    for row in rates.statements:
        assert row.lower < row.measured < row.upper


REAL = RNG.random(2000) ** 3


@every_case(
    ("given", "name"),
    [
        ({"losses": {"loss": LABELS != SAID}}, "clopper_pearson"),
        ({"losses": {"loss": (LABELS != SAID).astype(int)}}, "clopper_pearson"),
        ({"losses": {"loss": (LABELS != SAID).astype(float)}}, "betting"),
        ({"labels": LABELS, "predictions": SAID, "people": np.arange(2000)}, "new_person_betting"),
        ({"labels": LABELS, "predictions": LABELS, "weights": np.ones(2000)}, "weighted_betting"),
    ],
)
def test_the_type_that_was_given_chooses_the_bound_and_not_the_values(given, name):
    (made,) = certify_predictions(**given, ask="error").certificates
    assert made.name == f"new_examples_{name}"
    declared = [one.by for one in made.hypotheses if one.name == "losses within their range"]
    said = "and whole numbers are 0 or 1" if name == "clopper_pearson" else ""
    real = given.keys() == {"losses"} and given["losses"]["loss"].dtype != bool
    assert declared == [", ".join(filter(None, ["whoever gave these predictions: they lie in 0 to 1", said]))] * real


def test_counts_that_happened_to_be_none_or_one_are_taken_for_errors_in_print():
    mistakes = np.random.default_rng(2).choice([0, 1, 40], 100, p=[0.9, 0.095, 0.005])  # on average 0.295
    assert mistakes.max() == 1
    found = certify_predictions(losses={"mistakes": mistakes})
    assert found.statements[0].upper < 0.295
    assert "and that losses lie in their range, which you say" in found.headline()
    both = certify_predictions(losses={"a": {"mistakes": mistakes}, "b": {"mistakes": mistakes[::-1]}})
    assert all(made.hypothesis("losses within their range") for made in both.certificates)


def test_that_neither_number_nor_weights_look_at_the_examples_is_taken_for_true_in_print():
    """As coins show that were thrown until the bound was low, and weights that were divided by the largest of them."""
    assert "that their number and what was asked did not depend on them and that" in certified().headline()
    heavy = certified(weights=np.linspace(0.1, 1.0, 2000))
    assert "that their number, the rule of their weights and what was asked did not depend on" in heavy.headline()


def test_joined_reports_rank_no_model_beside_others_that_they_do_not_know():
    """Before, b was "rank 2" of a and b under the numbers of c, which lie between theirs."""
    answers = {"a": LABELS, "b": LABELS[::-1]}
    both = certified(answers, ask=["leaderboard", "recall"])
    joined = both.joined(certified({"c": SAID}))
    assert "b: rank 2" in str(both)
    assert "rank" not in str(joined)
    assert "leaderboard" not in joined.details
    assert len(joined.cells()) == len(joined.certificates)


@every_case(
    "given",
    [
        {"probabilities": SOFT},
        {"predictions": SAID, "people": RNG.integers(0, 300, 2000)},
        {"predictions": SAID, "weights": 1 - 0.9 * RNG.random(2000), "groups": RNG.integers(0, 3, 2000)},
        {"predictions": SAID, "losses": {"loss": REAL}, "people": RNG.integers(0, 300, 2000)},
    ],
    ids=" ".join,
)
def test_the_order_of_rows_changes_no_bit(given):
    def found(order):
        columns = {name: {own: column[order] for own, column in one.items()} if isinstance(one, dict) else one[order]
                   for name, one in {"labels": LABELS, **given}.items()}  # fmt: skip
        return certify_predictions(**columns)

    expected = found(np.arange(2000))
    for order in (np.argsort(REAL), np.argsort(LABELS != SAID), RNG.permutation(2000)):
        moved = found(order)
        assert moved.statements == expected.statements
        assert [one.terms for one in moved.certificates] == [one.terms for one in expected.certificates]


def test_equal_weights_change_nothing_but_the_method_and_others_change_the_population():
    plain, even = (certified(weights=weights).statements[0] for weights in (None, np.full(2000, 0.5)))
    assert even.measured == near(plain.measured)
    assert plain.upper <= even.upper < 1.1 * plain.upper
    weights = np.where(LABELS == 2, 1.0, 0.1)
    heavy = certified(weights=weights).statements[0]
    assert heavy.measured == near(np.average(LABELS != SAID, weights=weights))
    assert heavy.measured < heavy.upper


def test_probabilities_say_what_predictions_say_and_more():
    found, hard = soft(), certified(SOFT.argmax(1), failure_prob=0.025)
    assert found.statements[0].upper == hard.statements[0].upper
    brier = found.statement("Brier risk")
    assert brier.measured == near(((SOFT - np.eye(3)[LABELS]) ** 2).sum(1).mean())
    assert brier.measured < brier.upper < 1.2 * brier.measured
    sample = bounds.calibration_sample(
        confidence=SOFT.max(1), correct=SOFT.argmax(1) == LABELS, edges=np.linspace(0, 1, 16)
    )
    assert found.statement("calibration error (ECE)").measured == sample.calibration_error
    bins = [row for row in found.statements if row.family == "bins"]
    assert [row.n for row in bins] == [one.count for one in sample.bins if one.count >= 30]
    assert all(row.measured <= row.upper for row in bins)


def test_losses_that_were_computed_pay_for_their_rounding():
    found = soft(ask="brier")
    made = found.certificates[found.statement("Brier risk").upper_by]
    losses = ((SOFT - np.eye(3)[LABELS]) ** 2).sum(1) / 2
    assert made.value - bounds.betting_upper(losses, made.failure_prob) == near(2.0**-40, rel=0.01, abs=0)


def test_top_k_counts_ties_against_the_model():
    table = np.array([[0.4, 0.3, 0.2, 0.1], [0.25, 0.25, 0.25, 0.25], [0.1, 0.2, 0.3, 0.4], [0.4, 0.3, 0.3, 0.0]] * 5)
    labels = np.array([1, 0, 0, 2] * 5)  # second; tied with all; fourth; tied for second
    found = certify_predictions(labels, probabilities=table, ask=["top-2", "top-3"])
    assert found.statement("top-2 error").measured == 0.75
    assert found.statement("top-3 error").measured == 0.5
    assert found.statement("error").measured == 1.0


def test_a_tie_for_the_largest_probability_predicts_no_class():
    table = np.array([[0.5, 0.5], [0.9, 0.1], [0.2, 0.8]] * 10)
    found = certify_predictions(np.array([0, 0, 1] * 10), probabilities=table)
    assert found.statement("error").measured == near(1 / 3)
    assert found.statement("precision of class 0").n == 10


def test_losses_of_one_s_own_alone_and_beside_predictions():
    loss = RNG.random(2000) ** 3
    alone = certify_predictions(losses={"squared error": loss})
    assert loss.mean() < alone.statements[0].upper < loss.mean() + 0.03
    beside = certified(losses={"squared error": loss}, ask=["losses"])
    assert [row.quantity for row in beside.statements] == ["error", "squared error"]


def test_calibration_of_people_is_of_their_mean_gaps():
    people = np.repeat(np.arange(400), 5)
    found = soft(people=people, ask="calibration")
    gap = (SOFT.argmax(1) == LABELS) - SOFT.max(1)
    slot = np.minimum((SOFT.max(1) * 15).astype(int), 14)
    plug = sum(abs(np.where(slot == b, gap, 0).reshape(400, 5).mean(1).mean()) for b in range(15))
    row = found.statement("calibration error (ECE)")
    assert row.measured == near(plug, rel=1e-9)
    assert row.n == 400
    single, alone = (soft(people=who, ask="calibration").statements[1] for who in (None, np.arange(2000)))
    assert alone.upper == near(single.upper, rel=1e-9)


def test_what_has_one_record_or_none_is_listed_and_not_claimed():
    labels, said = ["a", "a", "b", "b", "c"], ["a", "a", "b", "a", "a"]
    found = certify_predictions(labels, said, groups=["x", "x", "x", "x", "y"], classes=["a", "b", "c", "d"])
    reasons = {one.name: one.reason for one in found.refusals}
    assert "one example" in reasons["error on class 'c' of your model"]
    assert "no example has the label 'd'" in reasons["error on class 'd' of your model"]
    assert "is predicted to be 'd'" in reasons["share of errors among predictions of class 'd' of your model"]
    assert "one example" in reasons["error in group 'y' of your model"]
    assert not any("gap" in row.quantity for row in found.statements), "one group alone has no gap"


def test_the_largest_gap_says_that_it_leaves_out_a_group_of_one():
    found = certified(groups=np.repeat(["a", "b", "c"], [1000, 999, 1]), ask="groups")
    row = found.statement("largest gap between 2 of 3 groups")
    assert row.measured < row.upper
    assert found.certificates[-1].measures == row.quantity


def test_more_failure_probability_more_examples_and_fewer_questions_never_make_a_bound_larger():
    def upper(times=1, **how):
        return certified(np.tile(SAID, times), labels=np.tile(LABELS, times), **how).statements[0].upper

    assert upper(failure_prob=0.5) < upper() < upper(failure_prob=0.001)
    assert max(upper(), upper(2, ask=None)) < upper(ask=None)


def test_numbers_with_names_are_scikit_learn_s_and_grow_with_the_rows():
    labels, told = LABELS % 2, np.where(RNG.random(2000) < 0.9, LABELS % 2, 1 - LABELS % 2)
    found = certified(told, labels=labels, ask=["recall", "precision"], interval=True)
    rows = {row.quantity: row for row in found.named(1)}
    expected = {
        "sensitivity": recall_score(labels, told), "specificity": recall_score(labels, told, pos_label=0),
        "positive predictive value": precision_score(labels, told), "F1": f1_score(labels, told),
        "negative predictive value": precision_score(labels, told, pos_label=0),
        "balanced accuracy": balanced_accuracy_score(labels, told),
    }  # fmt: skip
    assert {name: row.measured for name, row in rows.items()} == near(expected)
    assert all(row.lower < row.measured < row.upper for row in rows.values())
    p, r = rows["positive predictive value"], rows["sensitivity"]
    for end in ("lower", "upper"):
        both = getattr(p, end), getattr(r, end)
        assert getattr(rows["F1"], end) == near(2 / (1 / both[0] + 1 / both[1]))
    never = certified(np.ones(2000, int), labels=labels, ask=None).named(0)
    assert {*rows} - {row.quantity for row in never} == {"positive predictive value", "F1"}
    assert never[0].lower == 0.0
    few = certify_predictions([1, *[0] * 9], [1, *[0] * 8, 1], ask="recall", positive=1)
    assert [row.quantity for row in few.details["named"]] == ["specificity"]  # one example is positive
    words = np.array(["no", "yes"])  # as scikit-learn's classes_, whose members are texts of NumPy
    in_words = certified(words[told], labels=words[labels], ask=["recall", "precision"], interval=True).named(words[1])
    assert [row.measured for row in in_words] == [row.measured for row in rows.values()]


def test_the_area_under_the_curve_is_scikit_learn_s_and_counts_the_smaller_class():
    labels = (RNG.random(2000) < 0.3).astype(int)
    score = np.round(1 / (1 + np.exp(-labels + 0.5 - RNG.normal(size=2000))), 2)
    table = np.column_stack([1 - score, score])
    found = certify_predictions(labels, probabilities=table, ask="auc", interval=True)
    row, made = found.statement("AUC"), found.certificates[-1]
    assert row.measured == near(roc_auc_score(labels, score))
    assert row.n == made.inputs["n"] == labels.sum()
    nats = math.log(2 / 0.025) / row.n
    assert row.upper == near(bounds.binary_kl_upper(row.measured, nats), rel=1e-9)
    assert row.lower == near(1 - bounds.binary_kl_upper(1 - row.measured, nats), rel=1e-9)
    whose = np.repeat(np.arange(500), 4)
    people = certify_predictions(labels, probabilities=table, people=whose, ask="auc")
    coin = _coins(score, labels == 1, whose)
    weights = [[1 / (labels[whose == p] == c).sum() if coin[p] == labels[k] == c else 0 for k, p in enumerate(whose)]
               for c in (0, 1)]  # fmt: skip
    assert people.statement("AUC").measured == near(roc_auc_score(labels, score, sample_weight=np.sum(weights, 0)))
    assert people.statement("AUC").n == min(len({*whose[(labels == c) & (coin[whose] == c)]}) for c in (0, 1))
    alone = certify_predictions(np.append(np.zeros(9, int), 1), probabilities=table[:10], ask="auc")
    assert "a class has one record" in alone.refusals[-1].reason


def test_numbers_that_are_predicted_have_absolute_and_squared_errors_in_a_declared_range():
    truth = RNG.uniform(-5, 5, 2000)
    told = {"line": truth + RNG.normal(size=2000), "mean": np.zeros(2000)}
    found = certify_predictions(truth, told, within=(-5, 5), interval=True)
    cut = np.clip(told["line"], -5, 5)
    for name, measured in (("absolute error over 10", abs(truth - cut).mean() / 10),
                           ("squared error over 100", ((truth - cut) ** 2).mean() / 100)):  # fmt: skip
        row = found.statement(name)
        assert row.measured == near(measured)
        assert row.lower < measured < row.upper < 1.5 * measured
    assert found.remarks[0].startswith(f"R-squared of line is {r2_score(truth, cut):.4f} here")
    assert "line, whose predictions are cut off at the ends of the range, on" in found.headline()
    assert found.remarks[-1] == "every prediction is cut off at -5 and 5 before its error is taken"
    wide = certify_predictions([1234567.5, *[0.0] * 50], [0.0] * 51, within=(0, 1234567.5))
    assert "of 1234567.5, the largest possible" in wide.headline(), "by which a reader multiplies"
    assert wide.statements[-1].quantity == "squared error over 1524156912056.25"
    for words, how in {
        "in 0 to 5, got": {"within": (0, 5)}, "the smaller first": {"within": (5, -5)},
        "with labels and predictions alone": {"within": (-5, 5), "classes": [0, 1]},
    }.items():  # fmt: skip
        with refusal(words):
            certify_predictions(truth, told, **how)


def test_two_classes_pay_for_no_row_twice():
    """Of two classes the false-alarm rate of one is the error on the other."""
    found = certified(LABELS % 2, labels=LABELS % 2, ask=None)
    assert not [row for row in found.statements if row.family == "false-alarms"]
    for words, call in (
        ("needs more than two classes", lambda: certified(LABELS % 2, labels=LABELS % 2, ask="false-alarms")),
        ("of two classes, got rows of 3", lambda: certified(ask=None).named(0)),
        ("must be one of 0, 1", lambda: found.named(2)),
    ):
        with refusal(words):
            call()
