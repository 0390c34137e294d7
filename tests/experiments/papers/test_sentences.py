"""Sentences follow their tables: from another table than the committed one another answer follows."""

from contextlib import suppress

import polars as pl

from experiments.claims import judge
from experiments.registry import sections, studies
from experiments.runner import read_table, results_of
from tests.marks import every_case, slow

DEAR = ("entropy-sgld-laws",)
"""Names of studies whose tables are judged for long before the last sentence is turned."""
UNTURNED = {"entropy-sgld-laws": 1}
"""How many sentences none of these changes of a table turns."""


def _asked(name):
    """All sentences that a study's table answers, of its own paper and of others."""
    beside = [one for section in sections().values() for one in section.beside.get(name, ())]
    return [*studies()[name].sentences, *beside]


def _turned(table):
    """The same rows with labels exchanged, then with other numbers in all rows or in those of one label."""
    labels = {
        name: seen
        for name in table.columns
        if 1 < len(seen := table[name].drop_nulls().unique(maintain_order=True)) <= 12
    }
    for name, seen in labels.items():
        yield table.with_columns(pl.col(name).replace_strict(seen, seen.reverse(), default=None))
    numbers = [name for name, kind in table.schema.items() if kind == pl.Float64]
    for where in (pl.lit(True), *(pl.col(name) == one for name, seen in labels.items() for one in seen)):
        for name in numbers:
            number = pl.col(name)
            for other in (number.min() + number.max() - number, 0.1 * number, 10.0 * number):
                yield table.with_columns(pl.when(where).then(other).otherwise(number).alias(name))


@every_case("name", [slow(name) if name in DEAR else name for name in studies() if _asked(name)])
def test_every_sentence_that_a_table_decides_is_answered_otherwise_by_another_table(name):
    table = read_table(results_of(name))
    committed = {one.printed: (one, judge(one, table).holds) for one in _asked(name)}
    left = {printed for printed, (_, holds) in committed.items() if holds is not None}
    for other in _turned(table):
        if len(left) <= UNTURNED.get(name, 0):
            break
        for printed in set(left):
            one, holds = committed[printed]
            with suppress(TypeError, ValueError, ZeroDivisionError):  # what no run can have left may be refused
                if judge(one, other).holds is not holds:
                    left.discard(printed)
    assert len(left) <= UNTURNED.get(name, 0), left
