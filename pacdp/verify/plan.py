"""The mechanisms that a run's settings plan, whether these ran, and what a budget leaves of them."""

from math import sqrt
from typing import Any

from pacdp.verify.claim import Fields, Unchecked, Wrong, require
from pacdp.verify.events import Step, noise_of_all, steps_of
from pacdp.verify.loss import private


def length(run: Fields, n: int) -> int:
    """Steps of a chain's run on n examples."""
    batches = run.epochs * n / run.sampler.batch_size
    return max(1, round(batches / run.sampler.get("inner_steps", 1)))


def steps_of_chain(sampler: Fields, n: int, steps: int) -> list[Step]:
    """What so many steps of clipped SGLD or Entropy-SG(L)D add: noise (K/C) √(2/(τ h)), at sample rate K/n."""
    clip = sampler["clip_norm"] or 0.0
    require(
        clip and sampler.kind in ("SGLD", "EntropySGD"),
        "the sampler's steps are no private mechanisms",
    )
    rate = sampler.batch_size / n
    return [
        Step(rate, noise / clip) for noise in noises(sampler, steps)
    ]


def noises(sampler: Fields, steps: int) -> list[float]:
    """K √(2κ/(τ h)) at the step size h: standard deviation of the noise on a sum of gradients ("Noisy sums").

    κ is the friction of SGHMC and otherwise 1; τ grows with the step where the settings cool.
    """
    if sampler.kind == "EntropySGD":
        size = sampler.inner_step_size / 2
        decay = sampler.inner_decay
        places = list(range(1, sampler.inner_steps + 1)) * steps
        cooling = 0.0
    else:
        size = sampler.step_size
        decay = sampler.decay
        places = range(1, steps + 1)
        cooling = sampler.get("cooling", 0.0)
    friction = sampler.get("friction", 1.0)
    return [
        sampler.batch_size
        * sqrt(
            2 * friction / (sampler.tau * t**cooling * size * t**-decay)
        )
        for t in places
    ]


def require_same(
    said: list[Step], expected: list[Step], slack: float = 0.002
) -> None:
    """As many mechanisms at the same rates, each with as much noise, or a little less, than the settings give."""
    require(
        len(said) == len(expected),
        f"there are {len(said)} mechanisms, and {len(expected)} by the run's settings",
    )
    for one, planned in zip(
        sorted(said), sorted(expected), strict=True
    ):
        least = (1 - slack) * planned.noise
        most = (1 + 1e-9) * planned.noise
        require(
            abs(one.rate - planned.rate) <= 1e-12 * planned.rate
            and least <= one.noise <= most
            and one.epsilons == planned.epsilons,
            "the mechanisms have other noise multipliers or sample rates than the settings give",
        )


def planned_steps(
    header: Fields, run: Fields, n: int | None
) -> list[Step]:
    """All steps that a private run's configuration plans; its header has to say the same."""
    sampling = run.sampling
    mechanism = header.settings.mechanism
    repeated = {
        name: sampling[name]
        for name in ("sample_rate", "steps", "clip_norm")
    }
    for name, value in (*repeated.items(), *header.public.items()):
        require(
            mechanism[name] == value,
            f"the header's {name} is not that of its run",
        )
    made = steps_of(header.event)
    require(
        header.step == len(header.chosen) == len(made),
        "the header's number of steps is not that of its run",
    )
    batch = mechanism.expected_batch_size
    size = sampling.public_size or n
    require(
        not size
        or abs(batch / sampling.sample_rate / size - 1) <= 1e-9,
        "the header's size of batches is not that of its run",
    )
    return steps_by_settings(made, run, batch)


def steps_by_settings(
    made: list[Step], run: Fields, batch: float
) -> list[Step]:
    """All steps that a private run's configuration plans; those made are the beginning of them.

    ``batch`` is the expected size of a batch; where it is not told, 0, noise that depends on it gives it away.
    """
    method = run.method
    sampling = run.sampling
    given = sampling.noise_multiplier
    epsilons = ()
    if method.kind == "DPSGLD":
        multipliers = _noises_of_dpsgld(made, run, batch)
    else:
        if method.kind == "P3SGD":
            scales = method.noise_scales
            given = noise_of_all(scales)
            if method.nested:
                given = min(scales)
            if len(scales) > 1:
                epsilons = (method.selection_epsilon,)
        if given:
            noise = _with_count(run, given)
        else:
            noise = _noise_for_the_budget(made, run)
        multipliers = [noise] * sampling.steps
    rate = sampling.sample_rate
    planned = [Step(rate, noise, epsilons) for noise in multipliers]
    require_same(made, planned[: len(made)], slack=1e-9)
    return planned


def _with_count(run: Fields, noise: float) -> float:
    """Of a sum and, where a quantile of the norms is followed, the count: 1/σ² = 1/z² + 1/(2σ_b)²."""
    count = run.sampling["count_noise"]
    return noise_of_all([noise, 2 * count]) if count else noise


def _noise_for_the_budget(made: list[Step], run: Fields) -> float:
    """The noise multiplier that keeps all steps to the budget, which 3% less would not."""
    sampling = run.sampling
    noise = made[0].noise
    step = Step(sampling.sample_rate, noise)
    quieter = step._replace(noise=0.97 * noise)
    within = affordable([step] * sampling.steps, run)
    if within is None:
        raise Unchecked(
            "whether these steps keep to the budget lies between what this checker shows and refutes"
        )
    require(
        within and not affordable([quieter] * sampling.steps, run),
        f"the noise multiplier {noise!r} is not the one that the budget asks for",
    )
    return noise


def _noises_of_dpsgld(
    made: list[Step], run: Fields, batch: float
) -> list[float]:
    """By the step sizes h: √(2hT), or √(v/h) q/(d C), or, tempered, (K/C) √(2T/h)."""
    method = run.method
    sampling = run.sampling
    clip = sampling.clip_norm
    sizes = [
        method.step_size
        * (1 + t / method.decay_offset) ** -method.decay
        for t in range(sampling.steps)
    ]
    match method.convention:
        case "gradient-slot":
            return [
                _with_count(run, sqrt(2 * size * method.temperature))
                for size in sizes
            ]
        case "parameter-slot":
            scale = sampling.sample_rate / method.drift / clip
            return [sqrt(method.noise / size) * scale for size in sizes]
        case "tempered":
            noise = sqrt(2 * method.temperature / sizes[0])
            first = batch / clip * noise or made[0].noise
            return [first * sqrt(sizes[0] / size) for size in sizes]
        case convention:
            raise Wrong(
                f"this checker knows no {convention!r} of DP-SGLD"
            )


def relation(run: Fields) -> tuple[float, bool]:
    """The delta of what is printed of a run, and whether it is for replace-one neighbours.

    It is where the number of records is public: sums are divided by it, or batches drawn at a rate that names it.
    """
    if "budget" not in run:
        return 1e-5, True  # a chain
    budget = run.budget
    return (
        budget.delta,
        budget.adjacency == "replace-one"
        or not run.sampling.public_size,
    )


def steps_paid_for(
    event: Any, made: int, planned: list[Step], run: Fields
) -> list[Step]:
    """The mechanisms that a certificate pays for: those made, and those that the budget has left of the plan."""
    count = len(steps_of(event))
    paid = planned[:count]
    require(
        made <= count <= len(planned),
        f"{count} steps are paid for, {made} were made and {len(planned)} planned",
    )
    require(
        count == made or affordable(paid, run) is not False,
        f"{count} steps are paid for, and the budget ends the run before",
    )
    require(
        count == len(planned)
        or not affordable(planned[: count + 1], run, share=0.99),
        f"{count} steps are paid for, and the run was to make more",
    )
    return paid


def affordable(
    steps: list[Step], run: Fields, share: float = 1.0
) -> bool | None:
    """Whether steps keep to a share of the run's epsilon; None where that is undecided."""
    budget = run.budget
    return private(
        steps,
        share * budget.epsilon,
        budget.delta,
        budget.adjacency == "replace-one",
    )
