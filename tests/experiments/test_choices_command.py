"""`pacdp choices`, and runs that were listed before they began."""

import json
from dataclasses import replace

import pytest
from cli_tools import QUICK, forge, pacdp, rows, tensors
from tiny_runs import RUNTIME, interrupted, tiny

from pacdp import CheckpointError, load_checkpoint, load_trained
from pacdp.choices import Choices
from pacdp.cli.folder import write_json
from pacdp.cli.run import train
from pacdp.cli.serial import to_dict

VARY = ("--vary", "sampler.tau=100,1000", "--vary", "seed=0,1")
RECIPE = ("train", "sgld-digits2", *QUICK)


@pytest.fixture
def path(tmp_path):
    """An open list of four runs."""
    made = tmp_path / "list.jsonl"
    assert pacdp("choices", "create", made, "--recipe", "sgld-digits2", *VARY, *QUICK[:-2]) == 0
    return made


def listed(path, *runs):
    """A closed list of runs."""
    choices = Choices.create(path)
    for run in runs:
        choices.add(to_dict(run))
    choices.close()
    return choices


def test_a_grid_is_listed_shown_and_closed(path, tmp_path, capsys):
    choices = Choices.load(path)
    pairs = [(one["sampler"]["tau"], one["seed"]) for one in choices.settings]
    assert pairs == [(100.0, 0), (100.0, 1), (1000.0, 0), (1000.0, 1)]
    assert {one["epochs"] for one in choices.settings} == {2.0}
    write_json(tmp_path / "more.json", to_dict(tiny("sgd")))
    assert pacdp("choices", "add", path, tmp_path / "more.json") == 0
    assert "is number 4 of" in capsys.readouterr().out
    assert pacdp("choices", "show", path) == 0
    printed = capsys.readouterr().out.splitlines()
    assert "open" in printed[0]
    assert len(printed) == 6
    assert "seed=1" in printed[2]
    assert pacdp("choices", "close", path) == 0
    assert "J = 5" in capsys.readouterr().out
    assert pacdp("choices", "show", path, "--json") == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["J"], shown["closed"], len(shown["settings"])) == (5, True, 5)
    assert shown["digest"] == Choices.load(path).digest


def test_private_recipes_are_listed_too(tmp_path):
    made = tmp_path / "list"
    vary = ("--vary", "budget.epsilon=1,2")
    assert pacdp("choices", "create", made, "--recipe", "dp-sgd-mnist", *vary, "--sampling.steps", 3) == 0
    assert [one["budget"]["epsilon"] for one in Choices.load(made).settings] == [1.0, 2.0]


def test_what_cannot_be_done_is_one_sentence(path, tmp_path, refused):
    (tmp_path / "no.json").write_text("[1]")
    for arguments, said in {
        ("create", path): "exists: add to it",
        ("create", tmp_path / "a", "--vary", "seed=1"): "give --recipe as well",
        ("create", tmp_path / "a", "--recipe", "nothing"): "no recipe is called 'nothing'",
        ("create", tmp_path / "a", "--recipe", "sgd-digits2", "--vary", "seed=1,"): "expected --vary FIELD=VALUE",
        ("create", tmp_path / "a", "--recipe", "sgd-digits2", "--vary", "no.field=1"): "no.field",
        ("add", path, tmp_path / "no.json"): "holds no JSON object",
        ("add", path, path): "is no JSON",
        ("close", tmp_path / "b"): "cannot read the list",
    }.items():
        assert said in refused("choices", *arguments), arguments
    assert not (tmp_path / "a").exists()


def test_a_run_is_covered_by_a_closed_list_that_has_it_and_is_the_same_run(path, tmp_path, refused):
    folder, own = tmp_path / "run", ("--sampler.tau", 1000)
    given = (*RECIPE, "--out", folder, "--choices", path)
    assert "is not closed" in refused(*given, *own)
    assert pacdp("choices", "close", path) == 0
    assert "sampler.tau is 500.0 here and 100.0 there" in refused(*given, "--sampler.tau", 500)
    assert "goes with one run here" in refused(*given, *own, "--chains", 2)
    assert not folder.exists()
    assert pacdp(*given, *own) == 0
    digest, fixed = Choices.load(path).digest, load_trained(folder).fixed
    assert load_checkpoint(folder).header["choices"] == {"digest": digest, "J": 4, "index": 2}
    assert (fixed.count, fixed.hypothesis.standing) == (4, "proved")
    (folder / "choices.jsonl").unlink()
    assert load_trained(folder).fixed.hypothesis.standing == "declared"
    without = tmp_path / "without"
    assert pacdp(*RECIPE, *own, "--out", without) == 0
    assert (tensors(folder), rows(folder)) == (tensors(without), rows(without))
    assert "choices" not in load_checkpoint(without).header
    assert load_trained(without).fixed.hypothesis.standing == "declared"


def test_a_list_counts_from_the_first_step_on(tmp_path):
    run = tiny("sgld")
    first, other = (listed(tmp_path / name, run, replace(run, seed=7)) for name in ("first", "other"))
    interrupted(run, tmp_path / "none", after=45)
    with pytest.raises(ValueError, match="was started without a list of settings, and a list counts from the first"):
        train(run, tmp_path / "none", RUNTIME, resume=True, choices=first.path)
    interrupted(run, tmp_path / "run", after=45, choices=first.path)
    with pytest.raises(ValueError, match=f"was started with the list {first.digest[:12]}"):
        train(run, tmp_path / "run", RUNTIME, resume=True, choices=other.path)
    train(run, tmp_path / "run", RUNTIME, resume=True)
    assert load_checkpoint(tmp_path / "run").header["choices"]["digest"] == first.digest
    assert load_trained(tmp_path / "run").fixed.hypothesis.standing == "proved"


def test_a_list_that_was_extended_or_put_there_afterwards_is_refused_and_force_takes_it_away(tmp_path):
    run, folder = tiny("sgld"), tmp_path / "run"
    kept = folder / "choices.jsonl"
    choices, longer = listed(tmp_path / "list", run), listed(tmp_path / "longer", run, replace(run, seed=5))
    train(run, folder, RUNTIME, choices=choices.path)
    kept.write_bytes(longer.path.read_bytes())
    with pytest.raises(CheckpointError, match="was changed or extended after the run's first step"):
        load_trained(folder)
    kept.write_bytes(choices.path.read_bytes())
    said = load_checkpoint(folder).header["choices"]
    for change in ({"J": 9}, {"index": 1}):
        forge(folder, choices={**said, **change})
        with pytest.raises(CheckpointError, match="under another number or J"):
            load_trained(folder)
    train(run, folder, RUNTIME, force=True)
    assert not kept.exists()
    assert "choices" not in load_checkpoint(folder).header
