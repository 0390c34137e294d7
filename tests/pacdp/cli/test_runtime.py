"""How a run is carried out: what is set for the whole process, and what checkpoints record of it."""

from itertools import pairwise

import pytest
import torch
from tiny_runs import begin, tiny

from pacdp.cli.config import Run
from pacdp.cli.private.config import PrivateConfig
from pacdp.cli.runtime import Training
from tests.marks import refusal


@pytest.fixture(autouse=True)
def as_before():
    matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
    before = matmul.allow_tf32, cudnn.allow_tf32
    yield
    matmul.allow_tf32, cudnn.allow_tf32 = before


@pytest.mark.parametrize(("kept", "burn_in"), [(0, 0.5), (1, 0.0), (4, 0.5), (9, 0.99)])
def test_snapshots_are_evenly_spaced_after_the_burn_in(kept, burn_in):
    run = Run(snapshots=kept, snapshot_burn_in=burn_in)
    steps, found = run.steps(1000), run.snapshot_steps(1000)
    assert len(found) == min(kept, steps - int(burn_in * steps))
    assert len({later - sooner for sooner, later in pairwise(found)}) <= 1
    assert all(burn_in * steps < step <= steps for step in found)


@pytest.mark.parametrize("tf32", [False, True])
def test_float32_is_float32_unless_less_is_asked_for(tf32):
    torch.backends.cudnn.allow_tf32 = not tf32  # torch's own default is True
    Training(tf32=tf32).apply()
    assert torch.backends.cuda.matmul.allow_tf32 is tf32
    assert torch.backends.cudnn.allow_tf32 is tf32


@pytest.mark.parametrize(
    "run", [tiny("clipped-sgld"), tiny("sgld", keep_norms=True), PrivateConfig()], ids=["clipped", "kept", "private"]
)
def test_clipped_or_kept_sums_are_not_rounded(tmp_path, run):
    with refusal("leave out --tf32"):
        begin(run)(run, tmp_path / "run", Training(tf32=True))
