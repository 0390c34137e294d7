"""Training on a bound: it lowers the bound, moves nothing that is fixed, and repeats itself."""

import pytest
from backprop_toys import blobs, network
from torch import equal
from torch.nn import BatchNorm1d, Linear, ReLU, Sequential

import bounds
from pacdp.backprop import Examples, PosteriorSettings, f_kl, train_posterior
from pacdp.losses import bounded_cross_entropy
from pacdp.posterior import GaussianPosterior
from pacdp.stochastic import mean_risks
from tests.marks import every_case
from tests.pacdp.same import identical, left_alone
from tests.pacdp.toys import pair, seeded

LOSS = bounded_cross_entropy(classes=3)
SETTINGS = PosteriorSettings(steps=60, batch_size=64, step_size=0.02)


@pytest.fixture
def data():
    made = blobs(400)
    return Examples(*pair(made))


def start():
    module = network()
    return module, GaussianPosterior.around(module, std=0.3)


def trained(prior, module, data, **changes):
    given = {
        "objective": bounds.objectives.f_quad,
        "loss": LOSS,
        "settings": SETTINGS,
        "failure_prob": 0.05,
        "generator": seeded(1),
    }
    return train_posterior(prior, module, data, **{**given, **changes})


def value(posterior, prior, module, data):
    """A certificate of the surrogate that no training has seen computed."""
    (found,) = mean_risks(module, posterior, inputs=data.inputs, labels=data.labels, losses=(LOSS,), passes=20, seed=5)
    return bounds.maurer(risk=found.mean, kl_nats=posterior.kl_nats(prior), n=len(data.inputs), failure_prob=0.05).value


@every_case("objective", [bounds.objectives.f_classic, bounds.objectives.f_quad, f_kl])
def test_the_bound_improves(objective, data):
    module, prior = start()
    found = trained(prior, module, data, objective=objective)
    assert value(found, prior, module, data) < value(prior, prior, module, data) - 0.02


def test_what_is_fixed_stays(data):
    module = Sequential(network()[0], BatchNorm1d(8), ReLU(), Linear(8, 3)).eval()
    stds = {name: 0.0 if name in ("0.weight", "3.bias") else 0.2 for name, _ in module.named_parameters()}
    prior = GaussianPosterior.around(module, std=stds)
    settings = PosteriorSettings(steps=20, batch_size=32)
    with left_alone(module):
        found = trained(prior, module, data, settings=settings)
    for name in ("0.weight", "3.bias"):
        assert equal(found.means[name], prior.means[name])
        assert not found.stds[name].any()
    assert identical(found.buffers, prior.buffers)
    assert not equal(found.means["3.weight"], prior.means["3.weight"])
    assert not equal(found.stds["3.weight"].expand(3, 8), prior.stds["3.weight"].expand(3, 8))
    assert 0 < found.kl_nats(prior) < float("inf")


def test_without_a_step_the_posterior_is_the_prior(data):
    module, prior = start()
    assert trained(prior, module, data, settings=PosteriorSettings(steps=0)).kl_nats(prior) == 0.0


def test_seeds(data):
    module, prior = start()
    first, again, other = (trained(prior, module, data, generator=seeded(s)).means["0.weight"] for s in (1, 1, 2))
    assert equal(first, again)
    assert not equal(first, other)


def test_what_the_objective_is_told(data):
    told = []

    def spy(risk, kl_nats, **given):
        told.append((float(risk.detach()), float(kl_nats.detach()), given))
        return bounds.objectives.f_quad(risk, kl_nats, **given)

    module, prior = start()
    trained(prior, module, data, objective=spy, failure_prob=0.04, settings=PosteriorSettings(steps=7, batch_size=30))
    assert [given for *_, given in told] == [{"n": 400, "failure_prob": 0.04}] * 7
    assert told[0][1] == 0.0
    assert all(0 <= risk <= 1 for risk, *_ in told)
