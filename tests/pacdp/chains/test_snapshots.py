"""Snapshots: a resumed chain's folder is that of an uninterrupted one; memory and disk are asked for before."""

import errno
import os
from functools import partial

import torch
from numpy.random import default_rng

from pacdp.chains import shards as module
from pacdp.chains.snapshots import (
    DiskSnapshots,
    MemorySnapshots,
    Thinning,
    WeightsShape,
    read_snapshots,
    require_space,
)
from pacdp.errors import CheckpointError, Diverged
from tests.marks import every_case, parametrize, refusal
from tests.pacdp.chains.snapshot_folders import SHAPE, SMALL, assert_holds, contents, created, fill, weights_at, written


@parametrize(("burn_in", "every", "keep"), [(0, 1, 1), (1, 3, 4), (7, 1, 4), (7, 3, 1)])
def test_thinning(burn_in, every, keep):
    thinning = Thinning(burn_in=burn_in, every=every, keep=keep)
    taken = [step for step in range(60) if thinning.takes(step)]
    assert taken == [burn_in + (i + 1) * every for i in range(keep)]
    assert [thinning.count(step) for step in range(60)] == [sum(t <= step for t in taken) for step in range(60)]


@every_case("count", [0, 1, 3, 4, 8])
def test_both_stores_hold_copies_of_what_was_appended(tmp_path, count):
    steps = [5 * i for i in range(count)]
    disk = created(tmp_path)
    for store in (disk, MemorySnapshots(shape=SHAPE, keep=8)):
        fill(store, steps)
        for _, weights in store:
            assert weights.untyped_storage().nbytes() == SHAPE.bytes  # and no view that keeps a shard alive
            weights.zero_()
        assert_holds(store, steps)
    reader = read_snapshots(tmp_path)
    assert reader.shape == SHAPE
    assert_holds(reader, steps)


@parametrize(("dim", "shard_bytes"), [(1, 100_000), (40, 6_000), (1000, 20_000)])
def test_a_shard_file_is_never_above_its_size(tmp_path, dim, shard_bytes):
    shape = WeightsShape(chains=1, parameters=(('"quoted" é', (dim,)),), layout="\\" * 40)
    store = DiskSnapshots.create(tmp_path, shape=shape, shard_bytes=shard_bytes)
    for i in range(200 if dim > 1 else 4000):
        store.append(2**62 + i, torch.zeros(dim))
    store.flush()
    sizes = [path.stat().st_size for path in sorted(tmp_path.iterdir())]
    assert max(sizes) <= shard_bytes
    if len(sizes) > 1:
        assert sizes[0] > 0.8 * shard_bytes - shape.bytes - 1000


@parametrize("seed", range(6))
def test_resuming_at_random_points_is_exact(tmp_path, seed):
    """Every checkpoint flushes first; a crash comes at any later step; the chain goes on from the checkpoint."""
    rng = default_rng(seed)
    thinning = Thinning(burn_in=4, every=3, keep=24)
    last, checkpoint = 90, int(rng.integers(3, 9))

    def advance(store, first, stop):
        saved = first
        for step in range(first + 1, stop + 1):
            if thinning.takes(step):
                store.append(step, weights_at(step))
            if step % checkpoint == 0:
                store.flush()
                saved = step
        return saved

    whole = created(tmp_path / "whole")
    advance(whole, 0, last)
    whole.flush()
    store, saved, crashes = created(tmp_path / "cut"), 0, 0
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


@every_case("step", [-1, 0, 2, 3, 5, 8, 9])
def test_open_drops_the_newer_ones_at_once(tmp_path, step):
    folder = written(tmp_path / "cut")
    (folder / ".partial").mkdir()
    (folder / ".partial" / "half").write_bytes(b"half a shard")
    store = DiskSnapshots.open(folder, up_to_step=step)
    kept = list(range(1, min(step, 8) + 1))
    assert_holds(read_snapshots(folder), kept)
    assert len(list(folder.iterdir())) == max(1, -(-len(kept) // 3))
    fill(store, list(range(len(kept) + 1, 9)))
    assert contents(folder) == contents(written(tmp_path / "whole"))


def test_open_and_create_know_whose_folder_it_is(tmp_path):
    other = WeightsShape(chains=2, parameters=(("w", (7,)),), layout="row-major")
    with refusal("no snapshots in", CheckpointError):
        DiskSnapshots.open(tmp_path, up_to_step=3)
    before = contents(written(tmp_path))
    with refusal("holds snapshots already: open it to go on", CheckpointError):
        DiskSnapshots.create(tmp_path, shape=SHAPE)
    with refusal(r"holds snapshots of .* not of ", CheckpointError):
        DiskSnapshots.open(tmp_path, up_to_step=3, shape=other)
    assert contents(tmp_path) == before
    (tmp_path / "file").touch()
    with refusal("cannot write", CheckpointError):
        DiskSnapshots.create(tmp_path / "file" / "folder", shape=SHAPE)


def test_other_weights_are_refused_and_change_nothing(tmp_path):
    broken = torch.ones(2, 7)
    broken[1, 6] = torch.inf
    disk = created(tmp_path)
    for store in (disk, MemorySnapshots(shape=SHAPE, keep=3)):
        fill(store, [1, 2])
        for step, weights, error, says in (
            (2, torch.ones(2, 7), ValueError, "above 2, got 2: append in order"),
            (3, torch.ones(14), ValueError, r"float32 \[chains, dim\] = \[2, 7\], got torch.float32 \[14\]"),
            (3, torch.ones(2, 7).double(), ValueError, r"got torch.float64 \[2, 7\]"),
            (9, broken, Diverged, "a weight became NaN or infinite at step 9"),
        ):
            with refusal(says, error):
                store.append(step, weights)
        fill(store, [3])
        assert_holds(store, [1, 2, 3])
    with refusal("holds keep=3 snapshots already"):
        store.append(4, weights_at(4))
    assert_holds(store, [1, 2, 3])


@parametrize("place", ["save_file", "os.fsync"])
def test_a_full_disk_loses_nothing(tmp_path, monkeypatch, place):
    def fail(tensors, file=None, metadata=None):
        if file is not None:
            file.write_bytes(b"half a shard")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    store = created(tmp_path / "cut")
    fill(store, [1, 2])
    before = contents(tmp_path / "cut")
    store.append(3, weights_at(3))
    with monkeypatch.context() as patch:
        patch.setattr(f"pacdp.chains.shards.{place}", fail)
        for call in (store.flush, lambda: store.append(4, weights_at(4))):
            with refusal(r"cannot write .*No space left.*free space or choose another", CheckpointError):
                call()
            assert list(store.steps) == [1, 2, 3]
            assert contents(tmp_path / "cut") == before
    fill(store, [4, 5, 6, 7, 8])
    assert contents(tmp_path / "cut") == contents(written(tmp_path / "whole"))


@parametrize("snapshots", [1, 3, 7, 50])
def test_space_is_asked_for_before_the_run(tmp_path, monkeypatch, snapshots):
    free = 0
    usage = type("Usage", (), {"free": property(lambda self: free)})()
    monkeypatch.setattr(module.shutil, "disk_usage", lambda path: usage)
    folder = tmp_path / "not" / "yet"
    asked = partial(require_space, folder, shape=SHAPE, snapshots=snapshots, shard_bytes=SMALL)
    with refusal(rf"has 0 bytes free, {snapshots} snapshots need \d+: make room", CheckpointError) as refused:
        asked()
    needed = free = int(str(refused.value).split("need ")[1].split(":")[0])
    asked()
    free -= 1
    with refusal("make room", CheckpointError):
        asked()
    sizes = [len(data) for data in contents(written(folder, steps=snapshots)).values()]
    assert sum(sizes) + max(sizes) <= needed <= 2 * (sum(sizes) + max(sizes)) + 2 * SMALL


def test_a_reader_sees_the_folder_as_it_was(tmp_path):
    store = created(tmp_path)
    fill(store, [1, 2, 3, 4])
    reader = read_snapshots(tmp_path)
    fill(store, [5, 6, 7])
    assert_holds(reader, [1, 2, 3, 4])
    DiskSnapshots.open(tmp_path, up_to_step=2)
    with refusal("was cut back while it was read", CheckpointError):
        list(reader)
