"""What takes the place of ln(1/δ) where a private mechanism made the prior ("Prices" in docs/guarantees.md).

Closed forms are here; ``noisy`` has the prices of noisy sums (a trajectory's among them), ``accounted`` those of
accounted privacy.
"""

from flint import arb  # pyright: ignore[reportMissingImports]

from pacdp.verify.prices import accounted, noisy
from pacdp.verify.prices.price import Price


def check_price(p: Price) -> None:
    """Raise unless the nats that are claimed pay for a prior of the claim's kind on n records."""
    prefix = p.c.kind.prefix
    if prefix == "private_":
        accounted.check(p)
    elif prefix in noisy.PRICES:
        p.agree(noisy.PRICES[prefix](p))
    else:
        p.agree(_CLOSED[prefix](p))


def independent(p: Price) -> arb:
    """ln(1/δ): y was fixed before the sample was seen ("Prices")."""
    return p.log


def sharp(p: Price) -> arb:
    """(√ln(1/δ) + ε√(n/8))² ("Prices", "Sharp pure-DP transfer")."""
    return accounted.sharp(p, p.c["epsilon"])


def max_information(p: Price) -> arb:
    """ln(2/δ) + nε²/2 + ε√(n ln(4/δ)/2) ("Prices")."""
    epsilon = p.c["epsilon"]
    square = p.n * (arb(4).log() + p.log) / 2
    nats = arb(2).log() + p.log
    return nats + p.n * epsilon**2 / 2 + epsilon * square.sqrt()


def printed_2018(p: Price) -> arb:
    """2 max{ln(3/δ), nε²} ("Prices")."""
    nats = arb(3).log() + p.log
    return 2 * nats.max(p.n * p.c["epsilon"] ** 2)


_CLOSED = {
    "": independent,
    "dp_": sharp,
    "max_information_": max_information,
    "printed_2018_": printed_2018,
}
PREFIXES = (*_CLOSED, "private_", *noisy.PRICES)
"""Of the names of certificates, by which their prices are known."""
