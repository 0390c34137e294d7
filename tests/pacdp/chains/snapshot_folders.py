"""A small chain whose weights are a function of the step, and folders that hold it."""

from torch import equal

from pacdp.chains.snapshots import resume_snapshots
from tests.pacdp.draws import randn

SHAPES = {"z.weight": (2, 3), "a.bias": ()}


def weights_at(step, shapes=SHAPES):
    """The chain: its weights are a function of the step, as those of a resumed chain are."""
    return {name: randn(shape, seed=step) for name, shape in shapes.items()}


def begun(folder):
    return resume_snapshots(folder, up_to_step=-1)


def fill(store, steps):
    for step in steps:
        store.append(step, weights_at(step))


def written(folder, *, steps=8):
    fill(begun(folder), range(1, steps + 1))
    return folder


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def assert_holds(store, steps):
    assert list(store.steps) == steps
    assert len(store) == len(steps)
    found = list(store)
    assert [step for step, _ in found] == steps
    for step, weights in found:
        expected = weights_at(step)
        assert list(weights) == list(expected)
        assert all(equal(own, expected[name]) for name, own in weights.items())
