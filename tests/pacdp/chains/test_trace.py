"""A trace holds means over windows, whatever the chunks were."""

import numpy as np
import pytest
import torch
from torch import Tensor
from toys import seeded

from pacdp.chains import Chunk, Trace
from pacdp.chains.trace import LENGTH


def chunks(values: Tensor, sizes: list[int], *, displacement: bool = False) -> list[Chunk]:
    return [
        Chunk(None, part, torch.zeros_like(part), 2 * part if displacement else None)
        for part in values.split(sizes, dim=1)
    ]


def traced(values: Tensor, sizes: list[int], *, every: int, displacement: bool = False) -> Trace:
    trace = Trace(every, {}, {})
    for chunk in chunks(values, sizes, displacement=displacement):
        trace = trace.extended(chunk)
    return trace


VALUES = torch.rand(3, 100, generator=seeded(0))


@pytest.mark.parametrize("every", [1, 7, 10, 100, 101])
@pytest.mark.parametrize("sizes", [[100], [1] * 100, [33, 33, 34], [3, 97]])
@pytest.mark.parametrize("displacement", [True, False])
def test_windows_are_means_whatever_the_chunks(every: int, sizes: list[int], displacement: bool) -> None:
    arrays = traced(VALUES, sizes, every=every, displacement=displacement).arrays()
    assert list(arrays) == (["energy", "displacement"] if displacement else ["energy"])
    whole = 100 // every
    expected = VALUES.double().numpy()[:, : whole * every].reshape(3, whole, every).mean(axis=2)
    for factor, found in zip((1, 2), arrays.values(), strict=False):
        assert (found.shape, found.dtype) == ((3, whole), np.float64)
        np.testing.assert_allclose(found, factor * expected, rtol=1e-6)


@pytest.mark.parametrize(("steps", "every"), [(1, 1), (LENGTH, 1), (LENGTH + 1, 2), (10 * LENGTH, 10), (0, 1)])
def test_a_trace_is_bounded(steps: int, every: int) -> None:
    trace = Trace.start(steps)
    assert trace.every == every
    assert steps / trace.every <= LENGTH
    assert trace.arrays() == {}


@pytest.mark.parametrize("every", [7, 200])
def test_a_chains_part_comes_back_and_goes_on(every: int) -> None:
    whole = traced(VALUES, [50, 50], every=every, displacement=True)
    half = traced(VALUES[:, :53], [53], every=every, displacement=True)
    again = Trace.of(every, [half.tensors(chain) for chain in range(3)])
    (rest,) = chunks(VALUES[:, 53:], [47], displacement=True)
    resumed = again.extended(rest)
    for parts in ("windows", "pending"):
        assert list(getattr(resumed, parts)) == list(getattr(whole, parts))
        for name, values in getattr(whole, parts).items():
            torch.testing.assert_close(getattr(resumed, parts)[name], values)


def test_select_takes_some_chains() -> None:
    trace = traced(VALUES, [100], every=7)
    some = trace.select([2, 0])
    assert torch.equal(some.windows["energy"], trace.windows["energy"][[2, 0]])
    assert torch.equal(some.pending["energy"], trace.pending["energy"][[2, 0]])
    empty = Trace.start(10)
    assert empty.select([1]) is empty
    assert empty.tensors(0) == {}
