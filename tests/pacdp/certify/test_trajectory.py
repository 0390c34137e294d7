"""Chains that keep what they add up: the kept norms are the gradients', and certificates are made of them alone."""

from dataclasses import replace

import numpy as np
import torch
from tiny_runs import interrupted
from torch import equal
from torch.testing import assert_close

import bounds
from bounds.noisy_steps import flattened
from pacdp import Prior, load_checkpoint, load_trained
from pacdp import certify as certify_law
from pacdp.algorithms import SGHMC, SGLD, EntropySGD, build
from pacdp.certify import BoundSet
from pacdp.certify.priors import NoisySum
from pacdp.certify.trajectory import around, noisy_sums_event, realised_price, train_certified
from pacdp.chains import SQUARED_NORMS, Keys
from pacdp.cli.certifying import certify
from pacdp.cli.config import Run
from pacdp.cli.folder import write_json
from pacdp.cli.run import train
from pacdp.cli.runtime import Certifying, Training
from pacdp.objective import Objective
from pacdp.verify.certificate import check_certificate
from pacdp.verify.folder import check_folder
from pacdp.verify.report import check_path, check_report
from tests.edits import seen
from tests.marks import every_case, made_once, near, parametrize, refusal
from tests.pacdp.certify.trajectory_toys import (
    FULL,
    LOSS,
    NETWORKS,
    PROBLEM,
    RUN,
    by_func,
    certified,
    network,
    replayed,
    rewritten,
    verdicts,
)  # fmt: skip
from tests.pacdp.draws import randn
from tests.pacdp.toys import Sloped, seeded, toy_data


@every_case("name", NETWORKS)
@parametrize(("size", "every"), [(7, False), (60, False), (60, True)])
def test_kept_norms_are_those_of_all_that_each_record_adds_rounded_up(name, size, every):
    data, model = toy_data(n=60, classes=3, shape=(1, 4, 4)), network(name)
    at = {"batch_size": size, "every_record": every}
    plain, kept = (Objective(model, LOSS, data, keep_norms=keep, **at) for keep in (False, True))
    weights, keys = kept.weights(), Keys.derive([3])
    found, other = kept.estimate(weights, keys, 5), plain.estimate(weights, keys, 5)
    (drawn,), _ = kept.draw(keys, 5)
    often = torch.ones(60).double() if every else torch.bincount(drawn, minlength=60).double()
    assert every or size < 60 or bool((often > 1).any())
    # a record that was drawn k times adds k times its gradient
    squares = sum(one.flatten(1).square().sum(dim=1) for one in by_func(kept, weights).values())
    exact = float((often.square() * squares).sum())
    assert exact <= float(found.squared_norms) <= exact * (1.0 + 1e-4)
    assert_close(found.gradient.clone(), other.gradient, rtol=1e-4, atol=1e-6)
    assert other.squared_norms is None


@parametrize(
    "settings",
    [
        SGLD(tau=500.0, decay=0.3, cooling=0.4, keep_norms=True),
        SGHMC(tau=500.0, friction=0.3, decay=0.2, cooling=0.5, keep_norms=True),
        EntropySGD(tau=500.0, inner_steps=3, keep_norms=True),
    ],
)
def test_the_event_has_the_noise_that_the_steps_add(settings):
    """A step with its noise, less the same step without it, in units of the sum of gradients, has that deviation."""

    if isinstance(settings, EntropySGD):  # of whose inner steps the newest alone is in the mean
        settings = replace(settings, alpha=1.0, inner_steps=1, outer_step_size=2.0, outer_decay=0.0, beta=None)
    sampler = build(settings, Sloped(lambda weights: torch.full_like(weights, 1.0 / settings.batch_size)))
    state = sampler.init(torch.zeros(1, 200_000))
    noises = [noise for _, noise, _ in flattened(noisy_sums_event(settings, 4))]
    for step, noise in enumerate(noises):
        before, (state, _) = state, sampler.step(state, Keys.derive([1]))
        rate = settings.noise_path(4).rates[step]
        moved = (
            state.velocity - 0.7 * before.velocity if isinstance(settings, SGHMC) else state.weights - before.weights
        )
        released = moved / rate * settings.batch_size
        assert noise == near(float(released.double().std()), rel=0.01)


@made_once
def folder(tmp_path_factory):
    return certified(RUN, tmp_path_factory.mktemp("kept"))


def test_a_run_is_certified_by_what_it_kept_and_verified(folder):
    path, report = folder
    first = report["certificates"][0]
    assert (first["name"], first["of"], first["status"]) == ("realised_sum_maurer", "weights", "rigorous")
    standing = {one["name"]: one["standing"] for one in first["hypotheses"]}
    assert standing["batches drawn without the records"] == "proved"
    assert standing["norms of all records kept"] == "declared"
    norms = load_checkpoint(path).trace[SQUARED_NORMS]
    noises = np.array([200 * (2 * 0.2 / (3.0 * 1000.0 * t**0.5)) ** 0.5 for t in range(1, 13)])
    assert first["inputs"]["sum_contributions"] == near(float((norms.numpy() / noises**2).sum()), rel=1e-5)
    assert seen(check_folder(path, report)) == {"follows"}
    for made in report["certificates"]:
        assert seen(check_certificate(made)) == {"follows"}, made["name"]


def test_a_resumed_chain_keeps_the_same_norms(folder, tmp_path):
    interrupted(RUN, tmp_path, after=5)
    train(RUN, tmp_path, Training(resume=True))
    assert equal(*(load_checkpoint(path).trace[SQUARED_NORMS] for path in (folder[0], tmp_path)))


def test_settings_that_were_tried_are_paid_for(folder):
    path, report = folder
    tried = certify(path, Training(), Certifying(tried=50), by="a test")
    assert tried["certificates"][0]["value"] > report["certificates"][0]["value"]
    assert verdicts(path, tried)["report"] == "follows"
    less = {**tried, "choices": {**tried["choices"], "count": 0}}
    assert ("settings paid for", "does not follow") in {(one.claim, one.verdict) for one in check_report(less)}


def test_a_run_that_was_stopped_early_is_refused_in_a_sentence(folder):
    trained = load_trained(folder[0])
    early = replace(trained, state=trained.state._replace(step=7))
    (refused,) = [one for one in early.assess().refusals if one.name == "realised noisy sums"]
    assert "12 steps are paid for and 7 were made" in refused.reason


def test_any_gaussian_around_the_end_has_a_certificate_that_pays_for_its_divergence(folder):
    """Trained on from the end without noise, by looking at all examples."""
    path, _ = folder
    trained = load_trained(path)
    price = realised_price(FULL, trained.checkpoint.trace[SQUARED_NORMS], steps=12, n=200)
    prior = Prior(law=around(trained.objective, trained.weights, std=0.3), source=NoisySum(price=price))
    moved = trained.weights + 0.05 * randn(trained.weights.shape, seed=2)
    law = around(trained.objective, moved, std=0.2)
    found = certify_law(law, BoundSet.behind(trained.objective), prior=prior, network=trained.objective.model)
    made = found.certificate()
    assert (made.name, made.status) == ("randomised_realised_sum_maurer", "rigorous")
    assert made.nats("kl") == near(law.kl_nats(prior.law), rel=1e-6)
    assert made.nats("kl") > 0.01
    assert seen(check_certificate(made.to_dict())) == {"follows"}


@parametrize(
    "fault",
    [
        {"norms": lambda x: 0.5 * x},  # as if half of the records had been added up
        {"norms": lambda x: torch.cat([x[:1], x[:-1] * 0.2 + x[1:] * 0.8])},  # after momentum
        {"sampler": {"tau": 1000.0 / 1.21}},  # noise said to be 10% larger than the price takes it for
        {"sampler": {"cooling": 0.4}},  # a schedule of after the run
        {"sampler": {"every_record": False}},
    ],
)
def test_a_changed_file_does_not_give_the_report_s_price(folder, tmp_path, fault):
    path, report = folder
    found = verdicts(rewritten(path, tmp_path / "run", **fault), report)
    assert found["norms"] != "follows"


def rows():
    data, _ = PROBLEM.data()
    return data.inputs, data.labels


def own_network():
    return PROBLEM.model(PROBLEM.data()[0], generator=seeded(9))


def test_kept_steps_are_taken_again_from_the_data(folder):
    path, report = folder
    assert replayed(path) == {"norms of steps 0, 3": "follows", "noise": "follows"}
    write_json(path / "certificates.json", report)
    here = f"{__name__}:"
    found = check_path(path, data=here + "rows", model=here + "own_network")
    assert {one.verdict for one in found if one.subject in ("replay", "recount")} == {"follows"}
    (path / "certificates.json").unlink()


def after_momentum(norms):
    """Of what momentum makes of a gradient, an average of those until now: never more than the largest."""
    kept = norms.clone()
    for step in range(1, len(kept)):
        kept[step] = ((0.8 * kept[step - 1].sqrt() + 0.2 * norms[step].sqrt()) ** 2).clamp(max=norms.max())
    return kept


@every_case(
    ("fault", "claim"),
    [
        ({"norms": lambda x: (1.0 - 1.0 / 200.0) * x}, "norms of steps 0, 3"),  # one record left out
        ({"norms": after_momentum}, "norms of steps 0, 3"),
        ({"sampler": {"tau": 1000.0 / 1.21}}, "noise"),  # a tenth more
    ],
    ids=["a record left out", "after momentum", "more noise"],
)
def test_planted_faults_do_not_survive_a_replay(folder, tmp_path, fault, claim):
    assert replayed(rewritten(folder[0], tmp_path / "run", **fault))[claim] == "does not follow"


def test_planted_order_chosen_after_the_contributions_is_refused(folder):
    """The best single order for the V that was realised, nothing paid for choosing it."""
    path, report = folder
    norms = load_checkpoint(path).trace[SQUARED_NORMS]
    price = realised_price(FULL, norms, steps=12, n=200)
    alone = [replace(price, orders=(order,)) for order in np.arange(1.01, 6.0, 0.01)]
    chosen = min(alone, key=lambda one: one.charge(n=200, failure_prob=0.05).nats)
    first = report["certificates"][0]
    made = bounds.maurer(risk=first["inputs"]["risk"], kl_nats=0.0, n=200, failure_prob=0.05, price=chosen)
    assert made.value < first["value"]
    weights = (0.9, *(0.1 / 16.0,) * 16)
    weighted = bounds.maurer(risk=0.5, kl_nats=0.0, n=200, failure_prob=0.05, price=replace(price, weights=weights))
    for planted in (made, weighted):
        own = {**planted.to_dict(), "of": "weights", "hypotheses": first["hypotheses"]}
        assert verdicts(path, {**report, "certificates": [own]})["norms"] == "does not follow"


def test_drawn_batches_and_unknown_losses_are_not_replayed(folder, tmp_path):
    drawn = rewritten(folder[0], tmp_path / "drawn", sampler={"every_record": False})
    assert set(replayed(drawn).values()) == {"cannot be checked"}
    run = tmp_path / "run"
    settings = EntropySGD(tau=1000.0, inner_steps=2, batch_size=200, keep_norms=True, every_record=True)
    train(replace(RUN, sampler=settings, epochs=10.0), run, Training())
    assert replayed(run) == {"norms of steps 0, 3": "follows", "noise": "cannot be checked"}


class Otherwise(SGLD):
    """Clean steps between would make coin flips a certificate of 18%, of noisy sums that the settings prove."""


def test_a_class_of_ones_own_may_move_otherwise_than_its_numbers_say():
    settings, data = Otherwise(tau=10.0), toy_data(n=9, classes=3, shape=(1, 4, 4))
    for take in (
        lambda: train_certified(network("linear"), data, settings=settings, steps=1),
        lambda: realised_price(settings, torch.zeros(1), steps=1, n=9),
        lambda: Run(sampler=settings),
    ):
        with refusal("themselves, got Otherwise"):
            take()


def test_weights_that_diverge_are_not_said_to_be_changed_by_the_network():
    data = toy_data(n=20, classes=3, shape=(1, 4, 4))
    objective = Objective(network("fc"), LOSS, data, batch_size=20, keep_norms=True, every_record=True)
    objective.estimate(torch.full_like(objective.weights(), torch.nan), Keys.derive([0]), 0)


def test_endless_contributions_certify_nothing():
    price = realised_price(SGLD(tau=10.0), torch.full((3,), 1e308, dtype=torch.float64), steps=3, n=20)
    assert bounds.maurer(risk=0.0, kl_nats=0.0, n=20, failure_prob=0.05, price=price).value == 1.0
