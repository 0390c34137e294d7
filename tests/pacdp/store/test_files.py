"""A file is replaced whole or not at all, by the one who wrote it; what killed writers left goes with the next one."""

import errno
import fcntl
import os
import subprocess
import sys
from os import listdir
from subprocess import PIPE

import pytest
from filelock import BaseFileLock

from bounds.accounting import Gaussian
from pacdp.cli.folder import Folder
from pacdp.store import files
from pacdp.store.files import (
    ASIDE,
    LIST,
    MOVING,
    Held,
    begin,
    keep_beside,
    let_go,
    locked,
    put_back,
    remove_own,
    remove_partial,
    replacing,
    written,
)  # fmt: skip
from pacdp.store.ledger import Ledger
from tests.file_faults import KINDS, Fault, carried_out, places
from tests.marks import parametrize, refusal


def write(path, text):
    with replacing(path) as file:
        file.write(text.encode())


@parametrize("kind", KINDS)
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
        assert {*listdir(tmp_path)} == {"file.json", LIST}
        assert written(tmp_path) == known


def test_a_full_disk_names_the_file(tmp_path):
    with pytest.raises(OSError, match="No space") as full, replacing(tmp_path / "file.json"):
        raise OSError(errno.ENOSPC, "No space left on device")
    assert full.value.filename == str(tmp_path / "file.json")
    with pytest.raises(OSError, match="No such file") as closed, replacing("/proc/file.json"):  # where nobody writes
        pass
    assert closed.value.filename == "/proc/file.json"


def test_a_living_writer_s_half_is_left_alone_and_a_dead_one_s_folder_goes(tmp_path):
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=PIPE) as alive:
        dead = subprocess.Popen([sys.executable, "-c", ""])
        dead.wait()
        half = tmp_path / f".out.{alive.pid}.partial"
        half.write_text("half")
        (tmp_path / f".out.{dead.pid}.partial").mkdir()
        (tmp_path / f".out.{dead.pid}.partial" / "weights").write_text("half")
        write(tmp_path / "out", "whole")
        assert {*listdir(tmp_path)} == {"out", half.name}
        alive.communicate()


def test_what_is_not_in_the_list_is_somebody_else_s(tmp_path):
    (tmp_path / "mine").write_text("mine")
    assert written(tmp_path) is None
    begin(tmp_path)
    write(tmp_path / "ours", "1")
    begin(tmp_path)  # the folder has a list already
    with refusal("mine was not written by pacdp: move it away"):
        write(tmp_path / "mine", "ours")
    remove_own(tmp_path, names=["mine", "ours", "nothing"])
    assert {*listdir(tmp_path)} == {"mine", LIST}
    assert (tmp_path / "mine").read_text() == "mine"
    with (tmp_path / LIST).open("a") as file:
        file.write("\nfigu")  # a name that was cut short is no name
    write(tmp_path / "figure.png", "1")
    assert "figure.png" in (written(tmp_path) or ())
    with pytest.raises(TypeError), replacing(tmp_path / "figure.png") as file:
        file.writelines([b"new", "no bytes"])
    assert (tmp_path / "figure.png").read_text() == "1"


NAMES = ("config", "checkpoint", "counts")


def replaced(folder, and_then):
    remove_own(folder, names=NAMES, aside=True)
    write(folder / "config", "new")
    and_then(folder)


def come_to_nothing(folder):
    put_back(folder, names=NAMES)


@parametrize("and_then", [come_to_nothing, let_go])
@parametrize("kind", ["kill", "io", "full"])
def test_what_is_put_aside_is_there_whole_until_it_is_let_go(tmp_path, kind, and_then):
    def begun(name):
        (tmp_path / name).mkdir()
        begin(tmp_path / name)
        for one in NAMES:
            write(tmp_path / name / one, "old")
        return tmp_path / name

    met = carried_out(replaced, (begun("whole"), and_then), root=tmp_path / "whole").operations
    for at in places(met, kind):
        folder = begun(str(at))
        carried_out(replaced, (folder, and_then), root=folder, fault=Fault(at=at, kind=kind))
        for one in (*NAMES, ASIDE):
            remove_partial(folder / one)
        if and_then is let_go and not {ASIDE, MOVING} & {*listdir(folder)}:
            assert not [name for name in listdir(folder) if "replac" in name]
            assert (folder / "config").read_text() in ("old", "new")
            continue
        come_to_nothing(folder)
        assert {*listdir(folder)} == {*NAMES, LIST}
        assert [(folder / one).read_text() for one in NAMES] == ["old"] * 3


@parametrize("name", [ASIDE, MOVING])
@parametrize("of_a_run", [False, True])
def test_a_folder_of_somebody_else_is_not_taken_for_what_was_put_aside(tmp_path, name, of_a_run):
    if of_a_run:
        begin(tmp_path)
        write(tmp_path / "config.json", "old")
    (tmp_path / name).mkdir()
    (tmp_path / name / "config.json").write_text("mine")
    with refusal(f"{name} was not written by pacdp: move it away"), Folder(tmp_path).lock():
        pass
    assert (tmp_path / name / "config.json").read_text() == "mine"
    assert not of_a_run or (tmp_path / "config.json").read_text() == "old"


def test_a_file_that_a_killed_process_gave_its_second_name_gets_no_third(tmp_path):
    begin(tmp_path)
    write(tmp_path / "report", "old")
    os.link(tmp_path / "report", tmp_path / "report.1")  # killed before the list had it
    assert keep_beside(tmp_path / "report").name == "report.1"
    assert "report.1" in (written(tmp_path) or ())
    write(tmp_path / "report", "new")
    assert keep_beside(tmp_path / "report").name == "report.2"
    assert (tmp_path / "report.1").read_text() == "old"


HOLDING = """
import fcntl, sys, warnings
from pathlib import Path
def flock(*_): raise OSError(int(sys.argv[2]), "no such thing")
fcntl.flock = flock
warnings.simplefilter("ignore")
from pacdp.store.files import locked
with locked(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def without_flock(monkeypatch, number=errno.ENOSYS):
    def flock(*_):
        raise OSError(number, "no such thing")

    monkeypatch.setattr(fcntl, "flock", flock)
    monkeypatch.setattr(files, "_told", set())


@parametrize("number", [errno.ENOSYS, errno.EOPNOTSUPP])
@parametrize("before", [True, False])
def test_a_disk_without_flock_has_locks_too_and_one_sentence_says_so(tmp_path, monkeypatch, number, before):
    path = tmp_path / ".lock"
    if before:  # begun where there is flock, or shown to be alive
        path.touch()
    other = subprocess.Popen([sys.executable, "-c", HOLDING, path, str(number)], text=True, stdin=PIPE, stdout=PIPE)
    without_flock(monkeypatch, number)
    try:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        with (
            pytest.warns(UserWarning, match=r"the disk of .* has no flock"),
            refusal(r"wait for it, or remove .*\.lock\.held if the process that it names is no more", Held),
        ):
            locked(path).__enter__()
    finally:
        other.kill()
        other.communicate()
    for _ in range(2):
        with locked(path, timeout=5.0):
            assert (tmp_path / ".lock.held").exists()
        assert not (tmp_path / ".lock.held").exists()


def test_a_ledger_begun_with_flock_goes_on_without_and_back(tmp_path, monkeypatch):
    book, slide = (
        Ledger.open(tmp_path),
        {"event": Gaussian(noise_multiplier=1.0), "unit": "example", "label": "a slide"},
    )
    with monkeypatch.context() as patch:
        without_flock(patch)
        with pytest.warns(UserWarning, match="has no flock"):
            Ledger.open(tmp_path / "new")
        book.correct(**slide)
    Ledger.load(tmp_path).correct(**slide)
    assert len(Ledger.load(tmp_path).entries) == 2


def test_ctrl_c_just_before_a_lock_is_let_go_leaves_nothing_locked(tmp_path, monkeypatch):
    release, interrupted = BaseFileLock.release, [KeyboardInterrupt()]

    def release_later(self, *given, **named):
        if interrupted:
            raise interrupted.pop()
        release(self, *given, **named)

    monkeypatch.setattr(BaseFileLock, "release", release_later)
    with pytest.raises(KeyboardInterrupt) as kept, locked(tmp_path / ".lock"):
        pass
    with locked(tmp_path / ".lock"):
        assert kept.tb, "a notebook keeps the traceback, and with it the lock that is not let go"


def test_another_error_of_a_lock_is_told(tmp_path, monkeypatch):
    without_flock(monkeypatch, errno.EIO)
    with refusal("no such thing", OSError), locked(tmp_path / ".lock"):
        pass
