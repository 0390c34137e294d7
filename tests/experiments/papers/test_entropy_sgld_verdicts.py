"""Verdicts on the figures of the Entropy-SGLD paper: claims hold on tables that agree with it, and fail on others."""

import math

import pytest
from planted import changed, claims, failing, planted

from experiments.papers import entropy_sgld, entropy_sgld_cifar
from experiments.papers.chains import BOUNDS, COLUMNS, Size, mnist, smoke
from experiments.papers.gaps import gap, noise_of, scale_notes
from experiments.runner import read_table

JUDGE = {study.name.rpartition("-")[2]: study.judge for study in (*entropy_sgld.STUDIES, *entropy_sgld_cifar.STUDIES)}


def _row(algorithm, labels, train, test, *, network="CONV", noise=0.0, **values):
    tau = 2.0 / noise**2 if noise else None
    return {"algorithm": algorithm, "labels": labels, "network": network, "thermal_noise": noise, "tau": tau,
            "train_error": train, "test_error": test, **values}  # fmt: skip


def _private(labels, train, test, *, margin=0.03, **values):
    """Entropy-SGLD with every bound ``margin`` above its test error, the 2018 PAC-Bayes bound lowest of its year."""
    usual = {"noise": 60_000**-0.25 * 2**0.5, "epsilon": 0.0325, "beta": 1.0, "gamma": 1.0}
    found = _row(values.pop("algorithm", "Entropy-SGLD"), labels, train, test, gibbs_train_error=train,
                 gibbs_test_error=test, **usual | values)  # fmt: skip
    bounds = {name: test + margin + 0.01 * ("chernoff" in name or "hoeffding" in name) for name in BOUNDS}
    return bounds | found


FIGURE_1 = [
    _row("SGD", "true", 0.001, 0.015), _row("SGD", "random", 0.05, 0.5),
    _private("true", 0.02, 0.02), _private("random", 0.5, 0.5),
    _row("SGLD", "true", 0.01, 0.02, noise=0.001), _row("SGLD", "true", 0.09, 0.09, noise=0.05),
    _row("SGLD", "random", 0.1, 0.5, noise=0.001), _row("SGLD", "random", 0.3, 0.5, noise=0.01),
    _row("SGLD", "random", 0.5, 0.5, noise=0.05),
    _row("Entropy-SGD", "true", 0.01, 0.02, noise=0.01), _row("Entropy-SGD", "random", 0.49, 0.5, noise=0.01),
    _row("Entropy-SGD", "random", 0.1, 0.5, noise=0.0001), _row("Entropy-SGD", "random", 0.3, 0.5, noise=0.005),
    _row("Entropy-SGD", "true", 0.01, 0.02, noise=0.005), _row("SGLD", "true", 0.03, 0.04, noise=0.01),
]  # fmt: skip
FIGURE_2 = [_private("true", 0.04, 0.041, network=name) for name in ("FC600", "FC1200")]
FIGURE_3 = [
    _private("true", 0.02, 0.02), _private("true", 0.05, 0.05, algorithm="SGLD"),
    _private("random", 0.5, 0.5, algorithm="SGLD"),
]  # fmt: skip
FIGURE_4 = [
    _private("true", 0.05, 0.05, network="FC1024"), _private("true", 0.03, 0.03),
    _private("random", 0.885, 0.9, network="FC1024"), _private("random", 0.895, 0.9),
]  # fmt: skip


def _sweep():
    for gamma, onset in ((0.03, 1e5), (3.0, 1e3)):
        for tau in (1e2, 1e3, 1e4, 1e5, 1e6):
            yield _private("random", 0.9 if tau < onset else 0.9 * (onset / tau) ** 0.5 / 2, 0.9, gamma=gamma, tau=tau,
                           noise=1e-3 * tau, margin=0.1)  # fmt: skip
            good = tau >= 1e5
            yield _private("true", 0.2 if good else 0.4, 0.25 if good else 0.4, noise=1e-3 * tau, gamma=gamma, tau=tau,
                           margin=0.75 if good else 0.3)  # fmt: skip


FIGURE_5 = list(_sweep())
FIGURE_6 = [
    _private("true", error, error, gamma=gamma, beta=beta, tau=2000.0 / beta, n=50_000, epsilon=0.3056, margin=0.2)
    for beta, best in ((1.0, 0.4), (0.004, 0.19))
    for gamma, error in ((0.003, best + 0.3), (0.03, best + 0.04), (0.3, best + 0.03), (3.0, best), (30.0, best + 0.05))
]
AGREEING = {"1": FIGURE_1, "2": FIGURE_2, "3": FIGURE_3, "4": FIGURE_4, "5": FIGURE_5, "6": FIGURE_6}


@pytest.mark.parametrize("figure", AGREEING)
def test_tables_that_agree_with_the_paper_confirm_every_claim(figure):
    verdict = JUDGE[figure](planted(COLUMNS, AGREEING[figure]), "paper")
    assert {sentence: claim.holds for sentence, claim in claims(verdict).items()} == dict.fromkeys(
        claims(verdict), True
    )
    assert not any("below a test error" in note for note in verdict.notes)
    assert all(one.paper is not None for one in verdict.comparisons)
    assert sum(one.ours is not None for one in verdict.comparisons) >= min(2, len(verdict.comparisons))


FAULTS = [
    ("1", {"algorithm": "SGD", "labels": "true"}, {"test_error": 0.03}, "SGD achieves the smallest"),
    ("1", {"algorithm": "SGD", "labels": "random"}, {"train_error": 0.48}, "On random labels SGD overfits"),
    ("1", {"algorithm": "SGLD", "labels": "random", "thermal_noise": 0.01}, {"train_error": 0.49}, "for thermal noise "
     "values 0.01 and below"),
    ("1", {"algorithm": "SGLD", "labels": "random", "thermal_noise": 0.05}, {"train_error": 0.4}, "almost zero"),
    ("1", {"algorithm": "Entropy-SGD", "thermal_noise": 0.005, "labels": "random"}, {"train_error": 0.49}, "values "
     "0.005 and below"),
    ("1", {"algorithm": "Entropy-SGD", "thermal_noise": 0.01, "labels": "random"}, {"train_error": 0.4}, "At 0.01"),
    ("1", {"algorithm": "Entropy-SGLD", "labels": "random"}, {"train_error": 0.4}, "Entropy-SGLD does not overfit"),
    ("1", {"algorithm": "SGD", "labels": "random"}, {"train_error": 0.48}, "tau = sqrt(n) does not"),
    ("1", {"algorithm": "Entropy-SGLD", "labels": "random"}, {"gibbs_train_error": 0.46}, "tau = sqrt(n) does not"),
    ("1", {"algorithm": "Entropy-SGLD", "labels": "true"}, {"train_error": 0.0, "test_error": 0.05}, "close to zero"),
    ("1", {"algorithm": "Entropy-SGLD", "labels": "true"}, {"dp_chernoff_2018": 1.0}, "nonvacuous"),
    ("1", {"algorithm": "Entropy-SGLD", "labels": "true"}, {"dp_pac_bayes_2018": 0.2}, "generally tighter"),
    ("1", {"algorithm": "Entropy-SGLD", "labels": "random"}, {"dp_pac_bayes": 0.4, "dp_chernoff": 0.4}, "violations"),
    ("2", {"network": "FC600"}, {"train_error": 0.2, "test_error": 0.2}, "similar for both"),
    ("2", {"network": "FC600"}, {"dp_hoeffding_2018": 1.0}, "nonvacuous"),
    ("3", {"algorithm": "SGLD", "labels": "true"}, {"train_error": 0.01}, "higher training and test error"),
    ("3", {"algorithm": "SGLD", "labels": "random"}, {"train_error": 0.4}, "does not overfit"),
    ("3", {"algorithm": "SGLD", "labels": "true"}, {"dp_chernoff_2018": 0.055}, "worse than"),
    ("4", {"labels": "true", "network": "CONV"}, {"test_error": 0.065}, "CONV has lower"),
    ("4", {"labels": "random", "network": "CONV"}, {"train_error": 0.8}, "guessing rate"),
    ("5", {"labels": "true", "gamma": 0.03, "tau": 1e5}, {"dp_chernoff_2018": 0.9}, "only at the values"),
    ("5", {"labels": "true", "gamma": 0.03, "tau": 1e2}, {"train_error": 0.3}, "Very little overfitting"),
    ("5", {"labels": "random", "gamma": 0.03, "tau": 1e6}, {"train_error": 0.85}, "the largest tau"),
    ("5", {"labels": "random", "gamma": 0.03, "tau": 1e5}, {"train_error": 0.01}, "increases with tau"),
    ("5", {"labels": "random", "gamma": 0.03, "tau": 1e2}, {"train_error": 0.3}, "at a lower tau"),
    ("5", {"labels": "random", "gamma": 3.0, "tau": 1e6}, {"dp_kl_chernoff": 0.5}, "No generalization bounds"),
    ("6", {"beta": 1.0, "gamma": 30.0}, {"epsilon": 0.31}, "same privacy"),
    ("6", {"beta": 0.004, "gamma": 30.0}, {"dp_pac_bayes_2018": 0.9}, "tighter than the C-gen"),
    ("6", {"beta": 1.0, "gamma": 0.03}, {"dp_pac_bayes_2018": 0.7}, "are similar"),
    ("6", {"beta": 1.0, "gamma": 0.03}, {"train_error": 0.36, "test_error": 0.36}, "gamma in [1, 3]"),
    ("6", {"beta": 1.0, "gamma": 0.003}, {"test_error": 0.45}, "At gamma 0.003"),
    ("6", {"beta": 1.0, "gamma": 3.0}, {"train_error": 0.1}, "With beta 0.004"),
    ("6", {"beta": 1.0, "gamma": 3.0}, {"dp_kl_chernoff": 0.3}, "No generalization bounds"),
    ("2", {"network": "FC600"}, {"train_error": 0.0}, "gap is close to zero"),
    ("2", {"network": "FC600"}, {"dp_gibbs_pac_bayes": 0.03}, "more frequently"),
    ("3", {"labels": "random"}, {"dp_hoeffding": 0.4, "dp_chernoff": 0.4}, "more frequently"),
    ("4", {"labels": "true", "network": "CONV"}, {"train_error": 0.0, "test_error": 0.04}, "gap is close to zero"),
    ("4", {"labels": "random", "network": "CONV"}, {"train_error": 0.86}, "about 2% at most"),
    ("4", {"labels": "true", "network": "CONV"}, {"dp_pac_bayes_2018": 1.0}, "nonvacuous"),
    ("4", {"labels": "true"}, {"dp_hoeffding": 0.01}, "more frequently"),
]  # fmt: skip


@pytest.mark.parametrize(("figure", "where", "values", "words"), FAULTS)
def test_a_claim_that_the_table_contradicts_fails(figure, where, values, words):
    rows = changed(AGREEING[figure], where, **values)
    assert any(words in sentence for sentence in failing(JUDGE[figure](planted(COLUMNS, rows), "paper")))


def test_every_claim_can_fail():
    tried = {figure: [words for name, _, _, words in FAULTS if name == figure] for figure in AGREEING}
    for figure, rows in AGREEING.items():
        for sentence in claims(JUDGE[figure](planted(COLUMNS, rows), "paper")):
            assert any(words in sentence for words in tried[figure]), sentence


def test_violations_are_listed_and_counted():
    rows = changed(FIGURE_1, {"algorithm": "Entropy-SGLD", "labels": "random"}, **dict.fromkeys(BOUNDS, 0.45))
    notes = JUDGE["1"](planted(COLUMNS, rows), "paper").notes
    assert sum(note.startswith("Bound below a test error") for note in notes) == len(BOUNDS)
    many = [{**row, "run": f"{k}-{i}"} for k in range(3) for i, row in enumerate(rows)]
    notes = JUDGE["1"](planted(COLUMNS, many), "paper").notes
    assert sum(note.startswith("Bound below a test error") for note in notes) == 12
    assert any(note.startswith(f"{3 * len(BOUNDS) - 12} more bounds") for note in notes)


def test_the_last_record_counts_and_earlier_ones_do_not():
    early = {**FIGURE_1[1], "run": "1", "step": 1, "train_error": 0.5}
    table = planted(COLUMNS, [FIGURE_1[0], early, {**FIGURE_1[1], "run": "1"}, *FIGURE_1[2:]])
    rest = table.with_columns(run=table["run"])
    sentence = "On random labels SGD overfits."
    assert claims(JUDGE["1"](rest, "paper"))[sentence].holds


def test_a_gap_counts_beyond_the_noise_of_two_counts():
    row = {"n": 400, "n_test": 100, "train_error": 0.3, "test_error": 0.42}
    assert math.isclose(gap(row), 0.12)
    assert math.isclose(noise_of(row), 2 * math.sqrt(0.3 * 0.7 / 400 + 0.42 * 0.58 / 100))
    assert noise_of({**row, "n": 60_000, "n_test": 10_000}) < 0.011


OPEN = [
    ("1", {"algorithm": "Entropy-SGLD", "labels": "true"}, {"train_error": 0.375}, "Entropy-SGLD does not overfit"),
    ("1", {"algorithm": "Entropy-SGLD", "labels": "true"}, {"gibbs_train_error": 0.375}, "tau = sqrt(n) does not"),
    ("2", {"network": "FC600"}, {"train_error": 0.375, "test_error": 0.38}, "gap is close to zero"),
    ("2", {}, {"train_error": 0.375, "test_error": 0.38}, "similar for both"),
    ("3", {"algorithm": "SGLD", "labels": "true"}, {"train_error": 0.51, "test_error": 0.51}, "not overfit on random"),
    ("4", {"labels": "true"}, {"train_error": 0.6, "test_error": 0.6}, "gap is close to zero"),
    ("4", {"labels": "true", "network": "CONV"}, {"train_error": 0.6, "test_error": 0.6}, "guessing rate"),
    ("4", {"labels": "true"}, {"train_error": 0.6, "test_error": 0.6}, "CONV has lower"),
    ("4", {"labels": "true"}, {"train_error": 0.6, "dp_chernoff_2018": 0.95}, "nonvacuous"),
    ("5", {"labels": "true", "gamma": 0.03}, {"train_error": 0.6}, "at a lower tau"),
    ("5", {"labels": "true", "gamma": 0.03}, {"train_error": 0.6, "test_error": 0.6}, "Very little overfitting"),
    ("6", {}, {"gibbs_train_error": 0.5}, "tighter than the C-gen"),
    ("6", {}, {"gibbs_train_error": 0.5}, "are similar"),
    ("6", {}, {"train_error": 0.5}, "gamma in [1, 3]"),
    ("6", {}, {"train_error": 0.5}, "At gamma 0.003"),
    ("6", {}, {"train_error": 0.5}, "With beta 0.004"),
    ("1", {"algorithm": "SGD", "labels": "true"}, {"test_error": 0.019}, "SGD achieves the smallest"),
    ("1", {"algorithm": "SGD", "labels": "random"}, {"train_error": 0.445}, "On random labels SGD overfits"),
    ("1", {"algorithm": "Entropy-SGLD", "labels": "random"}, {"gibbs_train_error": 0.475}, "SGLD does not overfit"),
    ("1", {"algorithm": "Entropy-SGD", "thermal_noise": 0.005, "labels": "random"}, {"train_error": 0.445}, "tau = "
     "sqrt(n) does not"),
    ("1", {"algorithm": "Entropy-SGLD", "labels": "true"}, {"dp_pac_bayes_2018": 0.058}, "generally tighter"),
    ("1", {"algorithm": "Entropy-SGLD"}, dict.fromkeys(BOUNDS, 1.0), "violations"),
    ("2", {"network": "FC600"}, {"train_error": 0.019}, "gap is close to zero"),
    ("3", {"algorithm": "SGLD", "labels": "true"}, {"test_error": 0.023}, "higher training and test error"),
    ("3", {"algorithm": "SGLD", "labels": "true"}, {"train_error": 0.499}, "higher training and test error"),
    ("3", {"algorithm": "SGLD", "labels": "true"}, {"train_error": 0.51}, "worse than"),
    ("4", {"labels": "true", "network": "CONV"}, {"test_error": 0.049}, "CONV has lower"),
    ("4", {"labels": "random", "network": "CONV"}, {"network": "FC32"}, "guessing rate"),
    ("5", {"labels": "random", "gamma": 0.03, "tau": 1e3}, {"train_error": 0.3}, "at a lower tau"),
    ("6", {}, {"gibbs_train_error": 0.69, "dp_pac_bayes_2018": 0.8}, "tighter than the C-gen"),
    ("6", {"beta": 1.0, "gamma": 3.0}, {"gibbs_train_error": 0.4, "dp_pac_bayes_2018": 0.652}, "are similar"),
    ("6", {"beta": 1.0}, {"gibbs_train_error": 0.86, "dp_pac_bayes_2018": 0.95}, "are similar"),
    ("6", {"beta": 1.0, "gamma": 0.3}, {"test_error": 0.405}, "gamma in [1, 3]"),
    ("6", {"beta": 1.0, "gamma": 0.003}, {"test_error": 0.505}, "At gamma 0.003"),
]  # fmt: skip


@pytest.mark.parametrize(("figure", "where", "values", "words"), OPEN)
def test_differences_within_chance_decide_nothing(figure, where, values, words):
    verdict = JUDGE[figure](planted(COLUMNS, changed(AGREEING[figure], where, **values)), "paper")
    (claim,) = [claim for sentence, claim in claims(verdict).items() if words in sentence]
    assert claim.holds is None, claim


def test_only_convs_errors_are_said_to_be_those_of_guessing():
    rows = changed(FIGURE_4, {"labels": "random", "network": "FC1024"}, train_error=0.8)
    assert not any("guessing" in sentence for sentence in failing(JUDGE["4"](planted(COLUMNS, rows), "paper")))


def _judged(figure, rows, words, scale="paper"):
    (claim,) = [one for one in JUDGE[figure](planted(COLUMNS, rows), scale).claims if words in one.sentence]
    return claim


def test_bounds_of_one_are_not_counted_as_kept():
    broken = changed(FIGURE_1, {"algorithm": "Entropy-SGLD", "labels": "true"}, **dict.fromkeys(BOUNDS, 1.0))
    claim = _judged("1", changed(broken, {"labels": "random", "algorithm": "Entropy-SGLD"}, dp_chernoff=0.4), "violat")
    assert f"1 of {len(BOUNDS)} bounds below 0.999" in claim.evidence
    assert f"{len(BOUNDS)} more are vacuous" in claim.evidence
    assert claim.holds is False


def test_margins_that_cannot_exceed_the_constant_one_are_left_out():
    rows = changed(FIGURE_6, {"beta": 0.004, "gamma": 30.0}, gibbs_train_error=0.69, dp_pac_bayes_2018=1.0)
    claim = _judged("6", rows, "tighter than the C-gen")
    assert claim.holds
    assert claim.evidence.startswith("2 of 10 margins cannot exceed")
    rows = changed(FIGURE_6, {"beta": 1.0, "gamma": 0.03}, gibbs_train_error=0.9, dp_pac_bayes_2018=1.0)
    claim = _judged("6", rows, "are similar")
    assert claim.holds
    assert "beta 1, gamma 0.03 left out: its Gibbs training error is 0.900, not below half of" in claim.evidence


@pytest.mark.parametrize(("gaps", "holds"), [((0.0, 0.06), True), ((0.024, 0.031), None), ((0.06, 0.0), False)])
def test_the_onset_is_where_the_gaps_of_both_gammas_differ(gaps, holds):
    rows = FIGURE_5
    for gamma, own in zip((0.03, 3.0), gaps, strict=True):
        rows = changed(rows, {"labels": "random", "gamma": gamma, "tau": 1e3}, train_error=0.9 - own)
        rows = changed(rows, {"labels": "random", "gamma": gamma, "tau": 1e4}, train_error=0.5)
    assert _judged("5", rows, "at a lower tau").holds is holds


def test_the_onset_is_placed_between_two_values_of_the_grid():
    notes = JUDGE["5"](planted(COLUMNS, FIGURE_5), "paper").notes
    assert any("between 10000 and 100000, as the paper's 50000" in note for note in notes)
    late = "between 100 and 1000, later than the paper's 200"
    assert not any(late in note for note in notes), "200 lies between them"
    fewer = [{**row, "n": 5000} for row in FIGURE_5 if row["tau"] > 1e4]
    notes = JUDGE["5"](planted(COLUMNS, changed(fewer, {"tau": 1e5}, train_error=0.9)), "paper").notes
    late = "between 100000 and 1e+06, later than the paper's 200, although n is 5000 (10 times smaller), after 10 outer"
    assert any("gamma 3" in note and late in note for note in notes)
    notes = JUDGE["5"](planted(COLUMNS, changed(FIGURE_5, {"labels": "random"}, train_error=0.9)), "paper").notes
    assert sum("None shows overfitting" in note for note in notes) == 2


def test_a_network_that_has_learnt_little_is_said_to_have():
    for error, words in ((0.16, None), (0.2, "Only part"), (0.3, "Little"), (0.45, "Hardly anything")):
        rows = [_private("true", error, error, network=name) for name in ("FC600", "FC1200")]
        notes = [note for note in JUDGE["2"](planted(COLUMNS, rows), "paper").notes if "was learnt" in note]
        assert len(notes) == (words is not None)
        if words:
            assert notes[0].startswith(words)
            assert f"{error:.3f} (FC600), {error:.3f} (FC1200) (guessing: 0.5)" in notes[0]


def test_reasons_and_sizes_are_those_of_the_table():
    rows = changed(FIGURE_1, {"algorithm": "Entropy-SGLD"}, epsilon=2.0 * 3.98 / 60_000**0.5)
    rows = changed(rows, {"algorithm": "SGLD"}, n=2000, epsilon=1.0)
    verdict = JUDGE["1"](planted(COLUMNS, rows), "cpu")
    why = {one.what: one.why for one in verdict.comparisons}
    assert [text for what, text in why.items() if "epsilon" in what] == [
        "ours has the loss's exact oscillation, 3.98, for the paper's 4"
    ]
    assert [text for what, text in why.items() if "thermal noise at" in what] == ["the paper rounds"]
    assert any("n is 60000 with tau = sqrt(n) for Entropy-SGLD, 2000 for SGLD" in note for note in verdict.notes)
    assert not any("2018" in claim.evidence for claim in verdict.claims)


def test_labels_that_are_all_true_stay_text(tmp_path):
    table = planted(COLUMNS, FIGURE_2)
    table.write_csv(tmp_path / "table.csv")
    again = read_table(tmp_path)
    assert again["labels"].to_list() == ["true", "true"]
    assert JUDGE["2"](again, "cpu") == JUDGE["2"](table, "cpu")


def test_cuts_of_scale_are_said():
    size = Size(dataset="mnist2", train_size=2000, epochs=5.0, records=1, track=smoke("digits").track)
    table = planted(COLUMNS, FIGURE_2)
    (_, cut, *_) = scale_notes("cpu", size, table)
    assert "2000 examples of mnist2" in cut
    assert "5 epochs" in cut
    assert "n is 60000 with tau = sqrt(n) for Entropy-SGLD" in cut
    assert not any("Scale" in note for note in scale_notes("paper", mnist("mnist2"), table))
