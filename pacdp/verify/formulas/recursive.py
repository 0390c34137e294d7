"""Recursive PAC-Bayes: from one part of the examples to the next."""

from flint import arb  # pyright: ignore[reportMissingImports]

from pacdp.verify.arithmetic import ONE, ZERO, log_xi, total
from pacdp.verify.claim import Claim, Wrong
from pacdp.verify.formulas.pac_bayes import inverse_kl, split
from pacdp.verify.prices import check_price
from pacdp.verify.prices.price import Price


def recursive(c: Claim) -> arb:
    """R(π_t) = E[ℓ(w) - γ ℓ(w')] + γ R(π_(t-1)); B_1 is `maurer` on all examples ("Recursive PAC-Bayes")."""
    bound, earlier = inverse_kl(c), c.n
    c.term_agrees("bound_1", bound)
    for step in range(2, 2 + len(c.numbered("n_", 2))):
        size = c.raw(f"n_{step}")
        if not size < earlier:
            raise Wrong(f"n_{step} is {size}, of {earlier} records")
        excess = _excess(c, step, size)
        bound = (excess + c["gamma"] * bound).max(ZERO).min(ONE)
        c.term_agrees(f"bound_{step}", bound)
        earlier = size
    return bound


def _excess(
    c: Claim,
    step: int,
    size: int,
) -> arb:
    """The split kl of the excess, with the levels -γ, 0, 1-γ, 1 ("Recursive PAC-Bayes")."""
    share = _nats(c, step, size) / size
    c.term_agrees(f"total_per_example_{step}", share)
    levels = [-c["gamma"], ZERO, 1 - c["gamma"], ONE]
    shares = [c[f"share_{step}_{level}"] for level in (1, 2, 3)]
    excess = split(levels, shares, share)
    c.term_agrees(f"excess_{step}", excess)
    return excess


def _nats(c: Claim, step: int, size: int) -> arb:
    """KL, ln ξ(n_t), ln 3 of each step, and the price ("Prices", Formula × price)."""
    c.term_agrees(f"kl_nats_{step}", c[f"kl_nats_{step}"])
    c.term_agrees(f"log_xi_nats_{step}", log_xi(size))
    c.term_agrees(f"levels_nats_{step}", arb(3).log())
    price = "transfer" if "transfer" in c.costs else "confidence"
    paid = f"{price}_nats_{step}"
    what, claimed = f"terms.{paid}", c.terms[paid]
    check_price(Price(c, what, claimed, size, f"_{step}"))
    names = ("kl", "log_xi", "levels", price)
    return total(c.term(f"{name}_nats_{step}") for name in names)
