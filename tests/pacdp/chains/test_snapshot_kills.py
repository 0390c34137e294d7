"""A chain that is killed leaves its beginning; its memory is a snapshot."""

import shutil
import sys
from pathlib import Path

import pytest
import torch
from numpy.random import default_rng
from torch import equal

from pacdp.chains.snapshots import read_snapshots, resume_snapshots
from tests.file_faults import Fault, carried_out
from tests.marks import parametrize
from tests.pacdp.chains.snapshot_folders import assert_holds, begun, contents, weights_at, written


def chain(folder, last):
    """Go on from the checkpoint to step ``last``."""
    checkpoint = folder / "checkpoint"
    saved = int(checkpoint.read_text()) if checkpoint.exists() else 0
    store = resume_snapshots(folder / "chain", up_to_step=saved)
    for step in range(saved + 1, last + 1):
        store.append(step, weights_at(step))
        if step % 5 == 0 or step == last:
            (folder / "new").write_text(str(step))
            (folder / "new").replace(checkpoint)


@parametrize("kind", ["kill", "tear"])
def test_a_kill_leaves_the_beginning_of_the_chain(tmp_path, kind, whole):
    rng, halves = default_rng(3), 0
    for _ in range(14 if whole else 6):
        fault = Fault(at=int(rng.integers(1, 60)), kind=kind)
        assert carried_out(chain, (tmp_path, 150), root=tmp_path, fault=fault).killed
        halves += any(tmp_path.glob("chain/.*.partial"))
        if any(tmp_path.glob("chain/snapshots-*")):
            steps = list(read_snapshots(tmp_path / "chain").steps)
            assert_holds(read_snapshots(tmp_path / "chain"), list(range(1, len(steps) + 1)))
            checkpoint = tmp_path / "checkpoint"
            assert len(steps) >= (int(checkpoint.read_text()) if checkpoint.exists() else 0)
    assert halves > (3 if whole else 1)
    chain(tmp_path, 150)
    assert contents(tmp_path / "chain") == contents(written(tmp_path / "whole", steps=150))


def peak():
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) * 1024


def stream(folder, count, dim):
    """Print how many bytes a chain that is written and read takes at most."""
    torch.set_num_threads(1)
    model = torch.randn(dim)
    warm = begun(folder / "warm")
    warm.append(1, {"w": torch.ones(1)})
    assert [float(own["w"]) for _, own in warm] == [1.0]
    weights = model + 1
    baseline = peak()
    store = begun(folder / "stream")
    for step in range(count):
        store.append(step, {"w": torch.add(model, step, out=weights)})
    number = -1
    for number, (step, read) in enumerate(read_snapshots(folder / "stream")):
        assert step == number
        assert equal(read["w"], torch.add(model, step, out=weights))
    assert number == count - 1
    print(peak() - baseline)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads the peak from /proc")
@parametrize(
    ("count", "dim", "most"),
    [
        pytest.param(50, 250_000, 24 * 10**6, id="50MB"),
        pytest.param(1_000, 832_201, 30 * 10**6, id="FC600", marks=pytest.mark.slow),
    ],
)
def test_memory_is_a_snapshot_and_not_the_chain(tmp_path, count, dim, most):
    """Peak resident memory of a process above that with its model: VmHWM, mapped pages of the files included."""
    try:
        done = carried_out(stream, (tmp_path, count, dim), root=tmp_path)
    finally:
        shutil.rmtree(tmp_path, ignore_errors=True)
    assert done.exitcode == 0, done.err
    assert int(done.out) < most
