"""Verdicts of Table 3 on planted tables: ratios of pairs, and what scatter or lost runs leave open."""

import math

import polars as pl

from experiments.claims import Ratio
from experiments.papers.bayesian_dp_regression import ALGORITHMS, PRINTED, REGRESSION
from experiments.tables import ratio
from pacdp.cli.figures.numbers import up_digits

TURN = {"SGLD": 0, "BBP": 1, "MC Dropout": 1, "SGD": 1}
"""So that ratios between algorithms scatter too."""


def test_ratios_are_of_pairs_alone():
    one, other = [2.0, 8.0, 2.0, 8.0, 99.0], [1.0, 2.0, 1.0, 2.0]
    table = pl.DataFrame({"who": ["a"] * 5 + ["b"] * 4, "pair": [*range(5), *range(4)], "x": one + other})
    found = ratio(table, "x", by="pair", one={"who": "a"}, other={"who": "b"})
    assert found is not None
    assert found.pairs == 4
    assert math.isclose(found.log, math.log(8.0) / 2)
    assert math.isclose(found.noise or 0.0, math.log(2.0) / math.sqrt(3.0))
    assert (found.above(1.2), found.above(2.0), found.below(6.0), found.within(1.2)) == (True, None, True, False)
    assert str(found) == "2.828 (1.896 to 4.220, pairs: 4)"
    assert ratio(table, "x", by="pair", one={"who": "a"}, other={"who": "c"}) is None
    single = Ratio(1.0, None, 1)
    assert single.above(1.1) is single.below(1.1) is single.within(1.1) is None


def _regression(
    errors: dict, *, simulations: int = 20, spread: float = 0.02, far: float = 1.0, **changed: tuple[float, float]
) -> pl.DataFrame:
    """Errors with and without privacy, the former times exp(±spread) in turn; ``changed`` are deviations of SGLD, and
    ``far`` is how many times the others' BBP's aleatoric deviation is at x = -5 without privacy."""
    deviations = ("epistemic_std", "aleatoric_std", "epistemic_std_beyond")
    columns = ("test_mse", "train_mse", "noise_mse", *deviations)
    rows = []
    for name in ALGORITHMS:
        for plain, private_run in enumerate((True, False)):
            value = errors.get(name, (0.5, 0.5))[plain]
            row = dict.fromkeys(columns, 0.5) | {"test_mse": value, "train_mse": value}
            for deviation in ("epistemic_std", "epistemic_std_beyond"):
                row[deviation] = 1.0 if name == "MC Dropout" and private_run else 0.5
            row |= {key: pair[plain] for key, pair in changed.items() if name == "SGLD"}
            for k in range(simulations):
                factor = math.exp(spread * (-1) ** (k + TURN[name])) if private_run else 1.0
                spent = {key: row[key] * factor for key in columns}
                rows.append({"part": "run", "algorithm": name, "private": private_run, "epsilon": 3.85025,
                             "simulation": k, **spent})  # fmt: skip
            for x in (-5.0, 0.0, 5.0):
                wide = far if (name, private_run, x) == ("BBP", False, -5.0) else 1.0
                rows.append({"part": "band", "algorithm": name, "private": private_run, "simulation": 0, "x": x,
                             "epistemic": 0.25, "aleatoric": 0.25 * wide**2})  # fmt: skip
    return pl.DataFrame(rows, infer_schema_length=None)


def _all(table: pl.DataFrame) -> list[bool | None]:
    return [claim.holds for claim in REGRESSION.judge(table, "paper").claims]


def test_claims_of_table_3_hold_for_the_printed_numbers_and_fail_for_others():
    verdict = REGRESSION.judge(_regression(PRINTED, spread=0.0), "paper")
    assert [claim.holds for claim in verdict.claims] == [True] * 6
    assert [comparison.ours for comparison in verdict.comparisons] == [c.paper for c in verdict.comparisons]
    assert all(f"epsilon {up_digits(3.85025, 4)}," in c.why for c in verdict.comparisons if "DP-" in c.what)
    assert _all(_regression(PRINTED)) == [True] * 6, "a spread of a hundredth leaves all as it is"
    better = {name: (0.6, 0.5) for name in ALGORITHMS}
    assert _all(_regression(better)) == [False, True, False, True, True, True]
    wide = _regression(PRINTED, epistemic_std=(1.0, 0.5), aleatoric_std=(0.5, 1.0))
    assert _all(wide) == [True, True, True, False, True, False]
    assert _all(_regression({name: (0.5, 0.5) for name in ALGORITHMS}))[1] is False, "none suffers"


def test_uncertainty_is_compared_in_both_parts_and_where_the_figure_draws_it():
    assert _all(_regression(PRINTED, far=1.2)) == [True] * 6
    table = _regression(PRINTED, far=100.0)
    assert _all(table) == [True, True, True, False, True, False]
    evidence = [claim.evidence for claim in REGRESSION.judge(table, "paper").claims]
    assert "SGLD over BBP aleatoric 0.5 against 50 at x = -5" in evidence[5]
    assert "BBP aleatoric 0.5 against 50 at x = -5" in evidence[3]
    assert _all(_regression(PRINTED, epistemic_std=(1.5, 1.5)))[5] is False, "the epistemic part counts as well"
    assert _all(_regression(PRINTED, epistemic_std_beyond=(1.5, 1.5)))[5] is False, "and beyond the data"
    bare = _regression(PRINTED).filter(pl.col("part") == "run")
    assert _all(bare) == [True, True, True, None, True, None], "without bands the figure's range is not known"


def test_claims_of_table_3_are_open_where_simulations_scatter_or_are_one():
    assert _all(_regression(PRINTED, spread=2.0)) == [None, None, None, None, None, True]
    assert _all(_regression(PRINTED, simulations=1)) == [None] * 6


def test_runs_without_results_are_counted():
    table = _regression(PRINTED, simulations=80)
    lost = (pl.col("algorithm") == "BBP") & (~pl.col("private")) & (pl.col("simulation") == 3)
    verdict = REGRESSION.judge(table.filter(~lost), "cpu")
    said = [note for note in verdict.notes if "left no result" in note]
    assert len(said) == 1
    assert said[0].startswith("1 of 80 runs of BBP without privacy left no result")
    assert said[0].endswith("medians are of the other 79.")
    assert "BBP 2.270" in verdict.claims[1].evidence
    assert "pairs: 79" in verdict.claims[1].evidence
    assert not any("left no result" in note for note in REGRESSION.judge(table, "cpu").notes)
