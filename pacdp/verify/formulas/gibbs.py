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
from pacdp.verify.claim import Claim, require


class _Gibbs:
    """Loss in [low, high], an error costs ``scale`` above low, and v ≤ ln Z; ``top`` is the largest x there may be."""

    def __init__(self, c: Claim) -> None:
        self.c = c
        self.tau = c.tau
        self.v = c.log_partition_lower_nats
        self.low = c.loss_low
        self.high = c.loss_high
        self.scale = c.error_loss - self.low
        self.top = (-self.v / self.tau).max(self.low).min(self.high)

    def cap(self) -> arb:
        """KL(Q‖P) ≤ min{-ln Z - τa, τΔ, (τΔ)²/8} ("Divergence of a Gibbs posterior")."""
        spread = self.tau * (self.high - self.low)
        return free_energy(self.c).min(spread**2 / 8)

    def risk(self, x: arb) -> arb:
        """u(x) = min{1, (x - a)/(e - a)} ("Certificates without draws of the posterior")."""
        return ((x - self.low) / self.scale).min(ONE)

    def kl(self, x: arb) -> arb:
        """c(x) = max{0, -v - τx}, capped ("Certificates without draws of the posterior")."""
        nats = -self.v - self.tau * x
        return nats.max(ZERO).min(self.cap())

    def margin(self, value: arb) -> arb:
        """n kl(u(x)‖value) - c(x) - T at the x where it is least, for it is convex; below 0 where a risk is above."""
        if self.risk(self.top) > value:
            return arb(-1)
        first = (-self.v - self.cap()) / self.tau  # where the cap ends
        odds = (
            value / (1 - value)
        ).log() - self.tau * self.scale / self.c.n
        flat = self.low + self.scale / (1 + (-odds).exp())
        x = flat.max(first).max(self.low).min(self.top)
        divergence = self.c.n * binary_kl(self.risk(x), value)
        return divergence - self.kl(x) - self.c.nats


def gibbs_pac_bayes(c: Claim) -> arb:
    """max {kl⁻¹(u(x), (c(x) + T)/n) : a ≤ x ≤ min{b, -v/τ}} ("Certificates without draws of the posterior")."""
    gibbs = _Gibbs(c)
    worst = c.term("worst_mean_loss")
    value = zero_of(gibbs.margin, 0, 1)
    risk = gibbs.risk(worst)
    kl = gibbs.kl(worst)
    c.terms_are(kl_cap_nats=gibbs.cap(), worst_kl_nats=kl)
    attained = kl_upper(risk, (kl + c.nats) / c.n)
    there = gibbs.low <= worst <= gibbs.top + ball(1e-9)
    require(
        there and abs(attained - value) < ball(1e-6),
        f"terms.worst_mean_loss is {float(worst)!r}, which is not the worst one",
    )
    return value


def free_energy(c: Claim) -> arb:
    """-ln Z - τa, at most τ(b - a) ("Divergence of a Gibbs posterior")."""
    tau = c.tau
    low = c.loss_low
    spread = tau * (c.loss_high - low)
    if "log_partition_lower_nats" not in c.inputs:
        return spread
    nats = -c.log_partition_lower_nats - tau * low
    return nats.max(ZERO).min(spread)


def gibbs_catoni(c: Claim) -> arb:
    """[1 - exp(-(-v - τa + Λ)/n)]/(1 - e^(-C/n)), C = τ(b - a) ("Certificates without draws of the posterior")."""
    spread = c.tau * (c.loss_high - c.loss_low)
    c.terms_are(inverse_temperature=spread)
    return (-c.nats / c.n).expm1() / (-spread / c.n).expm1()
