"""What the studies of chains share: labels, the effort on Gibbs classifiers and the bounds of converged chains."""

from typing import Any

from pacdp import GibbsSettings
from pacdp.cli.figures import names

LABELS = {"true": 0.0, "random": 1.0}
"""Share of labels that are drawn anew."""
QUICK = GibbsSettings(epochs=2.0, prior_draws=5, test_draws=5)
BRIEF = GibbsSettings(epochs=1.0, prior_draws=2, test_draws=2)
"""Of runs that show that everything works."""
ENTROPY: dict[str, Any] = {"algorithm": "Entropy-SGLD", "gibbs": QUICK, "step_size": 0.5}
"""Ladders of Entropy-SGLD. Its outer steps are large enough to move (docs/entropy_sgld.md says why)."""
BOUNDS = tuple(name for name in names.CONVERGED if name != "test_set_clopper_pearson")
