"""Worlds of the wider catalogue: spread and levels of a loss, one draw of a posterior, chains, prior scales."""

import numpy as np
from scipy.stats import binom

from bounds import betting_upper, log_xi, prior_scale_grid
from bounds.divergence import gaussian_log_density_ratio, gaussian_renyi
from tests.coverage.harness import Cases
from tests.coverage.tight import none_at
from tests.coverage.worlds import DELTA, chunks, gibbs, in_parts, luckiest

_JUST_ABOVE = 1 + 1e-9


def rate_of_none(n, nats):
    """Just above what a kl bound of this cost (without ln(1/failure_prob)) says of a sample without an error."""
    return none_at(n, nats + np.log(1 / DELTA))


def draws(name, n, sample, mean):
    """Independent draws in [0, 1] of one law."""

    def world(rng, datasets):
        values = sample(rng, (datasets, n))
        return Cases(
            {"values": values, "mean": values.mean(axis=1), "second_moment": (values**2).mean(axis=1), "n": n}, mean
        )

    world.__doc__ = f"{n} draws, {name}"
    return world


def coins(n, rate, name):
    return draws(f"coins of rate {rate:.3f}, {name}", n, lambda rng, shape: 1.0 * (rng.random(shape) < rate), rate)


def levels(n, law, hypotheses=1):
    """Losses 0, 1/4 and 1; a point posterior on the hypothesis of least mean loss."""

    def world(rng, datasets):
        (counts,) = in_parts(_best, rng, datasets)
        return Cases(
            {
                "share_1": (counts[:, 1] + counts[:, 2]) / n,
                "share_2": counts[:, 2] / n,
                "risk": (counts[:, 1] / 4 + counts[:, 2]) / n,
                "second_moment": (counts[:, 1] / 16 + counts[:, 2]) / n,
                "kl_nats": float(np.log(hypotheses)),
                "n": n,
            },
            law[1] / 4 + law[2],
        )

    def _best(rng, many):
        counts = rng.multinomial(n, law, (many, hypotheses))
        best = (counts[:, :, 1] + 4 * counts[:, :, 2]).argmin(axis=1)
        return [counts[np.arange(many), best]]

    who = "one hypothesis" if hypotheses == 1 else f"the luckiest of {hypotheses} hypotheses"
    world.__doc__ = f"n = {n}, losses 0, 1/4 and 1 of probabilities {', '.join(f'{p:.3g}' for p in law)}, {who}"
    return world


def half_lucky(n, hypotheses, paid):
    """One draw of a posterior that is half its uniform prior and half the luckiest hypothesis."""
    on_lucky, elsewhere = 0.5 * hypotheses + 0.5, 0.5  # dQ/dP
    mass = (0.5 + 0.5 / hypotheses, 0.5 * (1 - 1 / hypotheses))
    kl = mass[0] * np.log(on_lucky) + mass[1] * np.log(elsewhere)
    rate = rate_of_none(n, float(np.log(on_lucky) if paid else kl) + log_xi(n))

    def world(rng, datasets):
        errors = [rng.binomial(n, rate, (len(part), hypotheses)) for part in chunks(datasets)]
        errors = np.concatenate([_drawn(rng, part) for part in errors])
        return Cases(
            {
                "risk": errors[:, 0] / n,
                "log_density_ratio": np.where(errors[:, 1] == 1, np.log(on_lucky), np.log(elsewhere)),
                "renyi_nats": float(np.log(mass[0] * on_lucky + mass[1] * elsewhere)),
                "kl_nats": float(kl),
                "n": n,
            },
            rate,
        )

    def _drawn(rng, errors):
        """Errors of the draw, and whether it is the luckiest hypothesis."""
        rows = np.arange(len(errors))
        lucky = errors.argmin(axis=1)
        drawn = np.where(rng.random(len(errors)) < 0.5, lucky, rng.integers(hypotheses, size=len(errors)))
        return np.stack([errors[rows, drawn], drawn == lucky], axis=1)

    for_what = "its density ratio" if paid else "its divergence"
    world.__doc__ = f"n = {n}, one draw, half from the prior on {hypotheses}, half the luckiest; rate at {for_what}"
    return world


def noisy_threshold(rng, datasets):
    """n = 40, one Gaussian draw around the best threshold on [0, 1], labels flipped with probability 0.1"""
    n, std, prior_mean, grid = 40, 0.1, 0.5, np.linspace(0, 1, 21)
    x = rng.random((datasets, n))
    labels = (x >= 0.6) ^ (rng.random(x.shape) < 0.1)
    errors = [((x >= at) != labels).sum(axis=1) for at in grid]
    mean = grid[np.argmin(errors, axis=0)]
    w = mean + std * rng.normal(size=datasets)
    return Cases(
        {
            "risk": ((x >= w[:, None]) != labels).mean(axis=1),
            "log_density_ratio": np.array(
                [gaussian_log_density_ratio([a], [b], std, [prior_mean], std) for a, b in zip(w, mean, strict=True)]
            ),
            "renyi_nats": np.array([gaussian_renyi([b], [prior_mean], std) for b in mean]),
            "n": n,
        },
        0.1 + 0.8 * np.abs(w.clip(0, 1) - 0.6),
    )


def _shares(old, new):
    """The three of an excess step, from the losses (data sets, examples) of predecessor and posterior."""
    return [one.mean(axis=1).clip(0, 1) for one in (1 - (1 - new) * old, new, new * (1 - old))]


def chain(rng, datasets):
    """n = 80, a Gibbs posterior of half the sample, and another that starts from it, 20 hypotheses"""
    n, rates = 80, np.linspace(0.02, 0.5, 20)

    def some(rng, many):
        losses = rng.random((many, n, rates.size)) < rates
        earlier, later = losses[:, : n // 2].mean(axis=1), losses[:, n // 2 :].mean(axis=1)
        first, kl, _ = gibbs(1 / rates.size, earlier, 40.0)
        second, step_kl, _ = gibbs(first, later, 60.0)
        old, new = (np.einsum("bnh,bh->bn", losses, weights) for weights in (first, second))
        return (old.mean(axis=1).clip(0, 1), kl, step_kl, *_shares(old[:, n // 2 :], new[:, n // 2 :]), second @ rates)

    *made, truth = in_parts(some, rng, datasets)
    names = ("risk", "kl_nats", "step_kl_nats", "share_1", "share_2", "share_3")
    return Cases(dict(zip(names, made, strict=True)) | {"n": n, "step_n": n // 2, "gamma": 0.5}, truth)


def lucky_chain(seen):
    """The luckiest of very many hypotheses on half of the sample, kept in the second step."""
    half, hypotheses, rate = 20, 10_000_000, 0.5

    def world(rng, datasets):
        lucky = binom.ppf(-np.expm1(np.log(rng.random(datasets)) / hypotheses), half, rate)  # least of them
        fresh = rng.binomial(half, rate, datasets)
        share = (lucky if seen else fresh) / half
        columns = {"risk": (lucky + fresh) / (2 * half), "kl_nats": float(np.log(hypotheses)), "step_kl_nats": 0.0}
        # a certain hypothesis against itself: the excess is (1 - gamma) times its loss
        columns |= {"share_1": 1.0, "share_2": share, "share_3": 0.0}
        columns |= {"n": 2 * half, "step_n": half, "gamma": 0.05}
        return Cases(columns, rate)

    where = "examples that chose it" if seen else "fresh examples"
    world.__doc__ = f"the luckiest of {hypotheses:.0e} hypotheses on 20 examples, its excess measured on 20 {where}"
    return world


def prior_scales(n, count, paid, fraction=1.0):
    """Point priors, one for each scale e^(-j/10); the scale with the fewest errors is chosen, of equals the largest."""
    index = np.arange(1, count + 1)
    scales = np.exp(-index / 10)
    nats = np.array([{p.index: p.nats for p in neighbours(s)}[j] for j, s in zip(index, scales, strict=True)])
    costs = [(extra if paid else 0.0) + log_xi(n) + np.log(1 / DELTA) for extra in nats]
    rates = np.array([rate_of_none(n, fraction * cost - np.log(1 / DELTA)) for cost in costs])

    def world(rng, datasets):
        errors = rng.binomial(n, rates, (datasets, count))
        best = errors.argmin(axis=1)
        risk = errors[np.arange(datasets), best] / n
        return Cases({"risk": risk, "scale": scales[best], "index": index[best], "n": n}, rates[best])

    how = "with" if paid else "without"
    of = "" if fraction == 1.0 else f", {fraction:.2g} of all cost"
    world.__doc__ = f"n = {n}, best of {count} prior scales, rates at the certificate {how} their cost{of}"
    return world


def neighbours(scale):
    return prior_scale_grid(scale=scale, largest=1.0, precision=10)


def one_hypothesis(n):
    """One hypothesis, the rate where a sample without errors fails an exact kl bound."""

    def world(rng, datasets):
        rate = rate_of_none(n, log_xi(n))
        return Cases(
            {
                "risk": luckiest(rng, datasets, 1, n, rate) / n,
                "kl_nats": 0.0,
                "n": n,
                "log_density_ratio": 0.0,
                "renyi_nats": 0.0,
            },
            rate,
        )

    world.__doc__ = f"n = {n}, one draw of a posterior that is its prior"
    return world


MEANS = (
    coins(40, rate_of_none(40, 0.0), "just above the exact bound at no error"),
    coins(40, betting_upper(np.zeros(40), DELTA) * _JUST_ABOVE, "just above the betting bound at no error"),
    draws("uniform on [0.2, 0.3]", 150, lambda rng, shape: rng.uniform(0.2, 0.3, shape), 0.25),
    draws("0.1, or 1 with probability 0.06", 40, lambda rng, shape: np.where(rng.random(shape) < 0.06, 1, 0.1), 0.154),
)
_ONE_IN = rate_of_none(2, log_xi(2) + float(np.log(2)))
LEVELS = (
    levels(2, (1 - _ONE_IN, 0.0, _ONE_IN)),
    levels(60, (0.1, 0.8, 0.1)),
    levels(60, (0.1, 0.6, 0.3), hypotheses=100),
    levels(1000, (0.0, 0.6, 0.4)),
)
ONE_DRAW = (one_hypothesis(2), half_lucky(4, 1000, paid=True), half_lucky(4, 1000, paid=False), noisy_threshold)
CHAINS = (chain, lucky_chain(seen=False))
PRIOR_SCALES = (prior_scales(20, 60, paid=True), prior_scales(20, 60, paid=False))
