"""P3SGD: local SGD for each patient, private choice of the noise, and what it costs."""

import itertools
import math

import mpmath
import pytest
import torch
from private_toys import cnn, cross_entropy, data, fresh, generator, mlp
from scipy import stats
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import TensorDataset

from bounds.accounting import Composed, ExponentialMechanism, Gaussian, PoissonSampled, SelfComposed, privacy_epsilon
from pacdp.algorithms.p3sgd import (
    P3SGD,
    IndependentNoise,
    NestedNoise,
    published_epsilon,
)
from pacdp.private import (
    Mechanism,
    PrivacyBudget,
    SeededRandomness,
    SystemRandomness,
    joined,
    privacy_spent,
    runs_of,
    sampled_step,
    steps_of,
    train,
    with_weights,
)
from pacdp.step.choice import choose, clipped_scores, probabilities_of
from pacdp.step.event import combined
from pacdp.step.processes import Together
from pacdp.step.release import PrivateStep

CLIP = 0.4
COUNTS = (1, 7, 3, 1, 12, 5)
DELTA = 1000**-1.1
SILENT = (1e-13,)
PAPER = Mechanism(clip_norm=5.0, sample_rate=0.1, expected_batch_size=100.0, steps=100)


def doubles():
    inputs, targets = data(sum(COUNTS)).tensors
    return TensorDataset(inputs.double(), targets)


def patients(seed=3):
    ids = torch.cat([torch.full((count,), i) for i, count in enumerate(COUNTS)])
    return ids[torch.randperm(len(ids), generator=generator(seed))]


def settings(scales=(3.0, 1.0), **changes):
    numbers = {"clip_norm": CLIP, "sample_rate": 0.5, "expected_batch_size": 3.0, "steps": 6}
    public = {k: changes.pop(k) for k in list(changes) if k in (*numbers, "vectorise", "max_physical_batch", "budget")}
    own = {"learning_rate": 0.2, "local_batch_size": 3, "local_epochs": 2}
    return P3SGD(mechanism=Mechanism(**{**numbers, **public}), noise_scales=scales, **{**own, **changes})


def planned(algorithm, steps=None):
    """What the run promises, or its first steps."""
    return algorithm.promise(len(COUNTS), algorithm.mechanism.steps if steps is None else steps)


def spent(event, delta=DELTA):
    return privacy_spent(event, delta=delta, adjacency="add-remove")


def flat(weights):
    return torch.cat([w.reshape(-1) for w in weights.values()])


def start(module):
    return torch.cat([p.detach().reshape(-1) for p in module.parameters()])


def released_sum(module, dataset, ids, **changes):
    """The sum over all patients that one step almost without noise releases."""
    run = train(settings(SILENT, steps=1, sample_rate=1.0, **changes), module, dataset, people=ids,
                loss=cross_entropy, randomness=SeededRandomness(0))  # fmt: skip
    return (flat(run.weights) - start(module)) * 3.0


def local_sgd_by_hand(module, x, y, *, rate=0.2, width=3, epochs=2):
    """torch.optim.SGD over one patient's mini-batches."""
    twin = fresh(cnn() if isinstance(module[0], nn.Unflatten) else mlp()).double()
    optimizer = torch.optim.SGD(twin.parameters(), lr=rate)
    for _ in range(epochs):
        for xs, ys in zip(x.split(width), y.split(width), strict=True):
            optimizer.zero_grad()
            cross_entropy(twin(xs), ys).mean().backward()
            optimizer.step()
    return start(twin) - start(module)


@pytest.mark.parametrize(
    ("scales", "printed"),
    [((1.0,), 8.47), ((2.0,), 5.13), ((3.0,), 4.70), ((3.0, 1.0), 6.97), ((2.0, 1.0), 7.10), ((3.0, 2.0), 4.94)],
)
def test_the_paper_s_table_2(scales, printed):
    """Printed there: 8.48, 5.13, 4.70, 6.97, 7.10, 4.97."""
    made = published_epsilon(
        noise_scales=scales, sample_rate=0.1, steps=100, selection_epsilon=math.sqrt(0.1), delta=DELTA
    )
    assert f"{made.upper:.2f}" == f"{printed:.2f}"
    assert made.status == "approximate accountant"
    assert any(each.standing == "unproved" for each in made.guarantee.hypotheses)
    assert "optimistic" in made.method


def test_the_paper_s_moments_by_quadrature():
    """Both directions of the moment, of which the one with the patient is larger; the best order lies inside."""
    q, best = mpmath.mpf("0.1"), mpmath.inf
    phi, moved = (lambda z: mpmath.npdf(z, 0, 2)), (lambda z: mpmath.npdf(z, 1, 2))
    ends = [-60, -20, -5, 0, 5, 20, 60]
    for order in range(2, 8):
        up, down = (mpmath.quad(lambda z, a=a: phi(z) * (1 - q + q * moved(z) / phi(z)) ** a, ends)
                    for a in (order + 1, -order))  # fmt: skip
        assert up >= down
        moment = mpmath.log(up) + q * order * (order + 1) * mpmath.mpf("0.05")
        best = min(best, (100 * moment - mpmath.log(DELTA)) / order)
    made = published_epsilon(
        noise_scales=(2.0,), sample_rate=0.1, steps=100, selection_epsilon=math.sqrt(0.1), delta=DELTA
    )
    assert made.upper == pytest.approx(float(best), rel=1e-8)


@pytest.mark.parametrize(
    ("scales", "exact"), [((3.0, 1.0), 6.19), ((2.0, 1.0), 6.92), ((3.0, 2.0), 2.61), ((1.0,), 5.15), ((2.0,), 1.68),
                          ((3.0,), 0.98)]
)  # fmt: skip
def test_what_it_costs(scales, exact):
    algorithm = P3SGD(mechanism=PAPER, noise_scales=scales, learning_rate=0.1)
    made = spent(planned(algorithm))
    assert made.upper == pytest.approx(exact, abs=0.006)
    assert (made.adjacency, made.status) == ("add-remove", "accounted")


def test_the_history_is_that_of_all_candidates_and_the_choice():
    algorithm = P3SGD(mechanism=PAPER, noise_scales=(3.0, 1.0), learning_rate=0.1)
    parts = (Gaussian(noise_multiplier=3.0), Gaussian(noise_multiplier=1.0),
             ExponentialMechanism(epsilon=math.sqrt(0.1), adjacency="add-remove"))  # fmt: skip
    event = SelfComposed(event=PoissonSampled(sample_rate=0.1, event=Composed(events=parts)), count=100)
    apart = privacy_epsilon(event=event, delta=DELTA, adjacency="add-remove").upper
    assert spent(planned(algorithm)).upper == pytest.approx(apart, rel=1e-9)
    nested = P3SGD(mechanism=PAPER, noise_scales=(3.0, 1.0), learning_rate=0.1, candidates=NestedNoise())
    one = PoissonSampled(sample_rate=0.1, event=Composed(events=(Gaussian(noise_multiplier=1.0), parts[2])))
    assert runs_of(planned(nested)) == [(one, 100)]
    assert spent(planned(nested)).upper < 0.95 * apart
    alone = P3SGD(mechanism=PAPER, noise_scales=(1.0,), learning_rate=0.1)
    assert runs_of(planned(alone)) == [(PoissonSampled(sample_rate=0.1, event=parts[1]), 100)]
    assert 0.9486 < combined(IndependentNoise().released((3.0, 1.0))) <= 3.0 / math.sqrt(10.0)


@pytest.mark.parametrize("network", [mlp, cnn])
@pytest.mark.parametrize("changes", [{}, {"vectorise": False}, {"max_physical_batch": 2}])
def test_local_sgd_is_torch_s(network, changes):
    module, ids = network().double(), patients()
    x, y = doubles().tensors
    by_hand = [local_sgd_by_hand(module, x[ids == i], y[ids == i]) for i in range(len(COUNTS))]
    expected = sum(delta * min(1.0, CLIP / float(delta.norm())) for delta in by_hand)
    assert max(float(delta.norm()) for delta in by_hand) > CLIP
    torch.testing.assert_close(released_sum(module, doubles(), ids, **changes), expected, atol=1e-10, rtol=1e-10)
    loose = released_sum(module, doubles(), ids, clip_norm=1e3, **changes)
    torch.testing.assert_close(loose, sum(by_hand), atol=1e-9, rtol=1e-10)


def without(dataset, ids, patient):
    return TensorDataset(*(t[ids != patient] for t in dataset.tensors)), ids[ids != patient]


@pytest.mark.parametrize("vectorise", [True, False])
@pytest.mark.parametrize("scale", [1e-4, 1.0, 1e6, 1e300, math.inf, math.nan])
def test_a_patient_moves_the_sum_by_at_most_the_clipping_norm(scale, vectorise):
    module, ids = mlp().double(), patients()
    largest = 0.0
    for patient in range(len(COUNTS)):
        inputs, targets = (t.clone() for t in doubles().tensors)
        inputs[ids == patient] = scale * (inputs[ids == patient].abs() + 0.5)
        dataset = TensorDataset(inputs, targets)
        whole = released_sum(module, dataset, ids, vectorise=vectorise, learning_rate=1.0)
        removed = released_sum(module, *without(dataset, ids, patient), vectorise=vectorise, learning_rate=1.0)
        replaced = released_sum(module, doubles(), ids, vectorise=vectorise, learning_rate=1.0)
        assert torch.isfinite(whole).all()
        largest = max(largest, float((whole - removed).norm()))
        assert float((whole - replaced).norm()) <= 2.0 * CLIP + 1e-11
        if not math.isfinite(scale):
            torch.testing.assert_close(whole, removed, atol=1e-11, rtol=0.0)
    assert largest <= CLIP + 1e-11
    assert largest > 0.99 * CLIP or scale not in (1.0, 1e6)


def test_probabilities_are_the_exponential_mechanism_s():
    losses = torch.tensor([[0.5, 1.0, 9.0], [0.2, 3.0, -1.0], [2.0, 0.1, 0.0]], dtype=torch.float64)
    clipped = [[0.5, 1.0, 3.0], [0.2, 3.0, 0.0], [2.0, 0.1, 0.0]]
    with mpmath.workdps(40):
        weights = [mpmath.exp(-mpmath.mpf("0.7") * sum(mpmath.mpf(x) for x in row) / 3) for row in clipped]
        exact = [float(w / sum(weights)) for w in weights]
    made = probabilities_of(clipped_scores(losses, 3.0), 0.7)
    assert made.tolist() == pytest.approx(exact, rel=1e-14)
    empty = probabilities_of(clipped_scores(torch.zeros(4, 0), 3.0), 0.7)
    assert empty.tolist() == [0.25] * 4
    odd = torch.tensor([[math.nan], [math.inf], [-math.inf]])
    made = probabilities_of(clipped_scores(odd, 3.0), 1.0)
    assert made.tolist() == pytest.approx([1 / (2 + math.e), 1 / (2 + math.e), math.e / (2 + math.e)])


def test_one_patient_changes_no_probability_by_more_than_the_factor():
    """Brute force over what one patient's losses can be; attained in the limit of many patients."""
    values, largest = [0.0, 1.0, 3.0, 50.0, -2.0, math.nan, math.inf], 0.0
    others = [torch.rand(2, n, generator=generator(n)).double() * 3.0 for n in (0, 1, 5)]
    others.append(torch.tensor([[3.0] * 40, [0.0] * 40]).double())
    for rest, pair in itertools.product(others, itertools.product(values, repeat=2)):
        before = probabilities_of(clipped_scores(rest, 3.0), 0.5)
        more = torch.cat([rest, torch.tensor(pair).double()[:, None]], 1)
        after = probabilities_of(clipped_scores(more, 3.0), 0.5)
        largest = max(largest, float((after / before).log().abs().max()))
    assert 0.499 < largest <= 0.5 + 1e-12


@pytest.mark.parametrize("randomness", [SeededRandomness(3), SystemRandomness()])
def test_choices_have_their_probabilities(randomness):
    probabilities = torch.tensor([0.5, 0.125, 0.0, 0.375], dtype=torch.float64)
    n = 20000
    counts = torch.bincount(torch.tensor([choose(probabilities, randomness) for _ in range(n)]), minlength=4)
    assert counts[2] == 0
    kept = counts[[0, 1, 3]].numpy()
    assert stats.chisquare(kept, n * probabilities[[0, 1, 3]].numpy()).pvalue > 1e-6
    assert stats.chisquare(kept, n * torch.tensor([0.525, 0.13125, 0.34375], dtype=torch.float64).numpy()).pvalue < 1e-6
    assert {choose(torch.tensor([0.0, 0.0, 1.0]), randomness) for _ in range(20)} == {2}
    assert {choose(torch.tensor([1.0, 0.0, 0.0]), randomness) for _ in range(20)} == {0}


def scale_is(sample, std):
    """Two-sided chi-square test of the scale at level 1e-6, plus Kolmogorov-Smirnov of the shape."""
    n = sample.numel()
    statistic = float(sample.square().sum()) / std**2
    tail = min(stats.chi2.cdf(statistic, n), stats.chi2.sf(statistic, n))
    return tail > 5e-7 and stats.kstest(sample.flatten().numpy() / std, "norm").pvalue > 1e-6


@pytest.mark.parametrize("candidates", [IndependentNoise(), NestedNoise()])
def test_candidates_have_the_scales_that_are_accounted(candidates):
    scales, total = (3.0, 1.0, 2.0), {"a": torch.full((20000,), 7.0).double(), "b": torch.zeros(3, 4).double()}
    step = PrivateStep(
        number=0, mechanism=settings().mechanism, module=mlp(), optimizer=None, weights={}, total=total, losses=None,
        randomness=SeededRandomness(9), together=Together(several=False))  # fmt: skip
    made = candidates.draw(step, scales)
    assert step.event == sampled_step(candidates.released(scales), sample_rate=0.5)
    noises = [torch.cat([(m[k] - total[k]).flatten() for k in total]) for m in made]
    for noise, scale in zip(noises, scales, strict=True):
        assert scale_is(noise, scale * CLIP)
        assert not scale_is(noise, scale * CLIP * 1.05)
        assert not scale_is(noise, scale * CLIP / 1.05)
    for (x, z), (y, u) in itertools.combinations(zip(noises, scales, strict=True), 2):
        expected = min(z, u) / max(z, u) if isinstance(candidates, NestedNoise) else 0.0
        assert float(torch.corrcoef(torch.stack([x, y]))[0, 1]) == pytest.approx(expected, abs=6.0 / math.sqrt(20000))
    # the best linear estimate of the sum from all candidates has the combined scale
    inverse = torch.linalg.inv(torch.cov(torch.stack(noises) / CLIP))
    assert float(inverse.sum()) ** -0.5 == pytest.approx(combined(candidates.released(scales)), rel=0.03)


def replay(module, dataset, ids, algorithm, randomness):
    """P3SGD in plain loops, from the same random numbers."""
    w, chosen = start(module), []
    shapes = [p.shape for p in module.parameters()]

    def network(vector):
        twin = mlp().double()
        nn.utils.vector_to_parameters(vector.clone(), twin.parameters())
        return twin

    for _ in range(algorithm.mechanism.steps):
        sample = randomness.batch(len(COUNTS), 0.5).tolist()
        parts = [tuple(t[ids == i] for t in dataset.tensors) for i in sample]
        total = torch.zeros_like(w)
        for x, y in parts:
            twin = network(w)
            optimizer = torch.optim.SGD(twin.parameters(), lr=0.2)
            for xs, ys in [*zip(x.split(3), y.split(3), strict=True)] * 2:
                optimizer.zero_grad()
                cross_entropy(twin(xs), ys).mean().backward()
                optimizer.step()
            delta = start(twin) - w
            total += delta * min(1.0, CLIP / float(delta.norm()))
        moved, scores = [], []
        for z in algorithm.noise_scales:
            draws = [randomness.normal(s, std=z * CLIP, dtype=w.dtype, device=w.device).flatten() for s in shapes]
            moved.append(w + (total + torch.cat(draws)) / 3.0)
            losses = [min(1.5, float(cross_entropy(network(moved[-1])(x), y).mean().detach())) for x, y in parts]
            scores.append(math.exp(-4.0 * math.fsum(losses) / 1.5))
        first = scores[0] / math.fsum(scores)
        chosen.append(0 if len(randomness.batch(1, first)) else 1)
        w = moved[chosen[-1]]
    return w, chosen


@pytest.mark.parametrize("vectorise", [True, False])
def test_a_run_is_the_algorithm_in_plain_loops(vectorise):
    algorithm = settings((3.0, 1.0), steps=12, vectorise=vectorise, selection_epsilon=4.0, score_bound=1.5)
    run = train(algorithm, mlp().double(), doubles(), people=patients(), loss=cross_entropy,
                randomness=SeededRandomness(8))  # fmt: skip
    expected, chosen = replay(mlp().double(), doubles(), patients(), algorithm, SeededRandomness(8))
    assert run.chosen.tolist() == chosen
    assert 0 < sum(chosen) < 12
    torch.testing.assert_close(flat(run.weights), expected, atol=1e-9, rtol=1e-9)


def test_empty_samples_choose_blindly_and_cost_the_same():
    sizes = []
    run = train(settings((3.0, 1.0), sample_rate=1e-12, steps=400), mlp(), data(sum(COUNTS)), people=patients(),
                loss=cross_entropy, randomness=SeededRandomness(2),
                progress=lambda p: sizes.append(p.private_units))  # fmt: skip
    assert sizes == [0] * 400
    assert stats.binomtest(int(run.chosen.sum()), 400, 0.5).pvalue > 1e-6
    assert steps_of(run.event) == 400
    assert run.event == planned(settings((3.0, 1.0), sample_rate=1e-12, steps=400))
    assert not torch.equal(flat(run.weights), start(mlp()))


def test_a_strong_choice_prefers_little_noise_at_the_optimum():
    """At a trained network more noise is worse, and a large ε' sees it."""
    algorithm = settings((60.0, 0.01), selection_epsilon=20.0, steps=15, sample_rate=1.0)
    run = train(algorithm, mlp(), data(sum(COUNTS)), people=patients(), loss=cross_entropy,
                randomness=SeededRandomness(2))  # fmt: skip
    assert run.chosen.tolist() == [1] * 15


def test_a_data_set_of_one_patient_with_one_record():
    x, y = (t[:1] for t in doubles().tensors)
    run = train(settings(SILENT, steps=1, sample_rate=1.0), mlp().double(), TensorDataset(x, y),
                people=torch.tensor([17]), loss=cross_entropy, randomness=SeededRandomness(0))  # fmt: skip
    delta = local_sgd_by_hand(mlp().double(), x, y)
    expected = delta * min(1.0, CLIP / float(delta.norm())) / 3.0
    torch.testing.assert_close(flat(run.weights) - start(mlp().double()), expected, atol=1e-10, rtol=0.0)


class Interrupted(Exception):
    pass


@pytest.mark.parametrize("candidates", [IndependentNoise(), NestedNoise()])
def test_resuming_is_exact_to_the_bit(candidates, tmp_path):
    algorithm = settings(steps=9, candidates=candidates)

    def run(**options):
        return train(algorithm, mlp(), data(sum(COUNTS)), people=patients(), loss=cross_entropy,
                     randomness=SeededRandomness(7), **options)  # fmt: skip

    def stop(progress):
        if progress.step == 5:
            raise Interrupted

    whole, path, seen = run(), tmp_path / "run.safetensors", []
    with pytest.raises(Interrupted):
        run(checkpoint=path, checkpoint_every=2, progress=stop)
    for _ in range(2):  # the second call finds a finished run
        resumed = run(checkpoint=path, progress=lambda p: seen.append(p.step))
        assert resumed.event == whole.event
        assert torch.equal(resumed.chosen, whole.chosen)
        assert all(torch.equal(resumed.weights[k], whole.weights[k]) for k in whole.weights)
    assert seen == [5, 6, 7, 8, 9]
    assert set(whole.chosen.tolist()) == {0, 1}


def test_training_ends_before_the_step_that_would_overspend():
    algorithm = settings((3.0, 1.0), steps=20, sample_rate=0.1)
    budget = PrivacyBudget(epsilon=1.0001 * spent(planned(algorithm, steps=9)).upper, delta=DELTA)
    steps = budget.affordable_steps(planned(algorithm))
    assert steps == 9
    assert spent(planned(algorithm, steps=steps)).upper <= budget.epsilon
    assert spent(planned(algorithm, steps=steps + 1)).upper > budget.epsilon
    limited = settings((3.0, 1.0), steps=20, sample_rate=0.1, budget=budget)
    run = train(limited, mlp(), data(sum(COUNTS)), people=patients(), loss=cross_entropy)
    assert run.halted
    assert run.event == planned(algorithm, steps=steps)
    assert len(run.chosen) == steps
    twice = joined(run.event, run.event)
    assert runs_of(twice) == [(runs_of(run.event)[0][0], 2 * steps)]


def test_errors_are_sentences():
    for scales in ((), (0.0,), (1.0, math.inf)):
        with pytest.raises(ValueError, match="noise_scales"):
            settings(scales)
    for changes in ({"learning_rate": 0.0}, {"local_epochs": 0}, {"local_batch_size": 0}, {"selection_epsilon": 0.0},
                    {"score_bound": math.nan}):  # fmt: skip
        with pytest.raises(ValueError, match=next(iter(changes))):
            settings(**changes)


def test_it_learns_digits_by_groups_of_four():
    bunch = load_digits()
    x, y = torch.tensor(bunch.data / 16.0, dtype=torch.float32), torch.tensor(bunch.target)
    order = torch.randperm(len(x), generator=generator(0))
    algorithm = P3SGD(
        mechanism=Mechanism(clip_norm=1.0, sample_rate=0.1, expected_batch_size=35.0, steps=100),
        noise_scales=(3.0, 1.0), learning_rate=0.5, local_batch_size=2, candidates=NestedNoise())  # fmt: skip
    module = fresh(nn.Sequential(nn.Linear(64, 10)))
    run = train(algorithm, module, TensorDataset(x[order[:1400]], y[order[:1400]]),
                people=torch.arange(1400) // 4, loss=cross_entropy, randomness=SeededRandomness(1))  # fmt: skip
    predicted = with_weights(module, run.weights)(x[order[1400:]]).argmax(1)
    assert float((predicted == y[order[1400:]]).float().mean()) > 0.7
