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


def _cap(c: Claim) -> arb:
    """KL(Q‖P) ≤ min{-ln Z - τa, τΔ, (τΔ)²/8} ("Divergence of a Gibbs posterior")."""
    spread = c.tau * (c.loss_high - c.loss_low)
    return free_energy(c).min(spread**2 / 8)


def _risk(c: Claim, x: arb) -> arb:
    """u(x) = min{1, (x - a)/(e - a)} ("Certificates without draws of the posterior")."""
    return ((x - c.loss_low) / (c.error_loss - c.loss_low)).min(ONE)


def _kl(c: Claim, x: arb) -> arb:
    """c(x) = max{0, -v - τx}, capped, where v ≤ ln Z ("Certificates without draws of the posterior")."""
    nats = -c.log_partition_lower_nats - c.tau * x
    return nats.max(ZERO).min(_cap(c))


def _largest(c: Claim) -> arb:
    """The largest x that there may be, -v/τ or b ("Certificates without draws of the posterior")."""
    most = -c.log_partition_lower_nats / c.tau
    return most.max(c.loss_low).min(c.loss_high)


def _margin(c: Claim, value: arb) -> arb:
    """n kl(u(x)‖value) - c(x) - T at the x where it is least, for it is convex; below 0 where a risk is above."""
    top = _largest(c)
    if _risk(c, top) > value:
        return arb(-1)
    # where the cap ends
    first = (-c.log_partition_lower_nats - _cap(c)) / c.tau
    scale = c.error_loss - c.loss_low
    odds = (value / (1 - value)).log() - c.tau * scale / c.n
    flat = c.loss_low + scale / (1 + (-odds).exp())
    x = flat.max(first).max(c.loss_low).min(top)
    divergence = c.n * binary_kl(_risk(c, x), value)
    return divergence - _kl(c, x) - c.nats


def gibbs_pac_bayes(c: Claim) -> arb:
    """max {kl⁻¹(u(x), (c(x) + T)/n) : a ≤ x ≤ min{b, -v/τ}} ("Certificates without draws of the posterior")."""
    worst = c.term("worst_mean_loss")
    value = zero_of(lambda v: _margin(c, v), 0, 1)
    kl = _kl(c, worst)
    c.terms_are(kl_cap_nats=_cap(c), worst_kl_nats=kl)
    attained = kl_upper(_risk(c, worst), (kl + c.nats) / c.n)
    there = c.loss_low <= worst <= _largest(c) + ball(1e-9)
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
