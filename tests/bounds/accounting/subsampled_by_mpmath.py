"""One step of a Poisson-sampled Gaussian in high precision: delta(epsilon) in closed form, moments as sums."""

from mpmath import asinh, binomial, erfc, exp, fsum, inf, log, mpf, ncdf, sinh, sqrt, workdps

DIGITS = 40


def _tail(z, mean, sigma):
    return erfc((z - mean) / (sigma * sqrt(2))) / 2


def boundary(q, s, x, other):
    """Where the loss of (1-q) N(0, s²) + q N(1, s²) against (1-q) N(0, s²) + q N(other, s²) is x; other is 0 or -1."""
    if other:
        return s**2 * (x / 2 + asinh((1 - q) / q * exp(1 / (2 * s**2)) * sinh(x / 2)))
    inner = (exp(x) - 1 + q) / q
    return s**2 * log(inner) + mpf(1) / 2 if inner > 0 else -inf


def beyond(q, s, z, other):
    """The masses of both beyond z."""
    return [(1 - q) * _tail(z, 0, s) + q * _tail(z, mean, s) for mean in (1, other)]


def remove(q, sigma, epsilon, other=0):
    """P = (1-q) N(0, σ²) + q N(1, σ²) against N(0, σ²)."""
    with workdps(DIGITS):
        q, s, e = mpf(q), mpf(sigma), mpf(epsilon)
        p, least = beyond(q, s, boundary(q, s, e, other), other)
        return p - exp(e) * least


def add(q, sigma, epsilon):
    """The other direction: N(0, σ²) against the mixture."""
    with workdps(DIGITS):
        return 1 - exp(epsilon) + exp(epsilon) * remove(q, sigma, -mpf(epsilon))


def replace(q, sigma, epsilon):
    """(1-q) N(0, σ²) + q N(1, σ²) against (1-q) N(0, σ²) + q N(-1, σ²)."""
    return remove(q, sigma, epsilon, -1)


def delta(adjacency, *at):
    return replace(*at) if adjacency == "replace-one" else max(remove(*at), add(*at))


def renyi(q, sigma, order):
    """D_α of the remove direction at a whole order: the binomial sum of Mironov, Talwar and Zhang (2019)."""
    with workdps(DIGITS):
        q, s = mpf(q), mpf(sigma)
        terms = [
            binomial(order, k) * (1 - q) ** (order - k) * q**k * exp(mpf(k * k - k) / (2 * s**2))
            for k in range(order + 1)
        ]
        return log(fsum(terms)) / (order - 1)


def gaussian_delta(mu, epsilon):
    """Balle and Wang (2018), Theorem 8."""
    with workdps(DIGITS):
        m, e = mpf(mu), mpf(epsilon)
        return ncdf(m / 2 - e / m) - exp(e) * ncdf(-m / 2 - e / m)
