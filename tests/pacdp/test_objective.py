"""The empirical risk as a function of one vector: exact on all examples, plain autograd on a minibatch."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import Linear, Sequential
from torch.testing import assert_close
from toys import keys_of, seeded, toy_data, toy_objective

from pacdp.chains import Keys
from pacdp.data import Dataset
from pacdp.losses import bounded_cross_entropy, ramp, zero_one
from pacdp.models import Architecture, build, random_layers
from pacdp.objective import Objective
from pacdp.problem import Problem
from tests.marks import near, parametrize, refusal

ARCHITECTURES = [Architecture(hidden=(7, 6)), Architecture(hidden=(8,), norm="group")]
CROSS_ENTROPY = bounded_cross_entropy(classes=2)
binary_or_not = parametrize("classes", [2, 3])


def risks_of(objective):
    return objective.risks(objective.weights())


@pytest.mark.every_case
@binary_or_not
@parametrize("norm", ["none", "group", "batch"])
def test_gradient_is_that_of_plain_autograd(norm, classes):
    """Batch norm that is asked for uses the batch at hand."""
    data, problem = (toy_data(classes=classes), Problem(architecture=Architecture(hidden=(7, 6), norm=norm)))
    objective = problem.objective(data, generator=seeded(0), batch_size=10)
    assert objective.mixes == (norm == "batch")
    assert risks_of(objective) == risks_of(objective)
    twin = problem.model(data, generator=seeded(0)).train()
    named = dict(twin.named_parameters())
    for tick in range(3):
        estimate = objective.estimate(objective.weights(), keys_of(5), tick)
        (batch,), _ = objective.draw(keys_of(5), tick)
        loss = objective.loss(twin(torch.tensor(data.inputs)[batch]), torch.tensor(data.labels)[batch]).mean()
        gradients = torch.autograd.grad(loss, list(named.values()))
        flat = objective.layout.flatten(dict(zip(named, gradients, strict=True)))
        assert_close(estimate.gradient[0], flat)
        assert_close(estimate.loss[0], loss.detach())


def test_weights_that_are_given_are_judged_and_the_networks_own_stay():
    objective = toy_objective(toy_data())
    first = objective.weights()
    risks, here = objective.risks(first), objective.estimate(first, keys_of(0), 1).gradient.clone()
    objective.risks(first + 1)
    assert not torch.allclose(objective.estimate(first + 1, keys_of(0), 1).gradient, here)
    assert torch.equal(objective.weights(), first)
    assert torch.equal(objective.estimate(first, keys_of(0), 1).gradient, here)
    assert objective.risks(first) == risks
    assert all(isinstance(p, nn.Parameter) for p in objective.model.parameters())


@binary_or_not
@parametrize("architecture", ARCHITECTURES, ids=lambda a: a.norm)
def test_risks_are_those_of_a_plain_loop_in_double(architecture, classes):
    data = toy_data(n=53, classes=classes)
    objective = toy_objective(data, architecture=architecture)
    twin = build(architecture, input_shape=(5,), classes=classes, generator=seeded(0)).double()
    losses, errors, ramps = [], [], []
    for x, y in zip(torch.tensor(data.inputs).double(), torch.tensor(data.labels), strict=True):
        logits = twin(x[None]).detach()
        for values, loss in ((losses, objective.loss), (errors, zero_one()), (ramps, ramp())):
            values.append(float(loss(logits, y[None])))
    for chunk in (1, 7, 53, 1000):
        objective._chunk = chunk
        (risks,) = objective.risks(objective.weights())
        assert (risks.errors, risks.n) == (sum(errors), 53)
        assert risks.error == sum(errors) / 53
        assert risks.loss == near(np.mean(losses), rel=1e-6)
        assert risks.ramp == near(np.mean(ramps), abs=1e-6)
        assert risks.error <= risks.ramp


def estimated(objective, weights, keys):
    return [part.clone() for part in objective.estimate(weights, keys, 4) if part is not None]


@parametrize("clip_norm", [None, 0.5])
def test_chains_have_their_own_draws_weights_and_labels(clip_norm):
    data, keys = toy_data(classes=3), Keys.derive([5, 6, 5], [0, 0, 0])
    labels = [np.roll(data.labels, k) for k in range(3)]
    model = build(Architecture(hidden=(7, 9)), input_shape=(5,), classes=3, generator=seeded(0))
    loss = bounded_cross_entropy(classes=3)
    together = Objective(model, loss, data, batch_size=10, clip_norm=clip_norm, labels=labels)
    drawn, group = together.draw(keys, 3)  # chains of one batch key share their draws
    assert len(drawn) == 2
    assert group[0] == group[2] != group[1]
    assert torch.equal(drawn[group[1]], together.draw(keys.select([1]), 3)[0][0])
    weights = together.weights() + torch.arange(3.0)[:, None] / 10
    estimate = estimated(together, weights, keys)
    for k in range(3):
        own = Dataset("own", data.inputs, labels[k], 3)
        alone = Objective(model, loss, own, batch_size=10, clip_norm=clip_norm)
        assert alone.risks(weights[[k]])[0] == near(together.risks(weights)[k], rel=1e-6)
    parts = estimated(together.select([2, 0]), weights[[2, 0]], keys.select([2, 0]))
    for part, found in zip(parts, estimate, strict=True):
        assert_close(part, found[[2, 0]], rtol=1e-5, atol=1e-7)


@parametrize("name", ["fc", "conv"])
def test_batch_norm_is_refused(name):
    data = toy_data(shape=(1, 28, 28), n=4)
    with refusal(r"normalise over the batch.*use norm='group' or norm='none'"):
        toy_objective(data, architecture=Architecture(name=name, norm="batch"), batch_size=2)
    with refusal("normalise over the batch"):
        Problem(architecture=Architecture(name=name, norm="batch")).objective(
            data, generator=seeded(0), batch_size=4, clip_norm=1.0
        )


@parametrize("layer", [nn.Dropout(0.5), nn.AlphaDropout(0.1), nn.RReLU()], ids=lambda x: type(x).__name__)
def test_active_dropout_is_refused(layer):
    model, data = Sequential(Linear(5, 8), layer, Linear(8, 1)), toy_data()
    with refusal(r"^layers 1 draw random numbers in every pass.*call eval\(\)"):
        Objective(model, CROSS_ENTROPY, data, batch_size=10)
    objective = Objective(model.eval(), CROSS_ENTROPY, data, batch_size=10)
    assert risks_of(objective) == risks_of(objective)


def test_layers_that_may_draw_but_do_not_are_no_obstacle():
    quiet = Sequential(nn.Dropout(0.0), nn.LSTM(5, 3, num_layers=2), nn.MultiheadAttention(4, 2))
    assert random_layers(quiet) == []
    loud = Sequential(nn.LSTM(5, 3, num_layers=2, dropout=0.2), nn.MultiheadAttention(4, 2, dropout=0.1))
    assert random_layers(loud) == ["0", "1"]


def test_risks_that_are_no_numbers_are_refused():
    objective = toy_objective(toy_data())
    with refusal("NaN or infinite on the data: the weights have diverged"):
        objective.risks(torch.full_like(objective.weights(), torch.nan))


def test_data_are_copied():
    inputs = np.ones((4, 5), np.float32)
    objective = toy_objective(Dataset("ones", inputs, np.zeros(4, np.int64), 2), batch_size=2)
    before = risks_of(objective)
    inputs[:] = 7
    assert risks_of(objective) == before
