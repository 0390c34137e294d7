"""Torch modules in one call: the default training, one's own, and what is refused."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import TensorDataset

import pacdp
from pacdp.backprop import FitSettings
from pacdp.data import DataError
from pacdp.selfcert.plan import HELD_OUT, NOISY, PAC_BAYES

QUICK = pacdp.SelfCertifySettings(fit=FitSettings(epochs=20, batch_size=32, step_size=0.02), noisy_steps=30)


def problem(n=300, *, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1.0, 1.0, (n, 4)).astype(np.float32)
    return x, (x[:, 0] > 0).astype(np.int64)


def network(seed=0):
    with torch.random.fork_rng(devices=[]):
        torch.set_rng_state(torch.Generator().manual_seed(seed).get_state())
        return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))


def test_a_network_gets_three_certificates_and_predicts_with_the_smallest():
    x, y = problem()
    module = network()
    before = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    found = pacdp.self_certify(module, (x, y), routes=[HELD_OUT, PAC_BAYES, NOISY], settings=QUICK)
    assert [one.route for one in found.tried if one.certificate] == [HELD_OUT, PAC_BAYES, NOISY]
    assert found.certificate.status == "rigorous"
    assert np.mean(found.predict(x) != y) < found.certificate.value < 0.5
    np.testing.assert_allclose(found.predict_proba(x).sum(axis=1), 1.0)
    assert all(torch.equal(before[name], tensor) for name, tensor in module.state_dict().items())
    assert module.training
    by_route = {one.route: one for one in found.tried}
    kept = by_route[PAC_BAYES].certificate.hypothesis("prior saw none of these rows")
    assert (kept.standing, by_route[PAC_BAYES].certificate.name) == ("proved", "one_draw_disintegrated")


def test_the_draw_that_is_certified_is_the_one_that_predicts():
    x, y = problem(400, seed=3)
    found = pacdp.self_certify(network(), (x, y), routes=PAC_BAYES, settings=QUICK, train_share=0.5, seed=2)
    from pacdp.selfcert.examples import given, split

    _, bound = split(given((x, y), seed=2), train=found.train, seed=2)
    assert np.mean(found.predict(bound.inputs) != bound.labels) == pytest.approx(found.tried[0].error)


def test_datasets_of_pairs_and_tensors_say_what_arrays_say():
    x, y = problem()
    how = {"routes": HELD_OUT, "settings": QUICK}
    pairs = TensorDataset(torch.tensor(x), torch.tensor(y))
    found = [pacdp.self_certify(network(), data, **how) for data in ((x, y), tuple(pairs.tensors), pairs)]
    assert len({one.certificate.value for one in found}) == 1


def test_a_training_function_of_one_s_own_sees_the_training_part_alone():
    x, y = problem(200)
    seen = []

    def train(module, inputs, labels):
        seen.append(inputs)
        optimizer = torch.optim.SGD(module.parameters(), lr=1.0)
        for _ in range(60):
            optimizer.zero_grad()
            nn.functional.cross_entropy(module(inputs), labels).backward()
            optimizer.step()

    found = pacdp.self_certify(network(), (x, y), train=train, routes=HELD_OUT)
    assert [len(each) for each in seen] == [found.train]
    assert np.mean(found.predict(x) != y) < 0.2


def test_a_network_with_the_bound_s_rows_in_a_buffer_is_refused():
    x, y = problem(100)
    module = network()
    module.register_buffer("held", torch.tensor(x))
    with pytest.raises(DataError, match="holds"):
        pacdp.self_certify(module, (x, y), routes=HELD_OUT, settings=QUICK)


def test_training_that_ends_with_nan_is_a_sentence():
    def spoil(module, inputs, labels):
        with torch.no_grad():
            module[0].weight.fill_(float("nan"))

    with pytest.raises(ValueError, match="your model diverged"):
        pacdp.self_certify(network(), problem(100), train=spoil, routes=HELD_OUT)
    wild = pacdp.SelfCertifySettings(fit=FitSettings(epochs=5, optimizer="sgd", step_size=1e30))
    with pytest.raises(ValueError, match="diverged"):
        pacdp.self_certify(network(), problem(100), settings=wild, routes=HELD_OUT)


@pytest.mark.parametrize(
    ("module", "labels", "said"),
    [
        (nn.Sequential(nn.Linear(4, 1)), None, "one logit for each class"),
        (nn.Sequential(nn.Linear(4, 2)), np.array([0, 1, 2] * 33 + [0]), "labels must be from 0 to 1"),
        (nn.Sequential(nn.Linear(5, 2)), None, "network fails on inputs"),
        (nn.Flatten(), None, "must have parameters"),
        (nn.Sequential(nn.Linear(4, 2)), np.array(["a", "b", "c", "d"] * 25), "one output for each class"),
    ],
)
def test_networks_that_do_not_fit_are_refused(module, labels, said):
    x, y = problem(100)
    with pytest.raises(ValueError, match=said):
        pacdp.self_certify(module, (x, y if labels is None else labels), settings=QUICK)
