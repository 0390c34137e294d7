"""Processes that reserve at once, and processes killed at any operation on a file: the ledger is never short."""

import multiprocessing
from collections import Counter
from os import listdir

from numpy.random import default_rng
from toys import stretch

from bounds.accounting import Gaussian, SelfComposed, privacy_epsilon
from pacdp.store import chained_lines
from pacdp.store.ledger import Ledger, Overdrawn
from pacdp.store.ledger_entries import Limit
from tests.file_faults import Fault, carried_out, note, places
from tests.marks import parametrize, refusal, slow

FORK = multiprocessing.get_context("fork")
LAST, EVERY = 12, 4


def loop(folder, run):
    """Draws steps, with a checkpoint every four, going on from the last one."""
    checkpoint = folder / f"checkpoint-{run}"
    saved = int(checkpoint.read_text()) if checkpoint.exists() else 0
    book = Ledger.open(folder / "ledger")
    for first in range(saved + 1, LAST + 1, EVERY):
        granted = book.reserve(stretch(first, first + EVERY - 1, run=run))
        assert granted.receipt is not None
        note(folder / "seen", f"granted {granted.receipt['hash']}")
        for step in range(first, first + EVERY):
            granted.draw(step)
            note(folder / "seen", f"drew {run} {step}")
        (folder / "partial").write_text(str(first + EVERY - 1))
        (folder / "partial").replace(checkpoint)


def killed(folder, run, at, kind):
    outcome = carried_out(loop, (folder, run), root=folder, fault=Fault(at=at, kind=kind))
    assert outcome.killed or outcome.exitcode == 0, outcome
    return outcome.killed


def short(folder):
    """Everything that was seen and is not counted."""
    seen = (folder / "seen").read_text().splitlines() if (folder / "seen").exists() else []
    drawn = Counter(what for what in seen if what.startswith("drew"))
    granted = [what.split()[1] for what in seen if what.startswith("granted")]
    if not (folder / "ledger" / "ledger.jsonl").exists():
        return seen
    book = Ledger.load(folder / "ledger")
    counted = Counter()
    for of in (entry.stretch for entry in book.entries):
        counted.update(f"drew {of.run} {step}" for step in range(of.first, of.last + 1))
    kept = {line["hash"] for line in book._lines}
    return [*(drawn - counted), *(one for one in granted if one not in kept)]


def killed_often(folder, kills):
    """Kill loops until that many were; the number of runs that ended."""
    rng, done, ended = default_rng(3), 0, 0
    while done < kills:
        # now and then everything is new, so that kills meet the start of a ledger too
        place = folder / str(done // 40)
        place.mkdir(exist_ok=True)
        if killed(place, f"run{ended}", int(rng.integers(1, 45)), "tear" if rng.random() < 0.5 else "kill"):
            done += 1
        else:
            ended += 1
        assert short(place) == []
    return ended


@parametrize("kills", [16, slow(200)])
def test_kills_at_random_operations_leave_a_ledger_that_is_never_short(tmp_path, kills):
    assert killed_often(tmp_path, kills) >= kills // 60
    lines = [len(Ledger.load(place / "ledger").entries) for place in tmp_path.iterdir()]
    assert min(lines) > 10


def test_every_operation_of_a_ledger_s_start_may_be_the_last(tmp_path):
    done = carried_out(loop, (tmp_path, "a"), root=tmp_path).operations[:29]
    for kind in ("kill", "tear"):
        for at in places(done, kind):
            place = tmp_path / f"{at}-{kind}"
            place.mkdir()
            killed(place, "a", at, kind)
            assert short(place) == []
            loop(place, "a")
            assert short(place) == []
            left = {*listdir(place / "ledger")}
            assert left == {"ledger.jsonl", "ledger.head", ".ledger.jsonl.lock"}


@parametrize("fault", ["told before it is written", "taken for a torn line"])
def test_these_tests_would_notice(tmp_path, monkeypatch, fault):
    whole = chained_lines.add_line

    def faulty(path, line):
        if fault == "taken for a torn line":
            whole(path, line[:-1])

    monkeypatch.setattr(chained_lines, "add_line", faulty)
    (tmp_path / "headed").mkdir()
    with refusal("restore both files from a copy"):
        loop(tmp_path / "headed", "a")
    for check in ("_write_head", "_require_head"):
        monkeypatch.setattr(chained_lines, check, lambda *_: None)
    read = chained_lines.read
    monkeypatch.setattr(chained_lines, "read", lambda path, kind, known: read(path, kind))
    monkeypatch.setattr("pacdp.store.ledger.read", read)
    (tmp_path / "headless").mkdir()
    loop(tmp_path / "headless", "a")
    assert "drew a 12" in short(tmp_path / "headless") or fault.startswith("taken")
    assert "drew a 1" in short(tmp_path / "headless")


def reserving(folder, run, queue):
    book, granted = Ledger.open(folder), 0
    for first in range(1, 16):
        try:
            book.reserve(stretch(first, first, run=run, noise=50.0))
            granted += 1
        except Overdrawn:
            break
    queue.put(granted)


def raced(folder):
    """How many reservations were granted to three processes that ask at once, and their ledger."""
    queue = FORK.Queue()
    processes = [FORK.Process(target=reserving, args=(folder, run, queue)) for run in ("a", "b", "c")]
    for process in processes:
        process.start()
    granted = [queue.get(timeout=60) for _ in processes]
    for process in processes:
        process.join()
        assert process.exitcode == 0
    return sum(granted), Ledger.load(folder)


def test_processes_that_start_a_ledger_or_reserve_at_once_have_one_ledger_and_keep_to_one_limit(tmp_path):
    granted, book = raced(tmp_path / "new")
    assert granted == len(book.entries) == 45
    about = {"delta": 1e-5, "adjacency": "add-remove"}
    most = privacy_epsilon(event=SelfComposed(event=Gaussian(noise_multiplier=50.0), count=20), **about).upper
    Ledger.open(tmp_path).set_limit(Limit(epsilon=most, **about))
    granted, book = raced(tmp_path)
    assert granted == len(book.entries) == 20
    assert book.total(**about).epsilon <= most
