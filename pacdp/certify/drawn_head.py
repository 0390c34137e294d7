"""The certificate of a head that is drawn exactly from a Gibbs law over the bound's own records.

R(W + D) ≤ kl⁻¹(R̂(W + D), (ln ξ(n) + Λ)/n), Λ the price of the draw by the gradients of all records where it lies
("Gibbs draws" in docs/guarantees.md). The draw is made here, so that it is the law's and is the only one; nothing has
to converge, nothing is clipped, and no divergence enters.
"""

import hashlib
from collections.abc import Iterator
from typing import Any

from torch import Tensor

from bounds.gibbs_draws import gibbs_gradients
from bounds.hypotheses import declared, proved
from bounds.noisy import GibbsGradients
from pacdp.certify.examples import BoundSet, Device, require_labels
from pacdp.certify.networks import (
    Finding,
    fresh_certificates,
    released_certificate,
)
from pacdp.certify.priors import DataFree, HeldOut, Source
from pacdp.certify.reading import Network, Reading
from pacdp.features.gibbs_head import GibbsHead, HeadDraw
from pacdp.predictions.report import Report

DRAWN, ANCHOR = "drawn head", "prior mean"
_KNOWN = (
    proved("drawn from the law that is paid for", "drawn here, by Cholesky factors in double precision"),
    proved("potentials one a record", "each is made of one row, its label and the anchor, over a constant"),
    declared("noise secret or independent", "whoever fixed the seed of the draw"),
    declared(
        "schedule blind to the records",
        "the caller, of temperature, divisor, ridge and features; anchor and norm are made of other rows",
    ),
    proved("losses convex", "they are quadratics of curvature 0 or more"),
    proved("norms of all records kept", "those of all rows were computed here, where the draw lies"),
)  # fmt: skip
"""What is known of a draw that was made here."""


PRIOR = declared("prior saw none of these rows", "the caller")


def require_examples(source: Source | None, data: BoundSet, classes: int, *, needs: str) -> None:
    """Refuse what no head of a Gibbs law can be certified on; ``needs`` says which prior it takes.

    Raises:
        ValueError: another prior than rows that fixed the law, people, or labels that are no classes of the head.
    """
    if not isinstance(source, DataFree | HeldOut):
        raise ValueError(needs)
    if data.unit == "person":
        raise ValueError(
            "the Gibbs law has one potential for each example: give data without people"
        )
    require_labels(data.labels, classes)


def draw_price(draw: HeadDraw, tau: float) -> GibbsGradients:
    """The price of a head that was drawn, by the gradients of all records where it lies."""
    return gibbs_gradients(
        squared_gradients=draw.squared_gradients.numpy(),
        smoothness=draw.smoothness.numpy(),
        strong_convexity=tau,
        hypotheses=_KNOWN,
    )


def assess(
    law: GibbsHead,
    source: Source | None,
    *,
    data: BoundSet,
    test: BoundSet | None,
    failure_prob: float,
    device: Device,
) -> Report:
    """The drawn head's certificate, and beside it the anchor's count on the same records, which are new to it."""
    require_examples(
        source, data, len(law.anchor),
        needs="a GibbsHead needs prior=HeldOut(rows=...), the rows of its anchor, or DataFree for one made without any",
    )  # fmt: skip
    draw = law.draw(data.inputs, data.labels)
    price = draw_price(draw, law.tau)
    return Report.of(
        _findings(law, draw, price, data=data, test=test, failure_prob=failure_prob, device=device),
        data,
        route="drawn",
        failure_prob=failure_prob,
        details={
            "features": law.features,
            "law": f"temperature 1/{law.tau!r}, divisor {law.normaliser}, drawn by the seed {law.seed}",
            "anchor": digest(law.anchor), "metric": digest(law.metric), "weights": digest(draw.weights),
            "squared_gradients": digest(draw.squared_gradients), "smoothness": digest(draw.smoothness),
        },
    )  # fmt: skip


def _findings(
    law: GibbsHead,
    draw: HeadDraw,
    price: GibbsGradients,
    *,
    data: BoundSet,
    test: BoundSet | None,
    failure_prob: float,
    device: Device,
) -> Iterator[Finding]:
    drawn, anchor = (
        Reading(law=_head(weights, of), device=device).judged(data, test)
        for weights, of in ((draw.weights, DRAWN), (law.anchor, ANCHOR))
    )
    yield from (one.measured(on) for sets in (drawn, anchor) for on, one in sets.items())
    how: dict[str, Any] = {"of": DRAWN, "measures": data.risk(), "failure_prob": failure_prob}
    made = released_certificate(drawn["bound"].error, n=data.n, price=price, **how)
    yield made.resting_on(PRIOR)
    if test is not None:
        yield from fresh_certificates(drawn["test"], failure_prob=failure_prob)
    yield fresh_certificates(anchor["bound"], failure_prob=failure_prob, name="prior_mean")[0]


def _head(weights: Tensor, of: str) -> Network:
    return Network(network=lambda rows: rows.double() @ weights.T.to(rows.device), of=of)


def digest(numbers: Tensor) -> str:
    """SHA-256 of the numbers as little-endian doubles in order of rows."""
    return hashlib.sha256(numbers.numpy().astype("<f8").tobytes()).hexdigest()
