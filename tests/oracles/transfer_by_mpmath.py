"""The divergence of the general transfer at 40 digits: roots by bisection, tails in closed form or by quadrature."""

import mpmath as mp
from kl_by_mpmath import halved
from mpmath import mpf

DIGITS = 40


def zeta(alpha, x):
    excess = mpf(alpha) - 1
    return mp.expm1(excess * x) / excess + mp.expm1(-x)


def roots(alpha, level):
    """The two points where ζ equals the level."""
    found = []
    for side in (1, -1):

        def below(x, side=side):
            return zeta(alpha, side * x) < level

        far = mpf(1)
        while below(far):
            far *= 2
        found.append(side * halved(below, mpf(0), far, 4 * DIGITS)[1])
    return found


def gaussian(alpha, level, mu):
    """E (ζ(x) - level)^+ for x ~ N(mu²/2, mu²)."""
    with mp.workdps(DIGITS):
        alpha, level, mu = mpf(alpha), mpf(level), mpf(mu)
        upper, lower = roots(alpha, level)
        excess, nu, total = alpha - 1, mu**2 / 2, mpf(0)
        for start, side in ((upper, 1), (lower, -1)):

            def moment(order, start=start, side=side):
                return mp.exp(order * (order + 1) * nu) * mp.ncdf(side * ((nu - start) / mu + order * mu))

            plain = moment(0)
            total += (moment(excess) - plain) / excess + moment(-1) - (1 + level) * plain
        return total


def concentrated(alpha, level, rho):
    """The same for rho-zCDP, from the tails of the loss."""
    with mp.workdps(DIGITS):
        alpha, level, rho = mpf(alpha), mpf(level), mpf(rho)
        upper, lower = roots(alpha, level)
        excess = alpha - 1

        def tail(t):
            return mpf(1) if t <= rho else mp.exp(-((t - rho) ** 2) / (4 * rho))

        def above(t):
            return (mp.exp(excess * t) - mp.exp(-t)) * tail(t)

        def below(t):
            return mp.exp(-t) * (1 + level - (alpha * mp.exp(-excess * t) - 1) / excess) * tail(t)

        reach = rho + 30 * mp.sqrt(rho)
        return sum(
            mp.quad(part, sorted({start, max(start, rho), *(max(start, rho) + k * reach / 8 for k in range(1, 9))}))
            for part, start in ((above, upper), (below, -lower))
        )


def gaussian_tail_level(alpha, mu, failure_prob):
    """The level that ζ(x) exceeds with the given probability, to 15 digits, and u = a + H(a)/failure_prob there."""
    with mp.workdps(DIGITS):
        mu, nu = mpf(mu), mpf(mu) ** 2 / 2

        def exceeded(log_level):
            upper, lower = roots(alpha, mp.exp(log_level))
            return mp.ncdf((nu - upper) / mu) + mp.ncdf((lower - nu) / mu) > failure_prob

        level = mp.exp(halved(exceeded, mp.log(nu) - 12, mp.log(nu) + 8, 60)[0])
        return level, level + gaussian(alpha, level, mu) / failure_prob
