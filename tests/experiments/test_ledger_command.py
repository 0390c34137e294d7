"""`pacdp ledger`: what was spent, on which runs, and what it may cost."""

import json

import pytest
from cli_tools import one_sentence, pacdp

from bounds.accounting import Gaussian, NonPrivate, SelfComposed, privacy_epsilon
from pacdp.ledger import Ledger, Overdrawn
from pacdp.reservation import Stretch

LIMIT = ("--delta", "1e-5", "--adjacency", "add-remove")


def steps(count: int) -> SelfComposed:
    return SelfComposed(event=Gaussian(noise_multiplier=30.0), count=count)


def stretch(run: str, first: int, last: int, **more) -> Stretch:
    given = {"unit": "example", "event": steps(last - first + 1), "label": "[bold] try"} | more
    return Stretch(run=run, algorithm="toy", first=first, last=last, **given)


@pytest.fixture
def path(tmp_path):
    """A ledger with a limit, three runs, one stretch paid twice, and one seeded run."""
    folder = tmp_path / "ledger"
    assert pacdp("ledger", "limit", folder, "--epsilon", "2", *LIMIT) == 0
    book = Ledger.load(folder)
    for one in (
        stretch("aa", 1, 10),
        stretch("aa", 11, 20),
        stretch("aa", 11, 20),
        stretch("bb", 1, 10, unit="person"),
    ):
        book.reserve(one)
    book.reserve(stretch("cc", 1, 10, stream=book.stream(keyed_by=1, settings=1)))
    return folder


def said(capsys) -> str:
    return " ".join(capsys.readouterr().out.split())


def test_show_lists_runs_and_adds_up(path, capsys):
    capsys.readouterr()
    assert pacdp("ledger", "show", path) == 0
    out = said(capsys)
    for part in ("3 runs in 5 entries", "1-10, 11-20 2x", "[bold] try", "seeded", "system", "limit epsilon 2 at delta"):
        assert part in out
    assert pacdp("ledger", "show", path, "--json") == 0
    record = json.loads(capsys.readouterr().out)
    assert [(run["run"], run["unit"], run["seeded"]) for run in record["runs"]] == [
        ("aa", "example", False),
        ("bb", "person", False),
        ("cc", "example", True),
    ]
    assert record["runs"][0]["stretches"] == [[1, 10], [11, 20], [11, 20]]
    each = privacy_epsilon(event=steps(30), delta=1e-5, adjacency="add-remove").upper
    assert record["runs"][0]["epsilon"]["add-remove"] == pytest.approx(each)
    totals = {(total["unit"], total["adjacency"]): total["epsilon"] for total in record["totals"]}
    whole = privacy_epsilon(event=steps(50), delta=1e-5, adjacency="replace-one").upper
    assert totals["example", "add-remove"] == totals["example", "replace-one"] == pytest.approx(whole)
    assert totals["person", "add-remove"] is totals["person", "replace-one"] is None
    assert record["limit"] == {"epsilon": 2.0, "delta": 1e-5, "adjacency": "add-remove", "unit": "example"}
    assert record["digest"] == Ledger.load(path).digest
    assert pacdp("ledger", "show", path, "--latest", "1", "--delta", "1e-6", "--json") == 0
    later = json.loads(capsys.readouterr().out)
    assert ([run["run"] for run in later["runs"]], later["delta"]) == (["cc"], 1e-6)
    assert pacdp("ledger", "show", path, "--latest", "0") == 0
    assert "and 3 earlier runs, which the totals count" in said(capsys)


def test_explain_says_what_is_counted_and_what_is_not(path, capsys):
    capsys.readouterr()
    assert pacdp("ledger", "explain", path) == 0
    out = said(capsys)
    for part in (
        "counts 5 entries of 3 runs: 5 stretches of training steps, 0 releases",
        "entries here that repeat a stretch of their run: 1",
        "Seeded entries here: 1",
        "Not counted: what was released without a reservation",
        "resumes a copy of it",
        "1 of 5 entries hide people",
        "epsilon is unbounded: some entries hide examples, not people",
        Ledger.load(path).digest,
    ):
        assert part in out


def test_a_limit_is_lowered_and_raised_and_refuses(path, capsys):
    assert pacdp("ledger", "limit", path, "--epsilon", "0.1", *LIMIT) == 0
    assert "which is passed already: everything is refused" in capsys.readouterr().out
    with pytest.raises(Overdrawn):
        Ledger.load(path).reserve(stretch("dd", 1, 1))
    assert pacdp("ledger", "limit", path, "--epsilon", "3", *LIMIT) == 1
    assert "a limit is raised with raising=True, or --raise" in one_sentence(capsys.readouterr().err)
    assert pacdp("ledger", "limit", path, "--epsilon", "3", *LIMIT, "--raise") == 0
    assert "it was raised once" in capsys.readouterr().out
    Ledger.load(path).reserve(stretch("dd", 1, 1))


def test_mistakes_are_one_sentence_each(path, tmp_path, capsys):
    (tmp_path / "empty").mkdir()
    Ledger.create(tmp_path / "unlimited")
    for arguments, part in (
        (("show", tmp_path / "none"), "cannot read the ledger"),
        (("explain", tmp_path / "empty"), "cannot read the ledger"),
        (("show", tmp_path / "unlimited"), "has no limit that names a delta: give --delta"),
        (("show", path, "--delta", "2"), "delta"),
        (("show", path, "--latest", "-1"), "--latest must be 0 or more"),
        (("limit", path, "--epsilon", "-1", *LIMIT), "epsilon"),
        (("limit", tmp_path / "empty" / "new", "--epsilon", "nan", *LIMIT), "epsilon"),
    ):
        capsys.readouterr()
        assert pacdp("ledger", *arguments) == 1, arguments
        assert part in one_sentence(capsys.readouterr().err)
    assert list((tmp_path / "empty").iterdir()) == []
    (path / "ledger.jsonl").write_text((path / "ledger.jsonl").read_text().replace('"aa"', '"ab"'))
    capsys.readouterr()
    assert pacdp("ledger", "show", path) == 1
    assert "is not what was written" in one_sentence(capsys.readouterr().err)


def test_an_empty_ledger_and_an_unbounded_one(tmp_path, capsys):
    book = Ledger.create(tmp_path / "ledger")
    assert pacdp("ledger", "show", book.folder, "--delta", "1e-5") == 0
    assert "no limit: nothing is refused" in said(capsys)
    book.reserve(stretch("aa", 1, 1, event=NonPrivate()))
    assert pacdp("ledger", "show", book.folder, "--delta", "1e-5", "--json") == 0
    record = json.loads(capsys.readouterr().out)
    assert record["totals"][0]["epsilon"] is None
    assert record["totals"][0]["because"] == "some entries have no noise, or too little to count"
