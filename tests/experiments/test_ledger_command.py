"""`pacdp ledger`: what was spent, on which runs, and what it may cost."""

import json

import pytest
from cli_tools import succeed

from bounds.accounting import Gaussian, NonPrivate, SelfComposed, privacy_epsilon
from pacdp.ledger import Ledger, Overdrawn
from pacdp.reservation import Stretch

LIMIT = ("--delta", "1e-5", "--adjacency", "add-remove")


def steps(count):
    return SelfComposed(event=Gaussian(noise_multiplier=30.0), count=count)


def stretch(run, first, last, **more):
    given = {"unit": "example", "event": steps(last - first + 1)} | more
    return Stretch(run=run, algorithm="toy", first=first, last=last, **given)


@pytest.fixture
def path(tmp_path):
    """A ledger with a limit, three runs, one stretch paid twice, and one seeded run."""
    folder = tmp_path / "ledger"
    succeed("ledger", "limit", folder, "--epsilon", "2", *LIMIT)
    book = Ledger.load(folder)
    for run, first, unit in (("aa", 1, "example"), ("aa", 11, "example"), ("aa", 11, "example"), ("bb", 1, "person")):
        book.reserve(stretch(run, first, first + 9, unit=unit))
    book.reserve(stretch("cc", 1, 10, stream=book.stream(keyed_by=1, settings=1)))
    return folder


@pytest.fixture
def said(capsys):
    """A function that runs a command of the ledger and returns what it prints."""

    def run(*arguments):
        capsys.readouterr()
        succeed("ledger", *arguments)
        printed = capsys.readouterr().out
        return json.loads(printed) if "--json" in arguments else " ".join(printed.split())

    return run


def test_show_lists_runs_and_adds_up(path, said):
    record = said("show", path, "--json")
    first, _, third = record["runs"]
    assert (first["run"], first["stretches"]) == ("aa", [[1, 10], [11, 20], [11, 20]])
    assert [run["seeded"] for run in record["runs"]] == [False, False, True]
    for found, count in ((first, 30), (third, 10)):
        each = privacy_epsilon(event=steps(count), delta=1e-5, adjacency="add-remove").upper
        assert found["epsilon"]["add-remove"] == pytest.approx(each)
    totals = {(total["unit"], total["adjacency"]): total["epsilon"] for total in record["totals"]}
    whole = privacy_epsilon(event=steps(50), delta=1e-5, adjacency="replace-one").upper
    assert totals["example", "add-remove"] == totals["example", "replace-one"] == pytest.approx(whole)
    assert totals["person", "add-remove"] is totals["person", "replace-one"] is None


def test_a_limit_is_lowered_and_raised_and_refuses(path, said, refused):
    assert "which is passed already" in said("limit", path, "--epsilon", "0.1", *LIMIT)
    with pytest.raises(Overdrawn):
        Ledger.load(path).reserve(stretch("dd", 1, 1))
    assert "a limit is raised with raising=True" in refused("ledger", "limit", path, "--epsilon", "3", *LIMIT)
    assert "it was raised once" in said("limit", path, "--epsilon", "3", *LIMIT, "--raise")
    Ledger.load(path).reserve(stretch("dd", 1, 1))


def test_an_empty_ledger_and_an_unbounded_one(tmp_path, said):
    show, book = ("show", tmp_path, "--delta", "1e-5"), Ledger.create(tmp_path)
    assert "no limit: nothing is refused" in said(*show)
    book.reserve(stretch("aa", 1, 1, event=NonPrivate()))
    total = said(*show, "--json")["totals"][0]
    assert (total["epsilon"], total["because"]) == (None, "some entries have no noise, or too little to count")
