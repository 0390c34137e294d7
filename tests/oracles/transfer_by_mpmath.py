"""The divergence of the general transfer at 40 digits: roots by bisection, tails in closed form or by quadrature."""

from kl_by_mpmath import halved
from mpmath import exp, expm1, log, mpf, ncdf, quad, sqrt, workdps

DIGITS = 40


def zeta(alpha, x):
    excess = mpf(alpha) - 1
    return expm1(excess * x) / excess + expm1(-x)


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
    with workdps(DIGITS):
        alpha, level, mu = mpf(alpha), mpf(level), mpf(mu)
        upper, lower = roots(alpha, level)
        excess, nu, total = alpha - 1, mu**2 / 2, mpf(0)
        for start, side in ((upper, 1), (lower, -1)):

            def moment(order, start=start, side=side):
                return exp(order * (order + 1) * nu) * ncdf(side * ((nu - start) / mu + order * mu))

            plain = moment(0)
            total += (moment(excess) - plain) / excess + moment(-1) - (1 + level) * plain
        return total


def concentrated(alpha, level, rho):
    """The same for rho-zCDP, from the tails of the loss."""
    with workdps(DIGITS):
        alpha, level, rho = mpf(alpha), mpf(level), mpf(rho)
        upper, lower = roots(alpha, level)
        excess = alpha - 1

        def tail(t):
            return mpf(1) if t <= rho else exp(-((t - rho) ** 2) / (4 * rho))

        def above(t):
            return (exp(excess * t) - exp(-t)) * tail(t)

        def below(t):
            return exp(-t) * (1 + level - (alpha * exp(-excess * t) - 1) / excess) * tail(t)

        reach = rho + 30 * sqrt(rho)
        return sum(
            quad(part, sorted({start, max(start, rho), *(max(start, rho) + k * reach / 8 for k in range(1, 9))}))
            for part, start in ((above, upper), (below, -lower))
        )


def gaussian_tail_level(alpha, mu, failure_prob):
    """The level that ζ(x) exceeds with the given probability, to 15 digits, and u = a + H(a)/failure_prob there."""
    with workdps(DIGITS):
        mu, nu = mpf(mu), mpf(mu) ** 2 / 2

        def exceeded(log_level):
            upper, lower = roots(alpha, exp(log_level))
            return ncdf((nu - upper) / mu) + ncdf((lower - nu) / mu) > failure_prob

        level = exp(halved(exceeded, log(nu) - 12, log(nu) + 8, 60)[0])
        return level, level + gaussian(alpha, level, mu) / failure_prob
