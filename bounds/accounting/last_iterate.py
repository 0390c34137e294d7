"""Privacy of the last iterate alone: noisy steps that contract forget what a record did to the early ones.

    x_{t+1} = φ_t(x_t) + σ_t ξ_t,  ξ_t ~ N(0, I),  t = 1, ..., T

Without the record φ_t is a c_t-contraction, whatever the data; with it φ_t(x) moves by at most s_t, for every x. Start,
schedule and T are public, and x_{T+1} is all that is ever released. With G_t = Π_{r>t} c_r and W_t = G_t² σ_t², the
release is mu-GDP for adding or removing a record,

    mu² = Σ_t W_t g_t²,  g the nondecreasing isotonic regression of G_t s_t/W_t with weights W_t

(Bok, Su and Altschuler 2024 for constant steps; Altschuler and Talwar 2022). "Last iterate" in docs/guarantees.md.
"""

from collections.abc import Sequence
from math import inf, log, sqrt, tanh
from typing import Any, cast

import numpy as np

from bounds._arithmetic import outward
from bounds._check import Array, count, door, nonnegative, positive, reals
from bounds.privacy import Adjacency, GaussianDP, one_of
from bounds.record import record

_ULP = 2.0**-52
_FORGOTTEN = 1e-100  # factors below it are those of steps whose shift is moved to later ones


@record
class LastIterate:
    """Noisy contractions of which the last iterate alone is released.

    Attributes:
        contractions: c_t ≥ 0, one a step; 1 or more where a step does not contract.
        sensitivities: s_t ≥ 0, the most that the record moves a step, 0 for a step that it is not in; the norm is
            that of the noise.
        noises: σ_t > 0, the standard deviation of the noise of the step.

    Formal guarantee: "Last iterate" in docs/guarantees.md. It says nothing of earlier iterates, averages or traces, of
    momentum or preconditioners, or of batches that are secret.
    """

    contractions: tuple[float, ...]
    sensitivities: tuple[float, ...]
    noises: tuple[float, ...]

    def __post_init__(self) -> None:
        for name in ("contractions", "sensitivities", "noises"):
            rule = positive if name == "noises" else nonnegative
            object.__setattr__(self, name, reals(name, getattr(self, name), rule))
        if not len(self.contractions) == len(self.sensitivities) == len(self.noises) > 0:
            raise ValueError(
                f"contractions, sensitivities and noises must hold one number for each step, got "
                f"{len(self.contractions)}, {len(self.sensitivities)} and {len(self.noises)}."
            )

    def mu(self) -> float:
        """The mu of adding or removing a record, rounded up."""
        # SciPy's optimisers take long to import, and few ask for this
        from scipy.optimize import isotonic_regression  # pyright: ignore[reportMissingTypeStubs, reportUnknownVariableType]

        shifts, squares = self._of_the_release()
        with np.errstate(over="ignore"):
            slopes: Array = cast(Any, isotonic_regression)(shifts / squares, weights=squares).x
            found = sqrt(float(np.sum(squares * slopes**2)))
        steps = len(self.noises)
        return outward(found * (1.0 + (steps + 16) * _ULP)) if found == found else inf

    def privacy(self, *, adjacency: Adjacency) -> GaussianDP:
        """The promise for these neighbours; replacing a record is removing one and adding another, at twice mu."""
        one_of(Adjacency, adjacency=adjacency)
        times = 2.0 if adjacency == "replace-one" else 1.0
        return GaussianDP(mu=times * self.mu(), adjacency=adjacency, status="accounted")

    def _of_the_release(self) -> tuple[Array, Array]:
        """G_t s_t and W_t. A shift may be put off to a later step, so that forgotten ones count with the first kept."""
        c, s, sigma = (np.array(one) for one in (self.contractions, self.sensitivities, self.noises))
        factors = np.append(np.cumprod(c[:0:-1])[::-1], 1.0)
        first = int(np.argmax(factors >= _FORGOTTEN))
        late = 0.0
        for before, moved in zip(c[:first], s[:first], strict=True):
            late = before * late + moved
        s[first] += c[first] * late
        return (factors * s)[first:], (factors * sigma)[first:] ** 2


def equal_steps(*, steps: int, contraction: float, noise_multiplier: float) -> float:
    """The mu of ``LastIterate`` where all steps are alike, rounded up: √[(1-c^T)/(1+c^T) · (1+c)/(1-c)] s/σ.

    It stops growing with T where c < 1. ``noise_multiplier`` is σ/s.
    """
    if contraction == 1.0:
        forgotten = float(steps)
    else:
        decay = -0.5 * steps * log(contraction) if contraction > 0.0 else inf
        forgotten = tanh(decay) * (1.0 + contraction) / (1.0 - contraction)
    return outward(sqrt(forgotten) / noise_multiplier * (1.0 + 64 * _ULP))


@door(ridge=positive, row_norm=positive, classes=count)
def ridge_head(
    *, step_sizes: Sequence[float], ridge: float, row_norm: float, n: int, noises: Sequence[float], classes: int
) -> LastIterate:
    """Noisy gradient descent on a regularised linear head: x ← x - h ∇[(1/n) Σ_i ℓ_i(x) + (λ/2) ‖x‖²] + σ ξ.

    A step contracts by max(|1 - hλ|, |1 - h(λ + C)|) and moves by h D/n at most, where for rows of norm at most B the
    softmax cross-entropy has C = B²/2 and D = √2 B, the logistic loss of one output C = B²/4 and D = B.

    Formal guarantee: that of ``LastIterate``, for all records in every step, the constant n as divisor, ridge on every
    parameter and the bias, if there is one, a column of the rows that counts in B.

    Args:
        step_sizes: h_t, fixed beforehand.
        ridge: λ > 0.
        row_norm: B; each row is scaled to it by a rule that looks at that row alone.
        n: the constant by which the sum of losses is divided.
        noises: σ_t, the standard deviation of the noise on the weights.
        classes: outputs of the head; 1 for the logistic loss.

    Raises:
        ValueError: a step is so long that it does not contract, or a number is out of range.
    """
    sizes = reals("step_sizes", step_sizes, positive)
    curvature = ridge + (0.25 if classes == 1 else 0.5) * row_norm**2
    slope = row_norm * (1.0 if classes == 1 else sqrt(2.0))
    if not max(sizes, default=0.0) * curvature < 2.0:
        raise ValueError(
            f"step_sizes must be below 2/(ridge + curvature) = {2.0 / curvature!r}, got {max(sizes)!r}: longer steps "
            f"do not contract."
        )
    return LastIterate(
        contractions=tuple(max(abs(1.0 - size * ridge), abs(1.0 - size * curvature)) + 8 * _ULP for size in sizes),
        sensitivities=tuple(outward(size * slope / n) for size in sizes),
        noises=reals("noises", noises),
    )
