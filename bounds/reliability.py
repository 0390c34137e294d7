"""Upper bounds on the expected calibration error (ECE), from held-out examples or, by PAC-Bayes, from training data;
and on the Brier risk, which says something of calibration without bins.

A predictor gives its label a confidence f in [0, 1] and is correct (c = 1) or not (c = 0); g = c - f is the gap. With
the examples sorted into bins,

    ECE = Σ_b |E g 1{bin b}|,    plug-in ECE = Σ_b |mean of g 1{bin b} over the n examples|.

The signs of the E g 1{bin b} are fixed numbers, unknown but not random: with them ECE is the mean of a single variable
in [-1, 1], whose average is at most the plug-in ECE. So a bound on one mean serves, and the number of bins does not
enter. The bins must not depend on the examples (they may depend on the predictor). Arguments out of range raise
ValueError. Proofs: docs/guarantees.md.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from bounds import _check
from bounds._assemble import Bill, billed
from bounds._rounding import outward, total
from bounds.certificate import Certificate
from bounds.combine import applied
from bounds.means import GRID_NATS
from bounds.prices import INDEPENDENT, Inputs, Price
from bounds.refined import bernstein_slack

_HELD_OUT = 'docs/guarantees.md, "Calibration error on held-out examples"'
_TRAINING = 'docs/guarantees.md, "Calibration error from training data"'


def ece_hoeffding(*, calibration_error: float, n: int, failure_prob: float) -> Certificate:
    """ECE ≤ plug-in ECE + √(2 ln(1/failure_prob)/n), whatever the number of bins.

    Hoeffding 1963, Theorem 2, for one mean of variables in [-1, 1]; "Calibration error on held-out examples" in
    docs/guarantees.md.

    Formal guarantee: for a predictor and bins that do not depend on the n independent examples, ECE ≤ value with
    probability at least 1 - failure_prob; ``calibration_error`` is the plug-in ECE on them.
    """
    _check.probability(calibration_error=calibration_error)
    bill = billed("ece_hoeffding", INDEPENDENT, n=n, failure_prob=failure_prob)
    return bill.certificate(
        total(float(calibration_error), math.sqrt(2.0 * bill.per_example)),
        of="predictor",
        measures="ECE",
        terms={"calibration_error": calibration_error},
        inputs={"calibration_error": calibration_error},
        reference=_HELD_OUT,
    )


def ece_second_moment(*, calibration_error: float, mean_squared_gap: float, n: int, failure_prob: float) -> Certificate:
    """ECE ≤ plug-in ECE + min_η [ (c_η/η) V̂ + ln(20/failure_prob)/(η n) ],    c_η = -η - ln(1-η)

    with V̂ the mean of (c - f)² over all bins together and η on the fixed grid 0.5·0.8^k, k < 20: the un-expected
    Bernstein inequality, far below ``ece_hoeffding`` when most gaps are small. "Calibration error
    on held-out examples" in docs/guarantees.md.

    Formal guarantee: as for ``ece_hoeffding``.
    """
    _check_gaps(calibration_error, mean_squared_gap)
    bill = billed("ece_second_moment", INDEPENDENT, n=n, failure_prob=failure_prob, grid=GRID_NATS)
    return _second_moment(bill, calibration_error, mean_squared_gap, {}, _HELD_OUT, "predictor")


def ece_pac_bayes(
    *,
    calibration_error: float,
    mean_squared_gap: float,
    kl_nats: float,
    n: int,
    failure_prob: float,
    price: Price = INDEPENDENT,
) -> Certificate:
    """The ECE of a Gibbs predictor from its training data: the mean over the posterior Q of the ECE of each w.

        E_Q ECE ≤ E_Q plug-in ECE + min_η [ (c_η/η) E_Q V̂ + (KL(Q‖P) + ln 20 + Λ)/(η n) ]

    with c_η = -η - ln(1-η) and the grid of ``ece_second_moment``. "Calibration error from training data" in
    docs/guarantees.md. It is about one w drawn from Q, not about averaged predictions (for those see ``brier_risk``).

    Formal guarantee: for a prior fixed before the sample was seen (or a function of what the price's mechanism
    released), and bins that are a function of w and the example alone, E_Q ECE ≤ value for all Q simultaneously with
    probability at least 1 - failure_prob.

    ``calibration_error`` and ``mean_squared_gap`` are posterior means of the plug-in ECE and of the mean squared gap on
    the n examples; if they are upper confidence bounds (of averages over draws of w), ``Certificate.charged`` pays.
    """
    _check_gaps(calibration_error, mean_squared_gap)
    _check.divergence(kl_nats=kl_nats)
    bill = billed("ece_pac_bayes", price, n=n, failure_prob=failure_prob, kl=kl_nats, grid=GRID_NATS)
    return _second_moment(bill, calibration_error, mean_squared_gap, {"kl_nats": kl_nats}, _TRAINING, "randomised")


def _second_moment(
    bill: Bill, calibration_error: float, mean_squared_gap: float, inputs: Inputs, reference: str, of: str
) -> Certificate:
    """The un-expected Bernstein inequality at the best η of the grid, which costs ln 20 nats once."""
    slack, eta = bernstein_slack(float(mean_squared_gap), bill.per_example)
    gaps = {"calibration_error": calibration_error, "mean_squared_gap": mean_squared_gap}
    return bill.certificate(
        total(float(calibration_error), slack),
        of=of,
        measures="ECE",
        terms={**gaps, "eta": eta},
        inputs={**gaps, **inputs},
        reference=reference,
    )


def _check_gaps(calibration_error: float, mean_squared_gap: float) -> None:
    _check.probability(calibration_error=calibration_error, mean_squared_gap=mean_squared_gap)
    if mean_squared_gap < calibration_error * calibration_error * (1.0 - 1e-9):
        raise ValueError(
            f"mean_squared_gap must be at least calibration_error² = {calibration_error**2!r}, got "
            f"{mean_squared_gap!r}; pass the mean of (c - f)², not a variance; if both are upper bounds, pass the root "
            f"of this one as calibration_error, which it bounds too."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class BrierRisk:
    """An upper bound on a Brier risk in [0, 2], with the certificate of half of it.

    The Brier loss B = Σ_k (p_k - 1{y = k})² of a probability vector p lies in [0, 2]: half of it is a loss in [0, 1].

    Formal guarantee: if ``certificate`` is one of half the Brier loss of a Gibbs predictor Q, then, with probability at
    least 1 - certificate.failure_prob, ``value`` bounds the Brier risk of Q and that of the averaged predictions
    E_Q p_w, and ``calibration_error`` the calibration error of both.

    Attributes:
        certificate: of half the Brier loss; its costs, budget and hypotheses are those of the bound.
    """

    certificate: Certificate

    @property
    def value(self) -> float:
        """R_B ≤ value, twice the certificate's; 2 says nothing. ``float(risk)`` gives it."""
        return 2.0 * self.certificate.value

    @property
    def calibration_error(self) -> float:
        """√value, rounded up, at least the root of E‖p - E[Y|p]‖² ≤ R_B (Y the one-hot label), at most √2.

        It bounds the mean E‖p - E[Y|p]‖ as well, and the top-label E|f - P(c = 1|f)|.
        """
        return outward(math.sqrt(self.value))

    def __float__(self) -> float:
        return self.value


def brier_risk(*, brier: float, bound: Callable[..., Certificate]) -> BrierRisk:
    """R_B(Q) ≤ 2·bound(risk = R̂_B/2): the Brier risk by any bound on losses in [0, 1] of this package.

        R_B(Q) ≤ 2 kl⁻¹(R̂_B(Q)/2, [KL(Q‖P) + ln ξ(n) + ln(1/failure_prob)] / n)    for ``maurer``

    "Brier risk and calibration without bins" in docs/guarantees.md.

    >>> step = functools.partial(maurer, kl_nats=30.0, n=60_000, failure_prob=0.05)
    >>> float(brier_risk(brier=0.04, bound=step))

    Formal guarantee: that of ``bound``, doubled. The same number bounds the Brier risk of the averaged predictions
    E_Q p_w, since the loss is convex in p; no factor 2 is paid for averaging, as it is for majority votes.

    Args:
        brier: R̂_B(Q), posterior mean of the Brier loss on the n examples (not of the averaged predictions), in [0, 2].
        bound: a bound of this package that takes ``risk``, every other argument given to it already.

    Raises ValueError when ``brier`` is out of range, or the bound is about another risk.
    """
    _check.real(brier=brier)
    if not 0.0 <= brier <= 2.0:
        raise ValueError(f"brier must lie in [0, 2], got {brier!r}; pass the mean of the sum of squares over classes.")
    half = float(brier) / 2.0
    half = half if 2.0 * half >= brier else math.nextafter(half, 1.0)  # of the smallest doubles
    certificate = applied(bound, risk=half)
    if certificate.terms.get("empirical_risk") != half:
        raise ValueError(
            f"bound must be one on the risk it is given, got a {certificate.name!r} certificate of another; pass "
            f"functools.partial(maurer, kl_nats=..., n=..., failure_prob=...) or its like."
        )
    return BrierRisk(certificate=replace(certificate, measures="half the Brier risk"))
