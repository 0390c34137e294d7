"""Predictive averages over snapshots: posterior predictive probabilities and what their uncertainty is made of.

For draws w_1, ..., w_T of a posterior and an input x with p_t = p(. | x, w_t), the posterior predictive distribution is
p = (1/T) sum_t p_t. Its entropy H(p) is the total uncertainty; the expected entropy (1/T) sum_t H(p_t) is the part that
stays when the weights are known; their difference is the mutual information of label and weights (BALD: Houlsby,
Huszár, Ghahramani and Lengyel 2011, "Bayesian Active Learning for Classification and Preference Learning", eq. 2),
which is never negative since H is concave. Sums are kept in float64, one snapshot of logits at a time, so that memory
does not grow with T.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Predictive:
    """Averages over ``snapshots`` draws of the weights."""

    probabilities: Float[Tensor, "n classes"]
    """Mean predictive probabilities, float64."""
    entropy_nats: Float[Tensor, " n"]
    """Entropy of the mean prediction."""
    expected_entropy_nats: Float[Tensor, " n"]
    """Mean entropy of the predictions."""
    mutual_information_nats: Float[Tensor, " n"]
    """Entropy minus expected entropy; rounding may leave it some 1e-16 below 0."""
    snapshots: int


class PredictiveAverage:
    """Running sums of the predictive probabilities, and of their entropies, on a fixed set of inputs.

    Args:
        logits: weights [dim] to the logits of the inputs: [n] or [n, 1] for two classes, where
            p(label 1) = sigmoid(logit), otherwise [n, classes], where p = softmax(logits).
        n: number of inputs.
        classes: number of classes.
        device: where the sums lie and ``logits`` puts its values; float64 must be known there.

    Raises:
        ValueError: n < 1 or classes < 2.
    """

    def __init__(
        self,
        logits: Callable[[Tensor], Tensor],
        *,
        n: int,
        classes: int,
        device: torch.device | str = "cpu",
    ) -> None:
        if n < 1 or classes < 2:
            raise ValueError(
                f"expected n >= 1 inputs and classes >= 2, got n={n}, classes={classes}"
            )
        self._logits = logits
        self._probabilities = torch.zeros((n, classes), dtype=torch.float64, device=device)
        self._entropies = torch.zeros(n, dtype=torch.float64, device=device)
        self.snapshots = 0

    @torch.no_grad()
    def add(self, weights: Float[Tensor, " dim"]) -> None:
        """Count one draw; after an error the average is as before.

        Raises:
            ValueError: logits of another shape, or logits that are not finite.
        """
        prediction = self._prediction(weights)
        self._probabilities += prediction
        self._entropies += _entropy(prediction)
        self.snapshots += 1

    def result(self) -> Predictive:
        """The averages so far.

        Raises:
            ValueError: nothing was added.
        """
        if not self.snapshots:
            raise ValueError(
                "expected at least one snapshot in the predictive average, got 0: add some first"
            )
        probabilities = self._probabilities / self.snapshots
        entropy, expected = _entropy(probabilities), self._entropies / self.snapshots
        return Predictive(
            probabilities=probabilities, entropy_nats=entropy, expected_entropy_nats=expected,
            mutual_information_nats=entropy - expected, snapshots=self.snapshots,
        )  # fmt: skip

    def _prediction(self, weights: Tensor) -> Tensor:
        logits, number = self._logits(weights), self.snapshots + 1
        n, classes = self._probabilities.shape
        shapes = [(n,), (n, 1)] if classes == 2 else []
        if tuple(logits.shape) not in [*shapes, (n, classes)]:
            raise ValueError(
                f"expected logits {[*shapes, (n, classes)]} of snapshot {number}, got {tuple(logits.shape)}"
            )
        bad = int((~torch.isfinite(logits)).sum())
        if bad:
            raise ValueError(
                f"{bad} of {logits.numel()} logits of snapshot {number} are NaN or infinite: leave it out or lower the "
                f"chain's step size; the average of the {self.snapshots} before is intact"
            )
        logits = logits.to(self._probabilities)
        if logits.numel() == n and classes == 2:
            logits = torch.stack([torch.zeros_like(logits.reshape(n)), logits.reshape(n)], dim=1)
        return torch.softmax(logits, dim=1)


def _entropy(probabilities: Tensor) -> Tensor:
    return torch.special.entr(probabilities).sum(dim=1)
