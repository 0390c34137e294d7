"""Several statements at once: the best of J certificates, a bound on top of Monte Carlo, a scale from a grid,
and a network that is certified by another one.

Arguments out of range, and a union that was not paid for, raise ValueError.

A network f is certified as it is by another one with a certificate, R(f) ≤ R(h) + P(f ≠ h) (Bazinet et al., "Bound to
Disagree", UAI 2026): f may have learnt from all the labelled records there are; h is the one that is certified on them,
and examples without labels say how often the two differ.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from math import ceil, exp, floor, fsum, log, pi
from typing import Any

from bounds import _check
from bounds._arithmetic import total
from bounds._check import count, door, positive
from bounds.budget import FailureBudget
from bounds.certificate import ROUNDING, Certificate
from bounds.hypotheses import declared_by, settings_tried, together
from bounds.means import clopper_pearson_upper
from bounds.monte_carlo import MONTE_CARLO
from bounds.record import record

PAC_STEP = "PAC step"
OTHERS = "other certificates compared"
_OF_EMPIRICAL_RISK = ("gibbs_risk_upper", "weighted_risk_upper", "correlated_risk_upper")
ZERO_ONE = "0-1 risk"
SURROGATE = "surrogate"
"""The entry of the budget that pays for the other network's certificate."""


def best_of(certificates: Sequence[Certificate], *, budget: FailureBudget | float) -> Certificate:
    """The certificate of least value among J, at the sum of all their failure probabilities.

    Choosing a prior, a checkpoint, a temperature C or a hyper-parameter by its certificate asks that all J hold
    together; so each must have been computed at its share, say ``budget.share("checkpoints compared", J)``. A
    certificate that holds for all posteriors at once needs no choice among posteriors to be paid: there, evaluate the
    chosen one.

    Formal guarantee: if each rigorous certificate exceeds its own risk except with its failure_prob, the one returned
    exceeds the risk of the predictor it is about with probability at least 1 - failure_prob, the sum. The hypotheses
    are those of all of them, each at its weakest standing, since all must hold together. Its input ``among`` lists
    name, predictor, value and failure probability of all that were compared, as JSON. A certificate that is one of J
    settings has a J-th of what it owes; all must be one of as many, and so is what is returned.

    Args:
        certificates: all that were looked at, also those discarded earlier; they measure one risk.
        budget: what their failure probabilities may sum to: a number, or a ledger of which so much is left.
    """
    certificates = _check.records("certificates", certificates, Certificate)
    if not certificates:
        raise ValueError("certificates must be at least one, got none; pass all that were compared.")
    measured = sorted({one.measures for one in certificates})
    if len(measured) > 1:
        raise ValueError(f"certificates must measure one risk, got {', '.join(measured)}; compare like with like.")
    counts = sorted({settings_tried(one.hypotheses) for one in certificates})
    if len(counts) > 1:
        raise ValueError(
            f"certificates must each be one of as many settings, got one of {counts[0]} and one of {counts[-1]}; make "
            f"all of them with pacdp's Settings.tried({counts[-1]}), since each must pay for all that were tried."
        )
    left = (budget if isinstance(budget, FailureBudget) else FailureBudget(budget)).left
    spent = fsum(one.failure_prob for one in certificates)
    if not (spent <= left * ROUNDING and spent < 1.0):
        raise ValueError(
            f"certificates must sum to a failure probability of at most {left:.12g}, got {spent:.12g}: to choose among "
            f"{len(certificates)}, divide failure_prob by {len(certificates)} and compute each of them anew."
        )
    position, best = min(enumerate(certificates), key=lambda pair: pair[1].value)
    among = [one for made in certificates for one in _compared(made)]
    chosen = _compared(best)[int(best.inputs.get("chosen_position", 0))]
    rest = (one.failure_prob for place, one in enumerate(certificates) if place != position)
    others = fsum((*rest, best.budget.get(OTHERS, 0.0)))
    return replace(
        best,
        name="best_of",
        failure_prob=spent,
        hypotheses=together(*(one.hypotheses for one in certificates)),
        terms={**best.terms, "compared": len(among)},
        budget={**best.budget, **({OTHERS: others} if others else {})},
        inputs={**best.inputs, "chosen": chosen[0], "chosen_position": among.index(chosen), "among": json.dumps(among)},
    )


def _compared(made: Certificate) -> list[list[Any]]:
    """Name, predictor, value and failure probability of a certificate, or of each that it was chosen among."""
    if "among" in made.inputs:
        return json.loads(str(made.inputs["among"]))
    return [[made.name, made.of, made.value, made.failure_prob]]


@door(risk=Certificate, budget=FailureBudget)
def overall_certificate(*, risk: Certificate, bound: Callable[..., Certificate], budget: FailureBudget) -> Certificate:
    """A risk certificate for a randomised predictor whose empirical risk was itself sampled: kl⁻¹ within kl⁻¹.

        R(Q) ≤ kl⁻¹( kl⁻¹(mean, ln(1/δ_MC)/N), [KL + ln ξ(n) + transfer(δ_PAC)]/n )

    for a bound of the kl family; any bound of this package that takes ``risk`` and ``failure_prob`` will do, as all of
    them increase in the risk. "The overall certificate" in docs/guarantees.md.

    >>> budget = FailureBudget(0.05).spend("Monte Carlo", 0.01).spend("PAC step", 0.04)
    >>> step = functools.partial(dp_pac_bayes, kl_nats=30.0, n=60_000, epsilon=0.01)
    >>> risk = gibbs_risk_upper(mean=0.02, draws=60_000, failure_prob=budget.spent["Monte Carlo"])
    >>> made = overall_certificate(risk=risk, bound=step, budget=budget)

    Formal guarantee: R(Q) ≤ value with probability at least 1 - failure_prob, all that the ledger has spent, if what a
    further entry pays for fails with at most that probability. It rests on the hypotheses of the risk and of the bound,
    each at its weakest standing.

    Args:
        risk: a certificate of R̂(Q), from ``gibbs_risk_upper``, ``weighted_risk_upper`` or ``correlated_risk_upper``.
        bound: called as bound(risk=..., failure_prob=...), with all else filled in.
        budget: a ledger with the entries "Monte Carlo", at least the failure probability of ``risk``, and "PAC step",
            at which the bound is evaluated. Other entries ("log partition", "prior grid") must already be in what
            ``bound`` was given, and are charged.
    """
    if risk.name not in _OF_EMPIRICAL_RISK:
        raise ValueError(f"risk must come from one of {', '.join(_OF_EMPIRICAL_RISK)}, got {risk.name!r}.")
    spent = dict(budget.spent)
    for name in (MONTE_CARLO, PAC_STEP):
        if name not in spent:
            raise ValueError(f"budget must have an entry {name!r}, got {sorted(spent)}; spend on it first.")
    _paid("risk", risk, spent[MONTE_CARLO], MONTE_CARLO)
    step = applied(bound, risk=risk.value, failure_prob=spent[PAC_STEP])
    _paid("bound", step, spent[PAC_STEP], PAC_STEP)
    return replace(
        step,
        name="overall_certificate",
        failure_prob=fsum(spent.values()),
        hypotheses=together(step.hypotheses, risk.hypotheses),
        terms={**step.terms, **risk.terms},
        budget=spent,
        reference=f"{step.reference}; {risk.reference}",
        inputs={f"monte_carlo_{name}": value for name, value in risk.inputs.items()}
        | {**step.inputs, "bound": step.name},
    )


def applied(bound: Callable[..., Certificate], **given: float) -> Certificate:
    """What ``bound`` says of these arguments. Raises ValueError when it makes no certificate."""
    try:
        made = bound(**given)
    except TypeError as error:
        raise ValueError(f"bound must be a function of {' and '.join(given)}, got {bound!r}: {error}.") from error
    return _check.records("bound(...)", (made,), Certificate)[0]


def _paid(word: str, made: Certificate, amount: float, entry: str) -> None:
    if made.failure_prob > amount * ROUNDING:
        raise ValueError(
            f"{word} must fail with at most the {amount:.12g} spent on {entry!r}, got {made.failure_prob:.12g}; "
            f"compute it at that failure_prob, and charge what else it rests on as further entries of the ledger."
        )


@record
class GridScale:
    """A prior scale on a grid, and what choosing it on the sample costs.

    Attributes:
        index: j, from 1.
        scale: largest · exp(-j/precision); use this number, not the one it was rounded from.
        nats: 2 ln j + ln(π²/6), to be added to KL(Q‖P), rounded up.
    """

    index: int
    scale: float
    nats: float


@door(scale=positive, largest=positive, precision=count)
def prior_scale_grid(*, scale: float, largest: float, precision: int) -> tuple[GridScale, ...]:
    """The neighbours of ``scale`` on the grid largest · e^(-j/precision), j = 1, 2, ..., with their costs in nats.

    Dziugaite and Roy 2017, "Computing nonvacuous generalization bounds" (largest = 0.1, precision = 100), as a union
    bound with weights 6/(π² j²): 2 ln j + ln(π²/6) nats on top of the divergence. A scale above the grid is answered by
    its first point, one between two points by both: certify with each, keep the better.

    Formal guarantee: if the prior P_j depends on j alone, then a bound for independent priors, given
    KL(Q‖P_j) + nats, holds for all j and Q at once, however j was chosen. ``largest`` and ``precision`` must be fixed
    before the sample was seen.

    Args:
        scale: the scale that training arrived at (a standard deviation or a variance: it is all one to the grid).
        largest: upper end of the grid.
        precision: points for every factor of e.
    """
    position = precision * (log(largest) - log(scale))
    near = sorted({max(1, floor(position)), max(1, ceil(position))})
    scales = {j: largest * exp(-j / precision) for j in near}
    if not any(scales.values()):
        raise ValueError(f"scale must be within reach of the grid, got {scale!r}; pass a larger one.")
    constant = log(pi**2 / 6.0)
    return tuple(
        GridScale(index=j, scale=value, nats=total(2.0 * log(j), constant)) for j, value in scales.items() if value
    )


@door(surrogate=Certificate)
def disagreement(*, surrogate: Certificate, k: int, n: int, failure_prob: float) -> Certificate:
    """R(f) ≤ R(h) + P(f ≠ h), the first by the certificate of h, the second by Clopper and Pearson's bound.

    Where f and h answer alike and h is right, f is right. So the 0-1 risk of f exceeds that of h by no more than the
    probability that they differ, for which no label is needed.

    Formal guarantee: if the certificate ``surrogate`` of h fails with probability at most its failure_prob, and the two
    networks saw none of n independent examples of the same law, on k of which they differ, then with probability at
    least 1 - failure_prob - surrogate.failure_prob f errs on a new example with probability at most ``value``. An
    example counts among the k where either of the two has no largest output.

    Args:
        surrogate: a certificate of the 0-1 risk of h, from records that f may have seen.
        k: examples on which the networks differ.
        n: examples, without labels.
        failure_prob: probability that the bound on P(f ≠ h) fails.
    """
    if surrogate.measures != ZERO_ONE:
        raise ValueError(
            f"surrogate must bound the {ZERO_ONE}, got {surrogate.measures!r}; other risks are no such sum."
        )
    apart = clopper_pearson_upper(k, n, failure_prob)
    own = declared_by("the caller of bounds.disagreement", "disagreement")
    return Certificate(
        name="disagreement",
        value=min(1.0, total(surrogate.value, apart)),
        failure_prob=total(surrogate.failure_prob, failure_prob),
        of="your network",
        measures=ZERO_ONE,
        hypotheses=together(surrogate.hypotheses, own),
        terms={"surrogate_risk": surrogate.value, "disagreement": apart},
        budget={SURROGATE: surrogate.failure_prob, "test set": failure_prob},
        inputs={"k": k, "n": n, "failure_prob": failure_prob,
                "surrogate": json.dumps(surrogate.to_dict(), allow_nan=False)},
        reference='Bazinet et al., UAI 2026; docs/guarantees.md, "Untouched networks"',
    )  # fmt: skip
