"""A run's folder with its certificates, made once for all tests of folders."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "experiments"))


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Folders of a clipped chain, of one without clipping and of SGD, trained for seconds and certified."""
    from tiny_runs import RUNTIME, tiny

    from pacdp.cli.certifying import certify
    from pacdp.cli.folder import write_json
    from pacdp.cli.run import train

    root = tmp_path_factory.mktemp("runs")
    for name, one in {
        "clipped": tiny("clipped-sgld"), "entropy": tiny("entropy-sgld", clip_norm=1.0), "sgd": tiny("sgd"),
        "sgld": tiny("entropy-sgld"),
    }.items():  # fmt: skip
        train(one, root / name, RUNTIME)
        write_json(root / name / "certificates.json", certify(root / name, RUNTIME))
    return {path.name: path for path in root.iterdir()}


@pytest.fixture(scope="session")
def private_runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Folders of private runs: noise for a budget, given, by a Langevin step size, and of P3SGD, which hides people."""
    import numpy as np
    from test_private_recipes import RUNTIME, load_data, tiny

    import pacdp.cli.private.data
    from pacdp.cli.folder import write_json
    from pacdp.cli.private.certify import certify_private
    from pacdp.cli.private.run import train_private

    def written(name: str, **how: Any) -> Any:
        train, test = load_data(name, **how)
        return tuple(replace(part, people=np.arange(part.n) // 3 + first, unit="writer")
                     for part, first in ((train, 0), (test, 1000)))  # fmt: skip

    root, sgd = tmp_path_factory.mktemp("private"), tiny("dp-sgd-mnist", steps=30)
    halted = replace(sgd.sampling, noise_multiplier=1.0)
    langevin = tiny("dp-sgld-mnist")
    for name, config in {
        "calibrated": tiny("dp-sgd-mnist"),
        "halted": replace(sgd, sampling=halted, budget=replace(sgd.budget, epsilon=1.0, delta=1e-3)),
        "langevin": replace(langevin, method=replace(langevin.method, decay=0.3)),
        "tempered": replace(langevin, method=replace(langevin.method, convention="tempered", temperature=6e-5)),
        "parameters": replace(langevin, method=replace(langevin.method, convention="parameter-slot", step_size=1.0,
                                                       drift=0.1)),
        "people": tiny("p3sgd-malaria"),
    }.items():  # fmt: skip
        with pytest.MonkeyPatch.context() as patch:
            if name == "people":
                patch.setattr(pacdp.cli.private.data, "load", written)
            train_private(config, root / name, RUNTIME)
            write_json(root / name / "certificates.json", certify_private(root / name, RUNTIME, failure_prob=0.05,
                                                                          std=0.01, seed=0))  # fmt: skip
    return {path.name: path for path in root.iterdir()}
