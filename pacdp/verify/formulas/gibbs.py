"""The certificate of a Gibbs posterior without draws: the worst mean loss x is looked for."""

from flint import arb  # pyright: ignore[reportMissingImports]

from pacdp.verify.arithmetic import (
    ONE,
    ZERO,
    ball,
    binary_kl,
    kl_upper,
    zero_of,
)
from pacdp.verify.claim import Claim, Wrong


class _Gibbs:
    """Loss in [low, high], an error costs ``scale`` above low, and v ≤ ln Z; ``top`` is the largest x there may be."""

    def __init__(self, c: Claim) -> None:
        self.c = c
        self.tau = c["tau"]
        self.v = c["log_partition_lower_nats"]
        self.low, self.high = c["loss_low"], c["loss_high"]
        self.scale = c["error_loss"] - self.low
        self.top = self.within(-self.v / self.tau, self.high)

    def within(
        self,
        x: arb,
        most: arb,
    ) -> arb:
        """The nearest number from low to most."""
        return x.max(self.low).min(most)

    def cap(self) -> arb:
        """KL(Q‖P) ≤ min{-ln Z - τa, τΔ, (τΔ)²/8} ("Divergence of a Gibbs posterior")."""
        spread = self.tau * (self.high - self.low)
        nats = (-self.v - self.tau * self.low).max(ZERO)
        return nats.min(spread).min(spread**2 / 8)

    def risk(self, x: arb) -> arb:
        """u(x) = min{1, (x - a)/(e - a)} ("Certificates without draws of the posterior")."""
        return ((x - self.low) / self.scale).min(ONE)

    def kl(self, x: arb) -> arb:
        """c(x) = max{0, -v - τx}, capped ("Certificates without draws of the posterior")."""
        nats = -self.v - self.tau * x
        return nats.max(ZERO).min(self.cap())

    def worst(self, value: arb) -> arb:
        """The x at which n kl(u(x)‖value) - c(x), which is convex in x, is least."""
        capped = (-self.v - self.cap()) / self.tau
        first = self.within(capped, self.top)
        odds = (value / (1 - value)).log()
        odds -= self.tau * self.scale / self.c.n
        flat = self.low + self.scale / (1 + (-odds).exp())
        return flat.max(first).min(self.top)

    def margin(self, value: arb) -> arb:
        """n kl(u(x)‖value) - c(x) - T at the worst x; below 0 where a risk is above the value."""
        if self.risk(self.top) > value:
            return arb(-1)
        x = self.worst(value)
        divergence = self.c.n * binary_kl(self.risk(x), value)
        return divergence - self.kl(x) - self.c.nats


def gibbs_pac_bayes(c: Claim) -> arb:
    """max {kl⁻¹(u(x), (c(x) + T)/n) : a ≤ x ≤ min{b, -v/τ}} ("Certificates without draws of the posterior")."""
    gibbs, worst = _Gibbs(c), c.term("worst_mean_loss")
    value = zero_of(gibbs.margin, 0, 1)
    risk, kl = gibbs.risk(worst), gibbs.kl(worst)
    c.term_is_about("kl_cap_nats", gibbs.cap())
    c.term_is_about("worst_kl_nats", kl)
    attained = kl_upper(risk, (kl + c.nats) / c.n)
    there = gibbs.low <= worst <= gibbs.top + ball(1e-9)
    if not there or not abs(attained - value) < ball(1e-6):
        raise Wrong(
            f"terms.worst_mean_loss is {c.terms['worst_mean_loss']!r}, which is not the worst one"
        )
    return value
