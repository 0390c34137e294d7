"""The calibration frontier: one epsilon for all runs, DP-SGLD as DP-SGD under another name, and verdicts that turn."""

import json
import math
from dataclasses import replace

import polars as pl
import pytest
import torch

from experiments.claims import FEWEST_PAIRS, Measured, Ratio, mostly, relevant
from experiments.figures import calibration_frontier as figures
from experiments.papers.calibration_cells import Cells
from experiments.papers.calibration_claims import Change, counted
from experiments.papers.calibration_frontier import COLUMNS, FRONTIER
from experiments.papers.runs.frontier import (
    BBP,
    FrontierRun,
    _records,
    algorithm,
    carry_out,
    loss_of,
    noise_of,
    problem,
    shape_of,
)
from experiments.papers.runs.frontier_plans import BENCHES
from pacdp import private
from pacdp.cli.config import Runtime
from pacdp.cli.private.config import Budget
from pacdp.cli.serial import from_dict, to_dict
from pacdp.schedules import Table

RUNTIME = Runtime(threads=1)
SMALL = FrontierRun(hidden=(8,), sample_rate=0.1, steps=12, kept=3, budget=Budget(epsilon=8.0, delta=1e-3))


@pytest.mark.parametrize("scale", ["smoke", "cpu", "paper"])
def test_jobs_have_keys_of_their_own_and_private_runs_of_a_bench_one_budget(scale):
    jobs = FRONTIER.jobs(scale, 3)
    assert len({job.key for job in jobs}) == len(jobs)
    assert all(job.key.replace("-", "").isalnum() and job.config.seed >= 3 for job in jobs)
    for bench in BENCHES[scale]:
        own = [job.config for job in jobs if job.tags["bench"] == bench.name and job.config.method != "SGD"]
        assert {(run.budget, run.sample_rate, run.dataset, run.patients) for run in own} == {
            (bench.run.budget, bench.run.sample_rate, bench.run.dataset, bench.run.patients)
        }
    for job in jobs[:: max(1, len(jobs) // 20)]:
        assert from_dict(FrontierRun, json.loads(json.dumps(to_dict(job.config)))) == job.config


@pytest.mark.parametrize("slot", ["gradient", "parameter"])
def test_dp_sgld_with_constant_steps_is_dp_sgd_to_the_last_digit(slot, tmp_path):
    one = carry_out(replace(SMALL, clip_norm=0.5), RUNTIME, tmp_path)
    other = carry_out(replace(SMALL, clip_norm=0.5, method="DP-SGLD", slot=slot), RUNTIME, tmp_path)
    for name in ("last", "averaged"):
        for score, value in one["scores"][name].items():
            assert other["scores"][name][score] == pytest.approx(value, rel=1e-4), (name, score)
    apart = carry_out(replace(SMALL, clip_norm=0.5, method="DP-SGLD", slot=slot, decay=True), RUNTIME, tmp_path)
    assert apart["scores"]["last"]["nll_nats"] != pytest.approx(one["scores"]["last"]["nll_nats"], rel=1e-3)


@pytest.mark.parametrize(("slot", "power"), [("gradient", 0.5), ("parameter", -0.5)])
def test_falling_steps_keep_their_mean_and_their_noise_follows_them_at_the_same_epsilon(slot, power):
    run = replace(SMALL, method="DP-SGLD", slot=slot, decay=True, steps=20, clip_norm=2.0, reach=3.0)
    data = problem("digits", False, False, None)
    settings = algorithm(run, data, 1000)
    rates, sigmas = ([of(t) for t in range(20)] for of in (settings.rate_at, settings.noise_at))
    assert sum(rates) / 20 == pytest.approx(1.5)
    assert rates[0] > 3.0 * rates[-1]
    for rate, sigma in zip(rates, sigmas, strict=True):
        assert sigma / sigmas[0] == pytest.approx((rate / rates[0]) ** power)
    event = private.planned(Table(values=tuple(sigmas)), sample_rate=0.1, steps=20)
    spent = private.epsilon(event, delta=1e-3, adjacency="add-remove")
    assert 0.98 * 8.0 < spent <= 8.0
    assert len(set(noise_of(shape_of(replace(run, decay=False)), 0.1, run.budget))) == 1


@pytest.mark.parametrize("method", [*BBP, "DP-MC-Dropout", "SGD"])
def test_every_method_runs_and_says_what_it_spent(method, tmp_path):
    found = carry_out(replace(SMALL, method=method, reach=0.2), RUNTIME, tmp_path)
    assert ("epsilon" in found) == (method != "SGD")
    assert found.get("epsilon", 0.0) <= 8.0
    assert found["scores"]["averaged"]["nll_nats"] != found["scores"]["last"]["nll_nats"]


def test_a_persons_images_are_one_record_whose_padding_changes_nothing():
    inputs, labels = torch.randn(9, 5), torch.tensor([0, 1, 2, 0, 1, 2, 0, 1, 2])
    rows, targets = _records(inputs, labels, torch.tensor([7, 7, 3, 7, 7, 7, 3, 9, 9]))
    assert rows.shape == (3, 4, 5)
    assert targets.tolist() == [[2, 0, -1, -1], [0, 1, 0, 1], [1, 2, -1, -1]], "the sixth of person 7 is left out"
    outputs = torch.randn(3, 4, 3)
    losses = loss_of(outputs, targets)
    for k, count in enumerate((2, 4, 2)):
        own = loss_of(outputs[k, :count], targets[k, :count]).mean()
        assert float(losses[k]) == pytest.approx(float(own))


def test_a_relevant_difference_is_decided_both_ways_and_open_between():
    def holds(mean: float, noise: float | None) -> bool | None:
        return relevant("x", Measured(mean, noise, 4), 0.01).holds

    assert holds(0.02, 0.005) is True
    assert holds(0.0, 0.005) is False, "no difference as large as the margin: larger() could never say so"
    assert holds(0.005, 0.003) is False, "beyond chance, and still not worth having"
    assert holds(-0.5, 0.1) is False
    assert holds(0.02, 0.015) is None
    assert holds(0.005, 0.006) is None
    assert holds(0.02, None) is None, "one pair"
    assert relevant("x", None, 0.01).holds is relevant("x", Measured(1.0, 0.1, 2), None).holds is None
    assert "-0.0050 to +0.0050, 4 pairs" in relevant("x", Measured(0.0, 0.005, 4), 0.01).evidence


def test_pairs_of_one_seed_take_out_what_both_share():
    one, other = {0: 0.1, 1: 0.5, 2: 0.9, 7: 3.0}, {0: 0.11, 1: 0.51, 2: 0.91, 8: 0.0}
    gap = Measured.between(one, other)
    assert gap is not None
    assert gap.mean == pytest.approx(-0.01)
    assert gap.noise == pytest.approx(0.0, abs=1e-12)
    assert gap.seeds == 3
    assert Measured.between(one, {9: 1.0}) is None


BENCH = BENCHES["smoke"][0]


def planted(**ece: float) -> pl.DataFrame:
    """Every cell of the small bench, six seeds each: errors of 0.1 but where ``ece`` names a kind; ``clip`` is a factor
    at clip norm 10."""
    rows = []
    for job in FRONTIER.jobs("smoke", 0):
        tags = job.tags
        if tags["bench"] != BENCH.name:
            continue
        for averaged in (False, True):
            kind = "constant" if tags["method"] == "DP-SGLD" and not tags["decay"] else tags["method"]
            kind = (
                "pre_noise"
                if tags["pre_noise"]
                else "falling"
                if tags["method"] == "DP-SGLD" and tags["decay"]
                else kind
            )
            kind = "averaged" if averaged and kind == "DP-SGD" else kind
            value = ece.get(kind.replace("-", "_"), 0.1) * (ece.get("clip", 1.0) if tags["clip_norm"] == 10.0 else 1.0)
            value *= 1.0 + 1e-4 * tags["seed"]
            rows.append({**tags, "averaged": averaged, "epsilon": None if tags["method"] == "SGD" else 7.99,
                         "accuracy": 0.9 + 1e-5 * tags["reach"], "ece": value, "sce": value, "ace": value,
                         "rmsce": value, "mce": value, "nll_nats": 1.0})  # fmt: skip
    two = pl.DataFrame([{name: row.get(name) for name in COLUMNS} for row in rows], schema=COLUMNS)
    return pl.concat([two.with_columns(seed=pl.col("seed") + more) for more in (0, 2, 4)])


def own(table: pl.DataFrame, words: str):
    """The one claim of the small bench with these words."""
    found = [one for one in FRONTIER.judge(table, "smoke").claims if one.sentence.startswith(f"{BENCH.name}: ")]
    (claim,) = [one for one in found if words in one.sentence]
    return claim


def held(table: pl.DataFrame, words: str) -> bool | None:
    return own(table, words).holds


def test_where_nothing_differs_every_improvement_is_decided_not_to_hold():
    table = planted()
    for words in ("constant steps", "standard DP-SGD (falling", "both averaged", "decaying", "pre-noising",
                  "follows falling", "5-fold against", "kept on the way"):  # fmt: skip
        assert held(table, words) is False, words
    found = FRONTIER.judge(table.filter(pl.col("seed") < FEWEST_PAIRS - 1), "smoke").claims
    assert all(claim.holds is None for claim in found), "two seeds"


def test_each_sentence_turns_with_its_own_cells():
    assert held(planted(falling=0.08, pre_noise=0.08), "standard DP-SGD (falling") is True
    assert held(planted(falling=0.08, pre_noise=0.08), "follows falling") is True
    assert held(planted(falling=0.08, pre_noise=0.08), "5-fold against") is False
    assert held(planted(falling=0.01, pre_noise=0.01), "5-fold against") is True
    assert held(planted(pre_noise=0.05), "pre-noising") is True
    assert held(planted(pre_noise=0.095), "pre-noising") is False, "a twentieth is not worth having"
    assert held(planted(averaged=0.05), "kept on the way") is True
    assert held(planted(DP_BBP=0.05), "DP-BBP (averaged)") is True
    assert held(planted(SGD=0.05), "(each where it is most accurate)") is True
    assert held(planted(SGD=0.099), "(each where it is most accurate)") is False
    assert held(planted(SGD=0.05, clip=0.2), "least ECE within a hundredth") is False, "at clip norm 10"


OTHER = pl.col("clip_norm") == 10.0
WORDS = "the clip norm alone"


def test_the_clip_norm_is_judged_on_seeds_that_did_not_choose_it():
    six = planted(clip=0.1)
    assert held(six, WORDS) is True
    assert held(planted(clip=0.5), WORDS) is False
    elsewhere = six.with_columns(ece=pl.when(OTHER & (pl.col("seed") > 2)).then(0.1).otherwise("ece"))
    assert held(elsewhere, WORDS) is False, "what the first seeds showed is gone in the others"
    worse = six.with_columns(accuracy=pl.when(OTHER).then(0.8).otherwise("accuracy"))
    assert held(worse, WORDS) is False, "other accuracies do not count"
    few = own(six.filter(pl.col("seed") < 4), WORDS)
    assert few.holds is None, "two seeds are left to judge"
    assert few.settled_by


def test_seeds_are_halved_that_all_cells_share_however_many_some_have():
    more = pl.concat([planted(clip=0.1), planted(clip=0.1).filter(OTHER).with_columns(seed=pl.col("seed") + 6)])
    cells = Cells(more.filter(bench=BENCH.name), BENCH)
    pair = cells.clip_pair()
    assert pair is not None
    assert cells.halves([cells.at(10.0), cells.at(0.1)]) == {0, 1, 2}, "not the first six of one and three of the other"
    assert pair.seeds == {3, 4, 5}
    assert "pairs: 3" in own(more, WORDS).evidence
    last = pl.col("method").is_in(["DP-BBP", "DP-MC-Dropout"]) & (pl.col("seed") > 2)
    slower = more.with_columns(accuracy=pl.when(last).then(0.8).otherwise("accuracy"))
    lead = own(slower, "outperforms other Bayesian")
    assert lead.evidence.count("+0.1000 (+0.1000 to +0.1000, 3 pairs)") == 2, "of seeds that chose neither"


def test_accuracies_are_compared_again_on_the_seeds_that_judge():
    drifts = pl.when(OTHER & (pl.col("seed") > 2)).then(0.86).otherwise("accuracy")
    claim = own(planted(clip=0.1).with_columns(accuracy=drifts), WORDS)
    assert claim.holds is None, "equal accuracy was a matter of the seeds that chose"
    assert "not known to be of one accuracy" in claim.evidence


def test_the_bullet_prints_means_over_the_seeds_that_judge():
    first = planted(clip=0.1).with_columns(ece=pl.when(pl.col("seed") < 3).then(pl.col("ece") * 2).otherwise("ece"))
    (said,) = [one.said for one in FRONTIER.judge(first, "smoke").points if one.said.startswith(f"{BENCH.name} (8 hidd")
               and WORDS in one.said]  # fmt: skip
    assert "ECE 0.1000 at clip norm" in said
    assert "ECE 0.0100 at clip norm 10" in said
    assert "10.0-fold by the 3 seeds that did not choose them" in said


def test_the_bullet_on_harm_tells_both_questions_and_sgd_has_no_clip_norm():
    calm = planted(SGD=0.05, clip=0.2)
    (said,) = [one for one in FRONTIER.judge(calm, "smoke").points if "harms calibration" in one.said
               and one.said.startswith(BENCH.name)]  # fmt: skip
    assert said.holds is True
    assert "asked of DP-SGD at the clip norm and steps of least ECE" in said.said
    assert said.said.endswith("0.0200 at 0.9000, it does not hold")
    evidence = own(calm, "(each where it is most accurate)").evidence
    assert "against SGD at step size" in evidence
    assert evidence.count("clip norm") == 1


def test_the_mean_over_all_cells_decides_and_no_majority():
    cells = Cells(planted(clip=0.5).filter(bench=BENCH.name), BENCH)
    better, same, worse = (Change(name, cells.at(one), cells.at(other)) for name, one, other in (
        ("better", 0.1, 10.0), ("same", 0.1, 1.0), ("worse", 10.0, 0.1)))  # fmt: skip
    assert counted(cells, "x", [better, better, same]).holds is True
    assert counted(cells, "x", [better, same, same]).holds is True, "a fifth over all cells"
    assert counted(cells, "x", [better, better, worse, worse, same]).holds is False
    most = [better, better, better, worse, worse, worse]
    falls = planted(clip=0.5).with_columns(ece=pl.when(OTHER & (pl.col("reach") == 2.0)).then(0.088).otherwise("ece"))
    uneven = Cells(falls.filter(bench=BENCH.name), BENCH)
    little = Change("little", uneven.at(0.1, reach=2.0), uneven.at(10.0, reach=2.0))
    claim = counted(uneven, "x", [little, little, little, *most[3:5]])
    assert claim.holds is False, "three of five cells fall, and the mean rises"
    assert "in 3 of 5 cells, not in 2" in claim.evidence
    claim = counted(cells, "x", [better, same, Change("gone", cells.at(0.1), cells.at(55.0))])
    assert claim.holds is None
    assert "ECE over all cells missing times as large, 0.9 being asked" in claim.evidence
    assert "gone missing (open)" in claim.evidence


def test_two_pairs_decide_nothing():
    far = Measured(0.5, 0.001, 2)
    assert relevant("x", far, 0.01).holds is None
    assert relevant("x", far._replace(seeds=FEWEST_PAIRS), 0.01).holds is True
    two = Ratio(math.log(5.0), 0.01, 2)
    assert two.above(2.0) is two.below(9.0) is two.within(9.0) is None
    assert two._replace(pairs=FEWEST_PAIRS).above(2.0) is True


def test_every_setting_is_drawn_those_of_low_accuracy_on_a_line():
    table = planted()
    low = table.with_columns(accuracy=pl.when(pl.col("clip_norm") == 0.1).then(0.5).otherwise("accuracy"))
    settings = ["method", "slot", "averaged", "clip_norm", "reach", "decay", "pre_noise", "steps"]
    drawn = low.filter((pl.col("method") != "SGD") | ~pl.col("averaged")).select(settings).n_unique()
    (axes,) = figures.frontier(low, {}).axes
    dots = [line for line in axes.lines if line.get_linestyle() == "None"]
    assert len(dots) == drawn
    below = low.filter(pl.col("clip_norm") == 0.1).select(settings).n_unique()
    assert f"{below} of " in axes.get_title()
    assert sum(line.get_marker() == "*" for line in dots) == 1, "SGD is a point"


def test_open_cells_that_could_turn_the_majority_leave_it_to_the_mean_over_all():
    def ratio(*values: float) -> Ratio | None:
        return Ratio.over_all([(dict.fromkeys(range(3), one), dict.fromkeys(range(3), 1.0)) for one in values])

    assert mostly([True, True, None], ratio(2.0, 2.0, 2.0)) is True, "the majority comes first"
    assert mostly([True, None, None], ratio(0.5, 0.9, 0.9)) is True
    assert mostly([True, None, None], ratio(0.5, 1.9, 1.9)) is False
    assert mostly([None, None, None], None) is None
    two = Ratio.over_all([({0: 1.0, 1: 4.0, 2: 9.0}, {0: 1.0, 1: 1.0}), ({0: 4.0, 1: 1.0}, {0: 1.0, 1: 1.0, 5: 1.0})])
    assert two is not None
    assert (two.log, two.noise, two.pairs) == (pytest.approx(math.log(2.0)), pytest.approx(0.0), 2)
    assert Ratio.over_all([]) is None


def test_tables_and_figures_are_made_of_runs(tmp_path):
    wanted = [job for job in FRONTIER.jobs("smoke", 0) if job.config.seed == 0 and job.tags["bench"] == BENCH.name]
    for job in wanted[:: max(1, len(wanted) // 8)]:
        assert job.kind.carry_out([job.config], [tmp_path / job.key], RUNTIME) == [None]
    table = FRONTIER.table(FRONTIER.jobs("smoke", 0), tmp_path)
    assert set(table["averaged"]) == {True, False}
    assert max(table["epsilon"].drop_nulls().to_list()) <= 8.00001
    for some in (table, planted(), table.clear()):
        paths = FRONTIER.draw(some, tmp_path)
        assert all(path.stat().st_size > 2000 for path in paths)
        verdict = FRONTIER.judge(some, "smoke")
        assert json.loads(json.dumps(verdict.to_dict(), allow_nan=False))
