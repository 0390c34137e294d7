"""Certificates of linear heads by Gibbs laws over the bound's own records.

A head that is drawn ("Gibbs draws" in docs/guarantees.md): R(W + D) ≤ kl⁻¹(R̂(W + D), (ln ξ(n) + Λ)/n), Λ the price of
the draw by the gradients of all records where it lies. The draw is made here, so that it is the law's and is the only
one; nothing has to converge, nothing is clipped, and no divergence enters.

Gaussians around a law that nobody draws ("Gibbs laws that nobody draws" there): R(Q) ≤ kl⁻¹(R̂(Q), (ln ξ(n) + Λ)/n), Λ
the price of Q, with the divergence from the law in it. There is no noise in training, nothing stationary and nothing
sampled: risk, divergence and price are one-dimensional integrals, rounded up.
"""

import hashlib
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

import bounds
from bounds.gibbs_around import Head, gibbs_around, margins, wrong_classes, wrong_signs
from bounds.gibbs_draws import gibbs_gradients
from bounds.hypotheses import Hypothesis, declared, proved
from bounds.noisy import GibbsGradients
from pacdp.certify.examples import require_labels
from pacdp.certify.networks import Question, fresh_certificates, released_certificate
from pacdp.certify.priors import DataFree, HeldOut
from pacdp.features.gibbs_head import HeadDraw
from pacdp.features.ridge_head import RidgeHeads, UndrawnHeads
from pacdp.predictions.bounding import about
from pacdp.predictions.report import Measured, Report

DRAWN, ANCHOR, UNDRAWN = "drawn head", "prior mean", "randomised"
_PRIOR = declared("prior saw none of these rows", "the caller")
_WHICH_HEAD = (
    "drawn head has the weights of law.draw(inputs, labels{people}) for these examples, and what is certified of it is "
    "certified of no other draw"
)


def _known(potentials: str, fixed: str, losses: str, norms: str) -> tuple[Hypothesis, ...]:
    """What is known of a Gibbs law whose potentials are made of records here."""
    by = f"the caller, of temperature, divisor, ridge and features; {fixed} made of other rows"
    return (
        proved("potentials one a record", f"each is made of {potentials}, over a constant"),
        declared("schedule blind to the records", by),
        proved("losses convex", f"they are {losses}"),
        proved("norms of all records kept", norms),
    )


def _known_of_a_draw(rows: str) -> tuple[Hypothesis, ...]:
    """What is known of a draw that was made here."""
    return (
        proved("drawn from the law that is paid for", "drawn here, by Cholesky factors in double precision"),
        declared("noise secret or independent", "whoever fixed the seed of the draw"),
        *_known(f"{rows} and the anchor", "anchor and norm are", "quadratics of curvature 0 or more",
                "those of all rows were computed here, where the draw lies"),
    )  # fmt: skip


_AROUND = _known("one row and its label", "the coordinates are", "logistic",
                 "their means under the posterior were computed here, of all rows")  # fmt: skip


def _require_examples(asked: Question, classes: int, needs: str) -> None:
    """Refuse what no head of a Gibbs law can be certified on; ``needs`` says which prior it takes.

    Raises:
        ValueError: another prior than rows that fixed the law, people, or labels that are no classes of the head.
    """
    if not isinstance(asked.source, DataFree | HeldOut):
        raise ValueError(needs)
    require_labels(asked.data.labels, classes)


def draw_price(draw: HeadDraw, tau: float, *, rows: str = "one row, its label") -> GibbsGradients:
    """The price of a head that was drawn, by the gradients of all records where it lies; ``rows`` says what one is."""
    return gibbs_gradients(
        squared_gradients=draw.squared_gradients.numpy(),
        smoothness=draw.smoothness.numpy(),
        strong_convexity=tau,
        hypotheses=_known_of_a_draw(rows),
    )


def drawn(asked: Question) -> Report:
    """The drawn head's certificate, and beside it the anchor's count on the same records, which are new to it."""
    law, data = asked.law, asked.data
    _require_examples(
        asked, len(law.anchor),
        "a GibbsHead needs prior=HeldOut(rows=...), the rows of its anchor, or DataFree for one made without any",
    )  # fmt: skip
    people, rows = None, "one row, its label"
    if data.people is not None:
        people, rows = torch.tensor(data.people), "one person's rows, their labels"
    draw = law.draw(data.inputs, data.labels, people)
    price = draw_price(draw, law.tau, rows=rows)
    head, anchor = (
        asked.judged(lambda rows, w=weights: rows.double() @ w.T.to(rows.device), of)
        for weights, of in ((draw.weights, DRAWN), (law.anchor, ANCHOR))
    )
    failure_prob = asked.failure_prob
    made = released_certificate(head["bound"].error, n=data.units, price=price, of=DRAWN, measures=data.risk(),
                                failure_prob=failure_prob)  # fmt: skip
    beside = fresh_certificates(anchor["bound"], failure_prob=failure_prob, name="prior_mean")[0]
    measured = [one.measured(on) for on, one in anchor.items()]
    return asked.report(
        "drawn",
        [made.resting_on(_PRIOR), *asked.on_both(head), *measured, beside],
        remarks=(_WHICH_HEAD.format(people="" if people is None else ", people"),),
        details={
            "features": law.features,
            "law": f"temperature 1/{law.tau!r}, divisor {law.normaliser}, drawn by the seed {law.seed}",
            "anchor": digest(law.anchor), "metric": digest(law.metric), "weights": digest(draw.weights),
            "squared_gradients": digest(draw.squared_gradients), "smoothness": digest(draw.smoothness),
        },
    )  # fmt: skip


def undrawn(asked: Question) -> Report:
    """The certificate of fresh weights for every prediction, and beside it the network at the mean weights."""
    law, data, heads = asked.law, asked.data, asked.law.law
    if type(heads) is not RidgeHeads:
        raise ValueError(
            f"law.law must be RidgeHeads itself, got a subclass {type(heads).__name__}"
        )
    _require_examples(
        asked, heads.classes,
        "heads around a Gibbs law need prior=HeldOut(rows=...), the rows that fixed the coordinates, or DataFree",
    )  # fmt: skip
    if data.unit == "person":
        raise ValueError(
            "the law that nobody draws has one potential for each example: give data without people, or a GibbsHead"
        )
    rows, targets = heads.rows(data.inputs), heads.targets(data.labels)
    price = gibbs_around(
        rows=rows, heads=[Head(own, *one) for own, one in zip(targets, law.around, strict=True)], tau=heads.tau,
        normaliser=heads.normaliser, exact_below=law.exact_below, hypotheses=_AROUND,
    )  # fmt: skip
    laws = [margins(rows, mean, factor, heads.tau) for mean, factor in law.around]
    single = len(laws) == 1
    risk = wrong_signs(laws[0], targets[0]) if single else wrong_classes(laws, data.labels.numpy())
    made = bounds.maurer(
        risk=risk, kl_nats=0.0, n=data.n, failure_prob=asked.failure_prob, price=price
    )
    measured = Measured(of=UNDRAWN, on="bound", mean=risk, n=data.n)
    sets = asked.judged(_at_the_means(law), "mean weights")
    means, factors = (torch.tensor(np.stack(one)) for one in zip(*law.around, strict=True))
    return asked.report(
        "undrawn",
        [about(made.resting_on(_PRIOR), of=UNDRAWN), measured, *asked.on_both(sets)],
        details={
            "features": heads.features, "law": f"temperature 1/{heads.tau!r}, divisor {heads.normaliser}",
            "turn": digest(heads.turn), "centre": digest(heads.centre), "means": digest(means),
            "factors": digest(factors),
        },
    )  # fmt: skip


def _at_the_means(law: UndrawnHeads) -> Callable[[Tensor], Tensor]:
    """Logits of the heads at their mean weights, one for two classes."""
    means = torch.tensor(np.stack([one.mean for one in law.around]))

    def logits(features: Tensor) -> Tensor:
        found = torch.tensor(law.law.rows(features.cpu())) @ means.T
        return found[:, 0] if len(means) == 1 else found

    return logits


def digest(numbers: Tensor) -> str:
    """SHA-256 of the numbers as little-endian doubles in order of rows."""
    return hashlib.sha256(numbers.numpy().astype("<f8").tobytes()).hexdigest()
