"""Numbers of the report never err to the unsafe side; figures show the numbers they are given."""

from math import inf

import numpy as np

from bounds import Certificate, Cost, Hypothesis
from pacdp.cli.figures import costs, numbers, style
from tests.marks import every_case


@every_case(
    ("value", "shown"),
    [(0.3378, "0.3378"), (0.33780001, "0.3379"), (1.0, "1 (vacuous)"), (0.99991, "1 (vacuous)"), (0.9999, "0.9999"),
     (0.0, "0"), (inf, "1 (vacuous)")],
)  # fmt: skip
def test_bounds_as_text(value, shown):
    assert numbers.bound(value) == shown
    assert numbers.probability(0.0123456) == "0.01235", "a failure probability is rounded up"


def _made(name, standing, nats, **terms):
    """A certificate of one record that pays these nats."""
    fixed = Hypothesis(name="settings fixed beforehand", standing=standing, by="somebody")  # type: ignore[arg-type]
    paid = tuple(Cost(name=cost, nats=paid, per_example=paid) for cost, paid in nats.items())
    return Certificate(name=name, value=0.5, failure_prob=0.05, of="weights", hypotheses=(fixed,), costs=paid,
                       terms=terms, budget={}, reference="none", inputs={})  # fmt: skip


def test_bars_of_costs_are_stacked_in_order_and_optimistic_ones_are_marked_in_text():
    _, ((axes,),) = style.figure(1, 1)
    found = [
        _made("a", "unproved", {"transfer": 0.2, "kl": 0.1, "new": 0.0}),
        _made("b", "declared", {"log_density_ratio": -0.1, "confidence": 0.3}, monte_carlo_nats_per_draw=0.05),
    ]
    costs.draw(axes, found)
    drawn = np.array([(bar.get_x(), bar.get_width()) for bar in axes.patches])
    assert np.allclose(drawn, [(0.0, 0.1), (0.1, 0.2), (0.3, 0.0), (-0.1, 0.1), (0.0, 0.3)])
    assert [bar.get_hatch() for bar in axes.patches] == ["//", "//", "//", None, None]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["a, weights *", "b, weights"]
    assert [line.get_xdata()[0] for line in axes.lines] == [0.05]
    assert "* optimistic" in axes.get_xlabel()
