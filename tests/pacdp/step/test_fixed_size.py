"""Clipped sums of many chains at once, on rows of one length, are the sums of Poisson batches one by one."""

import numpy as np
import pytest
import torch
from scipy import stats
from torch import nn
from toys import keys_of, seeded, toy_data, toy_objective

from pacdp.algorithms import SGLD, EntropySGD, Settings, build
from pacdp.chains import Keys, Replayed, SecretKeys, run_chains
from pacdp.data import Dataset
from pacdp.errors import Diverged
from pacdp.losses import bounded_cross_entropy
from pacdp.models import Architecture
from pacdp.objective import Estimate, Objective
from pacdp.step import gradients
from pacdp.step.sample import Words, most_of_poisson, poisson, poisson_rows

FC, GROUP, CONV = Architecture(hidden=(7, 6)), Architecture(hidden=(8,), norm="group"), Architecture(name="conv")
RATES = [(60, 10 / 60), (60_000, 128 / 60_000), (60_000, 0.1), (1000, 0.5), (10, 0.05), (300, 0.999), (7, 1.0)]


def words_of(n: int, rows: int, seed: int = 0) -> Words:
    return Words(torch.randint(2**32, (rows, n), generator=seeded(seed)), 32)


@pytest.mark.parametrize(("n", "rate"), RATES)
def test_a_row_has_room_and_little_more(n: int, rate: float) -> None:
    most = most_of_poisson(n, rate)
    rare = 2.0**-80
    assert stats.binom.sf(most, n, rate) <= rare
    exact = next(s for s in range(n + 1) if stats.binom.sf(s, n, rate) <= rare)
    assert most <= exact + 2 + 0.02 * n * rate


@pytest.mark.parametrize(("n", "rate"), [(60, 1 / 6), (60, 0.0), (60, 1.0), (1000, 0.02)])
def test_rows_hold_the_sample(n: int, rate: float) -> None:
    words = words_of(n, 20)
    rows = poisson_rows(words, rate, n)
    assert bool(rows.whole.all())
    for own, indices, member in zip(words.values, rows.indices, rows.member, strict=True):
        assert torch.equal(indices[member], poisson(Words(own, 32), rate))
        assert not indices[~member].any()


def test_a_sample_without_room_is_cut_off_and_marked() -> None:
    words = words_of(60, 50)
    rows = poisson_rows(words, 0.2, 12)
    sizes = [len(poisson(Words(own, 32), 0.2)) for own in words.values]
    assert rows.whole.tolist() == [size <= 12 for size in sizes]
    assert {True, False} == set(rows.whole.tolist())
    assert rows.member.sum(dim=1).tolist() == [min(size, 12) for size in sizes]
    k = int(np.argmax(sizes))
    assert torch.equal(rows.indices[k], poisson(Words(words.values[k], 32), 0.2)[:12])


def pair(data: Dataset, model: Architecture | nn.Module, clip_norm: float, **more) -> list[Objective]:
    """At once, and one by one."""
    found = []
    for batching in ("vmap", "loop"):
        if isinstance(model, nn.Module):
            loss = bounded_cross_entropy(classes=data.classes)
            found.append(Objective(model, loss, data, batch_size=10, clip_norm=clip_norm, batching=batching, **more))
        else:
            found.append(toy_objective(data, architecture=model, clip_norm=clip_norm, batching=batching))
    return found


def estimates(risks: list[Objective], keys: Keys, tick: int, spread: float = 0.3) -> list[Estimate]:
    weights = risks[0].weights() + spread * torch.randn(keys.count, risks[0].dim, generator=seeded(1))
    return [Estimate(one.gradient.clone(), *one[1:]) for one in (risk.estimate(weights, keys, tick) for risk in risks)]


def require_equal(found: list[Estimate]) -> None:
    assert (found[0].gradient - found[1].gradient).norm() <= 1e-4 * found[1].gradient.norm()
    torch.testing.assert_close(found[0].loss, found[1].loss, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(found[0].error, found[1].error)


@pytest.mark.parametrize("clip_norm", [1e-3, 0.3, 1e4])
@pytest.mark.parametrize(
    ("architecture", "shape"), [(FC, (5,)), (GROUP, (5,)), (CONV, (1, 28, 28))], ids=["fc", "group", "conv"]
)
@pytest.mark.parametrize("seeds", [(1, 2, 3), (5, 5, 4, 5), (4, 4), (9,)])
def test_at_once_is_one_by_one(architecture: Architecture, shape: tuple, clip_norm: float, seeds: tuple) -> None:
    risks = pair(toy_data(shape=shape, classes=3), architecture, clip_norm)
    keys = Keys.derive(seeds, [0] * len(seeds))
    assert all(risk.has_fixed_shapes(keys) == (risk is risks[0]) for risk in risks)
    for tick in (0, 3):
        require_equal(estimates(risks, keys, tick))


@pytest.mark.parametrize("layer", [nn.ReLU(inplace=True), nn.Tanh(), nn.Sigmoid(), nn.ELU(inplace=True), nn.GELU()])
def test_every_activation(layer: nn.Module) -> None:
    made = nn.Sequential(nn.Flatten(), nn.Linear(20, 6), layer, nn.Identity(), nn.Linear(6, 3, bias=False))
    assert gradients.fully_connected(made, 4)
    require_equal(estimates(pair(toy_data(shape=(1, 4, 5), classes=3), made, 0.2), keys_of(1, 2, 3), 1))


def test_chains_with_labels_of_their_own() -> None:
    data, rng = toy_data(classes=3), np.random.default_rng(0)
    made = nn.Sequential(nn.Linear(5, 6), nn.Tanh(), nn.Linear(6, 3))
    labels = [rng.integers(0, 3, data.n) for _ in range(3)]
    require_equal(estimates(pair(data, made, 0.2, labels=labels), keys_of(4, 4, 4), 1))


def test_networks_that_need_gradients_of_single_examples_go_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pacdp.step.fixed_size.room_on", lambda device: 1)
    risks = pair(toy_data(), GROUP, 0.3)
    assert risks[0]._fixed is not None
    assert risks[0]._fixed.at_once(torch.device("cpu")) == 1
    require_equal(estimates(risks, keys_of(1, 2, 3), 0))


@pytest.mark.parametrize("architecture", [FC, GROUP], ids=["fc", "group"])
def test_an_example_whose_gradient_is_not_finite_counts_as_zero(architecture: Architecture) -> None:
    plain = toy_data(n=16)
    data = Dataset("poisoned", np.where(np.arange(16)[:, None] < 3, np.float32(3e38), plain.inputs), plain.labels, 2)
    risks = pair(data, architecture, 0.1)
    for tick in range(5):
        found = estimates(risks, keys_of(1, 2), tick, spread=0.0)
        assert bool(found[0].gradient.isfinite().all())
        assert bool(found[0].loss.isfinite().all())
        require_equal(found)


@pytest.mark.parametrize("architecture", [FC, GROUP], ids=["fc", "group"])
def test_one_example_moves_the_estimate_by_at_most_its_share(architecture: Architecture) -> None:
    data, fifth = toy_data(n=16), np.arange(16) == 5
    inputs = np.where(fifth[:, None], np.float32(50.0), data.inputs)
    other = Dataset("other", inputs, np.where(fifth, 1 - data.labels, data.labels), 2)
    clip_norm, keys, moved = 0.05, keys_of(1, 2, 3), []
    risks = [
        toy_objective(one, architecture=architecture, clip_norm=clip_norm, batching="vmap") for one in (data, other)
    ]
    for tick in range(20):
        left, right = (risk.estimate(risk.weights().repeat(3, 1), keys, tick).gradient for risk in risks)
        moved.append((left - right).norm(dim=1))
    assert float(torch.stack(moved).max()) <= 2 * clip_norm / 10 * (1 + 1e-5)  # replaced: removed and added
    assert float(torch.stack(moved).max()) > 0.5 * clip_norm / 10
    assert float(torch.stack(moved).min()) < 1e-7  # where it is in no batch


def test_an_empty_batch_has_no_gradient() -> None:
    risk = toy_objective(toy_data(), batch_size=1, clip_norm=1.0, batching="vmap")
    sizes = [len(risk.draw(keys_of(1), tick)[0][0]) for tick in range(100)]
    found = risk.estimate(risk.weights(), keys_of(1), sizes.index(0))
    assert (float(found.gradient.abs().max()), float(found.loss), float(found.error)) == (0.0, 0.0, 0.0)


def test_a_batch_without_room_stops_its_chain() -> None:
    risk = toy_objective(toy_data(), clip_norm=1.0, batching="vmap")
    assert risk._fixed is not None
    keys = keys_of(1, 2, 3, 4)
    sizes = [len(risk.draw(keys.select([k]), 0)[0][0]) for k in range(4)]
    risk._fixed.most = sorted(sizes)[-2]
    sampler = build([SGLD(tau=8.0, batch_size=10, clip_norm=1.0)] * 4, risk)
    with pytest.raises(Diverged, match="step 1") as stopped:
        list(run_chains(sampler, sampler.init(risk.weights().repeat(4, 1)), keys, until=1, chunk=1))
    assert stopped.value.chains == (int(np.argmax(sizes)),)


@pytest.mark.parametrize(
    "settings", [SGLD(tau=8.0, batch_size=10, clip_norm=0.5), EntropySGD(tau=8.0, batch_size=10, clip_norm=0.5)]
)
def test_replayed_steps_are_the_steps(settings: Settings) -> None:
    risk = toy_objective(toy_data(), clip_norm=0.5, batching="vmap")
    keys, ends = keys_of(1, 2, 3), []
    for replayed in (False, True):
        sampler = build([settings] * 3, risk)
        steps = Replayed(sampler, keys) if replayed else sampler
        start = sampler.init(risk.weights().repeat(3, 1))
        (chunk,) = run_chains(steps, start, keys, until=6, chunk=6)
        ends.append(chunk.state.weights.clone())
    assert torch.equal(*ends)
    assert len(torch.unique(ends[0], dim=0)) == 3


def test_secret_keys_keep_batches_of_every_size() -> None:
    risk = toy_objective(toy_data(), clip_norm=0.5, batching="vmap")
    keys = SecretKeys.drawn([0, 1])
    assert not risk.has_fixed_shapes(keys)
    assert risk._fixed is not None
    risk._fixed.most = 0  # and do not meet the room of a row
    assert bool(risk.estimate(risk.weights().repeat(2, 1), keys, 0).loss.isfinite().all())
