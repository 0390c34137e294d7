"""Loops on batches of which each example is in exactly one an epoch: what is counted and when, resuming, refusals."""

import math
from contextlib import nullcontext
from functools import partial

import pytest
import torch
from private_toys import ADD, DECAY, Exponential, data, flat, mlp, of_a_loader, of_checkpoint, plain, private, sweep
from torch import equal
from torch.optim import SGD
from torch.utils.data import DataLoader

from bounds.accounting import Gaussian, OnceAnEpoch, PoissonSampled, SelfComposed, privacy_epsilon
from pacdp.errors import CheckpointError
from pacdp.opacus.arguments import require_sound
from pacdp.private import BatchMemoryManager, PrivateEngine, SeededRandomness, first, runs_of, steps_of
from pacdp.step.budget import calibrated, planned_epochs
from tests.marks import every_case, parametrize, refusal

ASKED = {**ADD, "delta": 1e-3}


def once(*, seed=0, engine=None, **changes):
    """A loop of four batches an epoch."""
    engine = engine or PrivateEngine(sampling="once-an-epoch", randomness=SeededRandomness(seed))
    return private(engine=engine, **{"batches": "loader", "sample_rate": None, "steps": 4, **changes})


def some(loop, steps):
    """The beginning of a pass; the examples of each batch, by their first number."""
    module, optimizer, criterion, loader = loop
    seen = []
    for _, (x, y) in zip(range(steps), loader, strict=False):
        plain(module, optimizer, x, y, loss=criterion)
        seen += x[:, 0].tolist()
    optimizer.zero_grad()
    return seen


def spent(epochs, noise=1.0, batches=4):
    one = OnceAnEpoch(batches=batches, event=Gaussian(noise_multiplier=noise))
    return privacy_epsilon(event=SelfComposed(event=one, count=epochs), **ASKED).upper


def test_each_example_is_in_one_batch_and_the_whole_epoch_is_counted_at_its_first_step():
    *loop, engine = once()
    everyone = sorted(data().tensors[0][:, 0].tolist())
    next(iter(loop[-1]))  # a look at a batch is no step
    assert engine.event is None
    some(loop, 1)
    assert engine.get_epsilon(1e-3) == spent(1)
    for epoch in (2, 3):  # the first was left before its end
        assert sorted(some(loop, 4)) == everyone
        assert engine.get_epsilon(1e-3) == spent(epoch)
    assert steps_of(engine.event) == loop[1].logical_step == 12
    with refusal("which no noise multiplier describes"):
        engine.accountant.history  # noqa: B018


def test_an_epoch_counts_at_its_least_noise_and_batches_may_be_empty():
    *loop, engine = once(dataset=data(3), noise_multiplier=DECAY, steps=5)
    for _ in range(2):
        assert min(sweep(*loop)) == 0
    assert [step.event.noise_multiplier for step, _ in runs_of(engine.event)] == [DECAY(4), DECAY(9)]
    assert engine.event == planned_epochs(DECAY, batches=5, steps=10)
    assert first(engine.event, 6) == engine.event
    assert first(engine.event, 5) == planned_epochs(DECAY, batches=5, steps=5)


@parametrize("workers", [0, 2])
@parametrize("public_size", [False, True])
def test_the_noise_for_a_target_is_found_and_batches_may_come_in_parts(workers, public_size):
    net, engine = mlp(), PrivateEngine(sampling="once-an-epoch")
    given = {} if public_size else {"steps": 4}
    said = pytest.warns(UserWarning, match="once an epoch: steps=")
    with said if public_size else nullcontext():
        module, optimizer, loader = engine.make_private_with_epsilon(
            module=net, optimizer=SGD(net.parameters(), lr=0.1), target_epsilon=3.0, target_delta=1e-3, epochs=2,
            data_loader=DataLoader(data(), batch_size=10, num_workers=workers), max_grad_norm=1.0, **given)  # fmt: skip
    for _ in range(2):
        with BatchMemoryManager(data_loader=loader, max_physical_batch_size=4, optimizer=optimizer) as parts:
            assert sum(sweep(module, optimizer, torch.nn.CrossEntropyLoss(), parts)) == 40
    assert steps_of(engine.event) == 8
    assert engine.accountant.adjacency == ("replace-one" if public_size else "add-remove")
    assert 2.9 < engine.get_epsilon(1e-3) <= 3.0
    assert engine.certify().certificates[0].status == "rigorous"


def test_a_target_for_each_of_several_networks_is_remarked_upon():
    engine, net = PrivateEngine(), mlp()
    how = {"target_epsilon": 3.0, "target_delta": 1e-3, "epochs": 1, "sample_rate": 0.5, "expected_batch_size": 20.0}
    for warns in (nullcontext(), pytest.warns(UserWarning, match="another network private before")):
        with warns:
            engine.make_private_with_epsilon(
                module=net, optimizer=SGD(net.parameters(), lr=0.1), dataset=data(), max_grad_norm=1.0, **how
            )
        net = mlp()


@parametrize("seeded", [False, True])
def test_a_run_goes_on_within_its_epoch(seeded, tmp_path):
    path, noise = tmp_path / "run.safetensors", Exponential(initial=1.5, factor=0.9)
    source = partial(SeededRandomness, 2) if seeded else lambda: None

    def begun():
        engine = PrivateEngine(sampling="once-an-epoch", randomness=source())
        *loop, engine = once(engine=engine, noise_multiplier=noise)
        return loop, engine, of_checkpoint(path, *loop)

    loop, engine, files = begun()
    sweep(*loop)
    seen = some(loop, 3)
    engine.save_checkpoint(**files)
    again, second, files = begun()
    next(iter(again[-1]))
    second.load_checkpoint(**files)
    assert sorted(seen + some(again, 4)) == sorted(data().tensors[0][:, 0].tolist())
    assert second.event == engine.event == planned_epochs(noise, batches=4, steps=8)
    sweep(*again)
    assert second.event == planned_epochs(noise, batches=4, steps=12)
    if seeded:
        whole, _, _ = begun()
        for _ in range(3):
            sweep(*whole)
        assert equal(flat(again[0]), flat(whole[0]))


@every_case(("changes", "words"), [
    ({"steps": 5}, "settings"), ({"dataset": data(41)}, "other data"), ({"noise_multiplier": 0.9}, "noise multipliers"),
    ({"engine": PrivateEngine(randomness=SeededRandomness(0)), "sample_rate": 0.25}, "settings")])  # fmt: skip
def test_an_epoch_goes_on_as_it_was_counted_or_is_refused(changes, words, tmp_path):
    path = tmp_path / "run.safetensors"
    *loop, engine = once()
    some(loop, 2)
    engine.save_checkpoint(**of_checkpoint(path, *loop))
    module, optimizer, _, _, other = once(**changes)
    with refusal(words, CheckpointError):
        other.load_checkpoint(path=path, module=module, optimizer=optimizer)
    assert other.event is None


def test_a_ledger_counts_the_rest_of_an_epoch_that_may_run_twice_as_sums_over_all_examples(tmp_path):
    path, engine = tmp_path / "run.safetensors", PrivateEngine(sampling="once-an-epoch")
    book = engine.ledger(tmp_path / "ledger")
    *loop, engine = once(engine=engine)
    some(loop, 2)
    assert [one.stretch.event for one in book.entries] == [engine.event]
    engine.save_checkpoint(**of_checkpoint(path, *loop))
    second = PrivateEngine(sampling="once-an-epoch")
    book = second.ledger(tmp_path / "ledger")
    *again, second = once(engine=second)
    second.load_checkpoint(**of_checkpoint(path, *again))
    sweep(*again)
    sweep(*again)
    _, rest, epoch = (runs_of(one.stretch.event) for one in book.entries)
    assert rest == [(PoissonSampled(sample_rate=1.0, event=Gaussian(noise_multiplier=1.0)), 1)]
    assert epoch == runs_of(engine.event)


def test_two_chains_of_one_engine_add_up_and_none_goes_on_with_less_noise_than_its_epoch_was_counted_at(tmp_path):
    *one, engine = once(noise_multiplier=2.0)
    *other, _ = once(engine=engine, steps=3)
    for loop in (one, other, one):
        some(loop, 2)
    assert [step.batches for step, _ in runs_of(engine.event)] == [4, 3, 4]
    *quieter, _ = once(engine=engine)
    sweep(*quieter)
    path = tmp_path / "run.safetensors"
    one[1].logical_step = 2  # as if its second pass had not been
    engine.save_checkpoint(**of_checkpoint(path, *one))
    *again, second = once()
    second.load_checkpoint(**of_checkpoint(path, *again))
    with refusal("counted at noise_multiplier 2"):
        some(again, 1)


def interleaved(workers):
    engine = PrivateEngine(sampling="once-an-epoch")
    *_, loader = of_a_loader(engine, batch_size=10, num_workers=workers, more={"steps": 4})
    for _ in zip(loader, loader, strict=True):
        pass


@every_case(("call", "words"), [
    (partial(once, batches="own"), "declares Poisson samples"), (partial(once, sample_rate=0.25), "sample_rate is for"),
    (partial(once, steps=None), "steps="),
    (partial(require_sound, {"poisson_sampling": False}), "once-an-epoch"),
    (partial(interleaved, 0), "another pass"), (partial(interleaved, 1), "another pass"),
    (partial(calibrated, 1.0, steps=4, target_epsilon=1.0, **ADD), "either sample_rate or batches")])  # fmt: skip
def test_what_is_no_epoch_is_refused(call, words):
    with refusal(words):
        call()


def test_a_step_that_the_ledger_refuses_is_not_counted_and_its_epoch_is_later():
    *loop, engine = once()
    right, engine.accountant.count = engine.accountant.count, partial(refuse, "full")
    with refusal("full"):
        some(loop, 1)
    engine.accountant.count = right
    loop[1].zero_grad()
    assert engine.event is None
    for _ in range(2):
        sweep(*loop)
    assert engine.get_epsilon(1e-3) == spent(2)


def refuse(words, *_):
    raise ValueError(words)


def test_without_noise_nothing_is_promised():
    *loop, engine = once(noise_multiplier=0.0)
    some(loop, 1)
    assert engine.get_epsilon(1e-3) == math.inf
