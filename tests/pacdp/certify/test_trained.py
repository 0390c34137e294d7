"""A saved chain goes on bit for bit, with its own data only."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.nn import Linear, Sequential
from toys import SAMPLERS

from pacdp import certify, load_checkpoint, load_trained
from pacdp import save_checkpoint as write
from pacdp.algorithms import PSGLD, SGLD, EntropySGD, build
from pacdp.certify import NoPrivacy
from pacdp.certify.chain_files import first_model, objectives, save_trained
from pacdp.certify.gibbs import GibbsSettings
from pacdp.chains import Keys, Trace, run_chains
from pacdp.data import DataError, Dataset
from pacdp.errors import CheckpointError
from pacdp.models import Architecture
from pacdp.posterior import LocalGibbs, Point
from pacdp.problem import Problem
from pacdp.step.planned_steps import Plan
from tests.marks import every_case, made_once, near, parametrize, refusal

PROBLEM = Problem(dataset="digits2", architecture=Architecture(hidden=(12,)))
pytestmark = pytest.mark.usefixtures("few_passes")
CLIPPED = SGLD(tau=30.0, clip_norm=1.0)
FROZEN = PSGLD(tau=30.0, freeze_after=6)
KEPT = [replace(SAMPLERS[name], keep_norms=True) for name in ("SGLD", "SGHMC", "Entropy-SGLD")]
SEED, CHAIN = 2, 3
PLAN = Plan(steps=10)


def train(
    path, settings, *, steps, plan = PLAN, problem = PROBLEM,
):  # fmt: skip
    """A chain from its start, saved after ``steps`` of those that were planned."""
    data, test = problem.data()
    objective, _ = objectives(problem, settings, data, test, device="cpu")
    start = objective.layout.of(first_model(problem, data, seed=SEED, chain=CHAIN))[None]
    sampler, trace = build(settings, objective), Trace(4)
    for part in run_chains(sampler, sampler.init(start), Keys.derive([SEED], [CHAIN]), until=steps, chunk=3):
        trace = trace.extended(part)
    hashes = {"train": data.hash, "test": test.hash}
    save_trained(path, problem=problem, settings=settings, objective=objective, hashes=hashes, state=part.state,
                 seed=SEED, chain=CHAIN, run={"seed": 2}, trace=trace.tensors(0), plan=plan)  # fmt: skip


def resume(path, *, until):
    """Go on from a file that a chain was saved to, and save it there again."""
    found = load_trained(path)
    trace = Trace.of(4, [found.checkpoint.trace])
    for part in run_chains(build(found.settings, found.objective), found.state, found.keys, until=until, chunk=4):
        trace = trace.extended(part)
    header = found.checkpoint.header
    save_trained(path, problem=found.problem, settings=found.settings, objective=found.objective,
                 hashes=header["data"], state=part.state, seed=header["seed"], chain=header["chain"],
                 run=header["run"], trace=trace.tensors(0), plan=found.plan)  # fmt: skip


def same(left, right):
    return sorted(left) == sorted(right) and all(torch.equal(left[name], right[name]) for name in left)


def test_assessing_twice_gives_the_same_numbers(tmp_path):
    train(tmp_path / "c", EntropySGD(tau=30.0, inner_steps=4), steps=3)
    found, settings = (load_trained(tmp_path / "c"), GibbsSettings(epochs=0.3, prior_draws=2, test_draws=2))
    first, again, other = (found.assess(settings=settings, seed=seed).to_dict() for seed in (0, 0, 1))
    assert first == again
    assert first["gibbs"]["kl_nats"] != other["gibbs"]["kl_nats"]


def test_a_folder_is_evidence_of_the_rows_that_its_chain_saw(tmp_path):
    train(tmp_path / "c", CLIPPED, steps=2)
    (data, test), net = PROBLEM.data(), Sequential(torch.nn.Flatten(), Linear(64, 2))
    assert certify(net.eval(), test, seen=tmp_path / "c").certificates
    with refusal("share", DataError):
        certify(net, data, seen=str(tmp_path / "c"))


def test_chains_start_from_networks_of_their_own():
    data, _ = PROBLEM.data()
    pairs = [(0, 0), (0, 1), (1, 0), (0, 2), (2**32, 0)]
    first = [next(first_model(PROBLEM, data, seed=seed, chain=chain).parameters()) for seed, chain in pairs]
    again = next(first_model(PROBLEM, data, seed=0, chain=1).parameters())
    assert torch.equal(again, first[1])
    assert len({tuple(one.flatten().tolist()) for one in first}) == len(pairs)


def test_assessing_draws_other_numbers_than_training():
    """The default seed of an assessment is that of many a run."""
    data, test = PROBLEM.data()
    settings = EntropySGD(tau=30.0)
    objective, _ = objectives(PROBLEM, settings, data, test, device="cpu")
    seen = []
    objective.draw = lambda keys, tick: seen.append(keys.batch.tolist()) or type(objective).draw(objective, keys, tick)
    q = LocalGibbs(weights=objective.weights()[0], tau=30.0, gamma=1.0)
    effort = GibbsSettings(epochs=0.5, prior_draws=1, test_draws=1)
    certify(q, objective, prior=NoPrivacy(reason="none needed"), gibbs=effort, seed=0)
    assert seen
    assert Keys.derive([0]).batch.tolist() not in seen


@every_case("settings", [*SAMPLERS.values(), FROZEN, KEPT[1]], ids=str)
def test_ten_steps_equal_four_saved_loaded_six(tmp_path, settings):
    train(tmp_path / "ten", settings, steps=10)
    train(tmp_path / "four", settings, steps=4)
    found, ten = load_trained(tmp_path / "four"), load_checkpoint(tmp_path / "ten")
    assert (found.problem, found.settings, found.state.step) == (PROBLEM, settings, 4)
    assert (found.objective.n, found.test.n, found.test.clip_norm) == (1437, 360, None)
    assert same(found.objective.layout.views(found.weights), found.checkpoint.model)
    assert not same(ten.model, found.checkpoint.model)
    posterior = found.settings.posterior(found.weights)
    assert isinstance(posterior, LocalGibbs if isinstance(settings, EntropySGD) else Point)
    assert torch.equal(posterior.weights, found.weights)
    assert (found.plan, found.charged) == (PLAN, PLAN.charged(4))
    resume(tmp_path / "four", until=10)
    assert (tmp_path / "four").read_bytes() == (tmp_path / "ten").read_bytes()


@made_once
def saved(tmp_path_factory):
    """Of three steps of clipped SGLD, with random labels."""
    path = tmp_path_factory.mktemp("saved") / "c"
    train(path, CLIPPED, steps=3, problem=replace(PROBLEM, random_labels=1.0))
    return load_checkpoint(path)


CONTRADICTIONS = [
    ({"n": 1436}, "says n = 1436, but its run and data make it 1437"),
    ({"loss": {"name": "mine", "low": 0.0, "high": 1.0, "oscillation": 1.0}}, "says another loss than"),
    ({"seed": 3}, "says seed = 3, but its run and data make it 2"),
    ({"run": {"seed": 2, "epochs": 1}}, "says another config_hash"),
    ({"run": {"seed": 2, "sampler": {"kind": "SGD"}}}, "says another sampler"),
    ({"run": {"seed": 2, "problem": {"dataset": "mnist2"}}}, "says another problem"),
    ({"step": 11}, "impossible steps: expected 0 <= step <= 10"),
    ({"data": {"train": "0123456789abcdef"}}, "was trained on train data with hash 0123456789ab, but digits2"),
]


@pytest.mark.every_case
@pytest.mark.wrong_types
@parametrize(("change", "said"), CONTRADICTIONS)
def test_a_header_that_contradicts_its_run_or_its_data_is_refused(tmp_path, saved, change, said):
    """Written again with a hash that fits, so that only the contradiction is left."""
    header = dict(saved.header)
    for name, value in change.items():
        header[name] = header[name] | value if name in ("problem", "data") else value
    write(tmp_path / "c", replace(saved, header=header))
    with refusal(said):
        load_trained(tmp_path / "c")


def test_tensors_of_another_network_are_refused_and_no_plan_shows(tmp_path, saved):
    first, *others = saved.model
    for model in ({name: saved.model[name] for name in others}, {**saved.model, first: saved.model[first].T}):
        write(tmp_path / "c", replace(saved, model=model))
        with refusal("holds tensors of another network", CheckpointError):
            load_trained(tmp_path / "c")
    train(tmp_path / "c", CLIPPED, steps=3, plan=None)
    found = load_trained(tmp_path / "c")
    assert found.plan is None
    assert (found.charged.steps, found.charged.stopping_times) == (3, 1)
    assert found.charged.hypothesis.standing == "unproved"


def split(text):
    """A report without its fractions, and these."""
    fraction = r"-?\d+\.\d+(?:e-?\d+)?"
    return re.sub(fraction, "x", text), [float(one) for one in re.findall(fraction, text)]


@parametrize("people", [False, True], ids=["examples", "people"])
@parametrize(
    "settings", [SAMPLERS["SGLD"], SAMPLERS["Entropy-SGLD"], *KEPT], ids=lambda one: f"{one.name}, {one.keep_norms}"
)
def test_images_of_bytes_certify_as_their_numbers_do(tmp_path, settings, people, monkeypatch):
    train_set, test_set = (
        Dataset.of_pixels(
            "digits in bytes", (each.inputs * 255).astype(np.uint8), each.labels, each.classes,
            people=np.arange(each.n) // 9 + first if people else None, unit="writer" if people else "example",
        )
        for first, each in zip((0, 5000), PROBLEM.data(), strict=True)
    )  # fmt: skip
    monkeypatch.setattr(Problem, "data", lambda *_, **__: (train_set, test_set))
    if people and settings.keep_norms:
        settings = replace(settings, every_record=True, batch_size=train_set.n)
    train(tmp_path / "c", settings, steps=3)
    reports = []
    for in_bytes in (False, True):
        found = load_trained(tmp_path / "c", in_bytes=in_bytes)
        assert (found.objective.pixels is not None) == (in_bytes and not settings.keep_norms)
        reports.append(found.assess(settings=GibbsSettings(epochs=0.3, prior_draws=2, test_draws=2)).to_dict())
    words, numbers = zip(*(split(json.dumps(each)) for each in reports), strict=True)
    assert words[0] == words[1]
    assert numbers[0] == near(numbers[1], rel=1e-6, abs=1e-5)  # sums over parts of another size
