"""All mechanisms of a schedule on one grid, one transform for each distinct mechanism and direction."""

from typing import NamedTuple

from bounds.accounting._fourier import Composite, Spectrum
from bounds.accounting._pieces import Grid, Mechanism, grid
from bounds.accounting._plan import Plan


class Law(NamedTuple):
    """The law of x under P (remove) and of -x under Q (add), both overstated, and of x understated.

    ``infinity_mass`` and ``zero_mass`` are at infinity in the remove and the add direction; ``slack`` bounds what
    rounding did to masses, relatively.
    """

    remove: Composite
    add: Composite
    lower: Composite
    infinity_mass: float
    zero_mass: float
    slack: float


class _Sums:
    """The transforms, while mechanisms come in."""

    def __init__(self, plan: Plan, grid: Grid) -> None:
        self.plan, self.grid = plan, grid
        self.remove = Spectrum(plan.spacing, plan.remove)
        self.lower = Spectrum(plan.spacing, plan.remove)
        self.add = Spectrum(plan.spacing, plan.add)
        self.infinity_mass, self.zero_mass = 0.0, 0.0

    def take(self, part: Mechanism, count: int) -> None:
        made = part.masses(self.grid, self.plan.reach)
        divisor = self.remove.add(made.indices, made.with_record, count)
        self.lower.add(made.indices, made.lower, count, divisor)
        self.add.add(-made.indices[::-1], made.without_record[::-1], count)
        self.infinity_mass += count * made.infinity_mass
        self.zero_mass += count * made.zero_mass


def compose(parts: list[tuple[Mechanism, int]], plan: Plan) -> Law:
    """The composition of all parts, each as often as it is counted."""
    ends = [part.range(plan.reach) for part, _ in parts]
    made = grid(plan.spacing, plan.coarseness, min(low for low, _ in ends), max(top for _, top in ends))
    sums = _Sums(plan, made)
    for part, count in parts:
        sums.take(part, count)
    return Law(
        remove=sums.remove.composite(),
        add=sums.add.composite(),
        lower=sums.lower.composite(),
        infinity_mass=sums.infinity_mass,
        zero_mass=sums.zero_mass,
        slack=1e-13 * (16 + sum(count for _, count in parts)),
    )
