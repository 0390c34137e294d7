"""Snapshots: a resumed chain's folder is that of an uninterrupted one; room on the disk is asked for before."""

import errno
import os

import torch

from pacdp import load_checkpoint
from pacdp.chains.snapshots import file_bytes, read_snapshots, resume_snapshots
from pacdp.errors import CheckpointError, Diverged
from tests.marks import every_case, parametrize, refusal
from tests.pacdp.chains.snapshot_folders import SHAPES, assert_holds, begun, contents, fill, weights_at, written


@every_case("count", [1, 3, 8])
def test_a_folder_holds_copies_of_what_was_appended(tmp_path, count):
    steps = [5 * i for i in range(count)]
    store = begun(tmp_path)
    fill(store, steps)
    for _, weights in store:
        assert weights["z.weight"].untyped_storage().nbytes() == 24  # and no view that keeps a file alive
        weights["z.weight"].zero_()
    assert_holds(store, steps)
    reader = read_snapshots(tmp_path)
    assert_holds(reader, steps)
    assert load_checkpoint(tmp_path / "snapshots-00000.safetensors").header["step"] == steps[0]
    assert len(list(tmp_path.iterdir())) == count


@every_case("step", [-1, 0, 1, 5, 8, 9])
def test_resuming_drops_the_newer_ones_at_once(tmp_path, step):
    folder = written(tmp_path / "cut")
    store = resume_snapshots(folder, up_to_step=step)
    kept = list(range(1, min(step, 8) + 1))
    assert_holds(store, kept)
    assert len(list(folder.iterdir())) == len(kept)
    fill(store, range(len(kept) + 1, 9))
    assert contents(folder) == contents(written(tmp_path / "whole"))


def test_a_folder_that_cannot_be_is_said(tmp_path):
    with refusal("no snapshots in", CheckpointError):
        read_snapshots(tmp_path)
    (tmp_path / "file").touch()
    with refusal("cannot write", CheckpointError):
        begun(tmp_path / "file" / "folder").append(1, weights_at(1))


def test_other_weights_are_refused_and_change_nothing(tmp_path):
    store = begun(tmp_path)
    fill(store, [1, 2])
    with refusal("above 2, got 2: append in order"):
        store.append(2, weights_at(2))
    with refusal("a weight became NaN or infinite at step 9", Diverged):
        store.append(9, {**weights_at(9), "a.bias": torch.tensor(torch.inf)})
    fill(store, [3])
    assert_holds(store, [1, 2, 3])


def test_a_full_disk_loses_nothing(tmp_path, monkeypatch):
    def fail(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    store = begun(tmp_path / "cut")
    fill(store, [1, 2])
    before = contents(tmp_path / "cut")
    with monkeypatch.context() as patch:
        patch.setattr("pacdp.store.files.os.fsync", fail)
        for _ in range(2):
            with refusal(r"cannot write .*No space left.*free space or choose another", CheckpointError):
                store.append(3, weights_at(3))
            assert list(store.steps) == [1, 2]
            assert contents(tmp_path / "cut") == before
    fill(store, range(3, 9))
    assert contents(tmp_path / "cut") == contents(written(tmp_path / "whole"))


@parametrize(("snapshots", "shapes"), [(1, SHAPES), (50, SHAPES), (3, {'"é' * 20: (4000,)})])
def test_files_are_no_larger_than_is_asked_for_before_the_run(tmp_path, snapshots, shapes):
    store = begun(tmp_path)
    for step in range(snapshots):
        store.append(2**62 + step, weights_at(step, shapes))
    taken, asked = sum(len(data) for data in contents(tmp_path).values()), snapshots * file_bytes(shapes)
    assert taken <= asked <= taken + 3000 * snapshots


def test_a_reader_sees_the_folder_as_it_was(tmp_path):
    store = begun(tmp_path)
    fill(store, [1, 2, 3, 4])
    reader = read_snapshots(tmp_path)
    fill(store, [5, 6, 7])
    assert_holds(reader, [1, 2, 3, 4])
    store = resume_snapshots(tmp_path, up_to_step=2)
    for again in ([], [8, 9]):
        fill(store, again)
        with refusal("was cut back while it was read", CheckpointError):
            list(reader)
