"""Differences from golden.json that are meant: every mended fault that moves a public result is named here.

An entry stands for the keys of a section that match ``pattern`` (as file names do); each of them may differ in the
ways of ``may`` and in no other. An entry with a way in which nothing differs any more fails the test.
"""

from dataclasses import dataclass
from typing import Literal

Way = Literal["grows", "falls", "refused", "accepted", "optimistic", "rigorous", "gone", "new", "moves"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Intended:
    """One meant difference."""

    section: str
    pattern: str
    finding: str
    """Label of the finding that it mends."""
    why: str
    """One sentence."""
    may: tuple[Way, ...]
    """A number grows or falls; a call is refused or accepted now; a certificate is optimistic or rigorous now; a key
    is gone or new; anything else (a name, an interval, another kind of value) moves."""


INTENDED: tuple[Intended, ...] = (
    *(
        Intended(
            section=section,
            pattern="*/poisson_sum_kl_chernoff#*",
            finding="N",
            why="Sums over secret Poisson batches have a price of their own, beside that of the privacy they promise.",
            may=("new",),
        )
        for section in ("commands", "private")
    ),
    Intended(
        section="finite",
        pattern="finite/*",
        finding="C12",
        why="Costs are summed per record, and the search for the weights of an ensemble ends elsewhere by 1e-11.",
        may=("grows", "falls"),
    ),
    Intended(
        section="gaussian",
        pattern="*/one_draw_*",
        finding="S5",
        why="One draw under a private prior has a bound, at a share of the failure probability.",
        may=("new",),
    ),
    Intended(
        section="gaussian",
        pattern="*/refused",
        finding="S5",
        why="One draw under a private prior is no longer refused.",
        may=("moves",),
    ),
    Intended(
        section="studies",
        pattern="private prior/one_draw_*",
        finding="S5",
        why="One draw under a private prior has a bound, at a share of the failure probability.",
        may=("new",),
    ),
    Intended(
        section="studies",
        pattern="private */refused",
        finding="S5",
        why="One draw under a private prior is no longer refused.",
        may=("moves",),
    ),
    Intended(
        section="studies",
        pattern="finite/measured",
        finding="S1",
        why="The divergence of an ensemble stands among its costs, not beside the measured losses.",
        may=("moves",),
    ),
    Intended(
        section="private",
        pattern="*/one_draw_*",
        finding="S5",
        why="One draw under a private prior has a bound, at a share of the failure probability.",
        may=("new",),
    ),
    Intended(
        section="private",
        pattern="*/refused",
        finding="S5",
        why="One draw under a private prior is no longer refused.",
        may=("moves",),
    ),
    Intended(
        section="private",
        pattern="dp-bbp-mnist/certified/measured",
        finding="S1",
        why="A predictor that is used as it is has no divergence.",
        may=("moves",),
    ),
    Intended(
        section="private",
        pattern="*/test_set_*",
        finding="S1",
        why="The predictor that was released has test-set bounds of its own, before those of its mean weights.",
        may=("new", "moves", "falls", "grows"),
    ),
    Intended(
        section="calculators",
        pattern="compare/*",
        finding="S5",
        why="Every formula has a bound at every price, and the calculator shows them all.",
        may=("new",),
    ),
    Intended(
        section="commands",
        pattern="*-clipped/*private*",
        finding="S1",
        why="The Gaussian classifier of a clipped chain goes through the one door and is named as everywhere.",
        may=("new", "gone"),
    ),
    Intended(
        section="commands",
        pattern="*-clipped/*_ece*",
        finding="S1",
        why="The one door gives a Gaussian classifier all certificates that apply to it.",
        may=("new",),
    ),
    Intended(
        section="commands",
        pattern="*-clipped/test_set_clopper_pearson#*",
        finding="S1",
        why="The one door gives a Gaussian classifier all certificates that apply to it.",
        may=("new",),
    ),
    Intended(
        section="commands",
        pattern="*-clipped/measured",
        finding="S1",
        why="The first error of a clipped chain's report is that of its Gaussian classifier.",
        may=("grows",),
    ),
    Intended(
        section="calculators",
        pattern="lacking/*",
        finding="S5",
        why="What a question leaves out is listed for the new formulas too.",
        may=("moves",),
    ),
)
