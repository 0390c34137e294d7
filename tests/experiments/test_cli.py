"""The command `pacdp`: help, exit statuses, what training leaves, what it refuses."""

import json

import pytest
from cli_tools import QUICK, RUN_FILES, one_sentence, pacdp, read, rows, start, tensors

RUNTIME = (
    "--device",
    "--threads",
    "--data-root",
    "--checkpoint-seconds",
    "--batching",
    "--bfloat16",
    "--deterministic",
)
WORKERS = ("--workers", "--backend", "--address", "--timeout", "--retries", "--limit", "--heartbeat")
OPTIONS = {
    "demo": ("--out", *RUNTIME),
    "train": ("RECIPE", "--scale", "--out", "--seed", "--resume", "--force", "--json", "--show", "--chains",
              *WORKERS, *RUNTIME),
    "certify": ("PATH", "--out", "--json", "--failure-prob", "--epochs", "--alpha", "--burn-in", "--prior-draws",
                "--seed", *RUNTIME),
    "bound": ("NAME", "--json", "--options"),
    "privacy": ("--noise-multiplier", "--sample-rate", "--steps", "--delta", "--adjacency", "--schedule", "--epsilon",
                "--json"),
    "plot": ("PATH", "--scale"),
    "data": ("NAMES", "--root", "--json"),
    "experiment": ("NAME", "random-labels", "--scale", *WORKERS, "--out", "--runs", "--seed", "--json", *RUNTIME),
    "results": ("--results", "--out"),
}  # fmt: skip


def test_help_names_every_command(capsys):
    assert pacdp("--help") == 0
    said = capsys.readouterr().out
    assert all(command in said for command in OPTIONS)


@pytest.mark.parametrize("command", OPTIONS)
def test_help_of_a_command_names_its_options(command, capsys):
    assert pacdp(command, "--help") == 0
    said = capsys.readouterr().out
    assert [option for option in OPTIONS[command] if option.lower() not in said.lower()] == []


@pytest.mark.parametrize(
    "arguments",
    [
        ("nonsense",), (), ("train", "sgd-digits2", "--bogus", "3"), ("certify", "x", "--bogus"), ("plot", "x", "--y"),
        ("demo", "--bogus"), ("data", "--bogus"), ("train",), ("train", "sgd-digits2", "--epochs", "many"),
        ("train", "sgd-digits2", "--epochs", "-1"), ("train", "sgd-digits2", "--sampler.tau", "3"),
        ("experiment", "nonsense"), ("train", "sgd-digits2", "--scale", "huge"), ("train", "--resume"),
    ],
)  # fmt: skip
def test_usage_errors_exit_2_and_print_on_standard_error(arguments, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert pacdp(*arguments) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    one_sentence(printed.err)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("train", "adam-digits2"), ("adam-digits2", "did you mean sgd-digits2?")),
        (("data", "imagenet"), ("imagenet", "digits")),
        (("certify", "nowhere"), ("nowhere", "checkpoint")),
        (("plot", "nowhere"), ("nowhere",)),
        (("train", "--resume", "--out", "nowhere"), ("nowhere", "missing")),
        (("train", "sgd-mnist2", "--data-root", "nowhere", "--scale", "smoke"), ("nowhere",)),
    ],
)
def test_other_errors_are_one_sentence_and_exit_1(arguments, words, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert pacdp(*arguments) == 1
    printed = capsys.readouterr()
    said = one_sentence(printed.err)
    assert printed.out == ""
    assert all(word in said for word in words)


def test_exit_statuses_and_streams_of_the_real_command(tmp_path):
    unknown = start("train", "adam-digits2", "--out", tmp_path)
    usage = start("train", "--bogus", "3", "sgd-digits2")
    out, err = unknown.communicate(timeout=60)
    assert (unknown.returncode, out) == (1, "")
    assert "no recipe is called 'adam-digits2'" in one_sentence(err)
    usage.communicate(timeout=60)
    assert usage.returncode == 2


@pytest.mark.parametrize("algorithm", ["sgd", "sgld", "entropy-sgd", "entropy-sgld"])
def test_training_leaves_a_folder_that_can_be_believed(algorithm, trained):
    folder = trained[algorithm]
    assert {path.name for path in folder.iterdir() if not path.name.startswith(".")} == RUN_FILES
    result, provenance = read(folder / "result.json"), read(folder / "provenance.json")
    assert result["format"] == "pacdp-result/1"
    assert result["final"]["step"] == result["steps"] == rows(folder)[-1]["step"]
    assert [row["step"] for row in rows(folder)] == [round(result["steps"] / 2), result["steps"]]
    assert {"commit", "dirty", "versions", "device", "argv", "seed"} <= provenance.keys()
    assert {"python", "torch", "pacdp", "numpy"} <= provenance["versions"].keys()
    assert provenance["seed"] == 0
    assert provenance["device"]["type"] == "cpu"
    assert ("bounds" in result["final"]) == algorithm.endswith("sgld")
    assert ("gibbs_test_error" in result["final"]) == algorithm.startswith("entropy")


def test_provenance_holds_the_command_line(tmp_path):
    arguments = ["train", "sgd-digits2", "--out", str(tmp_path / "run"), *QUICK]
    process = start(*arguments)
    process.communicate(timeout=60)
    assert process.returncode == 0
    assert read(tmp_path / "run" / "provenance.json")["argv"][1:] == arguments


def test_json_prints_exactly_one_object(tmp_path, capsys):
    assert pacdp("train", "sgd-digits2", "--out", tmp_path / "run", "--json", *QUICK) == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out) == read(tmp_path / "run" / "result.json")
    assert "\x1b" not in printed.err, "plain lines where there is no terminal"
    assert len(printed.err.splitlines()) == 3, "a line a record and a last one"


def test_a_finished_run_is_overwritten_only_with_force(copied, capsys):
    folder = copied("sgd")
    before = tensors(folder)
    (folder / "notes.txt").write_text("mine")
    for extra in ((), ("--resume",)):
        assert pacdp("train", "sgd-digits2", "--out", folder, "--seed", 5, *extra, *QUICK) == 1
        assert "finished" in one_sentence(capsys.readouterr().err)
        assert tensors(folder) == before
    assert pacdp("train", "sgd-digits2", "--out", folder, "--seed", 5, "--force", *QUICK) == 0
    assert tensors(folder) != before
    assert read(folder / "config.json")["seed"] == read(folder / "provenance.json")["seed"] == 5
    assert (folder / "notes.txt").read_text() == "mine", "--force removes a run's files and nothing else"


def test_an_unfinished_run_is_neither_overwritten_nor_continued_unasked(copied, capsys):
    folder = copied("sgd")
    (folder / "result.json").unlink()
    before = tensors(folder)
    assert pacdp("train", "sgd-digits2", "--out", folder, *QUICK) == 1
    assert "--resume" in one_sentence(capsys.readouterr().err)
    assert tensors(folder) == before


def test_a_folder_with_a_stray_checkpoint_is_not_trained_on(copied, tmp_path, capsys):
    folder = copied("sgd")
    for name in RUN_FILES - {"checkpoint.safetensors"}:
        (folder / name).unlink()
    before = tensors(folder)
    for extra in ((), ("--resume",)):
        assert pacdp("train", "sgd-digits2", "--out", folder, "--seed", 5, *extra, *QUICK) == 1
        one_sentence(capsys.readouterr().err)
        assert tensors(folder) == before


def test_show_prints_the_configuration_and_trains_nothing(tmp_path, capsys):
    overrides = ("--sampler.tau", 7, "--problem.random-labels", 1, "--problem.architecture.hidden", 9, 8, "--epochs", 3)
    assert pacdp("train", "sgld-digits2", "--show", "--seed", 4, "--out", tmp_path / "run", *overrides) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["sampler"] == {**shown["sampler"], "kind": "SGLD", "tau": 7.0}
    assert shown["problem"]["random_labels"] == 1.0
    assert shown["problem"]["architecture"]["hidden"] == [9, 8]
    assert (shown["epochs"], shown["seed"]) == (3.0, 4)
    assert not (tmp_path / "run").exists()


def test_overrides_reach_the_configuration_and_the_default_folder_is_named_after_the_recipe(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    extra = ("--sampler.step-size", 0.05, "--sampler.batch-size", 64, "--failure-prob", 0.1, "--seed", 3)
    assert pacdp("train", "sgd-digits2", *QUICK, *extra) == 0
    config = read(tmp_path / "runs" / "sgd-digits2-smoke" / "config.json")
    assert config["sampler"] == {**config["sampler"], "kind": "SGD", "step_size": 0.05, "batch_size": 64}
    assert (config["failure_prob"], config["seed"], config["epochs"], config["records"]) == (0.1, 3, 2.0, 2)
    assert config["track"]["prior_draws"] == config["certify"]["prior_draws"] == 2


def test_the_same_seed_gives_the_same_weights_and_another_seed_others(trained, tmp_path):
    for seed, alike in ((0, True), (1, False)):
        folder = tmp_path / str(seed)
        assert pacdp("train", "entropy-sgld-digits2", "--out", folder, "--seed", seed, *QUICK) == 0
        assert (tensors(folder) == tensors(trained["entropy-sgld"])) is alike
        assert (rows(folder) == rows(trained["entropy-sgld"])) is alike


def test_data_lists_what_is_embedded(capsys):
    assert pacdp("data", "digits", "digits2", "--json") == 0
    listed = json.loads(capsys.readouterr().out)
    assert [(row["name"], row["role"], row["n"], row["classes"]) for row in listed] == [
        ("digits", "train", 1437, 10), ("digits", "test", 360, 10),
        ("digits2", "train", 1437, 2), ("digits2", "test", 360, 2),
    ]  # fmt: skip
    assert pacdp("data", "digits") == 0
    assert listed[0]["sha256"][:16] in capsys.readouterr().out
