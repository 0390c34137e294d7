"""What `bounds` writes follows, and no number of it can be changed without notice."""

import json
from itertools import product
from math import log

import pytest
from made import at_a_price, by_another_network, everything, prices, without_a_price

import bounds
from bounds import (
    Certificate,
    best_of,
    catoni,
    kl_chernoff,
    langford_seeger,
    maurer,
    mcallester,
    new_example_kl,
    quadratic,
    recursive,
    thiemann,
    unexpected_bernstein,
)
from bounds.refined import ExcessStep
from pacdp.verify.certificate import check_certificate
from pacdp.verify.claim import CANNOT, DOES_NOT, FOLLOWS
from tests.edits import judged, leaves, moved
from tests.marks import every_case, parametrize

PRICES = [*prices(), "none"]
NOT_CHECKED = {"new_person_bernstein", "new_person_betting", "new_example_betting"}
NO_SPLIT = {"overall_certificate", "private_recursive"}  # whose budget has other entries than the price's
# Numbers that may be changed within the test's factors without changing what follows, and why.
FREE = set((
    "terms kept_steps privacy_spacing privacy_lowest privacy_infinity_mass privacy_zero_mass loss_high "
    "min_count examples"
).split())  # fmt: skip


def _made(price):
    return list(without_a_price() if price == "none" else at_a_price(prices()[price]))


def _standard(formula=maurer, **changes):
    return formula(**{"risk": 0.07, "kl_nats": 50.0, "n": 5000, "failure_prob": 0.05, **changes})


every_price = parametrize("price", PRICES)


@pytest.mark.every_case
@every_price
def test_every_certificate_follows(price):
    for made in _made(price):
        odd = [one for one in check_certificate(made.to_dict()) if one.verdict != FOLLOWS]
        assert [one.verdict for one in odd] == ([CANNOT] if made.name in NOT_CHECKED else []), odd


@every_case("tau", [10.0, 300.0, 60_000.0])
def test_a_small_value_that_a_search_found_follows(tau):
    """The largest over mean losses is within 1e-10 of the true one, which is much of a small value."""
    law = {"log_partition_lower_nats": -0.5, "tau": tau, "loss_low": 0.0, "loss_high": 4.0, "error_loss": 0.69}
    made = bounds.gibbs_pac_bayes(**law, n=60_000, failure_prob=0.05, log_partition_failure_prob=0.0).to_dict()
    assert {one.verdict for one in check_certificate(made)} == {FOLLOWS}
    for changed in (made["value"] - 1e-7, made["value"] + 1e-7):
        assert DOES_NOT in {one.verdict for one in check_certificate({**made, "value": changed})}


@parametrize("tau", [728.4, 1e5, 1e7])
@parametrize("low", [0.25, 1e-3])
def test_what_doubles_leave_of_a_large_free_energy_follows(tau, low):
    """-ln Z - τa is a small difference of large numbers, and is rounded up by what these may be off."""
    law = {"log_partition_lower_nats": -tau * low, "tau": tau, "loss_low": low, "loss_high": low + 1.0, "n": 500}
    paid = {"failure_prob": 0.05, "log_partition_failure_prob": 0.0}
    for made in (bounds.gibbs_pac_bayes(**law, **paid, error_loss=low + 0.5), bounds.gibbs_catoni(**law, **paid)):
        record = made.to_dict()
        assert {one.verdict for one in check_certificate(record)} == {FOLLOWS}
        for changed in (0.999 * record["value"], 1.001 * record["value"]):
            assert DOES_NOT in {one.verdict for one in check_certificate({**record, "value": changed})}


def _skipped(name, number):
    """Numbers that nothing depends on to one per cent, in certificates of that name."""
    if number in FREE:
        return True
    if name in NOT_CHECKED:
        return number not in ("failure_prob", "per_example")
    # what pays for losses without a bound is 1e-14 or so, and the parts of a probability are added up to 1e-12
    return (name.startswith("new_person") and number == "second_moment") or (
        name in NO_SPLIT and number.startswith("unbounded")
    )


@pytest.mark.every_case
@every_price
def test_no_number_can_be_changed_without_notice(price, whole):
    """Of every formula where nothing is paid for the data's part, and of every eighth at each other price."""
    missed = set()
    for made in _made(price)[:: 1 if whole or price in ("independent", "none") else 8]:
        record = made.to_dict()
        assert made.name in NOT_CHECKED or made.value < 1.0, made.name
        for place in leaves(record):
            number = str(place[-1])
            if _skipped(made.name, number):
                continue
            # near the best order and level the price hardly changes, and what is claimed covers the change
            searched = price == "distribution" and number.startswith("transfer_")
            for factor in (1.2, 0.8) if searched else (1.1, 1.01, 0.99, 0.9) if whole else (1.01, 0.99):
                changed = moved(record, place, factor)
                if changed["value"] <= 1.0 and DOES_NOT not in judged(changed):
                    missed.add((made.name, place, factor))
    assert not missed


@parametrize("price", ["independent", "distribution", "noise on all records", "none"])
def test_what_was_compared_and_what_ran_cannot_be_changed_either(price):
    """Every number of the inputs that are JSON: those compared, the event, and another network's certificate."""
    if price == "none":
        certificates = [by_another_network()]
    else:
        plain, other = (_standard(kl_nats=k, failure_prob=0.02, price=prices()[price]) for k in (50.0, 70.0))
        nested = best_of([best_of([other, plain], budget=0.1), other], budget=0.1)
        certificates = [plain, nested]
    for made in certificates:
        record = made.to_dict()
        assert judged(record) == {FOLLOWS}
        for name in {"among", "privacy_event", "surrogate"} & set(record["inputs"]):
            whole = json.loads(record["inputs"][name])
            for place, factor in product(leaves(whole, ("nats", "per_example")), (1.1, 0.9)):
                changed = moved(whole, place, factor)
                # others that were compared may have been larger than they were: nothing is claimed of them
                if name == "among":
                    other_one = place[0] != made.inputs["chosen_position"] and place[1] == 2
                    harmless = other_one and changed[place[0]][2] >= made.value
                else:  # what runs at more noise, or less often, is covered by the claim too
                    harmless = price == "distribution" and (place[-1] == "noise_multiplier") == (factor > 1)
                if not harmless:
                    assert DOES_NOT in judged(record, **{name: json.dumps(changed)}), (name, place, factor)
    lost = {key: value for key, value in record["inputs"].items() if key not in ("among", "surrogate")}
    assert judged({**record, "inputs": lost}) & {CANNOT, DOES_NOT}


@parametrize("of", ["weights", "mean weights", "one draw", "vote"])
def test_a_mean_over_draws_is_no_bound_on_one_network_nor_on_a_vote(of):
    """With a divergence of 0 the law is the prior's own, and the network may be what was drawn from it."""
    for kl_nats, due in ((50.0, DOES_NOT), (0.0, FOLLOWS)):
        record = _standard(kl_nats=kl_nats, price=prices()["realised sum"]).to_dict()
        assert judged(record) == {FOLLOWS}
        found = check_certificate({**record, "of": of})
        assert {one.verdict for one in found if one.claim == "predictor"} == {due}


@parametrize("of", ["randomised", "Gibbs classifier", "ensemble"])
def test_a_bound_on_one_network_is_none_on_a_mean_over_draws(of):
    """Neither that of one draw, nor one that the privacy of released weights pays for."""
    at = {"risk": 0.07, "n": 5000, "failure_prob": 0.05}
    private = {"price": prices()["gaussian"]}
    for made in (
        bounds.disintegrated(log_density_ratio=48.0, **at), bounds.kl_chernoff(**at, **private),
        bounds.printed.dp_hoeffding_2018(epsilon=0.05, **at),
    ):  # fmt: skip
        assert judged(made.to_dict()) == {FOLLOWS}
        found = check_certificate({**made.to_dict(), "of": of})
        assert {one.verdict for one in found if one.claim == "predictor"} == {DOES_NOT}
    assert judged({**bounds.kl_chernoff(**at).to_dict(), "of": of}) == {FOLLOWS}


def _undrawn(record):
    """The record without what its draw costs; the whole failure probability pays for the prior."""
    draw = record["budget"].pop("draw")
    paid = next(iter(record["budget"]))
    record["budget"][paid] += draw
    if "transfer_prob" in record["terms"]:
        record["terms"]["transfer_prob"] += draw
    record["costs"] = [one for one in record["costs"] if one["name"] != "draw"]
    del record["terms"]["draw_prob"]
    return record


@every_case("name", ["independent", "sharp", "gaussian"])
def test_what_one_draw_costs_cannot_be_left_out(name):
    """The value is then that of smaller costs, which its theorem does not have."""
    at = {"risk": 0.07, "n": 5000, "failure_prob": 0.05, "price": prices()[name]}
    made = [bounds.disintegrated_renyi(renyi_nats=48.0, **at), bounds.disintegrated(log_density_ratio=48.0, **at)]
    for one in made[: 1 if name == "independent" else 2]:
        assert judged(one.to_dict()) == {FOLLOWS}
        found = check_certificate(_undrawn(one.to_dict()))
        assert ["list of costs" in one.why for one in found if one.claim == "costs"] == [True]
    assert "draw" not in bounds.disintegrated(log_density_ratio=48.0, **{**at, "price": prices()["independent"]}).budget


@every_case("paid", [0.01, 1e-6, None])
def test_the_calibration_of_one_draw_pays_for_it_within_the_divergence(paid):
    """At a price of privacy: less than what its part of the failure probability costs is too little."""
    at = {"calibration_error": 0.03, "mean_squared_gap": 0.05, "n": 5000, "failure_prob": 0.04}
    made = bounds.ece_pac_bayes(kl_nats=5.0, price=prices()["gaussian"], **at)
    record = {**(made.charged("draw", paid) if paid else made).to_dict(), "name": "one_draw_ece", "of": "one draw"}
    found = check_certificate(record)
    assert [one.verdict for one in found if one.claim == "value"] == [FOLLOWS if paid == 0.01 else DOES_NOT]


def test_words_are_judged_too():
    made = _standard(price=prices()["concentrated"]).to_dict()
    assert made["status"] == "optimistic"
    proved = [{**one, "standing": "proved"} for one in made["hypotheses"]]
    for change in (
        {"status": "rigorous"}, {"hypotheses": proved, "status": "rigorous"},
        {"name": "private_mcallester"}, {"name": "dp_maurer"}, {"name": "vote_private_pac_bayes"},
        {"costs": made["costs"][:-1]}, {"budget": {**made["budget"], "log partition": 0.01}}, {"terms": {}},
        {"value": None}, {"value": "inf"}, {"value": float("nan")}, {"inputs": {**made["inputs"], "n": 5000.5}},
    ):  # fmt: skip
        assert DOES_NOT in judged({**made, **change}), change
    drawn = bounds.disintegrated(risk=0.07, log_density_ratio=48.0, n=5000, failure_prob=0.05).to_dict()
    for of, verdicts in (("one draw of your model", {FOLLOWS}), ("your model", {FOLLOWS, DOES_NOT})):
        assert judged({**drawn, "name": "one_draw_disintegrated", "of": of}) == verdicts
    for change in ({"name": "brand_new"}, {"format": "pacdp-certificate/1"}):
        assert judged({**made, **change}) == {CANNOT}


class _Small(int):
    """A number that says of itself that it is smaller than any other."""

    def __lt__(self, other):
        return True


@parametrize("sizes", [(3000, 1500), (5000,), (3000, 3000), (1500, 3000)])
@pytest.mark.every_case
def test_a_recursion_over_subsamples_that_do_not_shrink_is_noticed(sizes, monkeypatch):
    """Even if every number follows from their sizes."""
    monkeypatch.setattr("bounds._check._integers", lambda least, values: [*values.values()][-1])
    steps = [ExcessStep(shares=(0.98, 0.06, 0.01), kl_nats=20.0, n=_Small(size)) for size in sizes]
    record = json.loads(_standard(recursive, gamma=0.5, steps=steps).to_json())
    assert (DOES_NOT in judged(record)) == (sizes != (3000, 1500))


PRINTED = {name: getattr(bounds.printed, name) for name in bounds.printed.__all__}


def test_every_public_bound_is_among_those_checked():
    """A bound that is added to `bounds` must be added to made.py, and then to the checker."""
    written = {made.name for made in everything()}
    same_names = {  # as formulas at a price, or as other functions
        "dp_gibbs_pac_bayes", "dp_ece_pac_bayes", "private_ece_pac_bayes", "hybrid_pac_bayes", "for_a_new_person",
        "new_person_monte_carlo", "new_example_monte_carlo",
    }  # fmt: skip
    for name, function in {**PRINTED, **vars(bounds)}.items():
        returns = getattr(function, "__annotations__", {}).get("return") if callable(function) else None
        if returns is Certificate and name not in same_names:
            assert any(one.endswith(name) for one in written), f"{name} has no certificate in made.py"


@parametrize("n", [1, 2, 7, 100, 60_000, 10**9])
def test_the_grid(n):
    formulas = (maurer, langford_seeger, mcallester, quadratic, thiemann)
    for risk, kl_nats in product([0.0, 1e-9, 0.02, 0.5, 1.0], [0.0, 1e-12, 3.0, 1e5]):
        for formula in formulas:
            made = _standard(formula, risk=risk, kl_nats=kl_nats, n=n, failure_prob=1e-3)
            assert judged(made.to_dict()) == {FOLLOWS}, made
    assert judged(_standard(kl_nats=float("inf"), n=n).to_dict()) == {FOLLOWS}
    for risk, examples in product((0.0, 0.01, 0.3), (1, 2, 3)):
        made = new_example_kl(risk=risk, n=n, examples=examples * n, most_examples=3, failure_prob=0.05)
        assert judged(made.to_dict()) == {FOLLOWS}, made


def _other(made, value, **inputs):
    """The record with inputs, and terms of their names, that are other, and with this value."""
    record = made.to_dict()
    terms = record["terms"] | {name: one for name, one in inputs.items() if name in record["terms"]}
    if "risk" in inputs:
        terms["empirical_risk"] = inputs["risk"]
    return {**record, "inputs": {**record["inputs"], **inputs}, "terms": terms, "value": value}


def _renamed(made, other, **changes):
    """The record of one certificate with the name, numbers and budget of another one."""
    own, told = made.to_dict(), other.to_dict()
    parts = ("name", "value", "failure_prob", "costs", "terms", "budget")
    return {**own, **{part: told[part] for part in parts}, "inputs": {**own["inputs"], **told["inputs"]}, **changes}


def _without_its_grid():
    """The 20 values of eta, at the price of one temperature."""
    record = _standard(unexpected_bernstein, second_moment=0.06).to_dict()
    costs = [{**one, "nats": 0.0, "per_example": 0.0} if one["name"] == "grid" else one for one in record["costs"]]
    value = record["value"] - log(20) / record["terms"]["eta"] / 5000 * (1 - 1e-10)
    return {**record, "costs": costs, "value": value, "inputs": {**record["inputs"], "inverse_temperatures": "1.0"}}


def _by_a_better_network(name):
    """Another network's certificate at a value that it does not have, under a name that stands for what is added."""
    record = by_another_network().to_dict()
    surrogate = {**json.loads(record["inputs"]["surrogate"]), "value": 1e-4}
    return {
        **record, "name": name, "value": record["terms"]["disagreement"] + 1e-4,
        "inputs": {**record["inputs"], "surrogate": json.dumps(surrogate)},
        "terms": {**record["terms"], "surrogate_risk": 1e-4},
    }  # fmt: skip


_COUNTED = {"risk": 0.07, "n": 5000, "failure_prob": 0.05}
BORROWED = {
    "a grid of other length": _without_its_grid,
    "a surrogate that is not asked": lambda: _by_a_better_network("test_set_disagreement"),
    "people for effective people": lambda: _renamed(
        new_example_kl(**_COUNTED, examples=9000, most_examples=3), kl_chernoff(**_COUNTED)
    ),
    "weighted errors as if each counted alike": lambda: {
        **kl_chernoff(**_COUNTED).to_dict(), "measures": "weighted error"
    },
}  # fmt: skip


@every_case("what", BORROWED)
def test_what_belongs_to_another_formula_makes_no_bound_smaller(what):
    assert DOES_NOT in judged(BORROWED[what]())


def test_how_a_promise_was_come_to_is_said():
    """A certificate without it would be rigorous that rests on a chain's having converged."""
    record = _standard(price=prices()["concentrated"]).to_dict()
    assert judged(record) == {FOLLOWS}
    record["inputs"].pop("privacy_status")
    record["hypotheses"] = [one for one in record["hypotheses"] if one["standing"] != "unproved"]
    assert DOES_NOT in judged({**record, "status": "rigorous"})


IMPOSSIBLE = {
    # no divergence from a negative risk is a number, and any value would agree with what is none
    "a risk below 0": lambda: _other(_standard(), 0.001, risk=-1e-13),
    "the same by Pinsker": lambda: _other(_standard(mcallester), _standard(mcallester).value - 0.12, risk=-0.05),
    "a risk above 1": lambda: _other(_standard(), 1.0, risk=1.5),
    "a temperature below 0": lambda: _other(_standard(catoni, inverse_temperature=3e3), 0.07, inverse_temperature=-5.0),
    "a failure that is not paid for": lambda: {
        **_other(_standard(failure_prob=9e-13), _standard(failure_prob=9e-13).value, failure_prob=1e-20),
        "failure_prob": 1e-20,
    },
    "a mean square below that of the mean": lambda: _other(
        _standard(unexpected_bernstein, risk=0.5, second_moment=0.26), 0.5, second_moment=0.2
    ),
}  # fmt: skip


@every_case("what", IMPOSSIBLE)
def test_inputs_that_no_sample_has_are_seen(what):
    assert DOES_NOT in judged(IMPOSSIBLE[what]())


def test_each_of_several_may_fail():
    """Another one that fails with less than nothing would pay for the one that was chosen."""
    record = best_of([_standard(kl_nats=nats, failure_prob=0.025) for nats in (300.0, 50.0)], budget=0.05).to_dict()
    assert judged(record) == {FOLLOWS}
    assert record["inputs"]["chosen_position"] == 1
    for others in ([], [-0.025]):
        among = json.loads(record["inputs"]["among"])
        among[0][3] = 0.025 if others else 0.0
        among += [[*among[0][:3], prob] for prob in others]
        changed = {**record, "failure_prob": 0.025, "budget": {"bound": 0.025},
                   "terms": {**record["terms"], "compared": len(among)}}  # fmt: skip
        assert DOES_NOT in judged(changed, among=json.dumps(among)), others


def test_effective_people_and_bins_are_possible():
    """There are no more effective people than people, and the mean confidence of a bin lies in it."""
    few = {"risk": 0.07, "n": 5000, "failure_prob": 0.05}
    record = new_example_kl(**few, examples=5000, most_examples=1).to_dict()
    assert judged(record) == {FOLLOWS}
    assert any("effective people, of 5000" in one.why for one in check_certificate(
        {**record, "inputs": {**record["inputs"], "examples": 15_000}}
    ))  # fmt: skip
    for record in (made.to_dict() for made in without_a_price() if made.name.startswith("mce")):
        found = check_certificate({**record, "inputs": {**record["inputs"], "lows": record["inputs"]["highs"]}})
        assert any("another confidence than its own" in one.why for one in found)
        inputs = record["inputs"]
        for name, other in (("lows", inputs["lows"].replace("0.4", "0.41")), ("counts", "0.5" + inputs["counts"][1:])):
            assert DOES_NOT in judged(record, **{name: other}), "confidence between bins, or half an example"
