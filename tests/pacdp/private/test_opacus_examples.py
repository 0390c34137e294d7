"""Two scripts as Opacus's tutorials have them, written anew and run with another import line; other doors."""

import errno
import os
from contextlib import nullcontext
from math import isfinite

import numpy as np
import pytest
import torch
from private_toys import data, digits, flat, of_checkpoint, private, sweep
from torch import nn
from torch.nn.functional import interpolate
from torch.utils.data import TensorDataset

from pacdp.errors import CheckpointError
from pacdp.private import PrivateEngine, export, joined, planned, steps_of
from pacdp.store.checkpoint import load_checkpoint
from pacdp.store.ledger import Ledger, Limit, Overdrawn
from tests.marks import parametrize, refusal
from tests.typed import unchecked

IMAGES = """
import torch.nn as nn
import torch.nn.functional as F
from opacus import PrivacyEngine
from opacus.utils.batch_memory_manager import BatchMemoryManager
from torch.optim import SGD
from torch.utils.data import DataLoader


class SampleConvNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, 8, 2, padding=3)
        self.conv2 = nn.Conv2d(16, 32, 4, 2)
        self.fc1 = nn.Linear(32 * 4 * 4, 32)
        self.fc2 = nn.Linear(32, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2, 1)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2, 1)
        return self.fc2(F.relu(self.fc1(x.view(-1, 32 * 4 * 4))))


model = SampleConvNet()
optimizer = SGD(model.parameters(), lr=0.1)
train_loader = DataLoader(dataset, batch_size=64, shuffle=True)
privacy_engine = PrivacyEngine(secure_mode=False, accountant="rdp")
model, optimizer, train_loader = privacy_engine.make_private(
    module=model, optimizer=optimizer, data_loader=train_loader, noise_multiplier=1.0,
    max_grad_norm=1.0, clipping="flat", grad_sample_mode="hooks", poisson_sampling=True)
criterion = nn.CrossEntropyLoss()
losses = []
model.train()
with BatchMemoryManager(
    data_loader=train_loader, max_physical_batch_size=32, optimizer=optimizer
) as parts:
    for data, target in parts:
        optimizer.zero_grad()
        loss = criterion(model(data), target)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
epsilon = privacy_engine.accountant.get_epsilon(delta=1e-5)
"""
NAMES = """
import torch
import torch.nn as nn
from opacus import PrivacyEngine
from opacus.layers import DPLSTM
from torch.utils.data import DataLoader


class CharNNClassifier(nn.Module):
    def __init__(self, embedding_size, hidden_size, output_size, vocab_size=259):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_size)
        self.rnn = DPLSTM(embedding_size, hidden_size, num_layers=1, batch_first=True)
        self.out_layer = nn.Linear(hidden_size, output_size)

    def forward(self, x, hidden=None):
        x, _ = self.rnn(self.embedding(x), hidden)
        return self.out_layer(x[:, -1, :])


model = CharNNClassifier(16, 32, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=2.0)
privacy_engine = PrivacyEngine()
model, optimizer, train_loader = privacy_engine.make_private_with_epsilon(
    module=model, optimizer=optimizer, data_loader=DataLoader(dataset, batch_size=64),
    target_epsilon=8.0, target_delta=1e-3, epochs=2, max_grad_norm=1.5)
criterion = nn.CrossEntropyLoss()
losses = []
for epoch in range(2):
    model.train()
    for x, y in train_loader:
        logits = model(x)
        loss = criterion(logits, y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        accuracy = float(logits.argmax(-1).eq(y).sum()) / len(y)
        losses.append(loss.item())
epsilon = privacy_engine.get_epsilon(1e-3)
"""


def images():
    data, *_ = digits()
    inputs, targets = data[:640]
    return TensorDataset(interpolate(inputs.reshape(-1, 1, 8, 8), 28), targets)


def names():
    """Words of four alphabets of one size, in bytes, all of one length."""
    kinds = torch.arange(240) % 4
    return TensorDataset(torch.randint(97, 117, (240, 16)) + 2 * kinds[:, None], kinds)


def ran(script, dataset):
    """What a script leaves, its import line changed."""
    script = script.replace(
        "from opacus import PrivacyEngine", "from pacdp.private import PrivateEngine as PrivacyEngine"
    )
    found = {"dataset": dataset}
    with pytest.warns(UserWarning, match="number of examples is public") as told:
        exec(script, found)
    assert not any("pacdp/opacus" in one.filename for one in told if "is public" in str(one.message))
    return found


def test_the_images_example_runs(tmp_path):
    found = ran(IMAGES, images())
    engine = found["privacy_engine"]
    assert len(found["losses"]) > 10, "parts of batches"
    assert all(map(isfinite, found["losses"]))
    assert engine.event == planned(1.0, sample_rate=0.1, steps=10)
    assert found["epsilon"] == engine.get_epsilon(1e-5, adjacency="replace-one")
    assert found["epsilon"] > engine.get_epsilon(1e-5, adjacency="add-remove")
    (entry,) = engine.ledger(tmp_path / "ledger").entries
    assert entry.stretch.tells_size
    assert load_checkpoint(engine.export(tmp_path / "release")).header["adjacency"] == "replace-one"


def test_the_names_example_runs_and_keeps_to_its_target():
    found = ran(NAMES, names())
    assert 0.99 * 8.0 < found["epsilon"] <= 8.0
    engine = found["privacy_engine"]
    assert steps_of(engine.event) == len(found["losses"]) == 2 * len(found["train_loader"])
    with refusal("has recorded"):
        engine.make_private_with_epsilon(target_epsilon=1.0, target_delta=0.1, epochs=1)


def full(_):
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_loop_is_certified_published_and_counted_before_its_noise(tmp_path, monkeypatch):
    *loop, engine = private(engine=PrivateEngine(), steps=2, batches="loader", noise_multiplier=4.0)
    sweep(*loop)
    engine.save_checkpoint(**of_checkpoint(tmp_path / "uncounted", *loop))
    module, optimizer, _, _, later = private(engine=PrivateEngine(), steps=2, noise_multiplier=4.0)
    counted = later.ledger(tmp_path / "later")
    later.load_checkpoint(path=tmp_path / "uncounted", module=module, optimizer=optimizer)
    assert [one.stretch.event for one in counted.entries] == [engine.event], "a ledger misses no step of a checkpoint"
    book = engine.ledger(tmp_path / "ledger")
    with refusal("already"):
        engine.ledger(tmp_path / "other")
    sweep(*loop)
    assert joined(*(one.stretch.event for one in book.entries)) == engine.event
    engine.save_checkpoint(**of_checkpoint(tmp_path / "run", *loop))
    for folder, words in ((None, "counted in a ledger"), ("other", "another ledger"), ("ledger", None)):
        module, optimizer, _, _, again = private(engine=PrivateEngine(), steps=2, noise_multiplier=4.0)
        if folder is not None:
            again.ledger(tmp_path / folder)
        with refusal(words) if words else nullcontext():
            again.load_checkpoint(path=tmp_path / "run", module=module, optimizer=optimizer)
    assert len(book.entries) == len(Ledger.load(tmp_path / "ledger").entries), "what is counted is not counted again"
    spent = engine.get_epsilon(1e-5)
    book.set_limit(Limit(epsilon=1.001 * spent, delta=1e-5, adjacency="add-remove", unit="example"))
    with refusal("beyond its limit", Overdrawn):
        sweep(*loop)
    assert engine.get_epsilon(1e-5) == spent, "nothing was drawn"
    (made,) = engine.certify(failure_prob=0.01).certificates
    assert (made.of, made.status) == ("your network", "rigorous")
    with refusal("covers"):
        engine.certify(data(20, seed=9))
    with monkeypatch.context() as disk, refusal("cannot write checkpoint .* No space", CheckpointError):
        disk.setattr(os, "fsync", full)
        engine.export(tmp_path / "release")
    kept = load_checkpoint(engine.export(tmp_path / "release"))  # room was made
    assert torch.equal(flat(kept.model), flat(loop[0]))
    with refusal("exists"):
        engine.export(tmp_path / "release")
    with refusal("seed"):
        private()[-1].export(tmp_path / "seeded")


def test_weights_without_noise_are_not_published(tmp_path):
    """In one step of two, too."""
    for noise in (0.0, float):
        *loop, engine = private(engine=PrivateEngine(), steps=2, batches="loader", noise_multiplier=noise)
        sweep(*loop)
        with refusal("noise_multiplier was 0 at some step"):
            engine.export(tmp_path / "bare")


@parametrize(("changes", "words"), [
    ({"weights": nn.Linear(2, 2)}, "weights must be tensors by their names, .* got Linear and NoneType: give"),
    ({"weights": {}}, "weights must be tensors by their names"),
    ({"weights": {"a": np.zeros(2)}}, "weights must be tensors by their names"),
    ({"snapshots": [torch.zeros(2)]}, "snapshots a tensor with one a row, got dict and list"),
    ({"adjacency": "add_remove"}, "adjacency must be one of"),
    ({"event": None}, "event must be one of Gaussian"),
])  # fmt: skip
def test_what_is_no_release_is_not_written_as_one(changes, words, tmp_path):
    event = planned(1.0, sample_rate=0.1, steps=1)
    given = {"weights": {"a": torch.zeros(2)}, "event": event, "adjacency": "add-remove"}
    with unchecked(), refusal(words):
        export(tmp_path / "a.safetensors", **{**given, **changes})
    assert not (tmp_path / "a.safetensors").exists()
    export(tmp_path / "a.safetensors", **given)


class Augmented(TensorDataset):
    """Gives each example with a little noise of its own, another one at every reading."""

    def __getitem__(self, index):
        inputs, target = super().__getitem__(index)
        return inputs + 0.1 * torch.randn_like(inputs), target


def test_who_augmented_the_training_examples_certifies_on_them_as_they_are():
    plain = data()
    anew = Augmented(*plain.tensors)
    *loop, engine = private(dataset=anew, engine=PrivateEngine(), steps=1, batches="loader", noise_multiplier=4.0)
    sweep(*loop)
    (made,) = engine.certify(plain).certificates
    (covers,) = (one for one in made.hypotheses if one.name == "privacy covers these rows")
    assert (covers.standing, covers.by, made.status) == ("declared", "the caller", "rigorous"), "no hash shows it"
    with refusal(r"give certify\(data\) its examples without random transforms"):
        engine.certify()
    with refusal("data must be the same rows at every reading"):
        engine.certify(anew)
    with refusal("of which there were 40, got 41: give each once"):
        engine.certify(data(41))


@parametrize("batches", ["loader", "own"])
def test_what_is_declared_says_who_drew_the_batches(batches):
    module, optimizer, criterion, loader, engine = private(
        engine=PrivateEngine(), steps=1, batches=batches, noise_multiplier=4.0)  # fmt: skip
    sweep(module, optimizer, criterion, loader)
    *layers, last = modes = [*module.modules()]
    last.eval()
    (made,) = engine.certify().certificates
    assert [one.training for one in modes] == [True] * len(layers) + [False], "each layer goes on as it was"
    said = "; ".join(one.by for one in made.hypotheses)
    assert "the private optimizer alone moves the weights" in said
    assert ("who drew its batches" in said) is (batches == "own")


def test_what_a_report_takes_of_first_and_later_weights_is_said():
    """Weights that learnt from the examples without noise are in no price, before the loop or after it."""
    module, optimizer, criterion, loader, engine = private(
        engine=PrivateEngine(), steps=1, batches="loader", noise_multiplier=20.0)  # fmt: skip
    sweep(module, optimizer, criterion, loader)
    report = engine.certify(failure_prob=0.5)
    assert (
        "and the private run began with nothing learnt from them and took each by itself, which you say"
        in report.headline()
    )
    assert "the last private step left" not in f"{report}"
    with torch.no_grad():
        next(module.parameters()).mul_(0.5)
    assert "Remark: the weights are not those that the last private step left" in f"{engine.certify()}"
