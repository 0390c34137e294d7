"""A checkpoint is whole or refused in a sentence; loading runs no code; a failed write leaves the old file."""

import errno
import json
import os
import pickle
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from pacdp import Checkpoint, CheckpointError, load_checkpoint, save_checkpoint
from pacdp.checkpoint import FORMAT


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
    assert {**written.header, "format": FORMAT, "parameters": ["z.weight", "a.bias", "b.scale"]} == read.header
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
    with pytest.raises(CheckpointError, match="is truncated or no safetensors file"):
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


@pytest.mark.parametrize("named", [["w", "lost"], [], None])
def test_tensors_that_the_header_names_must_be_there(tmp_path: Path, named: list[str] | None) -> None:
    header = json.dumps({"format": FORMAT} if named is None else {"format": FORMAT, "parameters": named})
    save_file({"model.w": torch.ones(2)}, tmp_path / "part", metadata={"pacdp": header})
    with pytest.raises(CheckpointError, match="lacks the tensors"):
        load_checkpoint(tmp_path / "part")


@pytest.mark.parametrize("where", ["pacdp.checkpoint.save_file", "pacdp.checkpoint.os.fsync"])
def test_a_full_disk_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    path = saved(tmp_path)
    before = path.read_bytes()

    def fail(tensors: object, file: Path | None = None, metadata: object = None) -> None:
        if file is not None:
            file.write_bytes(b"half a checkpoint")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(where, fail)
        with pytest.raises(CheckpointError, match=r"cannot write checkpoint .*No space left.*free space or choose"):
            save_checkpoint(path, example(2.0))
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]
    save_checkpoint(path, example(2.0))
    assert load_checkpoint(path).model["z.weight"][0, 0] == 2


def test_a_folder_that_is_not_there_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="cannot write checkpoint"):
        save_checkpoint(tmp_path / "no" / "folder", example())


def test_nan_is_never_written_to_a_header(tmp_path: Path) -> None:
    checkpoint = Checkpoint(header={"loss": float("nan")}, model={"w": torch.ones(1)}, state={})
    with pytest.raises(ValueError, match="not JSON compliant"):
        save_checkpoint(tmp_path / "nan", checkpoint)
    assert list(tmp_path.iterdir()) == []
