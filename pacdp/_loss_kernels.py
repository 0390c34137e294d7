"""The bounded cross-entropy of a minibatch and its derivative by the logits, compiled for the CPU."""

import math
from typing import no_type_check

from pacdp.random.kernels import kernel


@kernel(error_model="numpy")
@no_type_check
def two_classes(logits, labels, floor, slope, out):
    """Mean loss and mean 0-1 loss; ``out`` [n] becomes the gradient of the mean loss by the logits [n].

    An error of -1 means that a label is no class.
    """
    loss, errors, n = 0.0, 0, len(labels)
    for i in range(n):
        if not 0 <= labels[i] <= 1:
            return 0.0, -1.0
        sign = 2 * labels[i] - 1
        margin = sign * float(logits[i])
        small = math.exp(-abs(margin))
        probability = 1.0 / (1.0 + small) if margin >= 0 else small / (1.0 + small)
        complement = small / (1.0 + small) if margin >= 0 else 1.0 / (1.0 + small)
        likelihood = floor + slope * probability
        loss -= math.log(likelihood)
        errors += not margin > 0
        out[i] = -sign * slope * probability * complement / (likelihood * n)
    return loss / n, errors / n


@kernel(error_model="numpy")
@no_type_check
def many_classes(logits, labels, floor, slope, out):
    """The same for logits [n, classes]; a tie and a NaN are errors."""
    loss, errors, n = 0.0, 0, len(labels)
    for i in range(n):
        row, true = logits[i], labels[i]
        if not 0 <= true < len(row):
            return 0.0, -1.0
        top, other = float(row[0]), -math.inf
        for j in range(len(row)):
            top = max(top, float(row[j]))
            if j != true:
                other = max(other, float(row[j]))
        total = 0.0
        for j in range(len(row)):
            total += math.exp(float(row[j]) - top)
        probability = math.exp(float(row[true]) - top) / total
        likelihood = floor + slope * probability
        loss -= math.log(likelihood)
        errors += not (float(row[true]) > other and math.isfinite(total))
        common = slope * probability / (likelihood * n)
        for j in range(len(row)):
            out[i, j] = common * (math.exp(float(row[j]) - top) / total - (j == true))
    return loss / n, errors / n
