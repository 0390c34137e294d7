"""What is installed: versions, types, and a wheel that works beside a user's own packages."""

import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import numpy as np
from hatchling.builders.wheel import WheelBuilder

import bounds
import pacdp
from tests.marks import made_once

ROOT = Path(__file__).parents[1]
LINES = """
import experiments, importlib.util, pacdp
assert experiments.MINE == 1
assert pacdp.__file__.startswith(WHEEL), pacdp.__file__
found = pacdp.certify_predictions(["cat", "dog"] * 500, ["cat", "dog"] * 495 + ["dog", "cat"] * 5)
print(found.headline())
from pacdp.cli.main import main
main(["bound", "maurer", "--risk", "0.02", "--kl-nats", "500", "--n", "60000"])
"""


@made_once
def wheel(tmp_path_factory):
    (path,) = WheelBuilder(str(ROOT)).build(directory=str(tmp_path_factory.mktemp("wheel")), versions=["standard"])
    return Path(path)


def test_versions_agree():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert bounds.__version__ == pacdp.__version__ == project["version"]


def test_the_wheel_holds_both_packages_and_no_name_of_a_user_s_own(wheel):
    with zipfile.ZipFile(wheel) as packed:
        names = packed.namelist()
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"bounds", "pacdp"}
    assert {"bounds/py.typed", "pacdp/py.typed", "pacdp/__init__.pyi"} <= set(names)
    assert [name for name in names if name.endswith((".pyc", ".nbi", ".nbc"))] == []
    assert any(name.endswith("page.html") or name.startswith("pacdp/cli/templates/") for name in names)


def test_the_installed_wheel_runs_its_example_beside_a_user_s_own_experiments(wheel, tmp_path):
    installed, own = tmp_path / "site", tmp_path / "own"
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(installed)
    own.mkdir()
    (own / "experiments.py").write_text("MINE = 1\n")
    others = str(Path(np.__file__).parents[1])
    start = f"import sys; WHEEL = {str(installed)!r}; sys.path[:0] = [{str(own)!r}, WHEEL]; sys.path.append({others!r})"
    command = [sys.executable, "-I", "-S", "-c", start + LINES]  # without the site's .pth files: no checkout is found
    done = subprocess.run(command, check=False, cwd=own, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "of new examples are misclassified by your model" in done.stdout
