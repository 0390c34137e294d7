"""Files of counts: an interrupted count goes on to the same sums; other and edited files are refused."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from count_toys import LOSSES, count, data
from torch import Tensor, nn

from pacdp.errors import CheckpointError
from pacdp.losses import Loss, zero_one
from pacdp.posterior import GaussianPosterior
from pacdp.stochastic import MonteCarloRisk, mean_risks, progress
from pacdp.stochastic.risk import UNIT


def test_a_resumed_count_is_the_uninterrupted_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pacdp.stochastic.count._SAVE_SECONDS", 0.0)
    path = tmp_path / "deeper" / "count.json"

    def interrupt(done: int, total: int) -> None:
        assert total == 111
        if done >= 60:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        count(resume=path, progress=interrupt)
    assert 0 < json.loads(path.read_text())["jobs"] < 15
    seen: list[int] = []
    assert count(resume=path, progress=lambda done, _: seen.append(done)) == count()
    assert seen[0] > 60
    assert seen[-1] == 111
    assert count(resume=path, progress=lambda done, _: pytest.fail("nothing was left to do")) == count()


def test_a_file_of_another_count_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "count.json"
    count(resume=path)
    for changes in ({"passes": 4}, {"seed": 8}, {"batch_size": 9}, {"losses": LOSSES[:1]}):
        with pytest.raises(CheckpointError, match="another count"):
            count(resume=path, **changes)
    path.write_text(path.read_text()[:30])
    with pytest.raises(CheckpointError, match="delete it"):
        count(resume=path)


class Switched(nn.Module):
    """A network whose attributes decide what it computes; its text and weights do not show them."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer, self.flip, self.scale, self.shift = nn.Linear(16, 3), False, 1.0, 0.0

    def forward(self, x: Tensor) -> Tensor:
        out = self.scale * self.layer(x.flatten(1)) + self.shift * torch.eye(3)[0]
        return -out if self.flip else out


class General(Switched):
    """The same, as no chain of known layers: weights are drawn as whole networks."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) + 0.0 * self.layer.weight.sum()


def started(path: Path, module: nn.Module, **changes) -> None:
    """Count a few batches and be killed."""

    def interrupt(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        go_on(path, module, progress=interrupt, **changes)
    assert 0 < json.loads(path.read_text())["jobs"] < 15


def go_on(path: Path | None, module: nn.Module, **changes) -> tuple[MonteCarloRisk, ...]:
    inputs, labels = data()
    settings = {"losses": LOSSES, "passes": 3, "seed": 7, "batch_size": 8} | changes
    posterior = GaussianPosterior.around(module.layer, std=0.1)
    named = {f"layer.{name}": value for name, value in posterior.means.items()}
    spread = {f"layer.{name}": value for name, value in posterior.stds.items()}
    return mean_risks(
        module, GaussianPosterior(means=named, stds=spread), inputs=inputs, labels=labels, resume=path, **settings
    )


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pacdp.stochastic.count._SAVE_SECONDS", 0.0)


COMPUTES_OTHERWISE = {
    "turned over": lambda module: setattr(module, "flip", True),
    "scaled by a hundredth": lambda module: setattr(module, "scale", 1.01),
    "one class preferred": lambda module: setattr(module, "shift", 0.01),
    "a hook": lambda module: module.register_forward_hook(lambda layer, args, out: out.roll(1, dims=1)),
    "a hook on a layer": lambda module: module.layer.register_forward_pre_hook(lambda layer, args: (args[0].abs(),)),
    "a forward of its own": lambda module: setattr(module, "forward", lambda x: -Switched.forward(module, x)),
}


@pytest.mark.usefixtures("often")
@pytest.mark.parametrize("kind", [Switched, General])
@pytest.mark.parametrize("name", COMPUTES_OTHERWISE)
def test_a_network_that_computes_something_else_cannot_go_on(name: str, kind: type, tmp_path: Path) -> None:
    path, module = tmp_path / "count.json", kind().eval()
    started(path, module)
    before = path.read_bytes()
    COMPUTES_OTHERWISE[name](module)
    with pytest.raises(CheckpointError, match=r"belongs to another network or loss: .* delete it"):
        go_on(path, module)
    assert path.read_bytes() == before
    honest = kind().eval()
    assert go_on(path, honest) == go_on(None, honest)


@pytest.mark.usefixtures("often")
@pytest.mark.parametrize(
    "function",
    [
        lambda logits, labels: 1.0 - zero_one().function(logits, labels),
        lambda logits, labels: 0.0 * zero_one().function(logits, labels),
        lambda logits, labels: zero_one().function(logits, (labels + 1) % 3),
        lambda logits, labels: torch.where(labels == 2, 0.0, zero_one().function(logits, labels)),
    ],
    ids=["inverted", "nothing", "another label", "one label for free"],
)
def test_a_loss_of_the_same_name_that_computes_something_else_cannot_go_on(function, tmp_path: Path) -> None:
    path, module = tmp_path / "count.json", Switched().eval()
    started(path, module)
    other = (Loss(name="zero-one", low=0.0, high=1.0, function=function), LOSSES[1])
    with pytest.raises(CheckpointError, match="another network or loss"):
        go_on(path, module, losses=other)


@pytest.mark.usefixtures("often")
def test_rounding_of_another_machine_is_no_other_network(tmp_path: Path) -> None:
    path, module = tmp_path / "count.json", Switched().eval()
    started(path, module)
    module.scale = 1.0 + 1e-6
    go_on(path, module)


def rehashed(values: dict) -> str:
    """What someone who knows the format would write."""
    bare = {name: value for name, value in values.items() if name != "content_hash"}
    return json.dumps({**bare, "content_hash": progress._hash(bare)})


@pytest.mark.usefixtures("often")
def test_every_edited_field_is_refused(tmp_path: Path) -> None:
    path, module = tmp_path / "count.json", Switched().eval()
    started(path, module)
    whole = json.loads(path.read_text())
    edits = {
        "totals": [0, 0],
        "jobs": whole["jobs"] + 1,
        "fingerprint": "0" * 64,
        "losses": ["zero-one", "other"],
        "outputs": [0.0] * len(whole["outputs"]),
        "loss_values": whole["loss_values"][:-1],
        "format": "other/1",
        "content_hash": "0" * 64,
    }
    assert set(edits) == set(whole)
    for name, value in edits.items():
        path.write_text(json.dumps({**whole, name: value}))
        with pytest.raises(CheckpointError, match="delete it"):
            go_on(path, module)
    path.write_text(json.dumps(whole))
    go_on(path, module)


@pytest.mark.usefixtures("often")
def test_sums_that_no_count_can_reach_are_refused_even_with_a_fitting_hash(tmp_path: Path) -> None:
    path, module = tmp_path / "count.json", Switched().eval()
    started(path, module)
    whole = json.loads(path.read_text())
    most = 8 * whole["jobs"] * UNIT
    for change in (
        {"totals": [-1, 0]},
        {"totals": [most + 1, 0]},
        {"totals": [0]},
        {"totals": [0, 0, 0]},
        {"jobs": 16},
        {"jobs": -1},
        {"jobs": True},
        {"totals": [0.5, 0]},
        {"totals": ["0", "0"]},
        {"jobs": None},
        {"totals": None},
    ):
        path.write_text(rehashed({**whole, **change}))
        with pytest.raises(CheckpointError, match="delete it"):
            go_on(path, module)
    for value in (
        [],
        3,
        "text",
        {},
        None,
        {"format": progress.FORMAT},
        {**whole, "outputs": ["a"]},
        {**whole, "outputs": 3},
    ):
        path.write_text(rehashed(value) if isinstance(value, dict) else json.dumps(value))
        with pytest.raises(CheckpointError, match="delete it"):
            go_on(path, module)


def parsed(text: bytes) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return None


@pytest.mark.usefixtures("often")
def test_damaged_files_are_refused_or_whole(tmp_path: Path) -> None:
    path, module = tmp_path / "count.json", Switched().eval()
    started(path, module)
    whole, rng = path.read_bytes(), np.random.default_rng(0)
    values = json.loads(whole)
    signature = progress.Signature(outputs=values["outputs"], losses=values["loss_values"], rounding=1e-5)
    settings = {"losses": values["losses"], "mark": values["fingerprint"], "signature": signature, "jobs": [8] * 15}
    assert progress.Saved(path, **settings, most=UNIT, seconds=1.0).tally.totals == values["totals"]
    for _ in range(300):
        damaged = bytearray(whole)
        for place in rng.integers(0, len(whole), rng.integers(1, 4)):
            damaged[place] = rng.integers(0, 256)
        path.write_bytes(bytes(damaged[: rng.integers(0, len(whole))] if rng.random() < 0.2 else damaged))
        if parsed(path.read_bytes()) != values:
            with pytest.raises(CheckpointError, match="delete it"):
                progress.Saved(path, **settings, most=UNIT, seconds=1.0)
