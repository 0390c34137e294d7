"""`pacdp ledger`: what was spent, on which runs, and what it may cost."""

import pytest
from cli_tools import succeed

from bounds.accounting import Gaussian, NonPrivate, SelfComposed, privacy_epsilon
from pacdp.store.ledger import Ledger, Overdrawn
from tests.marks import near
from tests.pacdp import toys

LIMIT = ("--delta", "1e-5", "--adjacency", "add-remove")


def steps(count):
    return SelfComposed(event=Gaussian(noise_multiplier=30.0), count=count)


def stretch(run, first, last, **more):
    return toys.stretch(first, last, run=run, **{"event": steps(last - first + 1)} | more)


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


def test_show_lists_runs_and_adds_up(path, said):
    record = said("ledger", "show", path, "--json")
    first, _, third = record["runs"]
    assert (first["run"], first["stretches"]) == ("aa", [[1, 10], [11, 20], [11, 20]])
    assert [run["seeded"] for run in record["runs"]] == [False, False, True]

    def cost(count, adjacency):
        return near(privacy_epsilon(event=steps(count), delta=1e-5, adjacency=adjacency).upper)

    assert [one["epsilon"]["add-remove"] for one in (first, third)] == [cost(30, "add-remove"), cost(10, "add-remove")]
    totals = {(total["unit"], total["adjacency"]): total["epsilon"] for total in record["totals"]}
    assert totals["example", "add-remove"] == totals["example", "replace-one"] == cost(50, "replace-one")
    assert totals["person", "add-remove"] is totals["person", "replace-one"] is None


def test_a_total_for_add_remove_says_when_it_means_nothing(path, said):
    """A run that tells the number of records tells data sets of unequal size apart with certainty."""
    told = "if no release tells how many records there are, as loops whose rate"
    lines = [line for line in said("ledger", "show", path).splitlines() if ": epsilon <=" in line]
    assert [(told in line) for line in lines] == ["add-remove" in line for line in lines] == [True, False]
    assert f"it is kept {told}" in said("ledger", "limit", path, *LIMIT, "--epsilon", "1")
    other = ("--delta", "1e-5", "--adjacency", "replace-one", "--raise")
    assert told not in said("ledger", "limit", path, *other, "--epsilon", "1")


def test_a_limit_is_lowered_and_raised_and_refuses(path, said, refused):
    limit = ("ledger", "limit", path, *LIMIT, "--epsilon")
    assert "which is passed already" in said(*limit, "0.1")
    with pytest.raises(Overdrawn):
        Ledger.load(path).reserve(stretch("dd", 1, 1))
    assert "a limit is raised with raising=True" in refused(*limit, "3")
    assert "it was raised once" in said(*limit, "3", "--raise")


def test_an_empty_ledger_and_an_unbounded_one(tmp_path, said):
    show, book = ("ledger", "show", tmp_path, "--delta", "1e-5"), Ledger.create(tmp_path)
    assert "no limit: nothing is refused" in said(*show)
    book.reserve(stretch("aa", 1, 1, event=NonPrivate()))
    total = said(*show, "--json")["totals"][0]
    assert (total["epsilon"], total["because"]) == (None, "some entries have no noise, or too little to count")
