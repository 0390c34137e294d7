"""Gradients of many chains, clipped or not, by compiled layers, at once or one by one, are those of their slow twin."""

from copy import deepcopy

import numpy as np
import pytest
import torch
from chain_sums import COMPILED, KINDS, objective_of, twin, weights_of
from numpy.random import default_rng
from torch.func import functional_call
from torch.testing import assert_close
from toys import keys_of, toy_data

from pacdp.chains import Keys
from pacdp.chains.native.network import NativeNetwork
from pacdp.data import Dataset
from pacdp.losses import zero_one
from tests.marks import every_case, near, parametrize, slow

pytestmark = pytest.mark.filterwarnings("ignore:There is a performance drop")
FORMS = ["auto", "vmap", "loop"]
SOME, SPARSE = ["small", "group"], ["sparse", "wide", "one layer"]


def require_the_twin_s(objective, keys, tick, known):
    """``known`` keeps what the twin said of each chain."""
    weights = weights_of(objective, keys.count)
    gradient, losses, errors = objective.estimate(weights, keys, tick)[:3]
    drawn, group = objective.draw(keys, tick)
    for k, g in enumerate(group):
        labels = objective._labels_of(k)
        if not len(drawn[g]):
            assert not gradient[k].any()
            assert not losses[k]
            assert not errors[k]
            continue
        expected, size = known.get(k) or known.setdefault(k, twin(objective, weights[k], drawn[g], labels))
        assert (gradient[k].double() - expected).norm() < (5e-5 if objective._sums is None else 1e-5) * size
        outputs = functional_call(
            objective.model, objective.layout.views(weights[k]), (objective.examples[0][drawn[g]],)
        )
        for found, loss in ((losses, objective.loss), (errors, zero_one())):
            assert float(found[k]) == near(float(loss(outputs, labels[drawn[g]]).mean()), rel=1e-5)


@every_case("long", [False, slow(True)], ids=["short", "long"])
@parametrize("kind", KINDS)
def test_a_chain_s_gradient_is_that_of_its_slow_twin(kind, long):
    """Clipped, hardly clipped or not at all, with batches of its own or shared ones, and with labels of its own."""
    size = KINDS[kind][2]
    labels = [default_rng(k).permutation(KINDS[kind][0]().labels) for k in range(3)]
    ways = (((5, 6, 6), 0.05, labels), ((4, 4, 4), 5.0, None), ((3, 2, 3), None, labels))
    for seeds, clip_norm, own in ways if kind in (COMPILED if long else ["small", "sparse", "group"]) else ways[:1]:
        known = {}
        for batching in FORMS if size < (100 if long else 40) else FORMS[:2]:
            torch.manual_seed(0)
            objective, keys = (
                objective_of(kind, clip_norm, batching=batching, labels=own),
                Keys.derive(seeds, [0, 0, 0]),
            )
            assert len(objective.draw(keys, 3)[0]) == len(set(seeds))
            assert clip_norm is None or objective.has_fixed_shapes(keys) == (batching == "vmap")
            require_the_twin_s(objective, keys, 3, known)
            if kind in COMPILED and batching == "auto":
                assert isinstance(objective.network, NativeNetwork)
                assert (objective.network.rows is not None) == (kind in SPARSE)


every_form = parametrize("batching", FORMS)


@every_form
@parametrize("kind", ["sparse", "classes"])
def test_outputs_are_the_module_s_in_parts_too(kind, batching):
    objective = objective_of(kind, None, batching=batching)
    with torch.no_grad():
        exact = deepcopy(objective.model).double()(objective.examples[0].double())
    for chunk in (None, 7, 80):
        found = objective.logits(objective.weights()[0], chunk=chunk)
        assert_close(found.double(), exact, rtol=1e-5, atol=1e-6)


@every_form
def test_nan_weights_give_nan_in_their_own_chain_and_no_error(batching):
    objective, keys = objective_of("sparse", None, batching=batching), keys_of(1, 2, 3)
    weights = weights_of(objective)
    clean = objective.estimate(weights, keys, 0).gradient.clone()
    weights[1, -1] = torch.nan
    found = objective.estimate(weights, keys, 0)
    assert torch.isnan(found.loss[1])
    assert found.error[1] == 1
    assert torch.isnan(found.gradient[1]).any()
    assert_close(found.gradient[[0, 2]], clean[[0, 2]])


@every_form
def test_a_chain_with_an_empty_batch_stands_still_beside_others(batching):
    objective, keys = objective_of("small", batching=batching, batch_size=1), keys_of(*range(6))
    sizes = [len(objective.draw(keys.select([k]), 0)[0][0]) for k in range(6)]
    assert 0 in sizes
    assert max(sizes) > 0
    require_the_twin_s(objective, keys, 0, {})


some_kinds = parametrize("kind", SOME)


@every_form
@some_kinds
def test_an_example_whose_gradient_is_not_finite_counts_as_zero(kind, batching):
    plain = toy_data(n=16)
    data = Dataset("poisoned", np.where(np.arange(16)[:, None] < 3, np.float32(3e38), plain.inputs), plain.labels, 2)
    broken, whole = (objective_of(kind, 0.1, batching=batching, data=one, batch_size=10) for one in (data, plain))
    weights, keys = whole.weights().repeat(2, 1), keys_of(1, 2)
    for tick in range(5):
        found = broken.estimate(weights, keys, tick)
        assert found.loss.isfinite().all()
        for k, chosen in enumerate(broken.draw(keys, tick)[0]):
            exact, size = twin(whole, weights[k], chosen[chosen > 2], whole._labels_of(k))
            assert (found.gradient[k].double() - exact).norm() < 1e-5 * size


@every_form
@some_kinds
def test_one_example_moves_the_estimate_by_at_most_its_share(kind, batching):
    data, fifth = toy_data(n=16), np.arange(16) == 5
    inputs = np.where(fifth[:, None], np.float32(50.0), data.inputs)
    other = Dataset("other", inputs, np.where(fifth, 1 - data.labels, data.labels), 2)
    clip_norm, keys, moved = 0.05, keys_of(1, 2, 3), []
    risks = [objective_of(kind, clip_norm, batching=batching, data=one, batch_size=10) for one in (data, other)]
    for tick in range(20):
        left, right = (risk.estimate(risk.weights().repeat(3, 1), keys, tick).gradient for risk in risks)
        moved.append((left - right).norm(dim=1))
    assert float(torch.stack(moved).max()) <= 2 * clip_norm / 10 * (1 + 1e-5)  # replaced: removed and added
    assert float(torch.stack(moved).max()) > 0.5 * clip_norm / 10
    assert float(torch.stack(moved).min()) < 1e-7  # where it is in no batch
