"""A deployed predictor's losses, watched at all times: limits of its running risk, and an alarm above a certificate.

``Monitor`` is a frozen record: ``observe`` returns the next one, and ``to_json`` writes it bit for bit. It may be
looked at after every loss, for ever, and one may stop whenever one likes: its probabilities are of anything going wrong
at any time. Proofs: docs/guarantees.md, "Limits at all times" and "An alarm". Arguments out of range raise ValueError.

Limits of the mean conditional risk come from three sums: how many losses, their sum, their spread. Supermartingales for
many bets are mixed with fixed weights: exp(-λ Σx) / Π(1 - μ_i (1 - e^(-λ))), which is exact for errors, and exp(η Σ(μ_i
- x_i) - c_η Σ(x_i - x̂_i)²), which knows losses that vary little.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
import json
from dataclasses import asdict, fields, replace
from math import exp, expm1, fsum, inf, log, log1p, nan, nextafter
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike

from bounds import _check
from bounds._arithmetic import inward, jit, least, log_inverse, outward, total
from bounds._check import (
    Array,
    as_given,
    count,
    json_record,
    nonnegative,
    open_probability,
    probability,
    rates,
    reals,
    whole,
)
from bounds.certificate import Certificate
from bounds.exchangeability import first_alarm, p_value, played
from bounds.hypotheses import Hypothesis, declared, proved, standing
from bounds.means import eta_cost
from bounds.numbers import confidence, down, up
from bounds.record import record

FORMAT = "pacdp-monitor/1"
_ODDS = (1.1, 1.25, 1.5, 2.0, 3.0, 5.0, 10.0, 30.0)
"""How many times the promised odds of a loss the bets of the alarm count on."""
_IN_ORDER = "each loss counts when the losses of all earlier examples are there, whenever its label comes"
_RATES = tuple(6.0 * 0.625**k for k in range(24))
_ETAS = tuple(0.8 * 0.6**k for k in range(18))
_SHARES = (outward(log(2.0 * len(_RATES))), outward(log(2.0 * len(_ETAS))))
_DROPS = tuple(inward(-expm1(-rate)) for rate in _RATES)
_SLACK = 2.0**-48
"""Of an exponent, over the size of its parts: some eight roundings."""


@record
class Monitor:
    """What is known of the risk of a deployed predictor from its losses so far; ``Monitor.start`` makes the first one.

    Formal guarantee: let μ_i be the expectation of the i-th loss that is counted, given everything that was known when
    it was decided which loss is the i-th. (a) The probability that the running risk (μ_1 + ... + μ_n)/n lies outside
    [lower, upper] at any n is at most failure_prob, however the μ_i change. (b) If no μ_i exceeds ``promised``, the
    probability of an alarm, ever, is at most false_alarm_prob. If losses are counted in an order that is blind to them,
    and new data follow one law, each μ_i is the risk.

    Attributes:
        promised: what the risk is to stay below, such as a certificate's value; strictly between 0 and 1.
        failure_prob: of the limits, half for each.
        false_alarm_prob: of the alarm.
        promise_failure_prob: the probability that ``promised`` is no bound of the risk even under the same law.
        n: losses that were counted.
        loss_sum: their sum, but for rounding.
        spread: the sum of their squared distances from the mean before each, but for rounding.
        wealth: of the bets of the alarm, as a tuple.
        evidence: the whole wealth, an e-value against "no μ_i exceeds promised".
        peak: its largest value so far.
        alarm: the number of losses after which the alarm was raised; None while it was not.
        ordered: whether losses come with their positions; None before the first.
        waiting: positions and losses of examples whose turn has not come.
    """

    promised: float
    failure_prob: float
    false_alarm_prob: float
    promise_failure_prob: float = 0.0
    n: int = 0
    loss_sum: float = 0.0
    spread: float = 0.0
    wealth: tuple[float, ...] = (0.0,) * len(_ODDS)
    evidence: float = 1.0
    peak: float = 1.0
    alarm: int | None = None
    ordered: bool | None = None
    waiting: tuple[tuple[int, float], ...] = ()

    def __post_init__(self) -> None:
        sums = dict.fromkeys(("loss_sum", "spread", "evidence", "peak"), nonnegative)
        _check.fields(self, promised=open_probability, promise_failure_prob=probability, n=_check.whole, **sums)
        if self.false_alarm_prob + self.promise_failure_prob >= 1.0:
            raise ValueError(
                f"promise_failure_prob must be less than 1 - false_alarm_prob, got {self.promise_failure_prob!r}: an "
                "alarm would say nothing."
            )
        wealth, waiting = reals("wealth", self.wealth, nonnegative), _pairs(self.waiting)
        fits = self.loss_sum <= self.n and self.spread <= self.n and self.evidence <= self.peak < inf
        if not fits or len(wealth) != len(_ODDS) or max(wealth) == inf:
            raise ValueError("wealth and sums must fit each other: take what observe returns, or start anew.")
        if self.ordered not in (None, True, False):
            raise ValueError(f"ordered must be None or a bool, got {self.ordered!r}; take what observe returns.")
        if self.alarm is not None and count(alarm=self.alarm) > self.n:
            raise ValueError(f"alarm must be the number of a loss that was counted, got {self.alarm!r} of {self.n}.")
        if any(place < self.n for place, _ in waiting) or (waiting and not self.ordered):
            raise ValueError("waiting must hold losses whose turn has not come; take what observe returns.")
        object.__setattr__(self, "wealth", wealth)
        object.__setattr__(self, "waiting", waiting)

    @classmethod
    def start(cls, promised: Certificate | float, *, failure_prob: float, false_alarm_prob: float) -> "Monitor":
        """A monitor that has seen nothing, of the risk that a certificate or a number promises.

        Args:
            promised: a certificate of the mean of such losses, without weights, or what it is to stay below.
            failure_prob: probability that the limits of the running risk are wrong at any time.
            false_alarm_prob: probability of an alarm, ever, while the risk stays below what was promised.
        """
        value, certain = promised, 0.0
        if isinstance(promised, Certificate):
            value, certain = promised.value, promised.failure_prob
        if value == 1.0:
            raise ValueError("promised must be below 1, got a vacuous certificate, which no loss can refute.")
        given: dict[str, Any] = {"promised": value, "promise_failure_prob": certain}
        return cls(failure_prob=failure_prob, false_alarm_prob=false_alarm_prob, **given)

    def observe(self, losses: ArrayLike, *, positions: ArrayLike | None = None) -> "Monitor":
        """The monitor after more losses.

        Args:
            losses: numbers in [0, 1]. Without ``positions`` they are counted in the order in which they are given,
                over all calls, and somebody has to vouch that this order is blind to them: which loss comes next may
                depend on losses that came before, and on nothing else that tells how large it is.
            positions: the number of each loss's example in the order in which the examples came, from 0. Then labels
                may come late and in any order, even one that depends on the losses: a loss is counted once those of
                all earlier examples are there, and waits until then.
        """
        values = _losses(losses)
        ordered = positions is not None
        if self.ordered not in (None, ordered):
            raise ValueError("positions must be given always or never, since two orders cannot be mixed; start anew.")
        if not ordered:
            return replace(self, ordered=False)._counting(values)
        waiting = self._joined(values, positions)
        turn: list[float] = []
        while (loss := waiting.pop(self.n + len(turn), None)) is not None:
            turn.append(loss)
        counted = replace(self, ordered=True, waiting=())._counting(np.array(turn))
        return replace(counted, waiting=tuple(sorted(waiting.items())))

    @property
    def mean(self) -> float:
        """The mean of the losses; NaN before the first."""
        return self.loss_sum / self.n if self.n else nan

    @property
    def upper(self) -> float:
        """The upper limit of the running risk."""
        slack = 1.0 + (self.n + 16.0) * 2.0**-50
        return running_mean_upper(
            self.n, min(float(self.n), self.loss_sum * slack), self.spread * slack, 0.5 * self.failure_prob
        )

    @property
    def lower(self) -> float:
        """The lower limit of the running risk."""
        slack = (self.n + 16.0) * 2.0**-50
        return running_mean_lower(
            self.n, self.loss_sum * (1.0 - slack), self.spread * (1.0 + slack), 0.5 * self.failure_prob
        )

    @property
    def p_value(self) -> float:
        """One over the largest evidence so far, rounded up: a p-value of (b) wherever one stops."""
        return p_value(self.peak)

    def hypothesis(self) -> Hypothesis:
        """Why the expectation of each loss, given what was known when it was counted, is the risk."""
        if self.ordered:
            return proved("order blind to the losses", _IN_ORDER)
        return declared("order blind to the losses", "the caller of bounds.Monitor.observe")

    def certificate(self) -> Certificate:
        """The upper limit of the running risk as a certificate, at half of failure_prob."""
        fixed = declared("settings fixed beforehand", "the caller of bounds.Monitor.start")
        return Certificate(
            name="Monitor",
            value=self.upper,
            failure_prob=0.5 * self.failure_prob,
            of="deployed predictor",
            measures="mean risk so far",
            hypotheses=standing("Monitor", given=(fixed, self.hypothesis())),
            terms={"empirical_risk": min(1.0, self.mean)} if self.n else {},
            budget={"upper limit": 0.5 * self.failure_prob},
            reference='Howard, Ramdas, McAuliffe and Sekhon 2021; docs/guarantees.md, "Limits at all times"',
            inputs={"n": self.n, "loss_sum": self.loss_sum, "spread": self.spread, "failure_prob": self.failure_prob},
        )

    def __str__(self) -> str:
        late = (
            f" {len(self.waiting)} more wait{'s' * (len(self.waiting) == 1)} for earlier ones, first that at position "
            f"{self.n} (positions count from 0)."
            if self.waiting
            else ""
        )
        if not self.n:
            return f"No loss has been counted yet.{late}"
        said = (
            f"{self.n} losses with mean {self.mean:.4f}: the running risk lies between {down(self.lower)} and "
            f"{up(self.upper)}, with {confidence(self.failure_prob)} confidence at all times together.{late}"
        )
        if self.alarm is None:
            return (
                f"{said} No alarm: the evidence that the risk exceeds {self.promised:.4g} is {self.evidence:.3g}, of "
                f"{1.0 / self.false_alarm_prob:.4g} that an alarm takes."
            )
        either = fsum((self.false_alarm_prob, self.promise_failure_prob)) * (1.0 - 2.0**-50)  # decimals add up
        return (
            f"{said} ALARM after {self.alarm} losses: if they are independent draws of the law for which their mean, "
            f"without weights, was promised to be at most {self.promised!r}, an alarm is ever raised with "
            f"probability at most {up(either)}."
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain types for JSON."""
        return {"format": FORMAT, **asdict(self)}

    def to_json(self) -> str:
        """JSON text from which ``from_json`` restores the same monitor, every float bit for bit."""
        return json.dumps(self.to_dict(), allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> "Monitor":
        """The monitor in ``text``. Raises ValueError when it is not JSON or not a monitor."""
        record = json_record(text)
        names = {"format", *(one.name for one in fields(cls))}
        if not isinstance(record, dict) or set(cast(Any, record)) != names or record["format"] != FORMAT:
            raise ValueError(f"text must be a monitor of format {FORMAT!r}; pass what to_json wrote.")
        return cls(**{name: value for name, value in cast(Any, record).items() if name != "format"})

    def _joined(self, values: Array, positions: Any) -> dict[int, float]:
        """The losses that wait with the new ones among them."""
        places = as_given(positions)
        if places.shape != values.shape or places.dtype.kind not in "iu":
            raise ValueError(f"positions must be one whole number for each of the {values.size} losses, from 0.")
        found = dict(self.waiting)
        given: dict[int, float] = dict(zip(places.tolist(), values.tolist(), strict=True))
        if len(given) < values.size or found.keys() & given.keys() or any(place < self.n for place in given):
            raise ValueError("positions must be new, each given once, got one whose loss is there; leave it out.")
        return found | given

    def _counting(self, values: Array) -> "Monitor":
        """The monitor after these losses, in their order."""
        sums = np.array([float(self.n), self.loss_sum, self.spread])
        _add(values, sums)
        arms, wealth = played(
            np.array(self.wealth), lambda part: _factors(values[part], self.promised), values.size, self.n
        )
        crossed = first_alarm(wealth, self.false_alarm_prob) if self.alarm is None else None
        return replace(
            self,
            n=self.n + int(values.size),
            loss_sum=float(sums[1]),
            spread=float(sums[2]),
            wealth=tuple(arms.tolist()),
            evidence=float(wealth[-1]) if wealth.size else self.evidence,
            peak=float(wealth.max(initial=self.peak)),
            alarm=self.alarm if crossed is None else self.n + crossed,
        )


def _factors(losses: Array, promised: float) -> Array:
    """(1 + (o - 1) x)/(1 + (o - 1) promised) for each of the odds o: of expectation at most 1 while the risk is."""
    more = np.array(_ODDS) - 1.0
    return (1.0 + losses[:, None] * more) / (1.0 + more * promised)


@jit
def _add(losses: Array, sums: Array) -> float:
    """Count, sum and spread after these losses, each compared with the mean of those before and of one half."""
    for x in losses:
        centre = (0.5 + sums[1]) / (1.0 + sums[0])
        sums[2] += (x - centre) ** 2
        sums[1] += x
        sums[0] += 1.0
    return sums[1]


def _losses(values: Any) -> Array:
    losses = np.ascontiguousarray(np.atleast_1d(rates("losses", values)))
    if losses.ndim != 1:
        raise ValueError(f"losses must be a list of numbers, got shape {losses.shape}; flatten it.")
    return losses


def _pairs(waiting: Any) -> tuple[tuple[int, float], ...]:
    """``waiting``, if it is pairs of a position and a loss."""
    pairs = _check.pairs("waiting", waiting)
    return tuple((whole(waiting=place), probability(waiting=loss)) for place, loss in pairs)


def running_mean_upper(n: int, loss_sum: float, spread: float, failure_prob: float) -> float:
    """The largest mean that the mixture does not refute, rounded up.

    Formal guarantee: for losses in [0, 1] whose expectations given what came before are μ_1, μ_2, ..., the probability
    that (μ_1 + ... + μ_n)/n exceeds this limit at any n is at most failure_prob, if ``loss_sum`` is at least their sum
    and ``spread`` at least Σ (x_i - x̂_i)², where x̂_i in [0, 1] is a function of what came before.
    """
    level = log_inverse(failure_prob)
    if n == 0 or _mixture(1.0, n, loss_sum, spread) < level:
        return 1.0
    mean = min(1.0, loss_sum / n)
    return least(lambda at: _mixture(at, n, loss_sum, spread) >= level, mean, 1.0, relative=1e-11, absolute=1e-13)


def running_mean_lower(n: int, loss_sum: float, spread: float, failure_prob: float) -> float:
    """The smallest mean that the mixture does not refute, rounded down: one minus the upper limit of 1 - x.

    Formal guarantee: as for ``running_mean_upper``, ``loss_sum`` being at most the sum of the losses.
    """
    rest = min(float(n), nextafter(n - loss_sum, inf))
    return max(0.0, nextafter(1.0 - running_mean_upper(n, rest, spread, failure_prob), 0.0))


def _mixture(mean: float, n: int, loss_sum: float, spread: float) -> float:
    """The logarithm of the mixture at this mean, rounded down; it rises with the mean."""
    logs: list[float] = []
    for rate, drop in zip(_RATES, _DROPS, strict=True):
        if mean * drop >= 1.0:
            return inf
        gain, loss = -n * log1p(-mean * drop), rate * loss_sum
        logs.append(gain - loss - _SHARES[0] - _SLACK * (gain + loss + 8.0))
    for eta in _ETAS:
        gain, loss = eta * n * mean, total(eta * loss_sum, eta * eta_cost(eta) * spread)
        logs.append(gain - loss - _SHARES[1] - _SLACK * (gain + loss + 8.0))
    top = max(logs)
    return top + log(fsum(exp(one - top) for one in logs)) - 2.0**-45
