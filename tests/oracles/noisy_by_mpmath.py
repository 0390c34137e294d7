"""Noisy sums once more, at 50 digits: log moments from their definition, and prices from the parameters of a price."""

from kl_by_mpmath import halved
from mpmath import binomial, exp, expm1, floor, fsum, inf, isfinite, log, log1p, mpf, sqrt, workdps

from bounds.accounting import Composed, Gaussian, PoissonSampled, SelfComposed


@workdps(60)
def moment(order, rate, x):
    """ln m at an order, a sampling rate and a squared contribution: the smallest of what the theorem allows."""
    order, rate, x = mpf(order), mpf(rate), mpf(x)
    if rate == 1:
        return order * (order - 1) * x / 2
    low, share = floor(order), order - floor(order)
    found = (1 - share) * whole(int(low), rate, x) + (share * whole(int(low) + 1, rate, x) if share else 0)
    if order < 2:
        scale = (1 - rate) ** order - 1 + order * rate
        found = min(found, log1p(scale * expm1(x)))
    return found


def whole(order, rate, x):
    return log1p(
        sum(
            binomial(order, j) * (1 - rate) ** (order - j) * rate**j * expm1(mpf(j * (j - 1)) / 2 * x)
            for j in range(2, order + 1)
        )
    )


def steps(event, count=1):
    match event:
        case Gaussian(noise_multiplier=noise):
            yield 1, mpf(noise), count
        case PoissonSampled(sample_rate=rate, event=Gaussian(noise_multiplier=noise)):
            yield mpf(rate), mpf(noise), count
        case Composed(events=parts):
            for part in parts:
                yield from steps(part, count)
        case SelfComposed(event=part, count=times):
            yield from steps(part, count * times)


def worst_case(mu, n, log_inv):
    return (sqrt(log_inv) + mpf(mu) * sqrt(mpf(n) / 2)) ** 2


@workdps(60)
def poisson(event, n, log_inv, order):
    order = mpf(order)
    each = sum(count * moment(order, rate, noise**-2) for rate, noise, count in steps(event))
    return n / (order - 1) * each + order / (order - 1) * log_inv


def of_full_batch(contributions, orders):
    return [mpf(order) * (mpf(order) - 1) * mpf(contributions) / 2 for order in orders]


@workdps(60)
def realised(moments, orders, weights, log_inv):
    """The root of Σ_j w_j exp(((α-1)/α) Λ - M/α) = 1/δ, by halving."""
    rows = [(mpf(a), mpf(w), mpf(m)) for a, w, m in zip(orders, weights, moments, strict=True)]
    rows = [row for row in rows if isfinite(row[2])]
    if not rows:
        return inf

    def enough(nats):
        logs = [log(w) + (a - 1) / a * nats - m / a for a, w, m in rows]
        top = max(logs)
        return top + log(fsum(exp(one - top) for one in logs)) >= log_inv

    union = min(m / (a - 1) + a / (a - 1) * (log_inv - log(w)) for a, w, m in rows)
    return halved(enough, union, mpf(0))[0]
