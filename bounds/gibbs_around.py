"""PAC-Bayes around a Gibbs law that nobody draws: logistic heads with a ridge, and a Gaussian Q of any covariance.

π_S has the density ∝ exp(-U), U(w) = τ ‖w‖²/2 + (τ/N) Σ_i [ln(1 + e^u_i) - y_i u_i], u_i = ⟨x_i, w⟩, y_i 0 or 1, in
coordinates in which the ridge is the identity. With probability 1 - failure_prob, for all Gaussians Q at once and
every f of ``bounds.prices`` for each w,

    Σ_j w_j exp((1 - 1/α_j) E_Q f - E_Q Σ_i c_ij - KL(Q‖π_S)) ≤ 1/failure_prob,

c_ij the tilts of convex potentials ("Gibbs laws that nobody draws" in docs/guarantees.md). Nothing is sampled: for
Q = N(m, A Aᵀ/τ) every mean is a one-dimensional integral, and by the logarithmic Sobolev inequality
KL(Q‖π_S) ≤ (τ/2) B, with p_i = σ(⟨x_i, w⟩), a_ik its k-th Hermite coefficient under Q, s_i² = ‖Aᵀx_i‖²/τ,
ρ_ij = ⟨Aᵀx_i, Aᵀx_j⟩/(τ s_i s_j), t_i = E p_i² - Σ_{k<K} a_ik², and G = I + (1/N) Σ E[p_i(1 - p_i)] x_i x_iᵀ,

    B = ‖m + (1/N) Σ (a_i0 - y_i) x_i‖² + (1/τ) ‖G A - A^(-T)‖²
        + (1/N²) Σ_ij ⟨x_i, x_j⟩ Σ_{2≤k<K} a_ik a_jk ρ_ij^k + (1/N²) Σ_ij |⟨x_i, x_j⟩| |ρ_ij|^K √(t_i t_j).

Rounding of every sum, of the trapezoid rule and of its ends is added ("Evaluation", there).
"""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false
from collections.abc import Sequence
from dataclasses import fields
from math import ceil, comb, exp, expm1, floor, frexp, fsum, inf, pi, sqrt
from typing import Any, NamedTuple, Unpack

import numpy as np
from numpy.polynomial.hermite_e import hermevander
from numpy.typing import NDArray
from scipy.special import expit, factorial, log_ndtr, ndtr

from bounds import _check
from bounds._arithmetic import outward
from bounds._check import door, nonnegative
from bounds.gibbs_draws import gibbs_gradients
from bounds.noisy import Known, _Moments  # pyright: ignore[reportPrivateUsage]
from bounds.prices import Inputs
from bounds.record import record

Array = NDArray[np.float64]
_HALF_ULP = 2.0**-53
_BLOCK = 2500
_DEPTH = 40.0
"""Nats by which the trapezoid rule's error lies below the integrand on the edge of its strip."""
_MOST = 400.0
"""Squared ratios of spreads for which the trapezoid rule of several heads is made; others are errors, almost."""
LEAST_SCALE = 1e-60
"""Of τ/N: far below it squares of doubles are rounded to 0, and tilts with them."""
_ENDS = 14.0
"""Nodes go so many standard deviations either way."""
_MOST_NODES = 2**17


@record
class GibbsAround(_Moments):
    """The price of a Gaussian Q around a Gibbs law that nobody draws, M_j = α_j (E_Q Σ_i c_ij + divergence).

    It bounds the mean over Q of f, and nothing that is said of one draw of Q; KL is in it, so that formulas have none.

    Attributes:
        divergence: KL(Q‖π_S) at most, in nats.
        log_moments: α_j E_Q Σ_i c_ij for each order.
        records, orders, weights, hypotheses: as for ``RealisedSum``.
    """

    divergence: float

    called = "around_log_moments"
    prefix = "gibbs_around_"
    reference = 'docs/guarantees.md, "Gibbs laws that nobody draws"'
    pays_for_a_draw = False

    def __post_init__(self) -> None:
        _check.fields(self, divergence=nonnegative)
        _Moments.__post_init__(self)

    @property
    def inputs(self) -> Inputs:
        """The sums, the grid and the divergence."""
        sums = ", ".join(map(repr, self.log_moments))
        return {self.called: sums, **self._grid, "around_divergence": self.divergence}

    def _moments(self) -> tuple[float, ...]:
        return tuple(
            outward(moment + order * self.divergence)
            for moment, order in zip(self.log_moments, self.orders, strict=True)
        )


class Head(NamedTuple):
    """One logistic head: targets 0 or 1 of the records, and Q = N(mean, factor factorᵀ/τ) over its weights."""

    targets: Array
    mean: Array
    factor: Array


@door(exact_below=_check.count)
def gibbs_around(
    *,
    rows: Array,
    heads: Sequence[Head],
    tau: float,
    normaliser: int,
    exact_below: int = 2,
    **known: Unpack[Known],
) -> GibbsAround:
    """The price of heads that are independent under Q, one against the rest where there are several.

    Formal guarantee: "Gibbs laws that nobody draws" in docs/guarantees.md, for the numbers that are given, rounding of
    all that is computed here included.

    Args:
        rows: x_i, [n, dim], each a function of its record alone.
        heads: targets, mean and factor of each; mean and factor may depend on the sample in any way.
        tau, normaliser: τ and N, as for ``bounds.gibbs_draws.gibbs_range``.
        exact_below: K. At 2 no pair is looked at, |⟨x_i, x_j⟩| ≤ ‖x_i‖ ‖x_j‖ standing in its place; beyond, all are,
            and the bound is the less the larger K.
        known: orders (by default ``DRAW_ORDERS``), weights and hypotheses, as for ``RealisedSum``; fixed beforehand.
    """
    if exact_below < 2 or not heads:
        raise ValueError(
            f"exact_below must be at least 2 and heads not be empty, got {exact_below!r} and {len(heads)}; give 2, the "
            f"fastest."
        )
    for head in heads:
        _check_head(rows, head)
    scale = outward(tau / normaliser)
    if scale < LEAST_SCALE:
        raise ValueError(
            f"tau/normaliser must be at least {LEAST_SCALE:g}, got {scale!r}; its square would be rounded to 0."
        )
    found = [_Around(rows, head, tau, normaliser, exact_below) for head in heads]
    lengths = np.einsum("id,id->i", rows, rows) * (1.0 + _gamma(rows.shape[1] + 2))
    squares = sum(one.squared_errors for one in found)
    tilts = gibbs_gradients(
        squared_gradients=outward(scale * scale) * lengths * squares,
        smoothness=0.25 * scale * lengths,
        squared_lipschitz=len(found) * outward(scale * scale) * lengths,
        strong_convexity=tau,
        **known,
    )
    divergence = outward(fsum(one.divergence() for one in found))
    given: dict[str, Any] = {one.name: getattr(tilts, one.name) for one in fields(tilts)}
    return GibbsAround(divergence=divergence, **given)


def _check_head(rows: Array, head: Head) -> None:
    """Refuse numbers that do not fit each other, and rows for which nothing is random."""
    n, dim = rows.shape if rows.ndim == 2 else (0, 0)
    shapes = head.targets.shape, head.mean.shape, head.factor.shape
    finite = all(bool(np.isfinite(one).all()) for one in (rows, *head))
    if not n or shapes != ((n,), (dim,), (dim, dim)) or not finite or not bool(rows.any(axis=1).all()):
        raise ValueError(
            f"rows must be [n, dim], none of zeros alone, and each head have targets [n], mean [dim] and factor "
            f"[dim, dim], all finite, got {rows.shape} and {shapes}; give rows a bias."
        )
    if not bool(np.isin(head.targets, (0.0, 1.0)).all()):
        raise ValueError(
            f"targets must be 0 or 1, got {head.targets.min()!r} to {head.targets.max()!r}; code classes so."
        )


class Margins(NamedTuple):
    """⟨x_i, w⟩ under Q: centres μ_i and spreads s_i, and how far each may lie from the exact ones."""

    centres: Array
    spreads: Array
    away: float


def margins(rows: Array, mean: Array, factor: Array, tau: float) -> Margins:
    """The law of ⟨x_i, w⟩ for w ~ N(mean, factor factorᵀ/τ), which is normal."""
    dim, length = rows.shape[1], float(np.linalg.norm(rows, axis=1).max())
    spreads = np.concatenate([np.linalg.norm(rows[at] @ factor, axis=1) for at in _blocks(len(rows))])
    if not 0.0 < float(spreads.min()) <= float(spreads.max()) < inf:
        raise ValueError(
            f"factor must give every row a margin of positive, finite deviation, got {spreads.min()!r} to "
            f"{spreads.max()!r} for tau = 1; give the factor of a covariance of full rank."
        )
    size = float(np.linalg.norm(mean)) + float(np.linalg.norm(factor)) / sqrt(tau)
    return Margins(rows @ mean, spreads / sqrt(tau), _gamma(2 * dim + 8) * length * size)


class _Around:
    """What Q costs and how its heads err, for one head."""

    def __init__(self, rows: Array, head: Head, tau: float, normaliser: int, order: int) -> None:
        self.rows, self.head, self.tau, self.normaliser, self.order = rows, head, tau, normaliser, order
        self.lengths = np.linalg.norm(rows, axis=1) * (1.0 + _gamma(rows.shape[1] + 2))
        self.law = margins(rows, head.mean, head.factor, tau)
        self.coefficients, self.square, self.error = sigmoid_moments(self.law, order)
        first = self.coefficients[0]
        self.slopes = first - self.square  # E p(1 - p)
        targets = head.targets
        self.squared_errors = np.maximum(self.square - 2.0 * targets * first + targets, 0.0) + 4.0 * self.error

    def divergence(self) -> float:
        """KL(Q‖π_S) ≤ (τ/2) B."""
        pairs = self._without_pairs() if self.order == 2 else self._by_pairs()
        return 0.5 * self.tau * (self._at_the_mean() ** 2 + pairs) + 0.5 * self._of_the_slope() ** 2

    def _at_the_mean(self) -> float:
        """‖m + (1/N) Σ (a_i0 - y_i) x_i‖."""
        away = self.coefficients[0] - self.head.targets
        pull = self.rows.T @ away / self.normaliser
        whole = float(self.lengths.sum()) / self.normaliser
        slack = whole * (self.error + _gamma(len(away) + 4)) + 4.0 * _HALF_ULP * _norm(self.head.mean)
        return outward(_norm(self.head.mean + pull)) + outward(slack)

    def _of_the_slope(self) -> float:
        """‖G A - A^(-T)‖: what the covariance lacks of the inverse mean Hessian, which is 0 at the best one."""
        factor, dim = self.head.factor, len(self.head.mean)
        inner = np.eye(dim)
        for at in _blocks(len(self.rows)):
            inner += (self.rows[at] * self.slopes[at, None]).T @ self.rows[at] / self.normaliser
        whole = float((self.lengths**2).sum()) / self.normaliser
        inverse = np.linalg.inv(factor).T
        size, other = _norm(factor), _norm(inverse)
        left = _norm(np.eye(dim) - inverse @ factor.T) + _gamma(dim + 2) * size * other  # of I - J Aᵀ
        if not left < 0.5:
            return inf
        slack = whole * (2.0 * self.error + _gamma(len(self.rows) + 4)) * size
        slack += _gamma(dim + 4) * _norm(inner) * size + 2.0 * left * other
        return outward(_norm(inner @ factor - inverse)) + outward(slack)

    def _directions(self, at: slice) -> Array:
        """Aᵀx_i/(√τ s_i), of length 1."""
        return self.rows[at] @ self.head.factor / (sqrt(self.tau) * self.law.spreads[at, None])

    @property
    def _turned(self) -> float:
        """How far one of the directions may be from the exact one."""
        return 2.0 * self.law.away / float(self.law.spreads.min()) + _gamma(8)

    def _rests(self, order: int) -> Array:
        """√t_i, t_i = E p_i² - Σ_{k<K} a_ik², rounded up."""
        left = self.square - np.sum(self.coefficients[:order] ** 2, axis=0)
        return np.sqrt(np.maximum(left, 0.0) + (2.0 * order + 2.0) * self.error)

    def _without_pairs(self) -> float:
        """(1/N²) Σ_ij ‖x_i‖ ‖x_j‖ ρ_ij² √(t_i t_j) = (1/N²) ‖Σ_i ‖x_i‖ √t_i d_i d_iᵀ‖²."""
        shares, whole = self.lengths * self._rests(2), np.zeros_like(self.head.factor)
        for at in _blocks(len(shares)):
            turned = self._directions(at)
            whole += (turned * shares[at, None]).T @ turned
        slack = float(shares.sum()) * (3.0 * self._turned + _gamma(len(shares) + 4))
        return outward((_norm(whole) + outward(slack)) ** 2 / self.normaliser**2)

    def _by_pairs(self) -> float:
        """The sums over all pairs of records, a block of them at a time."""
        known, rest = self.coefficients[2 : self.order], self._rests(self.order)
        directions = np.concatenate([self._directions(at) for at in _blocks(len(rest))])
        whole = 0.0
        for one in _blocks(len(rest)):
            for other in _blocks(len(rest), one.start):
                times = 1.0 if one == other else 2.0
                alike = directions[one] @ directions[other].T
                product = self.rows[one] @ self.rows[other].T * alike
                for own in known:
                    product *= alike
                    whole += times * float(own[one] @ (product @ own[other]))
                np.abs(product * alike, out=product)
                whole += times * float(rest[one] @ (product @ rest[other]))
        terms = len(rest) + 2 * (self.order + 1) * directions.shape[1]
        relative = (self.order + 1.0) * 3.0 * self._turned + _gamma(terms)
        each = float(self.lengths.sum())
        slack = (self.lengths @ rest) ** 2 * relative
        for own in np.abs(known):
            sized = float(self.lengths @ own)
            slack += sized**2 * relative + self.error * each * (2.0 * sized + self.error * each)
        return outward((max(whole, 0.0) + outward(float(slack))) / self.normaliser**2)


def sigmoid_moments(law: Margins, order: int) -> tuple[Array, Array, float]:
    """a_ik = E[σ(μ_i + s_i g) He_k(g)]/√(k!) for k < ``order``, E σ², and what none of them is off by.

    By the trapezoid rule, whose error is at most 2M/(e^(2πa/h) - 1) for a function that is analytic where |Im z| < a,
    M the largest integral of its absolute value along the edges (Trefethen and Weideman 2014, Theorem 5.1). σ(μ + sz)
    has no pole, and is at most 1, where s |Im z| ≤ π/2.
    """
    step, nodes, width = _nodes(float(law.spreads.max()))
    density = step / sqrt(2.0 * pi) * np.exp(-0.5 * nodes**2)
    found, square = np.zeros((order, len(law.centres))), np.zeros(len(law.centres))
    polynomials = hermevander(nodes, order - 1) / np.sqrt(factorial(np.arange(order)))  # He_k/√(k!)
    for node, share, values in zip(nodes, density, polynomials, strict=True):
        p = expit(law.centres + law.spreads * node)
        square += share * p * p
        found += (share * values)[:, None] * p
    edges = max(
        sqrt(sum(comb(k, j) ** 2 * width ** (2 * (k - j)) * factorial(j) / factorial(k) for j in range(k + 1)))
        for k in range(order)
    )
    strip = 2.0 * exp(0.5 * width**2) * edges / expm1(2.0 * pi * width / step)
    ends = 4.0 * ndtr(-(_ENDS - 2.0 * step) / sqrt(2.0))  # |He_k| ≤ 1.1 √(k!) e^(x²/4)
    size = float(np.abs(law.centres).max()) + _ENDS * float(law.spreads.max())
    rounding = 2.0 * law.away + 4.0 * _HALF_ULP * size + 2.0 * _gamma(len(nodes) + 16 * order)
    return found, square, outward(strip + ends + rounding)


def wrong_signs(law: Margins, targets: Array) -> float:
    """The mean over records of P(⟨x_i, w⟩ has not the sign of its target), rounded up."""
    errors = ndtr(np.where(targets > 0.5, -1.0, 1.0) * law.centres / law.spreads)
    slack = law.away / float(law.spreads.min()) + _gamma(16)  # φ(t) and t φ(t) are below 1/2
    return min(1.0, outward(fsum(errors) / len(errors)) + outward(slack))


def wrong_classes(laws: Sequence[Margins], labels: NDArray[np.int64]) -> float:
    """The mean over records of P(the margin of its label is not the largest), for independent margins, rounded up.

    1 - E Π_k Φ((μ_y + s_y g - μ_k)/s_k) by the trapezoid rule; Φ(x + ib) is at most e^(b²/2) in absolute value, so
    that M = e^(a²(1 + Σ_k s_y²/s_k²)/2).
    """
    centres, spreads = np.stack([one.centres for one in laws]), np.stack([one.spreads for one in laws])
    places = np.arange(len(labels))
    own, wide = centres[labels, places], spreads[labels, places]
    ratios = np.sum((wide / spreads) ** 2, axis=0)  # that of the label is the 1 of the density
    width = sqrt(_DEPTH / (2.0 * min(float(ratios.max()), _MOST)))
    step, nodes = _trapezoid(width)
    right = np.zeros(len(labels))
    for node in nodes:
        logs = np.zeros(len(labels))
        for k in range(len(laws)):
            others = labels != k
            logs[others] += log_ndtr((own + wide * node - centres[k])[others] / spreads[k, others])
        right += step / sqrt(2.0 * pi) * np.exp(logs - 0.5 * node**2)
    edges = np.exp(np.minimum(0.5 * width**2 * ratios, 100.0)) / expm1(2.0 * pi * width / step)
    strip = float(np.minimum(2.0 * edges, 1.0).mean())
    off = 2.0 * max(one.away for one in laws) + 4.0 * _HALF_ULP * float(np.abs(centres).max() + _ENDS * spreads.max())
    slack = strip + 2.0 * ndtr(-(_ENDS - step)) + len(laws) * off / float(spreads.min())
    slack += _gamma(len(nodes) + 64 * len(laws)) * (1.0 + _ENDS**2)
    errors = np.clip(1.0 - right, 0.0, 1.0)
    return min(1.0, outward(fsum(errors) / len(errors)) + outward(float(slack)))


def _nodes(largest: float) -> tuple[float, Array, float]:
    """Step and nodes of the trapezoid rule, and half the width of the strip, for spreads up to ``largest``."""
    width = min(2.5, 0.5 * pi / max(largest, 1e-6) * (1.0 - 1e-9))
    if _ENDS / _step(width) > _MOST_NODES:
        raise ValueError(
            f"rows, tau and normaliser must give margins a deviation far below {largest:.3g}: the integral would "
            "take hours. Scale the rows, or take a higher temperature."
        )
    return *_trapezoid(width), width


def _trapezoid(width: float) -> tuple[float, Array]:
    """Step and nodes for a strip of twice this width."""
    step = _step(width)
    count = ceil(_ENDS / step)
    return step, step * np.arange(-count, count + 1.0)


def _step(width: float) -> float:
    """A step with few digits, of which whole multiples are exact."""
    step = 2.0 * pi * width / _DEPTH
    scale = 2.0 ** (12 - frexp(step)[1])
    return floor(step * scale) / scale


def _gamma(terms: int) -> float:
    """What a sum of so many products may be off by, relative to the sum of their absolute values, in any order."""
    return 1.01 * terms * _HALF_ULP


def _norm(values: NDArray[Any]) -> float:
    """The Euclidean length of all numbers, rounded up."""
    return float(np.linalg.norm(values)) * (1.0 + _gamma(values.size + 2))


def _blocks(n: int, start: int = 0) -> list[slice]:
    return [slice(at, min(n, at + _BLOCK)) for at in range(start, n, _BLOCK)]
