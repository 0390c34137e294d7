"""What clipped chains spend: events against hand counts, the samplers' own moves and planted bugs."""

from collections import Counter
from dataclasses import replace
from math import sqrt

import numpy as np
import torch
from chain_sums import draw_always
from numpy.random import default_rng
from scipy import stats
from toys import keys_of, toy_data, toy_objective

import bounds
from bounds.accounting import Composed, Gaussian, PoissonSampled, SelfComposed
from pacdp.algorithms import SGLD, EntropySGD, build, entropy_sgd
from pacdp.data import Dataset
from pacdp.objective import Objective
from pacdp.schedules import cyclical
from pacdp.step.event import steps_of
from pacdp.step.langevin import accounted_privacy, accounted_to_dict
from tests.marks import near, parametrize

N, K, C = 40, 10, 0.25
CHAINS = {
    "SGLD": SGLD(tau=7.0, step_size=0.3, batch_size=K, clip_norm=C),
    "Entropy-SGLD": EntropySGD(tau=7.0, inner_steps=3, inner_step_size=0.8, batch_size=K, clip_norm=C),
    "Entropy-SGD": EntropySGD(tau=7.0, inner_steps=3, inner_decay=0.5, beta=None, batch_size=K, clip_norm=C),
}


def multipliers(event):
    """How often each noise multiplier occurs; every step must be a Poisson-sampled Gaussian of rate K/N."""
    found = Counter()
    for part in event.events:
        noise = part.event.event.noise_multiplier
        step = PoissonSampled(sample_rate=K / N, event=Gaussian(noise_multiplier=noise))
        assert part == SelfComposed(event=step, count=part.count)
        found[noise] += part.count
    assert event == Composed(events=event.events)
    return found


def assert_counted(found, expected):
    """Equal as lists, but for the rounding down of each by a few millionths."""
    values = sorted(found.elements())
    assert len(values) == len(expected)
    for value, true in zip(values, sorted(expected), strict=True):
        assert true * (1 - 3e-6) < value < true


def by_hand(*rates, tau=7.0):
    """σ_i = 2K/(τ C √η_i), η_i = rate/τ the step's Langevin time."""
    return [2 * K / (tau * C * sqrt(rate / tau)) for rate in rates]


def test_events_equal_lists_by_hand():
    sgld = replace(CHAINS["SGLD"], decay=0.5).promise(N, 4)
    assert_counted(multipliers(sgld), by_hand(*(0.6 * t**-0.5 for t in (1, 2, 3, 4))))
    local = by_hand(*(0.8 / i for i in (1, 2, 3)))
    assert_counted(multipliers(CHAINS["Entropy-SGLD"].promise(N, 2)), 2 * local)
    slower = by_hand(*(2.0 * i**-0.5 for i in (1, 2, 3)))
    assert_counted(multipliers(CHAINS["Entropy-SGD"].promise(N, 5)), 5 * slower)


def test_schedules_are_in_the_event():
    settings = CHAINS["SGLD"]
    step_size = cyclical(period=3)
    found = replace(settings, decay=step_size, cooling=float).promise(N, 3)
    assert_counted(multipliers(found), [by_hand(0.6 * step_size(t), tau=7.0 * t)[0] for t in (1, 2, 3)])
    halted = replace(settings, decay=lambda t: float(t < 3)).promise(N, 4)
    assert multipliers(halted).total() == 2, "a step of size 0 reads nothing"


def test_long_schedules_are_rounded_down_to_few_multipliers():
    settings = replace(CHAINS["SGLD"], decay=0.5)
    found = multipliers(settings.promise(N, 3000))
    assert found.total() == 3000
    assert len(found) < 2100
    exact = sorted(by_hand(*(0.6 * t**-0.5 for t in range(1, 3001))))
    ratios = np.array(sorted(found.elements())) / exact
    assert 0.999 < ratios.min() <= ratios.max() < 1.0


def test_entropy_sgld_at_the_papers_setting():
    """n = 60000, τ = √n, K = 128, L = 20, C = 1; 2343 outer steps are 100 epochs."""
    settings = EntropySGD(tau=sqrt(60_000), clip_norm=1.0)
    chain = accounted_to_dict(settings.promise(60_000, 2343))
    assert chain["mu_central_limit"] == near(0.01695, abs=6e-6)
    assert chain["epsilon_add_remove"] == near(0.0489, abs=6e-5)
    assert chain["epsilon_add_remove"] < chain["epsilon_replace_one"]
    assert chain["mechanisms"] == 20 * 2343


def test_all_examples_in_every_step_are_exactly_gaussian():
    settings = replace(CHAINS["SGLD"], batch_size=N)
    found = accounted_privacy(settings, n=N, steps=9)
    assert isinstance(found, bounds.GaussianDP)
    assert found == bounds.GaussianDP(mu=found.mu, adjacency="add-remove", status="accounted")
    time = 9 * 2 * 0.3 / 7.0
    assert found.mu == near(7.0 * C / (2 * N) * sqrt(time), rel=1e-5)
    assert settings.promise(N, 0) is None
    assert accounted_privacy(settings, n=N, steps=0) == replace(found, mu=0.0)


class ByRealisedSize(Objective):
    """A fault: the clipped sum over the size that the batch happens to have."""

    def estimate(self, weights, keys, tick):
        drawn, _ = self.draw(keys, tick)
        found = super().estimate(weights, keys, tick)
        return found._replace(gradient=found.gradient * (self.batch_size / max(1, len(drawn[0]))))


def worst_move(name, *, kind=Objective, removed=True, tries=25):
    """The largest move of one inner step, in standard deviations of its noise, over random neighbours.

    Both worlds have the same batches but for the record in question, and the same noise.
    """
    settings, worst = CHAINS[name], 0.0
    rngs = [default_rng(seed) for seed in range(tries)]
    inputs, labels = [], []
    for seed, rng in enumerate(rngs):
        data = toy_data(n=N, seed=seed)
        own = data.inputs * np.float32(10.0 ** rng.uniform(-1, 3))
        # one objective holds all worlds; the last record of a world takes the place of its first
        inputs += [own, -3 * own[:1]]
        labels += [data.labels, 1 - data.labels[:1]]
    objective = _objective(Dataset("all", np.concatenate(inputs), np.concatenate(labels), 2), kind)
    for seed, rng in enumerate(rngs):
        first = seed * (N + 1)
        shared = first + rng.choice(np.arange(1, N), size=rng.integers(1, 6), replace=False)
        batch, other = [first, *shared], list(shared) if removed else [first + N, *shared]
        (after, scale), (neighbour, _) = (_one_inner_step(settings, objective, drawn, seed) for drawn in (batch, other))
        worst = max(worst, float((after - neighbour).double().norm()) / scale)
    return worst


def _objective(data, kind=Objective):
    made = toy_objective(data, batch_size=K, clip_norm=C)
    made.__class__ = kind
    return made


def _one_inner_step(settings, objective, batch, seed):
    """The weights after the first step that reads data, and the standard deviation of its noise."""
    draw_always(objective, batch)
    start = objective.weights() * 3
    sampler = build(replace(settings, inner_steps=1, alpha=1.0) if isinstance(settings, EntropySGD) else settings,
                    objective)  # fmt: skip
    coefficients = sampler.coefficients(0)
    if isinstance(settings, EntropySGD):
        mean, _ = entropy_sgd.local_mean(objective, start, coefficients, keys_of(seed), 0)
        return mean[0], float(coefficients["scale"][0, 0])
    state, _ = sampler.step(sampler.init(start), keys_of(seed))
    return state.weights[0], float(coefficients["scale"][0])


def strongest(name):
    """1/σ of the costliest step: that of the first inner step."""
    return 1.0 / min(multipliers(CHAINS[name].promise(N, 1)))


every_chain = parametrize("name", CHAINS)


@every_chain
def test_one_example_moves_a_step_by_at_most_the_accounted_share_of_its_noise(name):
    removed, replaced = worst_move(name), worst_move(name, removed=False)
    rounding = 1 + 1e-5  # of the weights themselves, which are single numbers near 1
    assert 0.98 * strongest(name) < removed <= strongest(name) * rounding, "reached, never passed"
    assert 1.5 * strongest(name) < replaced <= 2 * strongest(name) * rounding


@every_chain
def test_planted_faults_are_caught(name):
    realised = worst_move(name, kind=ByRealisedSize, tries=10)
    assert realised > 1.2 * strongest(name), "dividing by the realised size of the batch"
    forgotten_half = 0.5 * strongest(name)
    assert worst_move(name, tries=10) > 1.2 * forgotten_half, "σ = 4K/(τ C √η) for 2K/(τ C √η)"


@every_chain
def test_every_noisy_step_that_reads_data_is_counted(name):
    """An event of outer steps alone would be L times too short."""
    settings = CHAINS[name]
    objective, seen = _objective(toy_data(n=N)), []
    draw = objective.draw
    objective.draw = lambda keys, tick: seen.append(int(tick)) or draw(keys, tick)
    sampler = build(settings, objective)
    state = sampler.init(objective.weights())
    for _ in range(6):
        state, _ = sampler.step(state, keys_of(1))
    assert len(seen) == len(set(seen)) == multipliers(settings.promise(N, state.step)).total()
    assert steps_of(settings.promise(N, 6)) == len(seen)


@parametrize("name", ["SGLD", "Entropy-SGLD"])
def test_the_noise_of_a_step_has_the_accounted_scale(name):
    """Batches without examples leave the noise alone; σ h C / K is its standard deviation."""
    settings = replace(CHAINS[name], base_std=1e6) if name == "SGLD" else replace(CHAINS[name], gamma=1e-9)
    data = toy_data(n=N, shape=(200,))
    objective = _objective(data)
    start = torch.zeros_like(objective.weights())
    objective.weights = lambda: start
    sample = torch.cat([_one_inner_step(settings, objective, [], seed)[0].double() for seed in range(8)])
    rate = 0.3 if name == "SGLD" else 0.4
    sigma = min(multipliers(settings.promise(N, 1)))

    def fits(std):
        tail = stats.chi2.cdf(float(sample.square().sum()) / std**2, len(sample))
        return 5e-7 < tail < 1 - 5e-7

    assert fits(sigma * rate * C / K)
    assert not fits(1.05 * sigma * rate * C / K)
    assert not fits(sigma * rate * C / K / 1.05)
