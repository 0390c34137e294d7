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
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch

from benchmarks.timing import publish
from pacdp.posterior import GaussianPosterior
from pacdp.stochastic import Draws, fresh_pass
from tests.pacdp.stochastic.fresh_networks import VisionTransformer

TREE = Path(__file__).resolve().parents[1]
IMAGES, SIDE, PART = 50_000, 224, 1000
_PEAK = """
print(next(round(int(line.split()[1]) / 1024) for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""
_CERTIFY = """
import contextlib, io
from pacdp.cli.main import main
with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
    main(["certify", "run"])
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
_CASES = {
    "import torch": "import torch",
    "import torch and numba": "import torch, numba",
    "pacdp certify, a run on MNIST": _CERTIFY,
    "50,000 mapped images of 224 x 224": _STREAM,
}


def main() -> None:
    """Print the results and write them to benchmarks/results/memory.json."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--against", default="", help="an older commit of this repository")
    commit = parser.parse_args().against
    with TemporaryDirectory() as folder:
        work, trees = Path(folder), {"now": TREE}
        if commit:
            trees["then"] = work / "then"
            trees["then"].mkdir()
            archive = subprocess.run(
                ["git", "archive", commit], cwd=TREE, stdout=subprocess.PIPE, check=True
            ).stdout
            subprocess.run(["tar", "-x", "-C", trees["then"]], input=archive, check=True)
        _prepare(work)
        found: dict[str, object] = {"against": commit} if commit else {}
        for name, code in _CASES.items():
            found[f"{name}, MB"] = {
                label: int(_run(code + "\n" + _PEAK, tree, work)) for label, tree in trees.items()
            }
            print(name, found[f"{name}, MB"], flush=True)
    publish(
        "memory",
        found | {"a vision transformer (ViT-S, 224 x 224), processor seconds": _transformer()},
    )


def _prepare(work: Path) -> None:
    """Images of random bytes, written part by part, and a short run."""
    images = np.lib.format.open_memmap(
        work / "images.npy", mode="w+", dtype=np.uint8, shape=(IMAGES, SIDE, SIDE)
    )
    random = np.random.default_rng(0)
    for start in range(0, IMAGES, PART):
        images[start : start + PART] = random.integers(0, 256, (PART, SIDE, SIDE), dtype=np.uint8)
    images.flush()
    words = ["train", "entropy-sgld-mnist", "--scale", "smoke", "--out", "run"]
    _run(f"from pacdp.cli.main import main\nmain({words!r})", TREE, work)


def _run(code: str, tree: Path, work: Path) -> str:
    there = {**os.environ, "PYTHONPATH": str(tree)}
    if there.get("PACDP_DATA"):
        there["PACDP_DATA"] = str(Path(there["PACDP_DATA"]).absolute())
    command = [sys.executable, "-P", "-W", "ignore", "-c", code]
    done = subprocess.run(
        command, cwd=work, env=there, stdout=subprocess.PIPE, text=True, check=True
    )
    return done.stdout.strip().rpartition("\n")[2]


def _transformer() -> dict[str, float]:
    """A plain pass, and one with weights drawn for each example."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    module = VisionTransformer(side=224, patch=16, dim=384, depth=12, heads=6, classes=1000).eval()
    law, x = GaussianPosterior.around(module, std=1e-3), torch.randn(4, 3, 224, 224)
    draws = Draws.of(seed=1, number=0, examples=torch.arange(4))
    with torch.no_grad():
        plain = _least(lambda: module(x))
    way = fresh_pass(module, law, x)
    fresh = _least(lambda: way.run(x, draws))
    return {
        "plain": round(plain, 3),
        "by example": round(fresh, 3),
        "ratio": round(fresh / plain, 2),
    }


def _least(run: Callable[[], object], rounds: int = 5) -> float:
    seconds: list[float] = []
    for _ in range(rounds):
        start = time.process_time()
        run()
        seconds.append(time.process_time() - start)
    return min(seconds)


if __name__ == "__main__":
    main()
