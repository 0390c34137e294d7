"""The mechanisms that a chain's settings plan, and whether those that are said to have run are these."""

import math

from pacdp.verify.claim import Fields, Wrong
from pacdp.verify.events import Step


def length(run: Fields, n: int) -> int:
    """Steps of a chain's run on n examples."""
    batches = run.epochs * n / run.sampler.batch_size
    return max(1, round(batches / run.sampler.get("inner_steps", 1)))


def steps_of_chain(
    sampler: Fields,
    n: int,
    steps: int,
) -> list[Step]:
    """What so many steps of clipped SGLD or Entropy-SG(L)D add: noise (K/C) √(2/(τ h)), at sample rate K/n."""
    if sampler.get("clip_norm") is None or sampler.kind not in (
        "SGLD",
        "EntropySGD",
    ):
        raise Wrong("the sampler's steps are no private mechanisms")
    rate = sampler.batch_size / n
    return [
        Step(rate, noise / sampler.clip_norm)
        for noise in _noises(sampler, steps)
    ]


def noises_on_sums(sampler: Fields, steps: int) -> list[float]:
    """The noise of a chain that kept its norms, step by step: it is on sums of gradients as they are."""
    if sampler.get("clip_norm") is not None or sampler.kind not in (
        "SGLD",
        "SGHMC",
        "EntropySGD",
    ):
        raise Wrong(
            "the sampler's steps are no sums of gradients, as they are, with noise"
        )
    return _noises(sampler, steps)


def _noises(sampler: Fields, steps: int) -> list[float]:
    """K √(2κ/(τ h)) at the step size h: standard deviation of the noise on a sum of gradients ("Noisy sums").

    κ is the friction of SGHMC and otherwise 1; τ grows with the step where the settings cool.
    """
    cooling, friction = (
        sampler.get("cooling", 0.0),
        sampler.get("friction", 1.0),
    )
    if sampler.kind == "EntropySGD":
        inner = range(1, sampler.inner_steps + 1)
        sizes = [
            sampler.inner_step_size / 2 * i**-sampler.inner_decay for i in inner
        ] * steps
        heat = [sampler.tau] * len(sizes)
    else:
        every = range(1, steps + 1)
        sizes = [sampler.step_size * t**-sampler.decay for t in every]
        heat = [sampler.tau * t**cooling for t in every]
    return [
        sampler.batch_size * math.sqrt(2 * friction / (tau * size))
        for tau, size in zip(heat, sizes, strict=True)
    ]


def require_same(
    said: list[Step],
    expected: list[Step],
    slack: float = 0.002,
) -> None:
    """As many mechanisms at the same rates, each with as much noise, or a little less, than the settings give."""
    if len(said) != len(expected):
        raise Wrong(
            f"there are {len(said)} mechanisms, and {len(expected)} by the run's settings"
        )
    for one, planned in zip(sorted(said), sorted(expected), strict=True):
        rate = abs(one.rate - planned.rate) <= 1e-12 * planned.rate
        noise = (
            (1 - slack) * planned.noise
            <= one.noise
            <= (1 + 1e-9) * planned.noise
        )
        if not rate or not noise or one.epsilons != planned.epsilons:
            raise Wrong(
                "the mechanisms have other noise multipliers or sample rates than the settings give"
            )
