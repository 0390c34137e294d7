"""PAC-Bayes bounds that look at more of the loss than its mean: its levels, its squares, or its excess over a
predecessor's, along a chain of posteriors each of which is the prior of the next."""

import itertools
from collections.abc import Sequence
from dataclasses import replace
from math import fsum, inf, log, nextafter

from bounds import _check
from bounds._arithmetic import outward, total
from bounds._check import door, open_probability, probability, real, reals
from bounds.certificate import Certificate
from bounds.kl import binary_kl_upper, log_xi
from bounds.means import ETAS, GRID_NATS, eta_cost
from bounds.prices import INDEPENDENT, Price, billed, of_posterior, settled, within
from bounds.record import record


def split_value(levels: Sequence[float], shares: Sequence[float], per_example: float) -> float:
    """b_0 + Σ_j (b_j - b_(j-1)) kl⁻¹(share_j, per_example), rounded up; the levels b may be negative."""
    parts = [
        outward(outward(high - low) * binary_kl_upper(share, per_example))
        for (low, high), share in zip(itertools.pairwise(levels), shares, strict=True)
    ]
    return nextafter(fsum((levels[0], *parts)), inf)


@door()
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
    levels = reals("levels", levels, probability)
    if len(levels) < 2 or any(low >= high for low, high in itertools.pairwise(levels)):
        raise ValueError(f"levels must be two or more increasing numbers, got {levels!r}; sort them.")
    shares = checked_shares(shares, len(levels) - 1)
    steps = (high - low for low, high in itertools.pairwise(levels))
    risk = min(1.0, total(levels[0], *(step * share for step, share in zip(steps, shares, strict=True))))
    union = outward(log(len(shares)))
    bill = billed("split_kl", price, n, failure_prob, kl=kl_nats, log_xi=log_xi(n), levels=union)
    return settled(
        bill,
        split_value(levels, shares, bill.total_per_example),
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
    shares = reals("shares", shares, probability)
    if len(shares) != count or any(later > earlier for earlier, later in itertools.pairwise(shares)):
        raise ValueError(
            f"shares must be {count} numbers that never increase, got {shares!r}; "
            f"the j-th is how often the loss reaches level j."
        )
    return shares


@door(second_moment=real)
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
    if not risk * risk * (1.0 - 1e-9) <= second_moment <= risk * (1.0 + 1e-9):
        raise ValueError(
            f"second_moment must lie between risk² and risk = {risk!r}, got {second_moment!r}; "
            f"pass the mean of the squared losses, not their variance."
        )
    bill = billed("unexpected_bernstein", price, n, failure_prob, kl=kl_nats, grid=GRID_NATS)
    slack, eta = bernstein_slack(second_moment, bill.total_per_example)
    reference = "Mhammedi, Grunwald and Guedj, NeurIPS 2019, arXiv 1905.13367; Fan, Grama and Liu 2015"
    made = of_posterior(bill, total(risk, slack), risk, kl_nats, reference, second_moment=second_moment)
    return replace(made, terms={**made.terms, "eta": eta})


def bernstein_slack(second_moment: float, per_example: float) -> tuple[float, float]:
    """The least (c_η/η) second_moment + per_example/η on the grid, rounded up, and its η."""
    return min((total(eta_cost(eta) * second_moment, per_example / eta), eta) for eta in ETAS)


@record
class ExcessStep:
    """What is measured of posterior π_t against its predecessor, on examples that the predecessor has not seen.

    The excess loss is f = ℓ(w, z) - γ ℓ(w', z) with w ~ π_t and w' ~ π_(t-1) drawn independently, ℓ the 0-1 loss.

    Attributes:
        shares: how often f ≥ 0, f ≥ 1 - γ and f ≥ 1: means over the n examples and both draws.
        kl_nats: KL(π_t‖π_(t-1)) in nats.
        n: number of those examples.

    Raises ValueError when a number is out of range.
    """

    shares: tuple[float, float, float]
    kl_nats: float
    n: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "shares", checked_shares(self.shares, 3))
        _check.fields(self)


@door(gamma=open_probability)
def recursive(
    *,
    risk: float,
    kl_nats: float,
    n: int,
    steps: Sequence[ExcessStep],
    gamma: float,
    failure_prob: float,
    price: Price = INDEPENDENT,
) -> Certificate:
    """The Recursive PAC-Bayes bound on R(π_T) for posteriors π_1, ..., π_T trained on ever more of the sample.

        B_1 = kl⁻¹(R̂(π_1), [KL(π_1‖π_0) + ln ξ(n) + Λ(n)] / n)
        E_t = -γ + Σ_{j=1..3} (b_j - b_(j-1)) kl⁻¹(share_tj, [KL(π_t‖π_(t-1)) + ln ξ(n_t) + ln 3 + Λ(n_t)] / n_t)
        B_t = E_t + γ B_(t-1),    (b_0, ..., b_3) = (-γ, 0, 1-γ, 1)

    with Λ the price at failure_prob/T, ln(T/failure_prob) for an independent π_0. At another price π_0 may be a
    function of a private release that saw all n examples, and π_t of that release too: given the earlier parts, the
    mechanism is private for the n_t examples of step t ("Recursive PAC-Bayes" in docs/guarantees.md). The costs of the
    certificate are those of B_1; those of the later steps are among its terms.

    Wu, Zhang, Chérief-Abdellatif and Seldin, NeurIPS 2024, "Recursive PAC-Bayes", with ξ(n) ≤ 2√n.

    Formal guarantee: let the sample be cut into T parts beforehand, π_t be any function of the first t parts (and π_0
    of none), R̂(π_1) be measured on all n examples and the shares of step t on the n_t examples outside the first t - 1
    parts. Then R(π_T) ≤ value for the 0-1 loss, with probability at least 1 - failure_prob. γ must be fixed beforehand.

    Args:
        risk, kl_nats, n: R̂(π_1) and KL(π_1‖π_0) in nats, on the n examples of all parts.
        steps: one for each of π_2, ..., π_T; none makes this ``maurer``.
        gamma: weight of the predecessor's loss, strictly between 0 and 1; 0.5 in the paper.
        failure_prob: probability over the sample that the bound fails.
        price: where π_0 came from.
    """
    steps, whole = _check.records("steps", steps, ExcessStep), failure_prob
    each = nextafter(whole / (len(steps) + 1), 0.0) if steps else whole
    if not each > 0.0:
        raise ValueError(
            f"failure_prob must be enough for {len(steps) + 1} statements, got {whole!r}; pass a larger one."
        )
    bill = billed("recursive", price, n, each, kl=kl_nats, log_xi=log_xi(n))
    bound = binary_kl_upper(risk, bill.total_per_example)
    terms: dict[str, float] = {"empirical_risk": risk, "bound_1": bound, **bill.terms}
    inputs: dict[str, float | int | str] = {"risk": risk, "kl_nats": kl_nats, "gamma": gamma}
    union, earlier = outward(log(3.0)), n
    for t, step in enumerate(steps, start=2):
        if not step.n < earlier:
            raise ValueError(f"steps must have fewer examples each than before, got {step.n!r} after {earlier}.")
        earlier = step.n
        later = billed("recursive", price, step.n, each, kl=step.kl_nats, log_xi=log_xi(step.n), levels=union)
        excess = split_value((-gamma, 0.0, 1.0 - gamma, 1.0), step.shares, later.total_per_example)
        bound = min(1.0, max(0.0, nextafter(fsum((excess, outward(gamma * bound))), inf)))
        terms |= {f"{cost.name}_nats_{t}": cost.nats for cost in later.costs}
        terms |= {f"{name}_{t}": term for name, term in later.terms.items()}
        terms |= {f"total_per_example_{t}": later.total_per_example, f"excess_{t}": excess, f"bound_{t}": bound}
        inputs |= {f"share_{t}_{j}": share for j, share in enumerate(step.shares, start=1)}
        inputs |= {f"kl_nats_{t}": step.kl_nats, f"n_{t}": step.n}
    return settled(
        within(bill, whole, bound=whole)._replace(terms={}),
        bound,
        terms=terms,
        inputs=inputs,
        reference="Wu, Zhang, Cherief-Abdellatif and Seldin, NeurIPS 2024, arXiv 2405.14681; Maurer 2004",
    )
