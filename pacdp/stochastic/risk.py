"""An estimate of the empirical risk of a Gaussian posterior, as exact sums, with what it proves.

R̂(Q) = (1/n) Σ_i E_{w~Q} ℓ(w, z_i) is what a PAC-Bayes certificate of a randomised network needs from above. Peers draw
m whole networks and pass all examples through each: m independent terms. With a draw of its own for every example one
pass gives n independent terms in [0, 1], not alike, whose mean has expectation R̂(Q), so that by Hoeffding (1963,
Theorem 1) kl(mean ‖ R̂(Q)) ≤ ln(1/failure_prob)/(n · passes).
"""

import math
from dataclasses import asdict
from fractions import Fraction
from typing import Any

import torch
from jaxtyping import Float, Int64
from torch import Tensor

import bounds
from bounds import _check
from bounds.record import record
from pacdp.errors import require_finite
from pacdp.losses import Loss

UNIT = 2**32
"""Losses are counted in multiples of 1/UNIT of their interval, rounded up: sums are exact in any order."""
_OUTWARD = 1.0 + 2.0**-50


def at_or_above(exact: Fraction) -> float:
    """The fraction as a float, or, where none is equal to it, one above."""
    value = float(exact)
    return value if Fraction(value) >= exact else math.nextafter(value, math.inf)


@record
class MonteCarloRisk:
    """Sum of the losses of all examples in all passes, each under weights of its own."""

    loss: str
    low: float
    """Lower end of the loss's interval, which counts as 0."""
    high: float
    """Upper end, which counts as 1."""
    n: int
    """Examples in a pass; with people, what all examples weigh together when those of the person who has fewest weigh 1
    each, and those of others so much less that every person weighs the same."""
    passes: int
    terms: int
    """Independent terms in [0, 1]: n · passes."""
    total: int
    """Sum of the losses (ℓ - low)/(high - low), each rounded up, in units of 2⁻³²."""
    seed: int
    people: int | None = None
    """How many people the mean is over, each with the mean of their own losses; None where it is over examples."""

    @property
    def mean(self) -> float:
        """Mean of the losses rescaled to [0, 1], rounded up."""
        return at_or_above(Fraction(self.total, self.n * self.passes * UNIT))

    @property
    def errors(self) -> int:
        """The number of terms with loss ``high``, for a loss that takes no value but its interval's ends.

        Raises:
            ValueError: the sum is no whole number, so the loss is another.
        """
        if self.total % UNIT:
            raise ValueError(
                f"expected a count of errors, got a fractional sum of loss {self.loss}: use mean"
            )
        return self.total // UNIT

    def upper(self, failure_prob: float) -> bounds.Certificate:
        """R̂(Q), in the interval rescaled to [0, 1], is at most the certificate's value.

        Formal guarantee: with probability at least 1 - failure_prob over the draws, whatever the examples, if seed and
        passes were fixed before any result was seen. For bounds on several losses at once add their failure
        probabilities up. See :func:`bounds.gibbs_risk_upper`.
        """
        return bounds.gibbs_risk_upper(mean=self.mean, draws=self.terms, failure_prob=failure_prob)

    def to_dict(self) -> dict[str, Any]:
        """JSON values, the mean among them."""
        return {**asdict(self), "mean": self.mean}


def passes_for(*, slack_nats: float, n: int, failure_prob: float) -> int:
    """The fewest passes over n examples, each with a draw of its own, with ln(1/failure_prob)/terms ≤ ``slack_nats``.

    Raises:
        ValueError: the slack is not positive and finite, n < 1, or failure_prob outside (0, 1).
    """
    require_finite(slack_nats=slack_nats)
    _check.count(n=n)
    _check.open_probability(failure_prob=failure_prob)
    terms = math.ceil(-math.log(failure_prob) / slack_nats * (1.0 + 2.0**-50))
    return max(1, -(-terms // n))


def in_units(
    values: Float[Tensor, " batch"], loss: Loss, weights: Float[Tensor, " batch"] | None = None
) -> Int64[Tensor, ""]:
    """The sum of (values - low)/(high - low), each times its weight in [0, 1] and rounded up to a multiple of 1/UNIT.

    ``values`` lie in the loss's interval, as those do that :meth:`pacdp.losses.Loss.require` lets pass.
    """
    # up to five roundings of 2⁻⁵³ each; the ends of the interval stay exact
    share = (values.double() - loss.low) / (loss.high - loss.low) * (UNIT * _OUTWARD)
    share = share if weights is None else share * weights
    return share.ceil().clamp(0, UNIT).to(torch.int64).sum()
