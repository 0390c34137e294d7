"""The Triton kernel, by Triton's interpreter, gives the numbers that are written in torch; no GPU is needed."""

import os

import pytest
import torch
from toys import keys_of, seeded

pytest.importorskip("triton")
from pacdp.chains import update
from pacdp.chains.triton_update import update as kernel

pytestmark = pytest.mark.skipif(os.environ["TRITON_INTERPRET"] != "1", reason="tests/pacdp/test_cuda.py runs it")
CHAINS = 3
COLUMN = torch.tensor([[0.1], [0.5], [0.9]])
ONE = torch.tensor([[0.3]])
KEYS = keys_of(1, 2**40, 3).noise_on(torch.device("cpu"))


@pytest.mark.parametrize("tick", [0, 7, 2**33 + 5])
@pytest.mark.parametrize("dim", [1, 1023, 4096, 5001])
@pytest.mark.parametrize("parts", ["gradient", "gradient and centre", "gradient, centre and average", "noise"])
def test_the_kernel_is_the_step_that_is_written(parts: str, dim: int, tick: int) -> None:
    x, gradient, centre = torch.randn(3, CHAINS, dim, generator=seeded(0))
    means = [centre.clone(), centre.clone()]
    found = []
    for form, mean in zip((update._plain, kernel), means, strict=True):
        g = gradient if "gradient" in parts else None
        c = centre if "centre" in parts else None
        m = mean if "average" in parts else None
        found.append(form(x.clone(), COLUMN, g, ONE, c, ONE, COLUMN, KEYS, 2, torch.tensor(tick), m, COLUMN))
    torch.testing.assert_close(found[1], found[0], rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(means[1], means[0], rtol=1e-5, atol=1e-5)


def test_the_kernel_writes_over_its_input_where_asked() -> None:
    x = torch.randn(CHAINS, 50, generator=seeded(1))
    given = (COLUMN, None, ONE, None, ONE, COLUMN, KEYS, 0, torch.tensor(3), None, ONE)
    apart = kernel(x.clone(), *given)
    same = x.clone()
    assert kernel(same, *given, out=same) is same
    assert torch.equal(same, apart)


def test_chains_and_streams_have_noise_of_their_own() -> None:
    x = torch.zeros(CHAINS, 4000)
    drawn = [
        kernel(x, ONE, None, ONE, None, ONE, torch.ones(1, 1), KEYS, stream, torch.tensor(tick), None, ONE)
        for stream, tick in ((0, 0), (1, 0), (0, 1))
    ]
    rows = torch.cat(drawn)
    correlations = torch.corrcoef(rows) - torch.eye(len(rows))
    assert float(correlations.abs().max()) < 0.08
    assert float((rows.std(dim=1) - 1.0).abs().max()) < 0.05


def wrong_calls() -> dict[str, tuple]:
    x, tick = torch.zeros(CHAINS, 8), torch.tensor(0)
    two, four = torch.full((2, 1), 0.1), torch.full((4, 1), 0.1)
    return {
        "settings of two": (x, two, None, ONE, None, ONE, ONE, KEYS, 0, tick, None, ONE),
        "settings of four": (x, ONE, None, ONE, None, ONE, four, KEYS, 0, tick, None, ONE),
        "keys of two": (x, ONE, None, ONE, None, ONE, ONE, KEYS[:, :2].contiguous(), 0, tick, None, ONE),
        "a gradient of two": (x, ONE, x[:2], ONE, None, ONE, ONE, KEYS, 0, tick, None, ONE),
        "a gradient in other places": (x, ONE, x.T.contiguous().T, ONE, None, ONE, ONE, KEYS, 0, tick, None, ONE),
        "weights in double precision": (x.double(), ONE, None, ONE, None, ONE, ONE, KEYS, 0, tick, None, ONE),
    }


@pytest.mark.parametrize("which", wrong_calls())
def test_what_lies_behind_is_not_read(which: str) -> None:
    with pytest.raises(ValueError, match="expected"):
        kernel(*wrong_calls()[which])
