"""How much probability a subsampled Gaussian puts between neighbouring losses of a grid, without cancellation.

The pair is P = s φ₀ + m φ₁ against Q = φ₀ (add-remove) or s φ₀ + m φ₋₁ (replace-one), φ_c the density of N(c, σ²); for
replace-one the mean ±1 is the worst (docs/accounting.md). The loss x(z) = ln(P/Q)(z) increases. For the cell from
x_k to x_k + h_k the kernel gives

    total = P(cell),    right = (P(cell) - e^(x_k) Q(cell)) / (1 - e^(-h_k)),

``right`` being the mass that connecting the dots puts on the right end (Doroshenko, Ghazi, Kamath, Kumar and Manurangsi
2022): the split of total that keeps Q(cell) as it is. P - e^(x_k) Q vanishes at the left end and is of order h in the
cell, so each integral is a sum of positive terms over pieces [a, a + uσ] so short that a Taylor series at the middle,

    ∫ φ_c = φ_c(middle) uσ (1 + S(t)),   S(t) = Σ_(j=1..4) He_2j(t) u^(2j) / (4^j (2j+1)!),   t = (middle - c)/σ,

is good to all digits: (|t| + 1) u ≤ 1/4 leaves the next term below 10⁻¹⁶. Masses are good to a relative 2⁻⁴³ but for
the rounding of the ends of the cells. If it moves losses by at most e, the split is right to a share e/h_k of the mass;
``doubt`` collects those.
"""

from math import asinh, ceil, exp, expm1, inf, log, log1p, pi, sinh, sqrt

import numpy as np

from bounds._arithmetic import jit
from bounds._check import Array

_ROOT = 1.0 / sqrt(2.0 * pi)
_PIECE = 0.25
_ULP = 2.0**-50


@jit
def _series(t: float, u: float) -> float:
    """S(t), to all digits of 1 + S(t)."""
    v, w = u * u, t * t
    h2 = w - 1.0
    h4 = (w - 6.0) * w + 3.0
    h6 = ((w - 15.0) * w + 45.0) * w - 15.0
    h8 = (((w - 28.0) * w + 210.0) * w - 420.0) * w + 105.0
    return v * (h2 / 24.0 + v * (h4 / 1920.0 + v * (h6 / 322560.0 + v * (h8 / 92897280.0))))


@jit
def _boundary(
    x: float, risen: float, ratio: float, sigma: float, rate: float, move: float, replace: bool
) -> tuple[float, float]:
    """The z at which the loss is x, given e^x - 1 and e^x, and by how much rounding may move the loss there.

    z is -infinity below all losses.
    """
    variance, scale = sigma * sigma, 1.0 / (sigma * sigma)
    if replace:
        slope = (1.0 - rate) / move * exp(0.5 / variance)
        z = variance * (0.5 * x + asinh(slope * sinh(0.5 * x))) if x != 0.0 else 0.0
        moved, other = move * exp((z - 0.5) * scale), move * exp((-z - 0.5) * scale)
        steep = moved / (1.0 - rate + moved) + other / (1.0 - rate + other)
        return z, _ULP * (abs(x) + steep * (abs(x) + (2.0 * abs(z) + 1.0) * scale))
    share = risen / rate
    if rate < 1.0 and share <= -1.0:
        return -inf, 0.0
    z = variance * (x - log(move) if rate == 1.0 else log1p(share) + log(rate / move)) + 0.5
    moved = move * exp((z - 0.5) * scale)
    lost = abs(x) if rate == 1.0 else (2.0 * abs(risen) + (moved if move != rate else 0.0)) / ratio
    return z, _ULP * (lost + moved / (1.0 - rate + moved) * (2.0 * abs(z) + 1.0) * scale)


@jit
def _fall(w: float) -> float:
    """1 - e^(-w)."""
    if w > 0.03:
        return -expm1(-w)
    return w * (1.0 - w / 2 * (1.0 - w / 3 * (1.0 - w / 4 * (1.0 - w / 5 * (1.0 - w / 6 * (1.0 - w / 7))))))


@jit
def _gap(
    a: float, left: float, risen: float, ratio: float, sigma: float, rate: float, move: float, replace: bool
) -> float:
    """How far the likelihood ratio at a is above that at ``left``, where it is ``ratio`` = 1 + risen (or above it)."""
    if a <= left:
        return 0.0
    scale = 1.0 / (sigma * sigma)
    if left == -inf:
        return move * exp((a - 0.5) * scale) - (risen + rate)
    d = (a - left) * scale
    rise = move * exp((left - 0.5) * scale) * expm1(d)
    if not replace:
        return rise
    fall = -move * exp((-left - 0.5) * scale) * expm1(-d)
    return (rise + ratio * fall) / (1.0 - rate + move * exp((-a - 0.5) * scale))


@jit
def add_cells(
    edges: Array,
    growth: Array,
    ratios: Array,
    sigma: float,
    rate: float,
    move: float,
    weight: float,
    replace: bool,
    z_low: float,
    z_top: float,
    total: Array,
    right: Array,
    doubt: Array,
) -> None:
    """Add ``weight`` times the masses from z_low to z_top to total, right and doubt; s = 1 - rate, m = move.

    ``edges`` holds the losses x at the ends of the cells, ``growth`` e^x - 1, ``ratios`` e^x.
    """
    stay, inverse = 1.0 - rate, 1.0 / sigma
    end, after = _boundary(edges[0], growth[0], ratios[0], sigma, rate, move, replace)
    for k in range(len(total)):
        risen = growth[k]
        start, before = end, after
        end, after = _boundary(edges[k + 1], growth[k + 1], ratios[k + 1], sigma, rate, move, replace)
        low, high = max(start, z_low), min(end, z_top)
        if not high > low:
            continue
        reach = max(abs(low), abs(high)) * inverse + inverse + 1.0
        pieces = ceil((high - low) * inverse * reach / _PIECE)
        width = (high - low) / pieces
        u = width * inverse
        w = 0.5 * u * inverse
        mass, hinge = 0.0, 0.0
        for piece in range(pieces):
            a = low + piece * width
            t = (a + 0.5 * width) * inverse
            s0, s1 = _series(t, u), _series(t - inverse, u)
            still = _ROOT * u * exp(-0.5 * t * t)
            moved = _ROOT * u * exp(-0.5 * (t - inverse) * (t - inverse))
            mass += stay * still * (1.0 + s0) + move * moved * (1.0 + s1)
            hinge += move * moved * ((s1 - s0) + (1.0 + s0) * _fall(w))
            other = still * (1.0 + s0)
            if replace:
                s2 = _series(t + inverse, u)
                away = _ROOT * u * exp(-0.5 * (t + inverse) * (t + inverse))
                other = stay * other + move * away * (1.0 + s2)
                ratio = ratios[k] + _gap(a, start, risen, ratios[k], sigma, rate, move, replace)
                hinge += ratio * move * away * ((s0 - s2) + (1.0 + s0) * expm1(w))
            if a > start:
                hinge += _gap(a, start, risen, ratios[k], sigma, rate, move, replace) * other
        total[k] += weight * mass
        doubt[k] += weight * mass * (before + after) / (edges[k + 1] - edges[k])
        right[k] += weight * hinge / -expm1(edges[k] - edges[k + 1])


@jit
def spread(total: Array, right: Array, doubt: Array, slack: float) -> Array:
    """Masses on the grid that dominate: each cell split to its ends, rounded up by ``slack`` of what lies around.

    A loss that rounding moved out of its cell belongs to the next one, at most e from their common end.
    """
    n = len(total)
    out = np.zeros(n + 1)
    for k in range(n):
        mass = total[k]
        part = min(max(right[k], 0.0), mass)
        more = slack * mass + doubt[k]
        out[k] += (mass - part) + more
        out[k + 1] += part + more
        out[max(k - 1, 0)] += doubt[k]
        out[min(k + 2, n)] += doubt[k]
    return out


@jit
def gather(total: Array, right: Array, doubt: Array, edges: Array, slack: float) -> Array:
    """Masses on the grid that understate the loss under P: contents of cells merged to the means x_k, left to right.

    ``held`` is mass from the left not merged yet, ``deficit`` its Σ mass (e^(x_k - loss) - 1); the mass b of the next
    cell, at the fraction f of it, balances b f (1 - e^(-h)). What the next two cells cannot balance is moved down to
    the grid point below it. Twice the doubt is left out.
    """
    out = np.zeros(len(total) + 1)
    held, deficit, base = 0.0, 0.0, 0
    for k in range(len(total)):
        mass = max(0.0, total[k] - 2.0 * doubt[k])
        f = min(max(right[k] / total[k], 0.0), 1.0) if mass > 0.0 else 0.0
        width = edges[k + 1] - edges[k]
        counter = mass * f * -expm1(-width)
        grow = expm1(width)
        if deficit <= counter:
            used = mass * (deficit / counter) if counter > 0.0 else 0.0
            out[k] += (held + used) * (1.0 - slack)
            held, base = mass - used, k
            deficit = held * grow * (1.0 - f)
            continue
        share = counter / deficit
        out[k] += (held * share + mass) * (1.0 - slack)
        held, deficit = held * (1.0 - share), deficit * (1.0 - share)
        deficit += grow * (deficit + held)
        last = k + 1 == len(total)
        if last or deficit > -expm1(edges[k + 1] - edges[k + 2]) * min(max(right[k + 1], 0.0), total[k + 1]):
            out[base] += held * (1.0 - slack)
            held, deficit = 0.0, 0.0
    out[base] += held * (1.0 - slack)
    return out
