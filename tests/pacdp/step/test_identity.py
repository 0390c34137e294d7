"""A seed draws noise once for a ledger, and a kept key for one way of rounding."""

import os
import subprocess
import sys
from contextlib import suppress
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn import Linear, Module, ReLU, Sequential, Tanh
from torch.utils.data import Dataset, TensorDataset

from pacdp import _mkl
from pacdp.private import DPSGD, Mechanism, SeededRandomness, SystemRandomness, UserDPSGD, train
from pacdp.random.kernels import config
from pacdp.step.identity import arithmetic, identity
from pacdp.store.ledger import Ledger, SharedNoise
from pacdp.store.reservation import NoLedger
from tests.marks import every_case, refusal
from tests.pacdp.draws import randn
from tests.pacdp.toys import frozen, seeded

X, Y = randn(60, 5), torch.arange(60) % 3
CPU = torch.device("cpu")
MECHANISM = Mechanism(clip_norm=1.0, noise_multiplier=1.0, sample_rate=1.0, expected_batch_size=60.0, steps=2,
                      grad_sample_mode="reference")  # fmt: skip
TEMPERATURE = 1.0


def loss(outputs, targets):
    return F.cross_entropy(outputs / TEMPERATURE, targets, reduction="none")


def squares(outputs, targets):
    return (outputs - F.one_hot(targets, 3)).square().sum(1)


class Scaled(Module):
    def __init__(self, factor=1.0):
        super().__init__()
        self.factor = factor
        self.register_buffer("shift", torch.zeros(3))

    def forward(self, inputs):
        return self.factor * inputs + self.shift


def net(seed=1, act=Tanh, last=None):
    made = Sequential(Linear(5, 8), act(), Linear(8, 3), last or Scaled())
    for p in made.parameters():
        nn.init.uniform_(p, -0.5, 0.5, generator=seeded(seed + p.numel()))
    return made


def shifted():
    made = net()
    made[-1].shift[0] = 1.0
    return made


def hooked():
    made = net()
    made[0].register_forward_hook(lambda layer, inputs, outputs: 2.0 * outputs)
    return made


def turned(matrix):
    """The same numbers in another order in memory, as channels_last has them."""
    return matrix.T.contiguous().T


def other_memory():
    made = net()
    made[0].weight = nn.Parameter(turned(made[0].weight.detach()))
    return made


def scaled(factor):
    def own(outputs, targets):
        return own.factor * loss(outputs, targets)

    own.factor = factor
    return own


def importing(outputs, targets):
    from tests.pacdp import toys

    return loss(outputs, targets) * (1.0 if toys else 2.0)


class Unseen(Dataset):
    def __len__(self):
        return 60

    def __getitem__(self, k):
        return X[k], Y[k]


def run(book, module=None, *, loss=loss, by=DPSGD, data=None, people=None, rate=0.1, **more):
    data = data or TensorDataset(X, Y)
    how = {
        "mechanism": MECHANISM,
        "loss": loss,
        "people": people,
        "randomness": SeededRandomness(7),
        "ledger": book,
        **more,
    }
    return train(by(learning_rate=rate), module or net(), data, **how)


class Late(TensorDataset):
    def __getitem__(self, index):
        return X[index] + 1.0, Y[index]


USED = SeededRandomness(7)
PEOPLE = {"by": UserDPSGD, "people": torch.arange(60) // 3}


class Told(SeededRandomness):
    """A source that draws what its class does."""


class Around:
    """A source that draws what another does, and tells what that tells."""

    def __init__(self, source, *hidden):
        self.source, self.hidden = source, hidden

    def __getattr__(self, name):
        if name in self.hidden:
            raise AttributeError(name)
        return getattr(self.source, name)


OTHERS = {
    "another loss": ({}, {"loss": squares}),
    "a loss of other constants": ({"loss": lambda o, t: loss(1.0 * o, t)}, {"loss": lambda o, t: loss(2.0 * o, t)}),
    "a loss of another closure": ({"loss": partial(loss)}, {"loss": partial(squares)}),
    "other first weights": ({}, {"module": net(2)}),
    "another activation": ({}, {"module": net(act=ReLU)}),
    "another attribute": ({}, {"module": net(last=Scaled(2.0))}),
    "another buffer": ({}, {"module": shifted()}),
    "frozen weights": ({}, {"module": frozen(net())}),
    "a hook": ({}, {"module": hooked()}),
    "weights that lie otherwise in memory": ({}, {"module": other_memory()}),
    "data that lie otherwise in memory": ({}, {"data": TensorDataset(turned(X), Y)}),
    "an attribute of the loss": ({"loss": scaled(1.0)}, {"loss": scaled(2.0)}),
    "a module that the loss imports": ({"loss": importing}, {"loss": importing}),
    "another rate": ({}, {"rate": 0.2}),
    "other data": ({}, {"data": TensorDataset(X + 1.0, Y)}),
    "other people": (PEOPLE, {**PEOPLE, "people": torch.arange(60) // 5}),
    "numbers that the seed drew before": ({"randomness": USED}, {"randomness": USED}),
    "a class made of it": ({}, {"randomness": Told(7), "rate": 0.2}),
    "a class around it": ({}, {"randomness": Around(SeededRandomness(7)), "rate": 0.2}),
    "data of a kind of its own": ({"data": Late(X, Y)}, {"data": Late(X, Y)}),
    "data that nobody can name": ({"data": Unseen()}, {"data": Unseen()}),
}


@every_case("what", OTHERS)
def test_another_release_with_the_same_noise_is_refused(what, tmp_path):
    first, second = OTHERS[what]
    book = Ledger.open(tmp_path)
    run(book, **first)
    with pytest.raises(SharedNoise):
        run(book, **second)
    assert len(book.entries) == 1


@every_case("what", ["again", "on from its checkpoint", "with another rate"])
def test_a_ledger_takes_a_seed_once_since_nothing_says_that_a_release_is_the_same(what, tmp_path):
    """Its code may read a file, its tensors lie otherwise in memory: two roundings of one noise cancel it."""
    book, file = Ledger.open(tmp_path / "book"), tmp_path / "run"

    def stop(seen):
        if seen.step == 2 and "on from" in what:
            raise KeyboardInterrupt

    with suppress(KeyboardInterrupt):
        run(book, checkpoint=file, checkpoint_every=1, progress=stop)
    assert [one.stretch.last for one in book.entries] == [1, 2], "stretches of one run are its own"
    with refusal("neither comes again nor goes on", SharedNoise):
        run(book, checkpoint=file if "on from" in what else None, rate=0.2 if "rate" in what else 0.1)
    run(book, randomness=SeededRandomness(8))
    run(NoLedger())
    assert len(book.entries) == 3


def test_noise_that_can_be_drawn_again_and_has_no_name_is_refused_beside_a_ledger(tmp_path):
    book, nameless = Ledger.open(tmp_path), Around(SeededRandomness(7), "seed")
    with refusal("has a state and no seed, .* give Around the seed of what it draws from"):
        run(book, randomness=nameless)
    run(book, randomness=Around(SystemRandomness(), "seed"))
    run(NoLedger(), randomness=nameless)
    assert len(book.entries) == 1


AROUND = {
    "other kernels": (torch._C._set_mkldnn_enabled, False, True),
    "fewer bits": (torch.set_float32_matmul_precision, "medium", "highest"),
    "deterministic kernels": (torch.use_deterministic_algorithms, True, False),
    "another number of threads": (torch.set_num_threads, torch.get_num_threads() + 1, torch.get_num_threads()),
    "numbers below the normal ones": (torch.set_flush_denormal, True, False),
    "automatic casts": (partial(torch.set_autocast_enabled, "cpu"), True, False),
    "loops compiled for another processor": (partial(setattr, config, "CPU_NAME"), "generic", config.CPU_NAME),
    "loops that add up one by one": (partial(setattr, config, "LOOP_VECTORIZE"), 0, config.LOOP_VECTORIZE),
}


@every_case("what", AROUND)
def test_what_stands_around_a_release_and_may_change_its_bits_is_part_of_it(what):
    """Two roundings of one noise, released under one price, would cancel it: chains of a kept key go on with one."""
    known, (tell, other, usual) = arithmetic(CPU), AROUND[what]
    tell(other)
    try:
        assert arithmetic(CPU) != known
    finally:
        tell(usual)
    assert arithmetic(CPU) == known


def test_a_variable_of_a_library_of_torch_is_part_of_a_release(monkeypatch):
    known = arithmetic(CPU)
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "SSE41")  # which no setting of torch tells, nor its processor
    assert arithmetic(CPU) != known


PRODUCT = "torch.randn(64, 64) @ torch.randn(64, 64)"
TOLD = "from pacdp._mkl import branch, steady; print(branch(), steady(branch()))"


def test_a_product_before_pacdp_leaves_bits_to_places_in_memory_and_is_another_release_each_time(monkeypatch):
    alone = {name: value for name, value in os.environ.items() if name != "MKL_CBWR"}

    def told(*lines):
        return subprocess.run(
            [sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, check=True, env=alone
        ).stdout.split()

    (usual, steady), (early, unsteady) = told(TOLD), told("import torch", PRODUCT, TOLD)
    if usual == "None":
        pytest.skip("torch has no MKL that says how it decided")
    assert (steady, unsteady) == ("True", "False")
    assert usual != early
    monkeypatch.setattr(_mkl, "branch", lambda: int(early))
    assert arithmetic(CPU) != arithmetic(CPU)


def test_values_and_tensors_are_told_apart():
    same: list[object] = [X, [1, "a"], None, {"b": 2}]
    others: list[list[object]] = [
        [1, 2], [[1], 2], [1, [2]], ["1", 2], [X], [X.double()], [X.reshape(5, 60)], [X + 1.0], [Y], [None], [],
    ]  # fmt: skip
    assert identity(*same) == identity(*same) == identity(X.clone(), (1, "a"), None, {"b": 2})
    assert len({identity(one) for one in others}) == len(others)
