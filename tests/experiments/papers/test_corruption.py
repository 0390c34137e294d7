"""Random labels at increasing corruption: the runs, private ones against a count by hand, and what is made of them."""

from dataclasses import replace
from math import isclose, log

import pytest
import torch
from planted import carried_out, shortened

from bounds.accounting import event_from_dict
from experiments.papers.chains import BOUNDS
from experiments.papers.corruption import ACCOUNTED, COLUMNS, Corrupted
from experiments.papers.corruption import CORRUPTION as STUDY
from pacdp import load_checkpoint, private
from pacdp.cli.folder import Folder, read_json
from pacdp.cli.private.algorithms import Public, network
from tests.oracles.kl_by_mpmath import kl


def _quick(job):
    if not isinstance(job.config, Corrupted):
        return shortened(job)
    training = job.config.training
    training = replace(training, sampling=replace(training.sampling, steps=6), records=2)
    return replace(job, config=replace(job.config, training=training))


@pytest.fixture(scope="module")
def jobs():
    return [_quick(job) for job in STUDY.jobs("smoke", 0) if job.tags["random_share"] == 0.5]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("corruption")


@pytest.fixture(scope="module")
def table(jobs, folder):
    return carried_out(STUDY, jobs, folder)


@pytest.mark.slow
def test_private_runs_end_to_end(jobs, folder, table):
    assert dict(table.schema) == COLUMNS
    assert table["run"].unique(maintain_order=True).to_list() == [job.key for job in jobs]
    assert table.filter(algorithm="SGD")["privacy"].unique().to_list() == ["none"]
    assert table.filter(algorithm="Entropy-SGLD")["delta"].unique().to_list() == [0.0]
    for job in jobs:
        row = table.filter(run=job.key).row(-1, named=True)
        assert row["least_error"] == 0.5 * row["random_share"]
        if not isinstance(job.config, Corrupted):
            assert row[ACCOUNTED] is None
            continue
        budget = job.config.training.budget
        assert row["epsilon"] <= budget.epsilon
        assert row["delta"] == budget.delta
        assert row["privacy"] == "accounted, add-remove"
        assert row[ACCOUNTED] > row["train_error"]
        assert all(row[name] is None for name in BOUNDS)
    paths = STUDY.draw(table, folder)
    assert min(path.stat().st_size for path in paths) > 10_000
    assert STUDY.judge(table, "smoke").claims


@pytest.mark.slow
def test_errors_and_bound_of_a_private_run_by_hand(jobs, folder, table):
    """Its weights from the checkpoint, its labels from the problem, its bound from the price of its history."""
    job = next(job for job in jobs if job.tags == {**job.tags, "algorithm": "DP-SGD", "random_share": 0.5})
    result = read_json(Folder(folder / job.key).result)
    checkpoint = load_checkpoint(folder / job.key / "checkpoint.safetensors")
    train, test = job.config.problem.data()
    assert checkpoint.header["about"]["data"] == {"train": train.hash, "test": test.hash}
    clean, _ = replace(job.config.problem, random_labels=0.0).data()
    assert 0.15 < (train.labels != clean.labels).mean() < 0.35
    module = network(job.config.training, Public(input_shape=(1, 8, 8), classes=2, size=float(train.n)), device="cpu")
    module.load_state_dict(checkpoint.model)
    for data, name in ((train, "train_error"), (test, "test_error")):
        with torch.no_grad():
            right = (module(torch.tensor(data.inputs)).argmax(1) == torch.tensor(data.labels)).float().mean()
        assert isclose(1.0 - float(right), result[name], abs_tol=1e-6)
    history = event_from_dict(checkpoint.header["event"])
    budget = job.config.training.budget
    assert private.steps_of(history) == result["steps"] == 6
    assert result["epsilon"] == private.privacy_spent(history, delta=budget.delta, adjacency="add-remove").epsilon
    free = log(1.0 / 0.05) / train.n
    assert result["bound"]["status"] == "rigorous"
    assert kl(result["train_error"], result["bound"]["value"]) > free, "privacy has a price beyond that of one test"
