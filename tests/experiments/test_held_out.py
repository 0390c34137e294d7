"""The recipe of a held-out certificate, on digits."""

from dataclasses import replace

import numpy as np

from bounds import declared
from experiments.runs import held_out as config
from experiments.runs.held_out import SMOKE, certify_on, held_out_config
from pacdp.backprop import FitSettings, PosteriorSettings, hold_out
from pacdp.data import DataError, load
from tests.marks import made_once, near, refusal
from tests.schema import validate

QUICK = replace(
    SMOKE, fit=FitSettings(epochs=6, batch_size=32),
    posterior=PosteriorSettings(steps=20, batch_size=128), passes=2,
)  # fmt: skip


FEW = replace(QUICK, fit=FitSettings(epochs=1), posterior=PosteriorSettings(steps=5), passes=1)


def some(people=False):
    """The first of the digits, three by each of a hundred writers where people are asked for."""
    train, test = (replace(one, inputs=one.inputs[:300], labels=one.labels[:300]) for one in load("digits"))
    return replace(train, people=np.arange(300) // 3, unit="writer") if people else train, test


@made_once
def result():
    return certify_on(QUICK, *load("digits"))


def test_every_number_is_in_its_place(result):
    found = result.to_dict()
    validate(found)
    tested = {m["n"] for m in found["measured"] if m["on"] == "test"}
    assert (found["prior"]["n"], found["n"], tested) in ((718, 719, {360}), (719, 718, {360}))
    made = result.certificate()
    assert made.terms["monte_carlo_mean"] < made.terms["empirical_risk"] < made.value < 0.5
    assert made.terms["monte_carlo_draws"] == 2 * found["n"]
    assert all(each.status == "rigorous" for each in result.certificates)
    assert found["details"]["kl_nats"] == made.nats("kl") > 0.0
    for of in ("randomised", "prior mean", "one draw"):
        assert result.certificate(of=of).value > result.error(of, "test")
    assert made.hypothesis("prior saw none of these rows").standing == "proved"
    assert made.hypothesis("settings fixed beforehand") == declared(
        "settings fixed beforehand", "the study, which names no list of settings"
    )


def test_what_is_chosen_is_paid_for_and_people_are_held_out_whole():
    compared = certify_on(replace(FEW, compared=4), *some(people=True))
    assert (compared.unit, compared.n, compared.examples) == ("person", 50, 150)
    assert all(made.failure_prob == near(0.05 / 4) for made in compared.certificates)
    fixed = {made.hypothesis("settings fixed beforehand") for made in compared.certificates}
    assert {(one.standing, "after they were tried" in one.by) for one in fixed} == {("declared", True)}
    assert compared.choices["count"] == 4


def test_what_was_tried_is_in_the_lists_that_are_paid_for():
    cpu = held_out_config()
    assert cpu.compared == 64 * 32 * 16
    for name, value in {"epochs": cpu.fit.epochs, "passes": cpu.passes, "prior_std": cpu.prior_std}.items():
        assert value in config.TRIED[name]
    assert set(cpu.network.channels) <= set(config.NETWORKS["channels"])
    assert cpu.network.hidden in config.NETWORKS["hidden"]
    for name, values in config.DISTORTIONS.items():
        assert getattr(cpu.fit.augmentation, name) in values
    assert held_out_config(seed=1).compared == cpu.compared * 196 * 4 * 6 * 6 * 4 * 5


def test_a_prior_that_knows_the_bound_s_people_is_refused(monkeypatch):
    monkeypatch.setattr("experiments.runs.held_out.hold_out", lambda n, people, **how: hold_out(n, **how))
    with refusal(r"the prior's rows and the bound's rows share .* people", DataError):
        certify_on(FEW, *some(people=True))
