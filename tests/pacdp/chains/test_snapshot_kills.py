"""A chain that is killed leaves its beginning; its memory is a shard."""

import shutil
import subprocess
import sys

import numpy as np
import pytest

from pacdp.chains.snapshots import (
    DiskSnapshots,
    read_snapshots,
)
from tests.file_faults import Fault, carried_out
from tests.pacdp.chains.snapshot_folders import SHAPE, SMALL, assert_holds, contents, weights_at, written


def chain(folder, last):
    """Go on from the checkpoint to step ``last``."""
    checkpoint = folder / "checkpoint"
    saved = int(checkpoint.read_text()) if checkpoint.exists() else 0
    if checkpoint.exists():
        store = DiskSnapshots.open(folder / "chain", up_to_step=saved)
    else:
        shutil.rmtree(folder / "chain", ignore_errors=True)
        store = DiskSnapshots.create(folder / "chain", shape=SHAPE, shard_bytes=SMALL)
    for step in range(saved + 1, last + 1):
        store.append(step, weights_at(step))
        if step % 5 == 0 or step == last:
            store.flush()
            (folder / "new").write_text(str(step))
            (folder / "new").replace(checkpoint)


@pytest.mark.parametrize("kind", ["kill", "tear"])
def test_a_kill_leaves_the_beginning_of_the_chain(tmp_path, kind):
    rng, halves = np.random.default_rng(1), 0
    for _ in range(14):
        fault = Fault(at=int(rng.integers(1, 60)), kind=kind)
        assert carried_out(chain, (tmp_path, 200), root=tmp_path, fault=fault, of_this=True).killed
        halves += any(tmp_path.glob("chain/.partial/*"))
        if any(tmp_path.glob("chain/snapshots-*")):
            steps = list(read_snapshots(tmp_path / "chain").steps)
            assert_holds(read_snapshots(tmp_path / "chain"), list(range(1, len(steps) + 1)))
            checkpoint = tmp_path / "checkpoint"
            assert len(steps) >= (int(checkpoint.read_text()) if checkpoint.exists() else 0)
    assert halves > 3
    chain(tmp_path, 200)
    assert contents(tmp_path / "chain") == contents(written(tmp_path / "whole", steps=200))


STREAM = """
import sys
from pathlib import Path
import torch
from pacdp.chains.snapshots import DiskSnapshots, WeightsShape, read_snapshots, require_space

def peak():
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) * 1024

torch.set_num_threads(1)
folder, count, dim, shard_bytes = Path(sys.argv[1]), *map(int, sys.argv[2:])
shape = WeightsShape(chains=1, parameters=(("w", (dim,)),), layout="flat")
model = torch.randn(dim)
warm = DiskSnapshots.create(folder / "warm", shape=WeightsShape(chains=1, parameters=(("w", (1,)),), layout=""))
warm.append(1, torch.ones(1))
assert [float(weights) for _, weights in warm] == [1.0]
del warm
weights = model + 1
baseline = peak()
require_space(folder, shape=shape, snapshots=count, shard_bytes=shard_bytes)
store = DiskSnapshots.create(folder / "stream", shape=shape, shard_bytes=shard_bytes)
for step in range(count):
    torch.add(model, step, out=weights)
    store.append(step, weights)
store.flush()
del store
for number, (step, read) in enumerate(read_snapshots(folder / "stream")):
    assert step == number and torch.equal(read[0], torch.add(model, step, out=weights))
assert number == count - 1
print(peak() - baseline)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads the peak from /proc")
@pytest.mark.parametrize(
    ("count", "dim", "shard_bytes", "most"),
    [
        pytest.param(100, 250_000, 4 * 2**20, 24 * 10**6, id="100MB"),
        pytest.param(1_000, 832_201, 64 * 2**20, 10**9, id="FC600", marks=pytest.mark.slow),
    ],
)
def test_memory_is_a_shard_and_not_the_chain(tmp_path, count, dim, shard_bytes, most):
    """Peak resident memory of a process above that with its model: VmHWM, mapped pages of the files included."""
    command = [sys.executable, "-c", STREAM, str(tmp_path), str(count), str(dim), str(shard_bytes)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    finally:
        shutil.rmtree(tmp_path, ignore_errors=True)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < most
