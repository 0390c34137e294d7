"""Certificates of Gaussian posteriors: assembled as proved, refused where nothing is proved, and they hold."""

import math
from dataclasses import replace
from functools import partial

import mpmath as mp
import numpy as np
import pytest
import torch
from scipy.stats import binom
from torch import nn
from torch.distributions import Normal

import bounds
from pacdp import BoundSet, DataFree, GaussianPosterior, HeldOut, MonteCarlo, Prior, Private, certify
from pacdp.backprop import ScaleGrid, choose_scale
from pacdp.certify import Measured
from pacdp.certify.gaussian import Gaussians, one_draw, one_draw_weights
from pacdp.data import DataError, Split, index_hash
from pacdp.losses import bounded_cross_entropy, brier
from pacdp.stochastic import mean_risks

MU = bounds.GaussianDP(mu=0.02, adjacency="add-remove", status="accounted")


def split(start, stop):
    return Split(np.arange(start, stop), index_hash(np.arange(start, stop)))


def problem(n, *, seed, dim=5):
    """Two Gaussian classes, a third of whose labels are noise; the last coordinate is 1."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(0, 2, (n,), generator=generator)
    inputs = torch.randn(n, dim, generator=generator)
    inputs[:, 0] += 2.0 * labels - 1.0
    flip = torch.rand(n, generator=generator) < 1 / 3
    return inputs, torch.where(flip, 1 - labels, labels)


def network(dim=5):
    return nn.Linear(dim, 1, bias=False).eval()


def around(weight, std):
    module = network(weight.shape[1])
    module.weight.data.copy_(weight)
    return GaussianPosterior.around(module, std=std)


def fitted(inputs, labels, *, ridge=1.0):
    targets = 2.0 * labels.float() - 1.0
    gram = inputs.T @ inputs + ridge * torch.eye(inputs.shape[1])
    return torch.linalg.solve(gram, inputs.T @ targets)[None]


def named(found, of, measures="0-1 risk"):
    return [c for c in found.certificates if (c.of, c.measures) == (of, measures)]


def assess(posterior, module, data, **options):
    return certify(posterior, data, network=module, **options)


def test_the_overall_certificate_is_the_composition_that_the_ledger_says():
    inputs, labels = problem(400, seed=0)
    q, p = around(fitted(inputs, labels), 0.1), around(torch.zeros(1, 5), 0.5)
    data = BoundSet(inputs=inputs, labels=labels)
    found = assess(q, network(), data, prior=Prior(law=p, source=DataFree()), monte_carlo=MonteCarlo(passes=3))
    (made,) = named(found, "randomised")
    risk = found.monte_carlo[0]
    assert risk["terms"] == 1200
    upper = bounds.binary_kl_upper(risk["mean"], math.log(1 / 0.005) / 1200)
    expected = bounds.maurer(risk=float(upper), kl_nats=q.kl_nats(p), n=400, failure_prob=0.045)
    assert float(made) == pytest.approx(float(expected), rel=1e-9)
    assert sum(made.budget.values()) == pytest.approx(0.05)
    assert made.failure_prob == pytest.approx(0.05)
    paid = assess(q, network(), data, prior=Prior(law=p, source=DataFree(), choice_nats=2.0),
                           monte_carlo=MonteCarlo(passes=3))  # fmt: skip
    assert paid.details["kl_nats"] == pytest.approx(found.details["kl_nats"] + 2.0)
    assert float(named(paid, "randomised")[0]) > float(made)


def test_every_formula_of_a_risk_and_a_divergence_is_a_route():
    inputs, labels = problem(400, seed=0)
    q, p = around(fitted(inputs, labels), 0.1), around(torch.zeros(1, 5), 0.5)
    grid = {"inverse_temperatures": (100.0, 400.0)}
    formulas = (
        bounds.langford_seeger,
        bounds.mcallester,
        bounds.quadratic,
        bounds.tolstikhin_seldin,
        bounds.thiemann,
        partial(bounds.catoni, inverse_temperature=400.0),
        partial(bounds.catoni_grid, **grid),
        partial(bounds.linear, lam=1.0),
        bounds.unexpected_bernstein,
    )
    data = BoundSet(inputs=inputs, labels=labels)
    for source, prefix in ((DataFree(), ""), (Private(privacy=MU), "private_")):
        found = assess(q, network(), data, prior=Prior(law=p, source=source), formulas=formulas)
        names = {c.name for c in named(found, "randomised")}
        expected = "langford_seeger mcallester quadratic tolstikhin_seldin thiemann catoni catoni_grid linear"
        assert {f"randomised_{prefix}{name}" for name in (*expected.split(), "unexpected_bernstein")} < names
        first = found.certificate()
        for made in named(found, "randomised"):
            assert made.value >= found.monte_carlo[0]["mean"]
            assert made.failure_prob == pytest.approx(0.05)
            assert made.total_nats == pytest.approx(first.total_nats, rel=0.5)


def kl_inverse(risk, nats):
    low, high = mp.mpf(risk), mp.mpf(1)
    for _ in range(120):
        p = (low + high) / 2
        kl = (risk * mp.log(risk / p) if risk else 0) + (1 - risk) * mp.log((1 - risk) / (1 - p))
        low, high = (p, high) if kl <= nats else (low, p)
    return low


def xi(n):
    return mp.fsum(mp.binomial(n, k) * (mp.mpf(k) / n) ** k * (1 - mp.mpf(k) / n) ** (n - k) for k in range(n + 1))


@pytest.mark.parametrize("grid", [None, ScaleGrid(largest=2.0, precision=3)])
@pytest.mark.parametrize("failure_prob", [0.05, 1e-6])
def test_the_whole_chain_at_high_precision(grid, failure_prob):
    inputs, labels = problem(200, seed=4)
    q, p = around(fitted(inputs, labels), 0.1), around(torch.zeros(1, 5), 0.5)
    prior, paid = Prior(law=p, source=DataFree()), mp.mpf(0)
    if grid is not None:
        prior, place, _ = choose_scale(q, prior, grid)
        paid = 2 * mp.log(place) + mp.log(mp.pi**2 / 6)
    how = MonteCarlo(passes=3, share=0.25)
    found = assess(q, network(), BoundSet(inputs=inputs, labels=labels), prior=prior, monte_carlo=how,
                            failure_prob=failure_prob, losses=(bounded_cross_entropy(classes=2),))  # fmt: skip
    count, made = found.monte_carlo[0], found.certificate()
    with mp.workdps(40):
        delta = mp.mpf(failure_prob)
        inner = kl_inverse(mp.mpf(count["total"] >> 32) / 600, -mp.log(delta / 4) / 600)
        nats = mp.mpf(q.kl_nats(prior.law)) + paid + mp.log(xi(200)) - mp.log(delta * 3 / 4)
        twin = kl_inverse(inner, nats / 200)
        assert made.value >= twin
        assert made.value == pytest.approx(float(twin), rel=1e-9)
    (extra,) = (c for c in found.certificates if c.name.startswith("rescaled_"))
    assert extra.value > found.monte_carlo[2]["mean"]
    assert (
        found.certificate(of="prior mean").value
        == bounds.clopper_pearson_upper(int(extra_errors(p, inputs, labels)), 200, failure_prob)
        if grid is None
        else not named(found, "prior mean")
    )


def extra_errors(law, inputs, labels):
    return int(((inputs @ law.means["weight"].T).reshape(-1) * (2 * labels - 1) <= 0).sum())


def test_the_density_ratio_of_torch():
    prior = around(torch.zeros(1, 5), 0.5)
    law = around(torch.ones(1, 5) * 0.2, 0.3)
    drawn = law.sample(torch.Generator().manual_seed(3))
    twin = sum(
        float((Normal(law.means[k].double(), law.stds[k].double()).log_prob(w.double())
               - Normal(prior.means[k].double(), prior.stds[k].double()).log_prob(w.double())).sum())
        for k, w in drawn.items()
    )  # fmt: skip
    assert law.log_ratio(prior, drawn) == pytest.approx(twin, rel=1e-9)
    assert prior.log_ratio(prior, drawn) == pytest.approx(0.0, abs=1e-9)
    fixed = around(torch.ones(1, 5), 0.0)
    assert fixed.log_ratio(fixed, fixed.means) == pytest.approx(0.0, abs=1e-300)


def test_what_would_certify_another_classifier_is_refused():
    inputs, labels = problem(60, seed=5)
    q = around(torch.ones(1, 5), 0.1)
    prior = Prior(law=q, source=DataFree())
    data = BoundSet(inputs=inputs, labels=labels)
    broken = torch.cat([torch.full((1, 5), math.nan), inputs[1:]])
    with pytest.raises(ValueError, match="NaN or infinite"):
        assess(q, network(), BoundSet(inputs=broken, labels=labels), prior=prior)
    with pytest.raises(ValueError, match="expected int64 labels"):
        BoundSet(inputs=inputs, labels=labels.to(torch.uint8))
    with pytest.raises(ValueError, match="labels from 0 to 1"):
        assess(q, network(), BoundSet(inputs=inputs, labels=labels + 1), prior=prior)
    with pytest.raises(ValueError, match="share 60 examples"):
        assess(q, network(), data, prior=prior, test=BoundSet(inputs=inputs, labels=labels))
    with pytest.raises(ValueError, match="names that differ"):
        assess(q, network(), data, prior=prior, losses=(brier(),))
    held = Prior(law=q, source=HeldOut(indices=split(0, 20)))
    rest, new = BoundSet.of(inputs, labels, split(20, 50)), BoundSet.of(inputs, labels, split(50, 60))
    assert assess(q, network(), rest, prior=held, test=new).error("randomised", "test") is not None
    for start in (10, 40):
        with pytest.raises(DataError, match="share 10 examples"):
            assess(q, network(), rest, prior=held, test=BoundSet.of(inputs, labels, split(start, start + 10)))


class Mixing(nn.Linear):
    def forward(self, input):
        return super().forward(input - input.mean(0))


@pytest.mark.parametrize("group_size", [1, 8])
def test_a_network_that_mixes_its_batch_is_refused(group_size):
    inputs, labels = problem(60, seed=5)
    q = around(torch.ones(1, 5), 0.1)
    data, how = BoundSet(inputs=inputs, labels=labels), MonteCarlo(group_size=group_size)
    with pytest.raises(ValueError, match="depends on the other examples"):
        assess(q, Mixing(5, 1, bias=False).eval(), data, prior=Prior(law=q, source=DataFree()), monte_carlo=how)


class Absolute(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1, 5))

    def forward(self, input):
        return input.abs().sum(1, keepdim=True) * self.weight.sum()


def test_the_test_set_counts_a_draw_for_each_example_whatever_the_groups():
    inputs, labels = problem(200, seed=6)[0], torch.ones(200, dtype=torch.int64)
    q = GaussianPosterior.around(Absolute().eval(), std=1.0)
    data, test = BoundSet(inputs=inputs, labels=labels), BoundSet(inputs=inputs + 1.0, labels=labels)
    for seed in range(8):
        found = assess(q, Absolute().eval(), data, prior=Prior(law=q, source=DataFree()), test=test,
                                monte_carlo=MonteCarlo(group_size=200), seed=seed)  # fmt: skip
        assert min(c.value for c in named(found, "randomised")) > 0.5, "the risk is 1/2, by the sign of the draw"


def test_one_draw_s_numbers_are_its_own():
    inputs, labels = problem(60, seed=5)
    q = around(torch.zeros(1, 5), 1.0)
    where = Gaussians(posterior=q, prior=Prior(law=q, source=DataFree()), module=network(), test=None,
                      data=BoundSet(inputs=inputs, labels=labels), failure_prob=0.05, how=MonteCarlo(), losses=(),
                      formulas=(), seed=0, device="cpu")  # fmt: skip
    parts = (one_draw(replace(where, seed=seed)) for seed in range(6))
    errors = {next(one.mean for one in part if isinstance(one, Measured)) for part in parts}
    assert len(errors) > 2
    trained = q.sample(torch.Generator().manual_seed(0))["weight"]
    assert all(not torch.equal(trained, one_draw_weights(q, seed=seed)["weight"]) for seed in range(50))


def test_a_private_prior_pays_the_transfer_and_its_single_draw_a_share_of_the_failure_probability():
    inputs, labels = problem(400, seed=1)
    q = around(fitted(inputs, labels), 0.1)
    data = BoundSet(inputs=inputs, labels=labels)
    free = assess(q, network(), data, prior=Prior(law=q, source=DataFree()))
    private = assess(q, network(), data, prior=Prior(law=q, source=Private(privacy=MU)))
    assert float(named(private, "randomised")[0]) > float(named(free, "randomised")[0])
    assert named(private, "randomised")[0].nats("transfer") > 0.0
    (drawn,), (own,) = named(private, "one draw"), named(free, "one draw")
    assert drawn.value > own.value
    assert drawn.budget["draw"] > 0.0
    assert math.fsum(drawn.budget.values()) <= 0.05
    assert named(private, "one draw", "ECE")[0].budget["draw"] == 0.025
    assert [r.name for r in private.refusals] == ["test-set bounds"]
    claimed = bounds.GaussianDP(mu=0.02, adjacency="add-remove", status="approximate accountant")
    optimistic = assess(q, network(), data, prior=Prior(law=q, source=Private(privacy=claimed)))
    assert named(optimistic, "randomised")[0].status == "optimistic"


def test_a_hybrid_prior_bounds_the_examples_it_met_privately_alone():
    inputs, labels = problem(300, seed=6)
    q = around(fitted(inputs, labels), 0.1)
    prior = Prior(law=q, source=Private(privacy=MU, seen=HeldOut(indices=split(0, 100))))
    with pytest.raises(DataError, match="share 5 examples"):
        assess(q, network(), BoundSet.of(inputs, labels, split(95, 300)), prior=prior)
    rest = BoundSet.of(inputs, labels, split(100, 300))
    found = assess(q, network(), rest, prior=prior)
    alone = assess(q, network(), rest, prior=Prior(law=q, source=Private(privacy=MU)))
    assert found.certificate().name == "randomised_hybrid_pac_bayes"
    assert found.certificate().inputs["n"] == 200
    assert found.certificate().value == alone.certificate().value
    assert found.prior["n"] == 100


def test_the_prior_s_examples_and_the_bound_s_must_be_others():
    inputs, labels = problem(100, seed=2)
    q = around(fitted(inputs, labels), 0.1)
    prior = Prior(law=q, source=HeldOut(indices=split(0, 50)))
    with pytest.raises(DataError, match="share 10 examples"):
        assess(q, network(), BoundSet(inputs=inputs, labels=labels, indices=split(40, 140)), prior=prior)
    with pytest.raises(ValueError, match=r"give data\.indices"):
        assess(q, network(), BoundSet(inputs=inputs, labels=labels), prior=prior)
    found = assess(q, network(), BoundSet(inputs=inputs, labels=labels, indices=split(50, 150)), prior=prior)
    assert all(c.status == "rigorous" for c in found.certificates)
    assert found.certificate().hypothesis("prior saw none of these rows").standing == "declared"


def test_what_cannot_be_is_refused_in_a_sentence():
    inputs, labels = problem(50, seed=3)
    q = around(fitted(inputs, labels), 0.1)
    for p in (around(fitted(inputs, labels), 0.0), around(torch.ones(1, 5), 0.0)):
        with pytest.raises(ValueError, match="divergence from the prior is infinite"):
            assess(q, network(), BoundSet(inputs=inputs, labels=labels), prior=Prior(law=p, source=DataFree()))
    with pytest.raises(ValueError, match="one label for each"):
        BoundSet(inputs=inputs, labels=labels[:-1])
    with pytest.raises(ValueError, match="expected indices"):
        BoundSet(inputs=inputs, labels=labels, indices=split(0, 49))
    with pytest.raises(ValueError, match="choice_nats"):
        Prior(law=q, source=DataFree(), choice_nats=-1.0)


@pytest.mark.parametrize("classes", [2, 5])
def test_brier_is_the_sum_over_classes(classes):
    logits = torch.randn(200, 1 if classes == 2 else classes, dtype=torch.float64)
    labels = torch.randint(0, classes, (200,))
    p = torch.sigmoid(logits[:, 0]) if classes == 2 else None
    full = torch.stack([1 - p, p], 1) if p is not None else torch.softmax(logits, 1)
    expected = (full - nn.functional.one_hot(labels, classes)).square().sum(1)
    torch.testing.assert_close(brier()(logits, labels), expected)
    assert brier()(torch.tensor([[50.0], [-50.0]]), torch.tensor([0, 1])).tolist() == [2.0, 2.0]


def simulated(*, runs, n, failure_prob, planted=""):
    """How often each kind of certificate lies below the truth, over data sets, priors, posteriors and draws."""
    fresh_inputs, fresh_labels = problem(10_000, seed=10**6)
    missed = dict.fromkeys(("randomised", "one draw", "randomised half brier"), 0)
    for seed in range(runs):
        inputs, labels = problem(2 * n, seed=seed, dim=5)
        first = slice(0, n) if planted != "overlap" else slice(n, 2 * n)
        p = around(fitted(inputs[first], labels[first], ridge=0.01) * 2.0, 0.3)
        q = around(fitted(inputs[n:], labels[n:]) * 2.0, 0.2) if planted != "overlap" else p
        data = BoundSet(inputs=inputs[n:], labels=labels[n:], indices=split(n, 2 * n))
        if planted == "twice":
            again = inputs[n:].repeat(4, 1) + 1e-6 * torch.arange(4.0).repeat_interleave(n)[:, None]
            data = BoundSet(inputs=again, labels=labels[n:].repeat(4), indices=split(n, 5 * n))
        found = assess(q, network(), data, prior=Prior(law=p, source=HeldOut(indices=split(0, n))),
                                failure_prob=failure_prob, monte_carlo=MonteCarlo(passes=2), seed=seed)  # fmt: skip
        losses = zero_one_of(q, fresh_inputs, fresh_labels, seed)
        missed["randomised"] += float(named(found, "randomised")[0]) < losses[0]
        missed["randomised half brier"] += float(named(found, "randomised", "half the Brier risk")[0]) < losses[1]
        drawn = q.sample(torch.Generator().manual_seed(seed))["weight"]
        error = ((fresh_inputs @ drawn.T)[:, 0] > 0).long().ne(fresh_labels).double().mean()
        missed["one draw"] += float(named(found, "one draw")[0]) < float(error)
    return missed


def zero_one_of(q, inputs, labels, seed):
    from pacdp.losses import zero_one

    error, square = mean_risks(network(), q, inputs=inputs, labels=labels, losses=(zero_one(), brier()), passes=1,
                               seed=seed + 12345, batch_size=5000)  # fmt: skip
    return error.mean, square.mean


@pytest.mark.slow
def test_certificates_hold_as_often_as_they_say():
    runs, failure_prob = 120, 0.2
    for kind, missed in simulated(runs=runs, n=60, failure_prob=failure_prob).items():
        assert missed <= binom.ppf(0.999, runs, failure_prob), kind


@pytest.mark.slow
def test_examples_counted_several_times_are_caught():
    runs, failure_prob = 120, 0.05
    missed = simulated(runs=runs, n=60, failure_prob=failure_prob, planted="twice")
    assert missed["one draw"] > binom.ppf(0.999, runs, failure_prob)
