"""The mixtures of bounds.monitor, and the wealth of its bets, by definition, at the precision in force."""

from mpmath import e, fprod, fsum, log, mpf

ODDS = ("1.1", "1.25", "1.5", "2", "3", "5", "10", "30")


def mixture(mean, losses):
    """W_n(m) of docs/guarantees.md, "Limits at all times", from the losses themselves."""
    losses, mean, n = [mpf(x) for x in losses], mpf(mean), len(losses)
    total, spread = mpf(0), mpf(0)
    for i, x in enumerate(losses):
        spread += (x - (mpf("0.5") + total) / (1 + i)) ** 2
        total += x
    rates = [mpf(6) * mpf("0.625") ** k for k in range(24)]
    etas = [mpf("0.8") * mpf("0.6") ** k for k in range(18)]
    first = fsum(e ** (-rate * total) * (1 - mean * (1 - e**-rate)) ** -n for rate in rates) / 24
    second = fsum(e ** (eta * (n * mean - total) + (eta + log(1 - eta)) * spread) for eta in etas) / 18
    return (first + second) / 2


def wealth(promised, losses):
    """The wealth after each loss: every bet from every start by itself."""
    promised, found = mpf(promised), []
    kept = [1 / (1 + log(1 + t)) for t in range(len(losses) + 1)]
    factors = [[(1 + (mpf(odds) - 1) * mpf(x)) / (1 + (mpf(odds) - 1) * promised) for x in losses] for odds in ODDS]
    for t in range(1, len(losses) + 1):
        bets = fsum((kept[j - 1] - kept[j]) * fprod(row[j - 1 : t]) for row in factors for j in range(1, t + 1))
        found.append(kept[t] + bets / len(ODDS))
    return found
