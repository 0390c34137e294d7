"""Trials before a number is made refuse what mixes examples, and nothing else."""

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn
from toys import seeded, toy_data

from pacdp.losses import Loss, bounded_cross_entropy, brier, ramp, zero_one
from pacdp.objective import Objective
from pacdp.posterior import GaussianPosterior
from pacdp.probes import (
    MOST,
    SIZES,
    batches,
    made_up_labels,
    pool,
    require_own_losses,
    require_own_outputs,
    require_true_slope,
)
from pacdp.stochastic import fresh_pass

OUTPUTS, LABELS = torch.randn(40, 3, generator=seeded(0)), torch.arange(500) % 3


class Mixing(nn.Module):
    """A network that passes its outputs through ``mix``."""

    def __init__(self, mix) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer, self.mix = nn.Linear(5, 3), mix

    def forward(self, x: Tensor) -> Tensor:
        return self.mix(self.layer(x))


def only_from(size: int):
    return lambda h: h - h.mean(dim=0) if len(h) >= size else h


def remembering():
    kept: list[Tensor] = []

    def mix(h: Tensor) -> Tensor:
        kept.append(h.mean())
        return h + kept[-2] if len(kept) > 1 else h

    return mix


MIXING = {
    "batch mean": lambda: lambda h: h - h.mean(dim=0),
    "from four on": lambda: only_from(4),
    "from nine on": lambda: only_from(9),
    "from thirty on": lambda: only_from(30),
    "batches of four to eight": lambda: lambda h: h - h.mean(dim=0) if 4 <= len(h) <= 8 else h,
    "order": lambda: lambda h: h + torch.arange(len(h))[:, None],
    "batch maximum beyond a value": lambda: lambda h: h / h.abs().amax().clamp(min=20.0),
    "odd places": lambda: lambda h: torch.cat([h[:1], h[1:] + h[:1]]),
    "memory": remembering,
    "random": lambda: lambda h: h + torch.randn(h.shape),
    "one row for all": lambda: lambda h: h[:1],
    "a number": lambda: lambda h: h.mean(),
}


def objective_of(module: nn.Module, loss: Loss | None = None, **settings) -> Objective:
    data = toy_data(n=60, classes=3)
    return Objective(module, loss or bounded_cross_entropy(classes=3), data, batch_size=5, **settings)


@pytest.mark.parametrize("name", MIXING)
def test_networks_that_mix_examples_are_refused_by_chains_and_counts(name: str) -> None:
    with pytest.raises(ValueError, match="no example has a loss of its own"):
        objective_of(Mixing(MIXING[name]()))
    module = Mixing(MIXING[name]()).eval()
    with pytest.raises(ValueError, match="no example has a loss of its own"):
        fresh_pass(module, GaussianPosterior.around(module, std=0.1), torch.randn(3, 5, generator=seeded(0)))


@pytest.mark.parametrize("batch_size", [5, 50])
def test_the_batches_that_the_network_will_meet_are_tried(batch_size: int) -> None:
    """Mixing that begins above 33 examples is found where there are so many."""
    module, data = Mixing(only_from(45)), toy_data(n=60, classes=3)
    if batch_size == 5:
        objective_of(module)
        return
    with pytest.raises(ValueError, match="no example has a loss of its own"):
        Objective(module, bounded_cross_entropy(classes=3), data, batch_size=batch_size)


@pytest.mark.parametrize("far", [1e25, 3e38])
@pytest.mark.parametrize("clip_norm", [None, 1.0])
@pytest.mark.parametrize("records", [[0], [0, 1, 2], range(60)], ids=["one", "three", "all"])
def test_no_record_decides_that_nothing_is_tried(far: float, clip_norm: float | None, records: list[int]) -> None:
    """A record whose outputs are not finite, or so large that nothing beside them is, hides no mixing."""
    data = toy_data(n=60, classes=3)
    inputs = data.inputs.copy()
    inputs[list(records)] = far
    data = replace(data, inputs=inputs)
    settings = {"batch_size": 5, "clip_norm": clip_norm}
    loss = Loss(name="mine", low=0.0, high=1.0, function=weighted)
    with pytest.raises(ValueError, match="loss mine of an example depends on the other examples"):
        Objective(Mixing(lambda h: h), loss, data, **settings)
    with pytest.raises(ValueError, match="no example has a loss of its own"):
        Objective(
            Mixing(lambda h: h - h.tanh().nan_to_num().mean(dim=0)), bounded_cross_entropy(classes=3), data, **settings
        )
    Objective(Mixing(lambda h: h), bounded_cross_entropy(classes=3), data, **settings)


def test_networks_of_which_nothing_can_be_tried_are_refused_in_a_sentence() -> None:
    sentence = "finite neither on the data nor on made-up inputs"
    with pytest.raises(ValueError, match=sentence):
        objective_of(Mixing(lambda h: h * math.nan))
    Objective(
        Mixing(lambda h: h.sqrt().nan_to_num()),
        bounded_cross_entropy(classes=3),
        toy_data(n=60, classes=3),
        batch_size=5,
    )
    with pytest.raises(ValueError, match=sentence):
        objective_of(Mixing(lambda h: (0.0 * h).abs().sqrt()), clip_norm=1.0)


class Counting(nn.Module):
    """Moves a buffer with every batch, by very little."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(5, 3)
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        self.seen.add_(1e-9)
        return self.layer(x) + self.seen


def test_a_network_that_changes_its_buffers_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"changes buffer seen .* call eval\(\)"):
        objective_of(Counting())
    module = Counting().eval()
    posterior = GaussianPosterior.around(module, std=0.1)
    with pytest.raises(ValueError, match="changes buffer seen"):
        fresh_pass(module, posterior, torch.randn(3, 5, generator=seeded(0)))
    assert float(posterior.buffers["seen"]) == 0.0


@pytest.mark.parametrize(
    "first", [[nn.ReLU(inplace=True)], [nn.Flatten(), nn.SiLU(inplace=True)]], ids=["first", "view"]
)
def test_a_network_that_overwrites_its_inputs_is_refused(first: list[nn.Module]) -> None:
    """Chains and counts hand out views of the data: the second pass would see other data."""
    module, data = nn.Sequential(*first, nn.Linear(5, 3)).eval(), toy_data(n=60, classes=3)
    with pytest.raises(ValueError, match="changes its inputs in a forward pass"):
        Objective(module, bounded_cross_entropy(classes=3), data, batch_size=5)
    with pytest.raises(ValueError, match="changes its inputs in a forward pass"):
        fresh_pass(module, GaussianPosterior.around(module, std=0.1), torch.randn(3, 5, generator=seeded(0)))


def weighted(logits: Tensor, labels: Tensor) -> Tensor:
    share = torch.bincount(labels, minlength=3)[labels] / len(labels)
    return (zero_one().function(logits, labels) * share).clamp(0, 1)


def hardest(logits: Tensor, labels: Tensor) -> Tensor:
    losses = bounded_cross_entropy(classes=3).function(logits, labels) / 4
    return torch.where(losses >= losses.quantile(0.9), losses, 0.0)


def spread_out(logits: Tensor, labels: Tensor) -> Tensor:
    return zero_one().function(logits, labels).mean().expand(len(labels))


def many(logits: Tensor, labels: Tensor) -> Tensor:
    losses = torch.softmax(logits, 1)[:, 0]
    return losses * losses.mean() if len(losses) > 20 else losses


@pytest.mark.parametrize("function", [weighted, hardest, spread_out, many], ids=lambda f: f.__name__)
def test_losses_that_mix_examples_are_refused(function) -> None:
    loss = Loss(name="mine", low=0.0, high=1.0, function=function)
    with pytest.raises(ValueError, match="loss mine of an example depends on the other examples"):
        require_own_losses(loss, OUTPUTS[:5], LABELS)
    with pytest.raises(ValueError, match="loss mine of an example depends on the other examples"):
        objective_of(Mixing(lambda h: h), loss)


@pytest.mark.parametrize(
    "loss", [zero_one(), brier(), ramp(), ramp(slope=2.0), bounded_cross_entropy(classes=3)], ids=lambda loss: loss.name
)
def test_losses_of_one_example_pass(loss: Loss) -> None:
    for outputs in (OUTPUTS, OUTPUTS[:1], 1e6 * OUTPUTS, OUTPUTS.double(), 0 * OUTPUTS, OUTPUTS * math.nan):
        require_own_losses(loss, outputs, LABELS)
    require_true_slope(loss, OUTPUTS, LABELS)


@pytest.mark.parametrize("seed", range(5))
def test_networks_that_treat_examples_alone_pass(seed: int) -> None:
    torch.manual_seed(seed)
    module = nn.Sequential(nn.Linear(5, 64), nn.GroupNorm(4, 64), nn.GELU(), nn.Linear(64, 3))
    examples = pool(10.0 ** (seed - 2) * torch.randn(7, 5))
    with torch.no_grad():
        assert torch.equal(require_own_outputs(lambda places: module(examples[places])), module(examples[:MOST]))
    objective_of(module)


def test_pools_hold_the_examples_and_stay_in_tables() -> None:
    words = torch.tensor([[3, 9], [9, 4], [4, 4]])
    both = pool(words)
    assert both.shape == (2 * MOST, 2)
    assert torch.equal(both[:MOST], words.repeat(11, 1))
    assert set(both.flatten().tolist()) == {3, 4, 9}
    numbers = pool(torch.zeros(2, 1, 4))
    assert torch.count_nonzero(numbers[:MOST]) == 0
    assert numbers[MOST:].abs().max() > 1e3
    assert torch.equal(pool(torch.zeros(2, 1, 4)), numbers)


def test_batches_have_all_sizes_and_keep_examples_of_the_data_alone() -> None:
    sizes = set()
    for places, kept in batches():
        sizes.add(len(places))
        assert int(places[kept].max()) < MOST
        assert len(kept) >= 1
    assert sizes == {1, *SIZES}


def test_labels_are_of_the_kinds_that_occur() -> None:
    plain, same, each, some = made_up_labels(torch.tensor([7, 7, 2, 5]), 66)
    assert plain[:5].tolist() == [7, 7, 2, 5, 7]
    assert set(same.tolist()) == {2}
    assert each[:4].tolist() == [2, 5, 7, 2]
    assert set(some.tolist()) == {2, 5, 7}


def test_a_compiled_form_that_is_another_loss_is_refused() -> None:
    honest = bounded_cross_entropy(classes=3)
    other = bounded_cross_entropy(classes=3, max_loss=5.0)
    false = Loss(name="false", low=honest.low, high=honest.high, function=honest.function, compiled=other.compiled)
    with pytest.raises(ValueError, match="compiled form of loss false differs from its function"):
        require_true_slope(false, OUTPUTS, LABELS)
    with pytest.raises(ValueError, match="compiled form of loss false"):
        objective_of(Mixing(lambda h: h), false)

    def flat(logits: Tensor, labels: Tensor, out: Tensor) -> tuple[float, float]:
        mean, error = honest.compiled(logits, labels, out)  # type: ignore[misc]
        out.mul_(1.01)
        return mean, error

    with pytest.raises(ValueError, match="compiled form"):
        require_true_slope(
            Loss(name="steeper", low=honest.low, high=honest.high, function=honest.function, compiled=flat),
            OUTPUTS,
            LABELS,
        )
