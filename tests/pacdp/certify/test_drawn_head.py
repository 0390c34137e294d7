"""A head drawn exactly from a Gibbs law: its law, what each record pays, and how often its certificate fails."""

import functools
from dataclasses import replace

import numpy as np
import torch
from door_toys import coins, require_held
from numpy.random import default_rng
from scipy.stats import chi2, kstest
from torch.autograd.functional import hessian, jacobian

import bounds
from bounds.numbers import up
from pacdp import HeldOut, certify
from pacdp.certify import BoundSet, Finite, Network
from pacdp.certify.evidence import rows_of
from pacdp.certify.heads import DRAWN, draw_price
from pacdp.data import DataError
from pacdp.features import GibbsHead, anchored_head
from pacdp.features.ridge_head import UndrawnHeads
from pacdp.posterior import GaussianPosterior, LocalGibbs, Point
from tests.marks import near, parametrize, refusal
from tests.pacdp.draws import randn

N, DIM, CLASSES, TAU = 60, 3, 3, 40.0
ROWS, LABELS = randn((N, DIM), seed=1), torch.arange(N) % CLASSES
OTHERS = HeldOut(rows=BoundSet(inputs=randn((30, DIM), seed=2), labels=LABELS[:30]).rows)


@functools.cache
def head(**told):
    rows = randn((30, DIM), seed=2)
    given = {"classes": CLASSES, "ridge": 0.1, "tau": TAU, "normaliser": N, "seed": 0, "provenance": "a test"}
    return anchored_head(rows, rows.argmax(1), **(given | told))


def potential(law, move, row, label):
    """(τ/N) [⟨g, u⟩ + ½ v ‖u‖²], from its definition."""
    p = torch.softmax(law.anchor @ row, 0)
    u, g = move @ row, p - torch.nn.functional.one_hot(label, CLASSES)
    return law.tau / law.normaliser * (g @ u + 0.25 * (1 - p @ p) * (u @ u))


def exponent(law, move):
    rest = 0.5 * law.tau * torch.einsum("ki,ij,kj->", move, law.metric, move)
    return rest + sum(potential(law, move, *one) for one in zip(ROWS.double(), LABELS, strict=True))


def test_a_seed_of_numpy_draws_the_same_head():
    assert torch.equal(*(head(seed=kind(3)).draw(ROWS, LABELS).weights for kind in (int, np.int64)))


def test_the_draw_has_none_of_the_numbers_that_its_seed_made_the_data_of():
    """Before, labels by ``torch.manual_seed(0)`` and a head of seed 0 agreed on what no head can know."""
    n = 300
    rows = 10.0 * torch.eye(n).double() + 0.3 * randn((n, n), seed=7).double()
    labels = torch.randn(n, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).argmax(1)
    law = GibbsHead(anchor=torch.zeros(2, n).double(), metric=torch.eye(n).double(), tau=0.01, normaliser=n,
                    seed=0, features="one column a record")  # fmt: skip
    errors = (rows @ law.draw(rows, labels).weights.T).argmax(1) != labels
    assert float(errors.double().mean()) > 0.35, "labels are coins, and hot heads do not learn them"


@parametrize("people", [None, np.arange(N) // 4])
def test_a_report_says_which_head_it_is_about(people):
    data = BoundSet(inputs=ROWS, labels=LABELS, people=people)
    others = OTHERS if people is None else HeldOut(
        rows=BoundSet(inputs=randn((30, DIM), seed=2), labels=LABELS[:30], people=np.arange(100, 130)).rows
    )  # fmt: skip
    (said,) = (one for one in certify(head(), data, prior=others).remarks if "draw" in one)
    assert f"law.draw(inputs, labels{'' if people is None else ', people'})" in said


def test_the_draw_has_the_law_that_is_paid_for():
    """2 (U(D) - min U) is chi-squared with as many degrees as D has numbers; at a tenth more temperature it is not."""
    law, zero = head(), torch.zeros((CLASSES, DIM), dtype=torch.float64)
    by_move = functools.partial(exponent, law)
    slope, curve = (
        torch.as_tensor(jacobian(by_move, zero)).ravel(),
        torch.as_tensor(hessian(by_move, zero)).reshape(9, 9),
    )
    mean = -torch.linalg.solve(curve, slope)
    away = torch.stack([
        (replace(law, seed=k).draw(ROWS, LABELS).weights - law.anchor).ravel() - mean for k in range(2000)
    ])  # fmt: skip
    distances = torch.einsum("ni,ij,nj->n", away, curve, away).numpy()
    assert kstest(distances, chi2(9).cdf).pvalue > 1e-3
    assert kstest(1.1 * distances, chi2(9).cdf).pvalue < 1e-6


ALONE, FEW = torch.arange(N), torch.arange(N).clamp_min(57)
FEW[:50] = torch.cat([torch.zeros(20), torch.arange(20, 50)])  # 20 examples of one person, 8 of another


@parametrize("owners", [ALONE, FEW])
def test_records_pay_for_their_own_gradients_in_the_norm_of_the_metric(owners):
    """A person's potential is the mean of those of their examples; who has one pays as without people."""
    law, found = head(), head().draw(ROWS, LABELS, None if owners is ALONE else owners)
    move, inverse = found.weights - law.anchor, torch.linalg.inv(law.metric)
    assert len(found.smoothness) == len(owners.unique())
    for place in (0, 7, 31):
        own = torch.nonzero(owners == owners.unique()[place])[:, 0].tolist()
        mean = lambda at, own=own: sum(potential(law, at, ROWS[i].double(), LABELS[i]) for i in own) / len(own)  # noqa: E731
        slope = torch.as_tensor(jacobian(mean, move))
        square = float(torch.einsum("ki,ij,kj->", slope, inverse, slope))
        curve = torch.as_tensor(hessian(mean, move)).permute(0, 2, 1, 3)[0, 0]
        most = float(torch.linalg.eigvals(inverse @ curve).real.max())
        paid = float(found.squared_gradients[place]), float(found.smoothness[place])
        assert square <= paid[0]
        assert most <= paid[1]
        if len(own) == 1:
            assert paid == (near(square, rel=1e-8), near(most, rel=1e-8))


def test_examples_that_a_person_gives_twice_move_nothing():
    twice = head().draw(ROWS.repeat(2, 1), LABELS.repeat(2), ALONE.repeat(2))
    assert torch.allclose(twice.weights, head().draw(ROWS, LABELS).weights)
    assert torch.equal(head().draw(ROWS, LABELS, FEW).weights, head().draw(ROWS, LABELS, FEW.numpy()).weights)
    made = certify(head(), (ROWS, LABELS, FEW), prior=OTHERS).certificate(of=DRAWN, measures="0-1 risk of a new person")
    assert (made.inputs["n"], made.status) == (34, "rigorous")


def test_the_door_certifies_the_one_draw_and_says_what_it_rests_on():
    found = certify(head(), (ROWS, LABELS), prior=OTHERS)
    made = found.certificate(of=DRAWN)
    price = draw_price(head().draw(ROWS, LABELS), TAU)
    alike = bounds.maurer(risk=float(made.inputs["risk"]), kl_nats=0.0, n=N, failure_prob=0.05, price=price)
    assert (made.value, made.status) == (alike.value, "rigorous")
    standing = {one.name: one.standing for one in made.hypotheses}
    assert standing["prior saw none of these rows"] == standing["norms of all records kept"] == "proved"
    assert standing["noise secret or independent"] == "declared"
    assert found.certificate(of="prior mean").name == "prior_mean_clopper_pearson"
    free = bounds.maurer(risk=float(made.inputs["risk"]), kl_nats=0.0, n=N, failure_prob=0.05).value
    assert found.to_dict()["details"]["at_price_zero"]["value"] == near(free)
    assert f"At a price of zero the 0-1 risk of drawn head would be certified at {up(free)}" in str(found)


def test_it_holds_as_often_as_it_says_and_not_without_the_price(whole):
    """Labels are coins, so that every head errs on half of what is new. Hot, a draw learns the sample by heart."""
    rng, n, runs, failure_prob = default_rng(0), 200, 200 if whole else 60, 0.1
    missed = np.zeros(2, dtype=int)
    for k in range(runs):
        rows, labels = coins(rng, n)
        law = GibbsHead(anchor=torch.zeros(2, 40).double(), metric=torch.eye(40).double(), tau=60.0 * n,
                        normaliser=n, seed=k, features="noise")  # fmt: skip
        draw = law.draw(rows, labels)
        risk = float(((rows @ draw.weights.T).argmax(1) != labels).double().mean())
        for place, price in enumerate((draw_price(draw, law.tau), bounds.Independent())):
            at = {"risk": risk, "kl_nats": 0.0, "n": n, "failure_prob": failure_prob, "price": price}
            missed[place] += bounds.maurer(**at).value < 0.5
    require_held(missed, runs, failure_prob)


def test_rows_are_hashed_again_since_nothing_counts_what_numpy_writes():
    """Before, the hashes of an earlier call proved of rows written since that the anchor saw none of them."""
    memory, others = ROWS.numpy().copy(), BoundSet(inputs=randn((30, DIM), seed=2), labels=LABELS[:30]).rows
    used, known = (BoundSet(inputs=torch.from_numpy(memory), labels=LABELS) for _ in range(2))
    certify(head(), used, prior=OTHERS)
    assert rows_of(known, "seen").shared(others, "inputs") == 0
    memory[:30] = randn((30, DIM), seed=2).numpy()
    with refusal("share 30 ", DataError):
        certify(head(), used, prior=OTHERS)
    assert rows_of(known, "seen").shared(others, "inputs") == 30


def test_an_anchor_does_not_move_with_the_network_that_it_was_made_of():
    layer = torch.nn.Linear(4, 2, bias=False).double()
    law = GibbsHead(anchor=layer.weight.detach(), metric=torch.eye(4).double(), tau=1.0,
                    normaliser=9, seed=0, features="noise")  # fmt: skip
    with torch.no_grad():
        layer.weight += 1.0
    assert torch.equal(law.anchor + 1.0, layer.weight)


@parametrize(
    ("told", "words"),
    [
        ({"prior": None}, "needs prior"),
        ({"data": (ROWS, LABELS + 1)}, "expected labels from 0 to 2"),
        ({"data": (ROWS[:, :2], LABELS)}, "rows of 3 numbers|inputs of [23] and of [23] numbers"),
    ],
)
def test_refusals(told, words):
    with refusal(words):
        certify(head(), **({"data": (ROWS, LABELS), "prior": OTHERS} | told))


def test_numbers_that_doubles_cannot_price_are_refused():
    """Squares of 1e-165 are 0, so that a head which learns coins by heart would pay nothing."""
    with refusal("expected tau/normaliser from 1e-60"):
        replace(head(), tau=1e-165)
    for told in ({"tau": 1e200}, {"seed": 1.5}, {"seed": True}):
        with refusal("expected tau/normaliser from 1e-60 to 1e.60, normaliser >= 1 and a whole number >= 0 as seed"):
            replace(head(), **told)
    with refusal("metric holds a NaN"):
        replace(head(), metric=torch.eye(3).double() * torch.nan)
    with refusal("raise ridge"):
        replace(head(), metric=torch.tensor([1.0, 1.0, 1e-12]).double().diag()).draw(ROWS, LABELS)


@parametrize("law", [GaussianPosterior, LocalGibbs, Point, Network, Finite, GibbsHead, UndrawnHeads])
def test_no_law_has_methods_of_a_strangers(law):
    with refusal("law must be one of pacdp's own, got a subclass Lucky of one"):
        certify(object.__new__(type("Lucky", (law,), {})), (ROWS, LABELS))
