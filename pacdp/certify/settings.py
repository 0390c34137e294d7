"""Who fixed the settings, and among how many: what a certificate pays for a choice that looked at its examples."""

from dataclasses import dataclass
from typing import Any

import bounds
from pacdp.certify.evidence import rows_of
from pacdp.certify.examples import BoundSet, require_kinds
from pacdp.data.row_checks import require_apart
from pacdp.data.rows import Rows

FIXED = "settings fixed beforehand"
WHOEVER = "whoever chose the settings"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How the settings behind a predictor were chosen.

    Attributes:
        count: J, among how many settings the bound's examples may have had a part in choosing. Each certificate is
            made at failure_prob / J, so that those of all J settings hold together.
        hypothesis: "settings fixed beforehand", and by what.
        elsewhere: the hashes of the rows that settings were chosen on, where these are apart from the bound's.
    """

    count: int = 1
    hypothesis: bounds.Hypothesis
    elsewhere: Rows | None = None

    def __post_init__(self) -> None:
        if isinstance(self.count, bool) or not isinstance(self.count, int) or self.count < 1:
            raise ValueError(
                f"expected a count of settings that is a whole number >= 1, got {self.count!r}"
            )
        require_kinds(self, hypothesis=bounds.Hypothesis, elsewhere=Rows | None)
        if self.hypothesis.name != FIXED:
            raise ValueError(f"expected a hypothesis {FIXED!r}, got {self.hypothesis.name!r}")

    @classmethod
    def declared(cls, by: str = WHOEVER) -> "Settings":
        """``by`` vouches that the bound's examples had no part in choosing the settings."""
        return cls(hypothesis=bounds.declared(FIXED, by))

    @classmethod
    def tried(cls, count: int, by: str = WHOEVER) -> "Settings":
        """``count`` settings were tried on the bound's examples, and all are paid for; with one, nothing was chosen."""
        if count == 1:
            return cls.declared(by)
        said = f"{by}: a list of {count} settings, all paid for, written down after they were tried"
        return cls(count=count, hypothesis=bounds.declared(FIXED, said))

    @classmethod
    def chosen_on(cls, rows: Any, by: str = "rows that the bound does not use") -> "Settings":
        """The settings were chosen on these data, or rows, alone; that the bound's are others is proved by hashes."""
        return cls(
            hypothesis=bounds.declared(FIXED, f"chosen on {by}"), elsewhere=rows_of(rows, "rows")
        )

    def share(self, failure_prob: float) -> float:
        """failure_prob / J; ValueError where a double has no such number."""
        if self.count > failure_prob * 2.0**1000:
            digits = f"a count of settings of {self.count.bit_length()} bits"
            raise ValueError(f"failure_prob = {failure_prob!r} is too small to be divided by {digits}: give a larger "
                             "one, or fewer settings than 2**1000 times it")  # fmt: skip
        return failure_prob / self.count

    def standing(self, data: BoundSet, test: BoundSet | None = None) -> bounds.Hypothesis:
        """The hypothesis, with the rows compared; DataError when the settings were chosen on rows of either set."""
        if self.elsewhere is None:
            return self.hypothesis
        chosen = "the rows that the settings were chosen on"
        require_apart(self.elsewhere, data.rows, (chosen, "the bound's rows"))
        if test is not None:
            require_apart(self.elsewhere, test.rows, (chosen, "the test set's rows"))
        whose = "the bound's" if test is None else "the bound's or the test set's"
        return bounds.proved(
            FIXED, f"{self.hypothesis.by}; row hashes show that these are not {whose}"
        )
