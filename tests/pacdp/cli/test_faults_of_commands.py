"""A sample of the faults that ``python -m tests.fault_table`` puts every command to, at every operation on a file."""

import random
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.fault_worlds import WORLDS, carried_out, given, put_to
from tests.marks import parametrize

BY_NAME = {world.name: world for world in WORLDS}
SAMPLE = (
    ("ledger limit", "io"), ("train --force", "full"), ("train --chains", "kill"), ("compress", "kill"),
    ("train, private", "kill"), ("train, private", "io"),
    ("certify", "tear"), ("experiment", "kill"), ("export", "full"),
)  # fmt: skip


def put(world, root, choose):
    """Studies are forks of a server's: polars hangs in a fork of a process that has used it."""
    if world.name not in ("experiment", "results"):
        return put_to(world, root, choose=choose)
    with ThreadPoolExecutor(1) as beside:
        return beside.submit(put_to, world, root, choose=choose).result()


@pytest.mark.cases(2)
@pytest.mark.usefixtures("exported")
@parametrize(("name", "of"), SAMPLE)
def test_a_fault(name, of, tmp_path):
    chance = random.Random(f"{name}, {of}")

    def choose(kind, all_of):
        return chance.sample(all_of, 1) if kind == of else ()

    found = put(BY_NAME[name], tmp_path, choose)
    assert found.lost == []
    assert found.tried.total() == 1


def test_verifying_writes_nothing(exported):
    assert carried_out(given, (("verify", "@/out"), exported), root=exported).operations == ()
