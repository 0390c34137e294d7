"""The mechanisms that a private run's settings plan, and what its budget leaves of them."""

import math
from collections import Counter
from typing import Any

from pacdp.verify.claim import Fields, Unchecked, Wrong
from pacdp.verify.events import Step, noise_of_all, steps_in_order, steps_of
from pacdp.verify.folder.plan import require_same
from pacdp.verify.loss import private


def planned_steps(
    header: Fields,
    run: Fields,
    n: int | None,
) -> list[Step]:
    """All steps that a private run's configuration plans; its header has to say the same."""
    sampling, mechanism = run.sampling, header.settings.mechanism
    odd = [
        name
        for name in ("sample_rate", "steps", "clip_norm")
        if mechanism[name] != sampling[name]
    ]
    odd += [
        name
        for name, value in header.public.items()
        if value != mechanism[name]
    ]
    if odd:
        raise Wrong(f"the header's {', '.join(odd)} is not that of its run")
    made = steps_in_order(header.event)
    if not header.step == len(header.chosen) == len(made):
        raise Wrong("the header's number of steps is not that of its run")
    batch, size = mechanism.expected_batch_size, sampling.public_size or n
    if size and abs(batch / sampling.sample_rate / size - 1) > 1e-9:
        raise Wrong("the header's size of batches is not that of its run")
    return steps_by_settings(made, run, batch)


def steps_by_settings(
    made: list[Step],
    run: Fields,
    batch: float,
) -> list[Step]:
    """All steps that a private run's configuration plans; those made are the beginning of them.

    ``batch`` is the expected size of a batch; where it is not told, 0, noise that depends on it gives it away.
    """
    method, sampling = run.method, run.sampling
    epsilons = ()
    if method.kind == "P3SGD" and len(method.noise_scales) > 1:
        epsilons = (method.selection_epsilon,)
    if method.kind == "DPSGLD":
        noises = _noises_of_dpsgld(made, run, batch)
    else:
        noises = [_noise(made, run)] * sampling.steps
    planned = [Step(sampling.sample_rate, noise, epsilons) for noise in noises]
    require_same(made, planned[: len(made)], slack=1e-9)
    return planned


def _noise(made: list[Step], run: Fields) -> float:
    """The noise multiplier of every step; noise that was found for the budget is judged by the budget."""
    method = run.method
    if method.kind == "P3SGD" and method.nested:
        return _with_count(run, [min(method.noise_scales)])
    if method.kind == "P3SGD":
        return _with_count(run, method.noise_scales)
    if given := run.sampling.noise_multiplier:
        return _with_count(run, [given])
    noise = made[0].noise
    if not affordable(_repeated(run, noise), run, certain=True) or affordable(
        _repeated(run, 0.97 * noise), run
    ):
        raise Wrong(
            f"the noise multiplier {noise!r} is not the one that the budget asks for"
        )
    return noise


def _with_count(run: Fields, noises: list[float]) -> float:
    """Of the sum and, where a quantile of the norms is followed, the count: 1/σ² = Σ 1/z² + 1/(2σ_b)²."""
    count = run.sampling.get("count_noise")
    return noise_of_all([*noises, 2 * count] if count else noises)


def _repeated(run: Fields, noise: float) -> list[Step]:
    return [Step(run.sampling.sample_rate, noise)] * run.sampling.steps


def _noises_of_dpsgld(
    made: list[Step],
    run: Fields,
    batch: float,
) -> list[float]:
    """By the step sizes h: √(2hT), or √(v/h) q/(d C), or, tempered, (K/C) √(2T/h)."""
    method, sampling = run.method, run.sampling
    clip = sampling.clip_norm
    sizes = [
        method.step_size * (1 + t / method.decay_offset) ** -method.decay
        for t in range(sampling.steps)
    ]
    match method.convention:
        case "gradient-slot":
            return [
                _with_count(run, [math.sqrt(2 * size * method.temperature)])
                for size in sizes
            ]
        case "parameter-slot":
            scale = sampling.sample_rate / method.drift / clip
            return [math.sqrt(method.noise / size) * scale for size in sizes]
        case "tempered":
            first = (
                batch / clip * math.sqrt(2 * method.temperature / sizes[0])
                or made[0].noise
            )
            return [first * math.sqrt(sizes[0] / size) for size in sizes]
        case convention:
            raise Wrong(
                f"this checker knows no convention {convention!r} of DP-SGLD"
            )


def relation(run: Fields) -> tuple[float, bool]:
    """The delta of what is printed of a run, and whether it is for replace-one neighbours.

    It is where the number of records is public: sums are divided by it, or batches drawn at a rate that names it.
    """
    if "budget" not in run:
        return 1e-5, True  # a chain
    return (
        run.budget.delta,
        not run.sampling.public_size or run.budget.adjacency == "replace-one",
    )


def steps_paid_for(
    event: Any,
    made: int,
    planned: list[Step],
    run: Fields,
) -> list[Step]:
    """The mechanisms that a certificate pays for: those made, and those that the budget has left of the plan."""
    count = sum(steps_of(event).values())
    if not made <= count <= len(planned):
        raise Wrong(
            f"{count} steps are paid for, {made} were made and {len(planned)} planned"
        )
    if count > made and affordable(planned[:count], run) is False:
        raise Wrong(
            f"{count} steps are paid for, and the budget ends the run before"
        )
    if count < len(planned) and affordable(
        planned[: count + 1], run, share=0.99
    ):
        raise Wrong(f"{count} steps are paid for, and the run was to make more")
    return planned[:count]


def affordable(
    steps: list[Step],
    run: Fields,
    *,
    share: float = 1.0,
    certain: bool = False,
) -> bool | None:
    """Whether steps keep to a share of the run's epsilon; None where that is undecided."""
    budget = run.budget
    replaced = budget.adjacency == "replace-one"
    found = private(
        Counter(steps), share * budget.epsilon, budget.delta, replaced
    )
    if certain and found is None:
        raise Unchecked(
            "whether these steps keep to the budget lies between what this checker shows and refutes"
        )
    return found
