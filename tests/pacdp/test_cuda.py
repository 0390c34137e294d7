"""On a GPU the numbers are those of the CPU up to rounding, and a resumed chain goes on bit for bit."""

import warnings

import numpy as np
import pytest
import torch
from torch.testing import assert_close
from toys import keys_of, seeded, sparse_data, toy_data, toy_objective

from pacdp.algorithms import PSGLD, SGHMC, SGLD, EntropySGD, build
from pacdp.certify.chain_files import objectives, save_trained
from pacdp.certify.trained import load_trained
from pacdp.chains import BATCH, Keys, Replayed, langevin, normal_like, run_chains
from pacdp.chains.graphs import recorded
from pacdp.models import Architecture
from pacdp.problem import Problem
from pacdp.random import cipher
from pacdp.random.philox_compiled import words
from pacdp.step.noise import SystemRandomness
from tests.marks import near, parametrize
from tests.pacdp.random.known_answers import VECTORS, numbers
from tests.pacdp.toys import ON_A_GPU

pytestmark = ON_A_GPU
PROBLEM = Problem(dataset="digits2")
KEYS = keys_of(1, 2, 3)
CUDA = torch.device("cuda")
SAMPLERS = [SGLD(tau=38.0), SGHMC(tau=38.0), PSGLD(tau=38.0, stabiliser=0.1), EntropySGD(tau=38.0, inner_steps=3)]
NAMES = ["SGLD", "SGHMC", "pSGLD", "Entropy-SGLD"]


@parametrize("tick", [0, 2**32 + 5, 2**40])
def test_words_are_equal_and_normals_agree(tick):
    drawn = np.empty(1001, np.uint32)
    words(drawn, KEYS.batch[0], np.uint32(BATCH), np.uint64(tick))
    (found,) = KEYS.select([0]).batches(1001, tick, CUDA)[0].values
    assert np.array_equal(found.cpu().numpy().astype(np.uint32), drawn)
    x = torch.empty(3, 10_000)
    ours, theirs = (normal_like(y, keys=KEYS, stream=0, tick=tick) for y in (x, x.cuda()))
    assert (ours - theirs.cpu()).abs().max() < 2e-5


@parametrize(("counter", "key", "expected"), VECTORS)
def test_the_words_of_triton_are_the_known_answers(counter, key, expected):
    pytest.importorskip("triton")
    from tests.pacdp.random.triton_block import words_of

    assert words_of(torch.tensor(numbers(f"{counter} {key}"), device=CUDA)) == numbers(expected)


def test_an_update_agrees():
    x, gradient, centre, average = torch.randn(4, 3, 5000, generator=seeded(0))
    column = np.array([0.1, 0.5, 0.9])
    found = []
    for device in ("cpu", "cuda"):
        mean = average.to(device, copy=True)
        out = langevin(x.to(device), keep=column, gradient=gradient.to(device), rate=0.3, centre=centre.to(device),
                       pull=column[::-1].copy(), scale=column, keys=KEYS, stream=1, tick=7, average=mean,
                       alpha=0.75)  # fmt: skip
        found.append((out.cpu(), mean.cpu()))
    for ours, theirs in zip(*found, strict=True):
        assert_close(ours, theirs, rtol=1e-5, atol=5e-5)


clipped_or_not = parametrize("clip_norm", [None, 0.5])


@clipped_or_not
@parametrize("name", ["fc", "conv"])
def test_an_estimate_agrees(name, clip_norm):
    data = sparse_data(shape=(1, 28, 28), n=30, classes=3) if name == "fc" else toy_data(shape=(1, 28, 28), n=30)
    architecture = Architecture(hidden=(20, 10)) if name == "fc" else Architecture(name="conv")
    ours, theirs = (
        toy_objective(data, architecture=architecture, clip_norm=clip_norm, device=device) for device in ("cpu", "cuda")
    )
    weights = ours.weights() + torch.tensor([[0.0], [0.01], [0.02]])
    for tick in (0, 3):
        left, right = (ours.estimate(weights, KEYS, tick), theirs.estimate(weights.cuda(), KEYS, tick))
        assert (left.gradient - right.gradient.cpu()).norm() < 1e-3 * left.gradient.norm()
        assert_close(left.loss, right.loss.cpu(), rtol=1e-4, atol=1e-5)
        assert_close(left.error, right.error.cpu())
    assert theirs.risks(weights.cuda())[0].loss == near(ours.risks(weights)[0].loss, rel=1e-5)


every_sampler = parametrize("settings", SAMPLERS, ids=NAMES)


@every_sampler
def test_twenty_steps_agree(settings):
    data = toy_data(n=60)
    ends = []
    for device in ("cpu", "cuda"):
        objective = toy_objective(data, device=device)
        sampler = build(settings, objective)
        start = objective.weights() + torch.tensor([[0.0], [0.1], [0.2]], device=device)
        (chunk,) = run_chains(sampler, sampler.init(start), KEYS, until=20, chunk=20)
        ends.append(chunk)
    assert_close(ends[0].state.weights, ends[1].state.weights.cpu(), rtol=2e-3, atol=2e-3)
    assert_close(ends[0].losses, ends[1].losses, rtol=2e-3, atol=2e-3)


@clipped_or_not
@parametrize("kind", [SGLD, EntropySGD])
def test_replayed_steps_are_the_steps(kind, clip_norm):
    settings = kind(tau=38.0, batch_size=10, clip_norm=clip_norm)
    objective = toy_objective(toy_data(n=60), clip_norm=clip_norm, device="cuda")
    assert objective.has_fixed_shapes(KEYS)
    ends = []
    for replayed in (False, True):
        sampler = build([settings] * 3, objective)
        steps = Replayed(sampler, KEYS) if replayed else sampler
        start = sampler.init(objective.weights().repeat(3, 1))
        with warnings.catch_warnings():
            warnings.filterwarnings("error", message="steps are not recorded")
            (chunk,) = run_chains(steps, start, KEYS, until=6, chunk=6)
        ends.append(chunk.state.weights.clone())
    assert_close(*ends, rtol=1e-4, atol=1e-5)


def test_what_cannot_be_recorded_is_carried_out_with_a_warning():
    stream = torch.cuda.current_stream()
    with pytest.warns(UserWarning, match="not recorded as a CUDA graph"):
        graph, found = recorded(lambda: torch.ones(3, device="cuda").nonzero(), CUDA)
    assert (graph, found) == (None, None)
    assert torch.cuda.current_stream() == stream


@every_sampler
def test_a_resumed_chain_goes_on_bit_for_bit(settings, tmp_path):
    train, test = PROBLEM.data()
    hashes = {"train": train.hash, "test": test.hash}
    objective, _ = objectives(PROBLEM, settings, train, test, device="cuda")
    sampler, keys = build(settings, objective), Keys.derive([1])
    state = sampler.init(objective.weights())
    for step in range(10):
        if step == 4:
            save_trained(tmp_path / "c.safetensors", problem=PROBLEM, settings=settings, objective=objective,
                         hashes=hashes, state=state, seed=1, run={})  # fmt: skip
        state, _info = sampler.step(state, keys)
    again = load_trained(tmp_path / "c.safetensors", device="cuda")
    resumed, sampler = again.state, build(settings, again.objective)
    for _ in range(6):
        resumed, _info = sampler.step(resumed, again.keys)
    assert torch.equal(resumed.weights, state.weights)


def test_a_gpu_makes_the_words_of_chacha20():
    there = cipher.Keystream(bytes(range(32)), bytes(range(12)))
    there.on(CUDA, 5)
    found, words = there.on(CUDA, 100_003), np.empty(5 + 100_003, np.int64)
    cipher.Keystream(bytes(range(32)), bytes(range(12))).fill(words)
    assert np.array_equal(found.cpu().numpy(), words[5:])


def test_noise_of_the_system_is_made_on_the_gpu_with_the_size_asked_for():
    made = SystemRandomness().noised(torch.ones(300_000, device=CUDA), std=3.0)
    assert float(made.mean()) == near(1.0, abs=0.04)
    assert float(made.std()) == near(3.0, rel=0.01)
