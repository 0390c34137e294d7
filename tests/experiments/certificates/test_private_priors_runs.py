"""Private priors at the price of their sums: what is paid, what is proved, and what features may know."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.random import default_rng

import bounds
from bounds import Certificate
from experiments.runs import private_priors
from experiments.runs.private_priors import CLIPPED, COUNTED, CURVE, KEPT, SMOKE, TAUGHT, ZEROS, Clipped
from pacdp.cli.runtime import Runtime
from pacdp.data import DataError, load
from pacdp.verify.report import check_report
from tests.edits import seen
from tests.marks import made_once, near, refusal
from tests.pacdp.toys import seeded
from tests.schema import validate

pytestmark = pytest.mark.filterwarnings("ignore:Full backward hook is firing")
TINY = replace(SMOKE, clipped=Clipped(steps=5, mu=1.0), passes=1, stds=(0.3, 0.6))


@made_once
def report(tmp_path_factory):
    return _conduct(tmp_path_factory.mktemp("run"))


def _conduct(folder):
    return private_priors.conduct(TINY, Runtime(), folder)


def _all(report):
    return {KEPT: report, **report["details"]["references"]}


def _made(report, route):
    """The first certificate of a route's report, which is the one that the table has."""
    return Certificate.from_dict(_all(report)[route]["certificates"][0])


@pytest.mark.slow
def test_every_certificate_is_rigorous_follows_and_lies_above_its_errors(report):
    assert set(_all(report)) == {KEPT, CLIPPED, CURVE, ZEROS, TAUGHT, COUNTED}
    assert seen(check_report(report)) == {"follows"}
    for one in _all(report).values():
        for made in validate(one):
            assert made.status == "rigorous"
            assert made.failure_prob == near(TINY.failure_prob / TINY.compared)
            fixed = made.hypothesis("settings fixed beforehand")
            assert fixed.standing == "proved"
            assert "not the bound's" in fixed.by
    assert report["n"] == load("digits")[0].n - TINY.chosen


@pytest.mark.slow
def test_each_route_pays_its_own_price(report):
    kept, clipped, curve = (_made(report, route) for route in (KEPT, CLIPPED, CURVE))
    spent = 0.96 * TINY.failure_prob / TINY.compared
    worst = bounds.WorstCaseSum(mu=TINY.clipped.mu).charge(n=report["n"], failure_prob=spent).nats
    assert clipped.nats("transfer") == near(worst, rel=1e-9)
    assert curve.nats("transfer") > 2.0 * clipped.nats("transfer")
    added = float(kept.inputs["sum_contributions"])
    log = -math.log(spent)
    assert kept.nats("transfer") > min(a * added / 2 + a / (a - 1) * log for a in np.linspace(1.01, 7.0, 500))
    assert report["prior"]["choice_nats"] >= math.log(len(TINY.stds))
    assert not any(_made(report, route).unproved for route in _all(report))
    assert all(_made(report, route).measures == "0-1 risk" for route in _all(report))


def test_features_know_the_choosing_rows_alone():
    generator = seeded(0)
    first, second = (torch.randn(count, 8, generator=generator) for count in (60, 30))
    seen = private_priors.whitened([first, second], dim=5, power=0.5)
    other = second.clone()
    other[0] = 100.0
    again = private_priors.whitened([first, other], dim=5, power=0.5)
    assert torch.equal(seen[0], again[0])
    assert torch.equal(seen[1][1:], again[1][1:])
    assert seen[1].norm(dim=1).sub(1.0).abs().max() < 1e-5


def test_a_choosing_row_among_those_of_the_bound_is_refused(monkeypatch):
    train, test = load("digits")
    split = private_priors.hold_out(train.n, prior_share=TINY.chosen / train.n, seed=0)
    rows = np.arange(train.n)
    rows[split.bound.indices[0]] = split.prior.indices[0]
    train = replace(train, inputs=train.inputs[rows], labels=train.labels[rows])
    monkeypatch.setattr(private_priors, "load", lambda name, root: (train, test))
    with refusal("choosing rows and the bound's rows share 1 example", DataError):
        private_priors.split_and_seen(TINY)


def test_random_labels_are_certified_at_chance_or_above(monkeypatch, tmp_path):
    train, test = load("digits")
    drawn = default_rng(0)
    sets = tuple(replace(one, labels=drawn.integers(0, 10, one.n)) for one in (train, test))
    monkeypatch.setattr(private_priors, "load", lambda name, root: sets)
    found = _conduct(tmp_path)
    for route in _all(found):
        assert _made(found, route).value >= 0.9, route
