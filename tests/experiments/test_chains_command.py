"""`pacdp train --chains`: folders, diagnosis, what is recorded and what is refused."""

import json
import shutil
from dataclasses import replace

import pytest
from cli_tools import QUICK, RUN_FILES, one_sentence, pacdp, read, rows, tensors
from safetensors import safe_open
from safetensors.torch import save_file
from tiny_runs import assert_same_chains, chain_folders, left_behind

import pacdp.chains.memory as memory
from pacdp import load_checkpoint, save_checkpoint

RECIPE = "sgld-digits2"
LENGTH = (*QUICK, "--problem.architecture.hidden", "8")


@pytest.fixture(scope="module")
def diagnosed(tmp_path_factory):
    """Three chains, long enough to be judged."""
    folder = tmp_path_factory.mktemp("chains") / "run"
    assert pacdp("train", RECIPE, "--chains", 3, "--out", folder, *LENGTH, "--epochs", 6) == 0
    return folder


@pytest.fixture
def chains(diagnosed, tmp_path):
    return shutil.copytree(diagnosed, tmp_path / "run")


def test_chains_differ_in_first_weights_minibatches_and_noise_and_are_diagnosed(tmp_path, capsys):
    folder = tmp_path / "run"
    assert pacdp("train", RECIPE, "--chains", 3, "--out", folder, *LENGTH, "--epochs", 6) == 0
    said = capsys.readouterr().out
    assert [one.name for one in chain_folders(folder)] == ["chain-00", "chain-01", "chain-02"]
    for chain, one in enumerate(chain_folders(folder)):
        assert {path.name for path in one.iterdir() if not path.name.startswith(".")} == RUN_FILES
        assert read(one / "config.json")["chain"] == load_checkpoint(one).header["chain"] == chain
    assert len({tensors(one)["model.1.weight"] for one in chain_folders(folder)}) == 3
    written = read(folder / "diagnosis.json")
    assert (written["format"], written["chains"]) == ("pacdp-diagnosis/1", 3)
    energy = written["diagnosis"]["traces"]["energy"]
    steps = read(folder / "chain-00" / "result.json")["steps"]
    assert (energy["chains"], energy["steps"]) == (3, steps - steps // 2)
    assert "stationarity of the energy" in said
    assert ("stationarity is refuted" in said) == written["diagnosis"]["refuted"]
    assert all(warning in said for warning in written["diagnosis"]["warnings"])


def test_chain_zero_is_the_run_alone(diagnosed, tmp_path):
    assert pacdp("train", RECIPE, "--out", tmp_path / "one", *LENGTH, "--epochs", 6) == 0
    assert left_behind(tmp_path / "one") == left_behind(diagnosed / "chain-00")


def test_json_of_chains_is_one_object(tmp_path, capsys):
    assert pacdp("train", RECIPE, "--chains", 2, "--json", "--out", tmp_path / "run", *LENGTH) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["format"] == "pacdp-results/1"
    assert printed["chains"] == [read(one / "result.json") for one in chain_folders(tmp_path / "run")]
    assert printed["diagnosis"] == read(tmp_path / "run" / "diagnosis.json")["diagnosis"]


@pytest.mark.parametrize("more", [("--workers", 2), ("--workers", 2, "--backend", "dask")])
@pytest.mark.slow
def test_workers_leave_the_same_chains(more, diagnosed, tmp_path):
    folder = tmp_path / "run"
    assert pacdp("train", RECIPE, "--chains", 3, *more, "--out", folder, *LENGTH, "--epochs", 6) == 0
    assert_same_chains(folder, diagnosed)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [(("--chains", 0), "chains >= 1"), (("--chains", -2), "chains >= 1"),
     (("--chains", 2, "--backend", "processes", "--address", "tcp://x:1"), "--backend dask")],
)  # fmt: skip
def test_chains_and_workers_that_cannot_be(arguments, words, tmp_path, capsys):
    assert pacdp("train", RECIPE, "--out", tmp_path / "run", *arguments, *LENGTH) in (1, 2)
    assert words in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_existing_chains_are_neither_overwritten_nor_continued_unasked(chains, capsys):
    before = [tensors(one) for one in chain_folders(chains)]
    arguments = ("train", RECIPE, "--chains", 3, "--out", chains, *LENGTH, "--epochs", 6)
    for count in (3, 5):
        assert pacdp(*arguments, "--chains", count) == 1
        said = one_sentence(capsys.readouterr().err)
        assert "--resume" in said
        assert "--force" in said
    assert pacdp(*arguments, "--resume", "--seed", 4) == 1
    assert "of another configuration" in one_sentence(capsys.readouterr().err.strip().splitlines()[-1])
    assert [tensors(one) for one in chain_folders(chains)] == before
    assert pacdp(*arguments, "--force", "--seed", 4) == 0
    assert all(tensors(one) != old for one, old in zip(chain_folders(chains), before, strict=True))


def test_force_keeps_old_chains_until_new_ones_can_start(chains, capsys):
    before = [tensors(one) for one in chain_folders(chains)]
    assert pacdp("train", "sgd-mnist2", "--chains", 3, "--force", "--data-root", "nowhere", "--out", chains) == 1
    assert "nowhere" in one_sentence(capsys.readouterr().err)
    assert [tensors(one) for one in chain_folders(chains)] == before


def test_more_chains_may_be_added_to_finished_ones(chains, tmp_path):
    before = [tensors(one) for one in chain_folders(chains)]
    assert pacdp("train", "--resume", "--chains", 4, "--out", chains, "--threads", 1) == 0
    assert [tensors(one) for one in chain_folders(chains)][:3] == before
    assert len(chain_folders(chains)) == read(chains / "diagnosis.json")["chains"] == 4


def test_chains_that_do_not_fit_are_refused_in_one_sentence_before_any_file(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(memory, "_free", lambda device: 10_000_000)
    wide = ("--problem.architecture.hidden", "3000", "3000")
    assert pacdp("train", RECIPE, "--chains", 4, "--out", tmp_path, *QUICK, *wide) == 1
    said = one_sentence(capsys.readouterr().err)
    assert "4 chains of 9,201,001 weights need 0.883 GB and 0.01 GB are free on cpu: 0 chains fit" in said
    assert [path for path in tmp_path.rglob("*") if path.is_file() and path.name != ".lock"] == []


def test_certify_a_chain_looks_at_its_siblings(chains, tmp_path):
    def diagnosis(folder):
        assert pacdp("certify", folder, "--threads", 1) == 0
        return read(folder / "certificates.json")["diagnosis"]

    first = diagnosis(chains / "chain-01")
    assert first["traces"]["energy"]["chains"] == 3
    assert diagnosis(chains / "chain-00")["traces"]["energy"]["mean"] == pytest.approx(
        first["traces"]["energy"]["mean"], rel=1e-12
    )
    lone = shutil.copytree(chains / "chain-01", tmp_path / "lone" / "chain-01")
    assert diagnosis(lone)["traces"]["energy"]["chains"] == 1
    shutil.rmtree(chains / "chain-02")
    other = (*LENGTH, "--epochs", 6, "--problem.architecture.hidden", 9)
    assert pacdp("train", RECIPE, "--out", chains / "chain-02", *other) == 0
    shutil.rmtree(chains / "chain-00")
    assert pacdp("train", RECIPE, "--out", chains / "chain-00", *LENGTH) == 0
    assert diagnosis(chains / "chain-01")["traces"]["energy"]["chains"] == 1, "another network, another step"


def test_another_chain_s_checkpoint_is_not_resumed(chains, capsys):
    shutil.copy(chains / "chain-00" / "checkpoint.safetensors", chains / "chain-01" / "checkpoint.safetensors")
    (chains / "chain-01" / "result.json").unlink()
    assert pacdp("train", "--resume", "--chains", 3, "--out", chains, "--threads", 1) == 1
    assert "another run or chain" in one_sentence(capsys.readouterr().err)
    assert load_checkpoint(chains / "chain-01").header["chain"] == 0


def test_a_checkpoint_of_the_first_format_is_refused_with_its_sentence(chains, capsys):
    folder = chains / "chain-00"
    path = folder / "checkpoint.safetensors"
    with safe_open(path, framework="pt") as file:
        found = {name: file.get_tensor(name) for name in file.keys()}
        header = json.loads(file.metadata()["pacdp"])
    save_file(found, path, metadata={"pacdp": json.dumps({**header, "format": "pacdp-checkpoint/1"})})
    (folder / "result.json").unlink()
    before = path.read_bytes()
    for arguments in (("certify", folder), ("train", "--resume", "--out", folder)):
        assert pacdp(*arguments, "--threads", 1) == 1
        said = one_sentence(capsys.readouterr().err)
        assert "no pacdp-checkpoint/3" in said
        assert "'pacdp-checkpoint/1'" in said
    assert path.read_bytes() == before


def test_bfloat16_is_carried_out_and_recorded(tmp_path, capsys):
    for name, more in (("plain", ("--batching", "loop")), ("half", ("--batching", "loop", "--bfloat16"))):
        assert pacdp("train", RECIPE, "--out", tmp_path / name, *LENGTH, *more) == 0
        expected = {"batching": "loop", "bfloat16": name == "half"}
        assert read(tmp_path / name / "provenance.json")["runtime"] == expected
        assert load_checkpoint(tmp_path / name).header["runtime"] == expected
    assert tensors(tmp_path / "plain") != tensors(tmp_path / "half")
    assert rows(tmp_path / "half")[-1]["train_error"] <= 0.5
    assert {len(bits) for bits in tensors(tmp_path / "half").values()} == {
        len(bits) for bits in tensors(tmp_path / "plain").values()
    }, "weights stay float32"
    assert pacdp("certify", tmp_path / "half", "--threads", 1) == 0


def test_a_run_goes_on_only_as_it_was_carried_out(chains, capsys):
    folder = chains / "chain-00"
    (folder / "result.json").unlink()
    before = tensors(folder)
    for more, words in ((("--bfloat16",), "'bfloat16': True"), (("--batching", "loop"), "'batching': 'loop'")):
        assert pacdp("train", "--resume", "--out", folder, "--threads", 1, *more) == 1
        assert words in one_sentence(capsys.readouterr().err)
    checkpoint = load_checkpoint(folder)
    other = replace(checkpoint, header={**checkpoint.header, "device": "cuda"})
    save_checkpoint(folder / "checkpoint.safetensors", other)
    assert pacdp("train", "--resume", "--out", folder, "--threads", 1) == 1
    assert "'device': 'cuda'" in one_sentence(capsys.readouterr().err)
    assert tensors(folder) == before
