"""What goes wrong with Opacus 1.6 as it comes, one test a trap."""

import copy
from contextlib import suppress
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
import torch
from private_toys import ADD, DECAY, data, flat, mechanism, mlp, private, sweep
from torch.nn import Dropout, Linear, Sequential, functional
from torch.optim import SGD
from torch.testing import assert_close
from torch.utils.data import Dataset

from pacdp.private import (
    DPSGD,
    BatchMemoryManager,
    ExampleDropout,
    PrivateEngine,
    SystemRandomness,
    epsilon,
    planned,
    runs_of,
    sampled_step,
    steps_of,
    train,
)
from pacdp.step.mechanism import MODES
from tests.marks import parametrize, refusal
from tests.pacdp.draws import randn
from tests.pacdp.toys import seeded


def test_empty_batches_are_steps():
    *loop, engine = private(dataset=data(12), sample_rate=0.02, expected_batch_size=0.25, steps=40, seed=3)
    assert sweep(*loop).count(0) > 15
    assert runs_of(engine.event) == [(sampled_step([1.0], sample_rate=0.02), 40)]


class Dictionaries(Dataset):
    def __len__(self):
        return 5

    def __getitem__(self, index):
        return {"x": torch.full((4,), float(index)), "name": f"patient {index}", "y": index % 3}


def test_a_first_batch_that_is_empty_has_the_form_of_all_others():
    *_, loader, _ = private(dataset=Dictionaries(), sample_rate=1e-9, steps=1, batches="loader")
    (batch,) = loader
    assert [(batch[key].shape, batch[key].dtype) for key in "xy"] == [((0, 4), torch.float32), ((0,), torch.int64)]
    assert batch["name"] == []


every_mode = parametrize("mode", MODES)


@pytest.mark.usefixtures("known_network")
@every_mode
def test_cutting_a_batch_changes_nothing_but_rounding(mode):
    """Nor does the schedule count physical batches."""
    ends = []
    for size in (3, 1000):
        module, optimizer, criterion, loader, engine = private(
            mode=mode, steps=8, noise_multiplier=DECAY, batches="loader")  # fmt: skip
        with BatchMemoryManager(data_loader=loader, max_physical_batch_size=size, optimizer=optimizer) as parts:
            assert (len(sweep(module, optimizer, criterion, parts)) > 16) == (size == 3)
        assert runs_of(engine.event) == [(sampled_step([DECAY(t)], sample_rate=0.25), 1) for t in range(8)]
        ends.append(flat(module))
    assert_close(*ends, atol=1e-5, rtol=1e-5)


@every_mode
def test_a_row_of_the_caller_s_own_batch_cannot_stand_in_two_of_its_parts(mode):
    """It added twice the clipping norm, and nothing that was printed said so."""
    module, optimizer, criterion, _, engine = private(mode=mode, noise_multiplier=0.0)
    x, y = randn(1, 4), torch.zeros(1, dtype=torch.int64)
    with refusal("a batch has no parts"):
        optimizer.signal_skip_step(do_skip=True)
    optimizer.signal_skip_step(do_skip=False)
    criterion(module(x), y).backward()
    optimizer.step()
    assert steps_of(engine.event) == 1
    assert torch.cat([p.grad.flatten() for p in module.parameters()]).norm() <= 0.5 / 10.0


def test_after_a_step_of_another_size_no_step_of_its_pass_is_released():
    """Parts of two batches made up the next ones, where a loop swallowed the error, and an example could be in both."""
    module, optimizer, criterion, loader, engine = private(
        dataset=data(6), sample_rate=1.0, steps=4, batches="loader")  # fmt: skip
    released = list[int]()
    with BatchMemoryManager(data_loader=loader, max_physical_batch_size=3, optimizer=optimizer) as parts:
        for k, (inputs, targets) in enumerate(parts):
            criterion(module(inputs), targets).backward()
            if k == 0:
                optimizer.signal_skip_step(do_skip=False)
            with suppress(ValueError):
                optimizer.step()
                released += [] if optimizer._is_last_step_skipped else [k]
            optimizer.zero_grad()
        assert released == [1]
        sweep(module, optimizer, criterion, parts)
    assert steps_of(engine.event) == 1 + 4, "another pass goes on"


def test_the_system_draws_unless_a_seed_is_given():
    engine = PrivateEngine()
    assert isinstance(engine.randomness, SystemRandomness)
    assert engine.randomness.state() == {}
    *loop, engine = private(engine=engine, steps=5)
    sweep(*loop)
    assert engine.event == planned(1.0, sample_rate=0.25, steps=5)
    assert engine.get_epsilon(1e-5) == epsilon(engine.event, **ADD) < engine.get_epsilon(1e-5, adjacency="replace-one")


@pytest.mark.wrong_types
@parametrize("kind", [Fraction, np.float32, np.float16])
def test_clip_norm_and_rate_are_taken_from_any_kind_of_number(kind):
    """A fraction was blamed on the network, and noise at a number of NumPy's was rounded to as few digits as it has."""
    ends = []
    for norm, rate in ((kind(0.3), kind(0.25)), (float(kind(0.3)), 0.25)):
        *loop, engine = private(max_grad_norm=norm, sample_rate=rate, steps=3, batches="loader")
        sweep(*loop)
        ends.append(flat(loop[0]))
        assert engine.event == planned(1.0, sample_rate=0.25, steps=3)
    assert torch.equal(*ends)
    assert type(mechanism(clip_norm=kind(0.3)).clip_norm) is float


def summed(net, dataset):
    """The clipped sum of the one step of a run."""
    sums = []

    class Seen(SystemRandomness):
        def noised(self, total, *, std):
            sums.append(total.flatten())
            return super().noised(total, std=std)

    train(DPSGD(), net, dataset, mechanism=mechanism(steps=1, sample_rate=1.0), randomness=Seen(),
          loss=partial(functional.cross_entropy, reduction="none"))  # fmt: skip
    return torch.cat(sums)


def passed(net, dataset):
    """The outputs of the first pass of a loop."""
    module, _, _, loader, _ = private(net, dataset, engine=PrivateEngine(), sample_rate=1.0)
    torch.manual_seed(7)
    return module(next(iter(loader))[0]).detach()


@parametrize("layer", [Dropout(0.5), ExampleDropout(0.5, generator=seeded())])
@parametrize("run", [passed, summed])
def test_no_seed_of_the_caller_tells_which_mask_an_example_has(run, layer):
    """It depends on the place in the batch, so that an example less gave those behind it other masks: known ones moved
    a sum by three clipping norms."""
    found = []
    for _ in range(2):
        torch.manual_seed(7)
        found.append(run(Sequential(Linear(4, 50), copy.deepcopy(layer), Linear(50, 3)), data()))
    assert not torch.equal(*found)


def test_a_second_step_on_the_same_batch_is_refused_and_unused_batches_are_forgotten():
    module, optimizer, criterion, loader, engine = private(batches="loader")
    for inputs, targets in loader:
        for _ in range(2):
            optimizer.zero_grad()
            if engine.event is None:
                criterion(module(inputs), targets).backward()
                optimizer.step()
                continue
            with refusal("other rows than the batch drawn"):
                module(inputs)
        break
    optimizer.zero_grad()
    assert len(sweep(module, optimizer, criterion, loader)) == 4
    assert steps_of(engine.event) == 5


@every_mode
def test_nothing_without_noise_is_left_at_the_weights(mode):
    """On which another optimizer could step, or which a pickled module would carry."""
    module, _, criterion, _, _ = private(mode=mode)
    criterion(module(randn(4, 4)), torch.zeros(4, dtype=torch.int64)).backward()
    for p in module.parameters():
        assert all(getattr(p, name, None) is None for name in ("grad", "grad_sample", "summed_grad", "_norm_sample"))


def test_a_gradient_from_before_weights_were_frozen_moves_nothing():
    """A loss that was tried before set-up left it, and torch's optimizers step on any gradient that is there."""
    net, (x, y) = mlp(), data()[:]
    functional.cross_entropy(net(x), y).backward()
    net.get_submodule("0").requires_grad_(requires_grad=False)
    before = net.get_parameter("0.weight").detach().clone()
    module, optimizer, criterion, loader, _ = private(net, batches="loader")
    for x, y in loader:
        criterion(module(x), y).backward()
        optimizer.step()
        optimizer.zero_grad()
    assert net.get_parameter("0.weight").equal(before)


def test_a_rate_that_is_written_later_is_refused_before_a_step():
    module, optimizer, criterion, loader, engine = private(batches="loader")
    loader.batch_sampler.sample_rate = 0.9
    with refusal("sample_rate of the loader's sampler, was changed after make_private"):
        sweep(module, optimizer, criterion, loader)
    assert engine.event is None


class Stopped(SGD):
    """Ctrl-C comes within its second step."""

    steps = 0

    def step(self, closure=None):
        self.steps += 1
        if self.steps == 2:
            super().step(closure)
            raise KeyboardInterrupt
        return super().step(closure)


def test_a_loop_goes_on_after_ctrl_c_within_the_step_of_the_wrapped_optimizer(tmp_path):
    """Its weights had moved by what has the noise, and were taken for written by something else ever after."""
    net, engine = mlp(), PrivateEngine()
    optimizer = Stopped(net.parameters(), lr=0.1, momentum=0.9)
    *loop, _ = private(net, optimizer=optimizer, batches="loader", engine=engine)
    with pytest.raises(KeyboardInterrupt):
        sweep(*loop)
    assert steps_of(engine.event) == 2
    assert len(sweep(*loop)) == 4
    assert steps_of(engine.event) == 6
    assert engine.export(tmp_path / "release").exists()
    with torch.no_grad():
        net[0].weight.add_(1.0)
    with refusal("wrote into a parameter"):
        sweep(*loop)
