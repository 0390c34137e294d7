"""The distribution of the privacy loss on a grid, as an accountant hands it over."""

from hashlib import sha256
from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from bounds import _check
from bounds._arrays import Array, vector
from bounds._check import positive, probability, real
from bounds.privacy import PrivacyClaim
from bounds.record import record

# Masses come out of fast Fourier transforms: room for their noise, and for rounding masses up.
_NOISE = 1e-6


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
        return self.spacing * (np.arange(self.with_record.size) + self.lowest)

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
