"""A private run: its mechanism by header, settings and result, and what it spent of its budget."""

from collections import Counter

from pacdp.verify.claim import Fields, Unchecked, Wrong
from pacdp.verify.events import Step, steps_in_order
from pacdp.verify.folder.private_plan import affordable, relation
from pacdp.verify.folder.read import Folder
from pacdp.verify.loss import private


def check_mechanism(f: Folder) -> None:
    """Budget, noise and ledger are the same in header, configuration and result; the event is add-remove."""
    header, budget = f.header, f.run.budget
    in_header = dict(header.settings.mechanism.budget)
    in_header.pop("kind", None)
    if in_header != budget:
        raise Wrong("the header's budget is not that of its run")
    if header.adjacency != "add-remove":
        raise Wrong(
            f"the header's event is about {header.adjacency} neighbours"
        )
    source = "SeededRandomness" if f.run.reproducible else "SystemRandomness"
    if header.randomness != source:
        raise Wrong(
            f"the header's noise is of {header.randomness}, and the run's of {source}"
        )
    _check_words_of_the_result(f)
    if header.ledger is not None:
        raise Unchecked(
            "the ledger that counted the run's steps is not in the folder; the rest agrees"
        )


def _check_words_of_the_result(f: Folder) -> None:
    said = (f.result or Fields()).part("privacy")
    budget = f.run.budget
    secret = not f.run.reproducible
    expected = {
        "adjacency": "replace-one" if relation(f.run)[1] else budget.adjacency,
        "delta": budget.delta,
        "counted": f.header.ledger is not None,
    }
    if f.report:
        expected["units"] = f.report.n
    for name, one in expected.items():
        if said.get(name, one) != one:
            raise Wrong(
                f"the result's {name} is {said[name]!r}, and it is {one!r}"
            )
    if "noise" in said and (said.noise == "secret") != secret:
        raise Wrong(
            f"the result calls the noise {said.noise!r}, and it is of {f.header.randomness}"
        )


def check_spent(f: Folder) -> None:
    """The epsilon of the last row, and of the result, is what ran; what was spent is within the budget."""
    made = steps_in_order(f.header.event)
    said = {row.step: (row.epsilon, row.delta) for row in f.rows[-1:]}
    if f.result is not None:
        spent = f.result.privacy
        if spent.epsilon != spent.upper:
            raise Wrong(
                f"the result's epsilon is {spent.epsilon!r}, and its upper end {spent.upper!r}"
            )
        said[f.result.steps] = spent.upper, spent.delta
        _check_within_budget(f, made[: f.result.steps])
    for step, (epsilon, delta) in said.items():
        if step > len(made):
            raise Wrong(
                f"epsilon is {epsilon!r} after {step} steps, and {len(made)} ran"
            )
        _check_epsilon(f, made[:step], epsilon, delta)


def _check_epsilon(
    f: Folder,
    ran: list[Step],
    epsilon: float,
    delta: float,
) -> None:
    """What ran is private at this epsilon, and not at 5% less."""
    planned, replaced = relation(f.run)
    if delta != planned or affordable(ran, f.run) is False:
        raise Wrong(
            f"epsilon {epsilon!r} at delta {delta!r} is not within the budget"
        )
    found = private(Counter(ran), epsilon, delta, replaced)
    less = epsilon and private(Counter(ran), 0.95 * epsilon, delta, replaced)
    if found is False or less:
        raise Wrong(
            f"epsilon is {epsilon!r} after {len(ran)} steps, which is not what ran"
        )
    if found is None:
        raise Unchecked(
            f"epsilon {epsilon!r} is between what this checker shows and what it refutes"
        )


def _check_within_budget(f: Folder, ran: list[Step]) -> None:
    """What the result says was spent, for the budget's own neighbours, is what ran and within the budget."""
    privacy, budget = f.result.privacy, f.run.budget
    if "of_budget" not in privacy:
        raise Unchecked(
            "the result is of an earlier version, which took the number of records for private"
        )
    spent = privacy.of_budget
    if spent.epsilon > budget.epsilon or spent.adjacency != budget.adjacency:
        raise Wrong(
            f"epsilon {spent.epsilon!r}, {spent.adjacency}, is not within the budget"
        )
    if (
        private(
            Counter(ran),
            spent.epsilon,
            privacy.delta,
            spent.adjacency == "replace-one",
        )
        is False
    ):
        raise Wrong(
            f"what ran spent more of the budget than epsilon {spent.epsilon!r}"
        )
