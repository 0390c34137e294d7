"""Private training attacked from its released weights, by the best linear statistic: each example has a row of its own.

A row of an embedding that one unit alone uses moves by that unit's clipped gradient and by noise, so that every row is
an experiment: its unit is among the data or not, by a coin, and the row's own number is all that tells of it. Rates
are bounded by Clopper and Pearson, at thresholds that were fixed before.
"""

from itertools import product
from typing import NamedTuple

import numpy as np
import torch
from scipy import stats
from scipy.special import logsumexp
from torch import nn
from torch.optim import SGD
from torch.utils.data import TensorDataset

from pacdp.losses import cross_entropies
from pacdp.private import DPSGD, DPSGLDHead, Mechanism, PrivateEngine, SeededRandomness, UserDPSGD, epsilon, train

LEVEL = 1e-3
"""Of all attacks together."""
ROWS = 2000
DELTAS = (0.01, 0.1, 0.3, 0.6, 0.9)
SHARES = (0.25, 0.5, 0.75, 1.0)
"""Thresholds, as shares of what a unit moves its row by when it is drawn at every step."""


class Habit(NamedTuple):
    """Settings of a run, and what its data are like.

    ``scale`` is the size of a gradient before clipping, ``odd`` are gradients of further examples on a row of theirs,
    ``records`` how many examples a person has (0: examples are the units), ``shared`` whether somebody else, who is
    always there, uses every row too.
    """

    noise: float = 1.0
    sample_rate: float = 1.0
    steps: int = 4
    mode: str = "reference"
    scale: float = 10.0
    odd: tuple[float, ...] = ()
    records: int = 0
    shared: bool = False


HABITS = {
    "a row of one's own": Habit(),
    "small noise": Habit(noise=0.3, steps=1, mode="ghost"),
    "huge gradients": Habit(scale=1e8),
    "no numbers, infinite and huge ones": Habit(odd=(float("nan"), float("inf"), 1e30, -1e30)),
    "batches that are mostly empty": Habit(noise=0.5, sample_rate=1e-3, steps=8),
    "a tenth of the examples": Habit(sample_rate=0.1, steps=20, noise=0.7),
    "people of three records": Habit(records=3),
    "people who share inputs": Habit(records=2, shared=True),
}


class Rows(nn.Module):
    """One number for each row."""

    def __init__(self, rows):
        super().__init__()
        self.words = nn.Embedding(rows, 1)
        nn.init.zeros_(self.words.weight)

    def forward(self, x):
        return self.words(x[:, 0])


def linear(outputs, targets):
    """A loss whose gradient is the target, whatever the weights."""
    return outputs[:, 0] * targets


def trained(habit, rows, tokens, targets, owners, seed):
    """A private run on these examples; ``owners`` counts where people are the units."""
    mechanism = Mechanism(clip_norm=1.0, noise_multiplier=habit.noise, sample_rate=habit.sample_rate,
                          expected_batch_size=1.0, steps=habit.steps, grad_sample_mode=habit.mode)  # fmt: skip
    algorithm = UserDPSGD if habit.records else DPSGD
    return train(algorithm(learning_rate=1.0), Rows(rows), TensorDataset(tokens, targets), mechanism=mechanism,
                 loss=linear, randomness=SeededRandomness(seed),
                 people=torch.as_tensor(owners) if habit.records else None)  # fmt: skip


def released(habit, member, seed):
    """What the rows of the released weights moved by, without what is known of others, and the event of the run."""
    alone = np.repeat(np.flatnonzero(member), max(1, habit.records))
    others = np.arange(member.size) if habit.shared else np.array([], dtype=int)
    odd = np.full(len(habit.odd), member.size)
    tokens = torch.tensor(np.concatenate([alone, others, odd]))[:, None]
    targets = torch.full((len(tokens),), -habit.scale)
    targets[len(tokens) - len(odd) :] = torch.tensor(habit.odd)
    owners = np.concatenate([alone, member.size + others, 2 * member.size + 1 + np.arange(len(odd))])
    run = trained(habit, member.size + 1, tokens, targets, owners, seed)
    assert run.event is not None
    moved = run.weights["words.weight"][: member.size, 0].double().numpy()
    return moved - habit.shared * habit.steps * habit.sample_rate, run.event


def watched_once_an_epoch(member, seed, *, batches=4, epochs=4, steps=16, noise=0.8, same=False):
    """The best statistic of the noisy sums u_t of an engine's loop, for each row, and the engine's event.

    It is the likelihood ratio Σ_e ln mean_t exp(u_t/σ² - 1/(2σ²)) of the row's example being in or not; with ``same``
    it is that of one who suspects that an example is in the same batch of all epochs. The loop stops after ``steps``.
    """
    net, tokens = Rows(member.size), torch.from_numpy(np.flatnonzero(member))[:, None]
    engine = PrivateEngine(sampling="once-an-epoch", randomness=SeededRandomness(seed))
    module, optimizer, loader = engine.make_private(
        module=net, optimizer=SGD(net.parameters(), lr=0.0), noise_multiplier=noise, max_grad_norm=1.0, steps=batches,
        dataset=TensorDataset(tokens, torch.full((len(tokens),), -9.0)), expected_batch_size=1.0)  # fmt: skip
    ratios = np.zeros((epochs * batches, member.size))
    taken = (batch for _ in range(epochs) for batch in loader)
    for step, (x, y) in zip(range(steps), taken, strict=False):
        optimizer.zero_grad()
        linear(module(x), y).mean().backward()
        optimizer.step()
        ratios[step] = -(2.0 * net.words.weight.grad[:, 0].numpy() + 1.0) / (2.0 * noise**2)
    ratios = ratios.reshape(epochs, batches, -1)
    ratios = ratios.sum(axis=0, keepdims=True) if same else ratios
    return (logsumexp(ratios, axis=1) - np.log(batches)).sum(axis=0), engine.event


def watched_head(member, seed, *, steps=200, classes=100):
    """What a feature of an example's own moved by: at the last iterate, and in the mean of all noisy sums.

    Each in units of what a gradient that stays as it is at the start would do; and the run's event.
    """
    head = DPSGLDHead(step_size=0.1, ridge=1.0, row_norm=4.0)
    layer = nn.utils.skip_init(nn.Linear, member.size, classes)
    for weight in layer.parameters():
        nn.init.zeros_(weight)
    net = head.network(nn.Sequential(nn.Flatten(), layer), generator=torch.Generator())
    own, released = torch.from_numpy(np.flatnonzero(member)), []
    mechanism = Mechanism(clip_norm=head.least_clip_norm, noise_multiplier=2.0, sample_rate=1.0, steps=steps,
                          expected_batch_size=float(member.size))  # fmt: skip
    data = TensorDataset(9.0 * torch.eye(member.size)[own], torch.zeros(len(own), dtype=torch.int64))
    run = train(head, net, data, mechanism=mechanism, loss=cross_entropies, randomness=SeededRandomness(seed),
                watch=released.append)  # fmt: skip
    slope = np.full(classes, 1.0 / classes)
    slope[0] -= 1.0
    (name,) = (one for one in run.weights if one.endswith("weight"))
    forgotten = (1.0 - 0.9**steps) / (1.0 - 0.9) * head.step_size / member.size
    of_all = torch.stack([one[name] for one in released]).double().mean(0).numpy()
    unit = slope / (slope @ slope) / head.row_norm
    return -unit @ run.weights[name].double().numpy() / forgotten, unit @ of_all, run.event


def refuted(habit, moved, member, event, level):
    """Which promise of (epsilon, delta) the rates of "in" above a threshold refute at this level; empty if none."""
    each = level / (4 * len(SHARES))
    promises = [(epsilon(event, delta=delta, adjacency="add-remove"), delta) for delta in DELTAS]
    for share in SHARES:
        above = moved > share * habit.steps
        least, most = zip(*(_limits(above[some], each) for some in (member, ~member)), strict=True)
        for (promised, delta), (true, false) in product(promises, ((least[0], most[1]), (1 - most[1], 1 - least[0]))):
            if true > np.exp(promised) * false + delta:
                return f"({promised:.3g}, {delta}): {true:.3f} of those in, {false:.3f} of those out, above {share}"
    return ""


def _limits(found, each):
    """Clopper and Pearson's limits of a rate, by SciPy."""
    k, n = int(found.sum()), found.size
    return (float(stats.beta.ppf(each, k, n - k + 1)) if k else 0.0,
            float(stats.beta.isf(each, k + 1, n - k)) if k < n else 1.0)  # fmt: skip


def attacked(name, seed, level):
    """What an attack on one run of a habit refutes."""
    habit = HABITS[name]
    member = np.random.default_rng([seed, 5]).random(ROWS) < 0.5
    moved, event = released(habit, member, seed)
    return refuted(habit, moved, member, event, level)
