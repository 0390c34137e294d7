"""A clip norm that follows a quantile: the algorithm, what it releases, and what is counted."""

import math
from dataclasses import replace

import pytest
import torch
from clipped_networks import flat as joined_row
from clipped_networks import rows, slowly
from private_toys import (
    ADD,
    FIXED,
    Interrupted,
    cross_entropy,
    data,
    doubles,
    flat,
    mechanism,
    mlp,
    stopping,
    trained,
)
from test_automatic_clipping import every_summer
from test_clipped_sums import EVERYONE, N
from torch import equal
from torch.nn.utils import vector_to_parameters
from torch.testing import assert_close

from bounds.accounting import event_to_dict
from pacdp import load_checkpoint
from pacdp.audit.mechanism import audit_mechanism
from pacdp.errors import CheckpointError
from pacdp.private import DPSGD, DPSGLD, QuantileClipping, SeededRandomness, epsilon, export, joined, planned
from pacdp.step.event import combined
from pacdp.step.mechanism import Mechanism
from pacdp.step.units import trained as weights_of
from pacdp.store.ledger import Ledger
from tests.marks import near, parametrize, refusal

SIGMA, COUNT = 1.3, 2.0
FOLLOWS = QuantileClipping(count_noise=COUNT, quantile=0.6, rate=0.5)


SGD = DPSGD(learning_rate=0.2)


def following(clipping=FOLLOWS, **changes):
    return mechanism(noise_multiplier=SIGMA, clipping=clipping, **changes)


def in_plain_loops(public, dataset, randomness):
    """Andrew et al., Algorithm 1, with public divisors, from the same random numbers."""
    module = mlp().double()
    w, norm, batch = flat(module), public.clip_norm, public.expected_batch_size
    for _ in range(public.steps):
        chosen = randomness.batch(len(dataset), public.sample_rate)
        vector_to_parameters(w.clone(), module.parameters())
        rest = [x[torch.cat([chosen, torch.tensor([0])])] for x in dataset.tensors]  # one more, against empty batches
        own = slowly(module, *rest, clip_norm=1e30)[0][:-1]
        lengths = own.norm(dim=1)
        total = ((norm / lengths).clamp(max=1.0)[:, None] * own).sum(0)
        parts = torch.split(total, [p.numel() for p in module.parameters()])
        noised = [randomness.noised(part, std=SIGMA * norm) for part in parts]
        w = w - 0.2 * torch.cat(noised) / batch
        counted = float(randomness.noised(((lengths <= norm).double() - 0.5).sum(), std=COUNT))
        norm *= math.exp(-0.5 * (0.5 + counted / batch - 0.6))
    return w, norm


@parametrize("mode", ["reference", "ghost"])
@parametrize("rate", [0.25, 0.02])
def test_a_run_is_the_algorithm_in_plain_loops(mode, rate):
    public = following(steps=30, grad_sample_mode=mode, sample_rate=rate)
    run = trained(SGD, mlp().double(), doubles(), mechanism=public, seed=4)
    w, norm = in_plain_loops(public, doubles(), SeededRandomness(4))
    assert run.clip_norm == near(norm, rel=1e-9)
    assert_close(flat(run.weights), w, atol=1e-9, rtol=1e-9)


def test_a_count_that_is_not_counted_stops_the_run(monkeypatch):
    monkeypatch.setattr(Mechanism, "releases", lambda self, noises: [*noises])
    with refusal("was promised", RuntimeError):
        trained(SGD, mechanism=following())


def test_the_norm_finds_the_quantile():
    """Of gradients that do not move, in full batches with little noise on the count."""
    lengths = slowly(mlp(), *data(400).tensors, clip_norm=1e30)[0].norm(dim=1)
    for quantile in (0.2, 0.5, 0.9):
        clipping = QuantileClipping(count_noise=2.0, quantile=quantile)
        public = following(clipping, steps=200, sample_rate=1.0, expected_batch_size=400.0, clip_norm=1e-3)
        run = trained(DPSGD(learning_rate=1e-30), dataset=data(400), mechanism=public)
        assert float((lengths <= run.clip_norm).double().mean()) == near(quantile, abs=0.03)


@every_summer
def test_one_unit_moves_the_count_by_half_and_the_pair_by_one(summer):
    """Whatever its records: the sum over σ C and the count over σ_b together by at most 1/σ, and by no less."""
    (inputs, targets), rest, furthest = rows(N), EVERYONE[EVERYONE != 2], []
    for scale in (1e-4, 1.0, 1e6, 1e30, math.inf, math.nan):
        inputs[2] = scale
        made, weights = summer(mlp(), inputs, targets, clipping="flat").at(0.7), weights_of(mlp())
        whole, without = (made(chosen, weights) for chosen in (EVERYONE, rest))
        count = float(whole.within - without.within) - 0.5
        assert abs(count) == 0.5
        moved = float((joined_row(whole.total) - joined_row(without.total)).norm())
        furthest.append(math.hypot(moved / (SIGMA * 0.7), count / COUNT) * combined([SIGMA, 2 * COUNT]))
    assert 0.999 < max(furthest) <= 1.0 + 1e-5


def test_event_ledger_checkpoint_and_export_say_the_same(tmp_path):
    book, path = Ledger.open(tmp_path / "ledger"), tmp_path / "run.safetensors"
    run = trained(SGD, mechanism=following(), checkpoint=path, ledger=book)
    together = (SIGMA**-2 + (2.0 * COUNT) ** -2) ** -0.5
    by_hand = epsilon(planned(together, sample_rate=0.25, steps=6), **ADD)
    assert epsilon(run.event, **ADD) == near(by_hand, rel=1e-9)
    export(tmp_path / "out.safetensors", weights=run.weights, event=run.event, adjacency="add-remove")
    said = [load_checkpoint(written).header["event"] for written in (path, tmp_path / "out.safetensors")]
    assert said == [event_to_dict(run.event)] * 2
    assert joined(*(one.stretch.event for one in book.entries)) == run.event


def test_resuming_goes_on_with_the_norm_that_was_reached(tmp_path):
    public = following(steps=9)
    whole, path = trained(SGD, mechanism=public), tmp_path / "run.safetensors"
    with pytest.raises(Interrupted):
        trained(SGD, mechanism=public, checkpoint=path, checkpoint_every=2, progress=stopping(5))
    assert load_checkpoint(path).header["clip_norm"] != whole.clip_norm
    resumed = trained(SGD, mechanism=public, checkpoint=path)
    assert (resumed.clip_norm, resumed.event) == (whole.clip_norm, whole.event)
    assert equal(flat(resumed.weights), flat(whole.weights))
    with refusal("settings", CheckpointError):
        trained(SGD, mechanism=replace(public, clipping="flat"), checkpoint=path)


def test_noise_for_a_budget_pays_for_the_count_too():
    for sigma in (0.6, 2.0, 3.99999):
        beside = FOLLOWS.noise_beside(sigma)
        assert sigma <= combined([beside, 2.0 * COUNT]) <= sigma * (1.0 + 1e-11)
    with refusal("exceed half of the noise multiplier"):
        FOLLOWS.noise_beside(4.0)


def test_noise_carries_the_norm_nowhere():
    wild = QuantileClipping(count_noise=1e9, rate=1e9)
    assert trained(SGD, mechanism=following(wild)).clip_norm in (near(0.5e6), near(0.5e-6))
    assert (wild.moved(1e30, -1e9, first=1e30), wild.moved(1e-12, 1e9, first=1e-12)) == (1e30, 1e-12)


def test_what_is_tied_to_one_norm_refuses():
    for convention in ("parameter-slot", "tempered"):
        with refusal("tied to a fixed one"):
            trained(DPSGLD(convention=convention), mechanism=replace(FIXED, clipping=FOLLOWS))
    with refusal("tied to a fixed one"):
        audit_mechanism(SGD, mlp(), data(), mechanism=following(), loss=cross_entropy)
