"""Numbers of the report never err to the unsafe side."""

from math import inf

from pacdp.cli.figures import names
from tests.marks import every_case


@every_case(
    ("value", "shown"),
    [(0.3378, "0.3378"), (0.33780001, "0.3379"), (1.0, "1 (vacuous)"), (0.99991, "1 (vacuous)"), (0.9999, "0.9999"),
     (0.0, "0"), (inf, "1 (vacuous)")],
)  # fmt: skip
def test_bounds_as_text(value, shown):
    assert names.bound(value) == shown
    assert names.probability(0.0123456) == "0.01235", "a failure probability is rounded up"
