"""What was found out about the hypotheses of a certificate, put into it."""

from dataclasses import replace

import bounds
from bounds.hypotheses import Hypothesis, proved


def resting(made: bounds.Certificate, evidence: tuple[Hypothesis, ...], fixed: Hypothesis) -> bounds.Certificate:
    """The certificate with what was found out about its hypotheses."""
    own = {one.name for one in made.hypotheses}
    draws = proved("draws independent", "draws keyed by seed, pass and example")
    if "predictor saw none of these rows" in own:
        prior = "prior saw none of these rows"
        evidence = tuple(
            replace(h, name="predictor saw none of these rows") if h.name == prior else h for h in evidence
        )
    return made.resting_on(*(one for one in (*evidence, draws) if one.name in own), fixed)
