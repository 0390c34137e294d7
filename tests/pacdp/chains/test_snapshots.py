"""Snapshots: a resumed chain's folder is that of an uninterrupted one; a kill leaves a beginning; memory is bounded."""

import errno
import json
import multiprocessing
import os
import pickle
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from pacdp.chains import shards as module
from pacdp.chains.snapshots import (
    FORMAT,
    DiskSnapshots,
    MemorySnapshots,
    SnapshotFolder,
    Snapshots,
    Thinning,
    WeightsShape,
    read_snapshots,
    require_space,
)
from pacdp.errors import CheckpointError, Diverged

SHAPE = WeightsShape(chains=2, parameters=(("z.weight", (2, 3)), ("a.bias", ())), layout="row-major")
SMALL = module.header_bytes(SHAPE) + 3 * (SHAPE.bytes + module.STEP_BYTES)  # three snapshots a shard


def weights_at(step: int, shape: WeightsShape = SHAPE) -> Tensor:
    """The chain: its weights are a function of the step, as those of a resumed chain are."""
    return torch.randn((shape.chains, shape.dim), generator=torch.Generator().manual_seed(step))


def fill(store: Snapshots, steps: list[int], *, flush_every: int = 10**9) -> None:
    for step in steps:
        store.append(step, weights_at(step))
        if step % flush_every == 0:
            store.flush()
    store.flush()


def written(folder: Path, *, steps: int = 8) -> Path:
    fill(DiskSnapshots.create(folder, shape=SHAPE, shard_bytes=SMALL), list(range(1, steps + 1)))
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def assert_holds(store: Snapshots | SnapshotFolder, steps: list[int]) -> None:
    assert list(store.steps) == steps
    assert len(store) == len(steps)
    found = list(store)
    assert [step for step, _ in found] == steps
    assert all(torch.equal(weights, weights_at(step)) for step, weights in found)


@pytest.mark.parametrize("burn_in", [0, 1, 7])
@pytest.mark.parametrize("every", [1, 3])
@pytest.mark.parametrize("keep", [1, 4])
def test_thinning(burn_in: int, every: int, keep: int) -> None:
    thinning = Thinning(burn_in=burn_in, every=every, keep=keep)
    taken = [step for step in range(60) if thinning.takes(step)]
    assert taken == [burn_in + (i + 1) * every for i in range(keep)]
    assert [thinning.count(step) for step in range(60)] == [sum(t <= step for t in taken) for step in range(60)]


@pytest.mark.parametrize("wrong", [{"burn_in": -1}, {"every": 0}, {"keep": 0}])
def test_thinning_refuses(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="expected burn_in >= 0, every >= 1 and keep >= 1"):
        Thinning(**{"burn_in": 0, "every": 1, "keep": 1} | wrong)


@pytest.mark.parametrize(
    ("chains", "parameters"), [(0, (("w", (1,)),)), (1, ()), (1, (("w", (2,)), ("w", (3,)))), (1, (("w", (0,)),))]
)
def test_a_shape_of_nothing_is_refused(chains: int, parameters: tuple) -> None:
    with pytest.raises(ValueError, match="expected chains >= 1 and parameters of different names"):
        WeightsShape(chains=chains, parameters=parameters, layout="")


@pytest.mark.parametrize("count", [0, 1, 2, 3, 4, 6, 8])
def test_both_stores_hold_what_was_appended(tmp_path: Path, count: int) -> None:
    steps = [5 * i for i in range(count)]
    disk = DiskSnapshots.create(tmp_path, shape=SHAPE, shard_bytes=SMALL)
    for store in (disk, MemorySnapshots(shape=SHAPE, keep=8)):
        fill(store, steps)
        assert_holds(store, steps)
    reader = read_snapshots(tmp_path)
    assert reader.shape == SHAPE
    assert_holds(reader, steps)


def test_what_a_store_gives_is_a_copy(tmp_path: Path) -> None:
    disk = DiskSnapshots.create(tmp_path, shape=SHAPE, shard_bytes=SMALL)
    for store in (disk, MemorySnapshots(shape=SHAPE, keep=8)):
        fill(store, [1, 2, 3, 4])
        for _, weights in store:
            assert weights.untyped_storage().nbytes() == SHAPE.bytes  # and no view that keeps a shard alive
            weights.zero_()
        assert_holds(store, [1, 2, 3, 4])


def test_one_chain_gives_a_vector(tmp_path: Path) -> None:
    shape = WeightsShape(chains=1, parameters=(("w", (5,)),), layout="flat")
    store = DiskSnapshots.create(tmp_path, shape=shape)
    store.append(3, torch.arange(5.0).requires_grad_())
    store.append(4, torch.ones(1, 5))
    assert [weights.tolist() for _, weights in store] == [[[0.0, 1.0, 2.0, 3.0, 4.0]], [[1.0] * 5]]


def test_the_shards_are_safetensors_that_say_what_they_are(tmp_path: Path) -> None:
    written(tmp_path)
    for index, steps in enumerate([[1, 2, 3], [4, 5, 6], [7, 8]]):
        with safe_open(tmp_path / f"snapshots-0000{index}.safetensors", framework="np") as file:
            header = json.loads(file.metadata()["pacdp"])
            stored = file.get_tensor("weights")
        assert header == {
            "format": FORMAT, "chains": 2, "dim": 7, "dtype": "float32", "layout": "row-major", "capacity": 3,
            "parameters": [["z.weight", [2, 3]], ["a.bias", []]], "steps": steps,
        }  # fmt: skip
        assert np.array_equal(stored, torch.stack([weights_at(step) for step in steps]).numpy())
    assert len(list(tmp_path.iterdir())) == 3


@pytest.mark.parametrize("dim", [1, 40, 1000])
@pytest.mark.parametrize("shard_bytes", [6_000, 20_000, 100_000])
def test_a_shard_file_is_never_above_its_size(tmp_path: Path, dim: int, shard_bytes: int) -> None:
    shape = WeightsShape(chains=1, parameters=(('"quoted" é', (dim,)),), layout="\\" * 40)
    store = DiskSnapshots.create(tmp_path, shape=shape, shard_bytes=shard_bytes)
    for i in range(200 if dim > 1 else 4000):
        store.append(2**62 + i, torch.zeros(dim))
    store.flush()
    sizes = [path.stat().st_size for path in sorted(tmp_path.iterdir())]
    assert max(sizes) <= shard_bytes
    if len(sizes) > 1:
        assert sizes[0] > 0.8 * shard_bytes - shape.bytes - 1000


@pytest.mark.parametrize("seed", range(6))
def test_resuming_at_random_points_is_exact(tmp_path: Path, seed: int) -> None:
    """Every checkpoint flushes first; a crash comes at any later step; the chain goes on from the checkpoint."""
    rng = np.random.default_rng(seed)
    thinning = Thinning(burn_in=4, every=3, keep=24)
    last, checkpoint = 90, int(rng.integers(3, 9))

    def advance(store: DiskSnapshots, first: int, stop: int) -> int:
        saved = first
        for step in range(first + 1, stop + 1):
            if thinning.takes(step):
                store.append(step, weights_at(step))
            if step % checkpoint == 0:
                store.flush()
                saved = step
        return saved

    whole = DiskSnapshots.create(tmp_path / "whole", shape=SHAPE, shard_bytes=SMALL)
    advance(whole, 0, last)
    whole.flush()
    store, saved, crashes = DiskSnapshots.create(tmp_path / "cut", shape=SHAPE, shard_bytes=SMALL), 0, 0
    while saved < last:
        stop = min(last, saved + int(rng.integers(1, 40)))
        saved = advance(store, saved, stop)
        if stop == last:
            break
        crashes += 1
        store = DiskSnapshots.open(tmp_path / "cut", up_to_step=saved, shape=SHAPE)
        assert len(store) == thinning.count(saved)
    store.flush()
    assert crashes > 0
    assert contents(tmp_path / "cut") == contents(tmp_path / "whole")


@pytest.mark.parametrize("step", range(-1, 10))
def test_open_drops_the_newer_ones_at_once(tmp_path: Path, step: int) -> None:
    folder = written(tmp_path / "cut")
    (folder / ".partial").mkdir()
    (folder / ".partial" / "half").write_bytes(b"half a shard")
    store = DiskSnapshots.open(folder, up_to_step=step)
    kept = list(range(1, min(step, 8) + 1))
    assert_holds(read_snapshots(folder), kept)
    assert len(list(folder.iterdir())) == max(1, -(-len(kept) // 3))
    fill(store, list(range(len(kept) + 1, 9)))
    assert contents(folder) == contents(written(tmp_path / "whole"))


def test_open_and_create_know_whose_folder_it_is(tmp_path: Path) -> None:
    other = WeightsShape(chains=2, parameters=(("w", (7,)),), layout="row-major")
    with pytest.raises(CheckpointError, match="no snapshots in"):
        DiskSnapshots.open(tmp_path, up_to_step=3)
    before = contents(written(tmp_path))
    with pytest.raises(CheckpointError, match="holds snapshots already: open it to go on"):
        DiskSnapshots.create(tmp_path, shape=SHAPE)
    with pytest.raises(CheckpointError, match=r"holds snapshots of .* not of "):
        DiskSnapshots.open(tmp_path, up_to_step=3, shape=other)
    assert contents(tmp_path) == before
    (tmp_path / "file").touch()
    with pytest.raises(CheckpointError, match="cannot write"):
        DiskSnapshots.create(tmp_path / "file" / "folder", shape=SHAPE)


@pytest.mark.parametrize(
    ("step", "weights", "says"),
    [
        (2, torch.ones(2, 7), "above 2, got 2: append in order"),
        (1, torch.ones(2, 7), "above 2, got 1: append in order"),
        (3, torch.ones(2, 6), r"float32 \[chains, dim\] = \[2, 7\], got torch.float32 \[2, 6\]"),
        (3, torch.ones(3, 7), r"got torch.float32 \[3, 7\]"),
        (3, torch.ones(7), r"got torch.float32 \[7\]"),
        (3, torch.ones(14), r"got torch.float32 \[14\]"),
        (3, torch.ones(2, 7).double(), r"got torch.float64 \[2, 7\]"),
    ],
)
def test_other_weights_are_refused(tmp_path: Path, step: int, weights: Tensor, says: str) -> None:
    disk = DiskSnapshots.create(tmp_path, shape=SHAPE, shard_bytes=SMALL)
    for store in (disk, MemorySnapshots(shape=SHAPE, keep=8)):
        fill(store, [1, 2])
        with pytest.raises(ValueError, match=says):
            store.append(step, weights)
        fill(store, [3])
        assert_holds(store, [1, 2, 3])


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_weights_that_are_no_numbers_are_refused(tmp_path: Path, bad: float) -> None:
    weights = torch.ones(2, 7)
    weights[1, 6] = bad
    disk = DiskSnapshots.create(tmp_path, shape=SHAPE, shard_bytes=SMALL)
    for store in (disk, MemorySnapshots(shape=SHAPE, keep=8)):
        with pytest.raises(Diverged, match="a weight became NaN or infinite at step 9"):
            store.append(9, weights)
        assert_holds(store, [])


def test_memory_ends_at_keep() -> None:
    store = MemorySnapshots(shape=SHAPE, keep=2)
    fill(store, [1, 2])
    with pytest.raises(ValueError, match="holds keep=2 snapshots already"):
        store.append(3, weights_at(3))
    assert_holds(store, [1, 2])
    with pytest.raises(ValueError, match="expected keep >= 1"):
        MemorySnapshots(shape=SHAPE, keep=0)


def test_a_shard_must_hold_a_snapshot(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"shard_bytes=100 cannot hold a snapshot of 56 bytes: pass (\d+)") as refused:
        DiskSnapshots.create(tmp_path, shape=SHAPE, shard_bytes=100)
    least = int(str(refused.value).split()[-1])
    fill(DiskSnapshots.create(tmp_path, shape=SHAPE, shard_bytes=least), [1, 2])
    assert len(contents(tmp_path)) == 2
    with pytest.raises(ValueError, match="cannot hold a snapshot"):
        DiskSnapshots.create(tmp_path / "less", shape=SHAPE, shard_bytes=least - 1)


@pytest.mark.parametrize("place", ["save_file", "os.fsync"])
def test_a_full_disk_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    def fail(tensors: object, file: Path | None = None, metadata: object = None) -> None:
        if file is not None:
            file.write_bytes(b"half a shard")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    store = DiskSnapshots.create(tmp_path / "cut", shape=SHAPE, shard_bytes=SMALL)
    fill(store, [1, 2])
    before = contents(tmp_path / "cut")
    store.append(3, weights_at(3))
    with monkeypatch.context() as patch:
        patch.setattr(f"pacdp.chains.shards.{place}", fail)
        for call in (store.flush, lambda: store.append(4, weights_at(4))):
            with pytest.raises(CheckpointError, match=r"cannot write .*No space left.*free space or choose another"):
                call()
            assert list(store.steps) == [1, 2, 3]
            assert contents(tmp_path / "cut") == before
    fill(store, [4, 5, 6, 7, 8])
    assert contents(tmp_path / "cut") == contents(written(tmp_path / "whole"))


@pytest.mark.parametrize("snapshots", [1, 3, 7, 50])
def test_space_is_asked_for_before_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, snapshots: int) -> None:
    free = 0
    usage = type("Usage", (), {"free": property(lambda self: free)})()
    monkeypatch.setattr(module.shutil, "disk_usage", lambda path: usage)
    folder = tmp_path / "not" / "yet"
    with pytest.raises(
        CheckpointError, match=rf"has 0 bytes free, {snapshots} snapshots need \d+: make room"
    ) as refused:
        require_space(folder, shape=SHAPE, snapshots=snapshots, shard_bytes=SMALL)
    needed = free = int(str(refused.value).split("need ")[1].split(":")[0])
    require_space(folder, shape=SHAPE, snapshots=snapshots, shard_bytes=SMALL)
    free -= 1
    with pytest.raises(CheckpointError, match="make room"):
        require_space(folder, shape=SHAPE, snapshots=snapshots, shard_bytes=SMALL)
    sizes = [len(data) for data in contents(written(folder, steps=snapshots)).values()]
    assert sum(sizes) + max(sizes) <= needed <= 2 * (sum(sizes) + max(sizes)) + 2 * SMALL


@pytest.mark.parametrize("shard", [0, 1, 2])
def test_a_file_cut_anywhere_is_refused(tmp_path: Path, shard: int) -> None:
    path = written(tmp_path) / f"snapshots-0000{shard}.safetensors"
    whole = path.read_bytes()
    for cut in (*(whole[:length] for length in {*range(20), *range(20, len(whole), 5), len(whole) - 1}), whole + b"x"):
        path.write_bytes(cut)
        with pytest.raises(CheckpointError, match=f"{path.name} is truncated or no safetensors file"):
            read_snapshots(tmp_path)
    with pytest.raises(CheckpointError, match="is truncated"):
        DiskSnapshots.open(tmp_path, up_to_step=8)
    path.write_bytes(whole)
    assert len(read_snapshots(tmp_path)) == 8


def test_damage_of_a_header_is_met_with_a_sentence_or_none(tmp_path: Path) -> None:
    path = written(tmp_path) / "snapshots-00001.safetensors"
    whole, rng, refused = path.read_bytes(), np.random.default_rng(0), 0
    for _ in range(400):
        damaged = bytearray(whole)
        damaged[rng.integers(len(whole) - 3 * SHAPE.bytes)] = rng.integers(256)
        path.write_bytes(damaged)
        try:
            for _ in read_snapshots(tmp_path):
                pass
        except CheckpointError:
            refused += 1
    assert refused > 300


class Bomb:
    """Unpickling this creates a folder."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple:
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("writer", [lambda bomb, path: path.write_bytes(pickle.dumps(bomb)), torch.save])
def test_a_pickle_is_refused_and_never_run(tmp_path: Path, writer: Callable[[Bomb, Path], object]) -> None:
    writer(Bomb(tmp_path / "ran"), tmp_path / "snapshots-00000.safetensors")
    with pytest.raises(CheckpointError, match="is truncated or no safetensors file"):
        read_snapshots(tmp_path)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("metadata", "says"),
    [
        (None, "None"),
        ({"author": "somebody"}, "None"),
        ({"pacdp": "no json"}, "None"),
        ({"pacdp": "[" * 100_000}, "None"),
        ({"pacdp": "[1]"}, "None"),
        ({"pacdp": '{"format": "pacdp-snapshots/2"}'}, "'pacdp-snapshots/2'"),
    ],
    ids=range(6),
)
def test_other_safetensors_are_refused(tmp_path: Path, metadata: dict[str, str] | None, says: str) -> None:
    save_file({"weights": torch.ones(3, 2, 7)}, tmp_path / "snapshots-00000.safetensors", metadata=metadata)
    with pytest.raises(CheckpointError, match=rf"holds no {FORMAT} \(it says {says}\)"):
        read_snapshots(tmp_path)


@pytest.mark.parametrize(
    "change",
    [
        {"dim": 6}, {"chains": 1}, {"chains": "2"}, {"chains": None}, {"dtype": "float64"}, {"layout": 3, "dim": 0},
        {"steps": [1, 2]}, {"steps": [1, 2, 3, 4]}, {"steps": [1, 3, 2]}, {"steps": [1, 1, 2]}, {"steps": [-1, 0, 1]},
        {"steps": [1.0, 2.0, 3.0]}, {"steps": ["1", "2", "3"]}, {"steps": 3}, {"steps": None}, {"capacity": 2},
        {"capacity": "3"}, {"capacity": 10**12}, {"parameters": []}, {"parameters": [["w", 7]]}, {"parameters": "w"},
        {"parameters": [["w", [8]]]}, {"parameters": [["w", [-1]], ["v", [8]]]}, {"parameters": [[["w"], [7]]]},
        {"more": 1},
    ],
    ids=str,
)  # fmt: skip
def test_a_header_that_contradicts_itself_is_refused(tmp_path: Path, change: dict[str, object]) -> None:
    path = written(tmp_path, steps=3) / "snapshots-00000.safetensors"
    with safe_open(path, framework="pt") as file:
        header, tensor = json.loads(file.metadata()["pacdp"]), file.get_tensor("weights").clone()
    save_file({"weights": tensor}, path, metadata={"pacdp": json.dumps(header)})
    assert len(read_snapshots(tmp_path)) == 3
    save_file({"weights": tensor}, path, metadata={"pacdp": json.dumps(header | change)})
    with pytest.raises(CheckpointError, match="which its header does not describe"):
        read_snapshots(tmp_path)
    for tensors in ({"w": tensor}, {"weights": tensor.double()}, {"weights": tensor, "more": torch.ones(1)}, {}):
        save_file(tensors, path, metadata={"pacdp": json.dumps(header)})
        with pytest.raises(CheckpointError, match="which its header does not describe"):
            read_snapshots(tmp_path)


def test_shards_that_do_not_follow_each_other_are_refused(tmp_path: Path) -> None:
    folder = written(tmp_path / "chain")
    first, second, third = sorted(folder.iterdir())
    data = contents(folder)
    other = WeightsShape(chains=1, parameters=(("w", (14,)),), layout="")
    foreign = DiskSnapshots.create(tmp_path / "other", shape=other, shard_bytes=SMALL)
    foreign.append(9, torch.ones(14))
    foreign.flush()

    def refused(says: str) -> None:
        with pytest.raises(CheckpointError, match=says):
            read_snapshots(folder)
        for path in folder.iterdir():
            path.unlink()
        for name, whole in data.items():
            (folder / name).write_bytes(whole)
        assert len(read_snapshots(folder)) == 8

    first.unlink()
    refused("lacks one of its first 2 shards")
    second.unlink()
    refused("lacks one of its first 2 shards")
    (folder / "snapshots-old.safetensors").write_bytes(b"")
    refused("lacks one of its first 4 shards or holds a foreign one")
    second.write_bytes(third.read_bytes())
    refused("snapshots-00002.safetensors does not go on from snapshots-00001.safetensors")
    third.write_bytes(second.read_bytes())
    refused("does not go on from")
    third.write_bytes((foreign.folder / first.name).read_bytes())
    refused("does not go on from")


def test_a_reader_sees_the_folder_as_it_was(tmp_path: Path) -> None:
    store = DiskSnapshots.create(tmp_path, shape=SHAPE, shard_bytes=SMALL)
    fill(store, [1, 2, 3, 4])
    reader = read_snapshots(tmp_path)
    fill(store, [5, 6, 7])
    assert_holds(reader, [1, 2, 3, 4])
    DiskSnapshots.open(tmp_path, up_to_step=2)
    with pytest.raises(CheckpointError, match="was cut back while it was read"):
        list(reader)


def chain(folder: Path, last: int, stall_at: int | None, place: str) -> None:
    """Go on from the checkpoint to step ``last``; ``stall_at``: the write that never ends."""
    writes = 0

    def stall(tensors: object, file: Path | None = None, metadata: object = None) -> None:
        nonlocal writes
        writes += 1
        if writes == stall_at:
            if file is not None:
                file.write_bytes(b"half a shard")
            (folder / "stalled").touch()
            time.sleep(60)
        if file is not None:
            save_file(tensors, file, metadata=metadata)

    if stall_at is not None:
        setattr(*((module, "save_file", stall) if place == "save_file" else (module.os, "fsync", stall)))
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


def killed(folder: Path, last: int, stall_at: int | None, place: str, after: float) -> bool:
    """Run the chain in a process and kill it, stalled or ``after`` seconds; whether the kill came in time."""
    process = multiprocessing.get_context("fork").Process(target=chain, args=(folder, last, stall_at, place))
    process.start()
    if stall_at is None:
        time.sleep(after)
    while stall_at is not None and process.is_alive() and not (folder / "stalled").exists():
        time.sleep(0.001)
    process.kill()
    process.join()
    (folder / "stalled").unlink(missing_ok=True)
    return process.exitcode == -signal.SIGKILL


@pytest.mark.parametrize("place", ["save_file", "fsync", "anywhere"])
def test_a_kill_leaves_the_beginning_of_the_chain(tmp_path: Path, place: str) -> None:
    rng, kills, halves = np.random.default_rng(1), 0, 0
    for i in range(14):
        stall_at = None if place == "anywhere" else 1 + i % 7
        kills += killed(tmp_path, 200, stall_at, place, float(rng.uniform(0.001, 0.03)))
        halves += any(tmp_path.glob("chain/.partial/*"))
        if any(tmp_path.glob("chain/snapshots-*")):
            steps = list(read_snapshots(tmp_path / "chain").steps)
            assert_holds(read_snapshots(tmp_path / "chain"), list(range(1, len(steps) + 1)))
            checkpoint = tmp_path / "checkpoint"
            assert len(steps) >= (int(checkpoint.read_text()) if checkpoint.exists() else 0)
    assert kills > (0 if place == "anywhere" else 3)
    assert place == "anywhere" or halves == kills
    chain(tmp_path, 200, None, place)
    assert contents(tmp_path / "chain") == contents(written(tmp_path / "whole", steps=200))


STREAM = """
import sys, time
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
start = time.perf_counter()
store = DiskSnapshots.create(folder / "stream", shape=shape, shard_bytes=shard_bytes)
for step in range(count):
    torch.add(model, step, out=weights)
    store.append(step, weights)
store.flush()
write_s, write_peak, start = time.perf_counter() - start, peak(), time.perf_counter()
del store
for number, (step, read) in enumerate(read_snapshots(folder / "stream")):
    assert step == number and torch.equal(read[0], torch.add(model, step, out=weights))
assert number == count - 1
read_s = time.perf_counter() - start
print(baseline, write_peak - baseline, peak() - baseline, write_s, read_s)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads the peak from /proc")
@pytest.mark.parametrize(
    ("count", "dim", "shard_bytes", "most"),
    [
        pytest.param(100, 250_000, 4 * 2**20, 24 * 10**6, id="100MB"),
        pytest.param(1_000, 832_201, 64 * 2**20, 10**9, id="FC600", marks=pytest.mark.slow),
    ],
)
def test_memory_is_a_shard_and_not_the_chain(tmp_path: Path, count: int, dim: int, shard_bytes: int, most: int) -> None:
    """Peak resident memory of a process above that with its model: VmHWM, mapped pages of the files included."""
    command = [sys.executable, "-c", STREAM, str(tmp_path), str(count), str(dim), str(shard_bytes)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    finally:
        shutil.rmtree(tmp_path, ignore_errors=True)
    assert done.returncode == 0, done.stderr
    baseline, writing, both, write_s, read_s = map(float, done.stdout.split())
    megabytes = count * dim * 4 / 1e6
    print(f"{megabytes:.0f} MB: peak above {baseline / 1e6:.0f} MB: {writing / 1e6:.0f} MB writing, "
          f"{both / 1e6:.0f} MB with reading; {megabytes / write_s:.0f} MB/s written, "
          f"{megabytes / read_s:.0f} MB/s read and compared")  # fmt: skip
    assert both < most
