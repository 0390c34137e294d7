"""The empirical risk as a function of one vector: exact on all examples, plain autograd on a minibatch."""

import numpy as np
import pytest
import torch
from scipy import stats
from torch import nn
from toys import seeded, toy_data, toy_objective

from pacdp.data import Dataset
from pacdp.losses import Loss, bounded_cross_entropy, ramp, zero_one
from pacdp.models import Architecture, build, random_layers
from pacdp.objective import Objective

ARCHITECTURES = [Architecture(hidden=(7, 6)), Architecture(hidden=(8,), norm="group")]
CLASSES = [2, 3]


@pytest.mark.parametrize("classes", CLASSES)
@pytest.mark.parametrize("architecture", ARCHITECTURES, ids=lambda a: a.norm)
def test_gradient_is_that_of_plain_autograd(architecture: Architecture, classes: int) -> None:
    data = toy_data(classes=classes)
    objective = toy_objective(data, architecture=architecture)
    twin = build(architecture, input_shape=(5,), classes=classes, generator=seeded(0))
    for seed in range(3):
        estimate = objective.estimate(objective.weights(), seeded(seed))
        batch = objective.draw(seeded(seed))
        loss = objective.loss(twin(torch.tensor(data.inputs)[batch]), torch.tensor(data.labels)[batch]).mean()
        gradients = torch.autograd.grad(loss, list(twin.parameters()))
        torch.testing.assert_close(estimate.gradient, torch.cat([g.reshape(-1) for g in gradients]))
        torch.testing.assert_close(estimate.loss, loss.detach())


def test_estimate_judges_the_weights_it_is_given() -> None:
    objective = toy_objective(toy_data())
    first = objective.weights()
    here = objective.estimate(first, seeded(0)).gradient.clone()
    there = objective.estimate(first + 1, seeded(0)).gradient.clone()
    assert not torch.allclose(here, there)
    assert torch.equal(objective.weights(), first + 1)
    assert torch.equal(objective.estimate(first, seeded(0)).gradient, here)


def test_views_are_the_pieces_of_the_vector() -> None:
    objective = toy_objective(toy_data())
    flat = torch.arange(float(objective.dim))
    named = objective.named(flat)
    assert [view.shape for view in named.values()] == [p.shape for p in objective.model.parameters()]
    assert torch.equal(torch.cat([view.reshape(-1) for view in named.values()]), flat)
    named["1.weight"].zero_()
    assert (flat == 0).sum() == 1 + named["1.weight"].numel() - 1


@pytest.mark.parametrize("classes", CLASSES)
@pytest.mark.parametrize("architecture", ARCHITECTURES, ids=lambda a: a.norm)
def test_risks_are_those_of_a_plain_loop_in_double(architecture: Architecture, classes: int) -> None:
    data = toy_data(n=53, classes=classes)
    objective = toy_objective(data, architecture=architecture)
    twin = build(architecture, input_shape=(5,), classes=classes, generator=seeded(0)).double()
    losses, errors, ramps = [], [], []
    for x, y in zip(torch.tensor(data.inputs).double(), torch.tensor(data.labels), strict=True):
        logits = twin(x[None]).detach()
        losses.append(float(objective.loss(logits, y[None])))
        errors.append(float(zero_one()(logits, y[None])))
        ramps.append(float(ramp()(logits, y[None])))
    for chunk in (1, 7, 53, 1000):
        risks = objective.risks(objective.weights(), chunk=chunk)
        assert (risks.errors, risks.n) == (sum(errors), 53)
        assert risks.error == sum(errors) / 53
        assert risks.loss == pytest.approx(np.mean(losses), rel=1e-6)
        assert risks.ramp == pytest.approx(np.mean(ramps), abs=1e-6)
        assert risks.error <= risks.ramp


def test_minibatch_losses_average_to_the_risk() -> None:
    objective = toy_objective(toy_data())
    generator, weights = seeded(0), objective.weights()
    draws = [objective.estimate(weights, generator) for _ in range(400)]
    risks = objective.risks(weights)
    for name in ("loss", "error"):
        values = torch.stack([getattr(draw, name) for draw in draws]).double().numpy()
        assert stats.ttest_1samp(values, getattr(risks, name)).pvalue > 1e-3
        assert stats.ttest_1samp(values, getattr(risks, name) + values.std()).pvalue < 1e-6


@pytest.mark.parametrize("clip_norm", [None, 0.5])
def test_an_estimate_depends_on_its_generator_alone(clip_norm: float | None) -> None:
    objective = toy_objective(toy_data(), clip_norm=clip_norm)
    weights = objective.weights()
    before = torch.get_rng_state()
    first = objective.estimate(weights, seeded(5)).gradient.clone()
    other = objective.estimate(weights, seeded(6)).gradient.clone()
    assert torch.equal(torch.get_rng_state(), before)
    torch.rand(3)
    torch.testing.assert_close(objective.estimate(weights, seeded(5)).gradient, first, rtol=0, atol=0)
    assert not torch.equal(first, other)


@pytest.mark.parametrize("name", ["fc", "conv"])
def test_batch_norm_is_refused(name: str) -> None:
    data = toy_data(shape=(1, 28, 28), n=4)
    with pytest.raises(ValueError, match=r"normalise over the batch.*use norm='group' or norm='none'"):
        toy_objective(data, architecture=Architecture(name=name, norm="batch"), batch_size=2)


@pytest.mark.parametrize("layer", [nn.Dropout(0.5), nn.AlphaDropout(0.1), nn.RReLU()], ids=lambda x: type(x).__name__)
def test_active_dropout_is_refused(layer: nn.Module) -> None:
    model, data = nn.Sequential(nn.Linear(5, 8), layer, nn.Linear(8, 1)), toy_data()
    with pytest.raises(ValueError, match=r"^layers 1 draw random numbers in every pass.*call eval\(\)"):
        Objective(model, bounded_cross_entropy(classes=2), data, batch_size=10)
    objective = Objective(model.eval(), bounded_cross_entropy(classes=2), data, batch_size=10)
    assert objective.risks(objective.weights()) == objective.risks(objective.weights())


def test_layers_that_may_draw_but_do_not_are_no_obstacle() -> None:
    quiet = nn.Sequential(nn.Dropout(0.0), nn.LSTM(5, 3, num_layers=2), nn.MultiheadAttention(4, 2))
    assert random_layers(quiet) == []
    loud = nn.Sequential(nn.LSTM(5, 3, num_layers=2, dropout=0.2), nn.MultiheadAttention(4, 2, dropout=0.1))
    assert random_layers(loud) == ["0", "1"]


@pytest.mark.parametrize(
    ("batch_size", "clip_norm", "sentence"),
    [
        (0, None, "expected 1 <= batch_size <= n"),
        (0, 1.0, "expected 1 <= batch_size <= n"),
        (61, 1.0, "expected 1 <= batch_size <= n"),
        (10, 0.0, "expected clip_norm > 0"),
        (10, -1.0, "expected clip_norm > 0"),
        (10, float("nan"), "expected clip_norm > 0"),
    ],
)
def test_sizes_and_norms_are_checked(batch_size: int, clip_norm: float | None, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        toy_objective(toy_data(), batch_size=batch_size, clip_norm=clip_norm)


def test_risks_refuse_diverged_weights() -> None:
    objective = toy_objective(toy_data())
    with pytest.raises(ValueError, match="NaN or infinite on the data: the weights have diverged"):
        objective.risks(torch.full_like(objective.weights(), torch.nan))


def test_risks_refuse_a_false_interval() -> None:
    honest = bounded_cross_entropy(classes=2)
    false = Loss(name="false", low=honest.low, high=0.5, function=honest.function)
    data = toy_data()
    model = build(Architecture(), input_shape=(5,), classes=2, generator=seeded(0))
    objective = Objective(model, false, data, batch_size=10)
    with pytest.raises(ValueError, match="loss false declares the interval"):
        objective.risks(objective.weights())


def test_data_are_copied() -> None:
    inputs = np.ones((4, 5), np.float32)
    objective = toy_objective(Dataset("ones", inputs, np.zeros(4, np.int64), 2), batch_size=2)
    before = objective.risks(objective.weights())
    inputs[:] = 7
    assert objective.risks(objective.weights()) == before
