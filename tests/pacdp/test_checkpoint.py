"""A checkpoint is whole or refused in a sentence; loading runs no code; a failed write leaves the old file."""

import hashlib
import json
import os
import pickle
import random
import re
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from pacdp import Checkpoint, CheckpointError, load_checkpoint, save_checkpoint
from pacdp.checkpoint import FORMAT
from tests.file_faults import Fault, Kind, carried_out, places


def example(fill: float = 1.0) -> Checkpoint:
    """Parameters whose order is not that of the alphabet."""
    model = {"z.weight": torch.full((2, 3), fill), "a.bias": torch.arange(4.0), "b.scale": torch.tensor(7.0)}
    state = {"velocity": torch.linspace(0, 1, 11)}
    header = {"step": 12, "n": 60, "run": {"seed": 3, "tags": ["a", None]}, "loss": {"high": 4.0}}
    trace = {"energy": torch.linspace(1, 2, 5), "pending.energy": torch.empty(0)}
    return Checkpoint(header=header, model=model, state=state, trace=trace)


def saved(folder: Path) -> Path:
    path = folder / "checkpoint.safetensors"
    save_checkpoint(path, example())
    return path


def same(left: Checkpoint, right: Checkpoint) -> bool:
    return all(
        sorted(a) == sorted(b) and all(torch.equal(a[name], b[name]) for name in a)
        for a, b in ((left.model, right.model), (left.state, right.state), (left.trace, right.trace))
    )


def test_round_trip(tmp_path: Path) -> None:
    written, read = example(), load_checkpoint(saved(tmp_path))
    assert same(written, read)
    added = {"format": FORMAT, "parameters": ["z.weight", "a.bias", "b.scale"], "content_hash": read.content_hash}
    assert {**written.header, **added} == read.header
    assert list(read.model) == list(written.model)
    save_checkpoint(tmp_path / "again", read)
    assert same(load_checkpoint(tmp_path / "again"), read)
    assert (tmp_path / "again").read_bytes() == (tmp_path / "checkpoint.safetensors").read_bytes()


def test_the_run_folder_will_do(tmp_path: Path) -> None:
    saved(tmp_path)
    assert same(load_checkpoint(str(tmp_path)), example())


@pytest.mark.parametrize("name", ["nothing.safetensors", "."])
def test_a_missing_file_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(CheckpointError, match=r"no checkpoint at .*: train first"):
        load_checkpoint(tmp_path / name)


def test_an_empty_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    with pytest.raises(CheckpointError, match="is empty: it was never written"):
        load_checkpoint(tmp_path / "empty")


@pytest.mark.parametrize("share", [0.0, 0.001, 0.1, 0.3, 0.6, 0.9, 1.0])
@pytest.mark.parametrize("offset", [1, 7, 8, 9])
def test_a_truncated_file_is_refused(tmp_path: Path, share: float, offset: int) -> None:
    whole = saved(tmp_path).read_bytes()
    length = offset + int(share * (len(whole) - 2 * offset))
    (tmp_path / "part").write_bytes(whole[:length])
    with pytest.raises(CheckpointError, match="is truncated or no safetensors file"):
        load_checkpoint(tmp_path / "part")


def test_bytes_after_the_end_are_refused(tmp_path: Path) -> None:
    (tmp_path / "long").write_bytes(saved(tmp_path).read_bytes() + b"x")
    with pytest.raises(CheckpointError, match="is truncated or no safetensors file"):
        load_checkpoint(tmp_path / "long")


class Bomb:
    """Unpickling this creates a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple:
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("writer", ["pickle", "torch"])
def test_a_pickle_is_refused_and_never_run(tmp_path: Path, writer: str) -> None:
    path, mark = tmp_path / "checkpoint.safetensors", tmp_path / "ran"
    if writer == "pickle":
        path.write_bytes(pickle.dumps(Bomb(mark)))
    else:
        torch.save({"model.w": Bomb(mark)}, path)
    with pytest.raises(CheckpointError, match=r"truncated or no safetensors file|written by torch\.save"):
        load_checkpoint(path)
    assert not mark.exists()
    if writer == "pickle":
        pickle.loads(path.read_bytes())  # noqa: S301 - shows that it would have run
        assert mark.exists()


HEADERS = [
    None,
    {"author": "somebody"},
    {"pacdp": "no json"},
    {"pacdp": "[1, 2]"},
    {"pacdp": "3"},
    {"pacdp": json.dumps({"parameters": ["w"]})},
    {"pacdp": json.dumps({"format": "pacdp-checkpoint/1", "parameters": ["w"]})},
]


@pytest.mark.parametrize("metadata", HEADERS, ids=str)
def test_safetensors_of_another_format_are_refused(tmp_path: Path, metadata: dict[str, str] | None) -> None:
    save_file({"model.w": torch.ones(2)}, tmp_path / "foreign", metadata=metadata)
    says = "it says 'pacdp-checkpoint/1'" if metadata == HEADERS[-1] else "it says None"
    with pytest.raises(CheckpointError, match=rf"is a safetensors file but no {FORMAT} checkpoint \({says}\)"):
        load_checkpoint(tmp_path / "foreign")


@pytest.mark.parametrize("named", [["w", "lost"], [], None, 3, [["w"]]])
def test_tensors_that_the_header_names_must_be_there(tmp_path: Path, named: object) -> None:
    old = {"format": "pacdp-checkpoint/2"}
    header = json.dumps(old if named is None else {**old, "parameters": named})
    save_file({"model.w": torch.ones(2)}, tmp_path / "part", metadata={"pacdp": header})
    with pytest.raises(CheckpointError, match="lacks the tensors"):
        load_checkpoint(tmp_path / "part")


@pytest.mark.parametrize("kind", ["full", "io"])
def test_a_full_or_failing_disk_leaves_the_old_file(tmp_path: Path, kind: Kind) -> None:
    path = saved(tmp_path)
    before = path.read_bytes()
    operations = carried_out(
        save_checkpoint, (tmp_path / "other", example(2.0)), root=tmp_path, of_this=True
    ).operations
    (tmp_path / "other").unlink()
    assert len(places(operations, kind)) >= 2
    for at in places(operations, kind):
        failed = carried_out(
            save_checkpoint, (path, example(2.0)), root=tmp_path, fault=Fault(at=at, kind=kind), of_this=True
        )
        assert failed.exitcode == 1
        assert re.search(r"CheckpointError: cannot write checkpoint .*(No space|output error).*free space", failed.err)
        assert path.read_bytes() == before
        assert list(tmp_path.iterdir()) == [path]
    save_checkpoint(path, example(2.0))
    assert load_checkpoint(path).model["z.weight"][0, 0] == 2


def test_whoever_may_read_files_of_the_folder_may_read_a_checkpoint(tmp_path: Path) -> None:
    (tmp_path / "plain").touch()
    assert saved(tmp_path).stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_a_folder_that_is_not_there_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="cannot write checkpoint"):
        save_checkpoint(tmp_path / "no" / "folder", example())


def test_nan_is_never_written_to_a_header(tmp_path: Path) -> None:
    checkpoint = Checkpoint(header={"loss": float("nan")}, model={"w": torch.ones(1)}, state={})
    with pytest.raises(ValueError, match="not JSON compliant"):
        save_checkpoint(tmp_path / "nan", checkpoint)
    assert list(tmp_path.iterdir()) == []


def rewritten(path: Path, *, tensors: dict[str, torch.Tensor] | None = None, **header: object) -> Path:
    """The file with another header or other tensors, written by somebody who leaves the hash as it is."""
    with safe_open(path, framework="pt") as file:
        found = {name: file.get_tensor(name) for name in file.keys()}
        said = json.loads(file.metadata()["pacdp"])
    said = {key: value for key, value in {**said, **header}.items() if value is not ...}
    save_file(tensors or found, path, metadata={"pacdp": json.dumps(said)})
    return path


def test_the_hash_follows_from_its_description(tmp_path: Path) -> None:
    """By hand, from the file alone."""
    with safe_open(saved(tmp_path), framework="np") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}
        header = json.loads(file.metadata()["pacdp"])
    said = header.pop("content_hash")

    def text(values: object) -> str:
        return json.dumps(values, sort_keys=True, separators=(",", ":"))

    content = text(header).encode()
    for name, values in sorted(tensors.items()):
        content += f"\n{text([name, values.dtype.name, list(values.shape)])}\n".encode() + values.tobytes()
    assert hashlib.sha256(content).hexdigest() == said == load_checkpoint(tmp_path).content_hash


def test_all_kinds_of_numbers_have_a_hash(tmp_path: Path) -> None:
    kinds = (torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.uint8, torch.bool)
    state = {str(kind): torch.tensor([[0, 1, 1]]).to(kind) for kind in kinds}
    state |= {"empty": torch.empty(0, 3), "turned": torch.arange(6.0).reshape(2, 3).T}
    save_checkpoint(tmp_path / "c", Checkpoint(header={}, model={"w": torch.ones(())}, state=state))
    read = load_checkpoint(tmp_path / "c")
    assert all(torch.equal(read.state[name], value) for name, value in state.items())


NOT_WRITTEN = r"is not what was written: its content has the hash \w{12}, its header says"


@pytest.mark.parametrize(
    "change",
    [{"step": 1}, {"n": 61}, {"step": 12.0}, {"run": {"seed": 4, "tags": ["a", None]}}, {"loss": {"high": 4}},
     {"loss": ...}, {"extra": 1}, {"parameters": ["a.bias", "z.weight", "b.scale"]}, {"content_hash": "0" * 64},
     {"content_hash": ...}, {"content_hash": None}, {"format": "pacdp-checkpoint/2"}],
    ids=str,
)  # fmt: skip
def test_an_edited_header_is_refused(tmp_path: Path, change: dict[str, object]) -> None:
    with pytest.raises(CheckpointError, match=NOT_WRITTEN):
        load_checkpoint(rewritten(saved(tmp_path), **change))


def test_edited_tensors_are_refused(tmp_path: Path) -> None:
    path = saved(tmp_path)
    whole = path.read_bytes()
    with safe_open(path, framework="pt") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}
    fine = tensors["state.velocity"]
    other = {"one number": torch.cat([fine[:10], fine[10:] + 1e-6]), "another shape": fine.reshape(11, 1),
             "another type": fine.view(torch.int32)}  # fmt: skip
    for value in other.values():
        path.write_bytes(whole)
        with pytest.raises(CheckpointError, match=NOT_WRITTEN):
            load_checkpoint(rewritten(path, tensors={**tensors, "state.velocity": value}))
    renamed = {("state.speed" if name == "state.velocity" else name): value for name, value in tensors.items()}
    for others in (renamed, {**tensors, "state.more": torch.ones(1)}):
        path.write_bytes(whole)
        with pytest.raises(CheckpointError, match=NOT_WRITTEN):
            load_checkpoint(rewritten(path, tensors=others))


def test_a_file_of_the_format_without_hashes_is_read_and_says_that_nothing_shows_it_whole(tmp_path: Path) -> None:
    old = rewritten(saved(tmp_path), format="pacdp-checkpoint/2", content_hash=...)
    read = load_checkpoint(old)
    assert same(read, example())
    assert read.content_hash is None
    save_checkpoint(tmp_path / "new", read)
    assert load_checkpoint(tmp_path / "new").header == load_checkpoint(saved(tmp_path)).header


def _damaged(whole: bytes, kind: int, numbers: random.Random) -> bytes:
    damaged = bytearray(whole)
    where = numbers.randrange(len(whole))
    match kind:
        case 0:
            damaged[where] ^= 1 << numbers.randrange(8)
        case 1:
            damaged[where] = numbers.randrange(256)
        case 2:
            damaged[where : where + 8] = numbers.randbytes(len(damaged[where : where + 8]))
        case 3:
            del damaged[where:]
        case 4:
            del damaged[where]
        case _:
            other = numbers.randrange(len(whole))
            damaged[where], damaged[other] = damaged[other], damaged[where]
    return bytes(damaged)


def test_two_thousand_damaged_files_are_refused_or_read_as_they_were(tmp_path: Path) -> None:
    path, numbers = saved(tmp_path), random.Random(7)
    whole, good = path.read_bytes(), load_checkpoint(path)
    refused = 0
    for k in range(2000):
        path.write_bytes(_damaged(whole, k % 6, numbers))
        try:
            read = load_checkpoint(path)
        except CheckpointError:
            refused += 1
        else:
            assert same(read, good)
            assert read.header == good.header
    assert refused > 1900


def test_nothing_but_a_checkpoint_error_leaves_a_header_that_json_does_not_have(tmp_path: Path) -> None:
    for text in ('{"format": "pacdp-checkpoint/3", "content_hash": "0", "step": NaN}',
                 '{"format": "pacdp-checkpoint/3", "step": ' + "[" * 100_000 + "]" * 100_000 + "}"):  # fmt: skip
        save_file({"model.w": torch.ones(2)}, tmp_path / "bad", metadata={"pacdp": text})
        with pytest.raises(CheckpointError):
            load_checkpoint(tmp_path / "bad")
