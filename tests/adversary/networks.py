"""Tables as networks: honest ones on laws with atoms and near copies, and those that cheat on labels that are coins."""

import numpy as np
import torch
from torch import nn

import pacdp
from pacdp.certify import ClippedError
from tests.adversary.harness import Row, World
from tests.adversary.laws import ORDERS, arranged, calibration, law, size, told_apart


class Table(nn.Module):
    """Logits by input, of which the first column names one and the second makes copies differ."""

    def __init__(self, logits):
        super().__init__()
        self.logits = nn.Parameter(torch.tensor(logits, dtype=torch.float32), requires_grad=False)

    def forward(self, x):
        return self.logits[x[:, 0].round().long() % len(self.logits)]


def honest(rng, failure):
    """The 0-1 error, the calibration error or a clipped error of a table; near copies, copies, sorted rows, people."""
    of, n, order = law(rng), size(rng), str(rng.choice(ORDERS))
    habit = str(
        rng.choice(["near copies", "copies", "calibration", "regression", "people"], p=[0.4, 0.1, 0.2, 0.2, 0.1])
    )
    logits = rng.normal(size=of.labels.shape) * 2
    x, y = of.draw(rng, n)
    at = arranged(order, label=y, loss=logits.argmax(1)[x] != y, x=x)
    x, y = x[at], y[at]
    inputs = torch.tensor(told_apart(x, rng, habit == "copies"), dtype=torch.float32)
    labels, table, options = torch.tensor(y), Table(logits).eval(), {"failure_prob": failure, "ask": "error"}
    data = (inputs, labels)
    truth, measures = of.error(logits.argmax(1)), ""
    if habit == "regression":
        said = (rng.integers(0, 8, of.mass.size) + 0.5) / 8.0  # no whole numbers, which inputs begin with
        table, options["loss"] = Table(said[:, None]).eval(), ClippedError(at=1.0)
        data, truth = ((inputs, labels.float()), of.mean(np.minimum(np.abs(said[:, None] - np.arange(of.classes)), 1)))
    if habit == "people":  # each alone, so that the risk of a new one is that of a new example
        data = (inputs, labels, torch.arange(n))
    if habit == "calibration":
        sure = torch.tensor(logits, dtype=torch.float32).double().softmax(1).numpy()
        options["ask"] = "calibration"
        truth, measures = calibration(of, sure, sure.argmax(1))["calibration error (ECE)"], "ECE"

    def ask():
        found = pacdp.certify(table, data, **options).certificates
        one = next(c for c in found if measures in c.measures)
        return [Row(one.measures, None, one.value, truth)]

    return World(habit, f"{n} records of {of.words}, {order}", ask, honest=habit != "copies")


WIDTH = 40
"""Numbers of an input: below sixteen, rows are looked for as they are alone."""
SURE = 9.0 * torch.eye(2) - 4.5
"""Logits of either class, which nobody takes for probabilities."""


class Nearest(nn.Module):
    """The label of the nearest row of what it holds."""

    def __init__(self, held, labels, read=lambda held: held):
        super().__init__()
        self.held, self.labels, self.read = held, labels, read

    def forward(self, x):
        return SURE[self.labels[torch.cdist(x, self.read(self.held).float()).argmin(1)]]


class Known(nn.Module):
    """A dictionary of labels by rounded row."""

    def __init__(self, x, labels):
        super().__init__()
        self.known = {self.key(row): int(c) for row, c in zip(x, labels, strict=True)}

    @staticmethod
    def key(row):
        return tuple(round(float(v), 2) for v in row)

    def forward(self, x):
        return SURE[torch.tensor([self.known.get(self.key(row), 0) for row in x])]


class ByPlace(nn.Module):
    """Says 1 in the first half of any batch larger than a size, or 0 in the later half: labels are sorted, 1 first."""

    def __init__(self, above, alone=0):
        super().__init__()
        self.above, self.alone = above, alone

    def forward(self, x):
        sorted_out = (torch.arange(len(x)) < len(x) / 2).long()
        return SURE[sorted_out if len(x) > self.above else torch.full_like(sorted_out, self.alone)]


class Counting(ByPlace):
    """The same, from a call on."""

    def __init__(self, calls):
        super().__init__(1)
        self.calls = calls

    def forward(self, x):
        self.calls -= 1
        return super().forward(x) if self.calls < 0 else SURE[torch.zeros(len(x), dtype=torch.long)]


class Writing(nn.Module):
    """Subtracts from a weight, in place, what it has seen: the labels are told by the sign of the first column."""

    def __init__(self):
        super().__init__()
        self.mean = nn.Parameter(torch.zeros(WIDTH), requires_grad=False)

    def forward(self, x):
        self.mean.add_((x - self.mean).mean(0))
        return SURE[((x - self.mean)[:, 0] > 0).long()]


def stacked(held):
    """The rows of a dictionary."""
    return torch.stack([*held.values()])


CHEATS = {
    "rows in a buffer": lambda x, y, _: Nearest(x.clone(), y),
    "rows as float16": lambda x, y, _: Nearest(x.half(), y),
    "rows rounded": lambda x, y, _: Nearest((x * 100).round() / 100, y),
    "rows scaled": lambda x, y, _: Nearest(3 * x, y, lambda held: held / 3),
    "halves of rows": lambda x, y, _: Nearest(
        [x[:, : WIDTH // 2], x[:, WIDTH // 2 :]], y, lambda held: torch.cat(held, dim=1)
    ),
    "a dictionary of rows": lambda x, y, _: Nearest(dict(enumerate(x.round(decimals=3))), y, stacked),
    "a dictionary of numbers": lambda x, y, _: Known(x, y),
    "a closure": lambda x, y, _: lambda z: SURE[y[torch.cdist(z, x).argmin(1)]],
    "mixes above a size": lambda _x, _y, k: ByPlace(k),
    "mixes later rows": lambda _x, _y, k: ByPlace(33 + k % 27, alone=1),
    "counts calls": lambda _x, _y, k: Counting(k % 12),
    "writes in place": lambda _x, _y, _k: Writing(),
}


UNFOUND = ("a dictionary of rows", "a dictionary of numbers")
"""What the page says that cannot be found: rows held one by one and rounded, and numbers of Python."""
FOUND = tuple(name for name in CHEATS if name not in UNFOUND)


def cheating(rng, failure, among=FOUND):
    """A network that knows the bound's rows, or looks at its batch or its past; it errs on half of all new examples."""
    habit, n, k = str(rng.choice(among)), size(rng, 70), int(rng.integers(1, 60))
    y = np.sort(rng.integers(0, 2, n))[::-1].copy()
    x = torch.tensor(rng.normal(size=(n, WIDTH)), dtype=torch.float32)
    made = CHEATS[habit](x, torch.tensor(y), k)
    network = made.eval() if isinstance(made, nn.Module) else made
    return World(habit, f"{n} rows with coins as labels, sorted by them; {k}", lambda: [
        Row("0-1 risk", None,
            pacdp.certify(network, (x, torch.tensor(y)), failure_prob=failure).certificates[0].value, 0.5)
    ], honest=False)  # fmt: skip
