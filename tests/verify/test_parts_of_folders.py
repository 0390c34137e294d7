"""Folders that honest people have: parts of a run, one that was broken off, and weights of their own."""

import shutil
import sys
import types
from pathlib import Path

import numpy as np
import torch
from cli_tools import rows
from made import verdicts, wrong
from safetensors.torch import save_file
from tiny_runs import RUNTIME, interrupted, tiny

from pacdp import certify_predictions, load_checkpoint
from pacdp.cli.run import train
from pacdp.verify.claim import CANNOT, DOES_NOT, Fields, parsed
from pacdp.verify.files import Stored
from pacdp.verify.recount import recount
from pacdp.verify.report import check_path, check_report
from tests.marks import parametrize

NOTHING = Stored(Fields(), {})


def _report():
    labels = np.arange(60) % 3
    return certify_predictions(labels, np.roll(labels, 1), groups=np.arange(60) % 2)


@parametrize("name", ["checkpoint.safetensors", "config.json", "metrics.jsonl"])
def test_what_was_not_sent_along_is_named_and_nobody_accused(runs, tmp_path, name):
    folder = Path(shutil.copytree(runs["sgd"], tmp_path / "run"))
    (folder / name).unlink()
    found = check_path(folder)
    assert DOES_NOT not in verdicts(found)
    assert verdicts(found, "result.json") == {CANNOT}
    assert name.partition(".")[0] in next(one.why for one in found if one.claim == "result.json")


def test_a_run_that_was_killed_between_a_row_and_its_checkpoint_is_no_forgery(tmp_path):
    run, folder = tiny("sgd", records=6), tmp_path / "run"
    interrupted(run, folder, after=30)
    train(run, tmp_path / "whole", RUNTIME)
    step = load_checkpoint(folder).header["step"]
    lines = (tmp_path / "whole" / "metrics.jsonl").read_text().splitlines(keepends=True)
    kept = [one for one in rows(tmp_path / "whole") if one["step"] <= step]
    for more, claims in ((1, set()), (2, {"metrics.jsonl"})):
        cut_short = lines[len(kept) + more][:-40]  # by the crash, as a run that goes on leaves it out
        (folder / "metrics.jsonl").write_text("".join([*lines[: len(kept) + more], cut_short]))
        assert {*wrong(folder, None)} == claims
        assert verdicts(check_path(folder), "metrics.jsonl") == {DOES_NOT if claims else CANNOT}


def test_weights_of_ones_own_beside_their_report_are_no_export(exported, tmp_path):
    """Both are called so in the example of `pacdp certify --help`; an export that lost its header still is one."""
    _report().save(tmp_path / "own")
    save_file({"weight": torch.zeros(2, 3)}, tmp_path / "own" / "weights.safetensors")
    assert DOES_NOT not in verdicts(check_path(tmp_path / "own"))
    out = Path(shutil.copytree(exported / "out", tmp_path / "out"))
    save_file({"weight": torch.zeros(2, 3)}, out / "weights.safetensors")
    assert DOES_NOT in verdicts(check_path(out), "event")


def test_what_numpy_does_of_an_underflow_changes_no_verdict(exported):
    with np.errstate(all="raise"):
        found = check_path(exported / "out")
    assert DOES_NOT not in verdicts(found)
    assert DOES_NOT not in verdicts(check_report(_report().to_dict()))


def test_data_of_another_size_and_averages_of_snapshots_or_draws_accuse_no_network(monkeypatch):
    """A chain's report names no rows, so that nothing else tells the checker's own data from the bound's."""
    module = types.ModuleType("mine")
    monkeypatch.setitem(sys.modules, "mine", module)
    module.model = lambda: torch.nn.Linear(2, 2)
    measured = [{"of": "weights", "on": "bound", "loss": "zero-one", "errors": 0, "n": 5}]
    averaged = NOTHING._replace(tensors={"state.extra.snapshots": torch.zeros(3, 6)})
    drawn = NOTHING._replace(header=parsed({"about": {"run": {"method": {"kind": "DPBBP", "test_draws": 20}}}}))
    cases = (4, NOTHING, CANNOT), (5, averaged, CANNOT), (5, drawn, CANNOT), (5, NOTHING, DOES_NOT)
    for n, stored, verdict in cases:
        module.data = lambda n=n: (torch.zeros(n, 2), torch.tensor([0, 1] * n)[:n])
        found = recount({"examples": 5, "measured": measured}, stored, "mine:data", "mine:model")
        assert verdicts(found, "errors") == {verdict}
