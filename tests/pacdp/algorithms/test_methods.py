"""Private algorithms as plain numbers: what they make and what they answer."""

from dataclasses import replace
from typing import get_args

from torch.nn import Flatten, Linear, ReLU, Sequential

from pacdp.algorithms.algorithm import Algorithm, Choice
from pacdp.algorithms.method import law_of
from pacdp.audit.recomputed import told_of
from pacdp.cli.private.methods import DPBBP, DPSGD, DPSGLD, METHODS, NAMES, P3SGD, DPMCDropout, Method
from pacdp.private import Constant, Laplace, Mechanism, Normal, published_epsilon
from pacdp.step.event import combined, runs_of
from tests.marks import every_case, near, parametrize
from tests.pacdp.toys import seeded

NOISE = Constant(value=1.5)
PUBLIC = Mechanism(clip_norm=0.5, sample_rate=0.1, expected_batch_size=10.0, steps=40)


def made(method, **public):
    return method.algorithm(replace(PUBLIC, **public), lambda: NOISE)


@every_case("name", METHODS)
def test_every_method_makes_its_algorithm_and_says_what_it_is(name):
    method = METHODS[name]
    algorithm = made(method)
    assert isinstance(algorithm, Algorithm)
    assert NAMES[method.KIND] == method.NAME
    assert method.BY_PERSON == (algorithm.contribution is not None)
    events = told_of(algorithm.promise(100, 3))
    assert len(events) == 3
    for t, event in enumerate(events):
        assert event.noise == near(combined(algorithm.noises(t)), rel=1e-9)
    if not method.FIXES_NOISE:
        assert algorithm.noises(0) == (1.5,)
        assert sum(count for _, count in runs_of(algorithm.promise(100, 3))) == 3


def test_all_methods_have_a_recipe_and_laws_are_those_that_are_named():
    assert {type(one) for one in METHODS.values()} == set(get_args(Method))
    laws = [law_of(name, 2.0) for name in ("none", "normal", "laplace")]
    assert laws == [None, Normal(std=2.0), Laplace(scale=2.0)]


@parametrize("nested", [False, True])
def test_a_choice_says_what_is_chosen_among_and_is_in_the_promise(nested):
    algorithm = made(P3SGD(noise_scales=(3.0, 2.0), nested=nested, selection_epsilon=0.3, score_bound=2.0))
    assert algorithm.choice == Choice(noise_scales=(3.0, 2.0), epsilon=0.3, score_bound=2.0)
    assert algorithm.noises(0) == ((2.0,) if nested else (3.0, 2.0))
    assert [step.choice for step in told_of(algorithm.promise(100, 1))] == [0.3]
    alone = made(P3SGD(noise_scales=(2.0,)))
    assert alone.choice is None
    assert told_of(alone.promise(100, 1)) == [(PUBLIC.sample_rate, 2.0, 0.0)]


def test_a_paper_s_own_accounting_is_asked_of_the_algorithm():
    algorithm = made(P3SGD())
    expected = published_epsilon(
        noise_scales=(3.0, 1.0), sample_rate=PUBLIC.sample_rate, steps=7, selection_epsilon=0.1**0.5, delta=1e-3
    )
    assert algorithm.published(steps=7, delta=1e-3) == expected
    assert made(DPSGD()).published(steps=7, delta=1e-3) is None


def test_snapshots_are_spread_over_what_is_left_after_burn_in():
    algorithm = made(DPSGLD(snapshots=4, burn_in=0.25), steps=20)
    assert [step for step in range(1, 21) if algorithm.keeps(step)] == [8, 11, 14, 17, 20]
    assert not any(made(DPSGLD(), steps=20).keeps(step) for step in range(21))


def test_networks_are_made_random_where_the_method_wants_them_so():
    plain = Sequential(Flatten(), Linear(4, 5), ReLU(), Linear(5, 3))
    generator = seeded(0)
    assert DPSGD().network(plain, generator=generator) is plain
    dropped = DPMCDropout(rate=0.4).network(plain, generator=generator)
    assert [type(layer).__name__ for layer in dropped] == ["Flatten", "Linear", "ReLU", "ExampleDropout", "Linear"]
    drawn = DPBBP(initial_std=0.1).network(plain, generator=generator)
    assert [type(layer).__name__ for layer in drawn][1] == "BayesLinear"
