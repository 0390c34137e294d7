"""A private run: its mechanism by header, settings and result, and what it spent of its budget."""

from pacdp.verify.claim import Unchecked, require, same
from pacdp.verify.events import Step, steps_of
from pacdp.verify.files import Folder
from pacdp.verify.loss import private, require_private
from pacdp.verify.plan import affordable, relation


def check_mechanism(f: Folder) -> None:
    """Budget, noise and ledger are the same in header, configuration and result; the event is add-remove."""
    header = f.header
    run = f.run
    in_header = dict(header.settings.mechanism.budget)
    in_header.pop("kind", None)
    same("the header's budget", in_header, run.budget)
    same("the header's adjacency", header.adjacency, "add-remove")
    seeded = run.reproducible
    source = "SeededRandomness" if seeded else "SystemRandomness"
    same("the header's source of noise", header.randomness, source)
    said = f.result.part("privacy") if f.result else {}
    expected = {
        "adjacency": "replace-one"
        if relation(run)[1]
        else run.budget.adjacency,
        "delta": run.budget.delta,
        "counted": header.ledger is not None,
        "units": f.report["n"],
    }
    for name, one in expected.items():
        if one is not None:
            same(f"the result's {name}", said.get(name, one), one)
    require(
        "noise" not in said or (said["noise"] == "secret") != seeded,
        f"the result calls the noise {said.get('noise')!r}, and it is of {source}",
    )
    if header.ledger is not None:
        raise Unchecked(
            "the ledger that counted the run's steps is not in the folder; the rest agrees"
        )


def check_spent(f: Folder) -> None:
    """The epsilon of the last row, and of the result, is what ran; what was spent is within the budget."""
    made = steps_of(f.header.event)
    result = f.result
    if f.rows:
        row = f.rows[-1]
        _check_epsilon(f, made, row.step, row.epsilon, row.delta)
    if result is None:
        return
    spent = result.privacy
    budget = f.run.budget
    same("the result's epsilon", spent.epsilon, spent.upper)
    _check_epsilon(f, made, result.steps, spent.upper, spent.delta)
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
    f: Folder,
    made: list[Step],
    steps: int,
    epsilon: float,
    delta: float,
) -> None:
    """What ran is private at this epsilon, and not at 5% less."""
    what = f"epsilon {epsilon!r} at delta {delta!r} after {steps} steps"
    planned, replaced = relation(f.run)
    ran = made[:steps]
    require(steps <= len(made), f"{what} is said, and {len(made)} ran")
    require(
        delta == planned and affordable(ran, f.run) is not False,
        f"{what} is not within the budget",
    )
    less = epsilon and private(ran, 0.95 * epsilon, delta, replaced)
    require(not less, f"{what} is more than what ran costs")
    require_private(what, ran, epsilon, delta, replaced)
