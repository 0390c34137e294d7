"""Clipped sums of many chains at once, on rows of one length, are the sums of Poisson batches one by one."""

import numpy as np
import torch
from chain_sums import objective_of, weights_of
from scipy import stats
from torch import equal
from torch.testing import assert_close
from toys import keys_of, toy_data, toy_objective

from pacdp.algorithms import SGLD, EntropySGD, build
from pacdp.chains import Replayed, SecretKeys, run_chains
from pacdp.errors import Diverged
from pacdp.random import Words
from pacdp.step.sampling import most_of_poisson, poisson, poisson_rows
from tests.marks import parametrize
from tests.pacdp.draws import randint

RATES = [(60, 10 / 60), (60_000, 128 / 60_000), (60_000, 0.1), (1000, 0.5), (10, 0.05), (300, 0.999), (7, 1.0)]


def words_of(n, rows, seed=0):
    return Words(randint(2**32, (rows, n), seed=seed), 32)


@parametrize(("n", "rate"), RATES)
def test_a_row_has_room_and_little_more(n, rate):
    most = most_of_poisson(n, rate)
    rare = 2.0**-80
    assert stats.binom.sf(most, n, rate) <= rare
    exact = next(s for s in range(n + 1) if stats.binom.sf(s, n, rate) <= rare)
    assert most <= exact + 2 + 0.02 * n * rate


@parametrize(("n", "rate"), [(60, 1 / 6), (60, 0.0), (60, 1.0), (1000, 0.02)])
def test_rows_hold_the_sample(n, rate):
    words = words_of(n, 20)
    rows = poisson_rows(words, rate, n)
    assert rows.whole.all()
    for own, indices, member in zip(words.values, rows.indices, rows.member, strict=True):
        assert equal(indices[member], poisson(Words(own, 32), rate))
        assert not indices[~member].any()


def test_a_sample_without_room_is_cut_off_and_marked():
    words = words_of(60, 50)
    rows = poisson_rows(words, 0.2, 12)
    sizes = [len(poisson(Words(own, 32), 0.2)) for own in words.values]
    assert rows.whole.tolist() == [size <= 12 for size in sizes]
    assert {True, False} == set(rows.whole.tolist())
    assert rows.member.sum(dim=1).tolist() == [min(size, 12) for size in sizes]
    k = int(np.argmax(sizes))
    assert equal(rows.indices[k], poisson(Words(words.values[k], 32), 0.2)[:12])


def test_networks_that_need_gradients_of_single_examples_go_in_parts(monkeypatch):
    whole, keys = objective_of("group", batching="vmap"), keys_of(1, 2, 3)
    weights = weights_of(whole)
    expected = whole.estimate(weights, keys, 0)
    expected = expected._replace(gradient=expected.gradient.clone())
    monkeypatch.setattr("pacdp.step.chain_sums.room_on", lambda device: 1)
    assert whole._fixed is not None
    assert whole._fixed.at_once(torch.device("cpu")) == 1
    for found, exact in zip(whole.estimate(weights, keys, 0)[:3], expected[:3], strict=True):
        assert_close(found, exact, rtol=1e-4, atol=1e-6)


def test_a_batch_without_room_stops_its_chain():
    risk = toy_objective(toy_data(), clip_norm=1.0, batching="vmap")
    assert risk._fixed is not None
    keys = keys_of(1, 2, 3, 4)
    sizes = [len(risk.draw(keys.select([k]), 0)[0][0]) for k in range(4)]
    risk._fixed.most = sorted(sizes)[-2]
    sampler, stopped = build([SGLD(tau=8.0, batch_size=10, clip_norm=1.0)], risk), list[int]()
    for k in range(4):
        try:
            list(run_chains(sampler, sampler.init(risk.weights()), keys.select([k]), until=1, chunk=1))
        except Diverged:
            stopped.append(k)
    assert stopped == [int(np.argmax(sizes))]


@parametrize(
    "settings", [SGLD(tau=8.0, batch_size=10, clip_norm=0.5), EntropySGD(tau=8.0, batch_size=10, clip_norm=0.5)]
)
def test_replayed_steps_are_the_steps(settings):
    risk = toy_objective(toy_data(), clip_norm=0.5, batching="vmap")
    keys, ends = keys_of(1, 2, 3), []
    for replayed in (False, True):
        sampler = build([settings] * 3, risk)
        steps = Replayed(sampler, keys) if replayed else sampler
        start = sampler.init(risk.weights().repeat(3, 1))
        (chunk,) = run_chains(steps, start, keys, until=6, chunk=6)
        ends.append(chunk.state.weights.clone())
    assert equal(*ends)
    assert len(torch.unique(ends[0], dim=0)) == 3


def test_secret_keys_keep_batches_of_every_size():
    risk = toy_objective(toy_data(), clip_norm=0.5, batching="vmap")
    keys = SecretKeys.drawn([0, 1])
    assert not risk.has_fixed_shapes(keys)
    assert risk._fixed is not None
    risk._fixed.most = 0  # and do not meet the room of a row
    assert risk.estimate(risk.weights().repeat(2, 1), keys, 0).loss.isfinite().all()
