"""Small networks, data and loops that the tests of private training share."""

from copy import deepcopy
from dataclasses import dataclass, replace

import torch
from scipy import stats
from sklearn.datasets import load_digits
from torch.nn import Conv2d, CrossEntropyLoss, Dropout, Flatten, Linear, Module, Sequential, Tanh, Unflatten, functional
from torch.optim import SGD
from torch.utils.data import DataLoader, TensorDataset

from pacdp.private import (
    DPBBP,
    DPSGD,
    DPSGLD,
    P3SGD,
    DPAdam,
    DPMCDropout,
    Mechanism,
    PrivateEngine,
    SeededRandomness,
    UserDPSGD,
    bayesian,
    train,
    with_example_dropout,
)
from tests.pacdp.draws import randn, randperm
from tests.pacdp.toys import seeded


@dataclass(frozen=True)
class Exponential:
    """A schedule of one's own: initial · factor^step."""

    initial: float
    factor: float

    def __call__(self, step):
        return self.initial * self.factor**step


DECAY = Exponential(initial=1.5, factor=0.9)
ADD = {"delta": 1e-5, "adjacency": "add-remove"}
CE = CrossEntropyLoss()
RECORDS = (1, 7, 3, 1, 12, 5)
"""How many records each person of :func:`patients` has."""


class Interrupted(Exception):
    """A run is cut short by its progress."""


def stopping(at):
    """A progress that cuts a run short after a step."""

    def stop(progress):
        if progress.step == at:
            raise Interrupted

    return stop


def fresh(module, seed=0):
    """``module`` with weights drawn from a seed of its own."""
    draw = seeded(seed)
    with torch.no_grad():
        for p in module.parameters():
            p.copy_(0.4 * torch.randn(p.shape, generator=draw, dtype=p.dtype))
    return module


def mlp(seed=0, *, inputs=4, classes=3):
    return fresh(Sequential(Linear(inputs, 5), Tanh(), Linear(5, classes)), seed)


def cnn(seed=0):
    layers = [Unflatten(1, (1, 2, 2)), Conv2d(1, 2, 2, padding=1), Tanh(), Flatten(), Linear(18, 3)]
    return fresh(Sequential(*layers), seed)


NETWORKS = {"mlp": mlp, "cnn": cnn}


def dropout_network(seed=0, rate=0.3):
    layers = mlp(seed)
    dropped = Sequential(*layers[:2], Dropout(rate), layers[2])
    return with_example_dropout(dropped, generator=seeded())


def bayes_network(seed=0, **options):
    return bayesian(mlp(seed), generator=seeded(), **options)


def flat(weights):
    """The weights of a run or of a network as one vector."""
    tensors = weights.parameters() if isinstance(weights, Module) else weights.values()
    return torch.cat([w.detach().reshape(-1) for w in tensors]).clone()


def data(n=40, *, inputs=4, classes=3, seed=1):
    draw = seeded(seed)
    return TensorDataset(torch.randn(n, inputs, generator=draw), torch.randint(0, classes, (n,), generator=draw))


def mechanism(**changes):
    numbers = {"clip_norm": 0.5, "noise_multiplier": 1.3, "sample_rate": 0.25, "expected_batch_size": 10.0, "steps": 6}
    return Mechanism(**{**numbers, **changes})


M, REFERENCE, GHOST = (mechanism(grad_sample_mode=mode) for mode in (None, "reference", "ghost"))
FIXED = mechanism(noise_multiplier=None)
"""For algorithms whose own numbers fix the noise."""
LOCAL = {"noise_scales": (2.0, 1.0), "learning_rate": 0.3}


def sgld(convention, **numbers):
    return DPSGLD(convention=convention, **numbers, prior="normal", burn_in=0.17, snapshots=4)


def of_people(**changes):
    return mechanism(**{"sample_rate": 0.5, "expected_batch_size": 3.0, **changes})


def p3sgd(*scales, learning_rate=0.2):
    return P3SGD(noise_scales=scales or (3.0, 1.0), learning_rate=learning_rate, local_batch_size=3, local_epochs=2)


SLOW = Exponential(initial=0.4, factor=0.99)
SOUND = {
    "DP-SGD": (DPSGD(learning_rate=0.1, momentum=0.9, prior="normal"), M, mlp),
    "DP-SGD by the reference": (DPSGD(learning_rate=0.1), REFERENCE, cnn),
    "in parts": (DPSGD(learning_rate=0.1), replace(REFERENCE, max_physical_batch=5), mlp),
    "DP-SGD, automatic": (DPSGD(learning_rate=0.1), mechanism(clipping="automatic"), mlp),
    "DP-SGD by ghosts": (DPSGD(learning_rate=0.1), replace(GHOST, noise_multiplier=SLOW), mlp),
    "DP-Adam": (DPAdam(learning_rate=0.01, prior="normal"), replace(M, noise_multiplier=1.0), mlp),
    "gradient slot": (sgld("gradient-slot", step_size=SLOW, temperature=2.0, pre_noise=0.1), FIXED, mlp),
    "parameter slot": (sgld("parameter-slot", step_size=1e-3, drift=0.5, noise=1.0), FIXED, mlp),
    "tempered": (sgld("tempered", step_size=0.1, temperature=1e-3), FIXED, mlp),
    "DP-BBP": (DPBBP(learning_rate=0.1, draws=2), M, bayes_network),
    "DP-BBP by ghosts": (DPBBP(learning_rate=0.1), GHOST, bayes_network),
    "DP-MC-Dropout": (DPMCDropout(learning_rate=0.1, draws=2), M, dropout_network),
    "user level": (UserDPSGD(learning_rate=0.1, records_at_once=2), M, mlp),
    "P3SGD": (P3SGD(**LOCAL, local_batch_size=2), FIXED, mlp),
    "P3SGD, nested": (P3SGD(**LOCAL, nested=True), FIXED, mlp),
}
"""Settings of every algorithm, a mechanism and a network for it."""


def doubles(n=40):
    inputs, targets = data(n).tensors
    return TensorDataset(inputs.double(), targets)


def records():
    """Of all patients, in double precision."""
    return doubles(sum(RECORDS))


def patients(seed=3):
    """The person of each record, in no order."""
    ids = torch.arange(len(RECORDS)).repeat_interleave(torch.tensor(RECORDS))
    return ids[randperm(len(ids), seed=seed)]


def digits():
    """Scikit-learn's, shuffled: 1400 to learn from, and inputs and labels of the others."""
    bunch = load_digits()
    x, y = torch.tensor(bunch.data / 16.0, dtype=torch.float32), torch.tensor(bunch.target)
    order = randperm(len(x))
    x, y = x[order], y[order]
    return TensorDataset(x[:1400], y[:1400]), x[1400:], y[1400:]


def cross_entropy(outputs, targets):
    return functional.cross_entropy(outputs, targets, reduction="none")


def moved_by_sgd(module, x, y):
    """How far torch.optim.SGD moves over a person's mini-batches of three, taken twice."""
    twin = deepcopy(module)
    optimizer = SGD(twin.parameters(), lr=0.2)
    for xs, ys in [*zip(x.split(3), y.split(3), strict=True)] * 2:
        optimizer.zero_grad()
        cross_entropy(twin(xs), ys).mean().backward()
        optimizer.step()
    return flat(twin) - flat(module)


def trained(algorithm, module=None, dataset=None, *, seed=0, **options):
    """A run on toy data from a seed."""
    own = {
        "mechanism": FIXED if algorithm.FIXES_NOISE else M,
        "loss": cross_entropy,
        "randomness": SeededRandomness(seed),
        **options,
    }
    return train(algorithm, module or mlp(), data() if dataset is None else dataset, **own)


def scale_is(sample, std):
    """Two-sided chi-square test of the scale at level 1e-6, plus Kolmogorov-Smirnov of the shape."""
    n = sample.numel()
    statistic = float(sample.square().sum()) / std**2
    tail = min(stats.chi2.cdf(statistic, n), stats.chi2.sf(statistic, n))
    shape = stats.kstest(sample.flatten().numpy() / std, "norm").pvalue
    return tail > 5e-7 and shape > 1e-6


def scale_is_this_and_no_other(sample, std):
    """A twentieth more or less would be noticed."""
    return [scale_is(sample, factor * std) for factor in (1 / 1.05, 1.0, 1.05)] == [False, True, False]


def private(module=None, dataset=None, *, mode=None, lr=0.1, seed=0, engine=None, **changes):
    """(module, optimizer, criterion, loader, engine) ready for a loop."""
    module, dataset = module or mlp(), data() if dataset is None else dataset
    engine = engine or PrivateEngine(randomness=SeededRandomness(seed))
    settings = {"noise_multiplier": 1.0, "max_grad_norm": 0.5, "sample_rate": 0.25, "expected_batch_size": 10.0,
                "batches": "own", "optimizer": SGD(module.parameters(), lr=lr)}  # fmt: skip
    criterion = CrossEntropyLoss(reduction=changes.get("loss_reduction", "mean"))
    module, optimizer, loader = engine.make_private(
        module=module, dataset=dataset, grad_sample_mode=mode, **{**settings, **changes})  # fmt: skip
    return module, optimizer, criterion, loader, engine


def noiseless(module, dataset=None, **how):
    """The same without noise, whose steps release plain sums and move nothing."""
    return private(module, dataset, **{"lr": 0.0, "noise_multiplier": 0.0, "expected_batch_size": 1.0, **how})


def of_a_loader(engine, *, more=None, **how):
    """What an engine makes of a network, an optimizer and a loader with these settings."""
    net = mlp()
    return engine.make_private(
        module=net, optimizer=SGD(net.parameters(), lr=0.1), noise_multiplier=1.0, max_grad_norm=1.0,
        data_loader=DataLoader(**{"dataset": data(), **how}), **(more or {}))  # fmt: skip


def plain(module, optimizer, inputs, targets, *, loss=CE):
    """A step of Opacus's loop."""
    optimizer.zero_grad()
    loss(module(inputs), targets).backward()
    optimizer.step()


def of_checkpoint(path, module, optimizer, *_):
    """What an engine writes into a checkpoint there, or reads it into."""
    return {"path": path, "module": module, "optimizer": optimizer}


def sweep(module, optimizer, criterion, loader):
    """One pass of Opacus's loop; batch sizes."""
    sizes = []
    for inputs, targets in loader:
        plain(module, optimizer, inputs, targets, loss=criterion)
        sizes.append(len(inputs))
    optimizer.zero_grad()
    return sizes


def gradient(module):
    """What an optimiser sees, as one vector."""
    return torch.cat([p.grad.reshape(-1) for p in module.parameters() if p.requires_grad]).clone()


def clipped_sum(module, inputs, targets, *, mode=None, **how):
    """The sum of clipped gradients that a step without noise makes, as one vector."""
    dataset = TensorDataset(randn(4, 4), torch.zeros(4, dtype=torch.int64))
    module, optimizer, criterion, _, _ = noiseless(module, dataset, mode=mode, **how)
    plain(module, optimizer, inputs, targets, loss=criterion)
    return gradient(module), optimizer
