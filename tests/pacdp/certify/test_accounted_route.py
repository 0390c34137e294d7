"""Certificates of clipped chains: what is rigorous, what it costs, and that every step is paid for."""

from fractions import Fraction

import numpy as np
from door_toys import MU
from test_trained import resume, train
from toys import toy_data, toy_objective

import bounds
from bounds.accounting import event_from_dict, privacy_epsilon
from pacdp import load_trained
from pacdp.algorithms import SGLD, EntropySGD
from pacdp.certify import BoundSet
from pacdp.certify.chain import released_weights_certificate
from pacdp.certify.gibbs import GibbsSettings
from pacdp.objective import Objective, Risks
from pacdp.step.langevin import accounted_privacy
from pacdp.step.planned_steps import Plan
from tests.marks import at_most, near

EFFORT = GibbsSettings(epochs=0.1, prior_draws=2, test_draws=2)
CLIPPED = {
    "SGLD": SGLD(tau=30.0, clip_norm=1.0, batch_size=32),
    "Entropy-SGLD": EntropySGD(tau=30.0, inner_steps=4, clip_norm=1.0, batch_size=32),
    "Entropy-SGD": EntropySGD(tau=30.0, inner_steps=4, beta=None, clip_norm=1.0, batch_size=32),
}


def rigorous(found):
    """The certificates of the Gaussian classifier and of the weights by accounted privacy."""
    by_name = {one.name: one for one in found.certificates}
    return by_name["randomised_private_pac_bayes"], by_name["private_kl_chernoff"]


def risks(found):
    """Of the weights on the training set."""
    return Risks(**found.details["weights"]["train"])


@at_most(1, "name", CLIPPED)
def test_a_clipped_checkpoint_has_rigorous_certificates_beside_the_optimistic(tmp_path, name):
    settings = CLIPPED[name]
    train(tmp_path / "c", settings, steps=3, plan=Plan(steps=3))
    found = load_trained(tmp_path / "c").assess(settings=EFFORT)
    for one in rigorous(found):
        assert one.status == "rigorous"
        assert one.hypothesis("steps fixed beforehand").standing == "proved"
        assert one.hypothesis("privacy covers these rows").standing == "proved"
        assert one.failure_prob == near(0.05, rel=1e-15)
    optimistic = [one for one in found.certificates if one.status == "optimistic"]
    assert all({"clipping inactive", "chain stationary"} <= {each.name for each in one.unproved} for one in optimistic)
    assert bool(optimistic) == (name != "Entropy-SGD"), "without outer noise nothing is known of its target"
    privacy = accounted_privacy(settings, n=1437, steps=3)
    again = bounds.printed.private_kl_chernoff(
        risk=found.error("weights", "bound"), n=1437, privacy=privacy, failure_prob=0.05
    )
    assert rigorous(found)[1].value == near(again.value, rel=1e-12)
    report = found.to_dict()
    accounted, event = report["details"]["accounted"], event_from_dict(report["privacy"]["event"])
    spent = privacy_epsilon(event=event, delta=1e-5, adjacency="add-remove").upper
    assert accounted["mechanisms"] == 3 * settings.gradients_per_step
    assert accounted["epsilon_add_remove"] == spent
    assert (report["details"]["kl_nats"], report["details"]["std"]) == (0.0, 30.0**-0.5)


def test_a_chain_pays_for_all_planned_steps_whenever_it_stops(tmp_path):
    settings = CLIPPED["Entropy-SGLD"]
    train(tmp_path / "ten", settings, steps=10)
    train(tmp_path / "four", settings, steps=4)
    stopped = load_trained(tmp_path / "four").assess(settings=EFFORT)
    resume(tmp_path / "four", until=10)
    resumed, uninterrupted = (load_trained(tmp_path / name).assess(settings=EFFORT) for name in ("four", "ten"))
    assert resumed.to_dict() == uninterrupted.to_dict()
    assert stopped.details["accounted"] == resumed.details["accounted"]
    assert resumed.details["accounted"]["mechanisms"] == 40
    privacy = accounted_privacy(settings, n=1437, steps=10)
    expected = released_weights_certificate(risks(stopped), privacy=privacy, failure_prob=0.05)
    assert rigorous(stopped)[1].value == expected.value
    assert rigorous(stopped)[1].hypothesis("steps fixed beforehand").standing == "declared"
    four = accounted_privacy(settings, n=1437, steps=4)
    cheaper = released_weights_certificate(risks(stopped), privacy=four, failure_prob=0.05)
    assert cheaper.value < expected.value, "four planned steps cost less than four of ten"


def test_listed_stopping_times_share_the_failure_probability(tmp_path):
    settings = CLIPPED["Entropy-SGLD"]
    plan = Plan(steps=10, stopping="listed", listed=(2, 4, 10))
    train(tmp_path / "c", settings, steps=4, plan=plan)
    trained = load_trained(tmp_path / "c")
    assert trained.plan == plan
    found = trained.assess(settings=EFFORT)
    privacy = accounted_privacy(settings, n=1437, steps=4)
    alone = released_weights_certificate(risks(found), privacy=privacy, failure_prob=0.05 / 3)
    for one in rigorous(found):
        assert one.failure_prob == near(0.05, rel=1e-15)
        assert one.budget["other stopping times"] == near(0.1 / 3, rel=1e-12)
    assert rigorous(found)[1].value == alone.value


def test_the_set_behind_an_objective_follows_its_examples():
    own = [np.arange(60) % 2, np.zeros(60, dtype=np.int64)]
    plain = toy_objective(toy_data())
    data = Objective(plain.model, plain.loss, toy_data(), batch_size=10, labels=own)
    first = BoundSet.behind(data)
    assert BoundSet.behind(data) is first
    assert BoundSet.behind(data.unclipped()) is first
    other = BoundSet.behind(data.select([1]))
    assert (int(first.labels.sum()), int(other.labels.sum())) == (30, 0), "another chain has labels of its own"
    digest = first.rows.digest
    data.examples[0][0] += 1.0
    assert BoundSet.behind(data).rows.digest != digest, "somebody wrote on the examples"


def test_counts_of_errors_are_never_rounded_down():
    for errors, n in ((1, 3), (2, 7), (479, 1437), (59_999, 60_000)):
        counted = Risks(0.5, errors / n, 0.5, errors, n)
        made = released_weights_certificate(counted, privacy=MU, failure_prob=0.05)
        assert Fraction(made.terms["empirical_risk"]) >= Fraction(errors, n)
        assert made.terms["empirical_risk"] == near(errors / n, rel=1e-15)
