"""A ledger counts what may be drawn, before it is drawn; what it refuses was not drawn."""

import copy
import json
import os
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from math import exp, inf, nan

import pytest
import toys

from bounds.accounting import (
    Composed,
    ExponentialMechanism,
    Gaussian,
    NonPrivate,
    OnceAnEpoch,
    PoissonSampled,
    SelfComposed,
    privacy_epsilon,
)
from pacdp.store import chained_lines
from pacdp.store import ledger as ledger_module
from pacdp.store.ledger import Ledger, Overdrawn, SharedNoise
from pacdp.store.ledger_entries import Limit, from_line
from pacdp.store.reservation import SYSTEM, NoLedger, NotReserved
from tests.marks import every_case, near, parametrize, refusal
from tests.typed import unchecked

ABOUT = {"delta": 1e-5, "adjacency": "add-remove"}
GAUSSIAN = toys.stretch(1, 1, event=Gaussian(noise_multiplier=50.0))


def steps(count, *, noise=1.0):
    step = PoissonSampled(sample_rate=0.01, event=Gaussian(noise_multiplier=noise))
    return SelfComposed(event=step, count=count)


def stretch(first, last, **more):
    return toys.stretch(first, last, **{"event": steps(last - first + 1)} | more)


def epsilon(event, adjacency="add-remove"):
    return privacy_epsilon(event=event, delta=1e-5, adjacency=adjacency).upper


def assert_costs(book, event, adjacency="add-remove", **asked):
    """What the ledger adds up to is the cost of this event."""
    found = book.total(delta=1e-5, adjacency=adjacency, **asked).epsilon
    assert found == near(epsilon(event, adjacency), rel=1e-9)


@pytest.fixture
def book(tmp_path):
    """A new ledger."""
    return Ledger.open(tmp_path)


def toy(books, drawn, *, run, start=0, stop=None, stream=SYSTEM):
    """A loop with a checkpoint every four steps, killed after the step ``stop``; returns its last checkpoint."""
    for first in range(start + 1, 13, 4):
        granted = books.reserve(stretch(first, first + 3, run=run, stream=stream))
        for step in range(first, first + 4):
            granted.draw(step)
            drawn.append((run, step))
            if step == stop:
                return first - 1
    return 12


def counted(book, run, step):
    return sum(one.stretch.run == run and one.stretch.first <= step <= one.stretch.last for one in book.entries)


def test_what_is_reserved_is_on_the_disk_and_adds_up(tmp_path):
    book = Ledger.open(tmp_path / "ledger", name="mnist")
    assert book.total(**ABOUT).epsilon == 0.0
    granted = book.reserve(stretch(1, 100))
    assert [one.stretch for one in Ledger.load(tmp_path / "ledger").entries] == [stretch(1, 100)]
    book.reserve(stretch(101, 300))
    book.reserve(stretch(1, 50, run="b", event=steps(50, noise=2.0)))
    read = Ledger.load(book.folder)
    for one in (book, read):
        whole = Composed(events=(steps(300), steps(50, noise=2.0)))
        for adjacency in ("add-remove", "replace-one"):
            assert_costs(one, whole, adjacency)
        one.require(granted.receipt)
    assert (read.name, read.digest, read.id) == ("mnist", book.digest, book.id)
    assert read.digest != read.id


def test_an_open_ledger_tells_what_others_added(book):
    """Another process, or another engine of this one."""
    other, low = Ledger.load(book.folder), Limit(epsilon=2.0, **ABOUT)
    granted = other.reserve(stretch(1, 100))
    assert_costs(book, steps(100))
    book.require(granted.receipt)
    other.set_limit(low)
    assert (book.limit, book.digest, len(book.limits)) == (low, other.digest, 1)
    other.correct(event=steps(7), unit="example", label="a slide")
    assert book.entries == other.entries
    assert len(book.entries) == 2
    assert_costs(book, steps(107))


@parametrize("given", [None, 4.0, (4.0, 1e-5)])
def test_a_limit_that_is_none_is_refused(book, given):
    with unchecked(), refusal(r"limit must be a Limit, got .*: give .*Limit.epsilon="):
        book.set_limit(given)


def test_threads_that_share_an_open_ledger_count_each_entry_once(book, tmp_path, monkeypatch):
    """Each reads on while others do; the last entry, which costs most, is not taken for one that was counted twice."""
    other = Ledger.load(tmp_path)
    for _ in range(20):
        other.reserve(stretch(1, 1))
    other.reserve(stretch(1, 1, event=steps(1, noise=0.5)))
    slowly = ledger_module.from_line
    monkeypatch.setattr(ledger_module, "from_line", lambda line: (time.sleep(0.001), slowly(line))[1])
    with ThreadPoolExecutor(4) as threads:
        assert {len(found) for found in threads.map(lambda _: book.entries, range(4))} == {21}
        added = threads.map(lambda _: book.reserve(stretch(1, 1)), range(8))
        assert len([*added]) == 8
    assert book.entries == Ledger.load(tmp_path).entries
    assert book.total(**ABOUT) == Ledger.load(tmp_path).total(**ABOUT)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_fork_while_a_thread_reads_leaves_the_ledger_free(book, monkeypatch):
    reading, go_on = threading.Event(), threading.Event()
    found = ledger_module.read

    def slowly(*args, **how):
        reading.set()
        go_on.wait(0.2)
        return found(*args, **how)

    monkeypatch.setattr(ledger_module, "read", slowly)
    with ThreadPoolExecutor(1) as threads:
        asked = threads.submit(lambda: book.entries)
        reading.wait()
        child = os.fork()
        if not child:
            os._exit(len(book.entries))
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert asked.result() == ()


class CtrlC:
    """Interrupts after so many lines of what an open ledger does with lines that it has read."""

    def __init__(self, after):
        self.left = after

    def __call__(self, frame, event, _):
        return self.line if frame.f_code.co_name in ("_take", "add", "with_more", "append") else None

    def line(self, frame, event, _):
        if event == "line":
            self.left -= 1
            if self.left == 0:
                raise KeyboardInterrupt
        return self.line


@parametrize("ask", [lambda book: book.total(**ABOUT), lambda book: book.reserve(GAUSSIAN)])
def test_ctrl_c_while_an_open_ledger_reads_on_leaves_nothing_uncounted(book, tmp_path, ask):
    for after in range(1, 50):
        mine = Ledger.load(tmp_path)
        Ledger.load(tmp_path).reserve(GAUSSIAN)
        before = sys.gettrace()
        with suppress(KeyboardInterrupt):
            sys.settrace(CtrlC(after))
            ask(mine)
        sys.settrace(before)
        assert mine.total(**ABOUT) == Ledger.load(tmp_path).total(**ABOUT)


def test_a_killed_loop_pays_again_for_what_it_may_have_drawn(book):
    drawn = []
    saved = toy(book, drawn, run="a", stop=6)
    assert saved == 4
    toy(book, drawn, run="a", start=saved)  # resumed
    toy(book, drawn, run="a", start=saved)  # a copy of the checkpoint, resumed as well
    toy(book, drawn, run="b")  # --force: the same run once more, under another name
    for run in ("a", "b"):
        for step in range(1, 13):
            assert counted(book, run, step) >= drawn.count((run, step))
    assert [counted(book, "a", step) for step in (1, 5, 9)] == [1, 3, 2]
    assert_costs(book, steps(36))


def test_a_seeded_repeat_is_the_same_release(book, tmp_path):
    drawn = []
    stream = book.stream(keyed_by={"seed": 7}, settings={"noise": 1.0})
    saved = toy(book, drawn, run="a", stop=6, stream=stream)
    toy(book, drawn, run="a", start=saved, stream=stream)
    before = (tmp_path / "ledger.jsonl").read_bytes()
    toy(book, drawn, run="b", stream=stream)
    granted = book.reserve(stretch(3, 7, stream=stream, run="c"))
    assert granted.repeated
    book.require(granted.receipt)
    assert (tmp_path / "ledger.jsonl").read_bytes() == before
    assert_costs(book, steps(12))
    longer = book.reserve(stretch(9, 13, stream=stream))
    assert not longer.repeated, "step 13 was never counted, and a stretch is counted whole"
    assert_costs(book, steps(17))
    telling = [book.reserve(stretch(1, 4, stream=stream, tells_size=True)).repeated for _ in range(2)]
    assert telling == [False, True], "nothing had said that the numbers tell how many records there are"
    assert book.total(**ABOUT).epsilon == inf


def test_seeded_streams_are_told_apart_by_all_that_fixes_them(book, tmp_path):
    one, two = {"noise": 1.0}, {"noise": 2.0}
    stream, other_settings = (book.stream(keyed_by=7, settings=settings) for settings in (one, two))
    assert stream == Ledger.load(tmp_path).stream(keyed_by=7, settings=one)
    assert stream != Ledger.open(tmp_path / "other").stream(keyed_by=7, settings=one), "keyed by the ledger"
    keyed = book.stream(keyed_by=8, settings=one), book.stream(keyed_by=[7, two], settings=two)
    for each in (stream, *keyed):
        book.reserve(stretch(1, 4, stream=each))
    assert len(book.entries) == 3
    for other in (
        stretch(1, 4, stream=other_settings),
        stretch(50, 60, stream=other_settings),
        stretch(1, 4, stream=stream, unit="person"),
        stretch(1, 4, stream=stream, kind="release"),
    ):
        with refusal(r"would draw the random numbers of run a \(entry 1 .* a seed of its own", SharedNoise):
            book.reserve(other)
    with refusal("were counted before, for the same stream with another event"):
        book.reserve(stretch(1, 4, stream=stream, event=steps(4, noise=0.5)))
    assert len(Ledger.load(tmp_path).entries) == 3
    with refusal("expected JSON values only"):
        book.stream(keyed_by=nan, settings=None)


def test_a_limit_refuses_before_anything_is_drawn(book, tmp_path):
    book.set_limit(Limit(epsilon=epsilon(steps(200)) * (1 + 1e-9), **ABOUT))
    book.reserve(stretch(1, 150))
    before = (tmp_path / "ledger.jsonl").read_bytes()
    with pytest.raises(Overdrawn) as refused:
        Ledger.load(tmp_path).reserve(stretch(151, 201))
    said = refused.value
    for found, count in ((said.now, 150), (said.after, 201)):
        assert found.epsilon == near(epsilon(steps(count)), rel=1e-9)
    assert said.now.epsilon < said.limit.epsilon < said.after.epsilon
    about = "at delta 1e-05 (add-remove, per example)"
    for part in (f"from epsilon {said.now} to {said.after}", about, "nothing was drawn", "pacdp ledger limit --raise"):
        assert part in str(said)
    assert (tmp_path / "ledger.jsonl").read_bytes() == before
    book.reserve(stretch(151, 200))
    with refusal(r"from .* to unbounded .some entries have no noise", Overdrawn):
        book.reserve(stretch(201, 201, event=NonPrivate()))


def test_a_limit_is_lowered_freely_and_raised_on_record(book, tmp_path):
    low = Limit(epsilon=1.0, delta=1e-6, adjacency="add-remove")
    high = replace(low, epsilon=1.5)
    book.set_limit(Limit(epsilon=2.0, **ABOUT))
    book.set_limit(low)
    for wider in (
        high,
        replace(low, delta=1e-5),
        replace(low, epsilon=0.5, adjacency="replace-one"),
        replace(low, epsilon=0.5, unit="person"),
    ):
        with refusal(r"is not within the limit of .*, epsilon 1 at delta 1e-06 .add-remove"):
            book.set_limit(wider)
        assert book.limit == low
    book.set_limit(high, raising=True)
    read = Ledger.load(tmp_path)
    assert read.limit == high
    read.set_limit(high)
    assert [line["raised"] for line in read.limits] == [False, False, True]


def test_people_cover_their_examples_and_not_the_other_way(book):
    book.reserve(stretch(1, 10, unit="person"))

    def assert_examples_cost(count, adjacency):
        of_examples = book.total(delta=1e-5, adjacency=adjacency).epsilon
        assert of_examples == near(epsilon(steps(count), "replace-one"), rel=1e-9)

    for adjacency in ("add-remove", "replace-one"):
        assert_costs(book, steps(10), adjacency, unit="person")
        assert_examples_cost(10, adjacency)
    book.reserve(stretch(1, 5))
    assert_examples_cost(15, "add-remove")
    unbounded = book.total(**ABOUT, unit="person")
    assert (unbounded.epsilon, unbounded.because) == (inf, "some entries hide examples, not people")
    book.set_limit(Limit(epsilon=100.0, **ABOUT, unit="person"))
    with refusal(r"to unbounded .some entries hide examples", Overdrawn):
        book.reserve(stretch(1, 5))


def choosing(count):
    """Steps that choose among candidates on their own sample, as P3SGD's do."""
    both = Composed(events=(Gaussian(noise_multiplier=4.0), ExponentialMechanism(epsilon=0.1, adjacency="add-remove")))
    return SelfComposed(event=PoissonSampled(sample_rate=0.1, event=both), count=count)


@parametrize(
    ("event", "unit"),
    [
        (choosing(5), "person"),
        (SelfComposed(event=OnceAnEpoch(batches=10, event=Gaussian(noise_multiplier=2.0)), count=3), "example"),
    ],
)
def test_a_record_replaced_is_one_removed_and_one_added_where_no_other_theorem_is(book, event, unit):
    """A total and a limit for equal numbers of records, which such runs may tell, are to be had."""
    replaced = {"delta": 1e-5, "adjacency": "replace-one"}
    book.set_limit(Limit(epsilon=20.0, **replaced, unit=unit))
    for told in (False, True):
        book.reserve(stretch(1, 30, event=event, unit=unit, tells_size=told))
    twice, found = SelfComposed(event=event, count=2), book.total(**replaced, unit=unit).epsilon
    half = found / 2.0
    share = 1e-5 / (1.0 + exp(half))
    assert privacy_epsilon(event=twice, delta=share, adjacency="add-remove").upper <= half
    assert 2.0 * epsilon(twice) < found < 20.0
    assert book.total(**replaced).epsilon == found
    book.set_limit(Limit(epsilon=found, **replaced, unit=unit))
    with refusal("beyond its limit", Overdrawn):
        book.reserve(stretch(31, 60, event=event, unit=unit))


def test_what_tells_the_number_of_records_promises_nothing_for_add_remove(book, tmp_path):
    """Data sets of unequal size are told apart with certainty; those of equal size are not."""
    book.reserve(stretch(1, 10))
    assert_costs(book, steps(10))
    with refusal("tells_size must be"):
        stretch(11, 20, tells_size="yes")
    book.correct(event=steps(10), unit="example", label="a loop", tells_size=True)
    read = Ledger.load(tmp_path)
    assert [one.stretch.tells_size for one in read.entries] == [False, True]
    for unit in ("example", "person"):
        assert read.total(**ABOUT, unit=unit).epsilon == inf
    assert "tell how many records there are" in read.total(**ABOUT).because
    assert_costs(read, steps(20), "replace-one")


def test_a_limit_for_add_remove_refuses_what_tells_the_number_of_records(book):
    book.set_limit(Limit(epsilon=100.0, **ABOUT))
    with refusal("to unbounded .some entries tell .* nothing was drawn$", Overdrawn):
        book.reserve(stretch(1, 10, tells_size=True))
    book.reserve(stretch(1, 10))
    book.set_limit(Limit(epsilon=100.0, delta=1e-5, adjacency="replace-one"), raising=True)
    book.reserve(stretch(11, 20, tells_size=True))


def test_a_line_of_an_earlier_version_is_read(book):
    book.reserve(stretch(1, 10))
    line = {name: value for name, value in book.entries[0].to_line().items() if name != "tells_size"}
    assert from_line(line) == book.entries[0]


def test_events_without_a_theorem(book):
    twice = PoissonSampled(sample_rate=0.5, event=PoissonSampled(sample_rate=0.5, event=Gaussian(noise_multiplier=1.0)))
    with refusal("must not hold another sample"):
        book.reserve(stretch(1, 1, event=twice))
    assert book.entries == ()
    book.reserve(stretch(1, 1, event=ExponentialMechanism(epsilon=0.1, adjacency="replace-one")))
    assert book.total(delta=1e-5, adjacency="replace-one").epsilon < 0.2
    refused = book.total(**ABOUT)
    assert refused.epsilon == inf
    assert "is stated for replace-one neighbours" in refused.because


def test_corrections_only_add(book):
    book.set_limit(Limit(epsilon=0.0, **ABOUT))
    book.correct(event=steps(10), unit="example", label="accuracy on a slide, March")
    assert_costs(book, steps(10))
    with refusal("label must say what was released"):
        book.correct(event=steps(10), unit="example", label=" ")
    with refusal("kind must be reservation or release, got correction"):
        book.reserve(stretch(1, 1, kind="correction"))


def test_only_reserved_steps_are_drawn_once_in_order_by_one_process(monkeypatch):
    for wrong in ((0,), (6,), (1, 1), (2, 1), (1, 2, 3, 4, 5, 6), (1, 2, 3, 4, 5, 5)):
        granted = NoLedger().reserve(stretch(1, 5))
        for step in wrong[:-1]:
            granted.draw(step)
        with refusal(f"step {wrong[-1]} of run a is not reserved", NotReserved):
            granted.draw(wrong[-1])
    granted = NoLedger().reserve(stretch(1, 5))
    with refusal("not copied", TypeError):
        copy.deepcopy(granted)
    monkeypatch.setattr("pacdp.store.reservation.os.getpid", lambda: -1)
    with refusal("reserves it itself", NotReserved):
        granted.draw(1)


def test_a_checkpoint_goes_on_with_the_books_that_count_it(tmp_path):
    book, other = Ledger.open(tmp_path / "a"), Ledger.open(tmp_path / "b")
    older = files(book.folder)
    granted, also = book.reserve(stretch(1, 5)), other.reserve(stretch(1, 5))
    receipt = json.loads(json.dumps(granted.receipt))
    Ledger.load(book.folder).require(receipt)
    put(book.folder, older)
    for wrong in (also.receipt, {}, {**receipt, "entry": "1"}, {**receipt, "hash": ""}, receipt):
        with refusal("are not counted in"):
            Ledger.load(book.folder).require(wrong)
    NoLedger().require(None)
    for books, told, words in (
        (other, None, "are counted in no ledger"),
        (NoLedger(), receipt, "are counted in a ledger: name that ledger"),
    ):
        with refusal(words):
            books.require(told)


def test_nothing_of_anyone_s_is_overwritten(tmp_path):
    for name in ("ledger.jsonl", "ledger.head"):
        folder = tmp_path / name.replace(".", "-")
        folder.mkdir()
        (folder / name).write_text("mine\n")
        for make in (Ledger.open, Ledger.create, Ledger.load):
            with refusal(r"ledger\.(jsonl|head)"):
                make(folder)
        assert {path.name: path.read_text() for path in folder.iterdir() if path.name[0] != "."} == {name: "mine\n"}
    new = tmp_path / "new"
    book = Ledger.open(new)
    (tmp_path / "file").write_text("")
    for make, folder, words in (
        (Ledger.create, new, "exists: go on with it, or choose another folder"),
        (Ledger.open, tmp_path / "file" / "below", r"cannot (write|read) the ledger"),
        (Ledger.load, tmp_path / "nothing", "cannot read the ledger"),
    ):
        with refusal(words):
            make(folder)
    assert Ledger.open(new).id == book.id
    assert new.stat().st_mode & 0o077 == 0


def written(folder):
    book = Ledger.open(folder)
    book.set_limit(Limit(epsilon=3.0, **ABOUT))
    book.reserve(stretch(1, 4, label="é"))
    book.reserve(stretch(5, 8, stream=book.stream(keyed_by=1, settings=2)))
    return book


def test_each_damaged_byte_is_found(tmp_path):
    good = written(tmp_path)
    path = tmp_path / "ledger.jsonl"
    whole = path.read_bytes()
    for where in range(len(whole)):
        damaged = bytearray(whole)
        damaged[where] ^= 1 << (where % 7)
        path.write_bytes(bytes(damaged))
        with suppress(ValueError):
            read = Ledger.load(tmp_path)
            assert (read.digest, read.entries, read.limit) == (good.digest, good.entries, good.limit), where


LINES = {
    "edited": lambda lines: [lines[0], lines[1].replace("3.0", "9.0", 1), *lines[2:]],
    "in another order": lambda lines: [lines[0], lines[2], lines[1], *lines[3:]],
    "without one": lambda lines: [*lines[:2], *lines[3:]],
    "with a key twice": lambda lines: [lines[0], '{"epsilon": 9.0, ' + lines[1][1:], *lines[2:]],
}


@every_case("how", LINES)
def test_lines_that_were_changed_moved_or_taken_out_are_refused(tmp_path, how):
    written(tmp_path)
    path = tmp_path / "ledger.jsonl"
    path.write_text("".join(LINES[how](path.read_text().splitlines(keepends=True))))
    with refusal(r"is not what was written: line \d was changed, moved or added"):
        Ledger.load(tmp_path)


def test_what_was_cut_off_the_end_is_missed(tmp_path):
    written(tmp_path)
    path = tmp_path / "ledger.jsonl"
    whole = path.read_bytes()
    for cut in (*range(0, len(whole), 97), whole[:-1].rfind(b"\n") + 1, len(whole) - 1):
        path.write_bytes(whole[:cut])
        with refusal(r"is no ledger of format|has \d lines of the 4 that ledger.head names"):
            Ledger.open(tmp_path)
        assert path.read_bytes() == whole[:cut]
    path.write_bytes(whole)
    for head in ("", "[]", '{"lines": 9, "hash": ""}', '{"lines": 4, "hash": "x"}'):
        (tmp_path / "ledger.head").write_text(head)
        with refusal("restore both files from a copy"):
            Ledger.load(tmp_path)


def files(folder):
    return {path.name: path.read_bytes() for path in sorted(folder.glob("ledger.*"))}


def put(folder, content):
    for path in folder.glob("ledger.*"):
        path.unlink()
    for name, held in content.items():
        (folder / name).write_bytes(held)


@parametrize("entries", [1, 2, 3])
def test_an_open_ledger_misses_what_it_holds(tmp_path, entries):
    book, other = Ledger.open(tmp_path / "a"), Ledger.open(tmp_path / "b")
    copies = [files(book.folder)]
    for k in range(entries):
        for one in (book, other):
            one.reserve(stretch(k + 1, k + 1))
        copies.append(files(book.folder))
    now = copies.pop()
    headless = {"ledger.jsonl": now["ledger.jsonl"]}
    for held in (*copies, files(other.folder), headless):
        put(book.folder, held)
        for use in (
            lambda: book.reserve(stretch(9, 9)),
            lambda: book.correct(event=steps(1), unit="example", label="a slide"),
            lambda: book.set_limit(Limit(epsilon=9.0, **ABOUT)),
        ):
            with refusal(r"lacks lines that were read from it|has no ledger[.]head beside"):
                use()
        assert files(book.folder) == held
    put(book.folder, now)
    Ledger.load(book.folder).reserve(stretch(8, 8))
    assert book.reserve(stretch(9, 9)).receipt["entry"] == entries + 2, "what another process added is no older copy"


def test_a_ledger_without_its_head_is_no_ledger_and_a_head_alone_is_a_start_that_was_cut_short(tmp_path):
    book = written(tmp_path)
    path, head, last = tmp_path / "ledger.jsonl", tmp_path / "ledger.head", book.digest
    path.write_bytes(path.read_bytes().split(b"\n")[0] + b"\n")
    head.unlink()
    for make in (Ledger.open, Ledger.load):
        with refusal(r"has no ledger.head beside it.*: restore both files from a copy"):
            make(tmp_path)
    path.unlink()
    head.write_text(json.dumps({"lines": 2, "hash": last}))
    with refusal(r"ledger.head exists and .* does not"):
        Ledger.open(tmp_path)
    head.write_text(json.dumps({"lines": 1, "hash": book.id}))
    assert Ledger.open(tmp_path).entries == ()


def test_a_torn_last_line_was_acknowledged_to_nobody(tmp_path):
    book = written(tmp_path)
    path = tmp_path / "ledger.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"entry": 4, "kind": "reser')
    assert Ledger.load(tmp_path).entries == book.entries
    book.reserve(stretch(9, 12))
    assert path.read_bytes().startswith(whole)
    assert [one.entry for one in Ledger.load(tmp_path).entries] == [2, 3, 4]


def test_an_entry_is_on_the_disk_before_anyone_is_told_and_a_disk_that_fails_is_a_sentence(book, tmp_path, monkeypatch):
    done = []
    for name in ("write", "fsync", "replace"):
        whole = getattr(chained_lines.os, name)
        with monkeypatch.context() as patch:
            patch.setattr(chained_lines.os, name, lambda *a: (_ for _ in ()).throw(OSError("disk full")))
            with refusal(r"cannot write the ledger .*: disk full; what was to be added may stand there"):
                book.reserve(stretch(1, 1))
        monkeypatch.setattr(
            chained_lines.os, name, lambda *a, name=name, whole=whole: (done.append(name), whole(*a))[1]
        )
    done.clear()
    book.reserve(stretch(1, 1))
    assert done[-5:] == ["write", "fsync", "fsync", "replace", "fsync"], "the line, then the head in its place"
    assert Ledger.load(tmp_path).entries == book.entries
