"""Two gloo processes, torchrun's or forked, against one: weights, noise, histories, checkpoints, refusals."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from distributed_runs import NOISE, OWN, SAME, SIGMA, forked, left_alone
from numpy.testing import assert_allclose
from private_toys import DECAY, doubles, flat, mlp, private, sweep, trained
from scipy import stats
from torch import equal, multiprocessing
from torch.testing import assert_close

from bounds.accounting import event_from_dict
from pacdp import load_checkpoint
from pacdp.errors import CheckpointError
from pacdp.private import SeededRandomness, steps_of
from pacdp.step.mechanism import MODES
from pacdp.step.processes import rank_randomness
from tests.marks import made_once, near, parametrize, refusal, slow
from tests.pacdp.same import identical
from tests.two_processes import two_processes

HERE = Path(__file__).parent


@pytest.fixture(scope="module", params=["forked", slow("torchrun")])
def folder(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("two")
    if request.param == "forked":
        two_processes(forked, (folder,))
        return folder
    paths = os.pathsep.join([str(HERE.parents[2]), str(HERE), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2",
               str(HERE / "distributed_runs.py"), str(folder)]  # fmt: skip
    environment = {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, check=False, env=environment, timeout=1800, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder


@made_once
def both(folder):
    return [torch.load(folder / f"{rank}.pt", weights_only=True) for rank in (0, 1)]


def test_two_processes_are_one(both):
    for name in both[0]["same"]:
        settings, numbers, network, n = SAME[name]
        seen = []
        alone = trained(settings, network().double(), doubles(n), mechanism=numbers, seed=7, progress=seen.append)
        losses = [p.private_loss for p in seen]
        first, second = (process["same"][name] for process in both)
        assert identical(first["weights"], second["weights"])
        for key, value in alone.weights.items():
            assert_close(first["weights"][key], value, rtol=0.0, atol=1e-9)
        assert_close(first["snapshots"], alone.snapshots, rtol=0.0, atol=1e-9)
        assert equal(first["snapshots"], second["snapshots"])
        for process in (first, second):
            history = event_from_dict(process["history"])
            assert history == alone.event
            assert steps_of(history) == numbers.steps
            assert_allclose(process["losses"], losses, rtol=1e-9)
        if "empty" in name:
            assert np.isnan(losses).sum() > 10
        assert not equal(flat(first["weights"]), flat(network().double()))


@parametrize("last", [0, 2])
def test_a_process_that_ends_is_named_in_a_sentence_and_no_step_of_it_is_released(last, tmp_path):
    """The other one keeps its last checkpoint, and the sum in which a part is missing reaches nobody."""
    start = multiprocessing.get_context("fork").Process
    both = [start(target=left_alone, args=(rank, tmp_path, last)) for rank in (0, 1)]
    for one in both:
        one.start()
    for one in both:
        one.join(120)
    assert (both[0].exitcode, both[1].exitcode) == (0, 7)
    told, *more = (tmp_path / "said").read_text().splitlines()
    assert re.search("PeerLost: another process of this run ended .* start all 2 again, from the last checkpoint", told)
    assert (more, (tmp_path / "run").exists()) == ([], last > 0)
    if last:
        assert load_checkpoint(tmp_path / "run").header["step"] == last


def standardised(update):
    return update.double().numpy() / (SIGMA * NOISE["clip_norm"] / NOISE["expected_batch_size"])


@parametrize("name", ["no data, seeded", "no data, system", "no gradients, seeded"])
def test_noise_is_added_once(both, name):
    """Added by every process it would be seen."""
    one, other = (process["noise"]["right"][name] for process in both)
    assert equal(one, other)
    values, planted = standardised(one), standardised(both[0]["noise"]["planted"][name])
    assert abs(np.mean(values**2) - 1.0) < 6.0 * np.sqrt(2.0 / len(values))
    assert stats.kstest(values, "norm").pvalue > 1e-6
    assert stats.kstest(planted, "norm").pvalue < 1e-12
    assert np.var(planted) == near(4.0 if "seeded" in name else 2.0, rel=0.1)


def test_resuming_is_exact_to_the_bit(both):
    for name in both[0]["resumed"]:
        runs = [process["resumed"][name][kind] for process in both for kind in ("whole", "resumed", "again")]
        for run in runs[1:]:
            assert identical(run["weights"], runs[0]["weights"])
            assert equal(run["snapshots"], runs[0]["snapshots"])
            assert run["history"] == runs[0]["history"]
        assert steps_of(event_from_dict(runs[0]["history"])) == 6


def test_one_process_goes_on_from_two_where_it_can(both, folder, tmp_path):
    def go_on(name, settings, numbers, network):
        path = shutil.copy(folder / f"{name}.middle", tmp_path / "run.safetensors")
        return trained(settings, network(), mechanism=numbers, seed=7, checkpoint=path)

    alone = go_on("DP-SGD", *SAME["DP-SGD"][:3])
    for key, value in both[0]["resumed"]["DP-SGD"]["whole"]["weights"].items():
        assert_close(alone.weights[key], value, rtol=0.0, atol=1e-5)
    with refusal("places of its own: 2, not 1", CheckpointError):
        go_on("DP-BBP", *OWN["DP-BBP"])


@parametrize("mode", MODES)
def test_opacus_s_loop_runs_unchanged(both, mode, folder):
    module, optimizer, criterion, loader, engine = private(mlp().double(), doubles(), mode=mode, noise_multiplier=DECAY,
                                                           sample_rate=0.1)  # fmt: skip
    whole = sweep(module, optimizer, criterion, loader)
    first, second = (process["loops"][mode] for process in both)
    assert equal(first["weights"], second["weights"])
    assert_close(first["weights"], flat(module), rtol=0.0, atol=1e-9)
    published = flat(load_checkpoint(folder / f"release {mode}" / "weights.safetensors").model)
    for process in (first, second):
        assert equal(process["published"], published)
        assert equal(process["loaded"], process["weights"])
        assert event_from_dict(process["history"]) == engine.event
        assert process["loaded history"] == process["history"]
        assert process["epsilon"] == engine.get_epsilon(1e-3)
    if mode == "reference":
        assert [a + b for a, b in zip(first["sizes"], second["sizes"], strict=True)] == whole
    else:
        assert sum(first["sizes"]) + sum(second["sizes"]) == sum(whole)
        assert len(first["sizes"]) != len(second["sizes"])  # the processes cut as they need


def test_the_parts_are_a_poisson_batch(both):
    parts = [process["batches"]["seeded"] for process in both]
    whole = SeededRandomness(3)
    for one, other in zip(*parts, strict=True):
        assert sorted(one + other) == whole.batch(11, 0.3).tolist()
        assert all(i % 2 == 0 for i in one)
        assert all(i % 2 == 1 for i in other)
    drawn = np.zeros((800, 11))
    for process in both:
        for step, part in enumerate(process["batches"]["system"]):
            drawn[step, part] += 1.0
    assert drawn.max() == 1.0
    assert np.abs(drawn.mean(0) - 0.3).max() < 6.0 * np.sqrt(0.21 / 800)
    pairs = np.corrcoef(drawn.T)[np.triu_indices(11, 1)]
    assert np.abs(pairs).max() < 6.0 / np.sqrt(800)


def test_each_example_has_its_place_in_an_epoch_at_the_process_that_owns_it(both):
    for source in (0, 1):
        for one, other in zip(*(process["batches"]["places"][source] for process in both), strict=True):
            assert [place < 0 for place in one] == [i % 2 == 1 for i in range(11)]
            assert [place >= 0 for place in other] == [i % 2 == 1 for i in range(11)]


def test_empty_parts_are_not_skipped(both):
    assert all(process["batches"]["ours"] == 50 for process in both)


def test_every_process_has_generators_of_its_own(both):
    (seeded, system), (other, other_system) = (process["batches"]["seeds"] for process in both)
    assert seeded == SeededRandomness(3).generator("masks").initial_seed()
    assert len({seeded, system, other, other_system}) == 4
    alone = rank_randomness(SeededRandomness(3))
    assert equal(alone.batch(50, 0.5), SeededRandomness(3).batch(50, 0.5))


def test_refused_by_every_process_in_one_sentence(both):
    for process in both:
        for words, said in process["refusals"].items():
            assert re.search(words, said)
