"""The risk for a new example when examples come in groups: a ratio of means, R = E[S]/E[N].

A person gives N examples with losses that sum to S. Whoever draws a new example from the whole population meets people
in proportion to how many examples they have, and the ratio is the risk of that example. Nobody may have more than
``most_examples`` of them, a number fixed beforehand (``bounds.people.thinned`` keeps to it). With K = examples /
most_examples, which is n when everyone gives as many as they may, the kl bound of n records becomes that of K.

Everywhere n counts people and ``examples`` all their examples, ``risk`` is the mean loss over those examples, and
``failure_prob`` the probability over the people (and, at another price, over the mechanism) that a bound fails.
Arguments out of range raise ValueError. Proofs: docs/people.md.
"""

from dataclasses import replace
from math import log1p

from bounds._arithmetic import inward, least, outward, total
from bounds._check import door
from bounds.certificate import Certificate
from bounds.kl import binary_kl_upper, log_xi
from bounds.means import ratio_betting_upper
from bounds.people import PeopleSample, checked
from bounds.prices import INDEPENDENT, Bill, Price, billed, of_people, of_weights, settled

NEW_EXAMPLE = "risk of a new example"


@door()
def new_example_betting(*, sample: PeopleSample, most_examples: int, failure_prob: float) -> Certificate:
    """The largest ratio that a fair game on Σ loss - R · size does not refute: ``ratio_betting_upper``.

    It sees how much people really differ, in size and in loss, and is the least of the bounds here for a predictor that
    did not meet these people.

    Formal guarantee: people drawn independently from one law, none of whom the predictor saw, who have at most
    ``most_examples`` examples, give a risk for a new example of at most ``value`` with probability at least
    1 - failure_prob.
    """
    sample = checked(sample)
    bill = _billed("new_example_betting", INDEPENDENT, sample.n, sample.examples, most_examples, failure_prob)
    if sample.largest > most_examples:
        raise ValueError(
            f"most_examples must be at least the {sample.largest} examples of one person of the sample, got "
            f"{most_examples!r}; drop the surplus by thinned(), or pass a limit that was known beforehand."
        )
    return settled(
        bill,
        ratio_betting_upper(sample.means, sample.sizes / most_examples, failure_prob),
        of="predictor",
        measures=NEW_EXAMPLE,
        terms={"empirical_risk": sample.example_risk},
        inputs={"risk": sample.example_risk},
        reference='Waudby-Smith and Ramdas 2024; docs/people.md, "Betting on a ratio"',
    )


@door()
def new_example_kl(
    *, risk: float, n: int, examples: int, most_examples: int, failure_prob: float, price: Price = INDEPENDENT
) -> Certificate:
    """The kl bound for a ratio, from totals alone.

    It is the largest r with K [kl(R̂‖r) - kl(R̂‖q(r))] < Λ, where q(r) < r solves n kl(q(r)‖r) = Λ and
    K = examples/most_examples. With K = n it is kl⁻¹(R̂, Λ/n). "One predictor" in docs/people.md.

    Formal guarantee: people drawn independently, who have at most ``most_examples`` examples and whom the predictor did
    not see, give a risk for a new example of at most ``value`` with probability at least 1 - failure_prob. At another
    price, for weights that are a function of what the price's mechanism released, over people and mechanism.
    """
    bill = _billed("new_example_kl", of_weights(price), n, examples, most_examples, failure_prob)
    return settled(
        bill,
        _kl_ratio_upper(risk, n, examples / most_examples, bill.total_nats),
        of="predictor",
        measures=NEW_EXAMPLE,
        terms={"empirical_risk": risk, "effective_people": examples / most_examples},
        inputs={"risk": risk},
        reference='docs/people.md, "One predictor"',
    )


@door()
def new_example_pac_bayes(
    *,
    risk: float,
    kl_nats: float,
    n: int,
    examples: int,
    most_examples: int,
    failure_prob: float,
    price: Price = INDEPENDENT,
) -> Certificate:
    """The PAC-Bayes-kl bound for a ratio: K = examples/most_examples takes the place of n.

        kl(R̂(Q) ‖ R(Q)) ≤ [ KL(Q‖P) + ln ξ(n) + Λ ] / K

    With K = n it is ``maurer``. "PAC-Bayes" in docs/people.md.

    Formal guarantee: people drawn independently from one law, who have at most ``most_examples`` examples, and a prior
    that was fixed before they were seen give R(Q) ≤ value for all Q simultaneously with probability at least
    1 - failure_prob. At another price, for a prior that is a function of what the price's mechanism released, over
    people and mechanism; the mechanism must protect all examples of a person together.
    """
    name, nats = "new_example_pac_bayes", {"kl": kl_nats, "log_xi": log_xi(n)}
    bill, people = (
        _billed(name, price, n, examples, most_examples, failure_prob, **nats),
        inward(examples / most_examples),
    )
    costs = tuple(replace(cost, per_example=outward(cost.nats / people)) for cost in bill.costs)
    return settled(
        bill._replace(costs=costs),
        binary_kl_upper(risk, total(*(cost.per_example for cost in costs))),
        measures=NEW_EXAMPLE,
        terms={"empirical_risk": risk, "effective_people": examples / most_examples},
        inputs={"risk": risk, "kl_nats": kl_nats},
        reference='Maurer 2004; docs/people.md, "PAC-Bayes"',
    )


def _billed(
    formula: str, price: Price, n: int, examples: int, most_examples: int, failure_prob: float, **nats: float
) -> Bill:
    """The bill of n people, if they can have so many examples."""
    if not n <= examples <= n * most_examples:
        raise ValueError(
            f"examples must lie between n = {n} and n times most_examples = {n * most_examples}, got {examples!r}; "
            f"count people in n and all their examples in examples."
        )
    bill = billed(formula, price, n, failure_prob, **nats)
    return of_people(bill._replace(inputs={**bill.inputs, "examples": examples, "most_examples": most_examples}))


def _kl_ratio_upper(risk: float, n: int, effective_people: float, nats: float) -> float:
    """The bound of ``new_example_kl``, rounded up, by bisection over q.

    A point q is used only when it refutes r(q), the upper inverse of kl at q, by more than its rounding error: with
    the ends of the interval of 64 ulp in which r(q) lies, each where it hurts.
    """
    per_person = outward(nats / n)
    level = outward(n * per_person)
    if not per_person < 40.0:  # the inverse of kl is 1
        return 1.0
    wrong = outward(risk * effective_people)
    right = inward((1.0 - risk) * effective_people)

    def refuted(q: float) -> float | None:
        """r(q), rounded up, if the sample refutes it."""
        high = binary_kl_upper(q, per_person)
        low = max(q, high * (1.0 - 2.0**-46))
        if high >= 1.0 or (q == 0.0 and wrong > 0.0):
            return None
        gain = right * inward(log1p((low - q) / (1.0 - low)))
        loss = 0.0 if wrong == 0.0 else wrong * outward(log1p((high - q) / q))
        return high if inward(gain) >= total(loss, level) else None

    if (value := refuted(0.0)) is not None:
        return value
    return refuted(least(lambda q: refuted(q) is not None, 0.0, 1.0, relative=1e-12)) or 1.0
