"""What the modules of pacdp itself refuse, one row a check: settings, intervals, sizes, shapes and plans."""

from dataclasses import fields, replace
from math import inf, nan

import numpy as np
import pytest
import torch
from test_released_counts import released
from torch.nn import Linear
from toys import Quadratic, seeded, stretch, toy_data, toy_objective

from pacdp.algorithms import PSGLD, SGD, SGHMC, SGLD, EntropySGD, build
from pacdp.certify.gibbs import GibbsSettings
from pacdp.losses import Loss, bounded_cross_entropy
from pacdp.models import Architecture
from pacdp.models import build as network
from pacdp.objective import Objective
from pacdp.step.planned_steps import Plan
from pacdp.store.ledger_entries import Limit
from pacdp.store.reservation import Stream
from tests.marks import parametrize, refusal
from tests.refusals import refuses

pytestmark = pytest.mark.every_case

DATA, LOSS = toy_data(), bounded_cross_entropy(classes=2)
POTENTIAL = Quadratic(np.eye(1), np.zeros(1))
KINDS = (SGD(), SGLD(tau=10.0), PSGLD(tau=10.0), SGHMC(tau=10.0), EntropySGD(tau=10.0))
SHARES, EXPONENTS = {"momentum", "smoothing"}, {"decay", "inner_decay", "outer_decay", "cooling"}


def model(name, shape, *, classes=2, **how):
    return network(Architecture(name=name, **how), input_shape=shape, classes=classes, generator=seeded(0))


def limit(**changes):
    return Limit(**{"epsilon": 1.0, "delta": 1e-5, "adjacency": "add-remove"} | changes)


def listed(*steps):
    return Plan(steps=3, stopping="listed", listed=steps)


class Branching(Linear):
    """Decides by the values of a row, which vmap cannot."""

    def forward(self, input):
        return torch.stack([row if float(row.sum()) > 0 else 2 * row for row in super().forward(input)])


ROWS = [
    (lambda: Loss(name="odd", low=0.0, high=inf, function=LOSS.function), "a bounded interval"),
    (lambda: bounded_cross_entropy(classes=1), "classes >= 2 and max_loss > ln"),
    (lambda: LOSS(torch.ones(1, 1), torch.ones(8).long()), "must return one row an example"),
    (lambda: model("conv", (3, 28, 28)), r"CONV takes inputs of shape \(1, 28, 28\).*choose an fc"),
    (lambda: toy_objective(DATA, batch_size=0), "expected 1 <= batch_size <= n"),
    (lambda: toy_objective(DATA, clip_norm=0.0), "expected clip_norm > 0"),
    (lambda: toy_objective(DATA, clip_norm=1e-26), "1e-12 <= clip_norm"),
    (lambda: Objective(Linear(5, 1), LOSS, DATA, batch_size=9, labels=[DATA.labels[1:]]), "expected 60 labels a chain"),
    (
        lambda: Objective(Branching(5, 1), LOSS, DATA, batch_size=3, clip_norm=1.0),
        r"gradient of a single example cannot be taken .* torch\.func\.vmap",
    ),
    (lambda: GibbsSettings(epochs=0.0), "epochs must be positive"),
    (lambda: GibbsSettings(prior_draws=0), "prior_draws must be"),
    (lambda: GibbsSettings(burn_in=1.0), "expected 0 <= burn_in < 1"),
    (lambda: replace(KINDS[4], alpha=1.1), "expected 0 < alpha <= 1"),
    (lambda: PSGLD(tau=1.0, freeze_after=0), "expected freeze_after >= 1"),
    (lambda: build([SGD(), SGLD(tau=1.0)], POTENTIAL), r"must run one algorithm, got \['SGD', 'SGLD'\]"),
    (lambda: stretch(unit="row"), "unit"),
    (lambda: Stream(numbers="0a"), "must both be digests"),
    (lambda: limit(epsilon=inf), "epsilon must be finite"),
    (lambda: released(errors=60_001), "errors must be at most n"),
    (lambda: released(errors=1 / 3, unit="person"), "errors must be a multiple of 1/1024"),
    (lambda: released(std_errors=0.0), "std_errors"),
    (lambda: released().at_worst(failure_prob=0.0), "failure_prob"),
    (lambda: Plan(steps=0), "listed steps that increase from 1, got \\(0,"),
    (lambda: Plan(steps=3, listed=(3,)), "stopping='listed' only"),
    (listed, "listed steps that increase from 1"),
    (lambda: Plan(steps=7).charged(8), "expected 0 <= step <= 7, the planned number of steps, got"),
    (lambda: SGLD(tau=3.0).promise(40, 1), "set clip_norm, which also makes batches Poisson and the"),
    (lambda: SGLD(tau=3.0, clip_norm=1.0, batch_size=41).promise(40, 1), "expected batch_size <= n"),
    (lambda: EntropySGD(tau=inf, clip_norm=1.0, batch_size=9).promise(40, 1), "expected noise in every step"),
]


test_what_is_refused_and_why = pytest.mark.wrong_types(refuses(ROWS))


@parametrize("settings", KINDS, ids=lambda one: one.name)
def test_numbers_of_samplers_are_positive(settings):
    named = {field.name: getattr(settings, field.name) for field in fields(settings)}
    for name, value in named.items():
        if type(value) not in (int, float) or name in EXPONENTS:
            continue
        wrong = {-1, 0} if isinstance(value, int) else {-1.0, 0.0, nan}
        for bad in wrong - {0.0} if name in SHARES else wrong:
            with refusal(rf"expected .*{name}"):
                replace(settings, **{name: bad})
