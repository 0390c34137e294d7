"""Which networks are run by example and which by group, and the numbers that they draw."""

from dataclasses import replace

import torch
import torch.nn.functional as F
from fresh_laws import fresh_outputs, random_posterior
from fresh_networks import NETWORKS, made
from torch import equal
from torch.nn import BatchNorm1d, Conv2d, Flatten, Linear, Module, Sequential
from torch.testing import assert_close

from pacdp.layers.plain import call_with
from pacdp.stochastic import Draws, NotByExample, fresh_pass, intercept
from pacdp.stochastic.columns import gram_root, gram_root_of
from pacdp.stochastic.noise import _standard, gaussians, normals
from tests.marks import every_case, parametrize, refusal
from tests.pacdp.draws import randn
from tests.pacdp.same import left_alone


class Uses(Module):
    """Two layers and whatever ``use`` makes of them."""

    def __init__(self, use):
        super().__init__()
        self.first, self.second, self.use = Linear(4, 4), Linear(4, 4), use

    def forward(self, x):
        return self.use(self, x)


def tied():
    module = Uses(lambda m, x: m.second(torch.tanh(m.first(x))))
    module.second.weight = module.first.weight
    return module


NOT_BY_EXAMPLE = {
    "used twice": (Uses(lambda m, x: m.second(m.first(m.first(x)))), "more than once"),
    "tied": (tied(), "more than once"),
    "used by itself": (Uses(lambda m, x: m.second(m.first(x)) * m.first.bias), "has no form"),
    "transposed": (Uses(lambda m, x: m.second(x @ m.first.weight.T + m.first.bias)), "has no form"),
    "detached": (Uses(lambda m, x: m.second(m.first(x)) + m.first.weight.detach().sum()), "has no form"),
    "never used": (Uses(lambda m, x: m.first(x)), "no known layer used it"),
    "folded examples": (Uses(lambda m, x: m.second(m.first(x.view(-1, 2).repeat(1, 2))).view(len(x), -1)), "shape"),
    "weight as input": (Uses(lambda m, x: m.second(F.linear(m.first.weight, x, None))[:, :4]), "not its weight"),
    "no batch": (Uses(lambda m, x: m.second(m.first(x)).sum()), "first dimension"),
}  # fmt: skip
DRAWS = Draws.of(seed=0, number=0, examples=torch.arange(4))


@every_case("name", NOT_BY_EXAMPLE)
def test_networks_that_have_no_form_by_example_are_recognised(name):
    module, words = NOT_BY_EXAMPLE[name]
    with refusal(words, NotByExample):
        fresh_outputs(module, random_posterior(module, "isotropic"), torch.randn(4, 4), DRAWS)


def test_they_run_as_whole_networks_and_in_a_loop_where_vmap_cannot_batch_them():
    branches = Uses(lambda m, x: m.second(m.first(x)) * (1.0 if float(m.first.bias.sum()) > 0 else 2.0))
    whole = [NOT_BY_EXAMPLE[name][0] for name in ("used twice", "tied", "used by itself", "transposed", "never used")]
    for module in (*whole, branches):
        way = fresh_pass(module, random_posterior(module, "isotropic"), torch.randn(4, 4))
        assert not way.by_layers
        assert way.run(torch.randn(4, 4), DRAWS).shape == (4, 4)


def test_the_module_itself_is_left_alone():
    module = Sequential(Linear(4, 4), BatchNorm1d(4)).eval()
    posterior = random_posterior(module, "isotropic")
    with left_alone(module):
        fresh_outputs(module, posterior, torch.randn(4, 4), DRAWS)


def test_an_example_keeps_its_draw_when_the_batch_is_shuffled():
    module, _ = made("small network")
    posterior, inputs, order = (random_posterior(module, "diagonal"), torch.randn(50, 1, 8, 8), torch.randperm(50))
    whole, shuffled = (
        fresh_outputs(module, posterior, inputs[rows], Draws.of(seed=1, number=4, examples=rows))
        for rows in (torch.arange(50), order)
    )
    assert_close(whole[order], shuffled, atol=1e-5, rtol=1e-5)


@parametrize("dim", [6, 4096, 9000])
def test_compiled_numbers_agree_with_torch(dim):
    draws = Draws.of(seed=3, number=2, examples=torch.tensor([0, 5, 2**31 - 1]))
    ours = normals(draws, 9, dim, like=torch.zeros(1))
    meta = gaussians(draws, 9, dim, mean=torch.zeros(1, dtype=torch.bfloat16), std=torch.ones(1, dtype=torch.bfloat16))
    twin = _standard(draws, 9, dim, torch.device("cpu"))
    assert (ours - twin).abs().max() < 2e-5
    assert equal(meta, twin.bfloat16())
    assert equal(ours[1:], normals(draws.select(slice(1, 3)), 9, dim, like=torch.zeros(1)))
    mean, std = torch.randn(dim), torch.rand(dim)
    for centre, spread in ((mean, std), (mean[:1], std), (mean, std[:1])):
        assert torch.allclose(gaussians(draws, 9, dim, mean=centre, std=spread), centre + spread * ours, atol=1e-6)


def test_factors_of_singular_matrices():
    columns = randn(5, 1, 9, 6)
    columns[0, :, :, 3] = columns[0, :, :, 1]  # a patch twice
    columns[1] = 0.0
    columns[2, :, :, 2:] = columns[2, :, :, :1] * torch.arange(4)
    columns[3, :, 2:] = 0.0  # fewer inputs than positions
    root, gram = gram_root(columns), columns.double().mT @ columns.double()
    assert_close((root.mT @ root).double(), gram, atol=1e-5, rtol=1e-5)
    assert_close(gram_root_of(gram).float(), root, atol=1e-5, rtol=1e-5)


def test_layers_that_compute_something_else_are_not_taken(monkeypatch):
    """The planted fault: a layer by example that forgets the stride, as a new version of torch might have it."""
    torch.manual_seed(0)
    module = Sequential(Conv2d(1, 3, 2, stride=2, padding=1), Flatten(), Linear(27, 3)).eval()
    posterior, probe = random_posterior(module, "isotropic"), torch.randn(4, 1, 4, 4)
    assert fresh_pass(module, posterior, probe).by_layers
    plain = intercept._LAYERS[F.conv2d]

    def faulty(draws, input, *rest, **more):
        return plain(draws, input.flip(-1), *rest, **more)

    monkeypatch.setitem(intercept._LAYERS, F.conv2d, faulty)
    assert not fresh_pass(module, posterior, probe).by_layers


@every_case("name", NETWORKS)
def test_without_deviations_layers_by_example_are_the_network(name):
    module, x = made(name)
    posterior, inputs = random_posterior(module, "diagonal"), torch.stack([x, 2 * x, -x])
    still = replace(posterior, stds={name: torch.zeros_like(std) for name, std in posterior.stds.items()})
    found = fresh_outputs(module, still, inputs, Draws.of(seed=0, number=0, examples=torch.arange(3)))
    assert_close(found, call_with(module, {**posterior.means, **posterior.buffers}, inputs))
    assert fresh_pass(module, posterior, inputs).by_layers
