"""What settings promise of the steps that they describe: an event for the accountant, or a reason why there is none."""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from bounds.accounting import Event


@runtime_checkable
class Promising(Protocol):
    """Settings of an algorithm, private or a chain, that may promise something of its steps."""

    def promise(self, n: int, steps: int, *, start: int = 0) -> Event | None:
        """What ``steps`` steps, those after the first ``start``, on data of ``n`` units reveal, known without the data.

        Raises:
            ValueError: the steps are no private mechanisms that are accounted for.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class NoPrivacy:
    """The procedure read the bound's own examples and promises nothing: no certificate may rest on it."""

    reason: str
    """Why it is not private, one sentence."""


def no_promise(settings: object) -> ValueError:
    """The refusal of an algorithm whose steps are no private mechanisms."""
    return ValueError(
        f"steps of {type(settings).__name__} have no privacy accounting here: use SGLD or Entropy-SG(L)D with "
        "clip_norm, or a trainer of pacdp.private"
    )
