"""`pacdp compress`, then certify, verify, report and plot: a folder like every run's, in which edits are noticed."""

import json
import shutil
import signal
import sys
import time
import types
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from cli_tools import RUN_FILES, one_sentence, pacdp, read, rows, start, tensors
from safetensors.torch import save_file

from pacdp import load_checkpoint
from pacdp.checkpoint import Checkpoint, save_checkpoint
from pacdp.cli.compression_recipes import RECIPES, recipe
from pacdp.cli.serial import from_dict, to_dict
from pacdp.verify.claim import DOES_NOT, FOLLOWS
from pacdp.verify.report import check_path
from tests.schema import validate

CHAIN = ("compress", "entropy-sgd-digits", "--learner.steps", "6", "--groups.sizes", "40", "--threads", "1",
         "--checkpoint-seconds", "0")  # fmt: skip


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A finished compression with its certificates."""
    folder = tmp_path_factory.mktemp("compress") / "k"
    assert pacdp("compress", "kernel-digits", "--out", folder, "--threads", "1") == 0
    assert pacdp("certify", folder, "--threads", "1") == 0
    return folder


def copied(made, tmp_path):
    return shutil.copytree(made, tmp_path / "k")


def verdicts(folder):
    return {(one.claim, one.verdict) for one in check_path(folder)}


def test_a_run_is_certified_verified_reported_and_drawn(made, capsys):
    assert RUN_FILES <= {path.name for path in made.iterdir()}
    report, last = read(made / "certificates.json"), rows(made)[-1]
    validate(report)
    (certificate,) = report["certificates"]
    assert certificate["name"] == "compression"
    assert certificate["status"] == "rigorous"
    assert certificate["inputs"]["k"] == last["kept"] == last["picked"] + last["errors"]
    assert report["details"]["compression"]["rounds"][-1] == [
        last[name] for name in ("step", "picked", "errors", "kept")
    ]
    standing = {one["name"]: one["standing"] for one in certificate["hypotheses"]}
    assert standing["settings fixed beforehand"] == "proved"
    assert standing["learner saw picked records alone"] == "proved"
    assert [one["name"] for one in report["not_applicable"]] == ["test_set"]
    assert {verdict for _, verdict in verdicts(made)} == {FOLLOWS}
    assert ("kept records", FOLLOWS) in verdicts(made)
    for command in ("verify", "report", "plot"):
        assert pacdp(command, made) == 0
    page = (made / "report.html").read_text()
    assert "KernelRidge, compressed on digits" in page
    assert "records picked" in page
    assert (made / "figure.png").stat().st_size > 1000
    capsys.readouterr()


def edited(folder, change):
    """The checkpoint after a change of its tensors or header, with a content hash that fits."""
    found = load_checkpoint(folder)
    header, state = json.loads(json.dumps(dict(found.header))), {name: one.clone() for name, one in found.state.items()}
    change(header, state)
    header.pop("content_hash")
    save_checkpoint(folder / "checkpoint.safetensors", Checkpoint(header=header, model=dict(found.model), state=state))


def fewer(header, state):
    state["rounds"][-1, 1:] -= 10
    state["picks"] = state["picks"][:-10].clone()


def twice(header, state):
    state["picks"][-1] = state["picks"][0]


def earlier(header, state):
    header["compression"]["best"] -= 3


@pytest.mark.parametrize("change", [fewer, twice, earlier])
def test_what_was_kept_cannot_be_changed(made, tmp_path, change):
    folder = copied(made, tmp_path)
    edited(folder, change)
    assert ("kept records", DOES_NOT) in verdicts(folder)


def test_a_smaller_k_does_not_follow(made, tmp_path):
    folder = copied(made, tmp_path)
    report = read(folder / "certificates.json")
    report["certificates"][0]["inputs"]["k"] -= 5
    (folder / "certificates.json").write_text(json.dumps(report))
    assert {("kept records", DOES_NOT), ("value", DOES_NOT)} <= verdicts(folder)


def _rerun(folder, monkeypatch, **changes):
    """Verdicts of `pacdp verify --data --model` with the run's own learner."""
    import recounted

    config = recipe("kernel-digits", scale="smoke")
    data = config.problem.data()[0]
    monkeypatch.setattr(recounted, "DATA", (data.inputs, data.labels))
    monkeypatch.setattr(recounted, "MODEL", replace(config.learner, **changes))
    found = check_path(folder, data="recounted:data", model="recounted:model")
    return {one.claim: (one.verdict, one.why) for one in found if one.subject == "recount"}


def test_verify_runs_the_learner_again_on_what_was_kept(made, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "verify"))
    found = _rerun(made, monkeypatch)
    assert {name: verdict for name, (verdict, _) in found.items()} == {
        "rows": FOLLOWS, "run on the records kept": FOLLOWS, "errors left": FOLLOWS
    }  # fmt: skip
    other = _rerun(made, monkeypatch, ridge=0.1)
    assert other["run on the records kept"][0] == DOES_NOT
    folder = copied(made, tmp_path)

    def swapped(header, state):
        state["picks"][[0, 15]] = state["picks"][[15, 0]]

    edited(folder, swapped)
    assert "round 1 of the run" in _rerun(folder, monkeypatch)["run on the records kept"][1]


def test_verify_finds_an_error_that_was_left_out(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "verify"))
    folder = tmp_path / "k"
    config = ("--stop.rounds", "3", "--groups.sizes", "40")
    assert pacdp("compress", "kernel-digits", "--out", folder, "--threads", "1", *config) == 0
    assert pacdp("certify", folder, "--threads", "1") == 0
    assert _rerun(folder, monkeypatch)["errors left"][0] == FOLLOWS

    def fewer_errors(header, state):
        state["errors"] = state["errors"][1:].clone()
        state["rounds"][-1, 2:] -= 1

    edited(folder, fewer_errors)
    assert _rerun(folder, monkeypatch)["errors left"][0] == DOES_NOT


def test_other_errors_than_the_run_says_are_refused(made, tmp_path, capsys):
    folder = copied(made, tmp_path)

    def other(header, state):
        state["errors"] = state["picks"].new_tensor([5])

    edited(folder, other)
    assert pacdp("certify", folder, "--threads", "1") == 1
    assert "errs on other records than it says" in one_sentence(capsys.readouterr().err)


def test_a_killed_run_goes_on_bit_for_bit(tmp_path):
    assert pacdp(*CHAIN, "--out", tmp_path / "whole") == 0
    killed = start(*CHAIN, "--out", tmp_path / "killed")
    for _ in range(6000):
        if (tmp_path / "killed" / "metrics.jsonl").is_file() and len(rows(tmp_path / "killed")) >= 2:
            break
        time.sleep(0.05)
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    assert pacdp("compress", "--resume", "--out", tmp_path / "killed", "--threads", "1") == 0
    assert rows(tmp_path / "killed") == rows(tmp_path / "whole")
    assert tensors(tmp_path / "killed") == tensors(tmp_path / "whole")


def test_a_head_start_learns_from_rows_that_are_not_the_sample_s(tmp_path, capsys):
    folder = tmp_path / "k"
    command = (
        "compress",
        "adam-digits",
        "--out",
        folder,
        "--threads",
        "1",
        "--learner.steps",
        "5",
        "--stop.rounds",
        "2",
    )
    assert pacdp(*command, "--start-size", "437", "--start-steps", "200") == 0
    assert pacdp("certify", folder, "--threads", "1") == 0
    report = read(folder / "certificates.json")
    validate(report)
    (certificate,) = report["certificates"]
    assert (report["n"], report["rows"]["prior"]["n"]) == (1000, 437)
    assert certificate["inputs"]["k"] < 400  # of a network that already knows most
    standing = {one["name"]: one["standing"] for one in certificate["hypotheses"]}
    assert standing["prior saw none of these rows"] == "proved"
    assert {verdict for _, verdict in verdicts(folder)} == {FOLLOWS}
    capsys.readouterr()
    assert pacdp(*command, "--force", "--start-size", "437") == 2
    assert "start_size and start_steps go together" in one_sentence(capsys.readouterr().err)
    with pytest.raises(ValueError, match="solved anew in every round"):
        replace(recipe("kernel-digits", scale="smoke"), start_size=10, start_steps=10)


def test_a_folder_is_one_run_s(made, capsys):
    assert pacdp("compress", "kernel-digits", "--out", made) == 1
    assert "finished run" in one_sentence(capsys.readouterr().err)
    assert pacdp("compress", "nothing-digits") == 1
    assert "no compression is called" in one_sentence(capsys.readouterr().err)


@pytest.mark.parametrize("name", RECIPES)
def test_recipes_are_json_and_back(name):
    for scale in ("smoke", "cpu", "paper"):
        config = recipe(name, scale=scale)
        assert from_dict(type(config), json.loads(json.dumps(to_dict(config)))) == config


def _network():
    """A linear layer fitted to all digits that the run had, by least squares."""
    data = recipe("kernel-digits", scale="smoke").problem.data()[0]
    rows = torch.tensor(data.inputs).flatten(1)
    wanted = torch.nn.functional.one_hot(torch.tensor(data.labels), 10).float()
    made = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 10, bias=False))
    with torch.no_grad():
        made[1].weight.copy_(torch.linalg.solve(rows.T @ rows + 10.0 * torch.eye(64), rows.T @ wanted).T)
    return made


def _shifted():
    """Digits that nobody saw: test images whose pixels were mirrored."""
    test = recipe("kernel-digits", scale="smoke").problem.data()[1]
    return test.inputs[:, :, :, ::-1].copy(), test.labels.copy()


def test_a_network_of_one_s_own_is_certified_by_the_folder_s(made, tmp_path, monkeypatch, capsys):
    module = types.ModuleType("mine")
    module.network, module.fresh = _network, _shifted
    for name, one in zip(("train", "test"), recipe("kernel-digits", scale="smoke").problem.data(), strict=True):
        setattr(module, name, lambda one=one: (one.inputs.copy(), one.labels.copy()))
    monkeypatch.setitem(sys.modules, "mine", module)
    save_file(dict(_network().state_dict()), tmp_path / "w.safetensors")
    command = ("certify", tmp_path / "w.safetensors", "--model", "mine:network", "--surrogate", made)
    assert pacdp(*command, "--data", "mine:fresh", "--prior-data", "mine:train") == 0
    report = read(tmp_path / "certificates.json")
    validate(report)
    (certificate,) = report["certificates"]
    assert certificate["name"] == "disagreement"
    assert certificate["failure_prob"] == pytest.approx(0.05)
    assert 0 < certificate["inputs"]["k"] < certificate["inputs"]["n"] == 360
    standing = {one["name"]: one["standing"] for one in certificate["hypotheses"]}
    assert standing["neither network saw the unlabelled rows"] == "proved"
    assert {one.verdict for one in check_path(tmp_path / "certificates.json")} == {FOLLOWS}
    capsys.readouterr()
    for changed, words in (
        (("--data", "mine:test"), "360 of the unlabelled rows are among the rows that the settings were chosen on"),
        (("--data", "mine:train"), "1437 of the unlabelled rows are among the sample"),
        (("--data", "mine:fresh", "--prior-data", "mine:fresh"), "are among the network's rows"),
        (("--data", "mine:fresh", "--prior-is-data-free"), "give the rows that --model saw"),
        (("--data", "mine:fresh", "--test", "mine:test"), "--surrogate goes without"),
    ):
        assert pacdp(*command, *changed) == 1
        assert words in one_sentence(capsys.readouterr().err)
