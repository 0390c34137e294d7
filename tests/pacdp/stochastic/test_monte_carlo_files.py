"""Files of counts: an interrupted count goes on to the same sums; other and edited files are refused."""

import json

import pytest
import torch
from count_toys import LOSSES, count
from numpy.random import default_rng
from torch.nn import Linear, Module

from pacdp.errors import CheckpointError
from pacdp.losses import Loss, zero_one
from pacdp.stochastic import progress
from pacdp.stochastic.risk import UNIT
from pacdp.store.canonical import chained
from tests.marks import every_case, parametrize, refusal


@pytest.fixture(autouse=True)
def _every_batch_is_saved(monkeypatch):
    monkeypatch.setattr("pacdp.stochastic.count._SAVE_SECONDS", 0.0)


class Switched(Module):
    """A network whose attributes decide what it computes; its text and weights do not show them."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layer, self.flip, self.scale, self.shift = Linear(16, 3), False, 1.0, 0.0

    def forward(self, x):
        out = self.scale * self.layer(x.flatten(1)) + self.shift * torch.eye(3)[0]
        return -out if self.flip else out


class General(Switched):
    """The same, as no chain of known layers: weights are drawn as whole networks."""

    def forward(self, x):
        return super().forward(x) + 0.0 * self.layer.weight.sum()


def interrupt(done, total):
    assert total == 111
    raise KeyboardInterrupt


@pytest.fixture
def started(tmp_path):
    """Count a few batches and be killed: the file, and the network."""

    def start(kind=Switched):
        path, module = tmp_path / "deeper" / "count.json", kind().eval()
        with pytest.raises(KeyboardInterrupt):
            count(module, resume=path, progress=interrupt)
        assert 0 < json.loads(path.read_text())["jobs"] < 15
        return path, module

    return start


def test_a_resumed_count_is_the_uninterrupted_one_and_another_is_refused(started):
    path, module = started()
    before, seen = path.read_bytes(), []
    for changes in ({"passes": 4}, {"seed": 8}, {"batch_size": 9}, {"losses": LOSSES[:1]}):
        with refusal("another count", CheckpointError):
            count(module, resume=path, **changes)
    assert path.read_bytes() == before
    assert count(module, resume=path, progress=lambda done, _: seen.append(done)) == count(module)
    assert seen[0] > 8
    assert seen[-1] == 111
    assert count(module, resume=path, progress=lambda done, _: pytest.fail("nothing was left to do")) == count(module)


COMPUTES_OTHERWISE = {
    "turned over": lambda module: setattr(module, "flip", True),
    "scaled by a hundredth": lambda module: setattr(module, "scale", 1.01),
    "one class preferred": lambda module: setattr(module, "shift", 0.01),
    "a hook": lambda module: module.register_forward_hook(lambda layer, args, out: out.roll(1, dims=1)),
    "a hook on a layer": lambda module: module.layer.register_forward_pre_hook(lambda layer, args: (args[0].abs(),)),
    "a forward of its own": lambda module: setattr(module, "forward", lambda x: -Switched.forward(module, x)),
}


@every_case("kind", [Switched, General])
def test_a_network_that_computes_something_else_cannot_go_on(kind, started):
    path, _ = started(kind)
    before = path.read_bytes()
    for change in COMPUTES_OTHERWISE.values():
        other = kind().eval()
        change(other)
        with refusal(r"belongs to another network or loss: .* delete it", CheckpointError):
            count(other, resume=path)
        assert path.read_bytes() == before
    near = kind().eval()
    near.scale = 1.0 + 1e-6  # as the rounding of another machine
    count(near, resume=path)


@parametrize(
    "function",
    [
        lambda logits, labels: 1.0 - zero_one().function(logits, labels),
        lambda logits, labels: torch.where(labels == 2, 0.0, zero_one().function(logits, labels)),
    ],
    ids=["inverted", "one label for free"],
)
def test_a_loss_of_the_same_name_that_computes_something_else_cannot_go_on(function, started):
    path, module = started()
    other = (Loss(name="zero-one", low=0.0, high=1.0, function=function), LOSSES[1])
    with refusal("another network or loss", CheckpointError):
        count(module, resume=path, losses=other)


def rehashed(values):
    """What someone who knows the format would write."""
    bare = {name: value for name, value in values.items() if name != "hash"}
    return json.dumps(chained(bare, after=""))


def test_every_edited_field_is_refused_and_sums_that_no_count_can_reach_even_with_a_fitting_hash(started):
    path, module = started()
    whole = json.loads(path.read_text())
    edits = {
        "totals": [0, 0], "jobs": whole["jobs"] + 1, "fingerprint": "0" * 64, "losses": ["zero-one", "other"],
        "outputs": [0.0] * len(whole["outputs"]), "loss_values": whole["loss_values"][:-1], "format": "other/1",
        "hash": "0" * 64,
    }  # fmt: skip
    assert set(edits) == set(whole)
    most = 8 * whole["jobs"] * UNIT
    impossible = [{"totals": value} for value in ([-1, 0], [most + 1, 0], [0], [0.5, 0], ["0", "0"], None)]
    impossible += [{"jobs": value} for value in (16, -1, True, None)] + [{"outputs": value} for value in (["a"], 3)]
    texts = [json.dumps({**whole, name: value}) for name, value in edits.items()]
    texts += [rehashed({**whole, **change}) for change in impossible]
    texts += ["[]", "3", "{}", json.dumps({"format": progress.FORMAT}), path.read_text()[:30]]
    for text in texts:
        path.write_text(text)
        with refusal("delete it", CheckpointError):
            count(module, resume=path)
    path.write_text(rehashed(whole))
    assert count(module, resume=path) == count(module)


def parsed(text):
    try:
        return json.loads(text)
    except ValueError:
        return None


def test_damaged_files_are_refused_or_whole(started):
    path, _ = started()
    whole, rng = path.read_bytes(), default_rng(0)
    values = json.loads(whole)
    signature = progress.Signature(outputs=values["outputs"], losses=values["loss_values"], rounding=1e-5)
    settings = {"losses": values["losses"], "mark": values["fingerprint"], "signature": signature, "sizes": [8] * 15,
                "seconds": 1.0}  # fmt: skip
    assert progress.Saved(path, **settings).totals == values["totals"]
    for _ in range(300):
        damaged = bytearray(whole)
        for place in rng.integers(0, len(whole), rng.integers(1, 4)):
            damaged[place] = rng.integers(0, 256)
        path.write_bytes(bytes(damaged[: rng.integers(0, len(whole))] if rng.random() < 0.2 else damaged))
        if parsed(path.read_bytes()) != values:
            with refusal("delete it", CheckpointError):
                progress.Saved(path, **settings)
