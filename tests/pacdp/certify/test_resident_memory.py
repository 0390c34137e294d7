"""Ceilings of resident memory, each in a process of its own: what data add to a process that did the same on few."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.random import default_rng

pytestmark = pytest.mark.skipif(not Path("/proc/self/status").is_file(), reason="peaks are read from Linux")
TREE = Path(__file__).parents[3]
_HEAD = """
import numpy as np, torch
from torch import nn
def peak():
    # ru_maxrss would count the process that started this one too
    return next(int(line.split()[1]) / 1024 for line in open("/proc/self/status") if line.startswith("VmHWM"))
def added(run, few, many):
    run(few)
    before = peak()
    run(many)
    print(peak() - before)
"""
_STREAM = """
import pacdp
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.AvgPool2d(8), nn.Flatten(), nn.Linear(400, 3))
    def forward(self, x):
        return self.body(x[:, None].float() / 255)
images = np.load("images.npy", mmap_mode="r")
network = pacdp.Network(network=Net().eval(), batch_size=100)
def run(n):
    pacdp.certify(network, (images[:n], np.arange(n) % 3))
added(run, 400, len(images))
"""
_RUN = """
from pacdp.problem import Problem
from pacdp.certify.examples import BoundSet
from pacdp.data import Dataset
from pacdp.models import Architecture
from tests.pacdp.toys import seeded
problem = Problem(architecture=Architecture(name="fc", hidden=(20,)))
def run(n):
    pixels = np.full((n, 1, 28, 28), 7, dtype=np.uint8)
    pixels[:, 0, 0, :4] = np.arange(n, dtype="<u4").view(np.uint8).reshape(n, 4)
    data = Dataset.of_pixels("made up", pixels, np.arange(n) % 3, 3)
    data.hash
    one = problem.objective(data, generator=seeded(0), batch_size=100, in_bytes=True)
    one.risks(one.weights())
    BoundSet.behind(one).rows
added(run, 3000, 60_000)
"""


def added(code, folder):
    """How many megabytes more many take than few."""
    there = {**os.environ, "PYTHONPATH": str(TREE), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-P", "-W", "ignore", "-c", _HEAD + code]
    return float(subprocess.run(command, cwd=folder, env=there, stdout=subprocess.PIPE, text=True, check=True).stdout)


@pytest.mark.slow
def test_images_in_a_mapped_file_take_a_batch_and_not_the_file(tmp_path):
    shape = (8000, 160, 160)
    images = np.lib.format.open_memmap(tmp_path / "images.npy", mode="w+", dtype=np.uint8, shape=shape)
    for start in range(0, len(images), 1000):
        images[start : start + 1000] = default_rng(start).integers(0, 256, (1000, 160, 160), dtype=np.uint8)
    images.flush()
    assert images.nbytes > 200e6
    del images
    assert added(_STREAM, tmp_path) < 120


@pytest.mark.slow
def test_digits_of_a_run_stay_bytes(tmp_path):
    """As float32 they would be 188 MB, and were held twice."""
    assert added(_RUN, tmp_path) < 90
