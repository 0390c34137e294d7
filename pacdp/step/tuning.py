"""How many runs a private choice of hyper-parameters makes, from a source that nobody can predict."""

import secrets
from decimal import Decimal, localcontext

from bounds.accounting import NegativeBinomialRuns, PoissonRuns

_DIGITS, _BITS = 80, 192


def number_of_runs(law: NegativeBinomialRuns | PoissonRuns) -> int:
    """A draw of K from the operating system's randomness, for :func:`bounds.accounting.tuned_epsilon`.

    K is secret: whoever sees it, or how long the search took, sees more than the accountant counts.

    Formal guarantee: the law of the draw is ``law`` but for 2⁻¹⁸⁰ in total variation, which adds (1 + e^ε) 2⁻¹⁸⁰ to
    delta.
    """
    with localcontext(prec=_DIGITS):
        left = Decimal(secrets.randbits(_BITS)) / 2**_BITS
        for k, probability in enumerate(law.probabilities()):
            left -= probability
            if left < 0:
                return k
    raise AssertionError("the probabilities have no end")
