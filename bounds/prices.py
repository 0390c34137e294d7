"""Prices: what takes the place of ln(1/failure_prob) in a bound, by where its prior came from.

A bound of this package is proved for a prior that does not depend on the sample: it says that some f(y, S) with
E_S exp f(y, S) ≤ 1 for every fixed y exceeds ln(1/failure_prob) with probability at most failure_prob. When y is
released by a mechanism that saw the same sample, a theorem about the mechanism gives the number Λ that f(Y, S) exceeds
with probability at most failure_prob. That number is the price; every formula takes one as ``price``. Proofs:
docs/guarantees.md, "Prices".
"""

from collections.abc import Mapping
from math import log, sqrt
from typing import Any, ClassVar

from bounds import _check
from bounds._check import door
from bounds._rounding import log_inverse, outward, total
from bounds._transfer_search import Charge, range_nats
from bounds.hypotheses import Hypothesis
from bounds.privacy import PrivacyClaim
from bounds.privacy_loss import PrivacyLossDistribution
from bounds.record import record
from bounds.transfer import checked, transfer_cost

Inputs = Mapping[str, float | int | str]


class Price:
    """What a formula asks of a price; each kind is a frozen record.

    Attributes:
        prefix: begins the name of a certificate at this price, and says what it needs in ``bounds.needs.NEEDS``; empty
            for an independent prior.
        reference: where it is proved; empty for an independent prior, whose formula is proved as it stands.
        measured: whether Λ was measured on the sample. It then bounds f(Y, S) for an f that is fixed, but not an event
            that is itself defined by Λ, and nothing may be chosen by it.
        pays_for_a_draw: whether it bounds an exponential moment of f of order at most one, which by Jensen's
            inequality pays for one draw of a posterior too.
    """

    __slots__ = ()
    prefix: ClassVar[str]
    reference: ClassVar[str]
    measured = False
    pays_for_a_draw = False

    @property
    def known(self) -> tuple[Hypothesis, ...]:
        """Hypotheses whose standing the price itself knows."""
        return ()

    @property
    def inputs(self) -> Inputs:
        """The parameters of the price, for the inputs of a certificate."""
        return {}

    @door()
    def charge(self, *, n: int, failure_prob: float) -> Charge:
        """Λ for n independent records. Raises ValueError when an argument is out of range."""
        return self._charge(n, failure_prob)

    def _charge(self, n: int, failure_prob: float) -> Charge:
        return Charge(nats=self._nats(n, failure_prob), budget={"bound": failure_prob})

    def _nats(self, n: int, failure_prob: float) -> float:
        """Λ, rounded up."""
        raise NotImplementedError


@record
class Independent(Price):
    """ln(1/failure_prob): the prior was fixed before the sample was seen."""

    prefix = ""
    reference = ""
    pays_for_a_draw = True

    def _charge(self, n: int, failure_prob: float) -> Charge:
        return Charge(name="confidence", nats=log_inverse(failure_prob), budget={"bound": failure_prob})


@record
class _Pure(Price):
    """A price for a prior that an epsilon-DP mechanism (replace-one adjacency) released.

    The privacy loss ``epsilon``, in nats, is 0 or more; at 0 the price is ln(1/failure_prob) or more, at infinity
    infinite.
    """

    epsilon: float

    def __post_init__(self) -> None:
        _check.fields(self)

    @property
    def inputs(self) -> Inputs:
        """The privacy loss."""
        return {"epsilon": self.epsilon}


@record
class Sharp(_Pure):
    """The sharp transfer, (√ln(1/failure_prob) + epsilon √(n/8))² nats.

    "Sharp pure-DP transfer" in docs/guarantees.md: if E_S exp f(y, S) ≤ 1 for every fixed y, and Y is released by an
    epsilon-DP mechanism that saw S, then f(Y, S) exceeds this with probability at most ``failure_prob``. It is 20.787
    nats at n = 60000, epsilon = 8/√n, failure_prob = 0.05.
    """

    prefix = "dp_"
    reference = 'docs/guarantees.md, "Sharp pure-DP transfer"'

    def _nats(self, n: int, failure_prob: float) -> float:
        return range_nats(self.epsilon, n, failure_prob)


@record
class MaxInformation(_Pure):
    """The transfer by max-information, ln(2/δ) + n ε²/2 + ε √(n ln(4/δ)/2) nats with δ = failure_prob.

    Dwork et al. (NeurIPS 2015), "Generalization in adaptive data analysis and holdout reuse", Theorem 20 (an
    epsilon-DP mechanism on n independent records has β-approximate max-information at most
    n ε²/2 + ε √(n ln(2/β)/2) nats), with β = δ/2, as used by Dziugaite and Roy (NeurIPS 2018). It is 47.531 nats at
    n = 60000, epsilon = 8/√n, failure_prob = 0.05.
    """

    prefix = "max_information_"
    reference = "Dziugaite and Roy, NeurIPS 2018, arXiv 1802.09583, Theorem 4.2"

    def _nats(self, n: int, failure_prob: float) -> float:
        epsilon, confidence = self.epsilon, log_inverse(failure_prob)
        information = epsilon * sqrt(n * total(log(4.0), confidence) / 2.0)
        return total(log(2.0), confidence, outward(n * epsilon * epsilon) / 2.0, information)


@record
class Printed2018(_Pure):
    """The transfer of the Entropy-SGLD paper, 2 max{ln(3/failure_prob), n epsilon²} nats.

    Dziugaite and Roy (ICML 2018), Theorem 4.3, from Dwork et al. (STOC 2015), Theorem 11: an event of probability at
    most β for every fixed y has probability at most 3√β for the released one if epsilon ≤ √(ln(1/β)/(2n)). It is 128
    nats at n = 60000, epsilon = 8/√n, failure_prob = 0.05.
    """

    prefix = "printed_2018_"
    reference = "Dziugaite and Roy, ICML 2018, arXiv 1712.09376, Theorem 4.3"

    def _nats(self, n: int, failure_prob: float) -> float:
        return outward(2.0 * max(total(log(3.0), log_inverse(failure_prob)), outward(n * self.epsilon * self.epsilon)))


@record
class Accounted(Price):
    """``transfer_cost`` of what an accounted mechanism promises about all that it released.

    Attributes:
        privacy: the promise; for people as records, that of a mechanism with people as its unit.
    """

    privacy: PrivacyClaim

    prefix = "private_"
    reference = 'docs/guarantees.md, "General transfer"'

    def __post_init__(self) -> None:
        checked(self.privacy)

    @property
    def known(self) -> tuple[Hypothesis, ...]:
        """What the promise itself rests on."""
        return self.privacy.hypotheses

    @property
    def inputs(self) -> Inputs:
        """The promise in numbers and words; the masses of a distribution by their digest."""
        record: dict[str, Any] = dict(self.privacy.to_dict())
        if isinstance(self.privacy, PrivacyLossDistribution):
            del record["with_record"], record["without_record"]
            record["digest"] = self.privacy.digest
        return {f"privacy_{name}": value for name, value in record.items()}

    def _charge(self, n: int, failure_prob: float) -> Charge:
        return transfer_cost(privacy=self.privacy, n=n, failure_prob=failure_prob)


INDEPENDENT = Independent()


def of_weights(price: Price) -> Price:
    """The price where weights are judged and no prior enters.

    Raises ValueError for a price that was measured on the sample: the event that weights fail would depend on it.
    """
    if isinstance(price, Price) and price.measured:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ValueError(
            f"price must not be measured on the sample where no prior enters, got {type(price).__name__}; use a "
            f"formula with a prior at kl_nats=0, such as maurer, which costs log_xi(n) nats besides."
        )
    return price
