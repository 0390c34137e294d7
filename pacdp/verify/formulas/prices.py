"""What takes the place of ln(1/δ) where a private mechanism made the prior ("Prices" in docs/guarantees.md).

A noisy sum is a sum over the records plus N(0, σ²), on all of them or on a secret Poisson sample of rate q; x is a
squared contribution over σ². ``realised_sum`` is the price of a trajectory: of a chain that kept the norms of its
gradients. Whether these norms add up to what it pays for is asked in ``pacdp.verify.norms``. The price of accounted
privacy is in ``transfer``.
"""

from collections import Counter
from collections.abc import Callable
from math import comb, factorial, floor
from typing import Any

from flint import arb, arb_series  # pyright: ignore[reportMissingImports]

from pacdp.verify.arithmetic import (
    INFINITE,
    ZERO,
    ball,
    least,
    log_sum,
    total,
    zero_of,
)
from pacdp.verify.claim import (
    Claim,
    Price,
    agree,
    exactly,
    parsed,
    require,
)
from pacdp.verify.events import (
    Step,
    epochs_of,
    mu_of,
    noisy_sums_of,
)
from pacdp.verify.formulas import transfer


def check_price(p: Price) -> None:
    """Raise unless the nats that are claimed pay for a prior of the claim's kind on n records."""
    exact = PRICES[p.c.prefix](p)
    if exact is not None:  # it was not compared there
        agree(p.what, p.claimed, exact)


def independent(p: Price) -> arb:
    """ln(1/δ): y was fixed before the sample was seen ("Prices")."""
    return p.log


def sharp(p: Price, epsilon: arb | None = None) -> arb:
    """(√ln(1/δ) + ε√(n/8))² ("Prices", "Sharp pure-DP transfer")."""
    epsilon = p.c.epsilon if epsilon is None else epsilon
    return (p.log.sqrt() + epsilon * (arb(p.n) / 8).sqrt()) ** 2


def accounted(p: Price) -> arb | None:
    """The price of privacy; pure privacy has a sharp one, at 2ε where a record is added or removed ("Prices")."""
    c = p.c
    transfer.check_promise(c)
    notion = c.inputs.privacy_notion
    if notion == "approximate" and c.privacy_delta == 0:
        notion = "pure"
    if notion != "pure":
        return transfer.check(p)
    transfer.split(p)
    added = c.inputs.privacy_adjacency == "add-remove"
    return pure(p, c.privacy_epsilon * (2 if added else 1))


def pure(p: Price, epsilon: arb) -> arb:
    """The sharp price is that at α = 1 + √(L/c), L = ln(1/δ), c = nε²/8 ("Sharp pure-DP transfer")."""
    if epsilon > 0 and epsilon.is_finite():
        order = 1 + (8 * p.log / p.n).sqrt() / epsilon
        level = order * epsilon**2 / 8
        p.c.terms_are(
            **{
                f"transfer_alpha{p.suffix}": order,
                f"transfer_level{p.suffix}": level,
            }
        )
    return sharp(p, epsilon)


def max_information(p: Price) -> arb:
    """ln(2/δ) + nε²/2 + ε√(n ln(4/δ)/2) ("Prices")."""
    epsilon = p.c.epsilon
    square = p.n * (arb(4).log() + p.log) / 2
    nats = arb(2).log() + p.log
    return nats + p.n * epsilon**2 / 2 + epsilon * square.sqrt()


def printed_2018(p: Price) -> arb:
    """2 max{ln(3/δ), nε²} ("Prices")."""
    nats = arb(3).log() + p.log
    return 2 * nats.max(p.n * p.c.epsilon**2)


def noisy_sum(p: Price) -> arb:
    """(√ln(1/δ) + mu√(n/2))², mu² the sum of all steps' x ("Prices", "Noisy sums")."""
    mu = p.c.sum_mu
    if "sum_event" in p.c.inputs:
        ran = noisy_sums_of(parsed(p.c.inputs.sum_event))
        agree("inputs.sum_mu", p.c.inputs.sum_mu, mu_of(ran))
    root = p.log.sqrt() + mu * (arb(p.n) / 2).sqrt()
    return root**2


def poisson_sum(p: Price) -> arb:
    """n/(α-1) Σ_t ln m_α,t + α/(α-1) ln(1/δ), over steps ("Noisy sums on secret batches")."""
    return by_moments(p, noisy_sums_of, log_moment)


def once_sum(p: Price) -> arb:
    """n/(α-1) Σ_e ln m_α,e + α/(α-1) ln(1/δ), over epochs ("Once an epoch")."""
    return by_moments(p, epochs_of, log_moment_of_epoch)


def by_moments(
    p: Price,
    parts_of: Callable[[Any], list[Any]],
    moment: Callable[[arb, Any], arb],
) -> arb:
    """n/(α-1) Σ ln m_α + α/(α-1) ln(1/δ), at the α that the terms name ("Noisy sums on secret batches")."""
    order = exactly(p.term("transfer_alpha"))
    require(1 < order <= 1024, f"the order is {float(order)!r}")
    ran = Counter(parts_of(parsed(p.c.inputs.sum_event)))
    each = total(n * moment(order, one) for one, n in ran.items())
    return (p.n * each + order * p.log) / (order - 1)


def between_orders(order: arb, at: Callable[[int], arb]) -> arb:
    """Linear between whole orders, since moments are convex ("Noisy sums on secret batches", "Once an epoch")."""
    low = floor(float(order))
    share = order - low
    found = (1 - share) * at(low)
    return found + share * at(low + 1) if share != 0 else found


def log_moment_of_epoch(
    order: arb, epoch: tuple[int, float]
) -> arb:
    """ln m_α of T batches at c² = 1/σ², linear between whole orders from 2 on ("Once an epoch")."""
    batches, noise = epoch
    squared = 1 / ball(noise) ** 2
    if order <= 2:
        rise = (order - 1) * (squared.exp() - 1)
        return (1 + rise / batches).log()
    return between_orders(
        order,
        lambda whole: log_moment_of_whole(whole, batches, squared),
    )


def log_moment_of_whole(
    order: int, batches: int, squared: arb
) -> arb:
    """ln of α! T^-α [x^α] (Σ_j x^j e^(c² j(j-1)/2)/j!)^T ("Once an epoch")."""
    terms = [
        (squared * j * (j - 1) / 2).exp() / factorial(j)
        for j in range(order + 1)
    ]
    power = arb_series(terms, prec=order + 1) ** batches
    ways = factorial(order) / arb(batches) ** order
    return (ways * power[order]).log()


def realised_sum(p: Price) -> arb:
    """The root of Σ_j w_j exp((1 - 1/α_j)Λ - (α_j - 1)V/2) = 1/δ, V the realised sum ("Noisy sums")."""
    contributions = p.c.sum_contributions
    orders = p.c.listed("sum_orders")
    moments = [
        order * (order - 1) * contributions / 2 for order in orders
    ]
    return root_of_orders(p, moments)


def realised_moments(p: Price) -> arb:
    """The root of Σ_j w_j exp((1 - 1/α_j)Λ - M_j/α_j) = 1/δ ("Noisy sums on secret batches", "Gibbs draws")."""
    return root_of_orders(p, p.c.listed(OWN_INPUT[p.c.prefix]))


def gibbs_range(p: Price) -> arb:
    """(√ln(1/δ) + spread√(n/8))² ("Prices", "Gibbs draws")."""
    return sharp(p, p.c.draw_spread)


def gibbs_around(p: Price) -> arb:
    """The root at M_j of the mean tilts plus α_j KL ("Gibbs laws that nobody draws")."""
    pairs = zip(
        p.c.listed("around_log_moments"),
        p.c.listed("sum_orders"),
        strict=True,
    )
    moments = [m + a * p.c.around_divergence for m, a in pairs]
    return root_of_orders(p, moments)


_PRICES = """
prefix              recomputed by     own input               needs
private_            accounted         privacy_notion          privacy
poisson_sum_        poisson_sum       sum_event               sums secret bounded
once_sum_           once_sum          sum_event               sums once bounded
noisy_sum_          noisy_sum         sum_mu                  sums known bounded
gibbs_range_        gibbs_range       draw_spread             exact ranged
realised_poisson_   realised_moments  sum_log_moments         sums secret kept
gibbs_losses_       realised_moments  losses_log_moments      exact ranged all_losses
gibbs_gradients_    realised_moments  gradients_log_moments   exact convex kept
gibbs_around_       gibbs_around      around_log_moments      undrawn convex kept
realised_sum_       realised_sum      sum_contributions       sums known kept
dp_                 sharp             epsilon                 privacy
max_information_    max_information   -                       privacy
printed_2018_       printed_2018      -                       privacy
"""
"""Every price by the prefix of a certificate's name, and an input that it alone has; of two, the later one counts."""
PRICES: dict[str, Callable[[Price], arb | None]] = {"": independent}
OWN_INPUT = {"": "-"}
NEEDED: dict[str, list[str]] = {"": []}
"""Function, input and kinds of hypotheses (in ``needs``), by the prefix."""
for line in _PRICES.strip().splitlines()[1:]:
    prefix, function, OWN_INPUT[prefix], *needs = line.split()
    PRICES[prefix] = globals()[function]
    NEEDED[prefix] = [*needs]
OF_PRIVACY = [one for one in NEEDED if "privacy" in NEEDED[one]]
"""Beside these a draw costs something of its own ("Prices", One draw)."""


def serves(prefix: str, formula: str, kind: str) -> bool:
    """Whether a formula, which needs this kind, is proved at this price; one measured on the sample needs a prior."""
    if prefix == "gibbs_around_":
        return formula == "maurer"
    measured = {"kept", "all_losses"}.intersection(NEEDED[prefix])
    return not (measured and kind == "new_rows")


def root_of_orders(p: Price, moments: list[arb]) -> arb:
    """The root Λ of Σ_j w_j exp(((α_j - 1)/α_j) Λ - M_j/α_j) = 1/δ ("Noisy sums")."""
    columns = (p.c.listed("sum_orders"), _weights(p.c), moments)
    rows = [
        row
        for row in zip(*columns, strict=True)
        if row[2].is_finite()
    ]
    if not rows:
        return INFINITE
    alone = [
        (m + a * (p.log - w.log())) / (a - 1) for a, w, m in rows
    ]

    def rising(nats: arb) -> arb:
        logs = [
            w.log() + ((a - 1) * nats - m) / a for a, w, m in rows
        ]
        return log_sum(logs) - p.log

    above = (
        float(least(alone)) + 1
    )  # where one order alone is too much
    return zero_of(rising, 0, above * (1 + 2.0**-40))


def _weights(c: Claim) -> list[arb]:
    """Orders α_j > 1 and weights w_j ≥ 0 with Σ w_j ≤ 1 ("Noisy sums"); equal ones where none are named."""
    orders = c.listed("sum_orders")
    weights = [1 / arb(len(orders))] * len(orders)
    if "sum_weights" in c.inputs:
        weights = c.listed("sum_weights")
    above = [order > 1 for order in orders] + [
        one > 0 for one in weights
    ]
    require(
        all(above) and total(weights) <= 1 + 1e-12,
        f"the orders are {c.inputs.sum_orders}, with {len(weights)} weights",
    )
    return weights


def log_moment(order: arb, step: Step) -> arb:
    """ln m_α(q, x), what a record costs at the order α ("Noisy sums on secret batches")."""
    rate = ball(step.rate)
    x = 1 / ball(step.noise) ** 2
    if rate == 1:
        return order * (order - 1) * x / 2
    between = between_orders(
        order, lambda whole: _at_whole_order(whole, rate, x)
    )
    if order < 2:
        parabola = (1 - rate) ** order - 1 + order * rate
        return between.min((parabola * x.expm1()).log1p())
    return between


def _at_whole_order(order: int, rate: arb, x: arb) -> arb:
    """ln Σ_j C(α,j) (1-q)^(α-j) q^j e^(j(j-1)x/2) ("Noisy sums on secret batches")."""
    excess = ZERO
    for j in range(2, order + 1):
        probability = (
            comb(order, j) * (1 - rate) ** (order - j) * rate**j
        )
        excess += probability * (j * (j - 1) * x / 2).expm1()
    return excess.log1p()
