"""Upper bounds on the expected calibration error (ECE), from held-out examples or, by PAC-Bayes, from training data.

A predictor gives its label a confidence f in [0, 1] and is correct (c = 1) or not (c = 0); g = c - f is the gap. With
the examples sorted into bins,

    ECE = Σ_b |E g 1{bin b}|,    plug-in ECE = Σ_b |mean of g 1{bin b} over the n examples|.

The signs of the E g 1{bin b} are fixed numbers, unknown but not random: with them ECE is the mean of a single variable
in [-1, 1], whose average is at most the plug-in ECE. So a bound on one mean serves, and the number of bins does not
enter. The bins must not depend on the examples (they may depend on the predictor). Arguments out of range raise
ValueError. Proofs: docs/guarantees.md.
"""

from math import sqrt

from bounds._assemble import billed, settled
from bounds._check import door
from bounds._rounding import total
from bounds.certificate import Certificate
from bounds.means import GRID_NATS
from bounds.prices import INDEPENDENT, Inputs, Price
from bounds.refined import bernstein_slack

_HELD_OUT = 'docs/guarantees.md, "Calibration error on held-out examples"'
_TRAINING = 'docs/guarantees.md, "Calibration error from training data"'


@door()
def ece_hoeffding(*, calibration_error: float, n: int, failure_prob: float) -> Certificate:
    """ECE ≤ plug-in ECE + √(2 ln(1/failure_prob)/n), whatever the number of bins.

    Hoeffding 1963, Theorem 2, for one mean of variables in [-1, 1]; "Calibration error on held-out examples" in
    docs/guarantees.md.

    Formal guarantee: for a predictor and bins that do not depend on the n independent examples, ECE ≤ value with
    probability at least 1 - failure_prob; ``calibration_error`` is the plug-in ECE on them.
    """
    bill = billed("ece_hoeffding", INDEPENDENT, n, failure_prob)
    return settled(
        bill,
        total(calibration_error, sqrt(2.0 * bill.total_per_example)),
        of="predictor",
        measures="ECE",
        terms={"calibration_error": calibration_error},
        inputs={"calibration_error": calibration_error},
        reference=_HELD_OUT,
    )


@door()
def ece_second_moment(*, calibration_error: float, mean_squared_gap: float, n: int, failure_prob: float) -> Certificate:
    """ECE ≤ plug-in ECE + min_η [ (c_η/η) V̂ + ln(20/failure_prob)/(η n) ],    c_η = -η - ln(1-η)

    with V̂ the mean of (c - f)² over all bins together and η on the fixed grid 0.5·0.8^k, k < 20: the un-expected
    Bernstein inequality, far below ``ece_hoeffding`` when most gaps are small. "Calibration error
    on held-out examples" in docs/guarantees.md.

    Formal guarantee: as for ``ece_hoeffding``.
    """
    bill = billed("ece_second_moment", INDEPENDENT, n, failure_prob, grid=GRID_NATS)
    return _second_moment(bill, calibration_error, mean_squared_gap, {}, _HELD_OUT, "predictor")


@door()
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
    docs/guarantees.md. It is about one w drawn from Q, not about averaged predictions, which the Brier risk bounds.

    Formal guarantee: for a prior fixed before the sample was seen (or a function of what the price's mechanism
    released), and bins that are a function of w and the example alone, E_Q ECE ≤ value for all Q simultaneously with
    probability at least 1 - failure_prob.

    ``calibration_error`` and ``mean_squared_gap`` are posterior means of the plug-in ECE and of the mean squared gap on
    the n examples; if they are upper confidence bounds (of averages over draws of w), ``Certificate.charged`` pays.
    """
    bill = billed("ece_pac_bayes", price, n, failure_prob, kl=kl_nats, grid=GRID_NATS)
    return _second_moment(bill, calibration_error, mean_squared_gap, {"kl_nats": kl_nats}, _TRAINING, "randomised")


def _second_moment(
    bill: Certificate, calibration_error: float, mean_squared_gap: float, inputs: Inputs, reference: str, of: str
) -> Certificate:
    """The un-expected Bernstein inequality at the best η of the grid, which costs ln 20 nats once."""
    if mean_squared_gap < calibration_error * calibration_error * (1.0 - 1e-9):
        raise ValueError(
            f"mean_squared_gap must be at least calibration_error² = {calibration_error**2!r}, got "
            f"{mean_squared_gap!r}; pass the mean of (c - f)², not a variance; if both are upper bounds, pass the root "
            f"of this one as calibration_error, which it bounds too."
        )
    slack, eta = bernstein_slack(mean_squared_gap, bill.total_per_example)
    gaps = {"calibration_error": calibration_error, "mean_squared_gap": mean_squared_gap}
    return settled(
        bill,
        total(calibration_error, slack),
        of=of,
        measures="ECE",
        terms={**gaps, "eta": eta},
        inputs={**gaps, **inputs},
        reference=reference,
    )
