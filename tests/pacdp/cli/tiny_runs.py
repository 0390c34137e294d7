"""Runs of a few steps, one for every algorithm, and what they leave."""

import shutil
from dataclasses import replace

import pytest
from cli_tools import read, rows, tensors

from pacdp import load_checkpoint
from pacdp.algorithms import PSGLD, SGHMC, SGLD
from pacdp.certify.gibbs import GibbsSettings
from pacdp.cli.commands.export import Export
from pacdp.cli.config import Run, run
from pacdp.cli.exporting import export_run
from pacdp.cli.private.config import Budget, PrivateConfig, private_recipe
from pacdp.cli.private.run import train_private
from pacdp.cli.run import train
from pacdp.cli.runtime import Training
from pacdp.models import Architecture

RUNTIME = Training(threads=1)
EFFORT = GibbsSettings(epochs=1.0, prior_draws=2, test_draws=2)
_OTHERS = {
    "psgld": PSGLD(tau=500.0, batch_size=32), "sghmc": SGHMC(tau=500.0, batch_size=32),
    "clipped-sgld": SGLD(tau=500.0, step_size=0.2, batch_size=32, clip_norm=1.0),
}  # fmt: skip
ALGORITHMS = ("sgd", "sgld", "entropy-sgd", "entropy-sgld", *_OTHERS)


def tiny(algorithm, *, epochs=2.0, records=2, **sampler):
    """A run on digits2 of two passes, with fields of its sampler replaced."""
    one = run("sgd" if algorithm in _OTHERS else algorithm, "digits2", scale="smoke")
    settings = _OTHERS.get(algorithm, one.sampler)
    problem = replace(one.problem, architecture=Architecture(hidden=(8,)))
    return replace(one, problem=problem, sampler=replace(settings, **sampler), epochs=epochs, records=records,
                   track=EFFORT, certify=EFFORT)  # fmt: skip


def tiny_private(name, *, steps=6, epsilon=0.1, **changes):
    """A private run of six steps, with fields replaced."""
    config = private_recipe(name, scale="smoke")
    budget, sampling = Budget(epsilon=epsilon, delta=1e-3), replace(config.sampling, steps=steps)
    return replace(config, sampling=sampling, records=3, **{"budget": budget, **changes})


def halted():
    """A private run whose budget halts it before its last step."""
    budget = Budget(epsilon=2.0, delta=1e-3, adjacency="replace-one")
    config = tiny_private("dp-sgd-mnist", steps=30, budget=budget)
    return replace(config, sampling=replace(config.sampling, noise_multiplier=1.0))


def begin(run):
    """What trains such a run."""
    return train if isinstance(run, Run) else train_private


def counted_run(run, place, name="run", **how):
    """The folder of a run that the ledger beside it counts."""
    begin(run)(run, place / name, replace(RUNTIME, ledger=place / "ledger", **how))
    return place / name


def leave(run, out, **how):
    """Export a run, and give the report that left with it."""
    return export_run(Export(run=run, out=out, runtime=RUNTIME, **how))


def carried_out(jobs, root):
    """Carry out jobs that are not finished, each by itself."""
    for job in jobs:
        if not (root / job.key).exists():
            job.kind.carry_out(job.config, root / job.key, RUNTIME)


def interrupted(run, folder, *, after, runtime=RUNTIME, **more):
    """Train until so many steps are made, of a chain until the next row is written, and stop as Ctrl-C does."""

    def stop(step, steps, row):
        if step >= after and (row is not None or isinstance(run, PrivateConfig)):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        begin(run)(run, folder, replace(runtime, report=stop, **more))
    assert not (folder / "result.json").exists()


def variants(one):
    """The run with other temperatures or step sizes, seeds, chain numbers and labels."""
    changed = {"step_size": 0.03, "momentum": 0.5} if one.algorithm == "SGD" else {"tau": 77.0}
    random = replace(one.problem, random_labels=1.0)
    return [
        one, replace(one, sampler=replace(one.sampler, **changed)), replace(one, seed=3, chain=1),
        replace(one, chain=2), replace(one, problem=random),
        replace(one, problem=replace(random, label_seed=5), chain=1),
    ]  # fmt: skip


def left_behind(folder):
    """Everything that a run's numbers are in: rows but for their seconds, the checkpoint's header and bits."""
    checkpoint = load_checkpoint(folder)
    return {"rows": rows(folder), "header": checkpoint.header, "tensors": tensors(folder)}


def alone(runs, root, runtime=RUNTIME):
    """What each run leaves when it is trained by itself."""
    found = []
    for k, one in enumerate(runs):
        train(one, root / f"alone-{k}", runtime)
        found.append(left_behind(root / f"alone-{k}"))
        shutil.rmtree(root / f"alone-{k}")
    return found


def chain_folders(folder):
    """The folders of a run's chains, in order."""
    return sorted(folder.glob("chain-*"))


def assert_same_chains(folder, expected):
    """All chains, their configurations and their diagnosis are equal."""
    assert [one.name for one in chain_folders(folder)] == [one.name for one in chain_folders(expected)]
    for one, other in zip(chain_folders(folder), chain_folders(expected), strict=True):
        assert left_behind(one) == left_behind(other)
        assert read(one / "config.json") == read(other / "config.json")
    assert read(folder / "diagnosis.json") == read(expected / "diagnosis.json")
