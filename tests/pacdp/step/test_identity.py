"""A seed draws noise once: what a seeded run releases has a name that everything enters which fixes the numbers."""

import os
import subprocess
import sys
import threading
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn import Dropout, Linear, Module, ReLU, Sequential, Tanh
from torch.utils.data import Dataset, TensorDataset

from pacdp import _mkl
from pacdp.private import DPSGD, Mechanism, SeededRandomness, UserDPSGD, train
from pacdp.step.identity import Unnamed, identity
from pacdp.store.ledger import Ledger, SharedNoise
from tests.marks import every_case, refusal
from tests.pacdp.draws import randn
from tests.pacdp.same import identical
from tests.pacdp.toys import frozen, seeded

X, Y = randn(60, 5), torch.arange(60) % 3
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


AROUND = {
    "a global that the loss reads": (partial(globals().__setitem__, "TEMPERATURE"), 2.0, 1.0),
    "other kernels": (torch._C._set_mkldnn_enabled, False, True),
    "fewer bits": (torch.set_float32_matmul_precision, "medium", "highest"),
    "deterministic kernels": (torch.use_deterministic_algorithms, True, False),
    "another number of threads": (torch.set_num_threads, torch.get_num_threads() + 1, torch.get_num_threads()),
    "numbers below the normal ones": (torch.set_flush_denormal, True, False),
    "automatic casts": (partial(torch.set_autocast_enabled, "cpu"), True, False),
}


@every_case("what", AROUND)
def test_what_stands_around_a_release_and_may_change_its_bits_is_part_of_it(what, tmp_path):
    """Two roundings of one noise, released under one price, would cancel it."""
    book, (tell, other, usual) = Ledger.open(tmp_path), AROUND[what]
    run(book)
    tell(other)
    try:
        with pytest.raises(SharedNoise):
            run(book)
    finally:
        tell(usual)
    run(book)
    assert len(book.entries) == 1


def test_a_variable_of_a_library_of_torch_is_part_of_a_release(tmp_path, monkeypatch):
    book = Ledger.open(tmp_path)
    run(book)
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "SSE41")  # which no setting of torch tells, nor its processor
    with pytest.raises(SharedNoise):
        run(book)
    assert len(book.entries) == 1


PRODUCT = "torch.randn(64, 64) @ torch.randn(64, 64)"
TOLD = "from pacdp._mkl import branch, steady; print(branch(), steady(branch()))"


def test_a_product_before_pacdp_leaves_bits_to_places_in_memory_and_is_another_release_each_time(tmp_path, monkeypatch):
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
    book = Ledger.open(tmp_path)
    run(book)
    with refusal("with pacdp imported first", SharedNoise):
        run(book)


def test_masks_of_the_global_generator_are_part_of_a_release(tmp_path):
    book, dropping = Ledger.open(tmp_path), net(last=Dropout(0.5))
    before = torch.get_rng_state()
    run(book, dropping)
    torch.set_rng_state(before)
    run(book, dropping)
    assert len(book.entries) == 1
    with pytest.raises(SharedNoise):
        run(book, dropping)


def test_the_same_release_costs_nothing_and_goes_on_from_its_checkpoint(tmp_path):
    book, file = Ledger.open(tmp_path / "book"), tmp_path / "run"
    first = run(book, checkpoint=file, checkpoint_every=1)
    again = run(book, net())
    assert identical(first.weights, again.weights)
    run(book, net(5), checkpoint=file)  # whose own first weights the checkpoint's take the place of
    assert len(book.entries) == 2
    assert [one.stretch.last for one in book.entries] == [1, 2]


def of_class(body):
    return type("Own", (), {"f": body})


def test_what_cannot_be_looked_into_has_none():
    for thing in (threading.Lock(), iter([1]), {seeded}, pytest):
        with pytest.raises(Unnamed):
            identity(thing)
    assert identity(of_class(lambda self: 1)) != identity(of_class(lambda self: 2))
    assert identity([1, 2]) != identity([[1], 2]) != identity((1, 2))
