"""The mechanisms that a run's settings plan, whether these ran, and what was spent of a private run's budget."""

from math import sqrt
from typing import Any

from pacdp.verify.arithmetic import ball
from pacdp.verify.claim import (
    Fields,
    Unchecked,
    hold,
    require,
    same,
)
from pacdp.verify.events import (
    Step,
    last_alone,
    made_in,
    noise_of_all,
    noise_of_the_last,
    replaces,
    require_few,
    steps_of,
)
from pacdp.verify.files import Folder
from pacdp.verify.loss import (
    private,
    require_bracket,
    require_private,
)
from pacdp.verify.norms import noise_of_one

_METHODS = "DPSGD DPAdam DPSGLD DPSGLDHead DPBBP DPMCDropout P3SGD UserDPSGD".split()
_CLIPPING = (None, "flat", "automatic", "quantile")
"""Where no clipping is named it is flat."""


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


_SAMPLING = """
mechanism.sample_rate = sampling.sample_rate
mechanism.steps = sampling.steps
mechanism.clip_norm = sampling.clip_norm
"""


def planned_steps(
    header: Fields, run: Fields, n: int | None
) -> list[Step]:
    """All steps that a private run's configuration plans; its header has to say the same."""
    sampling = run.sampling
    mechanism = header.settings.mechanism
    batch = mechanism.expected_batch_size
    said = {name: mechanism[name] for name in header.public}
    same("what the header calls public", header.public, said)
    hold(_SAMPLING, mechanism=mechanism, sampling=sampling)
    whole = made_in(header.event)
    require(
        header.step == len(_chosen(header, run))
        and (
            header.step == whole
            or (header.step < whole and last_alone(header.event))
        ),
        "the header's number of steps is not that of its run",
    )
    size = sampling.public_size or n
    require(
        not size
        or abs(batch / sampling.sample_rate / size - 1) <= 1e-9,
        "the header's size of batches is not that of its run",
    )
    require(
        not last_alone(header.event) or not n or n <= batch,
        "there are more records than the sum is divided by, so that no contraction is known",
    )
    return steps_by_settings(header.event, run, batch)


def _chosen(header: Fields, run: Fields) -> list[int]:
    """Which candidate each step chose: of several, that stays unasked, as nothing else shows it."""
    chosen = dict.get(header, "chosen") or []
    candidates = range(len(run.method.get("noise_scales", [0])))
    require(
        all(
            type(one) is int and one in candidates for one in chosen
        ),
        f"{chosen} were chosen, of {len(candidates)} candidates",
    )
    return chosen if len(candidates) > 1 else header.chosen


def _require_a_method(run: Fields) -> None:
    """There is a method of this name, its clipping is known, and a count has noise where a quantile is followed."""
    method = run.method
    sampling = run.sampling
    clipping, count = sampling["clipping"], sampling["count_noise"]
    require(
        method.kind in _METHODS
        and clipping in _CLIPPING
        and (clipping == "quantile") == bool(count),
        f"no method is called {method.kind} with clipping {clipping} and count_noise {count}",
    )


def steps_by_settings(
    event: Any, run: Fields, batch: float
) -> list[Step]:
    """All steps that a private run's configuration plans; those made are the beginning of them.

    ``batch`` is the expected size of a batch; where it is not told, 0, noise that depends on it gives it away.
    """
    method = run.method
    sampling = run.sampling
    _require_a_method(run)
    made = steps_of(event)
    require_few(sampling.steps)
    given = sampling.noise_multiplier
    epsilons = ()
    if method.kind == "DPSGLDHead":
        return _last_by_settings(event, run)
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
            noise = _noise_for_the_budget(made, run, sampling.steps)
        multipliers = [noise] * sampling.steps
    rate = sampling.sample_rate
    planned = [Step(rate, noise, epsilons) for noise in multipliers]
    require_same(made, planned[: len(made)], slack=1e-9)
    return planned


def _last_by_settings(event: Any, run: Fields) -> list[Step]:
    """The last iterate of a linear head, whose steps contract by max(|1 - hλ|, |1 - h(λ + B²/2)|), B² = r² + 1.

    Gradients have norm √2 B at most, so that none is clipped.
    """
    method = run.method
    sampling = run.sampling
    one = last_alone(event)
    step, ridge = ball(method.step_size), ball(method.ridge)
    square = ball(method.row_norm) ** 2 + 1
    proved = max(
        abs(1 - step * ridge), abs(1 - step * (ridge + square / 2))
    )
    require(
        one
        and one["steps"] == sampling.steps
        and proved <= ball(one["contraction"]) <= proved + 1e-12,
        "the event is not the last iterate of the settings' steps, by the contraction that they prove",
    )
    require(
        sampling.sample_rate == 1
        and sampling.get("clipping", "flat") == "flat"
        and run.architecture == "linear"
        and not method.get("momentum", 0)
        and ball(sampling.clip_norm) ** 2
        >= 2 * square * (1 - 1e-15),
        "the settings clip, sample or train what no contraction is proved of",
    )
    if given := sampling.noise_multiplier:
        same(
            "the noise of a step",
            one["inner"]["noise_multiplier"],
            given,
        )
        return [Step(1.0, noise_of_the_last(one))]
    return [
        Step(1.0, _noise_for_the_budget(steps_of(event), run, 1))
    ]


def _with_count(run: Fields, noise: float) -> float:
    """Of a sum and, where a quantile of the norms is followed, the count: 1/σ² = 1/z² + 1/(2σ_b)²."""
    count = run.sampling["count_noise"]
    return noise_of_all([noise, 2 * count]) if count else noise


def _noise_for_the_budget(
    made: list[Step], run: Fields, count: int
) -> float:
    """The noise multiplier that keeps so many steps to the budget, which 3% less would not."""
    sampling = run.sampling
    noise = made[0].noise
    step = Step(sampling.sample_rate, noise)
    quieter = step._replace(noise=0.97 * noise)
    within = affordable([step] * count, run)
    if within is None:
        raise Unchecked(
            "whether these steps keep to the budget lies between what this checker shows and refutes"
        )
    require(
        within and not affordable([quieter] * count, run),
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
    if method.convention == "gradient-slot":
        heat = 2 * method.temperature
        noises = [sqrt(heat * h) for h in sizes]
    elif method.convention == "parameter-slot":
        share = sampling.sample_rate / method.drift
        noises = [
            sqrt(method.noise / h) * share / clip for h in sizes
        ]
    else:
        same("the convention", method.convention, "tempered")
        first = sizes[0]
        noise = batch * noise_of_one(run, first) or made[0].noise
        noises = [noise * sqrt(first / h) for h in sizes]
    return [_with_count(run, noise) for noise in noises]


def relation(run: Fields) -> tuple[float, bool]:
    """The delta of what is printed of a run, and whether it is for replace-one neighbours.

    It is where the number of records is public: sums are divided by it, or batches drawn at a rate that names it.
    """
    if "budget" not in run:
        return 1e-5, True  # a chain
    budget = run.budget
    return (
        budget.delta,
        replaces(budget.adjacency) or not run.sampling.public_size,
    )


def steps_paid_for(
    event: Any, made: int, planned: list[Step], run: Fields
) -> list[Step]:
    """The mechanisms that a certificate pays for: those made, and those that the budget has left of the plan."""
    count = len(steps_of(event))
    all_of_them = len(planned)
    more = planned[: count + 1]
    odd = f"{count} steps are paid for, {made} were made and {all_of_them} planned"
    require(made <= count <= all_of_them, odd)
    require(
        count == made
        or affordable(planned[:count], run) is not False,
        f"{odd}, and the budget ends the run before",
    )
    require(
        count == all_of_them
        or not affordable(more, run, share=0.99),
        f"{odd}, and the run was to make more",
    )
    return planned[:count]


def affordable(
    steps: list[Step], run: Fields, share: float = 1.0
) -> bool | None:
    """Whether steps keep to a share of the run's epsilon; None where that is undecided."""
    budget = run.budget
    return private(
        steps,
        share * budget.epsilon,
        budget.delta,
        replaces(budget.adjacency),
    )


_SOURCES = {
    True: (
        "SeededRandomness",
        "seeded: can be repeated and subtracted",
    ),
    False: ("SystemRandomness", "secret"),
}
"""What draws the noise of a run, and how the noise is called, by whether the run can be repeated."""
_MECHANISM = """
header.kind = kind
budget = run.budget
header.adjacency = event_adjacency
header.randomness = source
result.privacy.adjacency? = adjacency
result.privacy.delta? = run.budget.delta
result.privacy.counted? = counted
result.privacy.noise? = noise
"""


def check_mechanism(f: Folder) -> None:
    """Budget, noise and ledger are the same in header, configuration and result; the event is add-remove."""
    run = f.run
    counted = f.header.ledger is not None
    own = f.header.settings.mechanism.budget
    public = relation(run)[1]
    added = "add-remove"
    f.hold(
        _MECHANISM,
        budget={name: own[name] for name in run.budget},
        kind="private-run/1",
        event_adjacency=added,
        adjacency="replace-one" if public else added,
        source=_SOURCES[run.reproducible][0],
        noise=_SOURCES[run.reproducible][1],
        counted=counted,
    )
    if f.report["n"] is not None:
        f.hold("result.privacy.units? = report.n")
    if counted:
        raise Unchecked(
            "the ledger that counted the run's steps is not in the folder; the rest agrees"
        )


def check_spent(f: Folder) -> None:
    """The epsilon of the last row, and of the result, is what ran; what was spent is within the budget."""
    made = steps_of(f.header.event)
    result = f.result
    if reported := f.report.part("details")["spent"]:
        said = reported.delta, replaces(reported.adjacency)
        same("delta and neighbours", said, relation(f.run))
    for row in f.rows[-1:]:
        _check_epsilon(f, made, row.step, row)
    if result is None:
        return
    spent = result.privacy
    budget = f.run.budget
    require_bracket(spent)
    _check_epsilon(f, made, result.steps, spent)
    if "of_budget" not in spent:
        raise Unchecked(
            "the result is of an earlier version, which took the number of records for private"
        )
    own = spent.of_budget
    ran = made[: result.steps]
    same("what the budget counts", own.adjacency, budget.adjacency)
    require(
        own.epsilon <= budget.epsilon
        and private(
            ran,
            own.epsilon,
            spent.delta,
            own.adjacency == "replace-one",
        )
        is not False,
        f"epsilon {own.epsilon!r} of the budget is not what was spent, or more than there is",
    )


def _check_epsilon(
    f: Folder, made: list[Step], steps: int, said: Fields
) -> None:
    """What ran is private at the epsilon that is said, and not at 5% less."""
    epsilon = said.epsilon
    delta = said.delta
    what = f"epsilon {epsilon!r} at delta {delta!r} after {steps} steps"
    planned, replaced = relation(f.run)
    ran = made[:steps]
    ended = made_in(f.header.event)
    require(steps <= ended, f"{what} is said, and {ended} ran")
    require(
        delta == planned and affordable(ran, f.run) is not False,
        f"{what} is not within the budget",
    )
    less = epsilon and private(ran, 0.95 * epsilon, delta, replaced)
    require(not less, f"{what} is more than what ran costs")
    require_private(what, ran, epsilon, delta, replaced)
