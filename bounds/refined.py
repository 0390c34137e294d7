"""PAC-Bayes bounds that look at more of the loss than its mean: its levels, or its squares."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace

from bounds import _check
from bounds._assemble import billed
from bounds._rounding import outward, total
from bounds.certificate import Certificate
from bounds.kl import binary_kl_upper
from bounds.means import ETAS, GRID_NATS, eta_cost
from bounds.prices import INDEPENDENT, Price
from bounds.xi import log_xi


def split_value(levels: Sequence[float], shares: Sequence[float], per_example: float) -> float:
    """b_0 + Σ_j (b_j - b_(j-1)) kl⁻¹(share_j, per_example), rounded up; the levels b may be negative."""
    parts = [
        outward(outward(high - low) * float(binary_kl_upper(share, per_example)))
        for (low, high), share in zip(itertools.pairwise(levels), shares, strict=True)
    ]
    return math.nextafter(math.fsum((levels[0], *parts)), math.inf)


def split_kl(
    *,
    levels: Sequence[float],
    shares: Sequence[float],
    kl_nats: float,
    n: int,
    failure_prob: float,
    price: Price = INDEPENDENT,
) -> Certificate:
    """The split-kl bound, for a loss with few values or a spread far from that of a coin.

        R(Q) ≤ b_0 + Σ_{j=1..K} (b_j - b_(j-1)) kl⁻¹(share_j, [KL(Q‖P) + ln ξ(n) + ln K + Λ] / n)

    where share_j is the posterior mean over the examples of min{1, max{0, (loss - b_(j-1))/(b_j - b_(j-1))}}: for a
    loss that takes no other values than the levels, how often it is at least b_j. Wu and Seldin 2022, "Split-kl and
    PAC-Bayes-split-kl inequalities for ternary random variables"; for several levels Wu et al. 2024. Both have 2√n for
    ξ(n). ln K pays for the K levels by a mixture; "Split kl" in docs/guarantees.md.

    Formal guarantee: as for ``maurer``, for a loss in [b_0, b_K]. The levels must be fixed beforehand.

    Args:
        levels: b_0 < ... < b_K within [0, 1].
        shares: K numbers in [0, 1], never increasing; the others as for ``maurer``.
    """
    levels = _check.reals("levels", levels)
    for level in levels:
        _check.probability(levels=level)
    if len(levels) < 2 or any(low >= high for low, high in itertools.pairwise(levels)):
        raise ValueError(f"levels must be two or more increasing numbers, got {levels!r}; sort them.")
    shares = checked_shares(shares, len(levels) - 1)
    steps = (high - low for low, high in itertools.pairwise(levels))
    risk = min(1.0, total(levels[0], *(step * share for step, share in zip(steps, shares, strict=True))))
    risk, kl_nats = _check.posterior(risk, kl_nats)
    union = outward(math.log(len(shares)))
    bill = billed("split_kl", price, n=n, failure_prob=failure_prob, kl=kl_nats, log_xi=log_xi(n), levels=union)
    return bill.certificate(
        split_value(levels, shares, bill.per_example),
        terms={"empirical_risk": risk},
        inputs={
            **{f"level_{j}": level for j, level in enumerate(levels)},
            **{f"share_{j}": share for j, share in enumerate(shares, start=1)},
            "kl_nats": kl_nats,
        },
        reference="Wu and Seldin, NeurIPS 2022, arXiv 2206.00706; Maurer 2004",
    )


def checked_shares(shares: Sequence[float], count: int) -> tuple[float, ...]:
    """``shares`` as a tuple, if they are ``count`` numbers in [0, 1], none above the one before."""
    shares = _check.reals("shares", shares)
    for share in shares:
        _check.probability(shares=share)
    if len(shares) != count or any(later > earlier for earlier, later in itertools.pairwise(shares)):
        raise ValueError(
            f"shares must be {count} numbers that never increase, got {shares!r}; "
            f"the j-th is how often the loss reaches level j."
        )
    return shares


def unexpected_bernstein(
    *, risk: float, second_moment: float, kl_nats: float, n: int, failure_prob: float, price: Price = INDEPENDENT
) -> Certificate:
    """The PAC-Bayes un-expected Bernstein bound: small when the squares of the loss are.

        R(Q) ≤ R̂(Q) + min_η [ (c_η/η) V̂(Q) + (KL(Q‖P) + ln 20 + Λ) / (η n) ],    c_η = -η - ln(1-η)

    with V̂(Q) the posterior mean of the squared losses and η on the fixed grid 0.5·0.8^k, k < 20, by a mixture.
    Mhammedi, Grünwald and Guedj 2019, "PAC-Bayes un-expected Bernstein inequality", in its plain form; "Un-expected
    Bernstein" in docs/guarantees.md.

    Formal guarantee: as for ``maurer``; the loss must be at most 1.

    Args:
        second_moment: V̂(Q), mean of the squared losses, between risk² and risk; the others as for ``maurer``.
    """
    risk, kl_nats = _check.posterior(risk, kl_nats)
    _check.real(second_moment=second_moment)
    if not risk * risk * (1.0 - 1e-9) <= second_moment <= risk * (1.0 + 1e-9):
        raise ValueError(
            f"second_moment must lie between risk² and risk = {risk!r}, got {second_moment!r}; "
            f"pass the mean of the squared losses, not their variance."
        )
    second = float(second_moment)
    bill = billed("unexpected_bernstein", price, n=n, failure_prob=failure_prob, kl=kl_nats, grid=GRID_NATS)
    slack, eta = bernstein_slack(second, bill.per_example)
    reference = "Mhammedi, Grunwald and Guedj, NeurIPS 2019, arXiv 1905.13367; Fan, Grama and Liu 2015"
    made = bill.of_posterior(total(risk, slack), risk, kl_nats, reference, second_moment=second)
    return replace(made, terms={**made.terms, "eta": eta})


def bernstein_slack(second_moment: float, per_example: float) -> tuple[float, float]:
    """The least (c_η/η) second_moment + per_example/η on the grid, rounded up, and its η."""
    return min((total(eta_cost(eta) * second_moment, per_example / eta), eta) for eta in ETAS)
