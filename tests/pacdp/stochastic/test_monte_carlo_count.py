"""Counts: the same whatever the batches and ranks, and what they prove."""

import json
import math
from pathlib import Path

import numpy as np
import torch
from count_toys import LOSSES, count, data
from fresh_laws import random_posterior
from numpy.random import default_rng
from scipy import stats
from torch.nn import Linear

from pacdp.losses import Loss, Totals, zero_one
from pacdp.stochastic import count as counting
from pacdp.stochastic import mean_risks, passes_for
from pacdp.stochastic.risk import UNIT, in_units
from tests.marks import left_out, near, parametrize, refusal, slow
from tests.pacdp.small_networks import Made
from tests.two_processes import two_processes


def test_counts_do_not_depend_on_batches_and_a_pass_is_its_terms():
    whole = count(batch_size=37)
    error, cross_entropy = whole
    assert error.terms == 111
    assert error.errors * UNIT == error.total
    assert 0 < error.errors < 111
    for batch_size in (1, 5, None):
        smaller = count(batch_size=batch_size)
        assert smaller[0] == error
        assert smaller[1].mean == near(cross_entropy.mean, rel=1e-6)
    assert count(seed=8) != whole
    assert count(losses=LOSSES[:1])[0] == error
    assert count(passes=1)[0].errors <= count(passes=2)[0].errors <= error.errors


def twice():
    """A network of no form by example: it uses a layer twice."""
    layer, last = Linear(16, 16), Linear(16, 3)
    return Made(lambda own, x: own.last(torch.tanh(own.layer(own.layer(x.flatten(1))))), layer=layer, last=last)


def test_whole_networks_are_counted_alike_in_any_batches():
    module = twice()
    assert len({count(module, passes=2, batch_size=size)[0] for size in (37, 10)}) == 1


def _rank(rank, world, folder):
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=world)
    found = count()
    Path(folder, f"found.{rank}").write_text(json.dumps([each.to_dict() for each in found]))
    torch.distributed.destroy_process_group()


def test_two_ranks_count_what_one_counts(tmp_path):
    two_processes(_rank, (2, str(tmp_path)))
    alone = [each.to_dict() for each in count()]
    assert [json.loads((tmp_path / f"found.{rank}").read_text()) for rank in (0, 1)] == [alone, alone]


@parametrize("seeds", [90, slow(200)])
def test_upper_formal_guarantee_coverage_on_a_closed_form(monkeypatch, seeds):
    """One logit w·x + b is Gaussian: R̂(Q) = mean Φ(-y m / s)."""
    torch.manual_seed(0)
    module, inputs, labels = Linear(3, 1), torch.randn(40, 3), torch.randint(0, 2, (40,))
    posterior = random_posterior(module, "isotropic", std=2.0)
    mean = module(inputs).detach()[:, 0].double().numpy()
    std = torch.hypot(posterior.stds["weight"] * inputs.norm(dim=1), posterior.stds["bias"]).double().numpy()
    risk = stats.norm.cdf(-(2 * labels.numpy() - 1) * mean / std).mean()
    failure_prob = 0.2
    settings = {"inputs": inputs, "labels": labels, "losses": (zero_one(),), "passes": 2}
    left_out(monkeypatch, "stochastic.forward._require_independent_examples", "stochastic.count.require_own_losses")
    found = [mean_risks(module, posterior, seed=seed, **settings)[0] for seed in range(seeds)]
    assert abs(np.mean([each.mean for each in found]) - risk) < 5 * 0.5 / math.sqrt(seeds * 80)
    upper = np.array([each.upper(failure_prob).value for each in found])
    assert (upper < risk).sum() <= stats.binom.isf(1e-3 if seeds == 200 else 1e-6, seeds, failure_prob)
    assert upper.mean() < risk + 0.13, "a bound of 80 terms that is no trivial one"


def test_losses_are_rounded_up_and_ends_are_exact():
    rng = default_rng(0)
    loss = Loss(name="any", low=-0.7, high=2.3, function=lambda logits, labels: logits)
    values = torch.tensor(rng.uniform(-0.7, 2.3, 500)).float().clamp(-0.7, 2.3)
    exact = sum((float(v) - loss.low) / (loss.high - loss.low) for v in values) * UNIT
    assert exact - 1e-3 <= in_units(values, loss) <= exact + 500 * (1 + 1e-5)
    assert in_units(torch.tensor([0.0, 1.0, 1.0]), zero_one()) == 2 * UNIT
    assert in_units(torch.tensor([1e-12]), zero_one()) == 1


def test_passes_for_is_the_fewest():
    assert passes_for(slack_nats=math.log(2 / 0.01) / 150_000, n=30_000, failure_prob=0.01) == 5
    for n, slack in ((100, 0.001), (1000, 0.3), (37, 1e-3)):
        passes = passes_for(slack_nats=slack, n=n, failure_prob=0.05)
        assert math.log(20) / (n * passes) <= slack
        assert passes == 1 or math.log(20) / (n * (passes - 1)) > slack


@parametrize("together", [2, 32])
def test_sums_that_are_read_together_are_those_that_are_read_batch_by_batch(together, monkeypatch):
    module, settings = twice(), {"passes": 2, "batch_size": 10}
    one_by_one = count(module, **settings)
    monkeypatch.setitem(counting._UNREAD, "cpu", together)
    run = []
    monkeypatch.setattr(Totals, "read", lambda self, given=Totals.read: (run.append(1), given(self))[1])
    assert count(module, **settings) == one_by_one
    assert len(run) == -(-8 // together)


@parametrize(
    ("together", "bad", "words"),
    [(1, 3.0, "declares the interval"), (32, 3.0, "declares the interval"), (32, math.nan, "NaN or infinite")],
)
def test_a_loss_outside_its_interval_in_any_batch_is_told_though_others_follow(together, bad, words, monkeypatch):
    monkeypatch.setitem(counting._UNREAD, "cpu", together)
    marked, _ = data()
    marked[25], marked[26] = (
        1e6,
        -1e6,
    )  # in the third batch, and in no trial; units that one switches off see the other
    loss = Loss(name="odd", low=0.0, high=1.0,
                function=lambda logits, labels: torch.where(logits.abs().amax(1) > 1e3, bad, 0.5))  # fmt: skip
    with refusal(words):
        count(inputs=marked, losses=[loss], passes=1, batch_size=10)
