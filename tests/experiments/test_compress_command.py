"""`pacdp compress`, then certify, verify, report and plot: a folder like every run's, in which edits are noticed."""

import copy
import json
import shutil
import sys
import types
from dataclasses import replace

import pytest
import torch
from cli_tools import RUN_FILES, read, rows, succeed, tensors, verdicts
from safetensors.torch import save_file

from pacdp import load_checkpoint, save_checkpoint
from pacdp.cli.compression_recipes import recipe
from pacdp.cli.main import main
from pacdp.verify.claim import DOES_NOT, FOLLOWS
from pacdp.verify.report import check_path
from tests.file_faults import Fault, carried_out
from tests.schema import validate

CHAIN = ("compress", "entropy-sgd-digits", "--learner.steps", "6", "--groups.sizes", "40", "--threads", "1",
         "--checkpoint-seconds", "0")  # fmt: skip
KERNEL = ("compress", "kernel-digits", "--threads", "1")


@pytest.fixture
def folder(compressed, tmp_path):
    """A copy of a finished compression with its certificates."""
    return shutil.copytree(compressed, tmp_path / "run")


def judged(folder):
    return {(one.claim, one.verdict) for one in check_path(folder)}


def test_a_run_is_certified_verified_reported_and_drawn(folder):
    assert RUN_FILES <= {path.name for path in folder.iterdir()}
    report, last = read(folder / "certificates.json"), rows(folder)[-1]
    (made,) = validate(report)
    assert (made.name, made.status) == ("compression", "rigorous")
    assert made.inputs["k"] == last["kept"] == last["picked"] + last["errors"]
    assert report["details"]["compression"]["rounds"][-1] == [
        last[name] for name in ("step", "picked", "errors", "kept")
    ]
    for name in ("settings fixed beforehand", "learner saw picked records alone"):
        assert made.hypothesis(name).standing == "proved"
    assert [one["name"] for one in report["not_applicable"]] == ["test_set"]
    assert verdicts(folder) == {FOLLOWS}
    assert ("kept records", FOLLOWS) in judged(folder)
    for command in ("verify", "report", "plot"):
        succeed(command, folder)
    assert "records picked" in (folder / "report.html").read_text()
    assert (folder / "figure.png").stat().st_size > 1000


def edited(folder, change):
    """The checkpoint after a change of its tensors or header, with a content hash that fits."""
    found = load_checkpoint(folder)
    header, state = copy.deepcopy(dict(found.header)), {name: one.clone() for name, one in found.state.items()}
    change(header, state)
    save_checkpoint(folder / "checkpoint.safetensors", replace(found, header=header, state=state))


def fewer(header, state):
    state["rounds"][-1, 1:] -= 10
    state["picks"] = state["picks"][:-10].clone()


def twice(header, state):
    state["picks"][-1] = state["picks"][0]


def earlier(header, state):
    header["compression"]["best"] -= 3


@pytest.mark.parametrize("change", [fewer, twice, earlier])
def test_what_was_kept_cannot_be_changed(folder, change):
    edited(folder, change)
    assert ("kept records", DOES_NOT) in judged(folder)


def test_a_smaller_k_does_not_follow(folder):
    report = read(folder / "certificates.json")
    report["certificates"][0]["inputs"]["k"] -= 5
    (folder / "certificates.json").write_text(json.dumps(report))
    assert {("kept records", DOES_NOT), ("value", DOES_NOT)} <= judged(folder)


def _rerun(folder, monkeypatch, **changes):
    """Verdicts of `pacdp verify --data --model` with the run's own learner."""
    config = recipe("kernel-digits", scale="smoke")
    data, module = config.problem.data()[0], types.ModuleType("mine")
    module.data, module.model = lambda: (data.inputs, data.labels), lambda: replace(config.learner, **changes)
    monkeypatch.setitem(sys.modules, "mine", module)
    found = check_path(folder, data="mine:data", model="mine:model")
    return {one.claim: (one.verdict, one.why) for one in found if one.subject == "recount"}


def test_verify_runs_the_learner_again_on_what_was_kept(folder, monkeypatch):
    found = _rerun(folder, monkeypatch)
    assert found.keys() == {"rows", "run on the records kept", "errors left"}
    assert {verdict for verdict, _ in found.values()} == {FOLLOWS}
    assert _rerun(folder, monkeypatch, ridge=0.1)["run on the records kept"][0] == DOES_NOT

    def swapped(header, state):
        state["picks"][[0, 15]] = state["picks"][[15, 0]]

    edited(folder, swapped)
    assert "round 1 of the run" in _rerun(folder, monkeypatch)["run on the records kept"][1]


def test_verify_finds_an_error_that_was_left_out(tmp_path, monkeypatch):
    folder = tmp_path / "k"
    succeed(*KERNEL, "--out", folder, "--stop.rounds", "3", "--groups.sizes", "40")
    succeed("certify", folder, "--threads", "1")
    assert _rerun(folder, monkeypatch)["errors left"][0] == FOLLOWS

    def fewer_errors(header, state):
        state["errors"] = state["errors"][1:].clone()
        state["rounds"][-1, 2:] -= 1

    edited(folder, fewer_errors)
    assert _rerun(folder, monkeypatch)["errors left"][0] == DOES_NOT


def test_other_errors_than_the_run_says_are_refused(folder, refused):
    def other(header, state):
        state["errors"] = state["picks"].new_tensor([5])

    edited(folder, other)
    assert "errs on other records than it says" in refused("certify", folder, "--threads", "1")


def test_a_killed_run_goes_on_bit_for_bit(tmp_path):
    whole, folder = tmp_path / "whole", tmp_path / "killed"
    succeed(*CHAIN, "--out", whole)
    arguments = [*CHAIN, "--out", str(folder)]
    assert carried_out(main, (arguments,), root=tmp_path, fault=Fault(at=60)).killed
    assert 0 < len(rows(folder)) < len(rows(whole))
    succeed("compress", "--resume", "--out", folder, "--threads", "1")
    assert rows(folder) == rows(whole)
    assert tensors(folder) == tensors(whole)


def test_a_head_start_learns_from_rows_that_are_not_the_sample_s(tmp_path):
    folder = tmp_path / "k"
    short = ("--threads", "1", "--learner.steps", "5", "--stop.rounds", "2", "--start-size", "437")
    command = ("compress", "adam-digits", "--out", folder, *short)
    succeed(*command, "--start-steps", "200")
    succeed("certify", folder, "--threads", "1")
    report = read(folder / "certificates.json")
    (made,) = validate(report)
    assert (report["n"], report["rows"]["prior"]["n"]) == (1000, 437)
    assert made.inputs["k"] < 400  # of a network that already knows most
    assert made.hypothesis("prior saw none of these rows").standing == "proved"
    assert verdicts(folder) == {FOLLOWS}
    with pytest.raises(ValueError, match="solved anew in every round"):
        replace(recipe("kernel-digits", scale="smoke"), start_size=10, start_steps=10)


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


def test_a_network_of_one_s_own_is_certified_by_the_folder_s(compressed, tmp_path, monkeypatch, certify, refused):
    module = types.ModuleType("mine")
    module.network, module.fresh = _network, _shifted
    for name, one in zip(("train", "test"), recipe("kernel-digits", scale="smoke").problem.data(), strict=True):
        setattr(module, name, lambda one=one: (one.inputs.copy(), one.labels.copy()))
    monkeypatch.setitem(sys.modules, "mine", module)
    save_file(dict(_network().state_dict()), tmp_path / "w.safetensors")
    command = (tmp_path / "w.safetensors", "--model", "mine:network", "--surrogate", compressed)
    (made,) = validate(certify(*command, "--data", "mine:fresh", "--prior-data", "mine:train"))
    assert (made.name, made.failure_prob) == ("disagreement", pytest.approx(0.05))
    assert 0 < made.inputs["k"] < made.inputs["n"] == 360
    assert made.hypothesis("neither network saw the unlabelled rows").standing == "proved"
    assert verdicts(tmp_path / "certificates.json") == {FOLLOWS}
    for changed, words in (
        (("--data", "mine:test"), "360 of the unlabelled rows are among the rows that the settings were chosen on"),
        (("--data", "mine:train"), "1437 of the unlabelled rows are among the sample"),
        (("--data", "mine:fresh", "--prior-data", "mine:fresh"), "are among the network's rows"),
        (("--data", "mine:fresh", "--prior-is-data-free"), "give the rows that --model saw"),
        (("--data", "mine:fresh", "--test", "mine:test"), "--surrogate goes without"),
    ):
        assert words in refused("certify", *command, *changed)
