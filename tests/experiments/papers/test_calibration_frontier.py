"""The calibration frontier: one epsilon for all runs, DP-SGLD as DP-SGD under another name, and who chose what."""

from dataclasses import replace
from itertools import permutations
from operator import attrgetter

import polars as pl
import torch
from tiny_runs import RUNTIME
from torch.testing import assert_close

from experiments.runner import RESULTS, read_table
from experiments.runs import frontier
from experiments.runs.frontier import (
    BENCHES,
    CNN,
    MNIST,
    XRAYS,
    FrontierRun,
    algorithm,
    frontier_jobs,
    loss_of,
    noise_of,
    pair_jobs,
    problem,
    records,
    shape_of,
    temper,
    tempered_jobs,
)
from experiments.tables import part
from pacdp import private
from pacdp.cli.private.config import Budget
from pacdp.schedules import Table
from tests.marks import near, parametrize
from tests.pacdp.draws import randperm

SMALL = FrontierRun(hidden=(8,), sample_rate=0.1, steps=12, kept=3, budget=Budget(epsilon=8.0, delta=1e-3))
SETTING = ["method", "averaged", "clip_norm", "reach", "steps"]


def test_falling_steps_keep_their_mean_and_their_noise_follows_them_at_the_same_epsilon():
    run = replace(SMALL, method="DP-SGLD", decay=True, steps=20, clip_norm=2.0, reach=3.0)
    settings, mechanism = algorithm(run, problem("digits", False, False, None), 1000)
    rates, sigmas = ([of(t, mechanism) for t in range(20)] for of in (settings.rate_at, settings.noise_at))
    assert sum(rates) / 20 == near(1.5)
    assert rates[0] > 3.0 * rates[-1]
    for rate, sigma in zip(rates, sigmas, strict=True):
        assert sigma / sigmas[0] == near((rate / rates[0]) ** 0.5)
    event = private.planned(Table(values=tuple(sigmas)), sample_rate=0.1, steps=20)
    spent = private.epsilon(event, delta=1e-3, adjacency="add-remove")
    assert 0.98 * 8.0 < spent <= 8.0
    constant = noise_of(shape_of(replace(run, decay=False)), 0.1, run.budget)
    assert len({constant(t) for t in range(20)}) == 1


def test_a_persons_images_are_one_record_whose_padding_changes_nothing():
    inputs, labels = torch.randn(9, 5), torch.tensor([0, 1, 2, 0, 1, 2, 0, 1, 2])
    rows, targets = records(inputs, labels, torch.tensor([7, 7, 3, 7, 7, 7, 3, 9, 9]))
    assert rows.shape == (3, 4, 5)
    assert targets.tolist() == [[2, 0, -1, -1], [0, 1, 0, 1], [1, 2, -1, -1]], "the fifth of person 7 is left out"
    assert_close(rows[0, :2], inputs[[2, 6]])
    outputs = torch.randn(3, 4, 3)
    own = [loss_of(outputs[k, :count], targets[k, :count]).mean() for k, count in enumerate((2, 4, 2))]
    assert_close(loss_of(outputs, targets), torch.stack(own))


def test_the_images_of_a_temperature_change_it_and_nothing_before_it(tmp_path, monkeypatch):
    (job,) = tempered_jobs(True, 0)[:1]
    plain, whole = temper(job.config, RUNTIME, tmp_path), problem("digits", False, False, None)
    held = randperm(len(whole.inputs))[:500]
    other = whole.targets.clone()
    other[held[:50]] = (other[held[:50]] + 1) % 10
    monkeypatch.setattr(frontier, "problem", lambda *_: whole._replace(targets=other))
    changed = temper(job.config, RUNTIME, tmp_path)
    assert changed["scores"]["before"] == plain["scores"]["before"]
    assert changed["temperature"] > plain["temperature"]
    assert plain["scores"]["after"]["accuracy"] == plain["scores"]["before"]["accuracy"]


@parametrize("smoke", [True, False])
def test_private_runs_of_a_bench_have_one_budget_and_no_seed_judges_that_chose(smoke):
    jobs, shared = (frontier_jobs(smoke, 3), attrgetter("budget", "sample_rate", "dataset", "patients"))
    for bench in BENCHES[:1] if smoke else BENCHES[1:]:
        own = [job.config for job in jobs if job.tags["bench"] == bench.name]
        assert {shared(run) for run in own} == {shared(bench.run)}
    assert not {job.config.seed for job in jobs} & {job.config.seed for job in pair_jobs(smoke, 3)}


def _means(bench, seeds=None, **where):
    """Means over the seeds that choose, by setting; all of them where none are given."""
    own = part(read_table(RESULTS / "private-calibration"), bench=bench.name, **where)
    own = own if seeds is None else part(own, seed=seeds)
    return own.group_by(SETTING, maintain_order=True).agg(pl.mean("accuracy", "ece"))


def _pair(cells):
    """Clip norms, reach and steps of the greatest ratio of ECE, within a hundredth of accuracy."""
    pairs = [
        (one["ece"] / other["ece"], one["clip_norm"], other["clip_norm"], one["reach"], one["steps"])
        for one, other in permutations(cells.iter_rows(named=True), 2)
        if all(one[name] == other[name] for name in ("reach", "steps"))
        and abs(one["accuracy"] - other["accuracy"]) <= 0.01
    ]
    return max(pairs)[1:]


def test_settings_in_sentences_are_those_that_the_choosing_seeds_choose():
    plain = {"method": "DP-SGD", "averaged": False}
    assert _pair(_means(MNIST, (0, 1, 2), **plain)) == (0.1, 10.0, 2.0, 800)
    for bench, clips in ((XRAYS, (0.1, 10.0)), (CNN, (10.0, 1.0))):
        assert _pair(_means(bench, **plain)) == (*clips, bench.run.reach, bench.run.steps)
    for bench, clip in ((MNIST, 3.0), (XRAYS, 10.0)):
        cells = _means(bench, **plain, reach=bench.run.reach, steps=bench.run.steps)
        assert cells.sort("ece")["clip_norm"][0] == clip
