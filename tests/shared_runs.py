"""One tiny finished run of every kind, made once by each process of the suite.

Tests that change a folder copy it first. Nothing of pacdp is imported before a test asks for a run.
"""

import shutil
import sys
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.marks import made_once

sys.path.append(str(Path(__file__).parent / "pacdp" / "cli"))  # for tests of other folders


@contextmanager
def few_draws():
    """Gaussian classifiers around a chain are sampled a hundredth as often: their bounds are wider for it."""
    from pacdp.certify import trained

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trained, "SLACK_NATS", 100 * trained.SLACK_NATS)
        yield


@made_once
def few_passes():
    """The same for the tests of a file."""
    with few_draws():
        yield


@pytest.fixture(scope="session")
def trained(tmp_path_factory):
    """A chain of each algorithm without clipping, as the command trains it."""
    from cli_tools import QUICK, succeed

    folders = {}
    for algorithm in ("sgd", "sgld", "entropy-sgd", "entropy-sgld"):
        folders[algorithm] = tmp_path_factory.mktemp("trained") / algorithm
        succeed("train", f"{algorithm}-digits2", "--out", folders[algorithm], *QUICK)
    return folders


@pytest.fixture
def copied(trained, tmp_path):
    """A function that gives a copy of a trained chain's folder."""

    def copy(algorithm):
        return Path(shutil.copytree(trained[algorithm], tmp_path / f"copy-{algorithm}"))

    return copy


@pytest.fixture(scope="session")
def runs(trained, tmp_path_factory):
    """Chains with their certificates: copies of those above, and two with clipped gradients."""
    from cli_tools import succeed
    from tiny_runs import RUNTIME, tiny

    from pacdp.cli.run import train

    root = tmp_path_factory.mktemp("runs")
    for name, folder in trained.items():
        shutil.copytree(folder, root / name)
    train(tiny("clipped-sgld"), root / "clipped-sgld", RUNTIME)
    train(tiny("entropy-sgd", clip_norm=1.0), root / "clipped-entropy-sgd", RUNTIME)
    with few_draws():
        for folder in root.iterdir():
            succeed("certify", folder, "--threads", 1)
    return {folder.name: folder for folder in root.iterdir()}


@pytest.fixture(scope="session")
def counted(tmp_path_factory):
    """A folder with clipped chains whose noise nobody knows, and the ledger that counted them."""
    from secret_runs import KINDS
    from tiny_runs import counted_run

    root = tmp_path_factory.mktemp("counted")
    for name, run in KINDS.items():
        counted_run(run, root, name)
    return root


@pytest.fixture(scope="session")
def exported(tmp_path_factory):
    """A folder with a private run, its ledger and what was exported of it."""
    from tiny_runs import counted_run, leave, tiny_private

    root = tmp_path_factory.mktemp("exported")
    run = counted_run(tiny_private("dp-sgd-mnist"), root)
    leave(run, root / "out")
    return root


def with_writers(name, **how):
    """The digits, one to five by each of a number of writers."""
    from pacdp.data import load

    return tuple(
        replace(part, people=np.arange(part.n) * np.arange(part.n) % 401 + first, unit="writer")
        for part, first in zip(load(name, **how), (0, 1000), strict=True)
    )


@pytest.fixture
def written(monkeypatch):
    """Digits of writers stand in the place of those without."""
    monkeypatch.setattr("pacdp.cli.private.data.load", with_writers)


@pytest.fixture(scope="session")
def private_runs(exported, tmp_path_factory):
    """Private runs with their certificates: noise for a budget, given, by a Langevin step size, and hiding people."""
    from cli_tools import succeed
    from tiny_runs import RUNTIME, halted, tiny_private

    from pacdp.cli.private.run import train_private

    root = tmp_path_factory.mktemp("private")
    langevin = tiny_private("dp-sgld-mnist", epsilon=8.0)
    configs = {
        "halted": halted(),
        "people": tiny_private("p3sgd-malaria", epsilon=8.0),
        "last": tiny_private("dp-sgld-head-mnist", epsilon=8.0),
    } | {
        name: replace(langevin, method=replace(langevin.method, **changes))
        for name, changes in {
            "langevin": {"decay": 0.3}, "tempered": {"convention": "tempered", "temperature": 6e-5},
            "parameters": {"convention": "parameter-slot", "step_size": 1.0, "drift": 0.1},
        }.items()
    }  # fmt: skip
    counting = tiny_private("dp-sgd-mnist", epsilon=8.0)
    quantile = {"clipping": "quantile", "count_noise": 4.0, "noise_multiplier": 2.0}
    configs["quantile"] = replace(counting, sampling=replace(counting.sampling, **quantile))
    shutil.copytree(exported / "run", root / "calibrated")
    for name in ("calibrated", *configs):
        with pytest.MonkeyPatch.context() as patch:
            if name == "people":
                patch.setattr("pacdp.cli.private.data.load", with_writers)
            if name in configs:
                train_private(configs[name], root / name, RUNTIME)
            succeed("certify", root / name, "--threads", 1)
    return {folder.name: folder for folder in root.iterdir()}


@pytest.fixture(scope="session")
def compressed(tmp_path_factory):
    """A finished compression with its certificates."""
    from cli_tools import succeed

    folder = tmp_path_factory.mktemp("compress") / "run"
    succeed("compress", "kernel-digits", "--out", folder, "--threads", "1")
    succeed("certify", folder, "--threads", "1")
    return folder
