"""The fused update is its formula, for any number of chains and threads."""

from collections.abc import Callable, Iterator

import numpy as np
import pytest
import torch
from torch import Tensor
from toys import keys_of, seeded

from pacdp.chains import NOISE, OUTER_NOISE, Keys, langevin, normal_like
from pacdp.chains import update as module

DIMS = [1, 3, 4095, 4096, 4097, 10_000]
KEYS = keys_of(4, 5, 6)
K = KEYS.count
COEFFICIENTS = {
    "keep": np.array([0.9, 1.0, -0.3]), "rate": np.array([0.1, 0.0, 2.0]), "pull": np.array([0.0, 0.7, 0.2]),
    "scale": np.array([0.5, 1e-3, 0.0]), "alpha": np.array([0.75, 0.1, 1.0]),
}  # fmt: skip


@pytest.fixture
def threads() -> Iterator[Callable[[int], None]]:
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


def tensors(dim: int, dtype: torch.dtype, chains: int = K) -> dict[str, Tensor]:
    x, gradient, centre, average = torch.randn(4, chains, dim, generator=seeded(dim), dtype=torch.float64).to(dtype)
    return {"x": x, "gradient": gradient, "centre": centre, "average": average}


def updated(given: dict[str, Tensor], keys: Keys = KEYS, **other: object) -> tuple[Tensor, Tensor]:
    """The result and the average, which starts from a copy."""
    average = given["average"].clone()
    rest = {name: value for name, value in given.items() if name not in ("x", "average")}
    settings = {**COEFFICIENTS, "keys": keys, "stream": NOISE, "tick": 2**33 + 1, **other}
    return langevin(given["x"], average=average, **rest, **settings), average


def expected(given: dict[str, Tensor], noise: Tensor) -> tuple[Tensor, Tensor]:
    """The plain expression in double precision."""
    c = {name: torch.tensor(value)[:, None] for name, value in COEFFICIENTS.items()}
    x, gradient, centre, average = (given[name].double() for name in ("x", "gradient", "centre", "average"))
    out = c["keep"] * x - c["rate"] * gradient + c["pull"] * centre + c["scale"] * noise.double()
    return out, average + c["alpha"] * (out - average)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("dim", DIMS)
def test_it_is_the_plain_expression(dim: int, dtype: torch.dtype) -> None:
    given = tensors(dim, dtype)
    before = {name: value.clone() for name, value in given.items()}
    noise = normal_like(given["x"], keys=KEYS, stream=NOISE, tick=2**33 + 1)
    tolerance = 1e-6 if dtype == torch.float32 else 1e-14
    for found, exact in zip(updated(given), expected(given, noise), strict=True):
        assert found.dtype == dtype
        torch.testing.assert_close(found.double(), exact, rtol=tolerance, atol=10 * tolerance)
    assert all(torch.equal(given[name], before[name]) for name in given)


@pytest.mark.parametrize("dim", DIMS)
def test_the_form_for_gpus_agrees(dim: int) -> None:
    given = tensors(dim, torch.float32)
    average = given["average"].clone()
    column = {name: module._column(value, given["x"]) for name, value in COEFFICIENTS.items()}
    plain = module._plain(given["x"], column["keep"], given["gradient"], column["rate"], given["centre"],
                          column["pull"], column["scale"], KEYS.noise_on(torch.device("cpu")), NOISE,
                          torch.tensor(2**33 + 1), average, column["alpha"])  # fmt: skip
    for found, compiled in zip((plain, average), updated(given), strict=True):
        torch.testing.assert_close(found, compiled, rtol=1e-5, atol=2e-5)


@pytest.mark.parametrize("dim", DIMS)
def test_out_may_be_x(dim: int) -> None:
    given = tensors(dim, torch.float32)
    fresh, average = updated(given)
    x = given["x"].clone()
    found, again = updated({**given, "x": x}, out=x)
    assert found is x
    assert torch.equal(x, fresh)
    assert torch.equal(again, average)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("dim", DIMS)
def test_threads_change_no_bit(dim: int, dtype: torch.dtype, threads: Callable[[int], None]) -> None:
    given = tensors(dim, dtype)
    seen = []
    for count in (1, 2):
        threads(count)
        noise = normal_like(given["x"], keys=KEYS, stream=OUTER_NOISE, tick=3)
        seen.append((*updated(given), noise))
    assert all(torch.equal(one, two) for one, two in zip(*seen, strict=True))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("dim", DIMS)
def test_chains_together_are_each_alone(dim: int, dtype: torch.dtype) -> None:
    given = tensors(dim, dtype)
    together = updated(given)
    for k in range(K):
        alone = updated({name: value[k : k + 1].clone() for name, value in given.items()}, KEYS.select([k]),
                        **{name: value[k : k + 1] for name, value in COEFFICIENTS.items()})  # fmt: skip
        assert all(torch.equal(one[0], all_[k]) for one, all_ in zip(alone, together, strict=True))


def test_numbers_for_all_chains_and_device_tensors_will_do() -> None:
    x = tensors(50, torch.float64)["x"]
    named = {"keys": KEYS, "stream": NOISE, "tick": 1}
    arrays = langevin(x, keep=np.full(K, 0.5), scale=np.full(K, 0.1), **named)
    for one in (0.5, np.array([0.5]), torch.tensor(0.5), torch.full((K,), 0.5)):
        assert torch.equal(langevin(x, keep=one, scale=0.1, **named), arrays)
    assert torch.equal(langevin(x, keep=0.5, scale=0.1, keys=KEYS, stream=NOISE, tick=torch.tensor(1)), arrays)


def test_defaults_change_nothing() -> None:
    x = tensors(5000, torch.float32)["x"]
    assert torch.equal(langevin(x, keys=KEYS, stream=NOISE, tick=0), x)


def test_noise_is_a_function_of_chain_stream_and_tick() -> None:
    x = torch.zeros(K, 5000)
    first = langevin(x, scale=1.0, keys=KEYS, stream=NOISE, tick=4)
    assert torch.equal(first, normal_like(x, keys=KEYS, stream=NOISE, tick=4))
    for stream, tick in ((NOISE, 5), (OUTER_NOISE, 4), (NOISE, 4 + 2**32)):
        assert (langevin(x, scale=1.0, keys=KEYS, stream=stream, tick=tick) != first).float().mean() > 0.999
    assert (first[0] != first[1]).float().mean() > 0.999


def test_scale_zero_adds_nothing() -> None:
    x = tensors(100, torch.float64)["x"]
    quiet = langevin(x, keep=0.5, scale=0.0, keys=KEYS, stream=NOISE, tick=0)
    assert torch.equal(quiet, 0.5 * x)
    some = langevin(x, keep=0.5, scale=np.array([0.0, 1.0, 0.0]), keys=KEYS, stream=NOISE, tick=0)
    assert torch.equal(some[[0, 2]], quiet[[0, 2]])
    assert (some[1] != quiet[1]).all()


@pytest.mark.parametrize("where", ["x", "gradient", "centre", "average"])
@pytest.mark.parametrize("bad", [torch.nan, torch.inf, -torch.inf])
def test_what_is_not_finite_passes_through_and_stays_where_it_is(where: str, bad: float) -> None:
    given = tensors(4100, torch.float32)
    exact, exact_average = updated(given)
    given[where][1, 4097] = bad
    found, average = updated(given, rate=1.0, pull=1.0)
    clean, _ = updated(tensors(4100, torch.float32), rate=1.0, pull=1.0)
    spoilt = torch.zeros_like(found, dtype=torch.bool)
    spoilt[1, 4097] = True
    assert bool((~torch.isfinite(average) == spoilt).all())
    if where == "average":
        assert torch.equal(found, clean)
    else:
        assert bool((~torch.isfinite(found) == spoilt).all())
        assert torch.equal(found[~spoilt], clean[~spoilt])
    assert bool(torch.isfinite(exact).all() and torch.isfinite(exact_average).all())


@pytest.mark.parametrize("count", [1, 2, 4])
def test_a_chain_without_a_key_is_refused(count: int) -> None:
    keys, x = keys_of(*range(count)), torch.zeros(K, 5)
    for call in (langevin, normal_like):
        with pytest.raises(ValueError, match=f"expected one key a chain, got {count} keys for 3 chains"):
            call(x, keys=keys, stream=NOISE, tick=0)
