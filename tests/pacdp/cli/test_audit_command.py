"""`pacdp audit`: recipes and folders of runs, its table, its JSON and its exit status."""

import json

from cli_tools import pacdp

from pacdp.cli.folder import Folder
from pacdp.cli.private.config import private_recipe
from pacdp.cli.runtime import Runtime
from pacdp.step.processes import Together

QUICK = ("--steps", "25", "--canaries", "0", "--failure-prob", "1e-6")


def test_a_sound_recipe_passes(said):
    text = said("audit", "dp-sgd-mnist", *QUICK, "--canaries", "8", "--steps", "10")
    assert "nothing refuted" in " ".join(text.split())


def test_a_fault_is_told_by_the_exit_status(capsys, monkeypatch):
    noised = Together.noised
    monkeypatch.setattr(Together, "noised", lambda self, total, std, source: noised(self, total, 0.5 * std, source))
    assert pacdp("audit", "user-dp-sgd-mnist-writers", *QUICK, "--json") == 1
    record = json.loads(capsys.readouterr().out)
    assert record["refuted"] is True
    wrong = {row["name"] for row in record["checks"] if row["refuted"]}
    assert {"noise: variance by tensor", "resume: variance"} <= wrong


def test_the_folder_of_a_run_and_fields_of_its_configuration(said, tmp_path):
    Folder(tmp_path).begin(private_recipe("p3sgd-mnist-writers", scale="smoke"), Runtime())
    text = said("audit", tmp_path, *QUICK, "--method.nested", "--steps", "10")
    words = "nothing refuted, which is not a proof, and 2 of "
    assert words in " ".join(text.split())  # the source, and candidates made of each other


def test_a_clipped_chain(said):
    quick = ("--failure-prob", "1e-6", "--sampler.batch-size", "8", "--steps", "10")
    assert said("audit", "entropy-sgld-clipped-digits2", *quick, "--json")["algorithm"] == "Entropy-SGLD"


def test_features_are_looked_through(said):
    checks = said("audit", "dp-sgld-head-mnist", *QUICK, "--json")["checks"]
    grid = next(one["seen"] for one in checks if one["name"] == "noise: grid")
    assert f"of {25 * 10 * (128 + 1)} numbers lie" in grid
