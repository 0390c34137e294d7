"""A file is replaced whole or not at all, by the one who wrote it; what killed writers left goes with the next one."""

import subprocess
import sys

import pytest

from pacdp.files import LIST, begin, remove_own, replacing, written
from tests.file_faults import KINDS, Fault, carried_out, places


def write(path, text):
    with replacing(path) as file:
        file.write(text.encode())


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_is_the_old_one_or_the_new_one_and_the_next_write_leaves_nothing_else(tmp_path, kind):
    path = tmp_path / "file.json"
    begin(tmp_path)
    write(path, "old")
    known = written(tmp_path)
    for at in places(carried_out(write, (path, "old"), root=tmp_path).operations, kind):
        failed = carried_out(write, (path, "new" * 1000), root=tmp_path, fault=Fault(at=at, kind=kind))
        assert failed.killed or (failed.exitcode == 1 and "OSError" in failed.err)
        assert path.read_text() in ("old", "new" * 1000)
        write(path, "old")
        assert {one.name for one in tmp_path.iterdir()} == {"file.json", LIST}
        assert written(tmp_path) == known


def test_a_living_writer_s_half_is_left_alone_and_a_dead_one_s_folder_goes(tmp_path):
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as alive:
        dead = subprocess.Popen([sys.executable, "-c", ""])
        dead.wait()
        half = tmp_path / f".out.{alive.pid}.partial"
        half.write_text("half")
        (tmp_path / f".out.{dead.pid}.partial").mkdir()
        (tmp_path / f".out.{dead.pid}.partial" / "weights").write_text("half")
        write(tmp_path / "out", "whole")
        assert {one.name for one in tmp_path.iterdir()} == {"out", half.name}
        alive.communicate()


def test_what_is_not_in_the_list_is_somebody_else_s(tmp_path):
    (tmp_path / "mine").write_text("mine")
    assert written(tmp_path) is None
    begin(tmp_path)
    write(tmp_path / "ours", "1")
    begin(tmp_path, own=["mine"])  # the folder has a list already
    with pytest.raises(ValueError, match="mine was not written by pacdp: move it away"):
        write(tmp_path / "mine", "ours")
    remove_own(tmp_path, names=["mine", "ours", "nothing"])
    assert {one.name for one in tmp_path.iterdir()} == {"mine", LIST}
    assert (tmp_path / "mine").read_text() == "mine"
    with (tmp_path / LIST).open("a") as file:
        file.write("\nfigu")  # a name that was cut short is no name
    write(tmp_path / "figure.png", "1")
    assert "figure.png" in (written(tmp_path) or ())
    with pytest.raises(TypeError), replacing(tmp_path / "figure.png") as file:
        file.writelines([b"new", "no bytes"])
    assert (tmp_path / "figure.png").read_text() == "1"
