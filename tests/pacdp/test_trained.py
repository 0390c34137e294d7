"""A saved chain goes on bit for bit, with its own data only."""

import dataclasses
from pathlib import Path

import pytest
import torch
from toys import seeded

from pacdp import (
    Architecture,
    CheckpointError,
    GibbsSettings,
    LocalGibbs,
    Point,
    Problem,
    load_checkpoint,
    load_trained,
)
from pacdp import save_checkpoint as write
from pacdp.chain import run
from pacdp.samplers import SGD, SGLD, EntropySGD, Settings, build
from pacdp.trained import objectives, sampler_from_dict, sampler_to_dict, save_trained

PROBLEM = Problem(dataset="digits2", architecture=Architecture(hidden=(12,)))
SAMPLERS = [
    SGD(momentum=0.9, decay=0.3),
    SGLD(tau=30.0, decay=0.5),
    SGLD(tau=30.0, clip_norm=1.0),
    EntropySGD(tau=30.0, inner_steps=4),
    EntropySGD(tau=30.0, inner_steps=4, beta=None),
]
NAMES = ["SGD", "SGLD", "SGLD clipped", "Entropy-SGLD", "Entropy-SGD"]


def train(path: Path, settings: Settings, *, steps: int, problem: Problem = PROBLEM) -> None:
    """A chain from its start, saved after ``steps``."""
    data, test = problem.data()
    objective, _ = objectives(problem, settings, data, test, seed=1, device="cpu")
    sampler, generator = build(settings, objective), seeded(2)
    *_, last = run(sampler, sampler.init(objective.weights()), generator, until=steps, chunk=3)
    hashes = {"train": data.hash, "test": test.hash}
    save_trained(path, problem=problem, settings=settings, objective=objective, hashes=hashes, state=last.state,
                 generator=generator, run={"seed": 2})  # fmt: skip


def resume(path: Path, *, until: int) -> None:
    """Go on from a file that a chain was saved to, and save it there again."""
    found = load_trained(path)
    *_, last = run(build(found.settings, found.objective), found.state, found.generator, until=until, chunk=4)
    header = found.checkpoint.header
    save_trained(path, problem=found.problem, settings=found.settings, objective=found.objective,
                 hashes=header["data"], state=last.state, generator=found.generator, run=header["run"])  # fmt: skip


@pytest.mark.parametrize("settings", SAMPLERS, ids=NAMES)
def test_ten_steps_equal_four_saved_loaded_six(tmp_path: Path, settings: Settings) -> None:
    train(tmp_path / "ten", settings, steps=10)
    train(tmp_path / "four", settings, steps=4)
    ten, four = load_checkpoint(tmp_path / "ten"), load_checkpoint(tmp_path / "four")
    assert not torch.equal(ten.flat_weights(), four.flat_weights())
    resume(tmp_path / "four", until=10)
    resumed = load_checkpoint(tmp_path / "four")
    assert torch.equal(resumed.flat_weights(), ten.flat_weights())
    assert torch.equal(resumed.generator, ten.generator)
    assert {name: tensor.tolist() for name, tensor in resumed.state.items()} == {
        name: tensor.tolist() for name, tensor in ten.state.items()
    }
    assert resumed.header == ten.header
    assert (tmp_path / "four").read_bytes() == (tmp_path / "ten").read_bytes()


@pytest.mark.parametrize("settings", SAMPLERS, ids=NAMES)
def test_what_is_loaded_is_what_was_trained(tmp_path: Path, settings: Settings) -> None:
    train(tmp_path / "c", settings, steps=3)
    found = load_trained(tmp_path / "c")
    assert (found.problem, found.settings, found.state.step) == (PROBLEM, settings, 3)
    assert (found.objective.n, found.test.n) == (1437, 360)
    assert found.test.clip_norm is None
    assert torch.equal(found.weights, found.checkpoint.flat_weights())
    posterior = found.posterior()
    assert isinstance(posterior, LocalGibbs if isinstance(settings, EntropySGD) else Point)
    assert torch.equal(posterior.weights, found.weights)


@pytest.mark.parametrize("role", ["train", "test"])
def test_other_data_are_refused(tmp_path: Path, role: str) -> None:
    train(tmp_path / "c", SGD(), steps=1)
    checkpoint = load_checkpoint(tmp_path / "c")
    header = {**checkpoint.header, "data": {**checkpoint.header["data"], role: "0123456789abcdef"}}
    write(tmp_path / "c", dataclasses.replace(checkpoint, header=header))
    with pytest.raises(CheckpointError, match=rf"was trained on {role} data with hash 0123456789ab, but digits2 here"):
        load_trained(tmp_path / "c")


def test_labels_drawn_with_another_seed_are_other_data(tmp_path: Path) -> None:
    problem = dataclasses.replace(PROBLEM, random_labels=1.0)
    train(tmp_path / "c", SGD(), steps=1, problem=problem)
    checkpoint = load_checkpoint(tmp_path / "c")
    header = {**checkpoint.header, "problem": {**checkpoint.header["problem"], "label_seed": 1}}
    write(tmp_path / "c", dataclasses.replace(checkpoint, header=header))
    with pytest.raises(CheckpointError, match="give the data it was trained on"):
        load_trained(tmp_path / "c")


@pytest.mark.parametrize("settings", SAMPLERS, ids=NAMES)
def test_a_sampler_survives_json(settings: Settings) -> None:
    assert sampler_from_dict(sampler_to_dict(settings)) == settings


@pytest.mark.parametrize("kind", [None, "Adam", "sgd"])
def test_unknown_samplers_are_refused(kind: str | None) -> None:
    with pytest.raises(ValueError, match=r"expected a sampler of kind SGD, SGLD, EntropySGD, got"):
        sampler_from_dict({"kind": kind, "tau": 3.0})


def test_assessing_twice_gives_the_same_numbers(tmp_path: Path) -> None:
    train(tmp_path / "c", EntropySGD(tau=30.0, inner_steps=4), steps=3)
    found, settings = load_trained(tmp_path / "c"), GibbsSettings(epochs=1.0, prior_draws=2, test_draws=2)
    first, again, other = (found.assess(settings=settings, seed=seed).to_dict() for seed in (0, 0, 1))
    assert first == again
    assert first["kl_nats"] != other["kl_nats"]
