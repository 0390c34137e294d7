"""The fused update is its formula, for any number of chains and threads."""

import numpy as np
import pytest
import torch
from torch import equal
from torch.testing import assert_close
from toys import dtypes, keys_of

from pacdp.chains import NOISE, OUTER_NOISE, langevin, normal_like
from pacdp.chains import update as module
from tests.marks import parametrize
from tests.pacdp.draws import randn
from tests.pacdp.same import identical

DIMS = [1, 3, 4095, 4096, 4097, 10_000]
KEYS = keys_of(4, 5, 6)
K = KEYS.count
COEFFICIENTS = {
    "keep": np.array([0.9, 1.0, -0.3]), "rate": np.array([0.1, 0.0, 2.0]), "pull": np.array([0.0, 0.7, 0.2]),
    "scale": np.array([0.5, 1e-3, 0.0]), "alpha": np.array([0.75, 0.1, 1.0]),
}  # fmt: skip


@pytest.fixture
def threads():
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


def tensors(dim, dtype):
    x, gradient, centre, average = randn(4, K, dim, seed=dim, dtype=torch.float64).to(dtype)
    return {"x": x, "gradient": gradient, "centre": centre, "average": average}


def updated(given, keys=KEYS, **other):
    """The result and the average, which starts from a copy."""
    average = given["average"].clone()
    rest = {name: value for name, value in given.items() if name not in ("x", "average")}
    settings = {**COEFFICIENTS, "keys": keys, "stream": NOISE, "tick": 2**33 + 1, **other}
    return langevin(given["x"], average=average, **rest, **settings), average


def expected(given, noise):
    """The plain expression in double precision."""
    c = {name: torch.tensor(value)[:, None] for name, value in COEFFICIENTS.items()}
    x, gradient, centre, average = (given[name].double() for name in ("x", "gradient", "centre", "average"))
    out = c["keep"] * x - c["rate"] * gradient + c["pull"] * centre + c["scale"] * noise.double()
    return out, average + c["alpha"] * (out - average)


dims = parametrize("dim", DIMS)


@dtypes
@dims
def test_it_is_the_plain_expression(dim, dtype):
    """In new memory or in that of x; and so is the form for GPUs."""
    given = tensors(dim, dtype)
    before = {name: value.clone() for name, value in given.items()}
    noise = normal_like(given["x"], keys=KEYS, stream=NOISE, tick=2**33 + 1)
    tolerance = 1e-6 if dtype == torch.float32 else 1e-14
    found, exact = updated(given), expected(given, noise)
    assert identical(given, before)
    x = given["x"].clone()
    over = updated({**given, "x": x}, out=x)
    assert over[0] is x
    assert all(equal(one, other) for one, other in zip(over, found, strict=True))
    assert found[0].dtype == found[1].dtype == dtype
    assert_close([one.double() for one in found], list(exact), rtol=tolerance, atol=10 * tolerance)
    average = given["average"].clone()
    column = {name: module._column(value, given["x"]) for name, value in COEFFICIENTS.items()}
    plain = module._plain(given["x"], column["keep"], given["gradient"], column["rate"], given["centre"],
                          column["pull"], column["scale"], KEYS.noise_on(torch.device("cpu")), NOISE,
                          torch.tensor(2**33 + 1), average, column["alpha"])  # fmt: skip
    assert_close([plain, average], list(found), rtol=1e-5, atol=2e-5)


@dtypes
@dims
def test_threads_change_no_bit(dim, dtype, threads):
    given = tensors(dim, dtype)
    seen = []
    for count in (1, 2):
        threads(count)
        noise = normal_like(given["x"], keys=KEYS, stream=OUTER_NOISE, tick=3)
        seen.append((*updated(given), noise))
    assert all(equal(one, two) for one, two in zip(*seen, strict=True))


@dtypes
@dims
def test_chains_together_are_each_alone(dim, dtype):
    given = tensors(dim, dtype)
    together = updated(given)
    for k in range(K):
        alone = updated({name: value[k : k + 1].clone() for name, value in given.items()}, KEYS.select([k]),
                        **{name: value[k : k + 1] for name, value in COEFFICIENTS.items()})  # fmt: skip
        assert all(equal(one[0], all_[k]) for one, all_ in zip(alone, together, strict=True))
