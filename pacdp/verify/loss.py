"""The privacy loss of composed mechanisms, from both sides, by this checker's own arithmetic.

``loss_of_a_step`` brackets one step by two pairs of laws on a grid; here the steps are added up. The Fourier transforms
are trusted to 16 log₂N units of rounding in the 2-norm, which are propagated and added ("Composed privacy losses, from
both sides" in docs/verify.md).
"""

import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import lru_cache
from math import (
    ceil,
    exp,
    expm1,
    floor,
    hypot,
    inf,
    log,
    log1p,
    log2,
)
from typing import NamedTuple

import numpy as np
from numpy import ndarray

from pacdp.verify.claim import (
    Fields,
    Unchecked,
    Wrong,
    number,
    require,
)
from pacdp.verify.events import Step
from pacdp.verify.loss_of_a_step import Atoms, atoms, spread

FAR = 46.0  # e^-46: what may lie outside a window
SECONDS = 10.0
"""For one question to a distribution."""
_RESOLUTIONS = (0.04, 0.013, 0.004)
_EPSILONS = np.geomspace(1e-4, 100.0, 14_000).tolist()
_MOST_POINTS = 1 << 22
_MORE_NOISE = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
_LARGE = "losses of so little noise are too large for this checker to compose"
_METHODS = (
    "Gaussian mechanism, closed form",
    "privacy loss distribution, dots connected",
    "privacy loss distribution, dots connected, two add-remove steps",
)
"""By which an epsilon may have been accounted."""
_Parts = list[tuple[Atoms, int]]
"""Steps on the grid, and how often each ran."""


class Loss(NamedTuple):
    """A composed loss on a grid: masses of P where x ≥ 0 and of Q where x < 0, from above and from below."""

    x: ndarray
    above: ndarray
    below: ndarray
    error: float  # of either, in the 2-norm
    at_infinity: float
    at_zero: float
    parts: _Parts

    def reach(self, far: float) -> float:
        """A loss that P exceeds with probability at most e^(-far), but for what lies at infinity."""
        return _edge(self.parts, self.x[1] - self.x[0], 1, far)

    def mean(self, weight: ndarray) -> tuple[float, float]:
        """Σ weight · mass from both sides, for weights of at least 0, without what lies at infinity."""
        noise = self.error * float(np.linalg.norm(weight))
        noise += 4.0 * exp(-FAR) * float(weight.max())
        low = float(self.below @ weight) * (1.0 - 1e-12)
        high = float(self.above @ weight) * (1.0 + 1e-12)
        return max(0.0, low - noise), high + noise

    def stick(
        self, epsilon: float, added: bool = False
    ) -> tuple[float, float]:
        """δ(ε): the mass of P above e^ε Q, or, where the record is added, of Q above e^ε P."""
        x = -self.x if added else self.x
        beyond = self.at_zero if added else self.at_infinity
        share = -np.expm1(np.minimum(0.0, epsilon - x))
        low, high = self.mean(np.where(x > epsilon, share, 0.0))
        return low, high + beyond

    def either(self, epsilon: float) -> tuple[float, float]:
        """δ(ε) in the worse of both directions."""
        low, high = zip(
            self.stick(epsilon),
            self.stick(epsilon, True),
            strict=True,
        )
        return max(low), max(high)


def finer(steps: Iterable[Step], replaced: bool) -> Iterator[Loss]:
    """What ran, composed on finer and finer grids as long as there is time.

    Noise so small that these numbers leave double precision is no sign of damage: it cannot be checked.
    """
    end = time.monotonic() + SECONDS
    ran = frozenset(Counter(steps).items())
    for resolution in _RESOLUTIONS:
        if resolution == _RESOLUTIONS[0] or time.monotonic() < end:
            try:
                made = compose(ran, replaced, resolution)
            except (ArithmeticError, ValueError) as error:
                raise Unchecked(_LARGE) from error
            yield made


def with_more_noise(
    steps: Iterable[Step], replaced: bool
) -> Iterator[Loss]:
    """The same steps with so much more noise that they can be composed: they cost less, and refute what these do."""
    for least in _MORE_NOISE:
        ran = Counter[Step]()
        for one, times in Counter(steps).items():
            ran[one._replace(noise=max(one.noise, least))] += times
        try:
            yield compose(
                frozenset(ran.items()), replaced, _RESOLUTIONS[0]
            )
        except (Unchecked, ArithmeticError, ValueError):
            continue
        return


def chosen_on_samples(steps: Iterable[Step]) -> bool:
    """Whether a choice was made on a sample: the step is then that of add-remove neighbours, whichever are asked of.

    At a rate of 1 it is known by the noise beside it.
    """
    return any(
        step.epsilons and (step.rate < 1.0 or step.noise < inf)
        for step in steps
    )


def private(
    steps: Iterable[Step],
    epsilon: float,
    delta: float,
    replaced: bool,
) -> bool | None:
    """Whether what ran is (epsilon, delta)-private in both directions, or at 1.0005 epsilon; None where undecided.

    A choice on a sample has no theorem for replaced records; these are two steps of one record more or less.
    """
    if replaced and chosen_on_samples(steps):
        epsilon = epsilon / 2.0
        replaced = False
        delta /= 1.0 + exp(epsilon)
    try:
        for made in finer(steps, replaced):
            if made.either(epsilon * 1.0005)[1] <= delta:
                return True
            if made.either(epsilon)[0] > delta:
                return False
    except Unchecked:
        for made in with_more_noise(steps, replaced):
            if made.either(epsilon)[0] > delta:
                return False
        raise
    return None


def require_private(
    what: str,
    steps: Iterable[Step],
    epsilon: float,
    delta: float,
    replaced: bool,
) -> None:
    """Raise Wrong where what ran is not that private, and Unchecked where it is undecided."""
    found = private(steps, epsilon, delta, replaced)
    if found is False:
        raise Wrong(f"{what} is not what ran, which costs more")
    if found is None:
        raise Unchecked(
            f"{what} is between what this checker shows and what it refutes"
        )


def require_bracket(spent: Fields) -> None:
    """An epsilon is accounted, by a method that there is, and its estimate lies in its bracket."""
    low, middle = (
        number(dict.get(spent, name))
        for name in ("lower", "estimate")
    )  # a lower one would promise no more
    require(
        0 <= low <= middle <= spent.upper == spent.epsilon,
        f"epsilon is said to be {middle!r}, from {low!r} to {spent.upper!r}",
    )
    require(
        spent.status == "accounted" and spent.method in _METHODS,
        f"by {spent.method!r} nothing is {spent.status!r}",
    )


def epsilon_upper(
    steps: Iterable[Step], delta: float, replaced: bool
) -> float:
    """The least epsilon, to a part in a thousand, at which the first grid shows that what ran is private."""
    made = next(finer(steps, replaced))
    place = bisect_left(
        _EPSILONS,
        True,
        key=lambda one: made.either(one)[1] <= delta,
    )
    return [*_EPSILONS, inf][place]


@lru_cache(maxsize=8)
def compose(
    ran: frozenset[tuple[Step, int]],
    replaced: bool,
    resolution: float,
) -> Loss:
    """All steps one after another; the grid is ``resolution`` standard deviations of the least loss of a step."""
    if any(step.noise == 0.0 for step, _ in ran):
        raise Wrong("a mechanism without any protection ran")
    spreads = {step: spread(step, replaced) for step, _ in ran}
    spacing = resolution * min(spreads.values())
    outer = _Parts()
    inner = _Parts()
    for step, times in ran:
        width = max(1, int(resolution * spreads[step] / spacing))
        above, below = atoms(
            step, replaced, spacing, width, resolution / 4
        )
        outer.append((above, times))
        inner.append((below, times))
    edges = [
        _edge(outer, spacing, side, FAR) / spacing
        for side in (-1, 1)
    ]
    start = floor(edges[0])
    points = edges[1] - edges[0] + 2
    size = 1 << ceil(log2(points))
    if size > _MOST_POINTS:
        raise Unchecked(f"the distribution needs {size} points")
    x = spacing * (start + np.arange(size))
    high, high_error = _law(outer, x, start)
    low, low_error = _law(inner, x, start)
    error = hypot(high_error, low_error)
    at_infinity = _ever(outer, "at_infinity")
    at_zero = _ever(outer, "at_zero")
    return Loss(x, high, low, error, at_infinity, at_zero, outer)


def _law(
    parts: _Parts, x: ndarray, start: int
) -> tuple[ndarray, float]:
    """The sum's law under P where x ≥ 0 and under Q elsewhere, and how far rounding moves it in the 2-norm."""
    of_p, p_error = _convolved(parts, "p", start, len(x))
    of_q, q_error = _convolved(parts, "q", start, len(x))
    return np.where(x >= 0.0, of_p, of_q), hypot(p_error, q_error)


def _ever(parts: _Parts, name: str) -> float:
    """How probable it is that a step's loss lies there at all."""
    never = [
        times * log1p(-getattr(one, name)) for one, times in parts
    ]
    return -expm1(sum(never)) * (1 + 1e-9)


def _edge(
    parts: _Parts, spacing: float, side: int, far: float
) -> float:
    """A loss beyond which e^(-far) of P (or, on the other side, of Q) lies, by Chernoff's bound."""
    best = inf
    for theta in np.geomspace(1e-2, 1e6, 160):
        growth = far
        for one, times in parts:
            mass = one.p if side > 0 else one.q
            x = side * theta * spacing * one.places[mass > 0]
            top = float(x.max())
            moment = float(np.sum(mass[mass > 0] * np.exp(x - top)))
            growth += times * (top + log(moment))
        best = min(best, growth / theta)
    return side * best * (1.0 + 1e-9)


def _convolved(
    parts: _Parts, side: str, start: int, size: int
) -> tuple[ndarray, float]:
    """The sum's law under P or Q on a circle, from the start on, and how far rounding moves it in the 2-norm."""
    spectrum = np.ones(size // 2 + 1, dtype=np.complex128)
    unit = 16.0 * log2(size)
    rounding = 0.0
    steps = 0
    for one, times in parts:
        single = np.zeros(size)
        np.add.at(single, one.places % size, getattr(one, side))
        rounding += times * unit * float(np.linalg.norm(single))
        steps += times
        factor = np.fft.rfft(single)
        while times:  # powers by squaring
            if times & 1:
                spectrum = spectrum * factor
            factor = factor * factor
            times >>= 1
    law = np.fft.irfft(spectrum, size)
    rounding += (unit + 4.0 * steps) * float(np.linalg.norm(law))
    return np.roll(law, -start), 2.0**-53 * rounding * 1.01
