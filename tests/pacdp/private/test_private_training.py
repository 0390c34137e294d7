"""The trainers from end to end, on scikit-learn's digits where accuracy matters."""

import math

import pytest
import torch
from private_toys import cross_entropy, data, generator, mechanism, mlp
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import Dataset, TensorDataset

from pacdp.errors import Diverged
from pacdp.private import (
    DPBBP,
    DPSGD,
    DPSGLD,
    Constant,
    DPAdam,
    DPMCDropout,
    ExampleDropout,
    Exponential,
    Mechanism,
    Normal,
    Polynomial,
    SeededRandomness,
    Table,
    Tempered,
    average_over_draws,
    average_over_snapshots,
    bayesian,
    calibrated,
    epsilon,
    joined,
    planned,
    train,
    with_example_dropout,
    with_weights,
)

DELTA = 1e-4
STEPS = 150
FULL = Mechanism(clip_norm=1.0, sample_rate=0.1, expected_batch_size=140.0, steps=STEPS)
SIGMA = calibrated(1.0, sample_rate=0.1, steps=STEPS, target_epsilon=3.0, delta=DELTA, adjacency="add-remove")


@pytest.fixture(scope="module")
def digits():
    bunch = load_digits()
    x, y = torch.tensor(bunch.data / 16.0, dtype=torch.float32), torch.tensor(bunch.target)
    order = torch.randperm(len(x), generator=generator(0))
    return TensorDataset(x[order[:1400]], y[order[:1400]]), (x[order[1400:]], y[order[1400:]])


def _wide():
    draw = generator(1)
    module = nn.Sequential(nn.Linear(64, 32), nn.Tanh(), nn.Linear(32, 10))
    with torch.no_grad():
        for p in module.parameters():
            p.copy_((torch.rand(p.shape, generator=draw) - 0.5) * 2.0 / math.sqrt(p.shape[-1]))
    return module


def accuracy(probabilities, targets):
    return float((probabilities.argmax(1) == targets).float().mean())


def test_every_algorithm_learns_digits_at_epsilon_three(digits):
    dataset, (x, y) = digits
    common = {"mechanism": FULL, "noise_multiplier": SIGMA}
    # α and τ so that Tempered's σ = (B/C) √(2τ/α) is the calibrated one
    tempered = Tempered(step_size=2.0, temperature=(SIGMA(0) / 140.0) ** 2)
    dropout = with_example_dropout(nn.Sequential(*_wide()[:2], nn.Dropout(0.1), _wide()[2]), generator=generator())
    runs = {
        "sgd": (DPSGD(**common, learning_rate=2.0, momentum=0.5), _wide()),
        "adam": (DPAdam(**common, learning_rate=0.02), _wide()),
        "sgld": (DPSGLD(mechanism=FULL, convention=tempered, burn_in=100, thin=5), _wide()),
        "bbp": (DPBBP(**common, learning_rate=2.0, prior=Normal(std=0.5), kl_weight=0.1),
                bayesian(_wide(), initial_std=0.05, generator=generator())),
        "dropout": (DPMCDropout(**common, learning_rate=2.0, momentum=0.5), dropout),
    }  # fmt: skip
    found = {}
    for name, (settings, module) in runs.items():
        run = train(settings, module, dataset, loss=cross_entropy, randomness=SeededRandomness(1))
        assert 2.9 < epsilon(run.event, delta=DELTA, adjacency="add-remove") <= 3.0 + 1e-9
        trained = with_weights(module, run.weights)
        match name:
            case "sgld":
                predicted = average_over_snapshots(module, run.snapshots, x)
            case "bbp" | "dropout":
                predicted = average_over_draws(trained, x, draws=20, seed=0)
            case _:
                predicted = trained(x).softmax(-1)
        found[name] = accuracy(predicted, y)
    assert min(found.values()) > 0.82, found


def test_chains_compose_to_the_history_of_one_long_chain():
    one, long = planned(1.0, sample_rate=0.1, steps=50), planned(1.0, sample_rate=0.1, steps=150)
    assert joined(one, one, one) == joined(joined(one, one), one) == long
    assert epsilon(one, delta=DELTA, adjacency="add-remove") < epsilon(long, delta=DELTA, adjacency="add-remove")
    assert joined(None, one) == joined(one, None) == one
    assert joined() is None


def test_adam_sees_privatised_gradients_only():
    """With no noise and an enormous clipping norm the trainer is torch's Adam on the mean over a full batch."""
    m = mechanism(clip_norm=1e6, sample_rate=1.0, expected_batch_size=40.0, steps=12)
    run = train(DPAdam(mechanism=m, noise_multiplier=0.0, learning_rate=0.05), mlp(), data(40), loss=cross_entropy)
    module = mlp()
    adam = torch.optim.Adam(module.parameters(), lr=0.05)
    for _ in range(12):
        adam.zero_grad()
        cross_entropy(module(data(40).tensors[0]), data(40).tensors[1]).mean().backward()
        adam.step()
    for name, p in module.named_parameters():
        torch.testing.assert_close(run.weights[name], p.detach(), atol=1e-4, rtol=1e-4)


def test_dp_adam_s_second_moment_is_inflated_by_the_noise():
    m = mechanism(sample_rate=1e-12, steps=2000)
    captured = []

    class Spy(DPAdam):
        def optimizer(self, parameters):
            captured.append(super().optimizer(parameters))
            return captured[-1]

    settings = Spy(mechanism=m, noise_multiplier=2.0, learning_rate=0.0, betas=(0.9, 0.999))
    train(settings, mlp(), data(), loss=cross_entropy, randomness=SeededRandomness(0))
    moments = torch.cat([s["exp_avg_sq"].reshape(-1) for s in captured[0].state.values()]).mean()
    assert float(moments) / (1.0 - 0.999**2000) == pytest.approx(
        (2.0 * m.clip_norm / m.expected_batch_size) ** 2, rel=0.05
    )


def test_dropout_masks_are_each_example_s_own():
    layer = ExampleDropout(0.3, generator=generator(3))
    masks = layer(torch.ones(2000, 12)) * 0.7
    assert len(masks.unique()) == 2
    assert float(masks.max()) == pytest.approx(1.0)
    assert float((masks > 0.0).float().mean()) == pytest.approx(0.7, abs=5.0 * math.sqrt(0.21 / 24000))
    correlations = torch.corrcoef((masks > 0.0).float().T) - torch.eye(12)
    assert float(correlations.abs().max()) < 6.0 / math.sqrt(2000)
    rows = torch.corrcoef((masks > 0.0).float().reshape(200, 120)) - torch.eye(200)  # blocks of ten examples
    assert abs(float(rows.mean())) < 0.01
    assert torch.equal(layer.eval()(torch.ones(3, 12)), torch.ones(3, 12))
    with pytest.raises(ValueError, match="rate"):
        ExampleDropout(1.0, generator=generator())
    with pytest.raises(ValueError, match="Dropout2d"):
        with_example_dropout(nn.Sequential(nn.Dropout2d(0.5)), generator=generator())


def test_mc_dropout_predictions_average_masks():
    module = with_example_dropout(nn.Sequential(*mlp()[:2], nn.Dropout(0.5), mlp()[2]), generator=generator())
    inputs = data(5).tensors[0]
    by_hand = []
    for bits in range(32):
        keep = torch.tensor([(bits >> k) & 1 for k in range(5)], dtype=torch.float32) * 2.0
        by_hand.append(module[3](module[1](module[0](inputs)) * keep).softmax(-1))
    exact = torch.stack(by_hand).mean(0).detach()
    torch.testing.assert_close(average_over_draws(module, inputs, draws=4000, seed=1), exact, atol=0.03, rtol=0.0)
    assert module.training


def test_schedules():
    assert [Exponential(initial=1.0, factor=0.5, final=0.3)(t) for t in range(3)] == [1.0, 0.5, 0.3]
    assert [Exponential(initial=1.0, factor=2.0, final=3.0)(t) for t in range(3)] == [1.0, 2.0, 3.0]
    assert Polynomial(initial=2.0, power=0.5, offset=2.0)(6) == 1.0
    assert Table(values=(1.0, 2.0))(1) == 2.0
    with pytest.raises(ValueError, match="beyond the 2 steps"):
        Table(values=(1.0, 2.0))(2)
    with pytest.raises(ValueError, match="value must be"):
        Constant(value=math.nan)


class Strings(Dataset):
    def __len__(self):
        return 3

    def __getitem__(self, index):
        return torch.zeros(4), "label"


def test_errors_are_sentences():
    settings = DPSGD(mechanism=mechanism(), noise_multiplier=1.0, learning_rate=0.1)
    with pytest.raises(ValueError, match="pairs of tensors"):
        train(settings, mlp(), Strings(), loss=cross_entropy)
    with pytest.raises(ValueError, match="first dimension must be the batch"):
        train(settings, mlp(), data(), loss=lambda outputs, targets: cross_entropy(outputs, targets).mean())
    with pytest.raises(ValueError, match="not independent"):
        train(settings, mlp(), data(), loss=lambda o, t: cross_entropy(o, t) - cross_entropy(o, t).mean())
    with pytest.raises(ValueError, match="steps"):
        mechanism(steps=0)
    with pytest.raises(ValueError, match="at least 1"):
        train(settings, mlp(), TensorDataset(torch.zeros(0, 4), torch.zeros(0, dtype=torch.int64)), loss=cross_entropy)
    wild = DPSGD(mechanism=mechanism(), noise_multiplier=1e39, learning_rate=1.0)
    with pytest.raises(Diverged, match="at step"):
        train(wild, mlp(), data(), loss=cross_entropy, randomness=SeededRandomness(0))


def test_training_leaves_the_caller_s_network_alone_and_reports_progress():
    module, seen = mlp(), []
    before = [p.detach().clone() for p in module.parameters()]
    settings = DPSGD(mechanism=mechanism(), noise_multiplier=1.0, learning_rate=0.1)
    train(settings, module, data(), loss=cross_entropy, progress=seen.append)
    assert all(torch.equal(a, b) for a, b in zip(module.parameters(), before, strict=True))
    assert not any(hasattr(p, "grad_sample") for p in module.parameters())
    assert [(p.step, p.steps) for p in seen] == [(t, 6) for t in range(1, 7)]
    assert all(p.private_loss > 0.0 for p in seen)


def test_answers_alone_do_not_depend_on_what_else_is_asked():
    generator = torch.Generator().manual_seed(0)
    module = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 3))
    module = with_example_dropout(module, generator=generator)
    inputs = torch.randn(7, 5, generator=generator)
    together = average_over_draws(module, inputs, draws=4, seed=2, alone=True)
    one_by_one = torch.cat([average_over_draws(module, one[None], draws=4, seed=2) for one in inputs])
    torch.testing.assert_close(together, one_by_one)
    apart = average_over_draws(module, inputs, draws=4, seed=2)
    assert not torch.allclose(apart, together), "masks of their own, by their places"
