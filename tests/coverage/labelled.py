"""Laws of examples with known error, and predictions drawn from them."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """Labels of ``len(share)`` classes; class k is predicted wrongly, as the next one, with probability wrong[k]."""

    share: tuple[float, ...]
    wrong: tuple[float, ...]

    @property
    def error(self):
        return float(np.dot(self.share, self.wrong))

    @property
    def predicted(self):
        """The probability with which each class is predicted."""
        share, wrong = np.array(self.share), np.array(self.wrong)
        return share * (1 - wrong) + np.roll(share * wrong, 1)

    @property
    def precision(self):
        return np.array(self.share) * (1 - np.array(self.wrong)) / self.predicted

    @property
    def false_alarms(self):
        return np.roll(np.array(self.share) * np.array(self.wrong), 1) / (1 - np.array(self.share))

    def draw(self, n, rng):
        labels = rng.choice(len(self.share), size=n, p=self.share)
        errs = rng.random(n) < np.array(self.wrong)[labels]
        return labels, np.where(errs, (labels + 1) % len(self.share), labels)


THREE = World(share=(0.5, 0.3, 0.2), wrong=(0.05, 0.2, 0.4))


def probabilities(labels, rng, classes=3, sharpness=2.0):
    """Softmax outputs that lean towards the label."""
    scores = rng.normal(size=(labels.size, classes))
    scores[np.arange(labels.size), labels] += sharpness
    p = np.exp(scores)
    return p / p.sum(1, keepdims=True)
