"""Training and members behind the DP-BNN studies: the plain twins, the draws, the simulated curves."""

from functools import partial
from math import isclose, sqrt

import numpy as np
import torch
from torch import nn
from torch.nn import Linear, ReLU, Sequential
from torch.testing import assert_close

from experiments.runs.bayesian import CNN, BayesRun, Fitted, fit, member_outputs, network, train_plain
from experiments.runs.bayesian_curves import simulated
from pacdp.cli.private.algorithms import Public, mechanism
from pacdp.cli.private.config import DPBBP, DPSGD, DPSGLD, Budget, DPMCDropout, PrivateConfig, Sampling
from pacdp.private import bayesian, with_example_dropout
from tests.marks import parametrize
from tests.pacdp.toys import seeded

PUBLIC = Public(input_shape=(1,), classes=2, size=64.0)


def _config(method, *, steps=5, sigma=1.0, rate=1.0, clip=1e6):
    sampling = Sampling(sample_rate=1.0, steps=steps, clip_norm=clip, noise_multiplier=sigma)
    return PrivateConfig(method=method, budget=Budget(epsilon=1e9, delta=1e-5), sampling=sampling)


def _squares(outputs, targets):
    return (outputs[:, 0] - targets).square() + outputs[:, 1].square()


def _data(n=64):
    generator = seeded(0)
    return torch.randn(n, 1, generator=generator), torch.randn(n, generator=generator)


def _plain(config, module, *, thermal=False, loss=_squares):
    inputs, targets = _data()
    return train_plain(config.method, mechanism(config, PUBLIC), module, inputs, targets, loss=loss, thermal=thermal,
                       seed=3, keeps=lambda step: False)  # fmt: skip


def test_plain_sgd_is_torchs_on_whole_passes():
    config = _config(DPSGD(learning_rate=0.05, momentum=0.9, prior="normal", prior_std=2.0))
    module, twin = Linear(1, 2), Linear(1, 2)
    twin.load_state_dict(module.state_dict())
    _plain(config, module)
    optimizer = torch.optim.SGD(twin.parameters(), lr=0.05, momentum=0.9, weight_decay=1 / (4 * 64))
    inputs, targets = _data()
    for _ in range(5):
        optimizer.zero_grad()
        _squares(twin(inputs), targets).mean().backward()
        optimizer.step()
    for one, other in zip(module.parameters(), twin.parameters(), strict=True):
        assert_close(one, other)


@parametrize("drift", [0.5, 1.0])
def test_plain_sgld_has_the_thermal_noise_and_no_other(drift):
    eta, steps = 1e-3, 50
    method = DPSGLD(convention="parameter-slot", step_size=eta, drift=drift, noise=1.0, prior="none")
    config = _config(method, steps=steps, sigma=0.0, clip=2.0)
    module = Linear(1, 4000)
    before = module.weight.detach().clone()
    still = partial(_plain, config, module, loss=lambda outputs, targets: 0.0 * outputs.sum(1))
    still(thermal=True)
    moved = (module.weight.detach() - before).flatten()
    assert isclose(float(moved.std()), sqrt(eta * steps), rel_tol=0.04)
    still(thermal=False)
    assert_close(module.weight.detach() - before, moved[:, None])


def _members(run, module, inputs):
    return list(member_outputs(run, Fitted(module.eval(), {}, {}), inputs))


def test_a_member_is_one_draw_of_the_weights_for_all_rows():
    module = bayesian(Sequential(Linear(3, 2)), initial_std=0.5, generator=seeded(0))
    run = BayesRun(config=_config(DPBBP()), members=4)
    inputs = torch.ones(2500, 3)
    members = torch.stack(_members(run, module, inputs))
    assert members.shape == (4, 2500, 2)
    assert_close(members, members[:, :1].expand_as(members))
    assert len(members[:, 0, 0].unique()) == 4
    assert_close(members, torch.stack(_members(run, module, inputs)))


def test_masks_are_drawn_at_prediction_and_a_plain_network_is_one_member():
    layers = Sequential(Linear(3, 50), ReLU(), nn.Dropout(0.5), Linear(50, 2))
    module = with_example_dropout(layers, generator=seeded(0))
    run = BayesRun(config=_config(DPMCDropout(rate=0.5)), members=3)
    members = torch.stack(_members(run, module, torch.ones(10, 3)))
    assert len(members[..., 0].unique()) == 30
    assert len(_members(BayesRun(config=_config(DPSGD())), Linear(3, 2), torch.ones(10, 3))) == 1


def test_sglds_members_are_its_last_snapshots():
    method = DPSGLD(convention="parameter-slot", step_size=1e-3, drift=1.0, snapshots=4, burn_in=0.5)
    run = BayesRun(config=_config(method, steps=10, sigma=0.0, clip=100.0), members=4)
    assert run.posterior_steps() == (6, 7, 8, 10)
    inputs, targets = _data()
    fitted = fit(run, Sequential(Linear(1, 2)), inputs, targets, loss=_squares, public=PUBLIC)
    members = list(member_outputs(run, fitted, inputs))
    weights = fitted.kept[8]
    assert_close(members[2], inputs @ weights[:2].reshape(2, 1).T + weights[2:])


def test_the_cnn_is_opacus_with_first_weights_of_the_seed():
    public = Public(input_shape=(1, 28, 28), classes=10, size=64.0)
    one, two, other = (network(PrivateConfig(architecture=CNN, seed=seed), public, device="cpu") for seed in (0, 0, 1))
    assert sum(p.numel() for p in one.parameters()) == 26_010
    images = torch.rand(2, 1, 28, 28, generator=seeded(0))
    assert_close(one(images), two(images))
    assert not torch.allclose(one(images), other(images))


def test_curves_have_the_noise_and_smoothness_that_are_said():
    curves = [simulated(seed) for seed in range(30)]
    assert all(c.x[0] <= c.test_x[0] and c.test_x[-1] <= c.x[-1] and (np.diff(c.x) >= 0).all() for c in curves)
    gaps = np.mean([np.diff(c.y) ** 2 for c in curves])  # neighbours differ by their noise, the curve hardly
    noises = np.array([0.3 * np.abs(c.x + 2.0) for c in curves]) ** 2
    assert isclose(gaps, np.mean(noises[:, 1:] + noises[:, :-1]), rel_tol=0.1)
