"""Files of counts: an interrupted count goes on to the same sums; other and edited files are refused."""

import pytest
import torch
from count_toys import LOSSES, count
from torch.nn import Linear, Module

from pacdp import load_checkpoint, save_checkpoint
from pacdp.errors import CheckpointError
from pacdp.losses import Loss, zero_one
from pacdp.stochastic.risk import UNIT
from pacdp.store.checkpoint import Checkpoint
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
        path, module = tmp_path / "deeper" / "count.safetensors", kind().eval()
        with pytest.raises(KeyboardInterrupt):
            count(module, resume=path, progress=interrupt)
        assert 0 < load_checkpoint(path).header["jobs"] < 15
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


def test_every_edited_field_is_refused_and_sums_that_no_count_can_reach_even_with_a_fitting_hash(started):
    path, module = started()
    whole = load_checkpoint(path)
    header, sums, jobs = dict(whole.header), dict(whole.model), whole.header["jobs"]
    most, two = 8 * jobs * UNIT, torch.zeros(2, dtype=torch.int64)
    edits = [{"totals": two + torch.tensor(own)} for own in ([-1, 0], [most + 1, 0])]
    edits += [{"totals": two[:1]}, {"totals": two.double()}]
    edits += [{name: own} for name in ("outputs", "losses") for own in (sums[name][:-1], 0.5 - sums[name])]
    said = [{"jobs": own} for own in (16, -1, True, None, "1")] + [{"fingerprint": "0" * 64}, {"losses": ["zero-one"]}]
    changed = [(header, sums | own) for own in edits] + [(header | own, sums) for own in said]
    changed += [(header, {name: sums[name] for name in sums if name != left}) for left in sums]
    for head, tensors in changed:
        save_checkpoint(path, Checkpoint(header=head, model=tensors, state={}))
        with refusal("delete it|choose another path", CheckpointError):
            count(module, resume=path)
    save_checkpoint(path, Checkpoint(header=header, model=sums, state={}))
    edited = path.read_bytes().replace(f'jobs\\":{jobs}'.encode(), f'jobs\\":{jobs + 1}'.encode())
    path.write_bytes(edited)
    with refusal("is not what was written.*delete it", CheckpointError):
        count(module, resume=path)
    save_checkpoint(path, Checkpoint(header=header, model=sums, state={}))
    assert count(module, resume=path) == count(module)
