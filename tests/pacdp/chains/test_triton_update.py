"""The Triton kernel, by Triton's interpreter, gives the numbers that are written in torch; no GPU is needed."""

import math
import os
import subprocess
import sys

import pytest
import torch
from torch import equal
from torch.testing import assert_close
from toys import keys_of

from tests.marks import parametrize, slow
from tests.pacdp.draws import randn

pytest.importorskip("triton")
from pacdp.chains import triton_update, update
from pacdp.chains.triton_update import update as kernel

pytestmark = pytest.mark.skipif(os.environ["TRITON_INTERPRET"] != "1", reason="tests/pacdp/test_cuda.py runs it")
CHAINS = 3
COLUMN = torch.tensor([[0.1], [0.5], [0.9]])
ONE = torch.tensor([[0.3]])
KEYS = keys_of(1, 2**40, 3).noise_on(torch.device("cpu"))


@parametrize("tick", [0, 7, 2**33 + 5])
@parametrize("dim", [1, 1023, 4096, 5001])
@parametrize("parts", ["gradient", "gradient and centre", "gradient, centre and average", "noise"])
def test_the_kernel_is_the_step_that_is_written(parts, dim, tick):
    x, gradient, centre = randn(3, CHAINS, dim)
    means = [centre.clone(), centre.clone()]
    found = []
    for form, mean in zip((update._plain, kernel), means, strict=True):
        g = gradient if "gradient" in parts else None
        c = centre if "centre" in parts else None
        m = mean if "average" in parts else None
        found.append(form(x.clone(), COLUMN, g, ONE, c, ONE, COLUMN, KEYS, 2, torch.tensor(tick), m, COLUMN))
    assert_close(found[1], found[0], rtol=1e-5, atol=1e-5)
    assert_close(means[1], means[0], rtol=1e-5, atol=1e-5)


def test_the_kernel_writes_over_its_input_where_asked():
    x = randn(CHAINS, 50, seed=1)
    given = (COLUMN, None, ONE, None, ONE, COLUMN, KEYS, 0, torch.tensor(3), None, ONE)
    apart = kernel(x.clone(), *given)
    same = x.clone()
    assert kernel(same, *given, out=same) is same
    assert equal(same, apart)


@parametrize("dim", [1, 4096, 4097, 65_535 * 4096 + 1, 10**9])
def test_networks_of_any_size_can_be_launched(monkeypatch, dim):
    """CUDA takes 2³¹ - 1 blocks in the first dimension and 65,535 in each other one."""
    grids = []

    class Noted:
        def __getitem__(self, grid):
            grids.append(grid)
            return lambda *args, **options: None

    monkeypatch.setattr(triton_update, "_kernel", Noted())
    meta = torch.device("meta")
    x, one = torch.empty(CHAINS, dim, device=meta), torch.empty(1, 1, device=meta)
    kernel(x, one, None, one, None, one, one, KEYS.to(meta), 0, torch.empty((), device=meta), None, one)
    (grid,) = grids
    assert grid[0] < 2**31
    assert all(size <= 65_535 for size in grid[1:])
    assert math.prod(grid) == CHAINS * -(-dim // 4096)


_COMPILED = """
import sys
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from pacdp.chains.triton_update import _kernel
from pacdp.random.triton_cipher import _blocks
numbers = {name: "*fp32" for name in "out x keep g rate c pull scale mean alpha".split()}
numbers |= {"keys": "*i64", "tick": "*i64"}
fixed = {"stream": 2, "HAS_G": True, "HAS_C": True, "HAS_MEAN": True}
one_page = {**fixed, "pages": 1, "keep_by": 1}  # a number 1 is a part of the program
signatures = [
    {name: "constexpr" if name in known else numbers.get(name, "i32") for name in _kernel.arg_names}
    for known in (fixed, one_page)
]
cipher = {"out": "*i32", "start": "*i32", "first": "i32", "count": "i32", "SIZE": "constexpr"}
kernels = (
    (_kernel, signatures[1], one_page), (_blocks, cipher, {"SIZE": 128}), (_kernel, signatures[0], fixed),
)
for kernel, signature, own in kernels[:int(sys.argv[1])]:
    made = triton.compile(
        ASTSource(fn=kernel, signature=signature, constexprs=own), target=GPUTarget("cuda", 90, 32),
        options={"enable_fp_fusion": True},
    )
    assert ".target sm_90" in made.asm["ptx"]
"""


@pytest.mark.slow
@parametrize("count", [2, slow(3)])
def test_the_kernels_compile_for_an_h100(tmp_path, count):
    env = {key: value for key, value in os.environ.items() if key != "TRITON_INTERPRET"}
    env |= {"TRITON_CACHE_DIR": str(tmp_path)}
    subprocess.run([sys.executable, "-c", _COMPILED, str(count)], check=True, env=env)
