"""A list of settings on disk: it grows under a lock, is fixed by closing, and shows every change."""

import json
import multiprocessing
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pacdp.chained_lines import Lines
from pacdp.choices import FORMAT, Choices
from pacdp.fixed_settings import carried_on, fixed_settings

RUNS = ({"sampler": {"tau": 1.0}, "seed": 0}, {"sampler": {"tau": 10.0}, "seed": 0}, {"anything": [1, None, "é"]})


def listed(folder: Path, *, close: bool = True, runs=RUNS) -> Choices:
    choices = Choices.create(folder / "list.jsonl", name="three")
    for run in runs:
        choices.add(run)
    if close:
        choices.close()
    return choices


def test_what_was_written_is_read(tmp_path: Path) -> None:
    made = listed(tmp_path)
    read = Choices.load(tmp_path / "list.jsonl")
    for one in (made, read):
        assert (one.settings, one.J, one.closed, one.name) == (RUNS, 3, True, "three")
        assert one.digest == made.digest
    head, *lines, last = map(json.loads, (tmp_path / "list.jsonl").read_text().splitlines())
    assert head["format"] == FORMAT
    assert [(line["index"], line["settings"]) for line in lines] == list(enumerate(RUNS))
    assert (last["J"], last["hash"]) == (3, made.digest)


def test_equal_lists_have_different_digests_that_tell_nothing_of_the_settings(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    assert listed(tmp_path / "a").digest != listed(tmp_path / "b").digest


def test_settings_are_listed_once_and_numbers_by_their_text(tmp_path: Path) -> None:
    choices = Choices.create(tmp_path / "list")
    assert [choices.add(run) for run in ({"a": 1, "b": 2}, {"b": 2, "a": 1}, {"a": 1.0, "b": 2})] == [0, 0, 1]
    choices.close()
    assert choices.J == 2
    assert choices.covers({"b": 2, "a": 1})
    assert not choices.covers({"a": True, "b": 2})


def test_j_is_not_known_before_closing_and_nothing_is_added_after(tmp_path: Path) -> None:
    choices = Choices.create(tmp_path / "list")
    with pytest.raises(ValueError, match="has no settings: add those of the runs before closing"):
        choices.close()
    choices.add(RUNS[0])
    for early in (lambda: choices.J, lambda: choices.require(RUNS[0])):
        with pytest.raises(ValueError, match="is not closed, so that its number of settings may grow"):
            early()
    choices.close()
    before = choices.path.read_bytes()
    choices.close()
    for late in (RUNS[0], RUNS[1]):
        with pytest.raises(ValueError, match="is closed, so that its number of settings is fixed: start another"):
            choices.add(late)
    assert choices.path.read_bytes() == before


def test_a_run_carries_the_list_that_covers_it(tmp_path: Path) -> None:
    choices = listed(tmp_path)
    assert choices.require(RUNS[1]) == {"digest": choices.digest, "J": 3, "index": 1}
    with pytest.raises(ValueError) as refused:
        choices.require({"sampler": {"tau": 10}, "seed": 0})
    assert str(refused.value).endswith(
        "does not list this run: number 1 of its settings comes nearest, but sampler.tau is 10 here and 10.0 there"
    )
    with pytest.raises(
        ValueError, match=r"more is 0 here and nothing there, sampler.tau is 3 here .* and 1 more differ"
    ):
        choices.require({"sampler": {"tau": 3}, "seed": 1, "more": 0})


@pytest.mark.wrong_types
@pytest.mark.parametrize("settings", [3, [1], None, {"a": float("nan")}, {"a": {1, 2}}])
def test_settings_that_are_no_json_object_are_refused(tmp_path: Path, settings) -> None:
    choices = listed(tmp_path, close=False)
    with pytest.raises(ValueError, match=r"expected settings to be a JSON object|expected JSON values only"):
        choices.add(settings)
    assert Choices.load(choices.path).settings == RUNS


def _changed(lines: list[str], number: int, **values: object) -> list[str]:
    line = {**json.loads(lines[number]), **values}
    return [*lines[:number], json.dumps(line) + "\n", *lines[number + 1 :]]


TAMPERING = {
    "a setting edited": lambda lines: _changed(lines, 2, settings={"sampler": {"tau": 9.0}, "seed": 0}),
    "an index edited": lambda lines: _changed(lines, 2, index=0),
    "a hash edited": lambda lines: _changed(lines, 2, hash="0" * 64),
    "a hash taken out": lambda lines: [*lines[:2], json.dumps({"index": 1, "settings": RUNS[1]}) + "\n", *lines[3:]],
    "the date edited": lambda lines: _changed(lines, 0, created="2001-01-01T00:00:00+00:00"),
    "the salt edited": lambda lines: _changed(lines, 0, salt="0"),
    "J edited": lambda lines: _changed(lines, 4, J=1),
    "lines changed places": lambda lines: [lines[0], lines[2], lines[1], *lines[3:]],
    "a line taken out": lambda lines: [*lines[:2], *lines[3:]],
    "the last setting taken out": lambda lines: [*lines[:3], lines[4]],
    "a line twice": lambda lines: [*lines[:2], *lines[1:]],
    "a line that is no JSON": lambda lines: [*lines[:2], "x\n", *lines[3:]],
    "an empty line": lambda lines: [*lines[:2], "\n", *lines[2:]],
    "a line that is no object": lambda lines: [*lines[:2], "[1]\n", *lines[3:]],
}


@pytest.mark.parametrize("what", TAMPERING)
def test_a_list_that_was_tampered_with_is_refused(tmp_path: Path, what: str) -> None:
    path = listed(tmp_path).path
    path.write_text("".join(TAMPERING[what](path.read_text().splitlines(keepends=True))))
    with pytest.raises(
        ValueError, match=r"is not what was written: line \d was changed, moved or added, or one before"
    ):
        Choices.load(path)


@pytest.mark.parametrize("more", ['{"index": 3, "settings": {}, "hash": "0"}\n', "x", "\n", '{"index": 3, "sett'])
def test_nothing_follows_the_closing_line(tmp_path: Path, more: str) -> None:
    path = listed(tmp_path).path
    path.write_text(path.read_text() + more)
    with pytest.raises(ValueError, match="goes on after it was closed"):
        Choices.load(path)


@pytest.mark.parametrize(
    "text", ["", "{}\n", "no list", '{"format": "pacdp-choices/0"}\n', "\x00\n", "[" * 10**5 + "\n"]
)
def test_other_files_are_no_lists(tmp_path: Path, text: str) -> None:
    (tmp_path / "file").write_text(text)
    with pytest.raises(ValueError, match=f"is no list of settings of format {FORMAT}: give one made by pacdp choices"):
        Choices.load(tmp_path / "file")


def test_files_that_cannot_be_read_or_written(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "nothing"):
        with pytest.raises(ValueError, match="cannot read the list of settings"):
            Choices.load(path)
    path = listed(tmp_path).path
    with pytest.raises(ValueError, match="exists: add to it, or choose another file"):
        Choices.create(path)
    with pytest.raises(ValueError, match="cannot write the list of settings"):
        Choices.create(path / "below")
    with pytest.raises(ValueError, match="cannot write the list of settings"):
        Choices.create("a" * 1000)
    assert Choices.open(path).J == 3
    assert Choices.open(tmp_path / "new").settings == ()


def test_each_damaged_byte_of_a_closed_list_is_found(tmp_path: Path) -> None:
    path = listed(tmp_path).path
    whole, good = path.read_bytes(), Choices.load(path)
    for where in range(len(whole)):
        damaged = bytearray(whole)
        damaged[where] ^= 1 << (where % 7)
        path.write_bytes(bytes(damaged))
        try:
            read = Choices.load(path)
        except ValueError:
            continue
        if read.closed:
            assert (read.digest, read.settings, read.J) == (good.digest, good.settings, good.J), where


@given(st.integers(0, 10**6))
def test_a_cut_list_is_never_a_closed_one(tmp_path_factory: pytest.TempPathFactory, cut: int) -> None:
    path = listed(tmp_path_factory.mktemp("list")).path
    whole = path.read_bytes()
    path.write_bytes(whole[: cut % len(whole)])
    if cut % len(whole) <= whole.index(b"\n"):
        with pytest.raises(ValueError, match="is no list of settings"):
            Choices.load(path)
    else:
        assert not Choices.load(path).closed


def test_a_line_cut_short_by_a_crash_was_told_to_nobody_and_is_written_over(tmp_path: Path) -> None:
    choices = listed(tmp_path, close=False)
    whole = choices.path.read_bytes()
    with choices.path.open("ab") as file:
        file.write(b'{"index": 3, "settings": {"se')
    assert Choices.load(choices.path).settings == RUNS
    assert choices.add({"new": 1}) == 3
    assert choices.path.read_bytes().startswith(whole)
    assert Choices.load(choices.path).settings == (*RUNS, {"new": 1})


def _add_many(path: Path, first: int) -> None:
    choices = Choices.load(path)
    for value in range(first, first + 15):
        choices.add({"value": value})


def test_two_processes_add_to_one_list(tmp_path: Path) -> None:
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


def test_a_failed_write_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    choices = listed(tmp_path, close=False)
    monkeypatch.setattr(os, "write", lambda descriptor, content: len(content) - 1)
    with pytest.raises(ValueError, match=r"cannot write the list of settings .* cut short; free space"):
        choices.add({"new": 1})


def test_with_the_list_at_hand_the_hypothesis_is_proved(tmp_path: Path) -> None:
    choices = listed(tmp_path)
    record = choices.require(RUNS[1])
    found = fixed_settings(record, RUNS[1], choices=choices)
    assert (found.count, found.hypothesis.name, found.hypothesis.standing) == (3, "settings fixed beforehand", "proved")
    assert "the list 'three' of 3 settings" in found.hypothesis.by
    away = fixed_settings(record, RUNS[1], choices=None)
    assert (away.count, away.hypothesis.standing) == (3, "declared")
    none = fixed_settings(None, RUNS[1], choices=None)
    assert (none.count, none.hypothesis.standing) == (1, "declared")
    for known in (RUNS[1], None):  # the run does not name the list, or nobody knows its settings
        after = fixed_settings(None, known, choices=choices)
        assert (after.count, after.hypothesis.standing) == (3, "declared")
        assert "nothing shows that it was closed before" in after.hypothesis.by
    with pytest.raises(ValueError, match="does not list this run"):
        fixed_settings(None, {"another": 1}, choices=choices)


@pytest.mark.wrong_types
def test_another_list_or_another_run_proves_nothing(tmp_path: Path) -> None:
    choices = listed(tmp_path)
    record = choices.require(RUNS[1])
    (tmp_path / "other").mkdir()
    longer = listed(tmp_path / "other", runs=(*RUNS, {"more": 1}))
    with pytest.raises(ValueError, match="was changed or extended after the run's first step"):
        fixed_settings(record, RUNS[1], choices=longer)
    open_again = Choices(choices.path, Lines(choices._lines[:-1]))
    with pytest.raises(ValueError, match="was changed or extended"):
        fixed_settings({**record, "digest": open_again.digest}, RUNS[1], choices=open_again)
    for other in ({**record, "J": 2}, {**record, "index": 0}, {**record, "more": 1}):
        with pytest.raises(ValueError, match="has these settings under another number or J"):
            fixed_settings(other, RUNS[1], choices=choices)
    with pytest.raises(ValueError, match="does not list this run"):
        fixed_settings(record, {"seed": 9}, choices=choices)
    for bad in ({}, {"digest": "0", "J": "x"}, [1]):
        with pytest.raises(ValueError, match="expected a record of a list of settings"):
            fixed_settings(bad, RUNS[1], choices=choices)  # type: ignore[arg-type]


def test_a_resumed_run_keeps_the_list_of_its_first_step() -> None:
    one, other = {"digest": "a", "J": 1, "index": 0}, {"digest": "b", "J": 1, "index": 0}
    assert carried_on(None, None, where="run") is None
    assert carried_on(one, None, where="run") == carried_on(one, dict(one), where="run") == one
    for before, said in ((None, "without a list of settings"), (other, "with the list b")):
        with pytest.raises(ValueError, match=f"run was started {said}, and a list counts from the first step on"):
            carried_on(before, one, where="run")


def test_a_list_that_starts_with_settings_is_the_one_to_which_they_were_added(tmp_path: Path) -> None:
    settings = [{"tau": 1.0}, {"tau": 2.0}, {"tau": 1.0}]
    started = Choices.create(tmp_path / "started", settings=settings)
    added = Choices.create(tmp_path / "added")
    for one in settings:
        added.add(one)
    assert started.settings == added.settings == Choices.load(tmp_path / "started").settings == tuple(settings[:2])
    assert started.add({"tau": 3.0}) == 2


@pytest.mark.wrong_types
def test_a_list_does_not_start_with_what_is_no_setting(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="expected settings to be a JSON object, got int"):
        Choices.create(tmp_path / "none", settings=[{"tau": 1.0}, 3])
    assert not (tmp_path / "none").exists()
