"""Counts: the same whatever the batches and ranks; what they prove; what is refused."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from count_toys import LOSSES, count, data, network
from fresh_laws import random_posterior
from scipy import stats
from torch import Tensor, nn

import bounds
from pacdp.losses import Loss, Totals, zero_one
from pacdp.posterior import GaussianPosterior
from pacdp.stochastic import count as counting
from pacdp.stochastic import mean_risks, passes_for
from pacdp.stochastic.risk import UNIT, in_units


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
    settings = {"losses": LOSSES[:1], "passes": 1, "seed": 7}
    (part,) = mean_risks(module, posterior, inputs=inputs[:20], labels=labels[:20], **settings)
    swapped = labels.clone()
    swapped[20:] = (labels[20:] + 1) % 3
    one, other = (mean_risks(module, posterior, inputs=inputs, labels=y, **settings)[0] for y in (labels, swapped))
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
        mean_risks(
            module,
            posterior,
            inputs=inputs,
            labels=labels,
            losses=LOSSES[:1],
            passes=2,
            seed=3,
            group_size=group_size,
            batch_size=batch_size,
        )[0]
        for batch_size in (37, 10)
    ]
    assert found[0] == found[1]
    assert found[0].terms == terms


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
        mean_risks(module, posterior, inputs=inputs, labels=labels, losses=(zero_one(),), passes=2, seed=seed)[0]
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
        mean_risks(
            module,
            random_posterior(module, "isotropic"),
            inputs=inputs,
            labels=labels,
            losses=(loss,),
            passes=1,
            seed=0,
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
        mean_risks(
            module,
            random_posterior(module, "isotropic"),
            inputs=inputs,
            labels=labels,
            losses=(loss,),
            passes=1,
            seed=0,
        )


def test_refusals() -> None:
    module, (inputs, labels) = network(), data()
    posterior = random_posterior(module, "isotropic")
    settings = {"inputs": inputs, "labels": labels, "losses": (zero_one(),), "passes": 1, "seed": 0}
    outside = Loss(name="outside", low=0.0, high=1.0, function=lambda logits, labels: logits[:, 0] + 5)
    undefined = Loss(name="undefined", low=0.0, high=1.0, function=lambda logits, labels: logits[:, 0] * math.nan)
    for changes, words in (
        ({"losses": (outside,)}, "interval"),
        ({"losses": (undefined,)}, "NaN"),
        ({"labels": labels[:5]}, "one label"),
        ({"passes": 0}, "passes"),
        ({"batch_size": 0}, "batch_size"),
        ({"passes": 2**30}, "fewer passes"),
        ({"seed": -1}, "seeds"),
        ({"group_size": 0}, "group_size"),
    ):
        with pytest.raises(ValueError, match=words):
            mean_risks(module, posterior, **(settings | changes))
    with pytest.raises(ValueError, match="at least one loss"):
        count(losses=())
    (_, cross_entropy) = count()
    with pytest.raises(ValueError, match="fractional"):
        _ = cross_entropy.errors


@pytest.mark.parametrize("together", [2, 3, 32])
def test_sums_that_are_read_together_are_those_that_are_read_batch_by_batch(together: int, monkeypatch) -> None:
    module, (inputs, labels) = Twice(), data()
    posterior = random_posterior(module, "diagonal")
    settings = {"losses": LOSSES, "passes": 2, "seed": 3, "batch_size": 10, "inputs": inputs, "labels": labels}
    one_by_one = mean_risks(module, posterior, **settings)
    monkeypatch.setattr(counting, "_waits_for", lambda device: together)
    run = []
    monkeypatch.setattr(Totals, "read", lambda self, given=Totals.read: (run.append(1), given(self))[1])
    assert mean_risks(module, posterior, **settings) == one_by_one
    jobs = 2 * -(-len(labels) // 10)
    assert len(run) == -(-jobs // together)


@pytest.mark.parametrize("together", [1, 32])
def test_a_loss_outside_its_interval_in_any_batch_is_told_though_others_follow(together: int, monkeypatch) -> None:
    module, (inputs, labels) = nn.Sequential(nn.Flatten(), nn.Linear(16, 3)), data()
    posterior = random_posterior(module, "diagonal")
    monkeypatch.setattr(counting, "_waits_for", lambda device: together)
    for bad, words in ((3.0, "declares the interval"), (math.nan, "NaN or infinite"), (math.inf, "NaN or infinite")):
        marked = inputs.clone()
        marked[25] = 1e6  # in the third batch, and in no trial

        def value(logits: Tensor, labels: Tensor, bad: float = bad) -> Tensor:
            far = logits.abs().amax(1) > 1e3
            return torch.where(far, bad, 0.5)

        loss = Loss(name="odd", low=0.0, high=1.0, function=value)
        with pytest.raises(ValueError, match=words):
            mean_risks(module, posterior, inputs=marked, labels=labels, losses=[loss], passes=1, seed=0, batch_size=10)


@pytest.mark.parametrize("room", [10, 100, 10_000])
def test_the_quickest_batch_size_that_fits_is_taken_and_changes_no_number(room: int, monkeypatch) -> None:
    module, (inputs, labels) = nn.Sequential(nn.Flatten(), nn.Linear(16, 3)), data()
    inputs, labels = inputs.repeat(10, 1, 1, 1)[:300], labels.repeat(10)[:300]
    posterior = random_posterior(module, "diagonal")
    settings = {"losses": LOSSES, "passes": 1, "seed": 3, "inputs": inputs, "labels": labels}
    expected = mean_risks(module, posterior, **settings, batch_size=7)
    monkeypatch.setattr(counting, "_TRIED", (5, 25, 250, 1000))
    tried = []

    def seconds(way, rows: Tensor) -> float:
        tried.append(len(rows))
        if len(rows) > room:
            raise torch.OutOfMemoryError("no room")
        return 1.0  # so that larger batches are quicker

    monkeypatch.setattr(counting, "_seconds", seconds)
    monkeypatch.setattr(counting, "_is_tried", lambda device: True)
    taken = []
    jobs = counting._jobs
    monkeypatch.setattr(
        counting, "_jobs", lambda n, passes, size, group: (taken.append(size), jobs(n, passes, size, group))[1]
    )
    assert mean_risks(module, posterior, **settings) == expected
    assert taken == [{10: 5, 100: 25, 10_000: 250}[room]]
    assert max(tried) <= 300


def test_a_trial_takes_time() -> None:
    module, (inputs, _) = nn.Sequential(nn.Flatten(), nn.Linear(16, 3)), data()
    way = counting.fresh_pass(module, random_posterior(module, "diagonal"), inputs[:33], group_size=1)
    assert 0.0 < counting._seconds(way, inputs[:20]) < 60.0
