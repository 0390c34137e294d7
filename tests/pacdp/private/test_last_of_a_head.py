"""DP-SGLD of a linear head: its step, its contraction, what it refuses, and that the last iterate alone leaves."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from private_toys import ADD, Interrupted, cross_entropy, data, flat, mlp, stopping
from torch import nn

from bounds.accounting import LastIterate, gaussian_epsilon, privacy_epsilon
from pacdp.errors import CheckpointError
from pacdp.losses import cross_entropies
from pacdp.private import (
    DPSGLDHead,
    Mechanism,
    PrivacyBudget,
    QuantileClipping,
    SeededRandomness,
    audit_mechanism,
    privacy_claim,
    train,
)
from pacdp.step.event import runs_of, steps_of
from pacdp.store.ledger import Ledger
from pacdp.trials import made_up_batch
from tests.marks import every_case, parametrize, refusal
from tests.pacdp.toys import seeded

HEAD = DPSGLDHead(step_size=0.9, ridge=0.02, row_norm=1.0)
NUMBERS = Mechanism(clip_norm=2.0, noise_multiplier=3.0, sample_rate=1.0, expected_batch_size=50.0, steps=8)


def linear(inputs=4, classes=3):
    layer = nn.Linear(inputs, classes)
    nn.init.zeros_(layer.weight)
    nn.init.zeros_(layer.bias)
    return nn.Sequential(nn.Flatten(), layer)


def network(head=HEAD, **shape):
    return head.network(linear(**shape), generator=torch.Generator())


def trained(head=HEAD, net=None, dataset=None, *, seed=0, loss=cross_entropies, **options):
    given = {"mechanism": NUMBERS, "randomness": SeededRandomness(seed), **options}
    return train(head, net or network(), data() if dataset is None else dataset, loss=loss, **given)


def moved(weights, inputs, targets, head=HEAD, n=50.0):
    """φ of a step: the mean loss with ridge, by hand, in double precision."""
    rows = inputs.double()
    rows = rows * (head.row_norm / rows.norm(dim=1, keepdim=True)).clamp(max=1.0)
    rows = torch.cat([rows, torch.ones(len(rows), 1).double()], dim=1)
    slopes = (rows @ weights.T).softmax(1) - nn.functional.one_hot(targets, len(weights))
    return weights - head.step_size * (slopes.T @ rows / n + head.ridge * weights)


def test_a_step_is_that_of_the_formula_and_its_noise_that_of_the_event():
    inputs, targets = data().tensors
    sums = []
    run = trained(watch=sums.append, mechanism=replace(NUMBERS, steps=3))
    weights = torch.zeros(3, 5).double()
    for released in sums:
        exact = moved(weights, inputs, targets)
        noisy = torch.cat([released["2.weight"], released["2.bias"][:, None]], dim=1).double()
        total = (weights * (1 - HEAD.step_size * HEAD.ridge) - exact) * 50.0 / HEAD.step_size
        assert 0.4 < float((noisy - total).std()) / 6.0 < 1.6  # 3 · 2 on each of 15 numbers
        weights = (1 - HEAD.step_size * HEAD.ridge) * weights - HEAD.step_size / 50.0 * noisy
    assert torch.allclose(torch.cat([run.weights["2.weight"], run.weights["2.bias"][:, None]], 1).double(), weights,
                          atol=1e-5)  # fmt: skip
    assert steps_of(run.event) == 3


def test_no_data_make_a_step_contract_less_than_is_proved_and_some_make_it_that():
    draw = seeded()
    head = DPSGLDHead(step_size=1.95, ridge=0.02, row_norm=1.0)
    one, other = (3.0 * torch.randn(3, 5, generator=draw).double() for _ in range(2))
    for size in (1.0, 30.0):
        inputs, targets = size * torch.randn(50, 4, generator=draw), torch.randint(0, 3, (50,), generator=draw)
        near = one + 1e-4 * other
        for a, b in ((one, other), (one, near), (0 * one, 1e-4 * one)):
            away = moved(a, inputs, targets, head) - moved(b, inputs, targets, head)
            assert float(away.norm() / (a - b).norm()) <= head.contraction
    # all rows alike, two classes that are even: the curvature is B²/2 with the bias in B, and not without it
    row, towards = torch.tensor([1.0, 0.0, 0.0, 0.0]).expand(50, 4), torch.zeros(2, 5).double()
    towards[0, [0, 4]], towards[1, [0, 4]] = 1e-4, -1e-4
    a, b = (moved(w, row, torch.zeros(50, dtype=torch.int64), head) for w in (towards, 0 * towards))
    least = float((a - b).norm() / towards.norm())
    assert least == pytest.approx(head.contraction, rel=1e-6)
    assert least > 1.02 * max(abs(1 - 1.95 * 0.02), abs(1 - 1.95 * 0.52))


def test_a_record_moves_a_step_by_no_more_than_the_clip_norm_says_and_clipping_changes_nothing():
    draw = seeded(1)
    for size in (1e-3, 1.0, 1e30):
        inputs = size * torch.randn(50, 4, generator=draw)
        targets = torch.randint(0, 3, (50,), generator=draw)
        weights = 30.0 * torch.randn(3, 5, generator=draw).double()
        move = moved(weights, inputs, targets) - moved(weights, inputs[:-1], targets[:-1])
        assert float(move.norm()) <= HEAD.step_size * HEAD.least_clip_norm / 50.0 * (1 + 1e-12)
    free = trained(mechanism=replace(NUMBERS, clip_norm=200.0, noise_multiplier=0.03))
    assert torch.allclose(flat(trained().weights), flat(free.weights), atol=1e-5)


def test_epsilon_is_that_of_the_last_iterate_and_stops_growing():
    spent = []
    for steps in (1, 10, 1000, 10**6):
        event = HEAD.promise(replace(NUMBERS, steps=steps), steps)
        spent.append(privacy_epsilon(event=event, **ADD).upper)
        if steps <= 1000:
            all_steps = (HEAD.contraction,) * steps, (1.0,) * steps, (3.0,) * steps
            last = LastIterate(**dict(zip(("contractions", "sensitivities", "noises"), all_steps, strict=True)))
            assert spent[-1] == pytest.approx(gaussian_epsilon(mu=last.mu(), delta=1e-5), rel=1e-9)
    assert spent[0] < spent[1] < spent[2] <= spent[3] <= spent[2] * (1 + 1e-6)
    run = trained()
    assert privacy_claim(run.event, adjacency="add-remove").mu <= 1.0001 * np.sqrt(8) / 3.0
    assert [count for _, count in runs_of(run.event)] == [1]


def test_a_ledger_counts_a_run_once_and_again_where_it_may_run_twice(tmp_path):
    book, path = Ledger.open(tmp_path / "ledger"), tmp_path / "run.safetensors"
    given = {"checkpoint": path, "checkpoint_every": 2, "ledger": book, "randomness": None}
    with pytest.raises(Interrupted):
        trained(progress=stopping(5), **given)
    run = trained(**given)
    assert [one.stretch.event for one in book.entries] == [run.event] * 2
    assert [(one.stretch.first, one.stretch.last) for one in book.entries] == [(1, 8), (5, 8)]
    with refusal("settings", CheckpointError):
        trained(replace(HEAD, ridge=0.03), checkpoint=path, randomness=None)


def test_seeded_runs_go_on_bit_for_bit(tmp_path):
    path = tmp_path / "run.safetensors"
    with pytest.raises(Interrupted):
        trained(checkpoint=path, checkpoint_every=3, progress=stopping(7))
    assert torch.equal(flat(trained(checkpoint=path).weights), flat(trained().weights))


def test_its_mechanism_passes_the_audit():
    found = audit_mechanism(HEAD, network(), data(24), mechanism=replace(NUMBERS, steps=24), loss=cross_entropies,
                            failure_prob=1e-6)  # fmt: skip
    assert not found.refuted, found


mechanism = partial(replace, NUMBERS)


@every_case(
    ("call", "words"),
    [
        (partial(replace, HEAD, momentum=0.9), "no norm is known in which"),
        (partial(replace, HEAD, step_size=2.0), "contract"),
        (partial(replace, HEAD, ridge=0.0), "ridge"),
        (partial(HEAD.network, mlp(), generator=torch.Generator()), "layers below learn"),
        (partial(trained, mechanism=mechanism(sample_rate=0.5, expected_batch_size=25.0)), "secret batches"),
        (partial(trained, mechanism=mechanism(clip_norm=1.0)), "no convex loss"),
        (partial(trained, mechanism=mechanism(clipping="automatic")), "no convex loss"),
        (partial(trained, mechanism=mechanism(clipping=QuantileClipping(count_noise=2.0))), "no convex loss"),
        (partial(trained, dataset=data(51)), "over 51 records is divided by 50"),
        (partial(trained, net=mlp()), "trains what its"),
        (partial(trained, net=network(replace(HEAD, row_norm=0.5))), "trains what its"),
        (partial(trained, loss=cross_entropy), "cross_entropies"),
        (partial(trained, keeps=lambda _: True), "leave keeps out"),
        (partial(trained, mechanism=mechanism(noise_multiplier=None)), "needs a noise_multiplier"),
        (partial(trained, mechanism=mechanism(noise_multiplier=lambda t: 1.0 + t)), "same at every step"),
        (
            partial(trained, mechanism=mechanism(budget=PrivacyBudget(epsilon=0.1, delta=1e-5))),
            "8 steps, of which the last .* more than the budget",
        ),
    ],
)
def test_what_is_not_proved_to_contract_is_refused(call, words):
    with refusal(words):
        call()


def test_weights_that_do_not_start_at_zero_are_refused():
    net = network()
    nn.init.ones_(net[2].bias)
    with refusal("start"):
        trained(net=net)


def test_rows_whose_factor_is_subnormal_are_no_longer_than_others():
    rows, shorten = torch.linspace(2e38, 3.4e38, 60)[:, None].expand(-1, 2**16), network(inputs=1)[1]
    assert float(shorten(rows).double().norm(dim=1).max()) <= 1.0
    assert float(shorten(1e-4 * rows).double().norm(dim=1).min()) > 0.9999


@parametrize("size", [0.0, 1e-30, 1.0, 1e30])
def test_rows_are_shortened_one_by_one(size):
    rows = size * made_up_batch(torch.zeros(1, 7))
    found = network(inputs=7)[1](rows)
    assert float(found.norm(dim=1).max()) <= 1.0
    assert torch.equal(found[:1], network(inputs=7)[1](rows[:1]))
    if size == 1e-30:
        assert torch.equal(found, rows)
