"""Files of snapshots that are cut, damaged, foreign or pickles are refused with a sentence."""

import json

import torch
from safetensors import safe_open
from safetensors.torch import save_file

from pacdp.chains.snapshots import (
    FORMAT,
    DiskSnapshots,
    WeightsShape,
    read_snapshots,
)
from pacdp.errors import CheckpointError
from tests.marks import parametrize, refusal
from tests.pacdp.chains.snapshot_folders import contents, created, written


@parametrize("shard", [0, 1, 2])
def test_a_file_cut_anywhere_is_refused(tmp_path, shard):
    path = written(tmp_path) / f"snapshots-0000{shard}.safetensors"
    whole = path.read_bytes()
    for cut in (*(whole[:length] for length in {*range(20), *range(20, len(whole), 5), len(whole) - 1}), whole + b"x"):
        path.write_bytes(cut)
        with refusal(f"{path.name} is truncated or no safetensors file", CheckpointError):
            read_snapshots(tmp_path)
    with refusal("is truncated", CheckpointError):
        DiskSnapshots.open(tmp_path, up_to_step=8)
    path.write_bytes(whole)
    assert len(read_snapshots(tmp_path)) == 8


def test_other_safetensors_are_refused(tmp_path):
    for metadata, says in (
        (None, "None"),
        ({"pacdp": "[" * 100_000}, "None"),
        ({"pacdp": '{"format": "pacdp-snapshots/2"}'}, "'pacdp-snapshots/2'"),
    ):
        save_file({"weights": torch.ones(3, 2, 7)}, tmp_path / "snapshots-00000.safetensors", metadata=metadata)
        with refusal(rf"holds no {FORMAT} \(it says {says}\)", CheckpointError):
            read_snapshots(tmp_path)


CONTRADICTIONS = [
    {"dim": 6}, {"chains": "2"}, {"dtype": "float64"}, {"steps": [1, 2, 3, 4]}, {"steps": [1, 1, 2]},
    {"steps": [1.0, 2.0, 3.0]}, {"steps": None}, {"capacity": 2}, {"capacity": 10**12}, {"parameters": []},
    {"parameters": [["w", [-1]], ["v", [8]]]}, {"more": 1},
]  # fmt: skip


def test_a_header_that_contradicts_itself_is_refused(tmp_path):
    path = written(tmp_path, steps=3) / "snapshots-00000.safetensors"
    with safe_open(path, framework="pt") as file:
        header, tensor = json.loads(file.metadata()["pacdp"]), file.get_tensor("weights").clone()
    others = [{"w": tensor}, {"weights": tensor.double()}, {"weights": tensor, "more": torch.ones(1)}, {}]
    damaged = [({"weights": tensor}, header | change) for change in CONTRADICTIONS]
    for tensors, said in [*damaged, *((one, header) for one in others)]:
        save_file(tensors, path, metadata={"pacdp": json.dumps(said)})
        with refusal("which its header does not describe", CheckpointError):
            read_snapshots(tmp_path)
    save_file({"weights": tensor}, path, metadata={"pacdp": json.dumps(header)})
    assert len(read_snapshots(tmp_path)) == 3


def test_shards_that_do_not_follow_each_other_are_refused(tmp_path):
    folder = written(tmp_path / "chain")
    first, second, third = sorted(folder.iterdir())
    data = contents(folder)
    other = WeightsShape(chains=1, parameters=(("w", (14,)),), layout="")
    foreign = created(tmp_path / "other", other)
    foreign.append(9, torch.ones(14))
    foreign.flush()

    def refused(says):
        with refusal(says, CheckpointError):
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
