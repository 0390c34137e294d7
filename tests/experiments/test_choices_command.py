"""`pacdp choices`, and runs that were listed before they began."""

import json
from dataclasses import replace

import pytest
from cli_tools import QUICK, one_sentence, pacdp, rows, tensors
from tiny_runs import RUNTIME, tiny

from pacdp import CheckpointError, load_checkpoint, load_trained, save_checkpoint
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


def stopped(run, folder, **options):
    def stop(step, steps, row):
        if row is not None:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(run, folder, RUNTIME, report=stop, **options)


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


def test_what_cannot_be_done_is_one_sentence(path, tmp_path, capsys):
    (tmp_path / "no.json").write_text("[1]")
    refused = {
        ("create", path): "exists: add to it",
        ("create", tmp_path / "a", "--vary", "seed=1"): "give --recipe as well",
        ("create", tmp_path / "a", "--recipe", "nothing"): "no recipe is called 'nothing'",
        ("create", tmp_path / "a", "--recipe", "sgd-digits2", "--vary", "seed"): "expected --vary FIELD=VALUE",
        ("create", tmp_path / "a", "--recipe", "sgd-digits2", "--vary", "seed=1,"): "expected --vary FIELD=VALUE",
        ("add", path, tmp_path / "no.json"): "holds no JSON object",
        ("add", path, path): "is no JSON",
        ("add", tmp_path / "b", tmp_path / "no.json"): "cannot read the list",
        ("close", tmp_path / "b"): "cannot read the list",
        ("show", tmp_path / "b"): "cannot read the list",
    }
    for arguments, said in refused.items():
        capsys.readouterr()
        assert pacdp("choices", *arguments) == 1, arguments
        printed = capsys.readouterr()
        assert (printed.out, said in one_sentence(printed.err)) == ("", True), arguments
    assert pacdp("choices", "create", tmp_path / "a", "--recipe", "sgd-digits2", "--vary", "no.field=1") == 2
    assert pacdp("choices", "create", tmp_path / "a", "--unknown", 1) == 2
    assert pacdp("choices") == 2
    assert not (tmp_path / "a").exists()


def test_a_run_is_covered_by_a_closed_list_that_has_it(path, tmp_path, capsys):
    folder, own = tmp_path / "run", ("--sampler.tau", 1000)
    capsys.readouterr()
    assert pacdp(*RECIPE, *own, "--out", folder, "--choices", path) == 1
    assert "is not closed" in one_sentence(capsys.readouterr().err)
    assert pacdp("choices", "close", path) == 0
    capsys.readouterr()
    assert pacdp(*RECIPE, "--sampler.tau", 500, "--out", folder, "--choices", path) == 1
    assert "sampler.tau is 500.0 here and 100.0 there" in one_sentence(capsys.readouterr().err)
    assert pacdp(*RECIPE, *own, "--chains", 2, "--out", folder, "--choices", path) == 1
    assert "goes with one run here" in one_sentence(capsys.readouterr().err)
    assert not folder.exists()
    assert pacdp(*RECIPE, *own, "--out", folder, "--choices", path) == 0
    choices = Choices.load(path)
    assert load_checkpoint(folder).header["choices"] == {"digest": choices.digest, "J": 4, "index": 2}
    fixed = load_trained(folder).fixed
    assert (fixed.count, fixed.hypothesis.standing) == (4, "proved")
    (folder / "choices.jsonl").unlink()
    assert load_trained(folder).fixed.hypothesis.standing == "declared"


def test_the_list_changes_no_number_of_the_run(path, tmp_path):
    assert pacdp("choices", "close", path) == 0
    for name, more in (("with", ("--choices", path)), ("without", ())):
        assert pacdp(*RECIPE, "--sampler.tau", 100, "--out", tmp_path / name, *more) == 0
    assert tensors(tmp_path / "with") == tensors(tmp_path / "without")
    assert rows(tmp_path / "with") == rows(tmp_path / "without")
    assert "choices" not in load_checkpoint(tmp_path / "without").header
    assert load_trained(tmp_path / "without").fixed.hypothesis.standing == "declared"


def test_a_list_counts_from_the_first_step_on(tmp_path):
    run = tiny("sgld")
    first, other = (Choices.create(tmp_path / name) for name in ("first", "other"))
    for choices in (first, other):
        choices.add(to_dict(run))
        choices.add({**to_dict(run), "seed": 7})
        choices.close()
    stopped(run, tmp_path / "none")
    with pytest.raises(ValueError, match="was started without a list of settings, and a list counts from the first"):
        train(run, tmp_path / "none", RUNTIME, resume=True, choices=first.path)
    stopped(run, tmp_path / "run", choices=first.path)
    with pytest.raises(ValueError, match=f"was started with the list {first.digest[:12]}"):
        train(run, tmp_path / "run", RUNTIME, resume=True, choices=other.path)
    train(run, tmp_path / "run", RUNTIME, resume=True)
    assert load_checkpoint(tmp_path / "run").header["choices"]["digest"] == first.digest
    assert load_trained(tmp_path / "run").fixed.hypothesis.standing == "proved"


def test_a_list_that_was_extended_or_put_there_afterwards_is_refused(tmp_path):
    run = tiny("sgld")
    choices = Choices.create(tmp_path / "list")
    choices.add(to_dict(run))
    choices.close()
    train(run, tmp_path / "run", RUNTIME, choices=choices.path)
    longer = Choices.create(tmp_path / "longer")
    for one in (run, replace(run, seed=5)):
        longer.add(to_dict(one))
    longer.close()
    (tmp_path / "run" / "choices.jsonl").write_bytes(longer.path.read_bytes())
    with pytest.raises(CheckpointError, match="was changed or extended after the run's first step"):
        load_trained(tmp_path / "run")
    (tmp_path / "run" / "choices.jsonl").write_bytes(choices.path.read_bytes())
    checkpoint = load_checkpoint(tmp_path / "run")
    for change in ({"J": 9}, {"index": 1}):
        header = {**checkpoint.header, "choices": {**checkpoint.header["choices"], **change}}
        save_checkpoint(tmp_path / "run" / "checkpoint.safetensors", replace(checkpoint, header=header))
        with pytest.raises(CheckpointError, match="under another number or J"):
            load_trained(tmp_path / "run")


def test_force_takes_the_list_of_an_earlier_run_away(tmp_path):
    run = tiny("sgld")
    choices = Choices.create(tmp_path / "list")
    choices.add(to_dict(run))
    choices.close()
    train(run, tmp_path / "run", RUNTIME, choices=choices.path)
    assert (tmp_path / "run" / "choices.jsonl").is_file()
    train(run, tmp_path / "run", RUNTIME, force=True)
    assert not (tmp_path / "run" / "choices.jsonl").exists()
    assert "choices" not in load_checkpoint(tmp_path / "run").header
