"""`pacdp choices`, and runs that were listed before they began."""

from dataclasses import replace

import pytest
from cli_tools import QUICK, rows, succeed, tensors
from tiny_runs import RUNTIME, begin, interrupted, tiny, tiny_private

from pacdp import CheckpointError, load_checkpoint, load_trained
from pacdp.choices import Choices
from pacdp.cli.folder import write_json
from pacdp.cli.private.config import PrivateConfig
from pacdp.cli.run import train
from pacdp.cli.serial import to_dict
from tests.marks import refusal

VARY = ("--vary", "sampler.tau=100,1000", "--vary", "seed=0,1")
RECIPE = ("train", "sgld-digits2", *QUICK)


@pytest.fixture
def path(tmp_path):
    """An open list of four runs."""
    made = tmp_path / "list.jsonl"
    succeed("choices", "create", made, "--recipe", "sgld-digits2", *VARY, *QUICK[:-2])
    return made


def listed(path, *runs):
    """A closed list of runs."""
    choices = Choices.create(path, settings=map(to_dict, runs))
    choices.close()
    return choices


def test_a_grid_is_listed_shown_and_closed(path, tmp_path, said):
    choices = Choices.load(path)
    pairs = [(one["sampler"]["tau"], one["seed"]) for one in choices.settings]
    assert pairs == [(100.0, 0), (100.0, 1), (1000.0, 0), (1000.0, 1)]
    write_json(tmp_path / "more.json", to_dict(tiny("sgd")))
    succeed("choices", "add", path, tmp_path / "more.json")
    succeed("choices", "close", path)
    shown = said("choices", "show", path, "--json")
    assert (shown["J"], shown["closed"], len(shown["settings"])) == (5, True, 5)
    assert shown["digest"] == Choices.load(path).digest


def test_a_run_is_covered_by_a_closed_list_that_has_it_and_is_the_same_run(path, tmp_path, refused):
    folder, own = tmp_path / "run", ("--sampler.tau", 1000)
    given = (*RECIPE, "--out", folder, "--choices", path)
    succeed("choices", "close", path)
    assert "sampler.tau is 500.0 here and 100.0 there" in refused(*given, "--sampler.tau", 500)
    assert not folder.exists()
    succeed(*given, *own)
    digest = Choices.load(path).digest
    assert load_checkpoint(folder).header["choices"] == {"digest": digest, "J": 4, "index": 2}
    succeed(*RECIPE, *own, "--out", tmp_path / "without")
    assert (tensors(folder), rows(folder)) == (tensors(tmp_path / "without"), rows(tmp_path / "without"))


@pytest.mark.parametrize("run", [tiny("sgld"), tiny_private("dp-sgd-mnist")], ids=["chain", "private"])
def test_a_list_counts_from_the_first_step_on(run, tmp_path):
    first = listed(tmp_path / "first", run, replace(run, seed=7))
    late, folder, half = tmp_path / "late", tmp_path / "run", 4 if isinstance(run, PrivateConfig) else 45
    interrupted(run, late, after=half)
    with refusal("was started without a list of settings, and a list counts from the first"):
        begin(run)(run, late, RUNTIME, resume=True, choices=first.path)
    interrupted(run, folder, after=half, choices=first.path)
    begin(run)(run, folder, RUNTIME, resume=True)
    header = load_checkpoint(folder).header
    assert header.get("about", header)["choices"] == first.require(to_dict(run))


def test_a_list_that_was_extended_or_put_there_afterwards_is_refused_and_force_takes_it_away(tmp_path):
    run, folder = tiny("sgld"), tmp_path / "run"
    kept = folder / "choices.jsonl"
    longer = listed(tmp_path / "longer", run, replace(run, seed=5))
    train(run, folder, RUNTIME, choices=listed(tmp_path / "list", run).path)
    kept.write_bytes(longer.path.read_bytes())
    with refusal("was changed or extended after the run's first step", CheckpointError):
        load_trained(folder)
    train(run, folder, RUNTIME, force=True)
    assert not kept.exists()
    assert "choices" not in load_checkpoint(folder).header
