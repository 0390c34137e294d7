"""Clipped sums of many chains by compiled layers: their laws, their slow twin, and faults that are found out."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from chain_sums import COMPILED, draw_always, objective_of, weights_of
from torch import equal, nn
from torch.nn import Linear, Sequential
from torch.testing import assert_close
from toys import keys_of, toy_data

from pacdp.chains.native import dense, threads
from pacdp.chains.native.dense import product
from pacdp.chains.native.network import NativeNetwork
from pacdp.data import Dataset
from pacdp.losses import bounded_cross_entropy
from pacdp.objective import Objective
from pacdp.step import chain_sums
from pacdp.step.chain_sums import CompiledSums
from pacdp.step.clip import Clipping
from tests.marks import at_most, parametrize, refusal
from tests.pacdp.draws import randn


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    assert torch.get_num_threads() == 2
    torch.set_num_threads(before)


@at_most(2, ("kind", "clip_norm"), [(kind, norm) for kind in COMPILED for norm in (0.3, None)])
def test_a_chain_has_the_same_bits_alone_beside_others_in_any_order_and_on_two_threads(kind, clip_norm, two_threads):
    objective, keys = objective_of(kind, clip_norm), keys_of(1, 2, 1, 4, 5)
    weights = weights_of(objective, 5)

    def of(chains, count):
        torch.set_num_threads(count)
        return [x.clone() for x in objective.estimate(weights[chains].clone(), keys.select(chains), 7)[:3]]

    together = of([0, 1, 2, 3, 4], 2)
    for chains, count in (([0, 1, 2, 3, 4], 1), ([3, 0, 4, 2, 1], 1), *(([k], 2) for k in range(5))):
        for found, whole in zip(of(chains, count), together, strict=True):
            assert equal(found, whole[chains])
    torch.set_num_threads(2)


@at_most(1, "kind", COMPILED)
def test_padding_changes_nothing(kind, whole):
    """A batch's sum is that of its examples, each alone; shapes around a multiple of the padding."""
    objective = objective_of(kind, 0.2)

    def sum_of(chosen):
        draw_always(objective, chosen)
        return objective.estimate(objective.weights(), keys_of(0), 0).gradient[0].double()

    for count in (1, 15, 16, 17, 33) if whole else (17,):
        each = torch.stack([sum_of([i]) for i in range(count)])
        assert each.norm(dim=1).max() <= 0.2 / objective.batch_size
        assert (sum_of(list(range(count))) - each.sum(dim=0)).norm() < 1e-5 * each.norm(dim=1).sum()


@parametrize("scale", [1e-6, 1.0, 30.0])
def test_no_example_contributes_more_than_the_clip_norm_through_convolutions(scale):
    data = toy_data(n=8, shape=(1, 28, 28))
    data = Dataset("scaled", data.inputs * np.float32(scale), data.labels, 2)
    objective = objective_of("conv", 0.01, data=data, batch_size=1)
    norms = []
    for i in range(8):
        draw_always(objective, [i])
        norms.append(float(objective.estimate(objective.weights(), keys_of(0), 0).gradient.double().norm()))
    assert 0.01 * (1 - 2e-5) < max(norms) <= 0.01


@parametrize("compiled_form", [True, False], ids=["compiled", "reference"])
@parametrize("clip_norm", [1.0, 1e-3, 1e-5])
def test_subnormal_factors_do_not_bring_a_gradient_out_of_its_ball(clip_norm, compiled_form, whole):
    ratios, first = [], 260 if whole else 286
    data = toy_data(n=300)
    inputs = data.inputs.copy()
    inputs[first:] = np.outer(np.linspace(0.05, 3.3, 300 - first) * 1e38, [1.0, 0.0, 0.0, 0.0, 0.0])
    model = Sequential(Linear(5, 1))
    for parameter in model.parameters():
        nn.init.zeros_(parameter)
    loss = bounded_cross_entropy(classes=2)
    data = Dataset("far", inputs, data.labels, 2)
    objective = Objective(model, loss, data, batch_size=128, clip_norm=clip_norm)
    assert isinstance(objective.network, NativeNetwork)
    objective._sums = CompiledSums(objective.network, model, loss) if compiled_form else None
    for far in range(first, 300):
        draw_always(objective, [far])
        for output in (0.0, 20.0):  # the derivative by the output is about a half, or 1e-9
            weights = objective.weights()
            weights[0, -1] = output
            moved = float(objective.estimate(weights, keys_of(0), 0).gradient.double().norm())
            ratios.append(moved * 128 / clip_norm)
    assert max(ratios) <= 1.0


def test_batches_go_through_in_chunks_of_a_fixed_size(monkeypatch):
    objective = objective_of("sparse")
    weights, keys = weights_of(objective), keys_of(0, 1, 2)
    whole = objective.estimate(weights, keys, 0).gradient.clone()
    assert objective._sums is not None
    monkeypatch.setattr(objective._sums, "_most", 6)
    assert (objective.estimate(weights, keys, 0).gradient - whole).norm() < 1e-6 * whole.norm()


def a_padded_row(patch):
    """Padding that is not zero, whose slopes come out of every layer."""
    true = dense.clipped.through_layer

    def ones(rows, count):
        whole = np.ones((count, rows.shape[1]), rows.dtype)
        whole[: len(rows)] = rows
        return whole

    def leaking(slope, out, relu, inputs, squares):
        true(slope, out, relu, inputs, squares)
        slope[len(squares) :] = 1.0

    patch.setattr(dense, "filled", ones)
    patch.setattr(dense.clipped, "through_layer", leaking)


def without_biases(patch):
    true = dense.PaddedDense.propagate

    def faulty(layer, *given):
        layer._squares = layer._squares - 1.0
        return true(layer, *given)

    patch.setattr(dense.PaddedDense, "propagate", faulty)


def of_the_chain_before():
    """Factors by the norms of the chain that came before."""
    kept = {}
    true = chain_sums.clip_factors

    def faulty(norms, clip, dtype):
        own = true(norms, clip, dtype)
        before, kept[len(norms)] = kept.get(len(norms), own), own
        return before

    return faulty


def one_for_all(norms, clip, dtype):
    """Every example's gradient is scaled alike."""
    finite = torch.isfinite(norms)
    return Clipping((clip.norm / norms.mean()).clamp(max=1.0).expand(len(norms)), finite, 1.0, norms, clip.norm)


FAULTS = {
    "a padded row leaks": a_padded_row,
    "a norm of another chain": lambda patch: patch.setattr(chain_sums, "clip_factors", of_the_chain_before()),
    "one factor for all": lambda patch: patch.setattr(chain_sums, "clip_factors", one_for_all),
    "biases left out of the norm": without_biases,
}


@parametrize("far", [None, 3e38])
@parametrize("fault", FAULTS)
def test_a_planted_fault_is_found_at_set_up_and_the_reference_runs(fault, far, monkeypatch):
    """Records without a finite gradient, among those that are looked at first, hide nothing."""
    data = toy_data(n=80)
    if far is not None:
        inputs = data.inputs.copy()
        inputs[[26, 52]] = far
        data = replace(data, inputs=inputs)
    honest = objective_of("small", 0.2, data=data)
    assert honest._sums is not None
    weights, keys = weights_of(honest), keys_of(0, 1, 2)
    expected = honest.estimate(weights, keys, 0).gradient.clone()
    FAULTS[fault](monkeypatch)
    with pytest.warns(UserWarning, match=r"not taken by compiled layers .* each clipped by itself"):
        objective = objective_of("small", 0.2, data=data)
    monkeypatch.undo()
    found = objective.estimate(weights, keys, 0).gradient
    assert (found - expected).norm() < 1e-5 * expected.norm()


@parametrize("clip_norm", [0.2, None])
def test_a_loss_that_is_not_compiled_will_do(clip_norm):
    ours = objective_of("classes", clip_norm)
    plain = Objective(
        ours.model, replace(ours.loss, compiled=None), toy_data(n=80, classes=4), batch_size=20, clip_norm=clip_norm
    )
    weights, keys = weights_of(ours), keys_of(0, 1, 2)
    left = [x.clone() for x in ours.estimate(weights, keys, 0)[:3]]
    for one, other in zip(left, plain.estimate(weights, keys, 0)[:3], strict=True):
        assert_close(one, other, rtol=1e-5, atol=1e-7)


@parametrize("shape", [(5, 7, 3), (128, 150, 130), (150, 128, 130)])
def test_products_are_true_without_onednn_too_and_do_not_depend_on_threads(shape, monkeypatch, two_threads):
    rows, inner, columns = shape
    left, right = (randn(size, seed=1) for size in ((inner, rows), (columns, inner)))
    bias, out = randn(columns, seed=2), torch.empty(rows, columns)
    exact = left.double().T @ right.double().T + bias.double()
    two = product(left.mT, right.mT, bias=bias)
    assert product(left.mT, right.mT, bias=bias, out=out) is out
    torch.set_num_threads(1)
    assert equal(two, product(left.mT, right.mT, bias=bias))
    torch.set_num_threads(2)
    monkeypatch.setattr(dense, "_linear", None)
    for found in (two, out, product(left.mT, right.mT, bias=bias)):
        assert (found.double() - exact).norm() < 1e-6 * exact.norm()


def test_every_job_is_done_once_and_an_error_comes_back(two_threads):
    objective_of("sparse")  # a parallel loop has run: numba's threading layer is known
    seen = []

    def run(number, part):
        seen.append((number, torch.get_num_threads()))
        if number:
            raise ValueError("no")

    with refusal("no"):
        threads.spread(run, [range(2), range(2, 4)])
    assert sorted(seen) == [(0, 1), (1, 1)]
