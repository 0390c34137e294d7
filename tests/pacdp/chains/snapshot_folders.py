"""A small chain whose weights are a function of the step, and folders that hold it."""

from torch import equal

from pacdp.chains import shards as module
from pacdp.chains.snapshots import (
    DiskSnapshots,
    WeightsShape,
)
from tests.pacdp.draws import randn

SHAPE = WeightsShape(chains=2, parameters=(("z.weight", (2, 3)), ("a.bias", ())), layout="row-major")
SMALL = module.header_bytes(SHAPE) + 3 * (SHAPE.bytes + module.STEP_BYTES)  # three snapshots a shard


def weights_at(step, shape=SHAPE):
    """The chain: its weights are a function of the step, as those of a resumed chain are."""
    return randn((shape.chains, shape.dim), seed=step)


def fill(store, steps, *, flush_every=10**9):
    for step in steps:
        store.append(step, weights_at(step))
        if step % flush_every == 0:
            store.flush()
    store.flush()


def created(folder, shape=SHAPE):
    return DiskSnapshots.create(folder, shape=shape, shard_bytes=SMALL)


def written(folder, *, steps=8):
    fill(created(folder), list(range(1, steps + 1)))
    return folder


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def assert_holds(store, steps):
    assert list(store.steps) == steps
    assert len(store) == len(steps)
    found = list(store)
    assert [step for step, _ in found] == steps
    assert all(equal(weights, weights_at(step)) for step, weights in found)
