"""A trace holds means over windows, whatever the chunks were."""

import numpy as np
import torch
from numpy.testing import assert_allclose
from torch.testing import assert_close

from pacdp.chains import Chunk, Trace
from pacdp.chains.run import LENGTH
from tests.marks import every_case, parametrize
from tests.pacdp.draws import rand


def chunks(values, sizes, *, displacement=False):
    return [
        Chunk(None, part, torch.zeros_like(part), 2 * part if displacement else None)
        for part in values.split(sizes, dim=1)
    ]


def traced(values, sizes, *, every, displacement=False):
    trace = Trace(every)
    for chunk in chunks(values, sizes, displacement=displacement):
        trace = trace.extended(chunk)
    return trace


VALUES = rand(3, 100)


@every_case(
    ("every", "sizes", "displacement"),
    [(1, [100], True), (7, [1] * 100, False), (10, [33, 33, 34], True), (100, [3, 97], False), (101, [3, 97], True)],
)
def test_windows_are_means_whatever_the_chunks(every, sizes, displacement):
    arrays = traced(VALUES, sizes, every=every, displacement=displacement).arrays()
    assert list(arrays) == (["energy", "displacement"] if displacement else ["energy"])
    whole = 100 // every
    expected = VALUES.double().numpy()[:, : whole * every].reshape(3, whole, every).mean(axis=2)
    for factor, found in zip((1, 2), arrays.values(), strict=False):
        assert (found.shape, found.dtype) == ((3, whole), np.float64)
        assert_allclose(found, factor * expected, rtol=1e-6)


def test_a_trace_is_bounded():
    for steps, every in ((0, 1), (LENGTH, 1), (LENGTH + 1, 2), (10 * LENGTH, 10)):
        assert Trace.start(steps).every == every


@parametrize("every", [7, 200])
def test_some_chains_parts_come_back_and_go_on(every):
    whole = traced(VALUES, [50, 50], every=every, displacement=True)
    whole = Trace.of(every, [whole.tensors(chain) for chain in (2, 0)])
    half = traced(VALUES[:, :53], [53], every=every, displacement=True)
    (rest,) = chunks(VALUES[[2, 0], 53:], [47], displacement=True)
    resumed = Trace.of(every, [half.tensors(chain) for chain in (2, 0)]).extended(rest)
    assert_close(dict(resumed.parts), dict(whole.parts))
    assert (Trace.start(10).arrays(), Trace.start(10).tensors(0)) == ({}, {})
