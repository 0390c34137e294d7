"""With a clip norm C, an example adds at most C / batch_size to the estimate; of many chains at once: step/."""

from collections import OrderedDict
from dataclasses import replace

import numpy as np
import torch
from chain_sums import draw_always
from scipy import stats
from small_networks import reused, slopes, tied
from torch import nn
from torch.nn import Flatten, Linear, ReLU, Sequential
from torch.nn.utils import prune
from toys import keys_of, seeded, toy_data, toy_objective

from pacdp.losses import bounded_cross_entropy, cross_entropies
from pacdp.models import Architecture, build
from pacdp.objective import Objective
from pacdp.step import gradients as clipped
from pacdp.step.clip import Clip
from pacdp.step.gradients import clipped_gradient
from pacdp.step.units import Network, trained
from tests.marks import at_most, every_case, parametrize, refusal
from tests.pacdp.toys import pair

LOSS = bounded_cross_entropy(classes=3)


def gradient_on(objective, indices):
    """The gradient of a batch that is given instead of drawn."""
    draw_always(objective, indices)
    return objective.estimate(objective.weights(), keys_of(0), 0).gradient[0].clone()


def drawn(objective, tick):
    """The minibatch of a chain."""
    (indices,), _ = objective.draw(keys_of(1), tick)
    return indices


def test_every_example_joins_independently_with_probability_batch_size_over_n():
    """And without a clip norm, draws are uniform and with replacement."""
    n, batch_size, draws = 100, 20, 2000
    objective = toy_objective(toy_data(n=n), batch_size=batch_size, clip_norm=1.0)
    joined = torch.zeros(draws, n)
    for tick, row in enumerate(joined):
        indices = drawn(objective, tick)
        assert torch.equal(indices, indices.unique())
        row[indices] = 1
    total, q = int(joined.sum()), batch_size / n
    assert stats.binomtest(total, draws * n, q).pvalue > 1e-6
    for wrong in (0.95, 1.05):
        assert stats.binomtest(total, draws * n, wrong * q).pvalue < 1e-6
    # every example alike; and sizes vary as they must, which those of a fixed batch would not
    for counts, of, freedom in ((joined.sum(0), draws, n), (joined.sum(1), n, draws)):
        spread = ((counts.double() - of * q) ** 2).sum() / (of * q * (1 - q))
        assert 1e-6 < stats.chi2(freedom).cdf(float(spread)) < 1 - 1e-6
    objective = toy_objective(toy_data(n=30), batch_size=30, clip_norm=1.0)
    assert drawn(objective, 0).tolist() == list(range(30))
    objective = toy_objective(toy_data(n=20), batch_size=50)
    draws = torch.cat([drawn(objective, tick) for tick in range(400)])
    assert len(draws) == 400 * 50
    assert stats.chisquare(torch.bincount(draws, minlength=20).numpy()).pvalue > 1e-6


@at_most(2, "hidden", [(7, 6), (3000,)])
@parametrize("scale", [1e-6, 1.0, 30.0])
def test_no_example_contributes_more_than_the_clip_norm_in_exact_arithmetic(hidden, scale):
    data = toy_data(n=8, shape=(500,))
    data = replace(data, inputs=data.inputs * np.float32(scale))
    objective = toy_objective(data, architecture=Architecture(hidden=hidden), batch_size=1, clip_norm=0.3)
    norms = [float(gradient_on(objective, [i]).double().norm()) for i in range(8)]
    assert max(norms) <= 0.3
    if scale >= 1.0:
        assert max(norms) > 0.3 * (1 - 2e-5)


class Doubled(Linear):
    """A subclass that computes something else."""

    def forward(self, input):
        return 2.0 * super().forward(input)


def reused_relu():
    relu = ReLU()
    return Sequential(Linear(6, 8), relu, Linear(8, 8), relu, Linear(8, 3))


def layers(middle=ReLU, first=Linear):
    return Sequential(first(6, 8), middle(), Linear(8, 3))


def changed(change):
    """What makes a network and changes it."""

    def made():
        module = layers()
        change(module)
        return module

    return made


def replace_forward(module):
    module[1].forward = torch.sin


def built(shape, **how):
    return build(Architecture(**how), input_shape=shape, classes=3, generator=seeded(0))


NETWORKS = {
    "plain": lambda: built((6,), hidden=(7, 6)),
    "group": lambda: built((6,), hidden=(8,), norm="group"),
    "conv": lambda: built((1, 28, 28), name="conv", norm="group"),
    "a ReLU used twice": reused_relu,
    "a layer used twice": reused,
    "tied weights": tied,
    "ELU in place on a layer's outputs": lambda: layers(lambda: nn.ELU(inplace=True)),
    "a forward hook": changed(lambda m: m[0].register_forward_hook(lambda layer, args, out: torch.tanh(out))),
    "a hook before the network": changed(
        lambda m: m.register_forward_pre_hook(lambda layer, args: (args[0].square(),))
    ),
    "pruned": changed(lambda m: prune.l1_unstructured(m[0], "weight", amount=0.5)),
    "parametrised": changed(lambda m: nn.utils.parametrizations.weight_norm(m[0])),
    "a forward of its own": changed(replace_forward),
    "a subclass": lambda: layers(first=Doubled),
    "layers on positions": lambda: Sequential(Linear(6, 4), Flatten(), Linear(12, 3)),
    "flattened in part": lambda: Sequential(Flatten(2), Linear(6, 4), Flatten(), Linear(12, 3)),
    "nested, without a bias": lambda: Sequential(Sequential(Linear(6, 8, bias=False), ReLU()), Linear(8, 3)),
    "a parameter beside": changed(lambda m: m[1].register_parameter("idle", nn.Parameter(torch.ones(2)))),
}
SHAPES = {"conv": (1, 28, 28), "layers on positions": (3, 6), "flattened in part": (3, 2, 3)}
"""Of inputs; those of the others are (6,)."""


@every_case("name", NETWORKS)
@parametrize("quantile", [0.0, 0.5, 1.0], ids=["all clipped", "half clipped", "none clipped"])
def test_clipped_sums_are_those_of_the_network_itself(name, quantile):
    """Slow twin: module(x) and .backward(), one example at a time, then clipped; the normaliser is fixed."""
    torch.manual_seed(0)
    module, data = NETWORKS[name](), toy_data(n=6, classes=3, shape=SHAPES.get(name, (6,)))
    each = []
    for x, y in zip(*pair(data), strict=True):
        module.zero_grad()
        LOSS(module(x[None].clone()), y[None]).sum().backward()
        each.append(slopes(module))
    layout = Objective(module, LOSS, data, batch_size=2).layout
    each = torch.stack([layout.flatten(own) for own in each])
    norms = each.norm(dim=1)
    clip_norm = float(norms.quantile(quantile)) * (0.5 if quantile == 0 else 1.01)
    objective = Objective(module, LOSS, data, batch_size=4, clip_norm=clip_norm)
    shares = (clip_norm / norms).clamp(max=1.0)[:, None]
    for batch in ([4], [0, 2, 3], list(range(6))):
        expected = (shares * each)[batch].sum(dim=0)
        assert (gradient_on(objective, batch) - expected / 4).norm() < 1e-5 * expected.norm()


def test_a_loss_over_pairs_has_no_way_into_another_example_s_gradient():
    """Each example's gradient is that of its own loss, whatever the loss makes of a batch."""
    mixing = replace(LOSS, name="mixing", compiled=None, function=lambda f, y: LOSS.function(f, y) * (1 + f.mean()))
    torch.manual_seed(0)
    module, data = reused_relu(), toy_data(n=9, classes=3, shape=(6,))
    network, parameters = Network.of(module, mixing), trained(module)
    (inputs, labels), sums = pair(data), []
    for n in (9, 8):
        seen = clipped.clipped_gradient(network, parameters, inputs[:n], labels[:n], clipped.Clip(0.1))
        sums.append(torch.cat([value.flatten() for value in seen.total.values()]))
    assert float((sums[0] - sums[1]).norm()) <= 0.1


@parametrize("far", [None, 3e38])
def test_layer_by_layer_sums_of_another_network_are_found_out(far, monkeypatch):
    """The planted fault: repeated layers are left out, as once they were. Records far away hide nothing."""
    torch.manual_seed(0)
    module, data = reused_relu(), toy_data(n=9, classes=3, shape=(6,))
    if far is not None:
        data = replace(data, inputs=np.full_like(data.inputs, far))
    plain = clipped._by_layers

    def faulty(network, *rest):
        return plain(network._replace(module=Sequential(OrderedDict(network.module.named_children()))), *rest)

    monkeypatch.setattr(clipped, "_by_layers", faulty)
    with refusal(r"clipped gradients of parameter .* are not those of the network"):
        Objective(module, LOSS, data, batch_size=3, clip_norm=1.0)


def test_sums_of_gradients_in_half_precision_are_not_rounded_to_it():
    network = nn.Sequential(nn.Linear(8, 3)).bfloat16()
    weights = {name: torch.zeros_like(p) for name, p in network.named_parameters()}
    rows, labels = torch.ones(2000, 8, dtype=torch.bfloat16), torch.zeros(2000, dtype=torch.int64)
    whole, less = (
        clipped_gradient(Network(network, {}, cross_entropies), weights, rows[k:], labels[k:], Clip(1.0)).total
        for k in (0, 1)
    )
    moved = torch.cat([(whole[name] - less[name]).double().flatten() for name in weights]).norm()
    assert moved < 1.001
