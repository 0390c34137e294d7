"""A price that a certificate claims to have paid."""

from typing import Any, NamedTuple

from flint import arb  # pyright: ignore[reportMissingImports]

from pacdp.verify.arithmetic import Real
from pacdp.verify.claim import Claim, agree


class Price(NamedTuple):
    """What is claimed to take the place of ln(1/δ).

    Attributes:
        c: the claim; its budget says at which failure probability the price is paid.
        what: how the price is called where it is wrong.
        claimed: the price in nats.
        n: how many records.
        suffix: of the terms that belong to this price, in a recursion.
    """

    c: Claim
    what: str
    claimed: Real
    n: int
    suffix: str

    @property
    def log(self) -> arb:
        """ln(1/δ)."""
        return -self.c.price_prob.log()

    def term(self, name: str) -> Any:
        """A term of this price, as it is written."""
        return self.c.terms[name + self.suffix]

    def agree(
        self,
        exact: arb,
        relative: float = 1e-9,
    ) -> None:
        """Raise Wrong unless the claim is the exact price, or it rounded up."""
        agree(self.what, self.claimed, exact, relative=relative)
