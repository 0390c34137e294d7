"""A checkpoint is whole or refused in a sentence; loading runs no code; a failed write leaves the old file."""

import hashlib
import io
import json
import os
import re
from typing import Any

import pytest
import torch
from loaders import checkpoint, contents, example
from safetensors import safe_open
from safetensors.torch import save_file

from pacdp import load_checkpoint, save_checkpoint
from pacdp.errors import CheckpointError
from pacdp.store.checkpoint import FORMAT, Checkpoint, content_hash
from tests.file_faults import Fault, carried_out, places
from tests.marks import every_case, parametrize, refusal


def same(left, right):
    return contents(left)[1] == contents(right)[1]


def test_round_trip(tmp_path):
    written, read = example(), load_checkpoint(checkpoint(tmp_path))
    assert same(written, read)
    added = {"format": FORMAT, "parameters": ["z.weight", "a.bias", "b.scale"], "content_hash": read.content_hash}
    assert {**written.header, **added} == read.header
    assert list(read.model) == list(written.model)
    save_checkpoint(tmp_path / "again", read)
    assert same(load_checkpoint(tmp_path / "again"), read)
    assert (tmp_path / "again").read_bytes() == (tmp_path / "checkpoint.safetensors").read_bytes()


def refused(path, words):
    with refusal(words, CheckpointError):
        load_checkpoint(path)


def test_files_that_are_not_whole_or_something_else_are_refused(tmp_path):
    path = checkpoint(tmp_path)
    assert same(load_checkpoint(str(tmp_path)), example()), "the run's folder will do"
    whole = path.read_bytes()
    for content in (whole[:9], whole[: len(whole) // 2], whole[:-1], whole + b"x"):
        path.write_bytes(content)
        refused(path, "is truncated or no safetensors file")
    path.write_bytes(b"")
    refused(path, "is empty: it was never written")
    path.unlink()
    refused(path, r"no checkpoint at .*: train first")
    refused(tmp_path, r"no checkpoint at .*: train first")
    for text, said in (
        (None, "None"), ("no json", "None"), (json.dumps({"format": "pacdp-checkpoint/1"}), "'pacdp-checkpoint/1'"),
    ):  # fmt: skip
        save_file({"model.w": torch.ones(2)}, path, metadata=text and {"pacdp": text})
        refused(path, rf"is a safetensors file but no {FORMAT} checkpoint \(it says {said}\)")
    for named in (["w", "lost"], 3):
        tensors, header = {"model.w": torch.ones(2)}, {"format": FORMAT, "parameters": named}
        header["content_hash"] = content_hash(header, tensors)
        save_file(tensors, path, metadata={"pacdp": json.dumps(header)})
        refused(path, "lacks the tensors")
    for text in ('"step": NaN}', '"step": ' + "[" * 100_000 + "]" * 100_000 + "}"):  # which JSON does not have
        header = {"pacdp": '{"format": "pacdp-checkpoint/3", "content_hash": "0", ' + text}
        save_file({"model.w": torch.ones(2)}, path, metadata=header)
        refused(path, "a header that pacdp did not write|says None")


class Bomb:
    """Unpickling this creates a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


def test_a_file_of_torch_is_refused_and_nothing_in_it_runs(tmp_path):
    """As no bare pickle does, in tests of hostile files."""
    path, mark = tmp_path / "checkpoint.safetensors", tmp_path / "ran"
    torch.save({"model.w": Bomb(mark)}, path)
    refused(path, r"truncated or no safetensors file|written by torch\.save")
    assert not mark.exists()
    torch.load(path.rename(tmp_path / "c.pt"), weights_only=False)  # shows that it would have run
    assert mark.exists()


@parametrize("kind", ["full", "io"])
def test_a_full_or_failing_disk_leaves_the_old_file(tmp_path, kind):
    path = checkpoint(tmp_path)
    before = path.read_bytes()
    operations = carried_out(save_checkpoint, (tmp_path / "other", example(2.0)), root=tmp_path).operations
    (tmp_path / "other").unlink()
    assert len(places(operations, kind)) >= 2
    for at in places(operations, kind):
        failed = carried_out(save_checkpoint, (path, example(2.0)), root=tmp_path, fault=Fault(at=at, kind=kind))
        assert failed.exitcode == 1
        assert re.search(r"CheckpointError: cannot write checkpoint .*(No space|output error).*free space", failed.err)
        assert path.read_bytes() == before
        assert list(tmp_path.iterdir()) == [path]
    save_checkpoint(path, example(2.0))
    assert load_checkpoint(path).model["z.weight"][0, 0] == 2


def test_what_is_written_may_be_read_and_is_json(tmp_path):
    (tmp_path / "plain").touch()
    assert checkpoint(tmp_path).stat().st_mode == (tmp_path / "plain").stat().st_mode
    with refusal(r"cannot write checkpoint \S+folder: No such file or directory; .*be written", CheckpointError):
        save_checkpoint(tmp_path / "no" / "folder", example())
    odd = Checkpoint(header={"loss": float("nan")}, model={"w": torch.ones(1)}, state={})
    with refusal("not JSON compliant"):
        save_checkpoint(tmp_path / "nan", odd)
    assert not (tmp_path / "nan").exists()


@pytest.mark.wrong_types
def test_what_is_no_path_is_refused_by_its_name(tmp_path):
    odd: Any
    for odd in (io.BytesIO(), None):
        for use in (lambda odd=odd: save_checkpoint(odd, example()), lambda odd=odd: load_checkpoint(odd)):
            with refusal(f"path must be a path, got {type(odd).__name__}: give the name"):
                use()
    with refusal("is a folder: give .*checkpoint.safetensors", CheckpointError):
        save_checkpoint(tmp_path, example())
    save_checkpoint(str(tmp_path / "text"), example())


def test_a_link_is_read_through_and_never_written_through(tmp_path):
    whole = checkpoint(tmp_path)
    link, before = tmp_path / "link", whole.read_bytes()
    link.symlink_to(whole)
    assert same(load_checkpoint(link), load_checkpoint(whole))
    save_checkpoint(link, example(2.0))
    assert (link.is_symlink(), whole.read_bytes() == before) == (False, True)
    link.unlink()
    link.symlink_to("nothing")
    with refusal("link is a link to nothing, which is not there: restore", CheckpointError):
        load_checkpoint(link)


def parts(path, framework="pt"):
    """The tensors of a file, and its header."""
    with safe_open(path, framework=framework) as file:
        return {name: file.get_tensor(name) for name in file.keys()}, json.loads(file.metadata()["pacdp"])


def rewritten(path, *, tensors=None, **header):
    """The file with another header or other tensors, written by somebody who leaves the hash as it is."""
    found, said = parts(path)
    said = {key: value for key, value in {**said, **header}.items() if value is not ...}
    save_file(tensors or found, path, metadata={"pacdp": json.dumps(said)})
    return path


def test_the_hash_follows_from_its_description(tmp_path):
    """By hand, from the file alone."""
    tensors, header = parts(checkpoint(tmp_path), "np")
    said = header.pop("content_hash")

    def text(values):
        return json.dumps(values, sort_keys=True, separators=(",", ":"))

    content = text(header).encode()
    for name, values in sorted(tensors.items()):
        content += f"\n{text([name, values.dtype.name, list(values.shape)])}\n".encode() + values.tobytes()
    assert hashlib.sha256(content).hexdigest() == said == load_checkpoint(tmp_path).content_hash


def test_all_kinds_of_numbers_have_a_hash(tmp_path):
    kinds = (torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.uint8, torch.bool)
    state = {str(kind): torch.tensor([[0, 1, 1]]).to(kind) for kind in kinds}
    state |= {"empty": torch.empty(0, 3), "turned": torch.arange(6.0).reshape(2, 3).T}
    save_checkpoint(tmp_path / "c", Checkpoint(header={}, model={"w": torch.ones(())}, state=state))
    read = load_checkpoint(tmp_path / "c")
    assert all(torch.equal(read.state[name], value) for name, value in state.items())


NOT_WRITTEN = r"is not what was written: its content has the hash \w{12}, its header says"


@every_case(
    "change",
    [{"step": 12.0}, {"run": {"seed": 4, "tags": ["a", None]}}, {"loss": ...}, {"extra": 1},
     {"parameters": ["a.bias", "z.weight", "b.scale"]}, {"content_hash": "0" * 64}, {"content_hash": ...},
     {"content_hash": None}],
    ids=str,
)  # fmt: skip
def test_an_edited_header_is_refused(tmp_path, change):
    refused(rewritten(checkpoint(tmp_path), **change), NOT_WRITTEN)


def test_edited_tensors_are_refused(tmp_path):
    path = checkpoint(tmp_path)
    whole = path.read_bytes()
    tensors, _ = parts(path)
    fine = tensors.pop("state.velocity")
    for changed in (
        {"state.velocity": torch.cat([fine[:10], fine[10:] + 1e-6])},
        {"state.velocity": fine.reshape(11, 1)},
        {"state.velocity": fine.view(torch.int32)},
        {"state.speed": fine},
        {"state.velocity": fine, "state.more": torch.ones(1)},
    ):
        path.write_bytes(whole)
        refused(rewritten(path, tensors={**tensors, **changed}), NOT_WRITTEN)
