"""Predictions for the tests of calibration, and slow twins of the metrics in plain Python."""

import itertools
import math
from collections import defaultdict
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.random import default_rng


class Case(NamedTuple):
    probabilities: np.ndarray
    labels: np.ndarray


def continuous(seed, *, n=None):
    """Dirichlet rows, labels from a flattened or sharpened copy of them; small n leaves bins empty."""
    generator = default_rng(seed)
    n = int(generator.integers(1, 300)) if n is None else n
    classes = int(generator.integers(2, 9))
    probabilities = generator.dirichlet(np.full(classes, generator.uniform(0.2, 2.0)), size=n)
    true = probabilities ** generator.uniform(0.3, 2.0)
    return Case(probabilities, _draw(generator, true))


def ties(seed, *, pieces):
    """Rows of multiples of 1/pieces, among them rows of one 1 and else 0: ties at edges, confidences of 0 and 1."""
    generator = default_rng(seed)
    n, classes = int(generator.integers(2, 200)), int(generator.integers(2, 6))
    counts = generator.multinomial(pieces, generator.dirichlet(np.full(classes, 0.4), size=n))
    return Case(counts / pieces, _draw(generator, counts + pieces / 8))


def _draw(generator, weights):
    cumulative = np.cumsum(weights / weights.sum(axis=1, keepdims=True), axis=1)
    drawn = (cumulative < generator.random((len(weights), 1))).sum(axis=1)
    return np.minimum(drawn, weights.shape[1] - 1)


def calibrated(*, classes, repeats=1):
    """Groups of equal rows (k/8, ...) whose labels have exactly those frequencies; some rows are certain."""
    rows, labels = [], []
    for split in itertools.combinations_with_replacement(range(9), classes - 1):
        counts = np.diff([0, *split, 8])
        for label, count in enumerate(counts):
            rows += [counts / 8] * int(count) * repeats
            labels += [label] * int(count) * repeats
    return Case(np.array(rows), np.array(labels))


def pairs(case):
    """Confidence and correctness of each example."""
    found = []
    for row, label in zip(case.probabilities.tolist(), case.labels.tolist(), strict=True):
        best = max(range(len(row)), key=lambda k: (row[k], -k))
        found.append((row[best], best == label))
    return found


def one_class(case, k):
    return [(row[k], label == k) for row, label in zip(case.probabilities.tolist(), case.labels.tolist(), strict=True)]


def width_bins(examples, bins):
    """Count, mean confidence and accuracy of each non-empty bin [edge, next edge), the last closed."""
    edges = [float(edge) for edge in np.linspace(0, 1, bins + 1)]
    inside = defaultdict(list)
    for confidence, correct in examples:
        inside[next((b for b in range(bins - 1) if confidence < edges[b + 1]), bins - 1)].append((confidence, correct))
    return [(len(part), math.fsum(c for c, _ in part) / len(part), sum(o for _, o in part) / len(part))
            for part in inside.values()]  # fmt: skip


def slow_gaps(examples, bins):
    """ECE and MCE."""
    n, confidence, accuracy = np.transpose(width_bins(examples, bins))
    gaps = abs(accuracy - confidence)
    return [n @ gaps / len(examples), gaps.max()]


def slow_equal_mass(examples, bins):
    """Every example in ``bins`` copies, so that each bin gets as many as there are examples; ties share outcomes."""
    by_value = defaultdict(list)
    for confidence, correct in examples:
        by_value[confidence].append(correct)
    gaps = []
    for confidence in sorted(by_value):
        outcomes = by_value[confidence]
        gaps += [Fraction(sum(outcomes), len(outcomes)) - Fraction(confidence)] * (len(outcomes) * bins)
    n = len(examples)
    means = [sum(gaps[b * n : (b + 1) * n]) / n for b in range(bins)]
    return float(sum(abs(mean) for mean in means) / bins)
