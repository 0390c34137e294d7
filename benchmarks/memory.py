"""Peak resident memory of certificates on data larger than what is held, and what passes of a transformer cost.

Each figure is the peak of a process of its own (VmHWM, since ``ru_maxrss`` counts who started a process too), here and
at an older commit; beside them stands what importing torch and numba takes, below which nothing can go. Three
minutes of one core and 2.5 GB of disk.

    python -m benchmarks.memory --against f7941c0
"""

import argparse
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch

from benchmarks.timing import in_turn, publish
from pacdp.posterior import GaussianPosterior
from pacdp.stochastic import Draws, fresh_pass
from tests.pacdp.stochastic.fresh_networks import VisionTransformer

TREE = Path(__file__).resolve().parents[1]
IMAGES, SIDE, PART = 50_000, 224, 1000
_COMMAND = """
import contextlib, io
from pacdp.cli.main import main
with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
    main({words})
"""
_STREAM = """
import numpy as np, torch, pacdp
from torch import nn
torch.manual_seed(0)
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.AvgPool2d(4), nn.Conv2d(1, 8, 5, stride=4), nn.ReLU(), nn.AdaptiveAvgPool2d(2),
                                  nn.Flatten(), nn.Linear(32, 10))
    def forward(self, x):
        return self.body(x[:, None].float() / 255)
images = np.load("images.npy", mmap_mode="r")
pacdp.certify(Net().eval(), (images, np.arange(len(images)) % 10))
"""
_PEAK = """
print(next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""
_CASES = {
    "import torch": "import torch",
    "import torch and numba": "import torch, numba",
    "pacdp certify, a run on MNIST": _COMMAND.format(words=["certify", "run"]),
    "50,000 mapped images of 224 x 224": _STREAM,
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--against", default="", help="an older commit of this repository")
    commit = parser.parse_args().against
    found: dict[str, object] = {"against": commit} if commit else {}
    with _trees(commit) as both, TemporaryDirectory() as folder:
        _write_images(Path(folder) / "images.npy")
        words = ["train", "entropy-sgld-mnist", "--scale", "smoke", "--out", "run"]
        _peak(_COMMAND.format(words=words), TREE, folder)
        for name, code in _CASES.items():
            own = {label: _peak(code, tree, folder) for label, tree in both.items()}
            found[f"{name}, MB"] = own
            print(name, own, flush=True)
    found["a vision transformer (ViT-S, 224 x 224), processor seconds"] = _transformer()
    publish("memory", found)


@contextmanager
def _trees(commit: str | None) -> Iterator[dict[str, Path]]:
    """This tree as "now" and, where a commit is named, its files as git has them as "then"."""
    with TemporaryDirectory() as folder:
        found = {"now": TREE}
        if commit:
            files = subprocess.run(
                ["git", "archive", commit], cwd=TREE, stdout=subprocess.PIPE, check=True
            )
            subprocess.run(["tar", "-x", "-C", folder], input=files.stdout, check=True)
            found["then"] = Path(folder).resolve()
        yield found


def _write_images(path: Path) -> None:
    """Random bytes, part by part."""
    shape, random = (IMAGES, SIDE, SIDE), np.random.default_rng(0)
    images = np.lib.format.open_memmap(path, mode="w+", dtype=np.uint8, shape=shape)
    for start in range(0, IMAGES, PART):
        images[start : start + PART] = random.integers(0, 256, (PART, SIDE, SIDE), dtype=np.uint8)
    images.flush()


def _peak(code: str, tree: Path, folder: str) -> int:
    """Megabytes of a process that imports that tree and works in that folder."""
    command = [sys.executable, "-P", "-W", "ignore", "-c", code + _PEAK]
    there = {**os.environ, "PYTHONPATH": str(tree)}
    if there.get("PACDP_DATA"):
        there["PACDP_DATA"] = str(Path(there["PACDP_DATA"]).absolute())
    done = subprocess.run(
        command, cwd=folder, env=there, stdout=subprocess.PIPE, text=True, check=True
    )
    return round(int(done.stdout.split()[-1]) / 1024)


def _transformer() -> dict[str, float]:
    """A plain pass, and one with weights drawn for each example."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    module = VisionTransformer(side=224, patch=16, dim=384, depth=12, heads=6, classes=1000).eval()
    law, x = GaussianPosterior.around(module, std=1e-3), torch.randn(4, 3, 224, 224)
    draws = Draws.of(seed=1, number=0, examples=torch.arange(4))
    way = fresh_pass(module, law, x)
    passes = {"plain": lambda: module(x), "by example": lambda: way.run(x, draws)}
    with torch.no_grad():
        times = in_turn(passes, rounds=5)
    least = {name: round(min(own.processor), 3) for name, own in times.items()}
    return {**least, "ratio": round(least["by example"] / least["plain"], 2)}


if __name__ == "__main__":
    main()
