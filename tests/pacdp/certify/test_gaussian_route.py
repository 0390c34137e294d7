"""Certificates of Gaussian posteriors: assembled as proved, priced by the prior's source, and they hold."""

import math
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import mpmath as mp
import pytest
import torch
from door_toys import MU, split
from scipy.stats import binom
from torch import equal
from torch.distributions import Normal
from torch.func import functional_call
from torch.nn import BatchNorm1d, Embedding, Linear, Module, Parameter, Sequential
from torch.nn.functional import one_hot
from torch.testing import assert_close

import bounds
from pacdp import GaussianPosterior, HeldOut, Network, Prior, Private, certify
from pacdp.backprop import choose_scale
from pacdp.certify import BoundSet, DataFree, Measured, MonteCarlo
from pacdp.certify.gaussian import one_draw, one_draw_weights
from pacdp.certify.networks import Question
from pacdp.losses import brier, zero_one
from pacdp.stochastic import mean_risks
from tests.marks import near, parametrize
from tests.oracles.kl_by_mpmath import kl_upper, xi
from tests.pacdp.small_networks import Made
from tests.pacdp.toys import seeded


def problem(n, *, seed, dim=5):
    """Two Gaussian classes, a third of whose labels are noise."""
    generator = seeded(seed)
    labels = torch.randint(0, 2, (n,), generator=generator)
    inputs = torch.randn(n, dim, generator=generator)
    inputs[:, 0] += 2.0 * labels - 1.0
    flip = torch.rand(n, generator=generator) < 1 / 3
    return inputs, torch.where(flip, 1 - labels, labels)


def network(dim=5):
    return Linear(dim, 1, bias=False).eval()


def around(weight, std):
    module = network(weight.shape[1])
    module.weight.data.copy_(weight)
    return GaussianPosterior.around(module, std=std)


def fitted(inputs, labels, *, ridge=1.0):
    targets = 2.0 * labels.float() - 1.0
    gram = inputs.T @ inputs + ridge * torch.eye(inputs.shape[1])
    return torch.linalg.solve(gram, inputs.T @ targets)[None]


def laws(n, *, seed=0):
    """Examples, a posterior that was fitted to them, and a prior that was not."""
    inputs, labels = problem(n, seed=seed)
    q, p = around(fitted(inputs, labels), 0.1), around(torch.zeros(1, 5), 0.5)
    return BoundSet(inputs=inputs, labels=labels), q, p


def assess(posterior, prior, data, source=None, *, module=None, choice_nats=0.0, **options):
    """The door's assessment; a law as the prior is free of data unless its source is told."""
    if isinstance(prior, GaussianPosterior):
        prior = Prior(law=prior, source=source or DataFree(), choice_nats=choice_nats)
    return certify(posterior, data, prior=prior, network=module or network(), **options)


def test_whoever_is_told_of_progress_changes_no_law_that_is_certified():
    """Posterior and prior alike, so that their divergence would stay what it is."""
    data, q, p = laws(60)
    before = assess(q, p, data).to_dict()

    def move(*_):
        for law in (q, p):
            for each in (*law.means.values(), *law.stds.values()):
                each.mul_(-1.0 if each.min() < 0 else 2.0)

    assert assess(q, p, data, progress=move).to_dict() == before
    assert any(not equal(each, laws(60)[1].means[name]) for name, each in q.means.items())


@parametrize("copies", (False, True))
def test_a_prior_that_moved_along_with_the_training_is_remarked_upon(copies):
    (inputs, labels), module = problem(60, seed=0), network()
    first = module.state_dict()
    first = {name: one.clone() for name, one in first.items()} if copies else first
    module.weight.data += fitted(inputs, labels)
    p = GaussianPosterior(means=first, stds={"weight": torch.tensor(0.1)})
    found = assess(GaussianPosterior.around(module, std=0.1), p, (inputs, labels))
    assert any("moves along with the network" in one for one in found.remarks) == (not copies)
    assert found.to_dict()["details"].get("remarks", []) == [*found.remarks], "commands show them"


@parametrize("taught", (False, True))
def test_a_prior_that_knows_the_examples_already_is_remarked_upon(taught):
    """Though the posterior went on from there: frozen weights, and a prior that was made late."""
    generator = seeded(0)
    inputs, labels = torch.randn(120, 130, generator=generator), torch.arange(120) % 2
    weight = fitted(inputs, labels) if taught else torch.zeros(1, 130)
    p, q = around(weight, 0.01), around(weight + 0.001, 0.01)
    found = assess(q, p, (inputs, labels), module=network(130))
    said = [one for one in found.remarks if "the prior's mean errs on 0 of 120 examples" in one]
    assert len(said) == taught
    elsewhere = HeldOut(rows=BoundSet(inputs=inputs + 1.0, labels=labels).rows)
    held = assess(q, p, (inputs, labels), module=network(130), source=elsewhere)
    assert not any("the prior's mean errs" in one for one in held.remarks), "which says so itself"


@parametrize("alike", (1, 6))
def test_neighbours_with_equal_labels_are_remarked_upon(alike):
    (inputs, labels), (_, q, p) = problem(60, seed=0), laws(60)
    data = inputs.repeat_interleave(alike, dim=0), labels.repeat_interleave(alike)
    data[0].add_(0.01 * torch.randn(data[0].shape, generator=seeded(1)))
    said = any("the label of the row before" in one for one in assess(q, p, data).remarks)
    assert said == (alike > 1)
    owned = (*data, torch.arange(len(data[1])) // alike)
    assert not any("the label of the row before" in one for one in assess(q, p, owned).remarks)


def test_a_network_with_a_table_for_each_column_is_tried_on_its_own_numbers():
    kinds = torch.stack([torch.arange(90) % 3, torch.arange(90)], dim=1).float()
    labels = problem(90, seed=0)[1]
    module = ByColumn().eval()
    law = GaussianPosterior.around(module, std=0.01)
    found = assess(law, law, BoundSet(inputs=kinds, labels=labels), module=module)
    assert found.n == 90


class ByColumn(Module):
    def __init__(self):
        super().__init__()
        self.few, self.many, self.last = Embedding(3, 4), Embedding(90, 4), Linear(8, 2)

    def forward(self, x):
        return self.last(torch.cat([self.few(x[:, 0].long()), self.many(x[:, 1].long())], dim=1))


def named(found, of, measures="0-1 risk"):
    return [c for c in found.certificates if (c.of, c.measures) == (of, measures)]


@parametrize("grid", [None, {"largest": 2.0, "precision": 3}])
@parametrize("failure_prob", [0.05, 1e-6])
def test_the_whole_chain_at_high_precision(grid, failure_prob):
    data, q, p = laws(200, seed=4)
    prior, paid = Prior(law=p, source=DataFree()), mp.mpf(0)
    if grid is not None:
        prior = choose_scale(q, prior, **grid)
        place = round(-3 * math.log(float(prior.law.stds["weight"]) / float(p.stds["weight"]) / 2.0))
        paid = 2 * mp.log(place) + mp.log(mp.pi**2 / 6)
    how = MonteCarlo(passes=3, share=0.25)
    found = assess(q, prior, data, monte_carlo=how, failure_prob=failure_prob)
    count, made = found.monte_carlo[0], found.certificate()
    assert sum(made.budget.values()) == near(failure_prob)
    with mp.workdps(40):
        delta = mp.mpf(failure_prob)
        inner = kl_upper(mp.mpf(count["total"] >> 32) / 600, -mp.log(delta / 4) / 600)
        nats = mp.mpf(q.kl_nats(prior.law)) + paid + mp.log(xi(200)) - mp.log(delta * 3 / 4)
        twin = kl_upper(inner, nats / 200)
        assert made.value >= twin
        assert made.value == near(float(twin), rel=1e-9)
    errors = int(((data.inputs @ p.means["weight"].T).reshape(-1) * (2 * data.labels - 1) <= 0).sum())
    count = bounds.clopper_pearson_upper(errors, 200, failure_prob)
    assert [c.value for c in named(found, "prior mean")] == ([count] if grid is None else [])


def test_the_density_ratio_of_torch():
    prior, law = around(torch.zeros(1, 5), 0.5), around(torch.ones(1, 5) * 0.2, 0.3)
    drawn = law.sample(seeded(3))
    own, others = (
        sum(float(Normal(each.means[k].double(), each.stds[k].double()).log_prob(w.double()).sum())
            for k, w in drawn.items())
        for each in (law, prior)
    )  # fmt: skip
    assert law.log_ratio(prior, drawn) == near(own - others, rel=1e-9)
    assert prior.log_ratio(prior, drawn) == near(0.0, abs=1e-9)
    fixed = around(torch.ones(1, 5), 0.0)
    assert fixed.log_ratio(fixed, fixed.means) == near(0.0, abs=1e-300)


def absolute():
    weight = Parameter(torch.zeros(1, 5))
    return Made(lambda own, x: x.abs().sum(1, keepdim=True) * own.weight.sum(), weight=weight).eval()


def test_the_test_set_counts_a_draw_for_each_example():
    inputs, labels = problem(200, seed=6)[0], torch.ones(200, dtype=torch.int64)
    q = GaussianPosterior.around(absolute(), std=1.0)
    data, test = (BoundSet(inputs=inputs, labels=labels), BoundSet(inputs=inputs + 1.0, labels=labels))
    for seed in range(8):
        found = assess(q, q, data, module=absolute(), test=test, seed=seed)
        assert min(c.value for c in named(found, "randomised")) > 0.5, "the risk is 1/2, by the sign of the draw"
        assert found.cells()[0][2] == f"{found.error('randomised', 'bound'):.4f}", "no limit is called measured"


class Scales(Linear):
    """Keeps something beside its weights in its state, as quantised layers do."""

    def get_extra_state(self):
        return {"scale": 2}

    def set_extra_state(self, state):
        assert state == {"scale": 2}


def test_a_layer_may_keep_other_things_than_tensors_in_its_state():
    """Of such a network it was said that it does not accept the inputs."""
    module = Scales(5, 1).eval()
    law = GaussianPosterior.around(module, std=0.1)
    found = certify(law, problem(30, seed=0), prior=Prior(law=law, source=DataFree()), network=module)
    assert found.certificate(of="prior mean").status == "rigorous"


def test_one_draw_s_numbers_are_its_own():
    data, _, _ = laws(60, seed=5)
    q = around(torch.zeros(1, 5), 1.0)
    where = Question(law=q, prior=Prior(law=q, source=DataFree()), network=network(), data=data)
    parts = (one_draw(replace(where, seed=seed)) for seed in range(6))
    errors = {next(one.mean for one in part if isinstance(one, Measured)) for part in parts}
    assert len(errors) > 2
    trained = q.sample(seeded(0))["weight"]
    assert all(not equal(trained, one_draw_weights(q, seed=seed)["weight"]) for seed in range(50))
    said = assess(q, q, data, seed=4).remarks
    assert any("one_draw_weights(law, seed=4)" in one for one in said), "of others nothing is certified"


def test_one_draw_has_the_buffers_of_its_law_and_not_those_that_a_network_moved_to():
    torch.manual_seed(0)  # of others all outputs may lie between 0 and 1
    module = Sequential(Linear(5, 4), BatchNorm1d(4), Linear(4, 1)).eval()
    law = GaussianPosterior.around(module, std=0.1)
    module[1].running_mean += 3.0
    data, _, _ = laws(60)
    found = assess(law, law, data, module=module, seed=2)
    drawn = one_draw_weights(law, seed=2)
    outputs = functional_call(module, drawn, (data.inputs,))[:, 0]
    assert found.error("one draw", "bound") == near(float(((outputs > 0) != data.labels).double().mean()))
    drawn["1.running_mean"] += 1.0
    assert equal(law.buffers["1.running_mean"], torch.zeros(4)), "a copy"
    (said,) = (one for one in found.remarks if "one_draw_weights" in one)
    assert "buffers" in said
    assert "order" in said


def test_a_private_prior_pays_the_transfer_and_its_single_draw_a_share_of_the_failure_probability():
    data, q, _ = laws(400, seed=1)
    free, private = assess(q, q, data), assess(q, q, data, Private(privacy=MU))
    (made,), (own,) = (named(found, "randomised") for found in (private, free))
    assert made.value > own.value
    inner = bounds.gibbs_risk_upper(mean=private.monte_carlo[0]["mean"], draws=2000, failure_prob=0.005).value
    price = bounds.Accounted(privacy=MU)
    assert made.value == bounds.maurer(risk=inner, kl_nats=0.0, n=400, failure_prob=0.045, price=price).value
    (made,), (own,) = (named(found, "one draw") for found in (private, free))
    assert made.value > own.value
    assert made.budget["draw"] > 0.0
    assert math.fsum(made.budget.values()) <= 0.05
    assert [r.name for r in private.refusals] == ["test-set bounds"]
    assert not named(private, "prior mean")
    claimed = replace(MU, status="approximate accountant")
    assert named(assess(q, q, data, Private(privacy=claimed)), "randomised")[0].status == "optimistic"


@parametrize("source", [DataFree(), Private(privacy=MU)])
def test_the_calibration_error_of_one_draw_pays_its_ratio_and_under_privacy_half_for_the_draw(source):
    data, q, p = laws(400, seed=1)
    found = assess(q, p, data, source, choice_nats=0.5, seed=3)
    drawn = one_draw_weights(q, seed=3)
    module = network()
    module.weight.data.copy_(drawn["weight"])
    alone = {one.measures: one for one in certify(Network(network=module), data).certificates}
    half = 0.025 if isinstance(source, Private) else 0.0
    ratio = max(0.0, q.log_ratio(p, drawn) + 0.5) - (math.log(half) if half else 0.0)
    told = {name: alone["ECE"].inputs[name] for name in ("calibration_error", "mean_squared_gap")}
    price = bounds.Accounted(privacy=MU) if half else bounds.Independent()
    twin = bounds.ece_pac_bayes(**told, kl_nats=ratio, n=400, failure_prob=0.05 - half, price=price)
    (made,) = named(found, "one draw", "ECE")
    assert made.value == near(twin.value, rel=1e-9)
    assert made.failure_prob == near(0.05, rel=1e-12)
    assert made.budget.get("draw", 0.0) == half
    assert math.fsum(made.budget.values()) <= 0.05 * (1 + 1e-12)


def test_a_hybrid_prior_bounds_the_examples_it_met_privately_alone():
    data, q, _ = laws(300, seed=6)
    rest = BoundSet.of(data.inputs, data.labels, split(100, 300))
    assert BoundSet.of(data.inputs, data.labels).n == 300
    found = assess(q, q, rest, Private(privacy=MU, seen=HeldOut(indices=split(0, 100))))
    made = found.certificate()
    assert (made.name, made.inputs["n"]) == ("randomised_hybrid_pac_bayes", 200)
    assert made.value == assess(q, q, rest, Private(privacy=MU)).certificate().value
    assert found.prior["n"] == 100
    held = assess(q, q, rest, HeldOut(indices=split(0, 100)))
    assert all(c.status == "rigorous" for c in held.certificates)


@parametrize("classes", [2, 5])
def test_brier_is_the_sum_over_classes(classes):
    logits = torch.randn(200, 1 if classes == 2 else classes, dtype=torch.float64)
    labels = torch.randint(0, classes, (200,))
    p = torch.sigmoid(logits[:, 0])
    full = torch.stack([1 - p, p], 1) if classes == 2 else torch.softmax(logits, 1)
    expected = (full - one_hot(labels, classes)).square().sum(1)
    assert_close(brier()(logits, labels), expected)
    assert brier()(torch.tensor([[50.0], [-50.0]]), torch.tensor([0, 1])).tolist() == [2.0, 2.0]


def simulated(*, runs, n, failure_prob, planted=""):
    """How often each kind of certificate lies below the truth, over data sets, priors, posteriors and draws."""
    fresh_inputs, fresh_labels = problem(10_000, seed=10**6)
    missed = dict.fromkeys(("randomised", "one draw", "randomised half brier"), 0)
    for seed in range(runs):
        inputs, labels = problem(2 * n, seed=seed, dim=5)
        p = around(fitted(inputs[:n], labels[:n], ridge=0.01) * 2.0, 0.3)
        q = around(fitted(inputs[n:], labels[n:]) * 2.0, 0.2)
        data = BoundSet(inputs=inputs[n:], labels=labels[n:], indices=split(n, 2 * n))
        if planted == "twice":
            again = inputs[n:].repeat(4, 1) + 1e-6 * torch.arange(4.0).repeat_interleave(n)[:, None]
            data = BoundSet(inputs=again, labels=labels[n:].repeat(4), indices=split(n, 5 * n))
        found = assess(q, p, data, HeldOut(indices=split(0, n)), failure_prob=failure_prob,
                       monte_carlo=MonteCarlo(passes=2), seed=seed)  # fmt: skip
        fresh = {"inputs": fresh_inputs, "labels": fresh_labels, "passes": 1, "batch_size": 5000}
        error, square = mean_risks(network(), q, **fresh, losses=(zero_one(), brier()), seed=seed + 12345)
        missed["randomised"] += named(found, "randomised")[0].value < error.mean
        missed["randomised half brier"] += named(found, "randomised", "half the Brier risk")[0].value < square.mean
        drawn = q.sample(seeded(seed))["weight"]
        error = ((fresh_inputs @ drawn.T)[:, 0] > 0).long().ne(fresh_labels).double().mean()
        missed["one draw"] += named(found, "one draw")[0].value < float(error)
    return missed


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


class Scaled(torch.nn.Module):
    """A head beside many weights of 1."""

    def __init__(self, dtype):
        super().__init__()
        self.scale, self.head = Parameter(torch.ones(2000, dtype=dtype)), Linear(200, 2, dtype=dtype)

    def forward(self, x):
        return self.head(x) * self.scale.mean()


@parametrize(("dtype", "std", "coarse"), [(torch.bfloat16, 1e-4, True), (torch.float32, 1e-9, True),
                                          (torch.float32, 1e-4, False)])  # fmt: skip
def test_a_draw_that_is_rounded_to_its_mean_pays_for_nothing(dtype, std, coarse):
    """Before, weights of 1 in bfloat16 earned nats with which coins were certified at 0 errors."""
    inputs, labels = torch.randn(100, 200, generator=seeded(0)).to(dtype), torch.arange(100) % 2
    module = Scaled(dtype)
    prior = GaussianPosterior.around(module, std={"scale": std, "head.weight": 0.05, "head.bias": 0.05})
    signs = (2 * labels - 1).to(dtype)[:, None]
    with torch.no_grad():
        module.head.weight.copy_(torch.tensor([-1, 1]).to(dtype)[:, None] * (signs * inputs).mean(0) * 9)
    law = GaussianPosterior.around(module, std={"scale": 5 * std, "head.weight": 0.05, "head.bias": 0.05})
    found = certify(law, (inputs, labels), prior=Prior(law=prior, source=DataFree()), network=module)
    assert any(one.name == "one draw" for one in found.refusals) == coarse
    assert all(one.value > 0.5 for one in found.certificates if one.of == "one draw" and one.measures == "0-1 risk")


class Slow(Module):
    """A head that lets other threads go on in the midst of its pass."""

    def __init__(self):
        super().__init__()
        self.inner = Linear(5, 1, bias=False)

    def forward(self, x):
        time.sleep(0.002)
        return self.inner(x)


def test_threads_that_share_a_module_certify_what_each_would_alone():
    """Before, laws were judged at each other's weights, and the module kept those of one of them."""
    inputs, labels = problem(60, seed=0)
    module = Slow().eval()
    own = module.inner.weight.detach().clone()
    prior = Prior(law=GaussianPosterior.around(module, std=0.5), source=DataFree())

    def certified(weight):
        law = GaussianPosterior(means={"inner.weight": weight}, stds={"inner.weight": torch.tensor(0.1)})
        return certify(law, (inputs, labels), prior=prior, network=module).to_dict()

    weights = [fitted(inputs, labels), torch.zeros(1, 5)]
    alone = [certified(one) for one in weights]
    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(certified, weights)) == alone
    assert equal(module.inner.weight, own)
