"""The calibration frontier: one epsilon for all runs, DP-SGLD as DP-SGD under another name, and verdicts that turn."""

import json
from dataclasses import replace
from operator import attrgetter

import pytest
import torch
from tiny_runs import RUNTIME, carried_out
from torch.testing import assert_close

from experiments.papers.calibration_cells import Cells
from experiments.papers.calibration_frontier import FRONTIER
from experiments.papers.calibration_pairs import PAIRS
from experiments.papers.runs import frontier_plans
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
from experiments.papers.runs.frontier_plans import BENCHES, BEST_CLIP, TWO_CLIPS, TwoClips
from experiments.runner import RESULTS, read_table
from experiments.tables import part
from pacdp import private
from pacdp.cli.private.config import Budget
from pacdp.schedules import Table
from tests.marks import at_most

SMALL = FrontierRun(hidden=(8,), sample_rate=0.1, steps=12, kept=3, budget=Budget(epsilon=8.0, delta=1e-3))


@at_most(1, "slot", ["gradient", "parameter"])
def test_dp_sgld_with_constant_steps_is_dp_sgd_to_the_last_digit(slot, tmp_path):
    langevin = {"method": "DP-SGLD", "slot": slot}
    one, other, apart = (
        carry_out(replace(SMALL, clip_norm=0.5, **how), RUNTIME, tmp_path)["scores"]
        for how in ({}, langevin, {**langevin, "decay": True})
    )
    for name in ("last", "averaged"):
        assert other[name] == pytest.approx(one[name], rel=1e-4)
    assert apart["last"]["nll_nats"] != pytest.approx(one["last"]["nll_nats"], rel=1e-3)


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
    own = [loss_of(outputs[k, :count], targets[k, :count]).mean() for k, count in enumerate((2, 4, 2))]
    assert_close(loss_of(outputs, targets), torch.stack(own))


@pytest.mark.parametrize("scale", PAIRS.scales)
def test_private_runs_of_a_bench_have_one_budget_and_no_seed_judges_that_chose(scale):
    jobs, shared = FRONTIER.jobs(scale, 3), attrgetter("budget", "sample_rate", "dataset", "patients")
    for bench in BENCHES[scale]:
        own = [job.config for job in jobs if job.tags["bench"] == bench.name and job.config.method != "SGD"]
        assert {shared(run) for run in own} == {shared(bench.run)}
    pairs = PAIRS.jobs(scale, 3)
    assert not {job.config.seed for job in jobs} & {job.config.seed for job in pairs}


def _committed(bench):
    (own,) = [one for one in BENCHES["cpu"] if one.name == bench]
    return Cells(part(read_table(RESULTS / FRONTIER.name / "cpu"), bench=bench), own)


def test_settings_of_the_pairs_are_those_that_all_seeds_of_the_frontier_choose():
    for bench, chosen in TWO_CLIPS["cpu"].items():
        one, other, _ = _committed(bench).clip_pair(all_choose=True)
        found = (one["clip_norm"], other["clip_norm"], one["reach"], one["steps"])
        assert chosen == TwoClips(*found, chosen.seeds)
    for bench, chosen in BEST_CLIP["cpu"].items():
        cells = _committed(bench)
        assert chosen.clip == min(cells.bench.clips, key=lambda clip: cells.mean("ece", cells.at(clip)))


@pytest.mark.slow
@at_most(1, "study", [FRONTIER, PAIRS], ids=lambda study: study.name)
def test_tables_and_figures_are_made_of_runs(study, tmp_path, monkeypatch):
    jobs = study.jobs("smoke", 0)
    some = [job for job in jobs if job.tags["bench"] == BENCHES["smoke"][0].name and job.config.seed % 1000 == 0]
    carried_out(some[:: max(1, len(some) // 2)], tmp_path)
    table = study.table(jobs, tmp_path)
    assert set(table["averaged"]) == {True, False}
    assert max(table["epsilon"].drop_nulls()) <= 8.00001
    assert all(path.stat().st_size > 2000 for path in study.draw(table, tmp_path))
    monkeypatch.setattr(frontier_plans, "digest", lambda config, digits: "")  # keys of runs that are counted alone
    assert json.loads(json.dumps(study.judge(table, "smoke").to_dict(), allow_nan=False))
