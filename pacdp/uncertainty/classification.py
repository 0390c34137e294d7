"""Uncertainty of predicted classes.

With p_t = p(. | x, w_t) of members t = 1, ..., T and p = (1/T) Σ p_t, in nats:

* predictive entropy H(p): the total uncertainty;
* expected entropy (1/T) Σ H(p_t): what stays when the weights are known;
* their difference, the mutual information of label and weights (BALD: Houlsby, Huszár, Ghahramani and Lengyel 2011,
  "Bayesian Active Learning for Classification and Preference Learning", eq. 2), never negative since H is concave;
* variation ratio 1 - (votes for the most voted class)/T (Freeman 1965; Gal 2016, section 3.3), a member's vote being
  its most probable class, the first of several.

Entropies of the uniform law over the members estimate those of the posterior: finitely many members underestimate the
predictive entropy and the mutual information (Jensen).
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy import special

from pacdp.calibration.inputs import require_array, require_probabilities

Members = Float[np.ndarray, "members n classes"]
PerExample = Float[np.ndarray, " n"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassUncertainty:
    """All of them, an entry an example."""

    probabilities: Float[np.ndarray, "n classes"]
    """Mean of the members' probabilities."""
    predictive_entropy_nats: PerExample
    expected_entropy_nats: PerExample
    mutual_information_nats: PerExample
    """At least 0: rounding below it is clamped."""
    variation_ratio: PerExample


class PredictiveAverage:
    """The uncertainties of members that come one at a time, in memory that does not grow with their number."""

    def __init__(self) -> None:
        self.members = 0
        self._probabilities = self._entropies = self._votes = np.zeros(())

    def add(self, probabilities: Float[np.ndarray, "n classes"]) -> None:
        """One more member's; refuses what :func:`class_uncertainty` refuses, and is then as before."""
        require_probabilities(probabilities)
        found, before = probabilities.astype(np.float64), self._probabilities
        if self.members and found.shape != before.shape:
            raise ValueError(
                f"expected probabilities of the same examples and classes, {before.shape}, got {found.shape}: add all "
                "of one member at once"
            )
        classes = np.arange(found.shape[-1])
        self._probabilities = before + found
        self._entropies = self._entropies + special.entr(found).sum(axis=-1)
        self._votes = self._votes + (found.argmax(axis=-1)[:, None] == classes)
        self.members += 1

    def result(self) -> ClassUncertainty:
        """Every uncertainty of the members so far.

        Raises:
            ValueError: there is none.
        """
        if not self.members:
            raise ValueError("expected one member or more, got none: add its probabilities first")
        mean, expected = self._probabilities / self.members, self._entropies / self.members
        total = special.entr(mean).sum(axis=-1)
        return ClassUncertainty(
            probabilities=mean, predictive_entropy_nats=total, expected_entropy_nats=expected,
            mutual_information_nats=np.maximum(total - expected, 0.0),
            variation_ratio=1.0 - self._votes.max(axis=-1) / self.members,
        )  # fmt: skip


def class_uncertainty(members: Members) -> ClassUncertainty:
    """Every uncertainty of the members' predictions, in float64.

    Args:
        members: probabilities; rows sum to 1 within 1e-4.

    Raises:
        ValueError: another shape, no member or example, fewer than two classes, an entry that is negative or NaN, or a
            row that does not sum to 1.
    """
    require_array("members", members, "fiu", "numbers")
    if members.ndim != 3 or not len(members):
        raise ValueError(
            f"expected members [members >= 1, n, classes], got shape {members.shape}: stack the members first"
        )
    average = PredictiveAverage()
    for member in members:
        average.add(member)
    return average.result()
