"""A run's folder with its certificates, made once for all tests of folders."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "experiments"))


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Folders of a clipped chain, of one without clipping and of SGD, trained for seconds and certified."""
    from tiny_runs import RUNTIME, tiny

    from experiments.certifying import certify
    from experiments.folder import write_json
    from experiments.run import train

    root = tmp_path_factory.mktemp("runs")
    for name, one in {
        "clipped": tiny("clipped-sgld"), "entropy": tiny("entropy-sgld", clip_norm=1.0), "sgd": tiny("sgd"),
        "sgld": tiny("entropy-sgld"),
    }.items():  # fmt: skip
        train(one, root / name, RUNTIME)
        write_json(root / name / "certificates.json", certify(root / name, RUNTIME))
    return {path.name: path for path in root.iterdir()}
