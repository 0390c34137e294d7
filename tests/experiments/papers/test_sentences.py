"""Every sentence of every study holds on some planted table and fails on another, and few rows decide nothing."""

from collections import defaultdict

import pytest
from planted import changed, claims
from worlds_certificates import WORLDS as OF_CERTIFICATES
from worlds_chains import WORLDS as OF_CHAINS
from worlds_p3sgd import WORLDS as OF_P3SGD
from worlds_private import WORLDS as OF_PRIVATE

WORLDS = [*OF_CHAINS, *OF_PRIVATE, *OF_P3SGD, *OF_CERTIFICATES]


@pytest.mark.every_case
@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.study.name)
def test_every_sentence_can_hold_and_can_fail(world):
    seen = defaultdict(set)
    for words, where, values, holds in world.turns:
        found = claims(world, changed(world.table, where, values))
        for some in (words,) if isinstance(words, str) else words:
            own = {sentence: one for sentence, one in found.items() if some in sentence}
            assert own == dict.fromkeys(own, holds) != {}, (some, where, values)
        for sentence, one in found.items():
            seen[sentence].add(one)
    assert [sentence for sentence, answers in seen.items() if not {True, False} <= answers] == []


@pytest.mark.every_case
@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.study.name)
def test_no_rows_decide_nothing_and_neither_do_few(world):
    if world.study.name == "learnt-posteriors":
        pytest.skip("its first sentence speaks of every certificate, and holds of none")
    for table in (world.table.clear(), *([] if world.few is None else [world.table.filter(world.few)])):
        assert set(claims(world, table).values()) <= {None}
