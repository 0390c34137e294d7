"""User-level DP-SGD: patients are clipped whole, whoever else is there."""

import math

import pytest
import torch
from private_toys import cnn, cross_entropy, data, fresh, generator, mlp
from scipy import stats
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import Dataset, TensorDataset

from pacdp.algorithms.user_level import UserLevelDPSGD
from pacdp.checkpoint import Checkpoint, save_checkpoint
from pacdp.errors import CheckpointError, Diverged
from pacdp.private import (
    DPSGD,
    Exponential,
    Mechanism,
    PrivacyBudget,
    SeededRandomness,
    privacy_spent,
    runs_of,
    sampled_step,
    train,
    with_example_dropout,
    with_weights,
)
from pacdp.step.units import Units, each_unit

CLIP = 0.5
COUNTS = (1, 7, 3, 1, 12, 5)
EXTREMES = {"small": 1e-4, "usual": 1.0, "large": 1e6, "overflowing": 1e300, "infinite": math.inf, "nan": math.nan}


def doubles():
    inputs, targets = data(sum(COUNTS)).tensors
    return TensorDataset(inputs.double(), targets)


def patients(seed=3):
    """Each record's patient, in no order."""
    ids = torch.cat([torch.full((count,), 10 * i) for i, count in enumerate(COUNTS)])
    return ids[torch.randperm(len(ids), generator=generator(seed))]


def mechanism(**changes):
    numbers = {"clip_norm": CLIP, "sample_rate": 0.5, "expected_batch_size": 3.0, "steps": 6}
    return Mechanism(**{**numbers, **changes})


def settings(noise=1.0, lr=0.3, records_at_once=None, **changes):
    return UserLevelDPSGD(mechanism=mechanism(**changes), noise_multiplier=noise, learning_rate=lr,
                          records_at_once=records_at_once)  # fmt: skip


def planned(algorithm, steps=None):
    """What the run promises, or its first steps."""
    return algorithm.promise(len(COUNTS), algorithm.mechanism.steps if steps is None else steps)


def spent(event, delta):
    return privacy_spent(event, delta=delta, adjacency="add-remove")


def flat(weights):
    return torch.cat([w.reshape(-1) for w in weights.values()])


def released_sum(module, dataset, ids, **changes):
    """The sum over all patients that one step without noise releases."""
    algorithm = settings(0.0, 3.0, steps=1, sample_rate=1.0, **changes)
    run = train(algorithm, module, dataset, people=ids, loss=cross_entropy, randomness=SeededRandomness(0))
    return torch.cat([p.detach().reshape(-1) for p in module.parameters()]) - flat(run.weights)


def clipped_by_hand(module, dataset, ids, clip_norm=CLIP):
    found = []
    for patient in ids.unique():
        x, y = (tensor[ids == patient] for tensor in dataset.tensors)
        gradients = torch.autograd.grad(cross_entropy(module(x), y).sum(), list(module.parameters()))
        g = torch.cat([g.reshape(-1) for g in gradients])
        found.append(g * min(1.0, clip_norm / float(g.norm())))
    return torch.stack(found)


@pytest.mark.parametrize("network", [mlp, cnn])
@pytest.mark.parametrize(
    "changes",
    [{}, {"vectorise": False}, {"max_physical_batch": 2}, {"records_at_once": 2},
     {"vectorise": False, "records_at_once": 5}, {"clip_norm": 1e6}],
)  # fmt: skip
def test_the_sum_is_that_of_whole_patients(network, changes):
    module = network().double()
    expected = clipped_by_hand(module, doubles(), patients(), changes.get("clip_norm", CLIP)).sum(0)
    made = released_sum(module, doubles(), patients(), **changes)
    torch.testing.assert_close(made, expected, atol=1e-10, rtol=1e-10)


def without(dataset, ids, patient):
    return TensorDataset(*(t[ids != patient] for t in dataset.tensors)), ids[ids != patient]


@pytest.mark.parametrize("vectorise", [True, False])
@pytest.mark.parametrize("scale", EXTREMES)
def test_a_patient_moves_the_sum_by_at_most_the_clipping_norm(scale, vectorise):
    """All records of the patient removed: C. Replaced by others: 2C, and no less in the worst case."""
    module, ids = mlp().double(), patients()
    for patient in ids.unique():
        inputs, targets = (t.clone() for t in doubles().tensors)
        inputs[ids == patient] = EXTREMES[scale] * (inputs[ids == patient].abs() + 0.5)
        dataset = TensorDataset(inputs, targets)
        whole = released_sum(module, dataset, ids, vectorise=vectorise)
        removed = released_sum(module, *without(dataset, ids, patient), vectorise=vectorise)
        replaced = released_sum(module, doubles(), ids, vectorise=vectorise)
        assert torch.isfinite(whole).all()
        assert float((whole - removed).norm()) <= CLIP * (1.0 + 1e-12)
        assert float((whole - replaced).norm()) <= 2.0 * CLIP * (1.0 + 1e-12)
        if scale in ("infinite", "nan"):
            torch.testing.assert_close(whole, removed, atol=1e-12, rtol=0.0)


def test_the_bound_is_attained_and_a_patient_cut_in_two_would_break_it():
    module, ids = mlp().double(), patients()
    dataset, cut = doubles(), ids.clone()
    big = (ids == 40).nonzero().flatten()
    dataset.tensors[0][big], dataset.tensors[1][big] = 100.0 * dataset.tensors[0][big[0]], 1
    rest = released_sum(module, *without(dataset, ids, 40))
    assert 0.999 * CLIP < float((released_sum(module, dataset, ids) - rest).norm()) <= CLIP
    cut[big[::2]] = 1000
    assert float((released_sum(module, dataset, cut) - rest).norm()) > 1.9 * CLIP


def test_one_nan_record_silences_its_patient_alone():
    module, ids = mlp().double(), patients()
    dataset, seen = doubles(), []
    dataset.tensors[0][(ids == 10).nonzero()[-1]] = math.nan
    run = train(settings(0.0, 3.0, steps=1, sample_rate=1.0), module, dataset, people=ids,
                loss=cross_entropy, randomness=SeededRandomness(0), progress=seen.append)  # fmt: skip
    assert [(p.private_units, p.private_nonfinite) for p in seen] == [(6, 1)]
    expected = released_sum(module, *without(dataset, ids, 10))
    start = torch.cat([p.detach().reshape(-1) for p in module.parameters()])
    torch.testing.assert_close(start - flat(run.weights), expected, atol=1e-12, rtol=0.0)


def scale_is(sample, std):
    """Two-sided chi-square test of the scale at level 1e-6, plus Kolmogorov-Smirnov of the shape."""
    n = sample.numel()
    statistic = float(sample.square().sum()) / std**2
    tail = min(stats.chi2.cdf(statistic, n), stats.chi2.sf(statistic, n))
    return tail > 5e-7 and stats.kstest(sample.flatten().numpy() / std, "norm").pvalue > 1e-6


def test_noise_has_the_scale_that_is_accounted_on_empty_samples_too():
    algorithm = settings(1.3, 1.0, sample_rate=1e-12, steps=400)
    sizes, paths = [], []

    class Spy(UserLevelDPSGD):
        def update(self, step):
            before = flat(step.weights)
            chosen = UserLevelDPSGD.update(self, step)
            paths.append(flat(step.weights) - before)
            return chosen

    spy = Spy(mechanism=algorithm.mechanism, noise_multiplier=1.3, learning_rate=1.0)
    run = train(spy, mlp().double(), doubles(), people=patients(), loss=cross_entropy, randomness=SeededRandomness(5),
                progress=lambda p: sizes.append(p.private_units))  # fmt: skip
    sample, exact = torch.stack(paths), 1.3 * CLIP / 3.0
    assert sizes == [0] * 400
    assert runs_of(run.event) == [(sampled_step([1.3], sample_rate=1e-12), 400)]
    assert run.event == planned(algorithm)
    assert scale_is(sample, exact)
    assert not scale_is(sample, exact * 1.05)
    assert not scale_is(sample, exact / 1.05)


def test_patients_of_one_record_make_it_plain_dp_sgd():
    n, numbers = 40, {"clip_norm": CLIP, "sample_rate": 0.25, "steps": 6}
    decay = Exponential(initial=1.5, factor=0.9)
    plain = train(
        DPSGD(mechanism=Mechanism(**numbers, expected_batch_size=10.0), noise_multiplier=decay, learning_rate=0.3),
        mlp(), data(n), loss=cross_entropy, randomness=SeededRandomness(4))  # fmt: skip
    algorithm = settings(decay, 0.3, **numbers, expected_batch_size=10.0)
    ours = train(algorithm, mlp(), data(n), people=torch.arange(n), loss=cross_entropy, randomness=SeededRandomness(4))
    for name, value in plain.weights.items():
        torch.testing.assert_close(ours.weights[name], value, atol=1e-6, rtol=1e-5)
    assert len(runs_of(ours.event)) == 6
    assert ours.event == plain.event


class Interrupted(Exception):
    pass


def dropout_network():
    return with_example_dropout(nn.Sequential(*mlp()[:2], nn.Dropout(0.3), mlp()[2]), generator=generator())


@pytest.mark.parametrize("network", [mlp, dropout_network])
def test_resuming_is_exact_to_the_bit(network, tmp_path):
    algorithm = settings(Exponential(initial=1.5, factor=0.9), steps=9)

    def run(**options):
        return train(algorithm, network(), data(sum(COUNTS)), people=patients(), loss=cross_entropy,
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
        assert all(torch.equal(resumed.weights[k], whole.weights[k]) for k in whole.weights)
    assert seen == [5, 6, 7, 8, 9]


def test_other_settings_networks_and_files_are_refused(tmp_path):
    path = tmp_path / "run.safetensors"

    def run(algorithm, module, **options):
        return train(algorithm, module, data(sum(COUNTS)), people=patients(), loss=cross_entropy, checkpoint=path,
                     **{"randomness": SeededRandomness(7), **options})  # fmt: skip

    run(settings(), mlp())
    with pytest.raises(CheckpointError, match="other settings"):
        run(settings(noise=2.0), mlp())
    with pytest.raises(CheckpointError, match="other shapes of parameters"):
        run(settings(), cnn())
    with pytest.raises(CheckpointError, match="was seeded"):
        run(settings(), mlp(), randomness=None)
    budget = PrivacyBudget(epsilon=spent(planned(settings(), steps=3), 1e-2).upper, delta=1e-2)
    with pytest.raises(CheckpointError, match="other settings"):
        run(settings(budget=budget), mlp())
    save_checkpoint(path, Checkpoint(header={"kind": "another"}, model=dict(mlp().named_parameters()), state={}))
    with pytest.raises(CheckpointError, match="no checkpoint of a private run"):
        run(settings(), mlp())


def test_training_ends_before_the_step_that_would_overspend():
    algorithm, delta = settings(noise=Exponential(initial=2.0, factor=0.95), sample_rate=0.2, steps=30), 1e-2
    for steps in (1, 7, 30):
        enough = spent(planned(algorithm, steps=steps), delta).upper
        assert PrivacyBudget(epsilon=enough, delta=delta).require_steps(planned(algorithm)) == steps
        if steps > 1:
            less = PrivacyBudget(epsilon=enough * (1.0 - 1e-9), delta=delta)
            assert less.require_steps(planned(algorithm)) == steps - 1
    budget = PrivacyBudget(epsilon=spent(planned(algorithm, steps=8), delta).upper * 0.999, delta=delta)
    limited = settings(noise=Exponential(initial=2.0, factor=0.95), sample_rate=0.2, steps=30, budget=budget)
    run = train(limited, mlp(), data(sum(COUNTS)), people=patients(), loss=cross_entropy)
    assert run.halted
    assert run.event == planned(algorithm, steps=7)
    assert spent(run.event, delta).upper <= budget.epsilon
    assert (spent(run.event, delta).adjacency, spent(run.event, delta).status) == ("add-remove", "accounted")
    poor = PrivacyBudget(epsilon=1e-9, delta=delta)
    with pytest.raises(ValueError, match="first step alone costs more than the budget"):
        poor.require_steps(planned(algorithm))
    with pytest.raises(ValueError, match="first step alone costs more than the budget"):
        train(settings(budget=poor), mlp(), data(sum(COUNTS)), people=patients(), loss=cross_entropy)
    free = settings(noise=0.0)
    assert spent(planned(free), delta).upper == math.inf


class Branching(nn.Module):
    """Passes the independence test, but its data-dependent branch cannot be vectorised over patients."""

    def __init__(self):
        super().__init__()
        self.inner = mlp()

    def forward(self, x):
        return torch.stack([self.inner(r) if float(r.sum()) > 0.0 else 2.0 * self.inner(r) for r in x])


def test_networks_that_cannot_run_side_by_side_run_one_after_the_other():
    module = Branching().double()
    expected = clipped_by_hand(module, doubles(), patients()).sum(0)
    torch.testing.assert_close(released_sum(module, doubles(), patients()), expected, atol=1e-10, rtol=1e-10)


def test_frozen_parameters_stay_and_the_caller_s_network_is_left_alone():
    module = mlp()
    module[0].weight.requires_grad_(False)
    before = {k: p.detach().clone() for k, p in module.named_parameters()}
    run = train(settings(), module, data(sum(COUNTS)), people=patients(), loss=cross_entropy)
    assert all(torch.equal(before[k], p) for k, p in module.named_parameters())
    assert torch.equal(run.weights["0.weight"], before["0.weight"])
    assert not torch.equal(run.weights["2.weight"], before["2.weight"])
    assert set(run.weights) == set(before)


def test_records_are_grouped_by_patient_in_their_order():
    ids = torch.tensor([5, 2, 5, 9, 2, 5])
    made = Units.group(data(6), ids)
    assert [r.tolist() for r in made.records] == [[1, 4], [0, 2, 5], [3]]
    batch = made.batch(torch.arange(3), 2, torch.device("cpu"))
    assert batch.kept.tolist() == [[[1, 1], [0, 0]], [[1, 1], [1, 0]], [[1, 0], [0, 0]]]
    assert torch.equal(batch.inputs[1, 1, 0], data(6).tensors[0][5])
    assert torch.equal(batch.inputs[1, 1, 1], data(6).tensors[0][5])  # padding is a copy from the same batch


class Strings(Dataset):
    def __len__(self):
        return 3

    def __getitem__(self, index):
        return torch.zeros(4), torch.zeros((), dtype=torch.int64)


def test_errors_are_sentences():
    def run(algorithm=None, module=None, ids=None, dataset=None, loss=cross_entropy, **options):
        return train(algorithm or settings(), module or mlp(), dataset or data(sum(COUNTS)),
                     people=patients() if ids is None else ids, loss=loss, **options)  # fmt: skip

    run(dataset=Strings(), ids=torch.tensor([0, 0, 1]))
    with pytest.raises(ValueError, match="people must hold a whole number"):
        run(ids=torch.zeros(3, dtype=torch.int64))
    with pytest.raises(ValueError, match="people must hold a whole number"):
        run(ids=torch.zeros(sum(COUNTS)))
    with pytest.raises(ValueError, match="DPSGD adds up what single examples contribute, which hides no person"):
        run(DPSGD(mechanism=mechanism(), noise_multiplier=1.0, learning_rate=0.1))
    with pytest.raises(ValueError, match="no parameter that requires a gradient"):
        run(module=nn.Sequential(nn.Flatten()))
    with pytest.raises(ValueError, match="not independent"):
        run(module=fresh(nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3, affine=False))))
    with pytest.raises(ValueError, match="first dimension must be the batch"):
        run(loss=lambda outputs, targets: cross_entropy(outputs, targets).mean())
    for changes in ({"clip_norm": 0.0}, {"clip_norm": math.inf}, {"expected_batch_size": math.nan}, {"steps": 0},
                    {"sample_rate": 1.5}, {"max_physical_batch": 0}):  # fmt: skip
        with pytest.raises(ValueError, match=next(iter(changes))):
            mechanism(**changes)
    with pytest.raises(ValueError, match="records_at_once"):
        settings(records_at_once=0)
    with pytest.raises(Diverged, match="at step"):
        run(settings(noise=1e39))


def test_it_learns_digits_by_groups_of_four():
    bunch = load_digits()
    x, y = torch.tensor(bunch.data / 16.0, dtype=torch.float32), torch.tensor(bunch.target)
    order = torch.randperm(len(x), generator=generator(0))
    algorithm = UserLevelDPSGD(
        mechanism=Mechanism(clip_norm=2.0, sample_rate=0.1, expected_batch_size=35.0, steps=100),
        noise_multiplier=1.0, learning_rate=0.5)  # fmt: skip
    module = fresh(nn.Sequential(nn.Linear(64, 10)))
    run = train(algorithm, module, TensorDataset(x[order[:1400]], y[order[:1400]]),
                people=torch.arange(1400) // 4, loss=cross_entropy, randomness=SeededRandomness(1))  # fmt: skip
    predicted = with_weights(module, run.weights)(x[order[1400:]]).argmax(1)
    assert float((predicted == y[order[1400:]]).float().mean()) > 0.75
    assert spent(run.event, 1e-3).upper < 6.0


@pytest.mark.parametrize(
    ("module", "expected"), [(mlp, True), (cnn, True), (dropout_network, False), (Branching, False)]
)
def test_who_runs_side_by_side(module, expected, monkeypatch):
    seen = set()

    def spy(*args, vectorised):
        seen.add(vectorised)
        return each_unit(*args, vectorised=vectorised)

    monkeypatch.setattr("pacdp.step.sums.each_unit", spy)
    train(settings(steps=1, sample_rate=1.0), module(), data(sum(COUNTS)), people=patients(), loss=cross_entropy)
    assert (False not in seen) == expected
