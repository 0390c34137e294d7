"""A report on predictions: rows and certificates are about one quantity, and what is missing is missed."""

import copy
import functools
import json

import numpy as np
from made import verdicts
from numpy.random import default_rng

from bounds import ece_second_moment, kl_chernoff, recursive
from bounds.refined import ExcessStep
from pacdp import certify_predictions
from pacdp.predictions.bounding import clopper_pearson, paired
from pacdp.verify.certificate import check_certificate
from pacdp.verify.claim import CANNOT, DOES_NOT
from pacdp.verify.report import check_path, check_report, main
from tests.edits import WHOLE, unnoticed, written
from tests.marks import every_case, parametrize, refusal

RNG = default_rng(3)
LABELS, GROUPS = RNG.integers(0, 2, 400), RNG.choice(["a", "b"], 400)
WRONG = RNG.random((2, 400)) < np.array([[0.1], [0.3]])
GIVEN = {
    "counts": {"predictions": {"m": LABELS ^ WRONG[0], "o": LABELS ^ WRONG[1]}},
    "people": {"predictions": LABELS ^ WRONG[0], "people": np.arange(400) // 2},
    "weights": {"predictions": LABELS ^ WRONG[0], "weights": RNG.uniform(0.2, 1.0, 400)},
    "losses": {"losses": {"own": RNG.uniform(size=400)}},
    "named": {"losses": {m: {"share of wrong words - long": RNG.uniform(size=400)} for m in ("m of a - b", "o")}},
    "from errors": {"predictions": LABELS ^ WRONG[0], "groups": np.where(WRONG[0], "a b", "AB")},
    "probabilities": {
        "probabilities": np.eye(2)[LABELS ^ WRONG[0]] * 0.8 + 0.1,
        "ask": ["top-1", "brier", "calibration", "bins"],
    },
}


@functools.cache
def report(name):
    labels = None if "losses" in GIVEN[name] else LABELS
    given = {"groups": None if name == "probabilities" else GROUPS, **GIVEN[name]}
    return certify_predictions(labels, interval=True, **given).to_dict()


def swapped(words, a, b):
    """Words with two names exchanged."""
    return words.replace(a, "\0").replace(b, a).replace("\0", b)


def rows(edit):
    """An edit of all rows."""
    return lambda r: [edit(row) for row in r["details"]["statements"]]


def exchanged(a, b):
    """An edit of all rows: two names exchanged in what they are about."""
    return rows(lambda row: row.update(quantity=swapped(row["quantity"], a, b)))


def without(family):
    """An edit that takes a family out, its certificates too, and puts the places right."""

    def edit(r):
        kept = [row for row in r["details"]["statements"] if row["family"] != family]
        ends = [(row, end) for row in kept for end in ("upper_by", "lower_by") if row[end] is not None]
        places = sorted({row[end] for row, end in ends})
        for row, end in ends:
            row[end] = places.index(row[end])
        r["certificates"] = [r["certificates"][place] for place in places]
        r["details"]["statements"] = kept

    return edit


def recall_of_another_model(r):
    """That of the first, under a name that no row of errors has, beside a refusal that lets some rows go."""
    r["not_applicable"].append({"name": "error on class 7 of m", "reason": "it would rest on no example"})
    for row in r["details"]["statements"]:
        if row["family"] == "recall" and row["of"] == "m":
            row["of"] = "m "
            for end in ("upper_by", "lower_by"):
                r["certificates"][row[end]]["of"] = "m "


def of_another_family(name):
    """An edit that calls a family by another name, in the ledger too, where its errors need not add up."""

    def edit(r):
        for entry in r["details"]["budget"]["entries"]:
            entry[0] = name if entry[0] == "recall" else entry[0]
        for row in r["details"]["statements"]:
            row["family"] = name if row["family"] == "recall" else row["family"]

    return edit


def recall_is_gone(r):
    r["details"]["statements"] = [row for row in r["details"]["statements"] if "recall of" not in row["quantity"]]


def below_the_mean(r):
    """Betting certificates, and the ends that they carry, at a millionth."""
    for made in r["certificates"]:
        made["value"] = 1e-6 if "betting" in made["name"] else made["value"]
    for row in r["details"]["statements"]:
        low, high = row["range"]
        for end, value in (("upper", low + (high - low) * 1e-6), ("lower", high - (high - low) * (1e-6 + 1e-15))):
            if row[f"{end}_by"] is not None and "betting" in r["certificates"][row[f"{end}_by"]]["name"]:
                row[end] = value


def other_counts_below(r):
    """Fewer examples on which one model alone errs, behind the lower ends of differences: the ends are nearer."""
    for row in r["details"]["statements"]:
        if row["family"] == "differences":
            made = r["certificates"][row["lower_by"]]
            told = made["inputs"]
            both = min(told["more"], told["fewer"])
            counts = told["more"] - both, told["fewer"] - both
            other = paired(*counts, told["n"], told["failure_prob"]).to_dict()
            made.update(value=other["value"], inputs=other["inputs"])
            row["lower"] = 1.0 - 2.0 * other["value"]


def gap_between_no_groups(r):
    """Another one than between the errors that were measured in them, behind the same ends."""
    (gap,) = (one for one in r["certificates"] if one["name"] == "largest_gap" and one["of"] == "m")
    gap["terms"]["empirical_gap"] = 0.0
    for row in r["details"]["statements"]:
        if (row["quantity"], row["of"]) == ("largest gap between groups", "m"):
            row["measured"] = 0.0


EDITS = {
    "a gap between no groups": gap_between_no_groups,
    "other counts below": other_counts_below,
    "classes exchanged": exchanged("class 0", "class 1"),
    "groups exchanged": exchanged("'a'", "'b'"),
    "rates taken for others": exchanged("precision of", "specificity of"),
    "below the mean": below_the_mean,
    "another unit": lambda r: [
        one.update(unit="person" if r["unit"] == "example" else "example")
        for made in r["certificates"]
        for one in made["hypotheses"]
        if one["unit"]
    ],
    "no groups": without("groups"),
    "recall of another family": of_another_family("own"),
    "recall of another model": recall_of_another_model,
    "recall among losses": of_another_family("losses"),
    "no range": lambda r: [made["hypotheses"].pop() for made in r["certificates"]],
    "gap of all alike": lambda r: [
        made.update(measures=made["measures"].removeprefix("weighted "))
        for made in r["certificates"]
        if made["name"] == "largest_gap"
    ],
    "no differences": without("differences"),
    "no recall": recall_is_gone,
    "nothing measured": lambda r: r["measured"].clear(),
    "a row twice": lambda r: r["details"]["statements"].append(r["details"]["statements"][0]),
    "no remarks": lambda r: r["details"].pop("remarks"),
    "another remark": lambda r: r["details"]["remarks"].__setitem__(0, r["details"]["remarks"][0].replace("a b", "c")),
    "the last remark gone": lambda r: r["details"]["remarks"].pop(),
    "a row not by weight": lambda r: r["certificates"][-1].update(name="new_examples_betting"),
}
REMARKS = "no remarks", "another remark", "the last remark gone"
OF_WEIGHTS = "gap of all alike", "a row not by weight"
CASES = {
    "from errors": {*REMARKS},
    "counts": set(EDITS) - {"below the mean", "no range", *OF_WEIGHTS, *REMARKS} | {*WHOLE},
    "people": {"another unit", "classes exchanged", "groups exchanged",
               "below the mean", "no groups", "a row twice"},
    "weights": {"groups exchanged", "below the mean", "no recall", "the last remark gone", *OF_WEIGHTS},
    "losses": {"another unit", "no range", "groups exchanged", "below the mean",
               "no groups"},
    "named": {"no differences", "groups exchanged"},
    "probabilities": {"another unit"},
}  # fmt: skip


@every_case("name", GIVEN)
def test_edits_that_change_what_a_row_says_are_noticed(name):
    assert DOES_NOT not in verdicts(check_report(report(name)))
    for why in CASES[name]:
        edited = copy.deepcopy(report(name))
        (EDITS | WHOLE)[why](edited)
        assert DOES_NOT in verdicts(check_report(edited)), why


def test_an_area_under_the_curve_counts_no_more_than_the_smaller_class():
    """Which the rows of recall tell, beside which its ends would be nearer; without them it is half of all."""
    labels = np.arange(400) < 100
    score = np.where(labels, 0.7, 0.2) + RNG.uniform(-0.2, 0.2, 400)
    given = {"probabilities": np.stack([1 - score, score], axis=1), "interval": True}
    for ask, due in ((["auc", "recall"], {"counts"}), (["auc"], set())):
        said = copy.deepcopy(certify_predictions(labels.astype(int), ask=ask, **given).to_dict())
        (row,) = (one for one in said["details"]["statements"] if one["family"] == "auc")
        assert row["n"] == 100
        assert DOES_NOT not in verdicts(check_report(said))
        row["n"] = 200
        for end in ("upper", "lower"):
            made = said["certificates"][row[f"{end}_by"]]
            made["inputs"]["n"] = 200
            at = {"risk": made["inputs"]["risk"], "n": 200, "failure_prob": made["failure_prob"]}
            made["value"] = kl_chernoff(**at).value
            row[end] = made["value"] if end == "upper" else np.nextafter(1.0 - made["value"], -1.0)
        assert {one.claim for one in check_report(said) if one.verdict == DOES_NOT} == due


def spliced(mine, others, family, of="your model"):
    """The report with a family's rows of this model, and the certificates behind them, from one of the same form."""
    said = copy.deepcopy(mine)
    pairs = zip(mine["details"]["statements"], others["details"]["statements"], strict=True)
    for place, (_, other) in enumerate(pairs):
        if (other["family"], other["of"]) == (family, of):
            said["details"]["statements"][place] = other
            for at in {other["upper_by"], other["lower_by"]} - {None}:
                said["certificates"][at] = others["certificates"][at]
    return said


def test_rows_of_other_answers_do_not_stand_beside_these():
    """Classes have the same right answers, false alarms and examples in all rows, groups the same for all models."""
    labels = np.arange(400) % 2
    wrong = [labels ^ np.isin(np.arange(400), np.arange(50, 130, 2) + odd) for odd in (0, 1)]
    mine, others = (certify_predictions(labels, one).to_dict() for one in wrong)
    for family in ("recall", "precision"):
        edited = spliced(mine, others, family)
        assert {one.claim for one in check_report(edited) if one.verdict == DOES_NOT} == {"counts"}, family
    names = {"m": wrong[0], "o": wrong[1]}
    mine, others = (
        certify_predictions(labels, names, groups=np.arange(400) // size, ask="groups").to_dict() for size in (200, 210)
    )
    assert DOES_NOT not in verdicts(check_report(mine))
    assert DOES_NOT in verdicts(check_report(spliced(mine, others, "groups", "o")), "counts")


def test_bins_of_other_answers_do_not_stand_beside_these():
    """Every example is in one bin, and as many of them are right as are no errors."""
    mine, others = (
        certify_predictions(labels, probabilities=GIVEN["probabilities"]["probabilities"], ask=["bins"]).to_dict()
        for labels in (LABELS, LABELS ^ WRONG[0])
    )
    assert DOES_NOT not in verdicts(check_report(mine))
    edited = spliced(mine, others, "bins")
    assert {one.claim for one in check_report(edited) if one.verdict == DOES_NOT} == {"counts"}


@parametrize("ask", [["false-alarms"], ["false-alarms", "precision"]])
def test_a_prediction_of_no_class_is_an_error_and_no_false_alarm(ask):
    """Where probabilities tie; as many as the predictions of all classes leave may be such."""
    labels, rng = np.arange(300) % 3, default_rng(5)
    probabilities = np.full((300, 3), 1 / 3)
    named = np.where(rng.random(300) < 0.2, (labels + 1) % 3, labels)[30:]
    probabilities[30:] = 0.1 + 0.7 * np.eye(3)[named]
    said = certify_predictions(labels, probabilities=probabilities, ask=ask).to_dict()
    assert DOES_NOT not in verdicts(check_report(said))
    (first, *_) = (one for one in said["details"]["statements"] if one["family"] == "false-alarms")
    made = said["certificates"][first["upper_by"]]
    for k, due in ((0, len(ask) == 2), (100, True)):
        made["inputs"]["k"] = k
        wrong = {one.claim for one in check_report(said) if one.verdict == DOES_NOT}
        assert ("counts" in wrong) == due, k


def test_a_model_may_have_no_bin_that_is_full_enough():
    """Of 20 examples each, in one bin and in another, where the other model has 40 in one."""
    labels = np.arange(40) % 2
    sure = np.where(labels, 0.9, 0.1)
    half = np.where(np.arange(40) < 20, sure, np.where(labels, 0.7, 0.3))
    given = {name: np.stack([1 - one, one], axis=1) for name, one in {"a": sure, "b": half}.items()}
    said = certify_predictions(labels, probabilities=given, ask=["bins"]).to_dict()
    assert {one["of"] for one in said["details"]["statements"] if one["family"] == "bins"} == {"a"}
    assert DOES_NOT not in verdicts(check_report(said))


def test_what_one_class_or_one_model_lacks_is_not_missed():
    """Recall of a class with one example, the area of a model whose people serve for one class, losses of one model."""
    labels, rng = np.arange(8) % 2, default_rng(3)
    few = certify_predictions([1, *[0] * 9], [1, *[0] * 8, 1], ask="recall", positive=1).to_dict()
    one = certify_predictions(labels, {"a": labels, "b": labels}, losses={"a": {"l": rng.random(8)}}).to_dict()
    lacks = 0
    while not lacks:  # coins are made of scores
        given = {name: np.stack([1 - p, p], axis=1) for name, p in zip("ab", rng.random((2, 8)), strict=True)}
        areas = certify_predictions(labels, probabilities=given, people=np.arange(8) // 2, ask="auc").to_dict()
        lacks = len({row["of"] for row in areas["details"]["statements"] if row["family"] == "auc"}) == 1
    assert "AUC of" in areas["not_applicable"][0]["name"]
    for said in (few, one, areas):
        assert DOES_NOT not in verdicts(check_report(said))
    few["details"]["named"][0]["quantity"] = "sensitivity"
    assert DOES_NOT in verdicts(check_report(few))


def test_a_label_is_missed_by_one_class_where_it_is_an_error_and_by_more_less_often():
    """Ties count against the model in both."""
    labels, rng = np.arange(60) % 4, default_rng(7)
    probabilities = rng.dirichlet(np.ones(4), 60) + np.eye(4)[labels]
    probabilities[:9] = 0.25
    probabilities /= probabilities.sum(axis=1, keepdims=True)
    asked = {"probabilities": probabilities, "ask": ["error", "top-1", "top-2", "top-3"], "interval": True}
    said = certify_predictions(labels, **asked).to_dict()
    assert DOES_NOT not in verdicts(check_report(said))
    for k, added in ((1, -1), (1, 1), (2, 60), (3, 60)):
        edited = copy.deepcopy(said)
        (row,) = (one for one in said["details"]["statements"] if one["quantity"] == f"top-{k} error")
        edited["certificates"][row["upper_by"]]["inputs"]["k"] += added
        assert DOES_NOT in verdicts(check_report(edited), "counts"), (k, added)


@parametrize("within", [(0, 7.3), (-1e6, 1e6 + 1), (-0.1234567, 0.1234568), (0, 1e-150)])
def test_an_error_of_real_numbers_is_over_the_range_at_which_predictions_are_cut_off(within):
    """A model may be called like one; where the ends agree to all digits that are written, no width is shown."""
    truth = RNG.uniform(*within, 30)
    models = {"a": truth, "squared error over x": truth / 2}
    said = json.dumps(certify_predictions(truth, models, within=within, interval=True).to_dict())
    assert DOES_NOT not in verdicts(check_report(json.loads(said)))
    for power in ("absolute", "squared"):
        edited = said.replace(f"{power} error over ", f"{power} error over 9")
        edited = edited.replace("over 9x", "over x")
        assert DOES_NOT in verdicts(check_report(json.loads(edited)), "ranges of errors"), power
    kept = json.loads(said)
    kept["details"]["remarks"] = [one for one in kept["details"]["remarks"] if "is cut off at" not in one]
    assert CANNOT in verdicts(check_report(kept), "ranges of errors")
    close = certify_predictions(truth * 0 + 1e6, truth, within=(1e6, 1e6 + 1)).to_dict()
    assert DOES_NOT not in verdicts(check_report(close))


@parametrize("name", [str, np.str_])
def test_models_whose_names_numpy_wrote_are_called_as_others_are(name):
    models = {name("a"): LABELS, name("A"): LABELS ^ WRONG[0]}
    said = certify_predictions(LABELS, models).to_dict()
    assert said["details"]["remarks"][0].startswith("the models 'a' and 'A' differ")
    assert DOES_NOT not in verdicts(check_report(said))


def test_a_calibration_error_is_that_of_the_bins_beside_it():
    probabilities = GIVEN["probabilities"]["probabilities"]
    for ask, due in ((["calibration", "bins"], {"counts"}), (["calibration"], set())):
        said = certify_predictions(LABELS, probabilities=probabilities, ask=ask).to_dict()
        assert DOES_NOT not in verdicts(check_report(said))
        (row,) = (one for one in said["details"]["statements"] if one["family"] == "calibration")
        made = said["certificates"][row["upper_by"]]
        error = made["inputs"]["calibration_error"]
        for told in ({"calibration_error": 0.0}, {"mean_squared_gap": error**2}):
            other = ece_second_moment(**{**made["inputs"], "calibration_error": error, **told}).to_dict()
            made |= {part: other[part] for part in ("inputs", "terms", "value")}
            row |= {"measured": made["inputs"]["calibration_error"], "upper": made["value"]}
            assert {one.claim for one in check_report(said) if one.verdict == DOES_NOT} == due, told


@every_case("name", sorted(GIVEN.keys() - {"counts"}))
def test_what_no_check_holds_is_named(name):
    """Fewer numbers may be measured, and the least count of a bin may be any that leaves out the same ones."""
    assert {*unnoticed(report(name), check_report)} <= {"measured", "certificates.inputs.min_count"}


NAMES = (
    "ECE", "ECE of mine", "MCE", "x of a new person", "x of a new document", "x of a new example", "0-1 risk",
    "0-1 risk of a new person", "weighted 0-1 risk", "Brier risk", "top-1 error", "recall of class 0",
)  # fmt: skip
PARTS = ({}, {"groups": GROUPS}, {"people": np.arange(400) // 2}, {"groups": GROUPS, "people": np.arange(400) // 2})


@every_case("parts", PARTS, ids=lambda parts: " and ".join(parts) or "alone")
def test_whatever_a_loss_is_called_its_certificates_are_not_accused(parts, monkeypatch):
    """What only a loss of that name can be is left open, and a row of another name than its certificate is not.

    Reports of today are made of no loss that has a name of ours; earlier ones are.
    """
    monkeypatch.setattr("pacdp.predictions.columns.require_own_name", lambda *_, **__: None)
    for name in NAMES:
        given = certify_predictions(None, losses={name: RNG.uniform(size=400)}, interval=True, **parts).to_dict()
        assert DOES_NOT not in verdicts(check_report(given)), name
        for other in ("ECE", "0-1 risk of a new person", "0-1 risk of a new document"):
            edited = copy.deepcopy(given)
            edited["certificates"][0]["measures"] = other
            if other != given["certificates"][0]["measures"]:
                assert DOES_NOT in verdicts(check_report(edited)), (name, other)


def test_other_counts_everywhere_are_said_not_to_be_compared_with_the_data(tmp_path, capsys):
    """Nothing in the file contradicts them, and the exit status is that of what is left open."""
    wrong = LABELS ^ WRONG[0]
    for predictions in (wrong, np.where(np.arange(400) < 20, LABELS, wrong)):
        made = certify_predictions(LABELS, predictions=predictions, groups=GROUPS).to_dict()
        written(tmp_path / "x.json", made)
        assert main([str(tmp_path / "x.json")]) == 3
        assert "the counts and means were not compared with the data" in capsys.readouterr().out


@parametrize("place", ["", "details", "certificates 0", "certificates 0 inputs", "certificates 0 terms"])
def test_what_stands_twice_or_is_not_known_is_named(place, tmp_path):
    edited = holder = copy.deepcopy(report("counts"))
    for key in place.split():
        holder = holder[int(key) if key.isdigit() else key]
    holder["at_most"] = 0.001
    odd = [one for one in check_report(edited) if "at_most" in one.why]
    assert [(one.claim, one.verdict) for one in odd] == [("what is told beside", CANNOT)]
    (tmp_path / "x.json").write_text(json.dumps(edited).replace('"at_most"', '"at_most": 1, "at_most"'))
    with refusal(r"x\.json: the name 'at_most' stands twice"):
        check_path(tmp_path / "x.json")


@every_case("name", ["from errors", "losses", "probabilities"])
def test_a_row_has_the_range_of_its_quantity(name):
    """Half the range would halve both ends and what was measured, and the certificates stay as they are."""
    for family in {row["family"] for row in report(name)["details"]["statements"]}:
        edited = copy.deepcopy(report(name))
        for row in edited["details"]["statements"]:
            if row["family"] == family:
                row["range"] = [one / 2 for one in row["range"]]
                row |= {end: row[end] and row[end] / 2 for end in ("measured", "lower", "upper")}
        assert DOES_NOT in verdicts(check_report(edited), "rows"), family


@every_case("failure_prob", [1e-150, 1e-300])
def test_tails_that_double_precision_does_not_have_follow(failure_prob):
    """Where Chernoff's bound takes the place of Clopper and Pearson's; what is below the exact one does not."""
    for name in ("counts", "from errors"):
        given = {"groups": GROUPS, **GIVEN[name], "failure_prob": failure_prob, "interval": True}
        said = certify_predictions(LABELS, **given).to_dict()
        assert DOES_NOT not in verdicts(check_report(said))
    few = certify_predictions(
        LABELS[:10], {"m": LABELS[:10], "o": 1 - LABELS[:10]}, failure_prob=failure_prob
    ).to_dict()
    assert DOES_NOT not in verdicts(check_report(few))
    row, made = _of_one_family(said, "error")
    for value in (0.99 * made["value"], 1.2 * made["value"]):
        made["value"] = row["upper"] = value
        assert DOES_NOT in verdicts(check_report(said), "value")


def _of_one_family(said, family):
    """The row of a family, and the certificate behind it."""
    row = next(one for one in said["details"]["statements"] if one["family"] == family)
    return row, said["certificates"][row["upper_by" if row["upper_by"] is not None else "lower_by"]]


def _brier_among_losses(said):
    """Whose range is half of that of the Brier risk."""
    row, made = _of_one_family(said, "brier")
    row |= {"family": "losses", "range": [0.0, 1.0], "upper": made["value"], "measured": made["inputs"]["risk"]}
    made["hypotheses"].append({**made["hypotheses"][-1], "name": "losses within their range"})
    said["details"]["budget"]["entries"] = [
        ["losses" if name == "brier" else name, share] for name, share in said["details"]["budget"]["entries"]
    ]


def _term_written_twice(said):
    """A bin's number after a zero, and what the row promises under it."""
    row, made = _of_one_family(said, "bins")
    row["term"] = row["term"].replace("_", "_0")
    made["terms"][row["term"]] = row["upper"] = row["measured"]


def _area_of_counts(said):
    """The share of pairs, as if each record of the smaller class were right or wrong by itself."""
    row, made = _of_one_family(said, "auc")
    n, prob = made["inputs"]["n"], made["failure_prob"]
    k = round(made["inputs"]["risk"] * n)
    other = clopper_pearson(k, n, prob, name="new_examples").to_dict()
    made |= {part: other[part] for part in ("name", "value", "inputs", "terms", "budget", "costs")}
    row |= {"lower": np.nextafter(1.0 - made["value"], -1.0), "measured": 1.0 - k / n}


def _error_of_free_numbers(said):
    """An excess of one network over another that nobody measured."""
    row, made = _of_one_family(said, "error")
    own = {"risk": row["measured"], "kl_nats": 0.0, "n": row["n"], "failure_prob": made["failure_prob"]}
    step = ExcessStep(shares=(0.5, 0.0, 0.0), kl_nats=0.0, n=row["n"] - 1)
    other = recursive(**own, steps=[step], gamma=0.3).to_dict()
    made |= {part: other[part] for part in ("value", "inputs", "terms", "budget", "costs")}
    made["name"] = f"new_examples_{other['name']}"
    made["hypotheses"].append({**made["hypotheses"][-1], "name": "prior saw none of these rows"})
    row["upper"] = made["value"]
    assert made["value"] < row["measured"]


@every_case("edit", [_brier_among_losses, _term_written_twice, _area_of_counts, _error_of_free_numbers])
def test_a_row_is_certified_by_a_bound_of_its_family(edit):
    probabilities = GIVEN["probabilities"]["probabilities"]
    said = certify_predictions(LABELS, probabilities=probabilities, ask=["brier", "bins", "auc"]).to_dict()
    said = json.loads(json.dumps(said))
    assert DOES_NOT not in verdicts(check_report(said))
    edit(said)
    assert DOES_NOT in verdicts(check_report(said), "rows")


def test_what_has_no_answer_excuses_no_other_counts_and_no_remarks():
    """One example alone in its group hides one error at most; a refusal that was made up hides none."""
    alone = GROUPS.astype("U3")
    alone[0] = "own"
    made = certify_predictions(LABELS, predictions=LABELS ^ WRONG[0], groups=alone, interval=True).to_dict()
    assert "group 'own'" in made["not_applicable"][0]["name"]
    assert DOES_NOT not in verdicts(check_report(made))
    for family in ("recall", "groups"):
        fewer = copy.deepcopy(made)
        row = next(row for row in fewer["details"]["statements"] if row["family"] == family and row["upper_by"])
        fewer["certificates"][row["upper_by"]]["inputs"]["k"] -= 2
        assert DOES_NOT in verdicts(check_report(fewer), "counts"), family
    names = {"m": LABELS ^ WRONG[0], "o of m": np.zeros(400, int), "am": np.zeros(400, int)}
    many = certify_predictions(2 * LABELS, {of: 2 * said for of, said in names.items()}, classes=[0, 1, 2]).to_dict()
    assert len(many["not_applicable"]) > 3, "of models whose names end alike"
    assert DOES_NOT not in verdicts(check_report(many))
    without_class_2 = [row for row in many["details"]["statements"] if row["quantity"] != "error on class 2"]
    many["not_applicable"].append({"name": "error on class 2 of o of m", "reason": "no example has the label 2"})
    many["details"]["statements"] = without_class_2
    assert DOES_NOT in verdicts(check_report(many), "counts")
    silent = copy.deepcopy(report("from errors"))
    silent["not_applicable"] = [{"name": "AUC", "reason": "a class has one record or none: gather more"}]
    assert DOES_NOT not in verdicts(check_report(silent), "remarks")
    for remark in silent["details"]["remarks"]:
        left = [one for one in silent["details"]["remarks"] if one != remark]
        assert DOES_NOT in verdicts(
            check_report({**silent, "details": {**silent["details"], "remarks": left}}), "remarks"
        )


def test_ends_of_differences_at_a_tiny_failure_probability_are_accused_of_no_slack():
    """There rates that are refuted lie closer to 1 than what doubles are rounded by, and the end may be larger."""
    for counts in ((3, 37, 700, 2.5e-8), (1950, 2393, 5000, 1e-12)):
        made = paired(*counts).to_dict()
        assert DOES_NOT not in verdicts(check_certificate(made)), counts
    assert DOES_NOT in verdicts(check_certificate({**made, "value": made["value"] - 0.02}), "value")
