"""A network that is certified as it is, by another one with a certificate: R(f) ≤ R(h) + P(f ≠ h).

Bazinet et al., "Bound to Disagree", UAI 2026. f may have learnt from all the labelled records there are; h is the one
that is certified on them, and examples without labels say how often the two differ. Arguments out of range raise
ValueError.
"""

import json

from bounds import _check
from bounds._check import door
from bounds._rounding import total
from bounds.certificate import Certificate
from bounds.hypotheses import together
from bounds.means import clopper_pearson_upper
from bounds.needs import declared_by

ZERO_ONE = "0-1 risk"
SURROGATE = "surrogate"
"""The entry of the budget that pays for the other network's certificate."""


@door()
def disagreement(*, surrogate: Certificate, k: int, n: int, failure_prob: float) -> Certificate:
    """R(f) ≤ R(h) + P(f ≠ h), the first by the certificate of h, the second by Clopper and Pearson's bound.

    Where f and h answer alike and h is right, f is right. So the 0-1 risk of f exceeds that of h by no more than the
    probability that they differ, for which no label is needed.

    Formal guarantee: if the certificate ``surrogate`` of h fails with probability at most its failure_prob, and the two
    networks saw none of n independent examples of the same law, on k of which they differ, then with probability at
    least 1 - failure_prob - surrogate.failure_prob f errs on a new example with probability at most ``value``. An
    example counts among the k where either of the two has no largest output.

    Args:
        surrogate: a certificate of the 0-1 risk of h, from records that f may have seen.
        k: examples on which the networks differ.
        n: examples, without labels.
        failure_prob: probability that the bound on P(f ≠ h) fails.
    """
    (surrogate,) = _check.records("surrogate", (surrogate,), Certificate)
    if surrogate.measures != ZERO_ONE:
        raise ValueError(
            f"surrogate must bound the {ZERO_ONE}, got {surrogate.measures!r}; other risks are no such sum."
        )
    apart = clopper_pearson_upper(k, n, failure_prob)
    own = declared_by("the caller of bounds.disagreement", "disagreement")
    return Certificate(
        name="disagreement",
        value=min(1.0, total(surrogate.value, apart)),
        failure_prob=total(surrogate.failure_prob, failure_prob),
        of="your network",
        measures=ZERO_ONE,
        hypotheses=together(surrogate.hypotheses, own),
        terms={"surrogate_risk": surrogate.value, "disagreement": apart},
        budget={SURROGATE: surrogate.failure_prob, "test set": failure_prob},
        inputs={"k": k, "n": n, "failure_prob": failure_prob,
                "surrogate": json.dumps(surrogate.to_dict(), allow_nan=False)},
        reference='Bazinet et al., UAI 2026; docs/guarantees.md, "Untouched networks"',
    )  # fmt: skip
