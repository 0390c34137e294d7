"""Bounds from draws, on people and on counts with noise; those of plain counts are in ``risk``."""

from flint import arb  # pyright: ignore[reportMissingImports]

from pacdp.verify.arithmetic import (
    ONE,
    ZERO,
    ball,
    binomial_upper,
    kl_upper,
    normal_above,
    zero_of,
)
from pacdp.verify.claim import (
    Claim,
    Unchecked,
    agree,
    exactly,
    require,
)
from pacdp.verify.formulas.risk import bernstein


def sampled(c: Claim) -> arb:
    """p ≤ kl⁻¹(X̄, ln(1/δ)/n), n the number of draws ("Averages of independent draws")."""
    return from_draws(c, "")


def from_draws(c: Claim, prefix: str) -> arb:
    """r = kl⁻¹(mean, ln(1/δ_MC)/N) ("The overall certificate"); the terms repeat what it was made from."""
    mean = c[f"{prefix}mean"]
    draws = c.term("monte_carlo_draws")
    nats = -c[f"{prefix}failure_prob"].log()
    for kind in ("draws", "terms", "kept_steps"):
        if f"{prefix}{kind}" in c.inputs:
            most = c[f"{prefix}{kind}"]
            require(
                draws == most
                if kind == "draws"
                else 1 <= draws <= most + 1e-6,
                f"terms.monte_carlo_draws is {float(draws)!r} and inputs.{prefix}{kind} {float(most)!r}",
            )
    c.terms_are(
        monte_carlo_mean=mean,
        monte_carlo_confidence_nats=nats,
        monte_carlo_nats_per_draw=nats / draws,
    )
    return kl_upper(mean, nats / draws)


def new_example_kl(c: Claim) -> arb:
    """The largest r with K [kl(risk‖r) - kl(risk‖q)] < Λ, where q < r and n kl(q‖r) = Λ ("Prices", docs/people.md)."""
    if c.risk == 0 and not _margin(c, ZERO) < 0:
        return kl_upper(ZERO, c.share)
    q = zero_of(lambda q: _margin(c, q), 0, 1)
    return kl_upper(q, c.share)


def _margin(c: Claim, q: arb) -> arb:
    """K [kl(risk‖r) - kl(risk‖q)] - Λ at the r of q ("Prices", docs/people.md)."""
    risk = c.risk
    r = kl_upper(q, c.share)
    if not r < 1:
        return ONE
    odds = (1 - q) / (1 - r)
    gain = (1 - risk) * odds.log()
    if risk > 0:
        gain += risk * (q / r).log()
    return c.people * gain - c.nats


def new_example_pac_bayes(c: Claim) -> arb:
    """kl⁻¹(R̂, c) with the effective number of people in the place of n ("Prices", docs/people.md)."""
    return kl_upper(c.risk, c.nats / c.size)


def new_person_second_moment(c: Claim) -> arb:
    """Un-expected Bernstein with the mean square of people's mean losses ("Un-expected Bernstein", docs/people.md)."""
    return bernstein(c, c.risk, c.term("second_moment"))


def new_person_clopper_pearson(c: Claim) -> arb:
    """Clopper and Pearson, for one example a person ("Averages of independent draws", docs/people.md)."""
    count = c.risk * c.n
    errors = round(float(count))
    require(
        c.examples == c.n
        and abs(count - errors) < ball(1e-9) * c.n,
        f"{float(count)} errors on {c.inputs.examples} examples of {c.n} people are no count of people who err",
    )
    return binomial_upper(errors, c.n, c.failure_prob)


def betting(c: Claim) -> arb:
    """μ ≤ m for every m with W(m) ≥ 1/δ ("Betting"): never below the mean, and the rest is not in the file."""
    mean = (
        c.risk if "risk" in c.inputs else c.term("empirical_risk")
    )
    require(
        exactly(c.record.value) >= mean,
        f"the value is {c.record.value!r}, below the mean {float(mean):.12g} of what was seen",
    )
    whose = (
        "the people" if "new_person" in c.name else "the examples"
    )
    raise Unchecked(f"the losses of {whose} are not in the file")


_GRID = arb(2) ** -10
"""Noisy counts are released as multiples of it."""
_HALF_CELL = arb(2) ** -11
"""Of the noise's own grid, at most, in standard deviations (docs/noise.md, section 1)."""


def check_noisy_counts(c: Claim) -> None:
    """k ≤ K and m ≤ n but with probability at most γ, half of it for each ("Certificates from counts with noise").

    What was released is the count plus a normal number, rounded to the noise's own grid and to a multiple of 1/1024.
    """
    most = c.errors_at_most
    fewest = arb(c.n)
    of_people = any(
        one.get("unit") == "person" for one in c.record.hypotheses
    )
    step = _GRID if of_people else ONE
    _check_noisy_end(c, "n", c.released_n - fewest, ONE)
    _check_noisy_end(
        c, "errors_at_most", most - c.released_errors, step
    )
    agree("inputs.risk", c.inputs.risk, (most / fewest).min(ONE))


def _check_noisy_end(
    c: Claim, name: str, reach: arb, step: arb
) -> None:
    """The worst count is where half of what the noise may fail with says, and no farther."""
    share = c.paid("noise on the counts") / 2
    std = c.std_n if name == "n" else c.std_errors
    beyond = normal_above(
        (reach + step - _GRID / 2) / std - _HALF_CELL
    )
    require(
        share > 0 and beyond <= share,
        f"{name} is {c.inputs[name]!r}, beyond which the noise may have taken the count more often than is paid for",
    )
    nearest = normal_above(
        (reach - _GRID) / std - _HALF_CELL - ball(1e-9)
    )
    enough = nearest >= share * (1 - ball(1e-6))
    require(
        enough or c[name] <= 0,
        f"{name} is {c.inputs[name]!r}, which is more than the noise asks for",
    )
