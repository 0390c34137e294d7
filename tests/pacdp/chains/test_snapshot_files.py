"""Files of snapshots that are cut, damaged, foreign or of an earlier format are refused with a sentence."""

from functools import partial

import torch
from safetensors.torch import save_file

from pacdp import save_checkpoint
from pacdp.chains.snapshots import read_snapshots, resume_snapshots
from pacdp.errors import CheckpointError
from pacdp.store.checkpoint import Checkpoint
from tests.marks import parametrize, refusal
from tests.pacdp.chains.snapshot_folders import begun, contents, weights_at, written


@parametrize("number", [0, 2])
def test_a_file_cut_anywhere_is_refused(tmp_path, number):
    path = written(tmp_path, steps=3) / f"snapshots-0000{number}.safetensors"
    whole = path.read_bytes()
    for cut in (*(whole[:length] for length in {*range(20), *range(20, len(whole), 5), len(whole) - 1}), whole + b"x"):
        path.write_bytes(cut)
        with refusal(f"{path.name} is (empty|truncated or no safetensors file)", CheckpointError):
            read_snapshots(tmp_path)
    with refusal("is truncated", CheckpointError):
        resume_snapshots(tmp_path, up_to_step=8)
    path.write_bytes(whole)
    assert len(read_snapshots(tmp_path)) == 3


def test_other_files_are_refused(tmp_path):
    path = tmp_path / "snapshots-00000.safetensors"
    for metadata, says in (
        (None, r"no pacdp-checkpoint/3 checkpoint \(it says None"),
        ({"pacdp": "[" * 100_000}, "it says None"),
        ({"pacdp": '{"format": "pacdp-snapshots/2"}'}, r"126ce9c reads pacdp-snapshots/2"),
    ):
        save_file({"weights": torch.ones(7)}, path, metadata=metadata)
        for read in (read_snapshots, partial(resume_snapshots, up_to_step=0)):
            with refusal(says, CheckpointError):
                read(tmp_path)
    for header in ({}, {"step": -1}, {"step": True}, {"step": "7"}):
        save_checkpoint(path, Checkpoint(header=header, model=weights_at(1), state={}))
        with refusal("says no step", CheckpointError):
            read_snapshots(tmp_path)


def test_snapshots_that_do_not_follow_each_other_are_refused(tmp_path):
    folder = written(tmp_path / "chain", steps=3)
    first, second, third = sorted(folder.iterdir())
    data = contents(folder)
    foreign = begun(tmp_path / "other")
    foreign.append(9, weights_at(9, {"w": (14,)}))

    def refused(says):
        with refusal(says, CheckpointError):
            read_snapshots(folder)
        for path in folder.iterdir():
            path.unlink()
        for name, whole in data.items():
            (folder / name).write_bytes(whole)
        assert len(read_snapshots(folder)) == 3

    first.unlink()
    refused("lacks one of its first 2 snapshots")
    second.unlink()
    refused("lacks one of its first 2 snapshots")
    (folder / "snapshots-old.safetensors").write_bytes(b"")
    refused("lacks one of its first 4 snapshots or holds a foreign one")
    second.write_bytes(third.read_bytes())
    refused("snapshots-00002.safetensors does not go on from the one before")
    third.write_bytes(second.read_bytes())
    refused("does not go on from")
    third.write_bytes((foreign.folder / first.name).read_bytes())
    refused("does not go on from")
