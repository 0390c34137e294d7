"""What goes wrong with Opacus 1.6 as it comes, one test a trap."""

import inspect
import math

import pytest
import torch
from opacus.accountants import GaussianAccountant, RDPAccountant
from opacus.utils.batch_memory_manager import BatchMemoryManager
from private_toys import NETWORKS, data, fresh, generator, mlp, private, sweep
from torch import nn
from torch.utils.data import Dataset

from pacdp.opacus.modules import MODES
from pacdp.private import (
    EventAccountant,
    ExampleDropout,
    Exponential,
    PrivateEngine,
    SeededRandomness,
    SystemRandomness,
    bayesian,
    epsilon,
    planned,
    runs_of,
    sampled_step,
    steps_of,
)


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("mode", MODES)
def test_empty_batches_are_noisy_steps_in_every_mode(mode, network):
    torch_module = NETWORKS[network]()
    module, optimizer, criterion, loader, engine = private(
        torch_module, data(12), mode=mode, sample_rate=0.02, expected_batch_size=0.25, steps=40, seed=3)  # fmt: skip
    moved = []
    for inputs, targets in loader:
        before = [p.detach().clone() for p in module.parameters()]
        optimizer.zero_grad()
        criterion(module(inputs), targets).backward()
        optimizer.step()
        if len(inputs) == 0:
            moved.append(
                min(float((p.detach() - b).abs().max()) for p, b in zip(module.parameters(), before, strict=True))
            )
    assert len(moved) > 15
    assert min(moved) > 0.0
    assert steps_of(engine.event) == 40
    assert runs_of(engine.event) == [(sampled_step([1.0], sample_rate=0.02), 40)]
    assert all(torch.isfinite(p).all() for p in module.parameters())


class Dictionaries(Dataset):
    def __len__(self):
        return 5

    def __getitem__(self, index):
        return {"x": torch.full((4,), float(index)), "name": f"patient {index}", "y": index % 3}


def test_a_first_batch_that_is_empty_has_the_form_of_all_others():
    engine = PrivateEngine(randomness=SeededRandomness(0))
    module = mlp()
    _, _, loader = engine.make_private(
        module=module, optimizer=torch.optim.SGD(module.parameters(), lr=0.1), dataset=Dictionaries(),
        noise_schedule=1.0, clip_norm=1.0, sample_rate=1e-9, expected_batch_size=1.0, steps=1)  # fmt: skip
    (batch,) = loader
    assert batch["x"].shape == (0, 4)
    assert batch["x"].dtype == torch.float32
    assert batch["y"].shape == (0,)
    assert batch["y"].dtype == torch.int64
    assert batch["name"] == []


def test_rates_and_divisors_do_not_depend_on_the_number_of_examples():
    for n in (99, 100, 101):
        _, optimizer, _, loader, engine = private(mlp(), data(n), sample_rate=0.1, expected_batch_size=10.0)
        assert (optimizer.expected_batch_size, loader.sample_rate, len(loader)) == (10.0, 0.1, 10)
        optimizer.accumulated_iterations  # noqa: B018  (Opacus: a property of private data)
        assert engine.event is None
        assert steps_of(engine.event) == 0
    for name in ("poisson_sampling", "rand_on_empty", "clipping", "noise_multiplier", "max_grad_norm"):
        assert name not in inspect.signature(PrivateEngine.make_private).parameters


@pytest.mark.parametrize("mode", ["hooks", "ghost"])
def test_the_schedule_counts_logical_steps_not_physical_batches(mode):
    schedule = Exponential(initial=1.0, factor=1.1)
    module, optimizer, criterion, loader, engine = private(
        mlp(), data(40), mode=mode, noise_schedule=schedule, steps=10
    )
    with BatchMemoryManager(data_loader=loader, max_physical_batch_size=3, optimizer=optimizer) as parts:
        sizes = sweep(module, optimizer, criterion, parts)
    assert len(sizes) > 20
    assert runs_of(engine.event) == [(sampled_step([schedule(t)], sample_rate=0.25), 1) for t in range(10)]


@pytest.mark.parametrize("mode", MODES)
def test_cutting_a_batch_changes_nothing_but_rounding(mode):
    ends = []
    for size in (3, 1000):
        module, optimizer, criterion, loader, _ = private(mlp(), data(40), mode=mode, steps=8)
        with BatchMemoryManager(data_loader=loader, max_physical_batch_size=size, optimizer=optimizer) as parts:
            sweep(module, optimizer, criterion, parts)
        ends.append(torch.cat([p.detach().reshape(-1) for p in module.parameters()]))
    torch.testing.assert_close(*ends, atol=1e-5, rtol=1e-5)


class BatchMean(nn.Module):
    def forward(self, x):
        return x - x.mean(0)


class BatchSize(nn.Module):
    def forward(self, x):
        return x / len(x)


class HiddenInBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.clone()

    @staticmethod
    def backward(ctx, slope):
        return slope * ctx.saved_tensors[0].mean()


class BackwardMean(nn.Module):
    def forward(self, x):
        return HiddenInBackward.apply(x)


class RunningMean(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros(5))

    def forward(self, x):
        self.seen.mul_(0.9).add_(0.1 * x.detach().mean(0))
        return x


def frozen_batch_norm():
    return nn.BatchNorm1d(5).eval().requires_grad_(False)


MIXING = [nn.BatchNorm1d(5), nn.BatchNorm1d(5, affine=False), nn.BatchNorm1d(5, track_running_stats=False),
          frozen_batch_norm(), BatchMean(), BatchSize(), BackwardMean(), RunningMean(), nn.Softmax(0)]  # fmt: skip


@pytest.mark.parametrize("layer", MIXING, ids=lambda layer: type(layer).__name__)
def test_networks_that_mix_examples_are_refused(layer):
    module = nn.Sequential(fresh(nn.Linear(4, 5)), layer, fresh(nn.Linear(5, 3)))
    with pytest.raises(ValueError, match="examples of a batch are not independent"):
        private(module, data())


class Noise(nn.Module):
    def forward(self, x):
        return x + torch.randn(x.shape, dtype=x.dtype)


def test_dropout_hides_no_batch_size():
    for dropout in (nn.Dropout(0.5), ExampleDropout(0.5, generator=generator())):
        module = nn.Sequential(fresh(nn.Linear(4, 5)), dropout, BatchSize(), fresh(nn.Linear(5, 3)))
        with pytest.raises(ValueError, match="leaves the batch"):
            private(module, data())
    hidden = nn.Sequential(bayesian(nn.Linear(4, 5), generator=generator()), BatchSize())
    with pytest.raises(ValueError, match="leaves the batch"):
        private(hidden, data())


def test_a_network_without_numbers_is_not_judged():
    class Log(nn.Module):
        def forward(self, x):
            return x.log()

    module = nn.Sequential(Log(), fresh(nn.Linear(4, 3)))
    with pytest.raises(ValueError, match="probe"):
        private(module, data())
    private(module, data(), probe=(torch.rand(4, 4, generator=generator()) + 0.1,))


@pytest.mark.parametrize(
    "layer", [nn.GroupNorm(1, 5), nn.LayerNorm(5), nn.Dropout(0.5), nn.Identity(), Noise()], ids=repr
)
def test_networks_that_treat_examples_alone_are_accepted_and_left_as_they_were(layer):
    module = nn.Sequential(fresh(nn.Linear(4, 5)), layer, fresh(nn.Linear(5, 3)))
    before, state = {k: v.clone() for k, v in module.state_dict().items()}, torch.get_rng_state()
    private(module, data())
    assert torch.equal(state, torch.get_rng_state())
    assert all(torch.equal(before[k.removeprefix("_module.")], v) for k, v in module.state_dict().items())


@pytest.mark.filterwarnings("ignore:GDP accounting")
def test_no_history_is_lost_when_noise_changes():
    theirs, ours = GaussianAccountant(), EventAccountant()
    for accountant in (theirs, ours):
        accountant.step(noise_multiplier=1.0, sample_rate=0.1)
    with pytest.raises(ValueError, match="Noise multiplier"):
        theirs.step(noise_multiplier=2.0, sample_rate=0.1)
    ours.step(noise_multiplier=2.0, sample_rate=0.1)
    ours.step(noise_multiplier=2.0, sample_rate=0.1)
    assert theirs.history == []
    assert ours.history == [(sampled_step([1.0], sample_rate=0.1), 1), (sampled_step([2.0], sample_rate=0.1), 2)]
    assert len(ours) == 3  # Opacus counts entries


@pytest.mark.filterwarnings("ignore:Optimal order")
def test_epsilon_is_never_negative_nor_nan():
    gentle = planned(20.0, sample_rate=1e-3, steps=1)
    theirs = RDPAccountant()
    theirs.history = [(20.0, 1e-3, 1)]
    assert theirs.get_epsilon(0.01) < 0.0
    assert epsilon(gentle, delta=0.01, adjacency="add-remove") == 0.0


def test_secure_noise_needs_no_foreign_package():
    engine = PrivateEngine()
    assert isinstance(engine.randomness, SystemRandomness)
    assert engine.randomness.state() == {}
    module, optimizer, criterion, loader, engine = private(mlp(), data(), engine=engine, steps=5)
    sweep(module, optimizer, criterion, loader)
    assert engine.event == planned(1.0, sample_rate=0.25, steps=5)


def test_calibrating_one_number_for_a_schedule_is_refused():
    with pytest.raises(NotImplementedError, match="calibrated"):
        PrivateEngine().make_private_with_epsilon(target_epsilon=1.0)


def test_gradients_used_twice_are_refused():
    module, optimizer, criterion, _, _ = private(mlp(), data(), batches="own")
    inputs, targets = torch.randn(4, 4, generator=generator()), torch.zeros(4, dtype=torch.int64)
    criterion(module(inputs), targets).backward()
    optimizer.step()
    with pytest.raises(ValueError, match="zero_grad"):
        optimizer.step()
    optimizer.zero_grad()
    criterion(module(inputs), targets).backward()
    with pytest.raises(ValueError, match="accumulation"):
        criterion(module(inputs), targets).backward()


@pytest.mark.parametrize(
    ("changes", "word"),
    [({"clip_norm": 0.0}, "clip_norm"), ({"clip_norm": math.nan}, "clip_norm"), ({"sample_rate": 0.0}, "sample_rate"),
     ({"sample_rate": 1.5}, "sample_rate"), ({"expected_batch_size": math.inf}, "expected_batch_size"),
     ({"noise_schedule": -1.0}, "value"), ({"pre_noise": -1.0}, "pre_noise"), ({"loss_reduction": "none"}, "loss_red"),
     ({"mode": "magic"}, "grad_sample_mode"), ({"mode": "ghost", "pre_noise": 0.1}, "pre_noise")],
)  # fmt: skip
def test_numbers_out_of_range_are_refused(changes, word):
    with pytest.raises((ValueError, TypeError), match=word):
        private(mlp(), data(), **changes)


def test_parameters_of_another_network_are_refused():
    with pytest.raises(ValueError, match="module does not have"):
        PrivateEngine().make_private(
            module=mlp(), optimizer=torch.optim.SGD(mlp().parameters(), lr=0.1), dataset=data(), noise_schedule=1.0,
            clip_norm=1.0, sample_rate=0.1, expected_batch_size=4.0)  # fmt: skip


@pytest.mark.parametrize("mode", ["hooks", "ghost", "ew", "functorch"])
def test_a_step_on_a_batch_that_nobody_drew_is_refused(mode):
    """P8: it was accounted for as if it had come from the private loader."""
    module, optimizer, criterion, loader, engine = private(mlp(), data(), mode=mode, batches="loader")
    inputs, _ = next(iter(loader))
    foreign, labels = torch.randn(len(inputs) + 3, 4), torch.zeros(len(inputs) + 3, dtype=torch.int64)
    optimizer.zero_grad()
    criterion(module(foreign), labels).backward()
    with pytest.raises(ValueError, match=r"the batch drawn for it has another number"):
        optimizer.step()
    assert engine.event is None


def test_a_second_step_on_the_same_batch_is_refused_and_unused_batches_are_forgotten():
    module, optimizer, criterion, loader, engine = private(mlp(), data(), batches="loader")
    for inputs, targets in loader:
        for _ in range(2):
            optimizer.zero_grad()
            criterion(module(inputs), targets).backward()
            if engine.event is None:
                optimizer.step()
                continue
            with pytest.raises(ValueError, match="no batch was drawn for it"):
                optimizer.step()
        break
    optimizer.zero_grad()
    assert len(sweep(module, optimizer, criterion, loader)) == 4
    assert steps_of(engine.event) == 5
