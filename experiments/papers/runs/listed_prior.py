"""The private prior of the study of certificates, which pays for a list of settings, also at the price of its sums.

Prior, examples and list are those of :mod:`experiments.papers.runs.private_prior`: all examples are the bound's. The
mechanism adds Gaussian noise to sums of clipped contributions of all examples in every step, so that the worst-case
price of "Noisy sums" in docs/guarantees.md is right for it as well; mu, the root of the most that one example adds to
all steps, is that of its Gaussian DP when an example is added or removed.
"""

from typing import Any

import torch
from torch import nn

import bounds
from experiments.papers.runs.held_out import of_a_list
from experiments.papers.runs.private_prior import Outcome, Settings, conduct
from experiments.papers.runs.private_priors import gaussian, worst_case
from pacdp import Assessment, BoundSet, MonteCarlo, Prior, certify
from pacdp.certify.priors import NoisySum
from pacdp.data import load
from pacdp.features import OrientedGradients, fit_mean, transform, unit

SHARP = "at the price of its sums"
_START = "the study, whose heads begin at zero, on features without parameters"


def listed(settings: Settings, *, root: str | None = None) -> dict[str, Any]:
    """The report at the price of the privacy curve; among its references that at the price of the sums."""
    outcome = conduct(settings, root=root, references=False)
    report = outcome.to_dict()
    references = {**report["details"]["references"], SHARP: _sharp(outcome, root).to_dict()}
    return {**report, "details": {**report["details"], "references": references}}


def _sharp(outcome: Outcome, root: str | None) -> Assessment:
    settings, released = outcome.settings, outcome.released
    assert released.event is not None
    rows, test = _seen(outcome, root)
    price = worst_case(released.event, start=_START)
    failure_prob = settings.each * (1.0 - settings.monte_carlo_share)
    cost = bounds.log_xi(rows.n) + price.charge(n=rows.n, failure_prob=failure_prob).nats
    mean = fit_mean(rows.inputs, rows.labels, prior_mean=released.head, std=settings.std, cost_nats=cost,
                    iterations=settings.iterations)  # fmt: skip
    how = MonteCarlo(passes=settings.passes, share=settings.monte_carlo_share, batch_size=4096)
    prior = Prior(law=gaussian(released.head, settings.std), source=NoisySum(price=price))
    classes, dim = mean.shape
    return certify(
        gaussian(mean, settings.std), rows, network=nn.Linear(dim, classes, bias=False).eval(), prior=prior, test=test,
        failure_prob=settings.failure_prob, settings=of_a_list(settings.compared), monte_carlo=how,
        seed=settings.seed + 2000,
    )  # fmt: skip


def _seen(outcome: Outcome, root: str | None) -> tuple[BoundSet, BoundSet]:
    """The examples of the bound and of the test set, as the private head saw them."""
    settings = outcome.settings
    sets = load(settings.dataset, root=root)
    features = OrientedGradients(
        size=sets[0].inputs.shape[-1], orientations=settings.orientations, cells=settings.cells, scale=settings.scale
    )
    first, second = (
        BoundSet(
            inputs=unit(transform(features, one.inputs) - outcome.released.centre), labels=torch.tensor(one.labels),
            people=one.people,
        )
        for one in sets
    )  # fmt: skip
    return first, second
