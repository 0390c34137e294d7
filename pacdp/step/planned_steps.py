"""Which number of steps a certificate of a chain pays for.

The bounds by accounted privacy hold for the weights after a number of steps that was fixed before the chain began. Who
watches a run and stops it when it looks best has not fixed that number. Two settings of a run say what is paid instead:

    planned   all planned steps are accounted for, however many were made. The bound then holds for any function of what
              the chain released and of randomness that is independent of the counted examples, so also for weights at
              a moment chosen by looking at the weights or at other examples; not for a moment chosen by losses or
              errors on the counted examples, of which whoever stopped the run must vouch.
    listed    the steps at which the run may end are listed beforehand, m of them; each has a certificate at the
              failure probability over m, for the steps made. All hold together, whatever the choice among them looked
              at.

Which of the two is a setting of the run, because choosing the cheaper one afterwards would be a choice as well.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from bounds.hypotheses import Hypothesis, declared, proved, unproved

Stopping = Literal["planned", "listed"]
FIXED = "steps fixed beforehand"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChargedSteps:
    """What the certificates of one checkpoint pay for its number of steps."""

    steps: int
    """Steps that are accounted for."""
    stopping_times: int
    """Certificates are made at the failure probability over this number."""
    hypothesis: Hypothesis
    """``steps fixed beforehand``, and by what."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The number of steps of a chain, written down before its first.

    Raises:
        ValueError: fewer than one step; a list that is not strictly increasing up to ``steps``; a list without
            ``stopping="listed"``, or the reverse.
    """

    steps: int
    """Steps of the whole run, as the sampler's state counts them."""
    stopping: Stopping = "planned"
    listed: tuple[int, ...] = ()
    """With ``stopping="listed"``, the steps at which the run may end, the last one among them."""

    def __post_init__(self) -> None:
        if self.stopping not in get_args(Stopping):
            raise ValueError(
                f"expected stopping to be 'planned' or 'listed', got {self.stopping!r}"
            )
        if self.stopping == "planned" and self.listed:
            raise ValueError(
                f"expected listed steps with stopping='listed' only, got {self.listed}"
            )
        ends = self._ends
        whole = all(type(one) is int for one in (self.steps, *ends))
        if not (whole and ends and 1 <= ends[0] and ends == tuple(sorted(set(ends)))):
            raise ValueError(f"expected planned or listed steps that increase from 1, got {ends}")
        if ends[-1] != self.steps:
            raise ValueError(
                f"expected listed steps up to {self.steps}, the planned number of steps, got {ends}"
            )

    @property
    def _ends(self) -> tuple[int, ...]:
        """The steps at which the run may end."""
        return self.listed if self.stopping == "listed" else (self.steps,)

    def charged(self, step: int) -> ChargedSteps:
        """What a certificate of the chain after ``step`` steps pays for.

        Formal guarantee: if the moment was chosen as the hypothesis says, the bound for ``steps`` accounted steps, at
        the failure probability over ``stopping_times``, holds for the chosen weights with its failure probability.

        Raises:
            ValueError: ``step`` is negative, or more than was planned.
        """
        if not (type(step) is int and 0 <= step <= self.steps):
            raise ValueError(
                f"expected 0 <= step <= {self.steps}, the planned number of steps, got {step!r}"
            )
        times, paid = len(self._ends), next(one for one in self._ends if one >= step)
        if self.stopping == "planned":
            made = f"{paid} steps, all made and all paid for"
            other = f"; all {paid} planned steps are paid for"
        else:
            made = f"the {times} steps at which the run may end were listed beforehand, and all are paid for"
            other = f", which is none of those listed; {paid} steps are paid for"
        found = proved(FIXED, f"the checkpoint's plan: {made}")
        if step != paid:
            found = declared(
                FIXED,
                f"whoever stopped the run at step {step}, vouching that no loss or error on the counted examples had a "
                f"part in choosing when{other}",
            )
        return ChargedSteps(steps=paid, stopping_times=times, hypothesis=found)

    def to_header(self) -> dict[str, Any]:
        """JSON values for a checkpoint's header."""
        listed = {"listed_steps": list(self.listed)} if self.stopping == "listed" else {}
        return {"planned_steps": self.steps, "stopping": self.stopping, **listed}

    @classmethod
    def from_header(cls, header: Mapping[str, Any]) -> "Plan | None":
        """The plan that a header holds; None where it holds none, as those of earlier versions do.

        Raises:
            ValueError: a plan that cannot be.
        """
        if header.get("planned_steps") is None:
            return None
        listed = header.get("listed_steps", [])
        if not isinstance(listed, list):
            raise ValueError(f"expected a list of steps as listed_steps, got {listed!r}")
        return cls(
            steps=header["planned_steps"],
            stopping=header.get("stopping", "planned"),
            listed=tuple(listed),
        )


def charged_steps(plan: Plan | None, step: int) -> ChargedSteps:
    """See :meth:`Plan.charged`; without a plan the steps made are paid for, and nothing shows that they were fixed."""
    if plan is not None:
        return plan.charged(step)
    if not (type(step) is int and step >= 0):
        raise ValueError(f"expected step >= 0, got {step!r}")
    by = f"the checkpoint does not say how many steps were planned; the {step} that were made are paid for"
    return ChargedSteps(steps=step, stopping_times=1, hypothesis=unproved(FIXED, by))
