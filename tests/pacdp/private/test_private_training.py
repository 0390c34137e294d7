"""The trainers from end to end, on scikit-learn's digits where accuracy matters."""

import math
from dataclasses import replace

import pytest
import torch
from private_toys import (
    FIXED,
    M,
    cnn,
    cross_entropy,
    data,
    digits,
    dropout_network,
    flat,
    mechanism,
    mlp,
    sgld,
    trained,
)
from torch import equal
from torch.nn import Dropout, Linear, Sequential, Tanh
from torch.optim import Adam
from torch.testing import assert_close
from torch.utils.data import TensorDataset

from pacdp.private import (
    DPBBP,
    DPSGD,
    DPSGLD,
    DPAdam,
    DPMCDropout,
    ExampleDropout,
    Mechanism,
    SeededRandomness,
    average_over_draws,
    average_over_snapshots,
    bayesian,
    calibrated,
    epsilon,
    with_example_dropout,
    with_weights,
)
from tests.marks import near, parametrize
from tests.pacdp.toys import seeded

DELTA = 1e-4
STEPS = 60
SIGMA = calibrated(1.0, sample_rate=0.1, steps=STEPS, target_epsilon=3.0, delta=DELTA, adjacency="add-remove")
FULL = Mechanism(clip_norm=1.0, noise_multiplier=SIGMA, sample_rate=0.1, expected_batch_size=140.0, steps=STEPS)


def _wide():
    torch.manual_seed(1)
    return Sequential(Linear(64, 32), Tanh(), Linear(32, 10))


@pytest.mark.usefixtures("known_network")
def test_every_algorithm_learns_digits_at_epsilon_three():
    dataset, x, y = digits()
    # h and τ so that tempered dynamics' σ = (B/C) √(2τ/h) is the calibrated one
    tempered = {"convention": "tempered", "step_size": 2.0, "temperature": (SIGMA(0) / 140.0) ** 2}
    dropout = with_example_dropout(Sequential(*_wide()[:2], Dropout(0.1), _wide()[2]), generator=seeded())
    runs = {
        "sgd": (DPSGD(learning_rate=2.0, momentum=0.5), _wide()),
        "adam": (DPAdam(learning_rate=0.02), _wide()),
        "sgld": (DPSGLD(**tempered, burn_in=2 / 3, snapshots=5), _wide()),
        "bbp": (DPBBP(learning_rate=2.0, prior_std=0.5, kl_weight=0.1),
                bayesian(_wide(), initial_std=0.05, generator=seeded())),
        "dropout": (DPMCDropout(learning_rate=2.0, momentum=0.5), dropout),
    }  # fmt: skip
    found = {}
    for name, (settings, module) in runs.items():
        numbers = replace(FULL, noise_multiplier=None) if settings.FIXES_NOISE else FULL
        run = trained(settings, module, dataset, mechanism=numbers, seed=1)
        assert 2.9 < epsilon(run.event, delta=DELTA, adjacency="add-remove") <= 3.0 + 1e-9
        learnt = with_weights(module, run.weights)
        match name:
            case "sgld":
                predicted = average_over_snapshots(module, run.snapshots, x)
            case "bbp" | "dropout":
                predicted = average_over_draws(learnt, x, draws=20, seed=0)
            case _:
                predicted = learnt(x).softmax(-1)
        found[name] = float((predicted.argmax(1) == y).float().mean())
    assert min(found.values()) > 0.75, found


def test_dp_adam_is_torch_s_on_noisy_gradients():
    """Nothing corrects the second moment for the noise; a full batch with an enormous clipping norm."""
    m = mechanism(clip_norm=1e6, noise_multiplier=2e-6, sample_rate=1.0, expected_batch_size=40.0, steps=12)
    module = mlp()
    run = trained(DPAdam(learning_rate=0.05), mechanism=m, seed=3)
    adam, random = Adam(module.parameters(), lr=0.05), SeededRandomness(3)
    for _ in range(12):
        adam.zero_grad()
        cross_entropy(module(data().tensors[0]), data().tensors[1]).mean().backward()
        for p in module.parameters():
            p.grad += random.noised(torch.zeros_like(p), std=2.0) / 40.0
        adam.step()
    assert_close(flat(run.weights), flat(module), atol=1e-4, rtol=1e-4)


LOSSES = {"BCELoss": torch.nn.Sigmoid(), "HuberLoss": torch.nn.Identity()}


@parametrize("mode", ["ghost", "reference"])
@parametrize("name", LOSSES)
def test_losses_that_take_numbers_of_one_precision_or_between_0_and_1_alone_serve(name, mode):
    """As the sum of gradients that autograd takes of them."""
    module, x = Sequential(Linear(4, 1), LOSSES[name]), data().tensors[0]
    targets, of_each = x[:, 0].sigmoid(), getattr(torch.nn, name)(reduction="none")
    m = mechanism(clip_norm=1e6, noise_multiplier=1e-12, sample_rate=1.0, expected_batch_size=1.0, steps=1)
    run = trained(
        DPSGD(learning_rate=1.0),
        module,
        TensorDataset(x, targets),
        mechanism=replace(m, grad_sample_mode=mode),
        loss=lambda outputs, targets: of_each(outputs[:, 0], targets),
    )
    of_each(module(x)[:, 0], targets).sum().backward()
    moved = torch.cat([(p - p.grad).detach().flatten() for p in module.parameters()])
    assert_close(flat(run.weights), moved, atol=1e-4, rtol=1e-4)


def test_dropout_masks_are_each_example_s_own():
    layer = ExampleDropout(0.3, generator=seeded(3))
    masks = layer(torch.ones(2000, 12)) * 0.7
    assert len(masks.unique()) == 2
    assert float(masks.max()) == near(1.0)
    assert float((masks > 0.0).float().mean()) == near(0.7, abs=5.0 * math.sqrt(0.21 / 24000))
    correlations = torch.corrcoef((masks > 0.0).float().T) - torch.eye(12)
    assert float(correlations.abs().max()) < 6.0 / math.sqrt(2000)
    rows = torch.corrcoef((masks > 0.0).float().reshape(200, 120)) - torch.eye(200)  # blocks of ten examples
    assert abs(float(rows.mean())) < 0.01
    assert equal(layer.eval()(torch.ones(3, 12)), torch.ones(3, 12))


def test_mc_dropout_predictions_average_masks():
    module = dropout_network(rate=0.5)
    inputs = data(5).tensors[0]
    by_hand = []
    for bits in range(32):
        keep = torch.tensor([(bits >> k) & 1 for k in range(5)], dtype=torch.float32) * 2.0
        by_hand.append(module[3](module[1](module[0](inputs)) * keep).softmax(-1))
    exact = torch.stack(by_hand).mean(0).detach()
    assert_close(average_over_draws(module, inputs, draws=4000, seed=1), exact, atol=0.03, rtol=0.0)
    assert module.training


def test_training_leaves_the_caller_s_network_alone_and_reports_progress():
    module, seen = mlp(), []
    trained(DPSGD(learning_rate=0.1), module, progress=seen.append)
    assert {p.private_nonfinite for p in seen} == {0}
    assert equal(flat(module), flat(mlp()))
    assert not any(hasattr(p, "grad_sample") for p in module.parameters())
    assert [(p.step, p.steps) for p in seen] == [(t, 6) for t in range(1, 7)]
    assert all(p.private_loss > 0.0 for p in seen)


@parametrize("around", [torch.no_grad, torch.inference_mode])
def test_gradients_are_taken_wherever_training_is_called(around):
    """A cell or a function that takes none ended in torch's error."""
    module, dataset = mlp(), data()
    with around():
        inside = trained(DPSGD(learning_rate=0.1), module, dataset)
        assert not torch.is_grad_enabled()
    assert equal(flat(inside.weights), flat(trained(DPSGD(learning_rate=0.1)).weights))


@parametrize("settings, numbers", [(DPSGD(learning_rate=0.1), M), (sgld("tempered", step_size=0.01), FIXED)])
def test_weights_may_lie_in_memory_in_any_order(settings, numbers, tmp_path):
    """As those of ``channels_last`` do: a run paid for all of its steps and came to an error at its end."""
    one, other = (
        trained(settings, cnn().to(memory_format=lies), mechanism=numbers, checkpoint=tmp_path / str(lies))
        for lies in (torch.contiguous_format, torch.channels_last)
    )
    assert_close(flat(other.weights), flat(one.weights))
    assert_close(other.snapshots, one.snapshots)
    assert len(one.snapshots) == 4 * (settings.NAME == "DP-SGLD")


def test_answers_alone_do_not_depend_on_what_else_is_asked():
    module, inputs = dropout_network(), data(7).tensors[0]
    together = average_over_draws(module, inputs, draws=4, seed=2, alone=True)
    one_by_one = torch.cat([average_over_draws(module, one[None], draws=4, seed=2) for one in inputs])
    assert_close(together, one_by_one)
    apart = average_over_draws(module, inputs, draws=4, seed=2)
    assert not torch.allclose(apart, together), "masks of their own, by their places"


def test_an_example_without_a_finite_gradient_is_counted():
    dataset, seen = data(), []
    dataset.tensors[0][0] = math.nan
    run = trained(DPSGD(learning_rate=0.1), dataset=dataset, mechanism=mechanism(sample_rate=1.0), progress=seen.append)
    assert {p.private_nonfinite for p in seen} == {1}
    assert torch.isfinite(flat(run.weights)).all()
