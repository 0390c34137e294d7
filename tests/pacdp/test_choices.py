"""A list of settings on disk: it grows under a lock, is fixed by closing, and shows every change."""

import json
import multiprocessing

import pytest

from pacdp.choices import FORMAT, Choices
from pacdp.fixed_settings import carried_on, fixed_settings
from tests.marks import every_case, refusal

RUNS = ({"sampler": {"tau": 1.0}, "seed": 0}, {"sampler": {"tau": 10.0}, "seed": 0}, {"anything": [1, None, "é"]})


def listed(folder, *, close=True, runs=RUNS):
    folder.mkdir(exist_ok=True)
    choices = Choices.create(folder / "list.jsonl", name="three")
    for run in runs:
        choices.add(run)
    if close:
        choices.close()
    return choices


def test_what_was_written_is_read(tmp_path):
    made = listed(tmp_path)
    read = Choices.load(tmp_path / "list.jsonl")
    for one in (made, read):
        assert (one.settings, one.J, one.closed, one.name, one.digest) == (RUNS, 3, True, "three", made.digest)
    head, *lines, last = map(json.loads, (tmp_path / "list.jsonl").read_text().splitlines())
    assert head["format"] == FORMAT
    assert [(line["index"], line["settings"]) for line in lines] == list(enumerate(RUNS))
    assert (last["J"], last["hash"]) == (3, made.digest)
    assert listed(tmp_path / "again").digest != made.digest, "digests tell nothing of the settings"
    started = Choices.create(tmp_path / "started", settings=[*RUNS, RUNS[0]])
    assert started.settings == Choices.load(tmp_path / "started").settings == RUNS


def test_settings_are_listed_once_and_numbers_by_their_text(tmp_path):
    choices = Choices.create(tmp_path / "list")
    assert [choices.add(run) for run in ({"a": 1, "b": 2}, {"b": 2, "a": 1}, {"a": 1.0, "b": 2})] == [0, 0, 1]
    choices.close()
    assert choices.J == 2
    assert choices.covers({"b": 2, "a": 1})
    assert not choices.covers({"a": True, "b": 2})


def test_j_is_not_known_before_closing_and_nothing_is_added_after(tmp_path):
    choices = Choices.create(tmp_path / "list")
    with refusal("has no settings: add those of the runs before closing"):
        choices.close()
    choices.add(RUNS[0])
    for early in (lambda: choices.J, lambda: choices.require(RUNS[0])):
        with refusal("is not closed, so that its number of settings may grow"):
            early()
    choices.close()
    before = choices.path.read_bytes()
    choices.close()
    for late in (RUNS[0], RUNS[1]):
        with refusal("is closed, so that its number of settings is fixed: start another"):
            choices.add(late)
    assert choices.path.read_bytes() == before


def test_an_open_list_misses_what_it_holds(tmp_path):
    choices = listed(tmp_path, close=False)
    whole = choices.path.read_bytes()
    choices.close()
    choices.path.write_bytes(whole)
    with refusal("lacks lines that were read from it"):
        choices.add({"another": 1})


def test_a_run_carries_the_list_that_covers_it(tmp_path):
    choices = listed(tmp_path)
    assert choices.require(RUNS[1]) == {"digest": choices.digest, "J": 3, "index": 1}
    with pytest.raises(ValueError) as refused:
        choices.require({"sampler": {"tau": 10}, "seed": 0})
    assert str(refused.value).endswith(
        "number 1 of its settings comes nearest, but sampler.tau is 10 here and 10.0 there"
    )


def edited(lines, number, **values):
    line = {**json.loads(lines[number]), **values}
    return [*lines[:number], json.dumps(line) + "\n", *lines[number + 1 :]]


TAMPERING = {
    "a setting edited": lambda lines: edited(lines, 2, settings={"sampler": {"tau": 9.0}, "seed": 0}),
    "J edited": lambda lines: edited(lines, 4, J=1),
    "lines changed places": lambda lines: [lines[0], lines[2], lines[1], *lines[3:]],
    "the last setting taken out": lambda lines: [*lines[:3], lines[4]],
}


@every_case("what", TAMPERING)
def test_a_list_that_was_tampered_with_is_refused(tmp_path, what):
    """And so is a ledger: both are chained lines."""
    path = listed(tmp_path).path
    path.write_text("".join(TAMPERING[what](path.read_text().splitlines(keepends=True))))
    with refusal(r"is not what was written: line \d was changed, moved or added"):
        Choices.load(path)


def test_a_cut_list_is_never_a_closed_one_and_nothing_follows_the_closing_line(tmp_path):
    path = listed(tmp_path).path
    whole = path.read_bytes()
    for cut in range(0, len(whole), 7):
        path.write_bytes(whole[:cut])
        if cut <= whole.index(b"\n"):
            with refusal("is no list of settings"):
                Choices.load(path)
        else:
            assert not Choices.load(path).closed
    for more in (b'{"index": 3, "settings": {}, "hash": "0"}\n', b"\n", b'{"index": 3, "sett'):
        path.write_bytes(whole + more)
        with refusal("goes on after it was closed"):
            Choices.load(path)


@pytest.mark.wrong_types
def test_other_files_and_places_and_what_is_no_setting(tmp_path):
    path = listed(tmp_path, close=False).path
    (tmp_path / "file").write_text('{"format": "pacdp-choices/0"}\n')
    with refusal(f"is no list of settings of format {FORMAT}: give one made by pacdp"):
        Choices.load(tmp_path / "file")
    for call, words in (
        (lambda: Choices.load(tmp_path / "nothing"), "cannot read the list of settings"),
        (lambda: Choices.create(path), "exists: add to it, or choose another file"),
        (lambda: Choices.load(path).add(3), "expected settings to be a JSON object"),  # type: ignore[arg-type]
        (lambda: Choices.create(tmp_path / "none", settings=[{"tau": 1.0}, 3]), "a JSON object, got int"),  # type: ignore[list-item]
    ):
        with refusal(words):
            call()
    assert Choices.load(path).settings == RUNS
    assert not (tmp_path / "none").exists()
    assert Choices.open(tmp_path / "new").settings == ()


def _add_many(path, first):
    choices = Choices.load(path)
    for value in range(first, first + 15):
        choices.add({"value": value})


def test_two_processes_add_to_one_list(tmp_path):
    path = Choices.create(tmp_path / "list").path
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=_add_many, args=(path, first)) for first in (0, 10)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
        assert worker.exitcode == 0
    found = Choices.load(path).settings
    assert sorted(one["value"] for one in found) == list(range(25))


def test_with_the_list_at_hand_the_hypothesis_is_proved(tmp_path):
    choices = listed(tmp_path)
    record = choices.require(RUNS[1])
    found = fixed_settings(record, RUNS[1], choices=choices)
    assert (found.count, found.hypothesis.name, found.hypothesis.standing) == (3, "settings fixed beforehand", "proved")
    assert "the list 'three' of 3 settings" in found.hypothesis.by
    for known, count in ((record, 3), (None, 1)):
        away = fixed_settings(known, RUNS[1], choices=None)
        assert (away.count, away.hypothesis.standing) == (count, "declared")
    for known in (RUNS[1], None):  # the run does not name the list, or nobody knows its settings
        after = fixed_settings(None, known, choices=choices)
        assert (after.count, after.hypothesis.standing) == (3, "declared")
        assert "nothing shows that it was closed before" in after.hypothesis.by
    with refusal("does not list this run"):
        fixed_settings(None, {"another": 1}, choices=choices)


@pytest.mark.wrong_types
def test_another_list_or_another_run_proves_nothing(tmp_path):
    choices = listed(tmp_path)
    record = choices.require(RUNS[1])
    longer = listed(tmp_path / "other", runs=(*RUNS, {"more": 1}))
    with refusal("was changed or extended after the run's first step"):
        fixed_settings(record, RUNS[1], choices=longer)
    for other in ({**record, "J": 2}, {**record, "index": 0}, {**record, "more": 1}):
        with refusal("has these settings under another number or J"):
            fixed_settings(other, RUNS[1], choices=choices)
    with refusal("does not list this run"):
        fixed_settings(record, {"seed": 9}, choices=choices)
    for bad in ({}, {"digest": "0", "J": "x"}, [1]):
        with refusal("expected a record of a list of settings"):
            fixed_settings(bad, RUNS[1], choices=choices)  # type: ignore[arg-type]


def test_a_resumed_run_keeps_the_list_of_its_first_step():
    one, other = {"digest": "a", "J": 1, "index": 0}, {"digest": "b", "J": 1, "index": 0}
    assert carried_on(None, None, where="run") is None
    assert carried_on(one, None, where="run") == carried_on(one, dict(one), where="run") == one
    for before, said in ((None, "without a list of settings"), (other, "with the list b")):
        with refusal(f"run was started {said}, and a list counts from the first step on"):
            carried_on(before, one, where="run")
