"""The command `pacdp`: help, exit statuses, what training leaves, what it refuses."""

import json

from cli_tools import QUICK, RUN_FILES, read, rows, succeed

from tests.marks import parametrize


@parametrize("algorithm", ["sgd", "sgld", "entropy-sgd", "entropy-sgld"])
def test_training_leaves_a_folder_that_can_be_believed(algorithm, trained):
    folder = trained[algorithm]
    assert {path.name for path in folder.iterdir() if not path.name.startswith(".")} == RUN_FILES
    result, provenance = read(folder / "result.json"), read(folder / "provenance.json")
    steps = result["steps"]
    assert result["final"]["step"] == steps
    assert [row["step"] for row in rows(folder)] == [round(steps / 2), steps]
    assert {"commit", "dirty", "versions", "device", "argv", "seed"} <= provenance.keys()
    assert {"python", "torch", "pacdp", "numpy"} <= provenance["versions"].keys()
    assert (provenance["seed"], provenance["device"]["type"]) == (0, "cpu")
    assert ("bounds" in result["final"]) == algorithm.endswith("sgld")
    assert ("gibbs_test_error" in result["final"]) == algorithm.startswith("entropy")


def test_json_prints_exactly_one_object(tmp_path, capsys):
    succeed("train", "sgd-digits2", "--out", tmp_path / "run", "--json", *QUICK)
    printed = capsys.readouterr()
    assert json.loads(printed.out) == read(tmp_path / "run" / "result.json")
    assert "\x1b" not in printed.err, "plain lines where there is no terminal"
    assert len(printed.err.splitlines()) == 3, "a line a record and a last one"


def test_overrides_reach_the_configuration_and_the_default_folder_is_named_after_the_recipe(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    extra = ("--sampler.step-size", 0.05, "--sampler.batch-size", 64, "--failure-prob", 0.1, "--seed", 3)
    succeed("train", "sgd-digits2", *QUICK, *extra)
    config = read(tmp_path / "runs" / "sgd-digits2-smoke" / "config.json")
    assert config["sampler"] == {**config["sampler"], "kind": "SGD", "step_size": 0.05, "batch_size": 64}
    assert (config["failure_prob"], config["seed"], config["epochs"], config["records"]) == (0.1, 3, 2.0, 2)
    assert config["track"]["prior_draws"] == config["certify"]["prior_draws"] == 2
