"""How a run is carried out: what is set for the whole process, and what checkpoints record of it."""

import pytest
import torch
from tiny_runs import begin, tiny

from pacdp.cli.private.config import PrivateConfig
from pacdp.cli.runtime import Training
from tests.marks import parametrize, refusal


@pytest.fixture(autouse=True)
def as_before():
    matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
    before = matmul.allow_tf32, cudnn.allow_tf32
    yield
    matmul.allow_tf32, cudnn.allow_tf32 = before


@parametrize("tf32", [False, True])
def test_float32_is_float32_unless_less_is_asked_for(tf32):
    torch.backends.cudnn.allow_tf32 = not tf32  # torch's own default is True
    Training(tf32=tf32).apply()
    assert torch.backends.cuda.matmul.allow_tf32 is tf32
    assert torch.backends.cudnn.allow_tf32 is tf32


@parametrize(
    "run", [tiny("clipped-sgld"), tiny("sgld", keep_norms=True), PrivateConfig()], ids=["clipped", "kept", "private"]
)
def test_clipped_or_kept_sums_are_not_rounded(tmp_path, run):
    with refusal("leave out --tf32"):
        begin(run)(run, tmp_path / "run", Training(tf32=True))
