"""The certificate of a Gaussian around a Gibbs law that nobody draws.

R(Q) ≤ kl⁻¹(R̂(Q), (ln ξ(n) + Λ)/n), Λ the price of Q ("Gibbs laws that nobody draws" in docs/guarantees.md), with the
divergence from the law in it. There is no noise in training, nothing stationary and nothing sampled: risk, divergence
and price are one-dimensional integrals, rounded up.
"""

import numpy as np
import torch
from torch import Tensor

import bounds
from bounds.gibbs_around import Head, gibbs_around, margins, wrong_classes, wrong_signs
from bounds.hypotheses import declared, proved
from pacdp.certify.drawn_head import PRIOR, digest, require_examples
from pacdp.certify.examples import BoundSet, Device
from pacdp.certify.networks import fresh_certificates
from pacdp.certify.priors import Source
from pacdp.certify.reading import Network, Reading
from pacdp.features.ridge_head import UndrawnHeads
from pacdp.predictions.bounding import about
from pacdp.predictions.report import Measured, Report

_KNOWN = (
    proved("potentials one a record", "each is made of one row and its label, over a constant"),
    declared(
        "schedule blind to the records",
        "the caller, of temperature, divisor, ridge and features; the coordinates are made of other rows",
    ),
    proved("losses convex", "they are logistic"),
    proved("norms of all records kept", "their means under the posterior were computed here, of all rows"),
)  # fmt: skip


def assess(
    law: UndrawnHeads,
    source: Source | None,
    *,
    data: BoundSet,
    test: BoundSet | None,
    failure_prob: float,
    device: Device,
) -> Report:
    """The certificate of fresh weights for every prediction, and beside it the network at the mean weights."""
    heads, of = law.law, "randomised"
    require_examples(
        source, data, heads.classes,
        needs="heads around a Gibbs law need prior=HeldOut(rows=...), the rows that fixed the coordinates, or DataFree",
    )  # fmt: skip
    rows, targets = heads.rows(data.inputs), heads.targets(data.labels)
    price = gibbs_around(
        rows=rows, heads=[Head(own, *one) for own, one in zip(targets, law.around, strict=True)], tau=heads.tau,
        normaliser=heads.normaliser, exact_below=law.exact_below, hypotheses=_KNOWN,
    )  # fmt: skip
    laws = [margins(rows, one.mean, one.factor, heads.tau) for one in law.around]
    single = len(laws) == 1
    risk = wrong_signs(laws[0], targets[0]) if single else wrong_classes(laws, data.labels.numpy())
    made = bounds.maurer(risk=risk, kl_nats=0.0, n=data.n, failure_prob=failure_prob, price=price)
    made = made.resting_on(PRIOR)
    network = Network(network=_at_the_means(law), of="mean weights")
    sets = Reading(law=network, device=device).judged(data, test)
    measured = [
        Measured(of=of, on="bound", mean=risk, n=data.n),
        *(one.measured(on) for on, one in sets.items()),
    ]
    findings = [about(made, of=of), *measured]
    if test is not None:
        findings += fresh_certificates(sets["test"], failure_prob=failure_prob)
    means, factors = (torch.tensor(np.stack(one)) for one in zip(*law.around, strict=True))
    details = {
        "features": heads.features, "law": f"temperature 1/{heads.tau!r}, divisor {heads.normaliser}",
        "turn": digest(heads.turn), "centre": digest(heads.centre), "means": digest(means), "factors": digest(factors),
    }  # fmt: skip
    return Report.of(findings, data, route="undrawn", failure_prob=failure_prob, details=details)


def _at_the_means(law: UndrawnHeads):
    """Logits of the heads at their mean weights, one for two classes."""
    means = torch.tensor(np.stack([one.mean for one in law.around]))

    def logits(features: Tensor) -> Tensor:
        found = torch.tensor(law.law.rows(features.cpu())) @ means.T
        return found[:, 0] if len(means) == 1 else found

    return logits
