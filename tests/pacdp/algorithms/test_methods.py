"""Private algorithms: what each one's record answers, and that its JSON is its fields."""

from dataclasses import fields, replace
from typing import get_args

from torch.nn import Flatten, Linear, ReLU, Sequential

from pacdp.algorithms.algorithm import Algorithm, Choice
from pacdp.cli.private.config import (
    DPBBP,
    DPSGD,
    DPSGLD,
    METHODS,
    NAMES,
    P3SGD,
    DPAdam,
    DPMCDropout,
    Method,
    PrivateConfig,
)
from pacdp.cli.serial import from_dict, to_dict
from pacdp.layers.priors import law_of
from pacdp.private import Laplace, Mechanism, Normal, Table, published_epsilon
from pacdp.step.event import combined, steps_of, told_of
from tests.marks import every_case, near, parametrize, refusal
from tests.pacdp.toys import seeded

FIXED = Mechanism(clip_norm=0.5, sample_rate=0.1, expected_batch_size=10.0, steps=40)
NOISY = replace(FIXED, noise_multiplier=1.5)


@every_case("name", METHODS)
def test_every_algorithm_says_what_it_is_and_promises_what_it_releases(name):
    algorithm = METHODS[name]
    numbers = FIXED if algorithm.FIXES_NOISE else NOISY
    assert isinstance(algorithm, Algorithm)
    assert NAMES[type(algorithm).__name__] == algorithm.NAME
    assert algorithm.by_person == (algorithm.contribution is not None)
    events = told_of(algorithm.promise(numbers, 3))
    assert len(events) == 3
    for t, event in enumerate(events):
        assert event.noise == near(combined(algorithm.noises(t, numbers)), rel=1e-9)
    if not algorithm.FIXES_NOISE:
        assert algorithm.noises(0, numbers) == (1.5,)
        assert steps_of(algorithm.promise(numbers, 3)) == 3


@every_case("name", METHODS)
def test_the_json_of_an_algorithm_is_its_fields(name):
    """Fields that joined a record later are left out at their defaults, and in there with another number."""
    algorithm = METHODS[name]
    written = to_dict(PrivateConfig(method=algorithm))["method"]
    later = {"beta1", "beta2", "stabiliser"} if isinstance(algorithm, DPAdam) else set()
    assert set(written) == {"kind", *(one.name for one in fields(algorithm))} - later
    assert written["kind"] == type(algorithm).__name__
    assert from_dict(PrivateConfig, to_dict(PrivateConfig(method=algorithm))).method == algorithm


def test_numbers_that_joined_later_are_kept_where_they_are_not_the_defaults():
    config = PrivateConfig(method=DPAdam(beta1=0.5))
    assert to_dict(config)["method"]["beta1"] == 0.5
    assert from_dict(PrivateConfig, to_dict(config)) == config


@parametrize("algorithm", [DPSGD(learning_rate=Table(values=(1.0,))),
                           DPBBP(prior=Normal(std=0.1))])  # fmt: skip
def test_what_is_no_plain_value_is_given_in_python_alone(algorithm):
    with refusal("in Python alone"):
        to_dict(PrivateConfig(method=algorithm))


def test_all_algorithms_have_a_recipe_and_laws_are_those_that_are_named():
    assert {type(one) for one in METHODS.values()} == set(get_args(Method))
    laws = [law_of("none", 1.0), law_of("normal", 2.0), law_of("laplace", 2.0)]
    assert laws == [None, Normal(std=2.0), Laplace(scale=2.0)]
    own = Normal(std=0.1)
    assert law_of(own, 1.0) is own


@parametrize("nested", [False, True])
def test_a_choice_says_what_is_chosen_among_and_is_in_the_promise(nested):
    algorithm = P3SGD(noise_scales=(3.0, 2.0), nested=nested, selection_epsilon=0.3, score_bound=2.0)
    assert algorithm.choice == Choice(noise_scales=(3.0, 2.0), epsilon=0.3, score_bound=2.0)
    assert algorithm.noises(0, FIXED) == ((2.0,) if nested else (3.0, 2.0))
    assert [step.choice for step in told_of(algorithm.promise(FIXED, 1))] == [0.3]
    alone = P3SGD(noise_scales=(2.0,))
    assert alone.choice is None
    assert told_of(alone.promise(FIXED, 1)) == [(FIXED.sample_rate, 2.0, 0.0)]


def test_a_paper_s_own_accounting_is_asked_of_the_algorithm():
    expected = published_epsilon(
        noise_scales=(3.0, 1.0), sample_rate=FIXED.sample_rate, steps=7, selection_epsilon=0.1**0.5, delta=1e-3
    )
    assert P3SGD().published(FIXED, steps=7, delta=1e-3) == expected
    assert DPSGD().published(NOISY, steps=7, delta=1e-3) is None


def test_snapshots_are_spread_over_what_is_left_after_burn_in():
    short, kept = replace(FIXED, steps=20), DPSGLD(convention="tempered", snapshots=4, burn_in=0.25)
    assert [step for step in range(1, 21) if kept.keeps(step, short)] == [11, 14, 17, 20]
    for asked, made in ((1, [20]), (5, [8, 11, 14, 17, 20]), (9, [*range(12, 21)]), (30, [*range(6, 21)])):
        some = replace(kept, snapshots=asked)
        assert [step for step in range(21) if some.keeps(step, short)] == made
    assert not any(replace(kept, snapshots=0).keeps(step, short) for step in range(21))


def test_networks_are_made_random_where_the_algorithm_wants_them_so():
    plain = Sequential(Flatten(), Linear(4, 5), ReLU(), Linear(5, 3))
    generator = seeded(0)
    assert DPSGD().network(plain, generator=generator) is plain
    dropped = DPMCDropout(rate=0.4).network(plain, generator=generator)
    assert [type(layer).__name__ for layer in dropped] == ["Flatten", "Linear", "ReLU", "ExampleDropout", "Linear"]
    drawn = DPBBP(initial_std=0.1).network(plain, generator=generator)
    assert [type(layer).__name__ for layer in drawn][1] == "BayesLinear"
