"""Gaussians around a Gibbs law that nobody draws: what the door certifies, and how often it fails."""

from dataclasses import replace

import numpy as np
import torch
from door_toys import coins, require_held
from numpy.random import default_rng

import bounds
from bounds.gibbs_around import Head, gibbs_around
from pacdp import HeldOut, certify
from pacdp.certify import BoundSet, DataFree
from pacdp.features import nearest, ridge_heads
from tests.marks import near, parametrize, refusal
from tests.pacdp.draws import randn

N, DIM = 90, 4
ROWS = randn((N, DIM), seed=1)
LABELS = ROWS[:, :3].argmax(1)
OTHERS = randn((40, DIM), seed=2)
SEEN = HeldOut(rows=BoundSet(inputs=OTHERS, labels=torch.zeros(40, dtype=torch.int64)).rows)


def law(classes, **told):
    given = {"ridge": 0.05, "share": 1.0, "bias": 1.0, "tau": 30.0, "normaliser": N, "provenance": "a test"}
    return ridge_heads(OTHERS, classes=classes, **(given | told))


@parametrize("classes", [2, 3])
def test_the_door_certifies_the_mean_over_the_posterior_from_integrals_alone(classes):
    labels = LABELS.clamp_max(classes - 1)
    found = nearest(law(classes), ROWS, labels)
    report = certify(found, (ROWS, labels), prior=SEEN, test=(randn((50, DIM), seed=3), labels[:50]))
    made = report.certificate()
    rows, heads = found.law.rows(ROWS), zip(found.law.targets(labels), found.around, strict=True)
    price = gibbs_around(rows=rows, heads=[Head(own, *one) for own, one in heads], tau=30.0, normaliser=N)
    risk = float(made.inputs["risk"])
    at = {"kl_nats": 0.0, "n": N, "failure_prob": 0.05, "price": price}
    assert (made.value, made.status) == (bounds.maurer(risk=risk, **at).value, "rigorous")
    rng = default_rng(0)
    draws = [one.mean[:, None] + one.factor @ rng.normal(size=(DIM + 1, 2000)) / 30.0**0.5 for one in found.around]
    margins = np.stack([rows @ weights for weights in draws])
    said = margins[0] > 0 if classes == 2 else margins.argmax(0)
    assert risk == near(float((said != labels.numpy()[:, None]).mean()), abs=0.01)
    standing = {one.name: one.standing for one in made.hypotheses}
    assert standing["prior saw none of these rows"] == "proved"
    assert not any("noise" in name or "draw" in name for name in standing)
    assert report.error("mean weights", "test") is not None


def test_it_holds_as_often_as_it_says_and_not_without_its_parts(whole):
    """Labels are coins, so that every head errs on half of what is new. Cold, the posterior learns them by heart."""
    rng, n, runs, failure_prob = default_rng(0), 150, 100 if whole else 40, 0.1
    missed = np.zeros(2, dtype=int)
    for _ in range(runs):
        rows, labels = coins(rng, n)
        heads = ridge_heads(torch.eye(40), classes=2, ridge=1.0, share=0.0, bias=0.0, tau=200.0 * n, normaliser=n,
                            provenance="noise")  # fmt: skip
        found = nearest(replace(heads, turn=3.0 * torch.eye(40).double()), rows, labels)
        made = certify(found, (rows, labels), prior=DataFree(), failure_prob=failure_prob).certificate()
        at = {"risk": float(made.inputs["risk"]), "kl_nats": 0.0, "n": n, "failure_prob": failure_prob}
        missed += [made.value < 0.5, bounds.maurer(**at).value < 0.5]
    require_held(missed, runs, failure_prob)


@parametrize(
    ("told", "words"),
    [
        ({"prior": None}, "need prior"),
        ({"data": (ROWS, LABELS, torch.arange(N) // 2)}, "without people"),
        ({"data": (ROWS, LABELS + 1)}, "expected labels from 0 to 2"),
        ({"data": (ROWS[:, :2], LABELS)}, "rows of 4 numbers|inputs of . and of . numbers"),
    ],
)
def test_refusals(told, words):
    found = nearest(law(3), ROWS, LABELS)
    with refusal(words):
        certify(found, **({"data": (ROWS, LABELS), "prior": SEEN} | told))
    with refusal("expected 3 Gaussians over 5 weights"):
        replace(found, around=found.around[:2])


@parametrize("size", [0.0, 1e-200])
def test_a_posterior_without_a_deviation_is_refused(size):
    found = nearest(law(2), ROWS, LABELS.clamp_max(1))
    flat = replace(found, around=tuple(one._replace(factor=size * one.factor) for one in found.around))
    with refusal("of positive, finite deviation"):
        certify(flat, (ROWS, LABELS.clamp_max(1)), prior=SEEN)
