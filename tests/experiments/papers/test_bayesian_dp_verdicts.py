"""Verdicts of the DP-BNN studies on planted tables: each sentence holds, fails, or is left open."""

import math
from typing import Any

import numpy as np
import polars as pl
import pytest

from experiments.claims import Claim, Measured, Verdict, more_than_half, smaller
from experiments.papers import bayesian_dp_plans as plans
from experiments.papers.bayesian_dp import PAPER_SECONDS, TABLE_1, TABLE_1_PRINTED, TWIN
from experiments.papers.bayesian_dp_calibration import TABLE_2, TABLE_2_PRINTED
from experiments.papers.bayesian_dp_figures import BAYESIAN, FIGURES_1_2, FIGURES_3_7
from experiments.papers.bayesian_dp_plans import DELTA, SETTINGS
from experiments.tables import measured


def _accuracies(paper: dict) -> pl.DataFrame:
    rows = []
    for (name, prior, network), numbers in paper.items():
        for private_run, value in zip((True, False), numbers, strict=True):
            rows.append({"algorithm": name, "prior": prior, "network": network, "private": private_run, "seed": 0,
                         "accuracy": value, "last_accuracy": value, "epsilon": 1.0 if private_run else None,
                         "delta": DELTA if private_run else None,
                         "n": 10_000, "seconds_per_epoch": PAPER_SECONDS[name, prior],
                         "run": f"{len(rows)}"})  # fmt: skip
    twin = {**rows[0], "algorithm": TWIN}
    return pl.DataFrame([*rows, twin], infer_schema_length=None)


def _holds(verdict: Verdict, words: str) -> bool | None:
    found: list[Claim] = [claim for claim in verdict.claims if words in claim.sentence]
    assert len(found) == 1, [claim.sentence for claim in verdict.claims]
    return found[0].holds


@pytest.mark.parametrize(
    ("words", "cell", "column", "value"),
    [
        ("similar high test accuracy", ("BBP", "normal", "MLP", False), "accuracy", 0.5),
        ("does not deteriorate", ("SGLD", "normal", "MLP", True), "accuracy", 0.88),
        ("≈ 20%", ("MC Dropout", "normal", "MLP", True), "accuracy", 0.97),
        ("480 sec/epoch", ("BBP", "normal", "MLP", True), "seconds_per_epoch", 1.0),
        ("Theorem 1", (TWIN, "normal", "MLP", True), "accuracy", 0.8),
    ],
)  # fmt: skip
def test_claims_of_table_1_hold_for_the_printed_numbers_and_fail_for_others(words, cell, column, value):
    table = _accuracies(TABLE_1_PRINTED)
    assert _holds(TABLE_1.judge(table, "paper"), words) is True
    name, prior, network, private_run = cell
    hit = (pl.col("algorithm") == name) & (pl.col("prior") == prior) & (pl.col("network") == network) & (
        pl.col("private") == private_run)  # fmt: skip
    if column == "seconds_per_epoch":
        hit = pl.col("algorithm") == name
    planted = table.with_columns(pl.when(hit).then(pl.lit(value)).otherwise(pl.col(column)).alias(column))
    assert _holds(TABLE_1.judge(planted, "paper"), words) is False


def _led(twin: float, rival: float, *, shift: float = 0.0) -> bool | None:
    """Whether DP-SGLD leads on the MLP, four seeds, at accuracies of its twin and of DP-SGD."""
    table = _accuracies(TABLE_1_PRINTED)
    private_run, algorithm = pl.col("private"), pl.col("algorithm")
    value = pl.when(algorithm == TWIN).then(twin).when(private_run & (algorithm == "SGD")).then(rival)
    first = table.with_columns(accuracy=value.otherwise("accuracy"))
    moved = pl.when(algorithm == "SGLD").then(pl.col("accuracy") + shift).otherwise("accuracy")
    both = pl.concat([first, first.with_columns(seed=pl.lit(1, pl.Int64), accuracy=moved)])
    four = pl.concat([both, both.with_columns(seed=pl.col("seed") + 2)])
    return _holds(TABLE_1.judge(four, "paper"), 'MLP: "DP-SGLD outperforms')


def test_a_lead_counts_from_a_hundredth_on_and_over_dp_sgd_at_dp_sglds_own_numbers_too():
    assert _led(0.85, 0.77) is True, "printed: 0.90 against 0.81 and less"
    assert _led(0.895, 0.77) is False, "half a hundredth over its own twin"
    assert _led(0.85, 0.895) is False
    assert _led(0.85, 0.77, shift=-0.1) is None, "two seeds lead, the others do not"
    assert _led(0.895, 0.77, shift=0.03) is None
    assert _holds(TABLE_1.judge(_accuracies(TABLE_1_PRINTED), "paper"), 'MLP: "DP-SGLD outperforms') is None, "one seed"


@pytest.mark.parametrize("scale", ["smoke", "cpu", "paper"])
def test_epsilons_are_rounded_up_and_every_difference_has_a_reason(scale):
    spent = 0.375413
    table = _accuracies(TABLE_1_PRINTED).with_columns(epsilon=pl.col("epsilon") * spent)
    verdict = TABLE_1.judge(table, scale)
    assert all(comparison.why for comparison in verdict.comparisons)
    private_rows = [one.why for one in verdict.comparisons if ", DP-" in one.what and "accuracy" in one.what]
    assert all(why.startswith("epsilon 0.3755 ") for why in private_rows)
    assert "Private runs: epsilon 0.3755 at delta 1e-05." in verdict.notes
    plain = next(one.why for one in verdict.comparisons if "MLP, SGLD, prior normal" in one.what)
    ours = SETTINGS[scale]
    assert scale == "paper" or (f"{ours.members} members" in plain and f"{ours.epochs['fc']:g} epochs" in plain)


def test_notes_name_the_cut_of_the_scale_and_the_two_targets():
    cut = " ".join(plans.cut("cpu", seeds=3))
    assert "seeds: 3" in cut
    assert "hidden layers of 200 rather than 1200" in cut
    assert "compare two targets" in cut
    assert "No search was made" in cut
    assert plans.cut("paper", seeds=5) == plans.SOURCES
    assert plans.numbers_of(pl.DataFrame()) == "No private run has finished."


def test_comparisons_that_one_seed_cannot_make_are_left_open():
    sure, wide = Measured(0.2, 0.01), Measured(0.3, 0.2)
    assert smaller(sure, Measured(0.3, 0.01)) is True
    assert smaller(Measured(0.3, 0.01), sure) is False
    for other in (wide, None, Measured(0.9, None), sure):
        assert smaller(sure, other) is smaller(other, sure) is None
    table = pl.DataFrame({"a": [1, 1, 2], "x": [0.1, 0.3, 0.5]})
    found = measured(table, "x", a=1)
    assert found is not None
    assert math.isclose(found.noise or 0.0, 0.2)
    assert measured(table, "x", a=2) == Measured(0.5, None)
    assert measured(table, "x", a=3) is None


def test_a_majority_is_told_only_where_the_unknown_cannot_turn_it():
    laws = [([], None), ([True, True, True, None], True), ([True, True, None, False], None),
            ([True, False, False, None], False), ([None] * 4, None), ([True, True, False, False], False)]  # fmt: skip
    for values, expected in laws:
        assert more_than_half(values) is expected, values


def _calibration(spread: float, seeds: int = 4, **changed: float) -> pl.DataFrame:
    """The printed numbers and a spread around them, another one for each cell; ``changed`` are MCEs of DP-SGLD, by
    prior."""
    rows = []
    for (name, prior), numbers in TABLE_2_PRINTED.items():
        for plain, private_run in enumerate((True, False)):
            mce = numbers[2 * plain + 1]
            mce = changed.get(prior, mce) if name == "SGLD" and private_run else mce
            own = mce * spread * math.cos(3.0 * len(rows))
            rows += [{"algorithm": name, "prior": prior, "network": "MLP", "private": private_run, "seed": seed,
                      "ece": numbers[2 * plain], "mce": mce, "filled_mce": mce + (own if seed % 2 else -own),
                      "one_bin_ece": 0.0, "epsilon": None, "delta": None} for seed in range(seeds)]  # fmt: skip
    return pl.DataFrame(rows, infer_schema_length=None)


def test_claims_of_table_2_count_pairs_that_the_seeds_decide():
    verdict = TABLE_2.judge(_calibration(1e-5), "paper")
    for one in verdict.comparisons:
        assert isinstance(one.ours, float)
        assert isinstance(one.paper, float)
        assert math.isclose(one.ours, one.paper)
    holds = [claim.holds for claim in verdict.claims[:5]]
    assert holds == [True, True, False, True, True], "in sentences three and four two of four are printed worse"
    assert verdict.claims[4].evidence.startswith("smaller in 7, not in 5, open in 0; "), "one by less than a tenth"
    assert any("Of 28 pairs compared, the seeds leave 0 open, of MCE itself 0" in note for note in verdict.notes)
    printed = [claim.sentence.rsplit("printed: in ", 1)[1] for claim in verdict.claims[:5]]
    assert printed == ["4)", "3)", "2)", "2)", "8)"]


def test_claims_of_table_2_can_turn_and_stay_open():
    spares = "usually not the case"
    assert _holds(TABLE_2.judge(_calibration(1e-5, normal=0.16), "paper"), spares) is True
    assert _holds(TABLE_2.judge(_calibration(1e-5, normal=0.3), "paper"), spares) is False
    table = _calibration(1e-5)
    turned = TABLE_2.judge(table.with_columns(filled_mce=1.0 - pl.col("filled_mce")), "paper")
    assert [claim.holds for claim in turned.claims[:5]] == [False, False, False, True, False]
    private_run = pl.col("private") & (pl.col("prior") == "none")
    worse = table.with_columns(filled_mce=pl.col("filled_mce") + pl.when(private_run).then(0.9).otherwise(0.0))
    assert _holds(TABLE_2.judge(worse, "paper"), "exacerbates") is True
    chance = np.random.default_rng(0).lognormal(-1.5, 0.9, 16 * 8)
    assert _holds(TABLE_2.judge(table, "paper"), "Figure 3") is True
    assert _holds(TABLE_2.judge(_calibration(1e-5, normal=0.44), "paper"), "Figure 3") is False, "0.465 without prior"
    assert _holds(TABLE_2.judge(_calibration(0.0, seeds=1), "paper"), "Figure 3") is None
    for open_table in (_calibration(0.0, seeds=8).with_columns(filled_mce=chance), _calibration(0.0, seeds=1)):
        assert [claim.holds for claim in TABLE_2.judge(open_table, "paper").claims[:5]] == [None] * 5


def test_claims_about_ece_ask_both_priors_and_the_seeds():
    def holds(table):
        return [claim.holds for claim in TABLE_2.judge(table, "paper").claims[6:]]

    table = _calibration(1e-5)
    assert holds(table) == [False, False], "printed: DP-SGD is better with a prior, DP-SGLD worse without one"
    private, algorithm = pl.col("private"), pl.col("algorithm")
    ordered = table.with_columns(ece=pl.when(private & (algorithm == "SGD")).then(0.2)
                                 .when(private & (algorithm == "SGLD")).then(0.1).otherwise(0.01))  # fmt: skip
    assert holds(ordered) == [True, True]
    one_seed = pl.col("seed") % 2 * (algorithm == "SGD") * pl.when(private).then(1.0).otherwise(2.0)
    assert holds(ordered.with_columns(ece=pl.col("ece") + one_seed)) == [None, None]
    assert holds(ordered.filter(seed=0)) == [None, None]


def _reliability(
    *, plain: float, private: tuple[float, ...], sure: tuple[float, float] = (0.5, 0.7), seeds: int = 2
) -> pl.DataFrame:
    """Two classes, 100 members, of which the first class has probability ``plain`` or, by seed, ``private``.

    ``sure`` is the confidence in mistakes of DP-SGLD and DP-BBP.
    """
    rows: list[dict[str, Any]] = []
    for name in BAYESIAN:
        for is_private in (False, True):
            for prior in ("normal", "none"):
                for seed in range(seeds):
                    tags = {"algorithm": name, "prior": prior, "private": is_private, "seed": seed}
                    rows.append({**tags, "part": "run", "mce": 0.2, "label": 0,
                                 "confidence_wrong": sure[name == "BBP"] + 0.001 * seed})  # fmt: skip
                    rows += [{**tags, "part": "bin", "count": count, "confidence": 0.6, "accuracy": right}
                             for count, right in ((10_000, 0.6), (3, 0.0), (0, None))]  # fmt: skip
                    first = private[seed] if is_private else plain
                    rows += [{**tags, "part": "member", "member": member, "class": k, "probability": value}
                             for member in range(100) for k, value in enumerate((first, 1.0 - first))]  # fmt: skip
    return pl.DataFrame(rows, infer_schema_length=None)


CHANGES, LESS_SURE = "empirical posterior", "less confident"


@pytest.mark.parametrize(
    ("private_runs", "seeds", "expected"),
    [((0.3, 0.35, 0.32, 0.4), 4, True), ((0.88, 0.87, 0.89, 0.86), 4, False), ((0.9, 0.1, 0.9, 0.9), 4, None),
     ((0.3, 0.35), 2, None), ((0.3,), 1, None)],
)  # fmt: skip
def test_privacy_changes_the_image_only_if_seeds_do_not_explain_it(private_runs, seeds, expected):
    verdict = FIGURES_3_7.judge(_reliability(plain=0.9, private=private_runs, seeds=seeds), "cpu")
    assert _holds(verdict, CHANGES) is expected
    evidence = next(claim.evidence for claim in verdict.claims if CHANGES in claim.sentence)
    ways = math.comb(2 * seeds, seeds)
    assert expected is not True or f"{2 / ways:.3f} of the permutations" in evidence or f"{2 / ways:.2f}" in evidence
    assert _holds(verdict, "usually predict correctly") is True
    assert _holds(FIGURES_3_7.judge(_reliability(plain=0.1, private=private_runs, seeds=seeds), "cpu"),
                  "usually predict correctly") is False  # fmt: skip
    assert verdict.notes[-1].endswith("here 3 to 3.")


@pytest.mark.parametrize(
    ("words", "pair", "seeds", "expected"),
    [(LESS_SURE, (0.5, 0.7), 1, True), (LESS_SURE, (0.7, 0.5), 1, False), (LESS_SURE, (0.51, 0.5), 1, None)],
)  # fmt: skip
def test_claims_of_figures_3_and_7_on_numbers_need_differences_beyond_chance(words, pair, seeds, expected):
    table = _reliability(plain=0.9, private=(0.9,) * seeds, seeds=seeds, sure=pair)
    assert _holds(FIGURES_3_7.judge(table, "cpu"), words) is expected


def test_more_wrong_predictions_decide_what_few_leave_open():
    table = _reliability(plain=0.9, private=(0.9, 0.9), sure=(0.51, 0.56))
    few = table.with_columns(count=pl.when(pl.col("count") > 5_000).then(500).otherwise("count"))
    assert _holds(FIGURES_3_7.judge(table, "cpu"), LESS_SURE) is True
    assert _holds(FIGURES_3_7.judge(few, "cpu"), LESS_SURE) is None


def _row(name: str, epsilon: float, value: float, **tags: Any) -> dict[str, Any]:
    panels = {"grid": False, "batch": False, "rate": False, "batch_size": 1, "step_size": 1.0} | tags
    return {"algorithm": name, "epsilon": epsilon, "accuracy": value, "last": True, "n_test": 10_000, "delta": DELTA,
            **panels}  # fmt: skip


def test_dp_sgld_is_superior_only_where_it_beats_all_that_cost_no_more():
    def corner(*rows: dict[str, Any]) -> Claim:
        return FIGURES_1_2.judge(pl.DataFrame(rows), "paper").claims[0]

    ours, better, cheap = _row("SGLD", 1.0, 0.9, grid=True), _row("SGD", 1.0, 0.95), _row("SGD", 0.9, 0.8, grid=True)
    assert corner(ours, cheap).holds is True
    assert corner(ours, cheap, _row("SGD", 1.1, 0.99)).holds is True, "it costs more"
    assert corner(ours, cheap, {**better, "rate": True}).holds is False, "of any panel"
    assert corner(ours, cheap, {**better, "last": False}).holds is True
    assert corner(ours, cheap, _row("SGD", 1.0, 0.888)).holds is None, "about a hundredth"
    assert corner(ours, cheap, _row("SGD", 1.0, 0.892)).holds is None
    assert corner(ours, cheap, _row("SGD", 1.0, 0.9)).holds is False, "a tie is no lead of a hundredth"
    alone = corner(ours, cheap, _row("SGLD", 0.1, 0.7))
    assert alone.holds is None, "nothing to compare with"
    assert alone.evidence.startswith("2 DP-SGLD, 1 DP-SGD: 1 beat it by 0.01, 0 do not, 0 are open, 1 have")
    assert corner(ours, better, _row("SGLD", 0.1, 0.7)).holds is False


def test_claims_that_are_sums_are_said_to_be():
    verdict = FIGURES_1_2.judge(pl.DataFrame([_row("SGLD", 1.0, 0.9)]), "cpu")
    assert (
        sum("epsilon after the same" in one.sentence or "equal epsilon" in one.sentence for one in verdict.claims) == 4
    )
    assert any(note.startswith(f"Of the {len(verdict.claims)} claims 4 are computations") for note in verdict.notes)
    assert not any("hidden layers" in note or "members rather" in note for note in verdict.notes), "no MLP here"


def test_claims_of_figure_2_fail_where_they_must():
    for name, words in (("SGLD", 'more private" (eps'), ("SGD", "amplifies")):
        for order, expected in (((1.0, 2.0), name == "SGD"), ((2.0, 1.0), name == "SGLD"), ((1.0, 1.0), False)):
            planted = [_row(name, e, 0.9, batch=True, batch_size=b) for b, e in zip((64, 128), order, strict=True)]
            found = [c.holds for c in FIGURES_1_2.judge(pl.DataFrame(planted), "paper").claims
                     if words in c.sentence and "η" not in c.sentence]  # fmt: skip
            assert found == [expected]
