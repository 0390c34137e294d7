"""Counts: the same whatever the batches, ranks and interruptions; what they prove; what is refused."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from fresh_laws import random_posterior
from scipy import stats
from torch import Tensor, nn

import bounds
from pacdp.errors import CheckpointError
from pacdp.losses import Loss, bounded_cross_entropy, zero_one
from pacdp.posterior import GaussianPosterior
from pacdp.stochastic import MonteCarloRisk, mean_risk, mean_risks, passes_for, progress
from pacdp.stochastic.risk import UNIT, in_units

LOSSES = (zero_one(), bounded_cross_entropy(classes=3))


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(1, 3, 2), nn.ReLU(), nn.Flatten(), nn.Linear(27, 3)).eval()


def data(n: int = 37) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(n, 1, 4, 4, generator=generator), torch.randint(0, 3, (n,), generator=generator)


def count(**changes) -> tuple[MonteCarloRisk, ...]:
    module = network()
    inputs, labels = data()
    settings = {"losses": LOSSES, "passes": 3, "seed": 7, "batch_size": 8} | changes
    return mean_risks(module, random_posterior(module, "isotropic"), inputs=inputs, labels=labels, **settings)


def test_counts_do_not_depend_on_batches_and_a_pass_is_its_terms() -> None:
    whole = count(batch_size=37)
    error, cross_entropy = whole
    assert error.terms == 111
    assert error.errors * UNIT == error.total
    assert 0 < error.errors < 111
    for batch_size in (1, 5, 8):
        smaller = count(batch_size=batch_size)
        assert smaller[0] == error
        assert smaller[1].mean == pytest.approx(cross_entropy.mean, rel=1e-6)
    assert count(seed=8) != whole
    assert count(losses=LOSSES[:1])[0] == error
    assert count(passes=1)[0].errors <= count(passes=2)[0].errors <= error.errors


def test_draws_belong_to_examples_not_to_places_in_a_batch() -> None:
    """The losses of the first 20 examples are part of those of all 37."""
    module, (inputs, labels) = network(), data()
    posterior = random_posterior(module, "isotropic")
    settings = {"loss": LOSSES[0], "passes": 1, "seed": 7}
    part = mean_risk(module, posterior, inputs=inputs[:20], labels=labels[:20], **settings)
    swapped = labels.clone()
    swapped[20:] = (labels[20:] + 1) % 3
    one, other = (mean_risk(module, posterior, inputs=inputs, labels=y, **settings) for y in (labels, swapped))
    assert part.errors <= min(one.errors, other.errors)


class Twice(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer, self.last = nn.Linear(16, 16), nn.Linear(16, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(torch.tanh(self.layer(self.layer(x.flatten(1)))))


@pytest.mark.parametrize(("group_size", "terms"), [(1, 74), (5, 14), (100, 2)])
def test_groups_that_share_draws_count_once(group_size: int, terms: int) -> None:
    module, (inputs, labels) = Twice(), data()
    posterior = random_posterior(module, "diagonal")
    found = [
        mean_risk(module, posterior, inputs=inputs, labels=labels, loss=LOSSES[0], passes=2, seed=3,
                  group_size=group_size, batch_size=batch_size)
        for batch_size in (37, 10)
    ]  # fmt: skip
    assert found[0] == found[1]
    assert found[0].terms == terms


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


def _rank(rank: int, world: int, folder: str) -> None:
    torch.set_num_threads(1)
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=world
    )  # fmt: skip
    found = count(resume=Path(folder) / "count.json")
    Path(folder, f"found.{rank}").write_text(json.dumps([each.to_dict() for each in found]))
    torch.distributed.destroy_process_group()


def test_two_ranks_count_what_one_counts(tmp_path: Path) -> None:
    torch.multiprocessing.spawn(_rank, args=(2, str(tmp_path)), nprocs=2)
    alone = [each.to_dict() for each in count()]
    assert [json.loads((tmp_path / f"found.{rank}").read_text()) for rank in (0, 1)] == [alone, alone]
    assert {path.name for path in tmp_path.glob("count.json*")} == {"count.json", "count.json.1"}


def closed_form() -> tuple[nn.Module, GaussianPosterior, Tensor, Tensor, float]:
    """One logit w·x + b is Gaussian: R̂(Q) = mean Φ(-y m / s)."""
    torch.manual_seed(0)
    module = nn.Linear(3, 1)
    posterior = random_posterior(module, "isotropic", std=0.4)
    inputs, labels = torch.randn(40, 3), torch.randint(0, 2, (40,))
    mean = module(inputs).detach()[:, 0].double().numpy()
    std = torch.hypot(posterior.stds["weight"] * inputs.norm(dim=1), posterior.stds["bias"]).double().numpy()
    risk = stats.norm.cdf(-(2 * labels.numpy() - 1) * mean / std).mean()
    return module, posterior, inputs, labels, float(risk)


def test_upper_formal_guarantee_coverage_on_a_closed_form() -> None:
    module, posterior, inputs, labels, risk = closed_form()
    seeds, failure_prob = 200, 0.2
    found = [
        mean_risk(module, posterior, inputs=inputs, labels=labels, loss=zero_one(), passes=2, seed=seed)
        for seed in range(seeds)
    ]
    average = float(np.mean([each.mean for each in found]))
    assert abs(average - risk) < 5 * 0.5 / math.sqrt(seeds * 80)
    failures = sum(each.upper(failure_prob).value < risk for each in found)
    assert failures <= stats.binom.ppf(0.999, seeds, failure_prob)
    assert failures > 0  # the bound is no trivial one


def test_upper_is_the_bound_of_bounds_with_as_many_draws_as_terms() -> None:
    (error, cross_entropy) = count()
    for found in (error, cross_entropy):
        certificate = found.upper(0.01)
        assert certificate.value == bounds.kl_chernoff_upper(found.mean, 111, 0.01)
        assert certificate.status == "rigorous"
        assert found.to_dict()["mean"] == found.mean


def test_losses_are_rounded_up_and_ends_are_exact() -> None:
    rng = np.random.default_rng(0)
    loss = Loss(name="any", low=-0.7, high=2.3, function=lambda logits, labels: logits)
    values = torch.tensor(rng.uniform(-0.7, 2.3, 500)).float().clamp(-0.7, 2.3)
    exact = sum((float(v) - loss.low) / (loss.high - loss.low) for v in values) * UNIT
    assert exact - 1e-3 <= in_units(values, loss) <= exact + 500 * (1 + 1e-5)
    assert in_units(torch.tensor([0.0, 1.0, 1.0]), zero_one()) == 2 * UNIT
    assert in_units(torch.tensor([1e-12]), zero_one()) == 1


def test_passes_for_is_the_fewest() -> None:
    assert passes_for(slack_nats=math.log(2 / 0.01) / 150_000, n=30_000, failure_prob=0.01) == 5
    for n, slack, size in ((100, 0.001, 1), (1000, 0.3, 7), (37, 1e-3, 5)):
        passes = passes_for(slack_nats=slack, n=n, failure_prob=0.05, group_size=size)
        assert math.log(20) / (n * passes // size) <= slack
        assert passes == 1 or math.log(20) / (n * (passes - 1) // size) > slack
    for wrong in ({"slack_nats": 0.0}, {"n": 0}, {"failure_prob": 1.0}, {"group_size": 0}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            passes_for(**({"slack_nats": 0.1, "n": 10, "failure_prob": 0.1} | wrong))


REDUCED = {
    "mean": lambda logits, labels: zero_one().function(logits, labels).mean(),
    "column": lambda logits, labels: zero_one().function(logits, labels)[:, None],
}


@pytest.mark.parametrize("name", REDUCED)
@pytest.mark.parametrize("n", [1, 37])
def test_a_loss_reduced_over_the_batch_is_no_certificate(name: str, n: int) -> None:
    """A mean counts as one example's loss, so that 64 examples in error look like one."""
    module, (inputs, labels) = network(), data(n)
    loss = Loss(name="reduced", low=0.0, high=1.0, function=REDUCED[name])
    with pytest.raises(ValueError, match=r"loss reduced returned .* expected one value an example"):
        mean_risk(
            module, random_posterior(module, "isotropic"), inputs=inputs, labels=labels, loss=loss, passes=1, seed=0
        )


@pytest.mark.parametrize(
    "function",
    [
        lambda logits, labels: zero_one().function(logits, labels).mean().expand(len(labels)),
        lambda logits, labels: zero_one().function(logits, labels) * (len(labels) < 40),
    ],
    ids=["mean for all", "nothing in large batches"],
)
def test_a_loss_that_sees_the_batch_is_no_certificate(function) -> None:
    module, (inputs, labels) = network(), data(60)
    loss = Loss(name="mixing", low=0.0, high=1.0, function=function)
    with pytest.raises(ValueError, match="loss mixing of an example depends on the other examples"):
        mean_risk(
            module, random_posterior(module, "isotropic"), inputs=inputs, labels=labels, loss=loss, passes=1, seed=0
        )


def test_refusals() -> None:
    module, (inputs, labels) = network(), data()
    posterior = random_posterior(module, "isotropic")
    settings = {"inputs": inputs, "labels": labels, "loss": zero_one(), "passes": 1, "seed": 0}
    outside = Loss(name="outside", low=0.0, high=1.0, function=lambda logits, labels: logits[:, 0] + 5)
    undefined = Loss(name="undefined", low=0.0, high=1.0, function=lambda logits, labels: logits[:, 0] * math.nan)
    for changes, words in (
        ({"loss": outside}, "interval"),
        ({"loss": undefined}, "NaN"),
        ({"labels": labels[:5]}, "one label"),
        ({"passes": 0}, "passes"),
        ({"batch_size": 0}, "batch_size"),
        ({"passes": 2**30}, "fewer passes"),
        ({"seed": -1}, "seeds"),
        ({"group_size": 0}, "group_size"),
    ):
        with pytest.raises(ValueError, match=words):
            mean_risk(module, posterior, **(settings | changes))
    with pytest.raises(ValueError, match="at least one loss"):
        count(losses=())
    (_, cross_entropy) = count()
    with pytest.raises(ValueError, match="fractional"):
        _ = cross_entropy.errors
