"""Files of snapshots that are cut, damaged, foreign, pickles or of an earlier format are refused with a sentence."""

import json

import torch
from safetensors import safe_open
from safetensors.torch import save_file

from pacdp.chains.snapshots import FORMAT, WeightsShape, read_snapshots, resume_snapshots
from pacdp.errors import CheckpointError
from tests.marks import parametrize, refusal
from tests.pacdp.chains.snapshot_folders import SHAPE, begun, contents, weights_at, written


@parametrize("number", [0, 2])
def test_a_file_cut_anywhere_is_refused(tmp_path, number):
    path = written(tmp_path, steps=3) / f"snapshots-0000{number}.safetensors"
    whole = path.read_bytes()
    for cut in (*(whole[:length] for length in {*range(20), *range(20, len(whole), 5), len(whole) - 1}), whole + b"x"):
        path.write_bytes(cut)
        with refusal(f"{path.name} is truncated or no safetensors file", CheckpointError):
            read_snapshots(tmp_path)
    with refusal("is truncated", CheckpointError):
        resume_snapshots(tmp_path, up_to_step=8, shape=SHAPE)
    path.write_bytes(whole)
    assert len(read_snapshots(tmp_path)) == 3


EARLIER = r"of the earlier format pacdp-snapshots/1, which pacdp at commit \w+ reads"


def test_other_safetensors_are_refused(tmp_path):
    foreign = rf"holds no {FORMAT} \(it says "
    for metadata, says in (
        (None, f"{foreign}None"),
        ({"pacdp": "[" * 100_000}, f"{foreign}None"),
        ({"pacdp": '{"format": []}'}, f"{foreign}None"),
        ({"pacdp": '{"format": "pacdp-snapshots/3"}'}, f"{foreign}'pacdp-snapshots/3'"),
        ({"pacdp": '{"format": "pacdp-snapshots/1", "steps": [1, 2, 3]}'}, EARLIER),
    ):
        save_file({"weights": torch.ones(3, 2, 7)}, tmp_path / "snapshots-00000.safetensors", metadata=metadata)
        with refusal(says, CheckpointError):
            read_snapshots(tmp_path)
        with refusal(says, CheckpointError):
            resume_snapshots(tmp_path, up_to_step=0, shape=SHAPE)


CONTRADICTIONS = [
    {"step": -1}, {"step": True}, {"layout": None, "more": 1}, {"parameters": []}, {"more": 1},
    {"parameters": [["w", [-1]], ["v", [8]]]}, {"parameters": [["w", [6]]]}, {"parameters": [["w", "7"]]},
]  # fmt: skip


def test_a_header_that_contradicts_itself_is_refused(tmp_path):
    path = written(tmp_path, steps=1) / "snapshots-00000.safetensors"
    with safe_open(path, framework="pt") as file:
        header, tensor = json.loads(file.metadata()["pacdp"]), file.get_tensor("weights").clone()
    others = [{"w": tensor}, {"weights": tensor.double()}, {"weights": tensor[None]},
              {"weights": tensor, "more": torch.ones(1)}, {}]  # fmt: skip
    damaged = [({"weights": tensor}, header | change) for change in CONTRADICTIONS]
    for tensors, said in [*damaged, *((one, header) for one in others)]:
        save_file(tensors, path, metadata={"pacdp": json.dumps(said)})
        with refusal("which its header does not describe", CheckpointError):
            read_snapshots(tmp_path)
    save_file({"weights": tensor}, path, metadata={"pacdp": json.dumps(header)})
    assert len(read_snapshots(tmp_path)) == 1


def test_snapshots_that_do_not_follow_each_other_are_refused(tmp_path):
    folder = written(tmp_path / "chain", steps=3)
    first, second, third = sorted(folder.iterdir())
    data = contents(folder)
    other = WeightsShape(parameters=(("w", (14,)),), layout="")
    foreign = begun(tmp_path / "other", other)
    foreign.append(9, weights_at(9, other))

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
    refused("snapshots-00002.safetensors does not go on from snapshots-00001.safetensors")
    third.write_bytes(second.read_bytes())
    refused("does not go on from")
    third.write_bytes((foreign.folder / first.name).read_bytes())
    refused("does not go on from")
