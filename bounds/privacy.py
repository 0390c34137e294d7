"""What a mechanism promises, as plain records, and the budget of the exponential mechanism.

A bound for a private prior compares what the mechanism did with what it would have done without one record (the
"remove" direction of add-remove adjacency), or with that record replaced by a fixed other one, a ghost (replace-one).
Either adjacency therefore serves as it is, at no factor; only pure privacy is better served by replace-one.

Every notion is about neighbouring data sets S, S' and the mechanism M's outputs on both. Parameters are zero or more,
and infinity promises nothing; parameters out of range and unknown words raise ValueError.
"""

from collections.abc import Mapping
from dataclasses import asdict, field, fields
from fractions import Fraction
from hashlib import sha256
from math import inf, isfinite, ulp
from typing import Any, Literal, Self, get_args

import numpy as np
from numpy.typing import ArrayLike

from bounds import _check
from bounds._arithmetic import outward
from bounds._check import Array, door, nonnegative, positive, probability, real, vector
from bounds.hypotheses import Hypothesis, unproved
from bounds.record import record

Adjacency = Literal["replace-one", "add-remove"]
PrivacyStatus = Literal["exact mechanism", "accounted", "assumes stationarity", "approximate accountant"]

_UNPROVED = {
    "assumes stationarity": unproved(
        "chain stationary", "nothing shows that the Markov chain of the privacy guarantee has reached its target"
    ),
    "approximate accountant": unproved(
        "accountant sound", "the accountant's approximation may understate the privacy loss"
    ),
}
# Masses come out of fast Fourier transforms: room for their noise, and for rounding masses up.
_NOISE = 1e-6


@record
class PrivacyClaim:
    """What every privacy record has: the neighbours it is about, and who vouches for it.

    Attributes:
        adjacency: "replace-one" (same size, one record changed) or "add-remove" (one record more or less).
        status: "exact mechanism" (the law that the theorem is about was sampled), "accounted" (an accountant
            proved it), "assumes stationarity" (a Markov chain stood in for the law), or "approximate accountant" (a
            central limit theorem or another unproved number). Certificates that use the last two are optimistic.
        event: the mechanism that it was accounted from, as ``accounting.event_to_json`` writes it, for whoever checks
            the promise; empty where there is none. It is not part of the promise: records that differ in it are equal.
    """

    notion = ""
    described = ""

    adjacency: Adjacency
    status: PrivacyStatus
    event: str = field(default="", compare=False, repr=False)

    def __post_init__(self) -> None:
        self._check_numbers()
        one_of(Adjacency, adjacency=self.adjacency)
        one_of(PrivacyStatus, status=self.status)

    def _check_numbers(self) -> None:
        """Refuse parameters out of range."""
        _check.fields(self)

    @property
    def hypotheses(self) -> tuple[Hypothesis, ...]:
        """What a certificate that uses this record rests on besides; empty when the record is proved."""
        return (_UNPROVED[self.status],) if self.status in _UNPROVED else ()

    def to_dict(self) -> dict[str, Any]:
        """Plain types for JSON, with the notion of privacy under "notion"; without an event where there is none."""
        values = asdict(self)
        return {"notion": self.notion, **(values if self.event else {k: v for k, v in values.items() if k != "event"})}

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Self:
        """The record that ``to_dict`` wrote. Raises ValueError when it describes something else."""
        names = {one.name for one in fields(cls)}
        if set(record) | {"event"} != names | {"notion"} or record["notion"] != cls.notion:
            raise ValueError(f"record must describe {cls.described}, got one with the fields {sorted(record)!r}.")
        return cls(**{name: record[name] for name in names & set(record)})


@record
class PureDP(PrivacyClaim):
    """(epsilon, 0)-differential privacy.

    Formal guarantee (of the mechanism it describes): P(M(S) in event) ≤ exp(epsilon) · P(M(S') in event) for every
    event, epsilon in nats. ``Sharp`` needs it for replace-one adjacency; an epsilon for add-remove is at most 2 epsilon
    for replace-one.
    """

    notion = "pure"
    described = "pure differential privacy"

    epsilon: float


@record
class ApproxDP(PrivacyClaim):
    """(epsilon, delta)-differential privacy, in both directions.

    Formal guarantee (of the mechanism it describes): P(M(S) in event) ≤ exp(epsilon) · P(M(S') in event) + delta for
    every event; delta is a probability of differential privacy, no failure probability of a bound.
    """

    notion = "approximate"
    described = "(epsilon, delta)-differential privacy"

    epsilon: float
    delta: float


@record
class GaussianDP(PrivacyClaim):
    """mu-Gaussian differential privacy (Dong, Roth and Su 2022).

    Formal guarantee (of the mechanism it describes): M(S) is at least as hard to tell from M(S') as N(mu, 1) from
    N(0, 1), by any test. A Gaussian mechanism of sensitivity Δ and standard deviation σ has mu = Δ/σ, and compositions
    add up the squares. The number that a central limit theorem gives for subsampled mechanisms is no proof; such a
    record has the status "approximate accountant".
    """

    notion = "gaussian"
    described = "Gaussian differential privacy"

    mu: float


@record
class ZeroConcentratedDP(PrivacyClaim):
    """rho-zero-concentrated differential privacy (Bun and Steinke 2016).

    Formal guarantee (of the mechanism it describes): for every order above 1, the Rényi divergence of M(S) from M(S')
    is at most rho nats times the order. mu-GDP implies rho = mu²/2.
    """

    notion = "zero-concentrated"
    described = "zero-concentrated differential privacy"

    rho: float


@record
class PrivacyBound:
    """The promise (epsilon, delta) of an event; one of the two was given, the other lies in a bracket.

    Formal guarantee: where the status is "accounted", the event is (``epsilon``, ``delta``)-differentially private for
    the neighbours stated, both directions included: the number that was asked for is ``upper``.

    Attributes:
        lower: no mechanism of this description has to have less; exponential mechanisms are counted as free here.
        estimate: a guess in between, without a guarantee.
        upper: the number to report; ``epsilon`` (nats) or ``delta`` is the same number, whichever was asked for.
        adjacency: the neighbouring relation.
        status: "accounted" (proved), or "approximate accountant" (optimistic; for reproducing papers).
        method: the accountant, in words.
    """

    lower: float
    estimate: float
    upper: float
    epsilon: float
    delta: float
    adjacency: Adjacency
    status: PrivacyStatus = "accounted"
    method: str

    def __float__(self) -> float:
        return self.upper

    @property
    def guarantee(self) -> ApproxDP:
        """The record that bounds on the risk take."""
        return ApproxDP(epsilon=self.epsilon, delta=self.delta, adjacency=self.adjacency, status=self.status)

    def to_dict(self) -> dict[str, Any]:
        """Plain types for JSON."""
        return asdict(self)


def one_of(kind: Any, **words: object) -> None:
    """Refuse words that are none of this ``Literal``."""
    for name, word in words.items():
        if word not in get_args(kind):
            raise ValueError(f"{name} must be one of {', '.join(get_args(kind))}, got {word!r}.")


@door(beta=nonnegative, tau=nonnegative, loss_range=positive)
def exponential_mechanism_epsilon(*, beta: float, tau: float, loss_range: float, n: int) -> float:
    """The replace-one epsilon of one exact sample from density ∝ exp(beta · F(w; S)), rounded up.

    F is the local entropy ln ∫ exp(-tau R̂(w') - tau gamma/2 ‖w' - w‖²) dP(w'), or -tau R̂(w) itself, and R̂ the mean
    of n losses. Replacing one record moves F by at most tau · loss_range / n everywhere, hence

        epsilon = 2 · beta · tau · loss_range / n.

    Dziugaite and Roy (ICML 2018), "Entropy-SGD optimizes the prior of a PAC-Bayes bound", Theorem 4.4.

    Formal guarantee: holds for an exact sample from a normalisable density; a Markov chain that approximates it
    has this epsilon only if it is stationary.

    Args:
        beta: inverse temperature of the mechanism (no unit); zero or more.
        tau: inverse temperature of the loss, in nats per unit of mean loss; zero or more.
        loss_range: oscillation of the loss, its largest minus its smallest possible value.
        n: number of records.
    """
    if beta == 0.0 or tau == 0.0:
        return 0.0
    try:
        exact = 2 * Fraction(beta) * Fraction(tau) * Fraction(loss_range) / n
        return outward(max(ulp(0.0), float(exact)))
    except OverflowError:
        return inf


@record
class PrivacyLossDistribution(PrivacyClaim):
    """A pair of discrete laws (P, Q) that dominates (M(S), M(S without one record)), on a grid of privacy losses.

    The loss ln(P/Q) takes the values spacing · (lowest + k), k = 0, 1, ...; P is the mechanism with the record and Q
    the reference without it (or with a ghost in its place): the remove direction.

    Formal guarantee (of the mechanism it describes): some pair of laws on this grid and at ±infinity dominates
    (M(S), M_ref(S)) for every S and every record (max over events of P - γQ is at least that of the mechanism, for all
    γ ≥ 0), and its masses are at most those given: P's at losses ≥ 0 and at +infinity, Q's at losses < 0 and at
    -infinity. Masses rounded up are therefore sound, and sums may pass 1 slightly.

    Attributes:
        spacing: distance of neighbouring losses, in nats.
        lowest: index of the first loss; may be negative.
        with_record: masses under P.
        without_record: masses under Q, as many; at losses x ≥ 0 they should be P e^(-x) and below P should be Q e^x.
        infinity_mass: P's mass where Q vanishes; costs n times itself in failure probability.
        zero_mass: Q's mass where P vanishes.

    Raises ValueError when the arrays do not fit each other, a mass is negative or missing, or a word is not one of
    those of ``PrivacyClaim``.
    """

    notion = "privacy loss distribution"
    described = "a privacy loss distribution"

    spacing: float
    lowest: int
    with_record: Array
    without_record: Array
    infinity_mass: float
    zero_mass: float

    def _check_numbers(self) -> None:
        _check.fields(self, spacing=positive, infinity_mass=probability, zero_mass=probability)
        real(lowest=self.lowest)
        if isinstance(self.lowest, bool) or not isinstance(self.lowest, int):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ValueError(f"lowest must be a whole number, got {self.lowest!r}; pass an int.")
        for name, rest in (("with_record", self.infinity_mass), ("without_record", self.zero_mass)):
            masses = _masses(name, getattr(self, name))
            object.__setattr__(self, name, masses)
            total = float(masses.sum()) + rest
            if not 1.0 - _NOISE <= total <= 1.0 + _NOISE:
                raise ValueError(f"{name} must sum to 1 together with what is at infinity, got {total!r}.")
        size = self.with_record.size
        if size != self.without_record.size:
            raise ValueError(
                f"without_record must have as many masses as with_record, got {self.without_record.size} and {size}."
            )
        if self.spacing * (size + abs(self.lowest)) > 1e300:
            raise ValueError(
                f"spacing must leave losses below 1e300, got {self.spacing!r}; nothing is promised beyond."
            )
        x = self.losses
        decay = np.exp(-np.abs(x))
        larger = np.where(x >= 0.0, self.with_record, self.without_record)
        smaller = np.where(x >= 0.0, self.without_record, self.with_record)
        if float(np.abs(larger * decay - smaller).sum()) > _NOISE:
            raise ValueError(
                "without_record must be with_record · exp(-loss) up to rounding; check spacing and lowest."
            )

    @property
    def losses(self) -> Array:
        """The privacy losses of the grid, in nats."""
        return self.spacing * (np.arange(0.0, self.with_record.size) + self.lowest)

    @property
    def digest(self) -> str:
        """SHA-256 of the masses, in hexadecimal."""
        return sha256(self.with_record.tobytes() + self.without_record.tobytes()).hexdigest()

    def to_dict(self) -> dict[str, Any]:
        """Plain types for JSON, with the notion of privacy under "notion"; masses as lists."""
        values = PrivacyClaim.to_dict(self)  # super() would mean the class before it got slots
        return {name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in values.items()}

    def _key(self) -> tuple[Any, ...]:
        return self.spacing, self.lowest, self.infinity_mass, self.zero_mass, self.adjacency, self.status, self.digest

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PrivacyLossDistribution) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).from_dict, (self.to_dict(),)

    def __repr__(self) -> str:
        low, high = self.spacing * self.lowest, self.spacing * (self.lowest + self.with_record.size - 1)
        return (
            f"PrivacyLossDistribution({self.with_record.size} losses from {low:.6g} to {high:.6g}, "
            f"infinity_mass={self.infinity_mass!r}, adjacency={self.adjacency!r}, status={self.status!r})"
        )


def _masses(name: str, values: ArrayLike) -> Array:
    masses = vector(name, values).copy()
    if not (masses >= 0.0).all() or not isfinite(float(masses.sum())):
        raise ValueError(f"{name} must hold finite masses of at least 0, got {masses.min()!r} among them.")
    masses.flags.writeable = False
    return masses
