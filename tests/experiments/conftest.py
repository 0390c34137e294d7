"""One tiny finished run of each algorithm, shared; tests that change a folder copy it first."""

import shutil
from pathlib import Path

import pytest
import torch
from cli_tools import QUICK, pacdp

ALGORITHMS = ("sgd", "sgld", "entropy-sgd", "entropy-sgld")


@pytest.fixture(scope="session", autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def trained(tmp_path_factory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("trained")
    for algorithm in ALGORITHMS:
        assert pacdp("train", f"{algorithm}-digits2", "--out", root / algorithm, *QUICK) == 0
    return {algorithm: root / algorithm for algorithm in ALGORITHMS}


@pytest.fixture
def copied(trained, tmp_path):
    """A function that gives a copy of a finished run's folder."""

    def copy(algorithm: str) -> Path:
        return Path(shutil.copytree(trained[algorithm], tmp_path / f"copy-{algorithm}"))

    return copy
