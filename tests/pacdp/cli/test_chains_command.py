"""`pacdp train --chains`: folders, diagnosis, what is recorded and what is refused."""

import shutil
from pathlib import Path
from shutil import copytree

import pytest
from cli_tools import QUICK, forge, read, succeed, tensors
from tiny_runs import chain_folders

from pacdp import load_checkpoint
from tests.marks import made_once, near

RECIPE = "sgld-digits2"
LENGTH = (*QUICK, "--problem.architecture.hidden", "8")
LONGER = (*LENGTH, "--epochs", 6)
RESUME = ("train", "--resume", "--threads", 1, "--out")


@made_once
def diagnosed(tmp_path_factory):
    """Three chains, long enough to be judged."""
    folder = tmp_path_factory.mktemp("chains") / "run"
    succeed("train", RECIPE, "--chains", 3, "--out", folder, *LONGER)
    return folder


@pytest.fixture
def chains(diagnosed, tmp_path):
    return copytree(diagnosed, tmp_path / "run")


def weights(folder):
    return [*map(tensors, chain_folders(folder))]


def test_chains_differ_in_first_weights_minibatches_and_noise_and_are_diagnosed(diagnosed):
    assert [one.name for one in chain_folders(diagnosed)] == ["chain-00", "chain-01", "chain-02"]
    for chain, one in enumerate(chain_folders(diagnosed)):
        assert read(one / "config.json")["chain"] == load_checkpoint(one).header["chain"] == chain
    assert len({one["model.1.weight"] for one in weights(diagnosed)}) == 3
    written = read(diagnosed / "diagnosis.json")
    assert written["chains"] == 3
    energy, steps = (written["diagnosis"]["traces"]["energy"], read(diagnosed / "chain-00" / "result.json")["steps"])
    assert (energy["chains"], energy["steps"]) == (3, steps - steps // 2)


def test_json_of_chains_is_one_object(chains, said):
    (chains / "chain-02" / "result.json").unlink()
    printed = said(*RESUME, chains, "--chains", 3, "--json")
    assert printed["format"] == "pacdp-results/1"
    assert printed["chains"] == [read(one / "result.json") for one in chain_folders(chains)]
    assert printed["diagnosis"] == read(chains / "diagnosis.json")["diagnosis"]


def test_existing_chains_are_neither_overwritten_nor_continued_unasked(chains, refused):
    before, arguments = weights(chains), ("train", RECIPE, "--chains", 3, "--out", chains, *LONGER)
    for more in ((), ("--chains", 5), ("--resume", "--seed", 4)):
        refused(*arguments, *more)
    assert "is missing" in refused(*RESUME, chains), "one run beside the chains is not what was asked"
    for more in ((), ("--resume",), ("--force",)):
        assert "give --chains as before" in refused("train", RECIPE, "--out", chains, *LONGER, *more)
    assert "--chain goes with one run" in refused(*arguments, "--resume", "--chain", 1)
    assert "--seed is not used" in refused(*RESUME, chains, "--chains", 3, "--seed", 4)
    assert "--scale is not used" in refused(*RESUME, chains, "--chains", 3, "--scale", "cpu")
    other = ("train", "sgd-mnist2", "--chains", 3, "--force", "--data-root", "nowhere", "--out", chains)
    assert "nowhere" in refused(*other), "old chains are kept until new ones can start"
    assert weights(chains) == before
    succeed(*arguments, "--force", "--seed", 4)
    assert all(one != old for one, old in zip(weights(chains), before, strict=True))


def test_more_chains_may_be_added_to_finished_ones(chains):
    before = weights(chains)
    succeed(*RESUME, chains, "--chains", 4)
    assert weights(chains)[:3] == before
    assert len(chain_folders(chains)) == read(chains / "diagnosis.json")["chains"] == 4


def test_certify_a_chain_looks_at_its_siblings(chains, tmp_path, certify, monkeypatch):
    def energy(folder):
        return certify(folder)["diagnosis"]["traces"]["energy"]

    first = energy(chains / "chain-01")
    assert first["chains"] == 3
    assert energy(chains / "chain-00")["mean"] == near(first["mean"], rel=1e-12)
    for copied in ("chain-00.bak", "chain-03"):
        copytree(chains / "chain-00", chains / copied)
        assert energy(chains / "chain-01") == first, "a copy is no other chain"
        assert energy(chains / copied)["chains"] == 3
        shutil.rmtree(chains / copied)
    with monkeypatch.context() as inside:
        inside.chdir(chains / "chain-01")
        assert energy(Path()) == first
    assert energy(copytree(chains / "chain-01", tmp_path / "lone" / "chain-01"))["chains"] == 1
    for name, other in (("chain-02", (*LONGER, "--problem.architecture.hidden", 9)), ("chain-00", LENGTH)):
        shutil.rmtree(chains / name)
        succeed("train", RECIPE, "--out", chains / name, *other)
    assert energy(chains / "chain-01")["chains"] == 1, "another network, another step"


def test_a_page_shows_no_certificates_of_another_checkpoint(chains, refused):
    for one in ("chain-00", "chain-01"):
        succeed("certify", chains / one)
    succeed("report", chains / "chain-00")
    shutil.copy(chains / "chain-01" / "certificates.json", chains / "chain-00" / "certificates.json")
    for command in ("report", "plot"):
        assert "about another checkpoint" in refused(command, chains / "chain-00")
    for command in ("certify", "report", "plot"):
        assert f"give one of its chains, such as {chains / 'chain-00'}" in refused(command, chains)
    assert "finished run: certify it" in refused("train", "--resume", "--out", chains / "chain-00")
    succeed("certify", chains / "chain-00")
    succeed("plot", chains / "chain-00")


def test_bfloat16_is_carried_out_and_recorded(tmp_path):
    plain, half = tmp_path / "plain", tmp_path / "half"
    for folder, more in ((plain, ()), (half, ("--bfloat16",))):
        succeed("train", RECIPE, "--out", folder, *LENGTH, "--batching", "loop", *more)
        expected = {"batching": "loop", "bfloat16": folder == half}
        assert read(folder / "provenance.json")["runtime"] == load_checkpoint(folder).header["runtime"] == expected
    assert tensors(plain) != tensors(half)


def test_a_run_goes_on_only_as_it_was_carried_out_and_from_its_own_checkpoint(chains, refused):
    folder = chains / "chain-00"
    (folder / "result.json").unlink()
    before = tensors(folder)
    assert "'bfloat16': True" in refused(*RESUME, folder, "--bfloat16")
    forge(folder, device="cuda")
    assert "'device': 'cuda'" in refused(*RESUME, folder)
    assert tensors(folder) == before
    shutil.copy(chains / "chain-01" / "checkpoint.safetensors", folder / "checkpoint.safetensors")
    assert "another run or chain" in refused(*RESUME, chains, "--chains", 3)
    assert load_checkpoint(folder).header["chain"] == 1
