"""One step of a Poisson-sampled Gaussian in high precision: delta(epsilon) in closed form, moments as sums."""

import mpmath as mp

DIGITS = 40


def _tail(z, mean, sigma):
    return mp.erfc((z - mean) / (sigma * mp.sqrt(2))) / 2


def remove(q, sigma, epsilon):
    """P = (1-q) N(0, σ²) + q N(1, σ²) against N(0, σ²)."""
    with mp.workdps(DIGITS):
        q, s, e = mp.mpf(q), mp.mpf(sigma), mp.mpf(epsilon)
        inner = (mp.exp(e) - 1 + q) / q
        if inner <= 0:
            return 1 - mp.exp(e)
        z = s**2 * mp.log(inner) + mp.mpf(1) / 2
        p = (1 - q) * _tail(z, 0, s) + q * _tail(z, 1, s)
        return p - mp.exp(e) * _tail(z, 0, s)


def add(q, sigma, epsilon):
    """The other direction: N(0, σ²) against the mixture."""
    with mp.workdps(DIGITS):
        return 1 - mp.exp(epsilon) + mp.exp(epsilon) * remove(q, sigma, -mp.mpf(epsilon))


def replace(q, sigma, epsilon):
    """(1-q) N(0, σ²) + q N(1, σ²) against (1-q) N(0, σ²) + q N(-1, σ²)."""
    with mp.workdps(DIGITS):
        q, s, e = mp.mpf(q), mp.mpf(sigma), mp.mpf(epsilon)
        z = s**2 * (e / 2 + mp.asinh((1 - q) / q * mp.exp(1 / (2 * s**2)) * mp.sinh(e / 2)))
        p = (1 - q) * _tail(z, 0, s) + q * _tail(z, 1, s)
        other = (1 - q) * _tail(z, 0, s) + q * _tail(z, -1, s)
        return p - mp.exp(e) * other


def renyi(q, sigma, order):
    """D_α of the remove direction at a whole order: the binomial sum of Mironov, Talwar and Zhang (2019)."""
    with mp.workdps(DIGITS):
        q, s = mp.mpf(q), mp.mpf(sigma)
        terms = [
            mp.binomial(order, k) * (1 - q) ** (order - k) * q**k * mp.exp(mp.mpf(k * k - k) / (2 * s**2))
            for k in range(order + 1)
        ]
        return mp.log(mp.fsum(terms)) / (order - 1)


def gaussian_delta(mu, epsilon):
    """Balle and Wang (2018), Theorem 8."""
    with mp.workdps(DIGITS):
        m, e = mp.mpf(mu), mp.mpf(epsilon)
        return mp.ncdf(m / 2 - e / m) - mp.exp(e) * mp.ncdf(-m / 2 - e / m)
