"""Which networks are run by example, which by group, and which not at all."""

import math

import pytest
import torch
import torch.nn.functional as F
from fresh_laws import random_posterior
from fresh_networks import NETWORKS, made
from torch import Tensor, nn

from pacdp.plain import call_with
from pacdp.posterior import GaussianPosterior
from pacdp.stochastic import Draws, NotByExample, fresh_outputs, fresh_pass, intercept
from pacdp.stochastic.columns import gram_root, gram_root_of
from pacdp.stochastic.noise import _standard, gaussians, normals


class Uses(nn.Module):
    """Two layers and whatever ``use`` makes of them."""

    def __init__(self, use) -> None:
        super().__init__()
        self.first, self.second, self.use = nn.Linear(4, 4), nn.Linear(4, 4), use

    def forward(self, x: Tensor) -> Tensor:
        return self.use(self, x)


def tied() -> nn.Module:
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


@pytest.mark.parametrize("name", NOT_BY_EXAMPLE)
def test_networks_that_have_no_form_by_example_are_recognised(name: str) -> None:
    module, words = NOT_BY_EXAMPLE[name]
    with pytest.raises(NotByExample, match=words):
        fresh_outputs(module, random_posterior(module, "isotropic"), torch.randn(4, 4), DRAWS)


@pytest.mark.parametrize("name", ["used twice", "tied", "used by itself", "transposed", "never used"])
def test_they_run_by_group(name: str) -> None:
    module, _ = NOT_BY_EXAMPLE[name]
    way = fresh_pass(module, random_posterior(module, "isotropic"), torch.randn(4, 4), group_size=2)
    assert way.group_size == 2
    assert way.run(torch.randn(7, 4), DRAWS).shape == (7, 4)


def test_a_network_that_vmap_cannot_batch_runs_in_a_loop() -> None:
    module = Uses(lambda m, x: m.second(m.first(x)) * (1.0 if float(m.first.bias.sum()) > 0 else 2.0))
    way = fresh_pass(module, random_posterior(module, "isotropic"), torch.randn(4, 4), group_size=2)
    assert way.run(torch.randn(7, 4), DRAWS).shape == (7, 4)


@pytest.mark.parametrize(
    ("module", "words"),
    [
        (nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5)), "eval"),
        (nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)), "eval"),
        (nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4, track_running_stats=False)).eval(), "of the batch"),
        (Uses(lambda m, x: m.second(m.first(x) - x.mean(dim=0))).eval(), "other examples"),
        (Uses(lambda m, x: m.second(F.dropout(m.first(x)))).eval(), "random numbers"),
        (Uses(lambda m, x: m.second(m.first(x)) / 0.0).eval(), "NaN or infinite"),
    ],
)  # fmt: skip
def test_networks_without_a_loss_for_each_example_are_refused(module: nn.Module, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        fresh_pass(module, random_posterior(module, "isotropic"), torch.randn(4, 4))


def test_posteriors_over_other_weights_are_refused() -> None:
    module = nn.Linear(4, 4)
    with pytest.raises(ValueError, match="parameters of the module"):
        fresh_pass(module, GaussianPosterior.around(nn.Linear(5, 4), std=0.1), torch.randn(4, 4))
    normed = nn.BatchNorm1d(4).eval()
    bare = GaussianPosterior(
        means=dict(normed.named_parameters()), stds={"weight": torch.ones(()), "bias": torch.ones(())}
    )
    with pytest.raises(ValueError, match="buffers of the module"):
        fresh_pass(normed, bare, torch.randn(4, 4))


def test_the_module_itself_is_left_alone() -> None:
    module = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)).eval()
    posterior = random_posterior(module, "isotropic")
    before = {name: value.clone() for name, value in module.state_dict().items()}
    fresh_outputs(module, posterior, torch.randn(4, 4), DRAWS)
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())


def test_an_example_keeps_its_draw_wherever_it_lies_in_a_batch() -> None:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Conv2d(1, 3, 2), nn.GroupNorm(1, 3), nn.ReLU(), nn.Flatten(), nn.Linear(27, 3)).eval()
    posterior, inputs = random_posterior(module, "diagonal"), torch.randn(50, 1, 4, 4)
    order = torch.randperm(50)
    in_order, shuffled = (
        fresh_outputs(module, posterior, inputs[rows], Draws.of(seed=1, number=4, examples=rows))
        for rows in (torch.arange(50), order)
    )
    assert torch.allclose(in_order[order], shuffled, atol=1e-5)


@pytest.mark.parametrize("dim", [1, 6, 4095, 4096, 4101, 9000])
def test_compiled_numbers_agree_with_torch(dim: int) -> None:
    draws = Draws.of(seed=3, number=2, examples=torch.tensor([0, 5, 2**31 - 1]))
    ours = normals(draws, 9, dim, like=torch.zeros(1))
    meta = gaussians(draws, 9, dim, mean=torch.zeros(1, dtype=torch.bfloat16), std=torch.ones(1, dtype=torch.bfloat16))
    twin = _standard(draws, 9, dim, torch.device("cpu"))
    assert (ours - twin).abs().max() < 2e-5
    assert torch.equal(meta, twin.bfloat16())
    assert torch.equal(ours[1:], normals(draws.select(slice(1, 3)), 9, dim, like=torch.zeros(1)))
    mean, std = torch.randn(dim), torch.rand(dim)
    for centre, spread in ((mean, std), (mean[:1], std), (mean, std[:1])):
        assert torch.allclose(gaussians(draws, 9, dim, mean=centre, std=spread), centre + spread * ours, atol=1e-6)


def test_factors_of_singular_matrices() -> None:
    generator = torch.Generator().manual_seed(0)
    columns = torch.randn(5, 1, 9, 6, generator=generator)
    columns[0, :, :, 3] = columns[0, :, :, 1]  # a patch twice
    columns[1] = 0.0
    columns[2, :, :, 2:] = columns[2, :, :, :1] * torch.arange(4)
    columns[3, :, 2:] = 0.0  # fewer inputs than positions
    root = gram_root(columns)
    gram = columns.mT @ columns
    assert torch.allclose(root.mT @ root, gram, atol=1e-5)
    assert torch.allclose(gram_root_of((columns.double().mT @ columns.double()).clone()).float(), root, atol=1e-5)
    assert math.isclose(float(root[1].abs().max()), 0.0)


def test_layers_that_compute_something_else_are_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted fault: a layer by example that forgets the stride, as a new version of torch might have it."""
    torch.manual_seed(0)
    module = nn.Sequential(nn.Conv2d(1, 3, 2, stride=2, padding=1), nn.Flatten(), nn.Linear(27, 3)).eval()
    posterior, probe = random_posterior(module, "isotropic"), torch.randn(4, 1, 4, 4)
    assert fresh_pass(module, posterior, probe).by_layers
    plain = intercept._LAYERS[F.conv2d]

    def faulty(draws, input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
        return plain(draws, input.flip(-1), weight, bias, stride, padding, dilation, groups)

    monkeypatch.setitem(intercept._LAYERS, F.conv2d, faulty)
    assert not fresh_pass(module, posterior, probe).by_layers


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("kind", ["isotropic", "diagonal"])
def test_without_deviations_layers_by_example_are_the_network(name: str, kind: str) -> None:
    module, x = made(name)
    posterior = random_posterior(module, kind)
    inputs = torch.stack([x, 2 * x, -x])
    still = GaussianPosterior(
        means=posterior.means,
        buffers=posterior.buffers,
        stds={name: torch.zeros_like(std) for name, std in posterior.stds.items()},
    )
    found = fresh_outputs(module, still, inputs, Draws.of(seed=0, number=0, examples=torch.arange(3)))
    torch.testing.assert_close(found, call_with(module, {**posterior.means, **posterior.buffers}, inputs))
    assert fresh_pass(module, posterior, inputs).by_layers
