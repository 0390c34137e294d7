"""Finite laws of inputs, labels and predictions, with their risks in closed form, and samples in awkward orders."""

from dataclasses import dataclass

import numpy as np

ORDERS = ("as drawn", "sorted by label", "sorted by loss", "sorted by input")


@dataclass(frozen=True, slots=True, kw_only=True)
class Law:
    """Inputs 0, 1, ... of probability ``mass``, each with a law of its label, a row of ``labels``."""

    mass: np.ndarray
    labels: np.ndarray
    words: str

    @property
    def cells(self):
        """The joint law, [inputs, classes]."""
        return self.mass[:, None] * self.labels

    @property
    def classes(self):
        return self.labels.shape[1]

    def draw(self, rng, n):
        """Inputs and labels."""
        cell = rng.choice(self.cells.size, size=n, p=self.cells.ravel())
        return cell // self.classes, cell % self.classes

    def mean(self, loss, where=True):
        """Of a loss by input and label, among the cells ``where`` something holds; they may not be null together."""
        some = self.cells * where
        return float((some * loss).sum() / some.sum())

    def error(self, said):
        """Of a table of answers, one an input."""
        return self.mean(np.asarray(said)[:, None] != np.arange(self.classes))


def law(rng, *, classes=0, inputs=30):
    """Few or many inputs, equally likely or not at all, whose labels are coins, or follow a rule more or less."""
    k, c = int(rng.integers(2, inputs + 1)), classes or int(rng.integers(2, 5))
    spread, kind = (rng.choice([0.2, 1.0, 50.0]), rng.choice(["coins", "a rule", "a noisy rule"], p=[0.4, 0.2, 0.4]))
    noise = {"coins": 1.0, "a rule": 0.0, "a noisy rule": rng.uniform(0.1, 0.6)}[str(kind)]
    rule = np.eye(c)[rng.integers(0, c, k)]
    mass = rng.dirichlet(np.full(k, spread)) * 0.999 + 0.001 / k
    labels = (1 - noise) * rule + noise / c
    return Law(
        mass=mass / mass.sum(), labels=labels, words=f"{k} inputs, the likeliest {mass.max():.2g}, {c} classes, {kind}"
    )


def answers(rng, of):
    """A table of answers: the best one, a constant, or one that means nothing."""
    best = of.labels.argmax(1)
    return [best, np.zeros_like(best), rng.integers(0, of.classes, best.size)][int(rng.integers(3))]


def arranged(order, *, label, loss, x):
    """The places of records in one of ``ORDERS``."""
    by = {"as drawn": np.arange(label.size), "sorted by label": label, "sorted by loss": loss, "sorted by input": x}
    return np.argsort(by[order], kind="stable")


def told_apart(x, rng, copies=False):
    """Inputs with a column of noise, hardly visible, that makes equal ones differ; or none, so that they are copies."""
    return np.column_stack([x, np.zeros(x.size) if copies else 1e-3 * rng.permutation(x.size)])


def calibration(of, sure, said):
    """Brier risk, and the gaps in fifteen bins of confidence with their sum."""
    right, bins = (of.labels[np.arange(said.size), said], np.minimum((15 * sure.max(1)).astype(int), 14))
    gaps = np.bincount(bins, weights=of.mass * (right - sure.max(1)), minlength=15)
    brier = ((sure[:, None, :] - np.eye(of.classes)) ** 2).sum(2)
    names = [f"calibration gap at confidence {b / 15:.2f} to {(b + 1) / 15:.2f}" for b in range(15)]
    mass = np.bincount(bins, weights=of.mass, minlength=15)
    by_bin = {name: float(abs(gap) / m) for name, gap, m in zip(names, gaps, mass, strict=True) if m}
    return {"Brier risk": of.mean(brier), "calibration error (ECE)": float(np.abs(gaps).sum()), **by_bin}


def size(rng, least=20):
    """How many records: small and large ones alike."""
    return int(np.exp(rng.uniform(np.log(least), np.log(300))))
