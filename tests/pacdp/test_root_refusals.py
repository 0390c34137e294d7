"""What the modules of pacdp itself refuse, one row a check: settings, intervals, sizes, shapes and plans."""

import math
from dataclasses import fields, replace

import numpy as np
import pytest
import torch
from test_released_counts import released
from toys import Quadratic, keys_of, seeded, toy_data, toy_objective

from bounds.accounting import Gaussian
from pacdp import GibbsSettings
from pacdp.algorithms import PSGLD, SGD, SGHMC, SGLD, EntropySGD, build
from pacdp.canonical import canonical
from pacdp.exponential import log_probabilities
from pacdp.ledger_entries import Limit
from pacdp.losses import Loss, bounded_cross_entropy, ramp
from pacdp.models import Architecture
from pacdp.models import build as network
from pacdp.objective import Objective
from pacdp.planned_steps import Plan, charged_steps
from pacdp.released_counts import ReleasedErrors
from pacdp.reservation import Stream, Stretch
from pacdp.spots import spot_features

pytestmark = pytest.mark.every_case

DATA, LOSS = toy_data(), bounded_cross_entropy(classes=2)
POTENTIAL = Quadratic(np.eye(1), np.zeros(1))
KINDS = (SGD(), SGLD(tau=10.0), PSGLD(tau=10.0), SGHMC(tau=10.0), EntropySGD(tau=10.0))
SHARES, EXPONENTS = {"momentum", "smoothing"}, {"decay", "inner_decay", "outer_decay", "cooling"}


def model(name, shape, *, classes=2, **how):
    return network(Architecture(name=name, **how), input_shape=shape, classes=classes, generator=seeded(0))


def stretch(**changes):
    given = {"run": "a", "algorithm": "toy", "unit": "example", "first": 1, "last": 4}
    return Stretch(**given | {"event": Gaussian(noise_multiplier=1.0)} | changes)


def limit(**changes):
    return Limit(**{"epsilon": 1.0, "delta": 1e-5, "adjacency": "add-remove"} | changes)


def kept(**changes):
    return ReleasedErrors(**released(unit="person").to_dict() | changes)


def listed(*steps):
    return Plan(steps=3, stopping="listed", listed=steps)


def one_step():
    sampler = build(SGLD(tau=1.0), POTENTIAL)
    return sampler.step(sampler.init(torch.zeros(2, 1)), keys_of(0))


class Branching(torch.nn.Linear):
    """Decides by the values of a row, which vmap cannot."""

    def forward(self, input):
        return torch.stack([row if float(row.sum()) > 0 else 2 * row for row in super().forward(input)])


ROWS = [
    (lambda: Loss(name="odd", low=0.0, high=math.inf, function=LOSS.function), "a bounded interval"),
    (lambda: bounded_cross_entropy(classes=1), "classes >= 2 and max_loss > ln"),
    (lambda: bounded_cross_entropy(classes=10, max_loss=2.0), r"max_loss > ln\(classes\)"),
    (lambda: LOSS(torch.ones(1, 1), torch.ones(8).long()), "must return one row an example"),
    (lambda: ramp().slope(torch.ones(9), torch.ones(8).long()), "must return one row"),
    (lambda: Architecture(hidden=(5, 0)), "hidden to list positive layer widths"),
    (lambda: Architecture(hidden=(5, 1), norm="group"), "hidden widths of at least 2 with norm='group'"),
    (lambda: model("fc", (3,), classes=1), "expected classes >= 2"),
    (lambda: model("conv", (3, 28, 28)), r"CONV takes inputs of shape \(1, 28, 28\).*choose an fc"),
    (lambda: model("allcnn", (1, 8, 8)), "at least 16x16"),
    (lambda: model("resnet18", (1, 8, 8)), "resnet18 takes images"),
    (lambda: toy_objective(DATA, batch_size=0), "expected 1 <= batch_size <= n"),
    (lambda: toy_objective(DATA, batch_size=61, clip_norm=1.0), "expected 1 <= batch_size <= n"),
    (lambda: toy_objective(DATA, clip_norm=0.0), "expected clip_norm > 0"),
    (lambda: toy_objective(DATA, clip_norm=math.nan), "expected clip_norm > 0"),
    (
        lambda: Objective(torch.nn.Linear(5, 1), LOSS, DATA, batch_size=9, labels=[DATA.labels[1:]]),
        "expected 60 labels a chain",
    ),
    (
        lambda: Objective(Branching(5, 1), LOSS, DATA, batch_size=3, clip_norm=1.0),
        r"gradient of a single example cannot be taken .* torch\.func\.vmap",
    ),
    (lambda: GibbsSettings(epochs=0.0), "expected epochs > 0 and 0 <= burn_in < 1"),
    (lambda: GibbsSettings(burn_in=1.0), "expected epochs > 0 and 0 <= burn_in < 1"),
    (lambda: GibbsSettings(alpha=1.0), "expected 0 <= alpha < 1"),
    (lambda: GibbsSettings(prior_draws=0), "expected prior_draws >= 1"),
    (lambda: GibbsSettings(test_draws=0), "and test_draws >= 1"),
    (lambda: replace(KINDS[4], alpha=1.1), "expected 0 < alpha <= 1"),
    (lambda: replace(KINDS[3], friction=1.1), "expected 0 < friction <= 1"),
    (lambda: replace(KINDS[0], momentum=1.0), "expected 0 <= momentum < 1"),
    (lambda: replace(KINDS[2], smoothing=1.0), "expected 0 <= smoothing < 1"),
    (lambda: PSGLD(tau=1.0, freeze_after=0), "expected freeze_after >= 1"),
    (lambda: build([SGD(), SGLD(tau=1.0)], POTENTIAL), r"must run one algorithm, got \['SGD', 'SGLD'\]"),
    (lambda: build([SGD(), SGD(batch_size=3)], POTENTIAL), "must agree on batch_size"),
    (lambda: build([SGLD(tau=1.0), SGLD(tau=1.0, clip_norm=1.0)], POTENTIAL), "agree on clip_norm"),
    (lambda: build([KINDS[2], replace(KINDS[2], correction=False)], POTENTIAL), "agree on correction"),
    (lambda: build([KINDS[2], replace(KINDS[2], freeze_after=4)], POTENTIAL), "agree on freeze_after"),
    (lambda: build([KINDS[4], replace(KINDS[4], inner_steps=3)], POTENTIAL), "agree on inner_steps"),
    (one_step, "expected one key a chain, got 1 keys for 2 chains"),
    (lambda: stretch(first=0), "first"),
    (lambda: stretch(first=9, last=3), "first must be at most last"),
    (lambda: stretch(unit="row"), "unit"),
    (lambda: stretch(run=""), "run"),
    (lambda: stretch(event="noise"), "event"),
    (lambda: stretch(stream="system"), "stream"),
    (lambda: stretch(kind="x"), "kind"),
    (lambda: Stream(numbers="0a"), "must both be digests"),
    (lambda: limit(epsilon=-1.0), "epsilon"),
    (lambda: limit(epsilon=math.inf), "epsilon must be finite"),
    (lambda: limit(delta=0.0), "delta"),
    (lambda: limit(unit="row"), "unit"),
    (lambda: released(errors=60_001), "errors must be at most n"),
    (lambda: released(errors=12.5), "errors"),
    (lambda: released(errors=1 / 3, unit="person"), "errors must be a multiple of 1/1024"),
    (lambda: released(n=0), "n"),
    (lambda: released(std_errors=0.0), "std_errors"),
    (lambda: released(run=""), "run"),
    (lambda: released().at_worst(failure_prob=0.0), "failure_prob"),
    (lambda: kept(errors=math.nan), "errors and n must be finite"),
    (lambda: kept(std_n=0.0), "std_n"),
    (lambda: Plan(steps=0), "planned steps >= 1, got 0"),
    (lambda: Plan(steps=3, stopping="cheaper"), "'planned' or 'listed', got 'cheaper'"),  # type: ignore[arg-type]
    (lambda: Plan(steps=3, listed=(3,)), "stopping='listed' only"),
    (listed, "increase from 1 or more up to 3"),
    (lambda: listed(2, 1, 3), "up to 3"),
    (lambda: listed(0, 3), "up to 3"),
    (lambda: Plan(steps=7).charged(8), "expected 0 <= step <= 7, the planned number of steps, got"),
    (lambda: charged_steps(None, -1), "expected step >= 0, got"),
    (lambda: log_probabilities(np.array([], dtype=int), epsilon=1.0), "at least one network"),
    (lambda: log_probabilities(np.array([-1, 2]), epsilon=1.0), "counts >= 0"),
    (lambda: log_probabilities(np.array([1, 2]), epsilon=math.inf), "finite number"),
    (lambda: log_probabilities(np.ones(2, int), epsilon=1.0, weights=np.arange(2.0)), "positive weight"),
    (lambda: spot_features(np.zeros((2, 3, 50, 50), np.float32)), "grey images"),
    (lambda: canonical({"a": math.nan}), "expected JSON values only, got"),
    (lambda: SGLD(tau=3.0).promise(40, 1), "set clip_norm, which also makes batches Poisson and the"),
    (lambda: SGD().promise(40, 1), "steps of SGD have no privacy accounting here"),
    (lambda: SGHMC(tau=3.0).promise(40, 1), "steps of SGHMC have no privacy accounting here"),
    (lambda: SGLD(tau=3.0, clip_norm=1.0, batch_size=41).promise(40, 1), "expected batch_size <= n"),
    (lambda: SGLD(tau=3.0, clip_norm=1.0, batch_size=9).promise(40, -1), "<= n and steps >= 0"),
    (
        lambda: EntropySGD(tau=math.inf, clip_norm=1.0, batch_size=9).promise(40, 1),
        "expected noise in every step",
    ),
]


@pytest.mark.wrong_types
@pytest.mark.parametrize(("call", "words"), ROWS)
def test_what_is_refused_and_why(call, words):
    with pytest.raises(ValueError, match=words):
        call()


@pytest.mark.parametrize("settings", KINDS, ids=lambda one: one.name)
def test_numbers_of_samplers_are_positive(settings):
    named = {field.name: getattr(settings, field.name) for field in fields(settings)}
    for name, value in named.items():
        if type(value) not in (int, float) or name in EXPONENTS:
            continue
        wrong = {-1, 0} if isinstance(value, int) else {-1.0, 0.0, math.nan}
        for bad in wrong - {0.0} if name in SHARES else wrong:
            with pytest.raises(ValueError, match=rf"expected .*{name}"):
                replace(settings, **{name: bad})
