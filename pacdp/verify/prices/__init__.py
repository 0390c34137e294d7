"""What takes the place of ln(1/δ) where a private mechanism made the prior ("Prices" in docs/guarantees.md).

Closed forms are here; ``noisy`` has the prices of noisy sums (a trajectory's among them), ``accounted`` those of
accounted privacy.
"""

from flint import arb  # pyright: ignore[reportMissingImports]

from pacdp.verify.arithmetic import Real
from pacdp.verify.claim import Claim, agree
from pacdp.verify.prices import accounted, noisy

_CLOSED = ("", "dp_", "max_information_", "printed_2018_")
PREFIXES = (*_CLOSED, "private_", *noisy.PRICES)


def check_price(c: Claim, what: str, claimed: Real, n: int, suffix: str = "") -> None:
    """Raise unless ``claimed`` nats pay for a prior of the claim's kind on n records.

    Args:
        c: the claim; its budget says at which failure probability the price is paid.
        what: how the price is called where it is wrong.
        claimed: the price in nats.
        n: how many records.
        suffix: of the terms that belong to this price, in a recursion.
    """
    prefix = c.kind.prefix
    if prefix == "private_":
        accounted.check(c, what, claimed, n, suffix)
        return
    log = -c.price_prob.log()
    if prefix in noisy.PRICES:
        exact = noisy.PRICES[prefix](c, n, log, suffix)
    else:
        exact = _closed(c, n, log)
    agree(what, claimed, exact)


def _closed(c: Claim, n: int, log: arb) -> arb:
    match c.kind.prefix:
        case "":  # ln(1/δ), Markov
            return log
        case "dp_":
            return accounted.sharp(c["epsilon"], n, log)
        case "max_information_":
            return max_information(c["epsilon"], n, log)
        case _:
            return printed_2018(c["epsilon"], n, log)


def max_information(epsilon: arb, n: int, log: arb) -> arb:
    """ln(2/δ) + nε²/2 + ε√(n ln(4/δ)/2) ("Prices")."""
    root = (n * (arb(4).log() + log) / 2).sqrt()
    return arb(2).log() + log + n * epsilon**2 / 2 + epsilon * root


def printed_2018(epsilon: arb, n: int, log: arb) -> arb:
    """2 max{ln(3/δ), nε²} ("Prices")."""
    return 2 * (arb(3).log() + log).max(n * epsilon**2)
