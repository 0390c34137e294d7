"""What one example can move, and how much noise covers it."""

import math
from contextlib import nullcontext
from typing import get_args

import pytest
import torch
from clipped_networks import over_positions, slowly
from opacus.grad_sample.linear import compute_linear_norm_sample
from private_toys import (
    NETWORKS,
    clipped_sum,
    cnn,
    cross_entropy,
    data,
    dropout_network,
    flat,
    fresh,
    gradient,
    mlp,
    plain,
    private,
    scale_is_this_and_no_other,
)
from torch.nn import Linear
from torch.testing import assert_close
from toys import dtypes

from pacdp.private import SystemRandomness
from pacdp.step.clip import Clip, ClippingRule, clip_factors, row_norms
from pacdp.step.ghost import Ghost, linear
from pacdp.step.mechanism import MODES
from pacdp.step.sums import Reference
from pacdp.step.units import Network, Units, trained
from tests.marks import every_case, near, parametrize, refusal
from tests.pacdp.draws import rand, randn
from tests.pacdp.small_networks import Made
from tests.pacdp.toys import frozen, seeded

CLIP = 0.5
pytestmark = pytest.mark.usefixtures("known_network")


def batch(n=6):
    return data(n, seed=5).tensors


every_mode = parametrize("mode", MODES)


@parametrize("clipping", get_args(ClippingRule))
@parametrize("network", NETWORKS)
@every_mode
def test_one_example_moves_the_sum_by_at_most_the_clipping_norm(mode, network, clipping):
    usual, targets = batch()
    rest, how = torch.arange(6) != 2, {"mode": mode, "clipping": clipping}
    without, _ = clipped_sum(NETWORKS[network](), usual[rest], targets[rest], **how)
    for scale in (1e-4, 1.0, 1e6, 1e30, math.inf, math.nan):
        inputs = usual.clone()
        inputs[2] = scale * (inputs[2].abs() + 0.5)
        whole, optimizer = clipped_sum(NETWORKS[network](), inputs, targets, **how)
        assert torch.isfinite(whole).all()
        assert float((whole - without).norm()) <= CLIP * (1.0 + 1e-5)
        if not math.isfinite(scale):
            assert optimizer.nonfinite_examples == 1
            assert_close(whole, without, atol=1e-6, rtol=1e-6)
        if scale in (1.0, 1e6):
            assert float((whole - without).norm()) > 0.2 * CLIP


def test_an_example_without_a_number_leaves_the_masks_of_the_others():
    inputs, targets = batch()
    inputs[3] = math.nan
    found, _ = clipped_sum(dropout_network(rate=0.5), inputs, targets, mode="ghost")
    expected, _ = slowly(dropout_network(rate=0.5), inputs, targets)
    assert_close(found.double(), expected.sum(0), atol=1e-6, rtol=1e-5)


@parametrize("build", [mlp, lambda: over_positions(bias=False), lambda: frozen(mlp()), lambda: mlp().double(), cnn])
def test_layers_add_up_what_the_reference_does(build):
    inputs, targets = batch()
    inputs = inputs.to(next(build().parameters()).dtype)
    found, expected = [clipped_sum(build(), inputs, targets, mode=mode)[0] for mode in ("ghost", "reference")]
    assert_close(found, expected, atol=1e-6, rtol=1e-5)


class Overwrites(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.other = Linear(4, 4), Linear(4, 3)

    def forward(self, x):
        h = self.one(x) + 0
        out = self.other(h)
        h.mul_(2)
        return out


def test_what_went_into_a_layer_is_not_written_before_it_is_added_up():
    with refusal("modified by an inplace operation"):
        clipped_sum(Overwrites(), *batch(), mode="ghost")


@every_mode
def test_backward_within_autocast_is_one_after_it(mode):
    inputs, targets = batch()
    found = []
    for within in (True, False):
        module, optimizer, criterion, _, _ = private(fresh(mlp()), mode=mode, noise_multiplier=0.0)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = criterion(module(inputs), targets)
            if within:
                loss.backward()
        if not within:
            loss.backward()
        optimizer.step()
        found.append(gradient(module))
    assert_close(*found, atol=1e-6, rtol=1e-5)


class BySize(torch.nn.Module):
    """Between two layers the examples are in the order of their first numbers, where these differ in sign."""

    def __init__(self):
        super().__init__()
        self.one, self.other = Linear(4, 4), Linear(4, 3)

    def forward(self, x):
        order = (x[:, 0] > 0).long().sort(stable=True).indices
        return self.other(self.one(x[order])[order.argsort()])


def eight_places_on(own, x):
    return own.other(own.one(x.roll(8, 0)).roll(-8, 0) if len(x) > 8 else own.one(x))


def test_places_that_are_moved_by_eight_are_seen():
    """Of batches of eight the trials see nothing of it."""
    with refusal("in another order"):
        clipped_sum(Made(eight_places_on, one=Linear(4, 4), other=Linear(4, 3)), *batch(24), mode="ghost")


def test_examples_that_a_network_sorts_for_some_layers_have_no_ghost_clipping():
    inputs, targets = batch()
    with refusal("in another order"):
        clipped_sum(fresh(BySize()), inputs, targets, mode="ghost")
    found, expected = [
        clipped_sum(fresh(BySize()), inputs.abs(), targets, mode=mode)[0] for mode in ("ghost", "reference")
    ]
    assert_close(found, expected, atol=1e-6, rtol=1e-5)


class Again(torch.nn.Module):
    """Large examples go through a layer once more."""

    def __init__(self):
        super().__init__()
        self.one, self.other = Linear(4, 4), Linear(4, 3)

    def forward(self, x):
        with torch.no_grad():
            gate = self.one(x).sigmoid()
        h, large = self.one(x), x.abs().amax(1) > 9.0
        return self.other(gate * (h.index_put((large,), self.one(h[large])) if large.any() else h))


@parametrize("large", [1, 2, 6])
def test_a_layer_that_some_examples_pass_twice_is_refused(large):
    ghost, inputs = Ghost(fresh(Again()), Clip(CLIP)), batch()[0]
    for times in (1.0, 100.0):  # of 6 rows and 1 torch would make 6
        inputs[:large] *= times
        with torch.enable_grad():
            outputs = ghost([inputs], {})
        with refusal("another number of rows") if times > 1.0 and large < 6 else nullcontext():
            ghost.sum([outputs], [torch.ones_like(outputs)])


class Gated(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.gate, self.next = torch.nn.Parameter(torch.ones(4)), Linear(4, 3)

    def forward(self, x, mask):
        return self.next((x @ mask) * self.gate)


class Causal(torch.nn.Module):
    """A layer with a weight of its own is given a mask that all examples share."""

    def __init__(self):
        super().__init__()
        self.layer = fresh(Gated())
        self.register_buffer("mask", torch.ones(4, 4).tril())

    def forward(self, x):
        return self.layer(x, self.mask)


@parametrize("n", [3, 4])
def test_a_mask_of_as_many_rows_as_the_batch_is_not_cut_into_examples(n):
    inputs, targets = batch(n)
    found, expected = [clipped_sum(Causal(), inputs, targets, mode=mode)[0] for mode in ("ghost", "reference")]
    assert_close(found, expected, atol=1e-6, rtol=1e-5)


@dtypes
@parametrize("clipping", get_args(ClippingRule))
@every_case("length", [1, 129, 3000])
def test_clipped_rows_are_no_longer_than_the_clipping_norm(length, dtype, clipping):
    scales = torch.logspace(-6, 30, 2000, dtype=dtype)[:, None]
    rows = randn(2000, length, dtype=dtype) * scales
    factors, finite, scale, *_ = clip_factors(row_norms(rows), Clip(CLIP, rule=clipping), dtype)
    exact = (scale * (factors.to(dtype)[:, None] * rows)).double()[finite].norm(dim=1)
    assert float(exact.max()) <= CLIP
    assert float(exact.max()) > CLIP * (1.0 - 1e-4)
    assert factors[~finite].sum() == 0.0
    assert len(clip_factors(torch.zeros(0), Clip(CLIP)).factors) == 0


def test_norms_of_long_rows_are_not_too_small():
    row = rand(1, 4_000_000).pow(8)
    exact = float(row.double().norm())
    assert float(row.norm(2, dim=-1)) < exact * (1.0 - 1e-5)  # what a plain single-precision norm says
    assert float(row_norms(row)) == near(exact, rel=1e-8)


def test_ghost_norms_of_cancelling_sequences_are_not_too_small():
    layer = fresh(Linear(16, 8))
    half = randn(3, 64, 16)
    inputs = torch.cat([half, half + 1e-4 * randn(half.shape, seed=1)], 1)
    signs = torch.cat([torch.ones(64), -torch.ones(64)])[None, :, None].expand(3, 128, 8)
    norms = linear(layer, inputs, signs).norms
    exact = torch.einsum("nto,nti->noi", signs.double(), inputs.double()).flatten(1).norm(dim=1)
    theirs = compute_linear_norm_sample(layer, [inputs], signs)[layer.weight]
    assert float((theirs.double() / exact - 1.0).abs().max()) > 0.1
    assert (norms[layer.weight] >= exact).all()
    assert_close(norms[layer.weight], exact, rtol=0.05, atol=0.0)
    assert float(norms[layer.bias].max()) == 0.0


@parametrize("most", [0, 100])
def test_gradients_too_many_to_be_kept_are_summed_with_those_that_are(monkeypatch, most):
    monkeypatch.setattr("pacdp.step.ghost._KEPT", most)
    network, inputs = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3), torch.nn.Flatten()), randn(5, 1, 6, 6)
    ghost, slopes = Ghost(network, Clip(1e9)), randn(5, 32, seed=1)
    with torch.enable_grad():
        outputs = ghost([inputs], {})
        exact = torch.autograd.grad(network(inputs), [*network.parameters()], slopes)
    for found, expected in zip(ghost.sum([outputs], [slopes]).total.values(), exact, strict=True):
        assert_close(found, expected, rtol=1e-4, atol=1e-4)


def used_twice():
    layer = torch.nn.Linear(1, 1)
    return torch.nn.Sequential(layer, layer)


PLACES = 2000
OVER_PLACES = {  # a layer whose gradient by every weight is the sum of the slopes over places, or near it
    "linear": (torch.nn.Linear(1, 1), torch.ones(2, PLACES, 1)),
    "embedding": (torch.nn.Embedding(2, 1), torch.zeros(2, PLACES, dtype=torch.long)),
    "one dimension": (torch.nn.Conv1d(1, 1, 1), torch.ones(2, 1, PLACES)),
    "two dimensions": (torch.nn.Conv2d(1, 1, 1), torch.ones(2, 1, 40, PLACES // 40)),
    "norm": (torch.nn.GroupNorm(1, 1), randn(2, 1, PLACES)),
    "twice": (used_twice(), torch.ones(2, PLACES, 1)),
}


def shuffled(size):
    half = size * rand(PLACES // 2)
    return torch.cat([half, -half])[torch.randperm(PLACES, generator=seeded(0))]


def always_rounded_up(size):
    """Small slopes each of which a single-precision sum behind the first takes for 2."""
    slopes = torch.full((PLACES,), 1.45)
    slopes[0] = size
    slopes[-1] = -float(slopes[:-1].double().sum())
    return slopes


@parametrize("name", OVER_PLACES)
@parametrize("slopes", [shuffled(1e14), shuffled(1e38), always_rounded_up(2.0**24)], ids=["large", "huge", "rounded"])
def test_slopes_that_cancel_over_places_add_no_more_than_the_clip_norm(name, slopes):
    network, inputs = OVER_PLACES[name]
    ghost, cancelling = Ghost(network, Clip(1.0)), slopes
    with torch.enable_grad():
        outputs = ghost([inputs], {})
    slopes = torch.zeros_like(outputs).flatten(1)
    slopes[1], slopes[0, 0] = cancelling, 1.0
    both = ghost.sum([outputs], [slopes.view_as(outputs)]).total
    with torch.enable_grad():
        outputs = ghost([inputs], {})
    slopes[1] = 0.0
    without = ghost.sum([outputs], [slopes.view_as(outputs)]).total
    for hook in ghost.hooks:
        hook.remove()
    moved = torch.cat([(both[k] - without[k]).double().flatten() for k in both]).norm()
    assert moved <= 1.0 + 1e-5, moved


def gradients(mode=None, *, inputs=None, targets=None, draws=200, network=cnn, randomness=None, **numbers):
    """What steps without a learning rate see, one row a step; of empty batches, unless others are given."""
    if inputs is None:
        inputs, targets = torch.zeros(0, 4), torch.zeros(0, dtype=torch.int64)
    module, optimizer, criterion, _, _ = private(network(), mode=mode, lr=0.0, seed=11, **numbers)
    optimizer.randomness = randomness or optimizer.randomness
    found = []
    for _ in range(draws):
        plain(module, optimizer, inputs, targets, loss=criterion)
        found.append(gradient(module).double())
    return torch.stack(found)


EXACT = 1.3 * CLIP / 7.0
NUMBERS = {"noise_multiplier": 1.3, "expected_batch_size": 7.0}


@every_mode
def test_noise_has_exactly_the_scale_that_is_accounted(mode):
    sample = gradients(mode, **NUMBERS)
    assert scale_is_this_and_no_other(sample, EXACT)
    correlations = torch.corrcoef(sample.T) - torch.eye(sample.shape[1])
    assert float(correlations.abs().max()) < 6.0 / math.sqrt(len(sample))
    steps = (sample[1:] * sample[:-1]).mean() / EXACT**2
    assert abs(float(steps)) < 5.0 / math.sqrt(sample[1:].numel())


def test_the_system_s_noise_and_noise_over_a_filled_batch_have_that_scale_too():
    # no seed, so that draws enough make the test sure
    sample = gradients(randomness=SystemRandomness(), draws=320, **NUMBERS)
    assert scale_is_this_and_no_other(sample, EXACT)
    inputs, targets = batch()
    clean, _ = clipped_sum(mlp(), inputs, targets)
    sample = gradients(inputs=inputs, targets=targets, network=mlp, **NUMBERS)
    assert scale_is_this_and_no_other(sample - clean / 7.0, EXACT)


@every_mode
@parametrize("reduction", ["mean", "sum"])
def test_the_divisor_is_fixed_whatever_the_reduction_and_the_batch(mode, reduction):
    inputs, targets = batch()
    module, optimizer, criterion, _, _ = private(
        mode=mode, noise_multiplier=0.0, expected_batch_size=20.0, loss_reduction=reduction)  # fmt: skip
    plain(module, optimizer, inputs, targets, loss=criterion)
    expected = clipped_sum(mlp(), inputs, targets, mode="reference")[0]
    assert_close(20.0 * gradient(module), expected, atol=1e-6, rtol=1e-5)


def test_pre_noise_is_inside_the_clipping():
    network, units = Network.of(mlp(), cross_entropy), Units.group(data(1, seed=5), None)
    summer = Reference(network, units, Clip(CLIP), pre_noise=3.0, generator=seeded())
    one, weights = torch.tensor([0]), trained(network.module)
    sums = torch.stack([flat(summer(one, weights).total).double() for _ in range(40)])
    norms = sums.norm(dim=1)
    assert float(norms.max()) <= CLIP * (1.0 + 1e-6)
    assert float(norms.min()) > 0.99 * CLIP  # the pre-noise alone has norm about 20
    assert float(sums.std(0).min()) > 0.0
