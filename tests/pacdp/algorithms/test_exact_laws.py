"""Every sampler on a quadratic has its exact law at every step, and a noise wrong by a twentieth is noticed."""

import dataclasses

import pytest
import torch
from affine import KEPT, REJECTED, Law, plant, smallest
from exact_laws import EXACT, KEYS, NOISY, SETTINGS, START, beside, inner_law, worst

from pacdp.algorithms import PSGLD, SGHMC, SGLD, EntropySGD, build, entropy_sgd, psgld, sghmc, sgld
from pacdp.chains import NOISE, OUTER_NOISE, Keys
from tests.marks import parametrize, slow

MODULES = {SGLD: sgld, SGHMC: sghmc, PSGLD: psgld, EntropySGD: entropy_sgd}
ENTROPY = [name for name, one in SETTINGS.items() if isinstance(one, EntropySGD)]
pytestmark = pytest.mark.every_case
each_factor = parametrize("factor", [0.95, 1.05])


@parametrize("steps", [5, slow(8)])
@parametrize("name", SETTINGS)
def test_every_step_has_its_exact_law(name, steps):
    assert worst(SETTINGS[name], steps=steps) > KEPT
    if not name.startswith("pSGLD"):  # whose metric is then another for each chain
        assert worst(SETTINGS[name], potential=NOISY, steps=steps) > KEPT


@each_factor
@parametrize("name", [name for name in SETTINGS if name not in ENTROPY])
def test_a_noise_scale_wrong_by_a_twentieth_is_noticed(name, factor, monkeypatch):
    plant(monkeypatch, MODULES[type(SETTINGS[name])], stream=NOISE, factor=factor)
    assert worst(SETTINGS[name]) < REJECTED


@each_factor
@parametrize("name", [name for name in ENTROPY if "SGLD" in name])
def test_an_outer_noise_wrong_by_a_twentieth_is_noticed(name, factor, monkeypatch):
    plant(monkeypatch, entropy_sgd, stream=OUTER_NOISE, factor=factor)
    assert worst(SETTINGS[name]) < REJECTED


@parametrize("name", ENTROPY)
def test_the_inner_average_has_its_exact_law_and_a_noise_wrong_by_a_twentieth_is_noticed(name, monkeypatch):
    settings = SETTINGS[name]

    def p_value(potential):
        law = inner_law(Law.at(START), settings, potential).of(slice(2, 4))
        centre = torch.tensor(START).repeat(KEYS.count, 200)
        mean, _ = entropy_sgd.local_mean(potential, centre, build(settings, potential).coefficients(0), KEYS, 0)
        return smallest(mean.reshape(-1, 2), law)

    assert min(p_value(EXACT), p_value(NOISY)) > KEPT
    for factor in (0.95, 1.05):
        with monkeypatch.context() as planted:
            plant(planted, entropy_sgd, stream=NOISE, factor=factor)
            assert p_value(EXACT) < REJECTED


@parametrize("kind", MODULES)
def test_chains_of_one_batch_obey_each_its_own_settings(kind):
    every = [one for one in SETTINGS.values() if isinstance(one, kind) and getattr(one, "correction", True)]
    if kind is EntropySGD:
        every = [dataclasses.replace(one, inner_steps=3) for one in every]
    for draws, law in beside(*every, keys=Keys.derive(range(len(every))), steps=6, copies=20_000):
        assert smallest(draws, law) > KEPT
        assert smallest(draws, Law(law.mean, 1.05**2 * law.covariance)) < REJECTED


def test_twenty_thousand_chains_have_the_law_of_one(monkeypatch):
    """Across keys rather than across coordinates."""
    given = {"keys": Keys.derive([7] * 20_000, range(20_000)), "copies": 1, "steps": 5, "potential": NOISY}
    assert worst(SETTINGS["SGLD, decaying"], **given) > KEPT
    plant(monkeypatch, sgld, stream=NOISE)
    assert worst(SETTINGS["SGLD, decaying"], **given | {"potential": EXACT}) < REJECTED


def test_the_printed_sign_is_noticed():
    assert worst(SETTINGS["Entropy-SGLD"], steps=3, sign=-1.0) < REJECTED
