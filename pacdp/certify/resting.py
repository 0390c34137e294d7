"""What was found out about the hypotheses of a certificate, put into it."""

from dataclasses import replace

import bounds
from bounds.hypotheses import Hypothesis, proved, unproved
from bounds.needs import NOBODY


def resting(
    made: bounds.Certificate, evidence: tuple[Hypothesis, ...], fixed: Hypothesis
) -> bounds.Certificate:
    """The certificate with what was found out about its hypotheses.

    Of a prior that saw some rows freely and these privately, that it saw none of these freely is needed too. What only
    whoever called a formula of ``bounds`` vouches for is unproved, since nobody but this package did.
    """
    own = {one.name for one in made.hypotheses}
    draws = proved("draws independent", "draws keyed by seed, pass and example")
    if "predictor saw none of these rows" in own:
        prior = "prior saw none of these rows"
        evidence = tuple(
            replace(h, name="predictor saw none of these rows") if h.name == prior else h
            for h in evidence
        )
    if "privacy covers these rows" in own:
        own.add("prior saw none of these rows")
    given = [*(one for one in (*evidence, draws) if one.name in own), fixed]
    known = {one.name for one in given}
    silent = [
        one
        for one in made.hypotheses
        if one.name not in known and one.by.startswith("the caller of bounds.")
    ]
    return made.resting_on(*given, *(unproved(one.name, NOBODY) for one in silent))
