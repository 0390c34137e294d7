"""Priors: a law over weights and where it came from, which decides the theorems that may use it."""

import json

import bounds
from bounds.prices import Accounted, Independent, Price
from pacdp.certify.examples import MAX, require_kinds
from pacdp.data import Split
from pacdp.data.rows import Rows
from pacdp.posterior import GaussianPosterior
from pacdp.store.record import Values, record

NOISE_OF_THE_RUN = "the run, whose noise is drawn from a seed that must not depend on the examples"
"""Who vouches for the noise of a chain."""
NOISE_OF_THE_SYSTEM = (
    "the run, whose noise was drawn under a key of the operating system "
    "that its checkpoint alone keeps"
)
"""Who vouches for the noise of a chain with secret keys."""


@record
class DataFree:
    """The prior was fixed before any example was looked at: random first weights, or weights learnt on other data."""

    description: str = "fixed before the examples were seen"
    seen = None
    price = Independent()


@record
class HeldOut:
    """The prior was learnt on other examples.

    Attributes:
        indices: which ones of the data set it saw, where it counts in the same one as the bound's.
        data_hash: hash of that data set, where it is known.
        rows: the hashes of the examples that it saw; with them their absence from the bound is proved, with indices
            alone it is declared.
    """

    indices: Split | None = None
    data_hash: str = ""
    rows: Rows | None = None
    price = Independent()

    def __post_init__(self) -> None:
        require_kinds(self, indices=Split | None, rows=Rows | None, data_hash=str)
        if self.indices is None and self.rows is None:
            raise ValueError("HeldOut needs rows or indices: say which examples the prior saw")

    @property
    def seen(self) -> "HeldOut":
        """What the prior's maker met without privacy."""
        return self


@record
class Private:
    """The prior is a function of what a private mechanism released, which may have seen every example of the bound.

    Attributes:
        privacy: what it promises; several runs, chosen among by looking at the examples, count together. For people as
            records, the promise must be to people.
        seen: other examples, which it saw without any privacy and on which no bound may rest: a hybrid of both.
        rows: the hashes of the examples that the promise is made to; with them it is proved that it covers the bound's.
        unit: "example" or "person": whose data the mechanism hides.
        noise: who says that the mechanism's noise was secret or independent of the examples.
        sums: what the mechanism costs where it is known to add Gaussian noise to sums over these records; a network as
            it is has a certificate at that price beside the one by its privacy.
    """

    privacy: bounds.PrivacyClaim
    seen: HeldOut | None = None
    rows: Rows | None = None
    unit: str = "example"
    noise: str = "whoever ran the mechanism"
    sums: bounds.PoissonSum | None = None

    def __post_init__(self) -> None:
        require_kinds(self, privacy=bounds.PrivacyClaim, seen=HeldOut | None, rows=Rows | None,
                      sums=bounds.PoissonSum | None)  # fmt: skip
        _require_unit(self)

    @property
    def price(self) -> Price:
        """What pays for what was released."""
        return Accounted(privacy=self.privacy)


def _require_unit(source: "Private | NoisySum") -> None:
    if source.unit not in ("example", "person"):
        raise ValueError(
            f"expected {type(source).__name__}.unit to be 'example' or 'person', got {source.unit!r}: say whose data "
            "the mechanism was accounted for"
        )


@record
class NoisySum:
    """The prior is a function of what noisy sums over the bound's examples released, at a price made from these.

    Attributes:
        price: of :mod:`bounds.noisy`, with what is known of the run.
        unit: "example" or "person": whose contributions the price counts. What a person adds with all of their examples
            says nothing of single ones, nor the other way round.
    """

    price: Price
    unit: str = "example"

    seen = None

    def __post_init__(self) -> None:
        require_kinds(self, price=Price)
        _require_unit(self)
        if isinstance(self.price, Independent | Accounted):
            raise ValueError(
                f"expected a price of a noisy sum, got {type(self.price).__name__}: use DataFree or Private"
            )


Source = DataFree | HeldOut | Private | NoisySum


@record
class Prior:
    """A Gaussian over the weights of a network, with its source.

    ``choice_nats`` is what choosing it among several costs, as in :func:`bounds.prior_scale_grid`; it is added to the
    divergence.
    """

    law: GaussianPosterior
    source: Source
    choice_nats: float = 0.0

    def __post_init__(self) -> None:
        require_kinds(self, law=GaussianPosterior, source=Source, choice_nats=float | int)
        if not 0.0 <= self.choice_nats <= MAX:
            raise ValueError(f"expected choice_nats >= 0 and finite, got {self.choice_nats}")

    def to_dict(self) -> Values | None:
        """JSON values: source and what the choice costs, not the weights."""
        return source_to_dict(self.source, choice_nats=self.choice_nats)


def source_to_dict(source: Source | None, *, choice_nats: float = 0.0) -> Values | None:
    """JSON values of where a prior came from, and what choosing it costs; None where nobody says."""
    if source is None:
        return None
    about: Values = {"source": type(source).__name__, "choice_nats": choice_nats}
    if isinstance(source, Private):
        told = ("notion", "adjacency", "status")
        about["privacy"] = {name: getattr(source.privacy, name) for name in told}
    about |= {
        name: getattr(source, name) for name in ("description", "unit") if hasattr(source, name)
    }
    if source.seen is None:
        return about
    known = source.seen.rows if source.seen.indices is None else source.seen.indices
    return {**about, "n": getattr(known, "n", 0), "hash": getattr(known, "hash", "")}


def privacy_to_dict(privacy: bounds.PrivacyClaim) -> Values:
    """What a report says of a promise; the masses of a distribution by their digest, with the event they are of."""
    record = {
        name.removeprefix("privacy_"): value
        for name, value in bounds.Accounted(privacy=privacy).inputs.items()
    }
    event = json.loads(str(record.pop("event", "null")))
    return {
        "adjacency": privacy.adjacency,
        "status": privacy.status,
        "event": event,
        "record": record,
    }
