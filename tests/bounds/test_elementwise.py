"""Scalars as functions of arrays: large results are cut over the cores, and nothing else changes."""

import numpy as np
import pytest
from cells import refused

from bounds import _elementwise, binary_kl_upper

LARGE = 2**15


@pytest.mark.every_case
@pytest.mark.parametrize(
    ("shapes", "cut"),
    [
        (((LARGE,), ()), True),
        (((LARGE - 1,), ()), False),
        (((255, 1), (1, 128)), False),
        (((3, LARGE // 3 + 1), (3, 1)), True),
    ],
)
@pytest.mark.parametrize("cores", [1, 2, 3])
def test_large_results_and_no_others_are_cut_over_the_cores(monkeypatch, shapes, cut, cores):
    parts = []
    cutting = _elementwise._in_threads
    monkeypatch.setattr(_elementwise, "_cores", lambda: cores)
    monkeypatch.setattr(_elementwise, "_in_threads", lambda *given: parts.append(given[2]) or cutting(*given))
    q, nats = (
        np.linspace(0.01, top, int(np.prod(one))).reshape(one) for one, top in zip(shapes, (0.9, 2.0), strict=True)
    )
    found = binary_kl_upper(q, nats)
    assert parts == ([cores] if cut and cores > 1 else [])
    monkeypatch.undo()
    wide = np.broadcast_arrays(q, nats)
    some = np.linspace(0, len(wide[0]) - 1, 5, dtype=int)
    assert (found[some] == binary_kl_upper(*(one[some] for one in wide))).all()
    assert found.shape == wide[0].shape


@pytest.mark.parametrize("wrong", ["a", 1j, 10**400])
def test_what_is_no_number_is_refused_in_words(wrong):
    refused(r"^binary_kl_upper takes real numbers", binary_kl_upper, wrong, 0.1)
    assert binary_kl_upper(nats=0.1, q=0.2) == binary_kl_upper(0.2, 0.1)
