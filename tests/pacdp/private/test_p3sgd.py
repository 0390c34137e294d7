"""P3SGD: private choice of the noise among candidates, and what it costs."""

import itertools
import math
from dataclasses import replace

import mpmath
import numpy as np
import torch
from private_toys import (
    RECORDS,
    cross_entropy,
    flat,
    mlp,
    moved_by_sgd,
    of_people,
    p3sgd,
    patients,
    records,
    scale_is_this_and_no_other,
    trained,
)
from scipy import stats
from torch import nn
from torch.testing import assert_close

from bounds.accounting import Composed, ExponentialMechanism, Gaussian, PoissonSampled
from pacdp.private import (
    P3SGD,
    Mechanism,
    SeededRandomness,
    SystemRandomness,
    privacy_spent,
    published_epsilon,
    runs_of,
    sampled_step,
)
from pacdp.step.event import combined
from pacdp.step.processes import Together
from pacdp.step.release import PrivateStep, choose, clipped_scores, probabilities_of
from tests.marks import near, parametrize
from tests.pacdp.draws import rand

CLIP = 0.5
DELTA = 1000**-1.1
PAPER = Mechanism(clip_norm=5.0, sample_rate=0.1, expected_batch_size=100.0, steps=100)
PRINTED = {"sample_rate": 0.1, "steps": 100, "selection_epsilon": math.sqrt(0.1), "delta": DELTA}


def of_the_paper(*scales, **changes):
    return P3SGD(noise_scales=scales, **changes).promise(PAPER, 100)


def spent(event):
    return privacy_spent(event, delta=DELTA, adjacency="add-remove")


@parametrize(
    ("scales", "printed", "exact"),
    [((1.0,), 8.47, 5.15), ((2.0,), 5.13, 1.68), ((3.0,), 4.70, 0.98), ((3.0, 1.0), 6.97, 6.19),
     ((2.0, 1.0), 7.10, 6.92), ((3.0, 2.0), 4.94, 2.61)],
)  # fmt: skip
def test_the_paper_s_table_2_and_what_it_costs(scales, printed, exact):
    """Printed there: 8.48, 5.13, 4.70, 6.97, 7.10, 4.97."""
    made = published_epsilon(noise_scales=scales, **PRINTED)
    assert f"{made.upper:.2f}" == f"{printed:.2f}"
    assert any(each.standing == "unproved" for each in made.guarantee.hypotheses)
    ours = spent(of_the_paper(*scales))
    assert ours.upper == near(exact, abs=0.006)
    assert (ours.adjacency, ours.status) == ("add-remove", "accounted")


def test_the_paper_s_moments_by_quadrature():
    """Both directions of the moment, of which the one with the patient is larger; the best order lies inside."""
    q, bounds, z = 0.1, {}, np.arange(-60.0, 60.0, 0.05)
    usual, moved = stats.norm.pdf(z, 0, 2), stats.norm.pdf(z, 1, 2)
    for order in range(2, 8):
        up, down = (0.05 * float((usual * (1 - q + q * moved / usual) ** a).sum()) for a in (order + 1, -order))
        assert up >= down
        moment = math.log(up) + q * order * (order + 1) * 0.05
        bounds[order] = (100 * moment - math.log(DELTA)) / order
    best = min(bounds, key=bounds.get)
    assert 2 < best < 7
    made = published_epsilon(noise_scales=(2.0,), **PRINTED)
    assert made.upper == near(bounds[best], rel=1e-8)


def test_the_history_is_that_of_all_candidates_and_the_choice():
    parts = (Gaussian(noise_multiplier=1.0), ExponentialMechanism(epsilon=math.sqrt(0.1), adjacency="add-remove"))
    nested = of_the_paper(3.0, 1.0, nested=True)
    assert runs_of(nested) == [(PoissonSampled(sample_rate=0.1, event=Composed(events=parts)), 100)]
    assert spent(nested).upper < 0.95 * spent(of_the_paper(3.0, 1.0)).upper
    assert runs_of(of_the_paper(1.0)) == [(PoissonSampled(sample_rate=0.1, event=parts[0]), 100)]
    assert 0.9486 < combined(P3SGD(noise_scales=(3.0, 1.0)).noises(0, PAPER)) <= 3.0 / math.sqrt(10.0)


def test_probabilities_are_the_exponential_mechanism_s():
    losses = torch.tensor([[0.5, 1.0, 9.0], [0.2, 3.0, -1.0], [2.0, 0.1, 0.0]], dtype=torch.float64)
    clipped = [[0.5, 1.0, 3.0], [0.2, 3.0, 0.0], [2.0, 0.1, 0.0]]
    with mpmath.workdps(40):
        weights = [mpmath.exp(-mpmath.mpf("0.7") * sum(mpmath.mpf(x) for x in row) / 3) for row in clipped]
        exact = [float(w / sum(weights)) for w in weights]
    made = probabilities_of(clipped_scores(losses, 3.0), 0.7)
    assert made.tolist() == near(exact, rel=1e-14)
    empty = probabilities_of(clipped_scores(torch.zeros(4, 0), 3.0), 0.7)
    assert empty.tolist() == [0.25] * 4
    odd = torch.tensor([[math.nan], [math.inf], [-math.inf]])
    made = probabilities_of(clipped_scores(odd, 3.0), 1.0)
    assert made.tolist() == near([1 / (2 + math.e), 1 / (2 + math.e), math.e / (2 + math.e)])


def test_one_patient_changes_no_probability_by_more_than_the_factor():
    """Brute force over what one patient's losses can be; attained in the limit of many patients."""
    values, largest = [0.0, 1.0, 3.0, 50.0, -2.0, math.nan, math.inf], 0.0
    others = [rand(2, n, seed=n).double() * 3.0 for n in (0, 1, 5)]
    others.append(torch.tensor([[3.0] * 40, [0.0] * 40]).double())
    for rest, pair in itertools.product(others, itertools.product(values, repeat=2)):
        before = probabilities_of(clipped_scores(rest, 3.0), 0.5)
        more = torch.cat([rest, torch.tensor(pair).double()[:, None]], 1)
        after = probabilities_of(clipped_scores(more, 3.0), 0.5)
        largest = max(largest, float((after / before).log().abs().max()))
    assert 0.499 < largest <= 0.5 + 1e-12


@parametrize("randomness", [SeededRandomness(3), SystemRandomness()])
def test_choices_have_their_probabilities(randomness, whole):
    probabilities = torch.tensor([0.5, 0.125, 0.0, 0.375], dtype=torch.float64)
    n, more = (20_000, 1.05) if whole else (6000, 1.1)
    counts = torch.bincount(torch.tensor([choose(probabilities, randomness) for _ in range(n)]), minlength=4)
    assert counts[2] == 0
    kept = counts[[0, 1, 3]].numpy()
    assert stats.chisquare(kept, n * probabilities[[0, 1, 3]].numpy()).pvalue > 1e-6
    wrong = torch.tensor([0.5 * more, 0.125 * more, 1 - 0.625 * more], dtype=torch.float64)
    assert stats.chisquare(kept, n * wrong.numpy()).pvalue < 1e-6


@parametrize("nested", [False, True])
def test_candidates_have_the_scales_that_are_accounted(nested):
    scales, total = ((3.0, 1.0, 2.0), {"a": torch.full((20000,), 7.0).double(), "b": torch.zeros(3, 4).double()})
    step = PrivateStep(
        number=0, mechanism=of_people(), module=mlp(), optimizer=None, weights={}, total=total, losses=None,
        clip_norm=CLIP, units=0, within=0,
        randomness=SeededRandomness(9), together=Together(several=False))  # fmt: skip
    algorithm = P3SGD(noise_scales=scales, nested=nested)
    made, told = algorithm.candidates(step), algorithm.noises(0, step.mechanism)
    assert step.event == sampled_step(told, sample_rate=0.5)
    noises = [torch.cat([(m[k] - total[k]).flatten() for k in total]) for m in made]
    for noise, scale in zip(noises, scales, strict=True):
        assert scale_is_this_and_no_other(noise, scale * CLIP)
    for (x, z), (y, u) in itertools.combinations(zip(noises, scales, strict=True), 2):
        expected = min(z, u) / max(z, u) if nested else 0.0
        assert float(torch.corrcoef(torch.stack([x, y]))[0, 1]) == near(expected, abs=6.0 / math.sqrt(20000))
    # the best linear estimate of the sum from all candidates has the combined scale
    inverse = torch.linalg.inv(torch.cov(torch.stack(noises) / CLIP))
    assert float(inverse.sum()) ** -0.5 == near(combined(told), rel=0.03)


def replay(module, dataset, algorithm, steps, randomness):
    """P3SGD in plain loops, from the same random numbers."""
    w, chosen, ids = flat(module), [], patients()

    def network(vector):
        twin = mlp().double()
        nn.utils.vector_to_parameters(vector.clone(), twin.parameters())
        return twin

    for _ in range(steps):
        sample = randomness.batch(len(RECORDS), 0.5).tolist()
        parts = [tuple(t[ids == i] for t in dataset.tensors) for i in sample]
        total = torch.zeros_like(w)
        for x, y in parts:
            delta = moved_by_sgd(network(w), x, y)
            total += delta * min(1.0, CLIP / float(delta.norm()))
        moved, scores = [], []
        for z in algorithm.noise_scales:
            draws = [randomness.noised(torch.zeros_like(p), std=z * CLIP).flatten()
                     for p in module.parameters()]  # fmt: skip
            moved.append(w + (total + torch.cat(draws)) / 3.0)
            losses = [min(1.5, float(cross_entropy(network(moved[-1])(x), y).mean().detach())) for x, y in parts]
            scores.append(math.exp(-4.0 * math.fsum(losses) / 1.5))
        first = scores[0] / math.fsum(scores)
        chosen.append(0 if len(randomness.batch(1, first)) else 1)
        w = moved[chosen[-1]]
    return w, chosen


def test_empty_samples_choose_blindly_and_cost_the_same():
    algorithm, numbers = p3sgd(), of_people(noise_multiplier=None, sample_rate=1e-12, steps=400)
    run = trained(algorithm, mlp().double(), records(), mechanism=numbers, people=patients(), seed=2)
    assert stats.binomtest(int(run.chosen.sum()), 400, 0.5).pvalue > 1e-6
    assert run.event == algorithm.promise(numbers, 400)


@parametrize("at_once", [True, False])
def test_a_run_is_the_algorithm_in_plain_loops(at_once, monkeypatch):
    monkeypatch.setattr("pacdp.step.set_up.runs_at_once", lambda *_: at_once)
    algorithm = replace(p3sgd(), selection_epsilon=4.0, score_bound=1.5)
    numbers, dataset = of_people(noise_multiplier=None, steps=12), records()
    run = trained(algorithm, mlp().double(), dataset, mechanism=numbers, people=patients(), seed=8)
    expected, chosen = replay(mlp().double(), dataset, algorithm, 12, SeededRandomness(8))
    assert run.chosen.tolist() == chosen
    assert 0 < sum(chosen) < 12
    assert_close(flat(run.weights), expected, atol=1e-9, rtol=1e-9)
