"""Every command that writes, at every operation on a file that may fail; a sample of them by default."""

import random

import pytest

from tests.fault_worlds import WORLDS, carried_out, given, put_to

BY_NAME = {world.name: world for world in WORLDS}
SAMPLE = (
    ("ledger limit", "io"), ("train --force", "full"), ("train, private", "kill"), ("train, private", "io"),
    ("certify", "tear"), ("export", "full"), ("experiment", "kill"),
)  # fmt: skip


@pytest.mark.cases(2)
@pytest.mark.parametrize(("name", "of"), SAMPLE)
def test_a_fault(name, of, tmp_path):
    chance = random.Random(f"{name}, {of}")
    found = put_to(BY_NAME[name], tmp_path, choose=lambda kind, all_of: chance.sample(all_of, 1) if kind == of else ())
    assert found.lost == []
    assert found.tried.total() == 1


@pytest.mark.slow
@pytest.mark.usefixtures("trained", "exported")
@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.name)
def test_every_fault_of_every_command(world, tmp_path):
    found = put_to(world, tmp_path, choose=lambda kind, all_of: all_of)
    assert found.lost == []
    assert found.tried.total() > 10


def test_verifying_writes_nothing(exported):
    assert carried_out(given, (("verify", "@/out"), exported), root=exported).operations == ()
