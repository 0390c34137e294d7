"""What `bounds` writes follows, and no number of it can be changed without notice."""

import copy
import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from edits import leaves, moved
from made import at_a_price, everything, prices, without_a_price

import bounds
from pacdp.verify.certificate import check_certificate
from pacdp.verify.claim import CANNOT, DOES_NOT, FOLLOWS

PRICES = [*prices(), "none"]
NOT_CHECKED = {"new_person_bernstein", "new_person_betting", "new_example_betting"}
NO_SPLIT = {"overall_certificate", "private_recursive"}  # whose budget has other entries than the price's
# Numbers that may be changed within the test's factors without changing what follows, and why.
FREE = {
    "terms",  # weighted_risk_upper: how many draws there were, of which the weights leave fewer
    "kept_steps",  # correlated_risk_upper: likewise, and its number of draws is an estimate
    "privacy_spacing", "privacy_lowest", "privacy_infinity_mass", "privacy_zero_mass",  # what ran is recomputed instead
    "loss_high",  # gibbs_pac_bayes: where -ln Z/tau lies below it
    "min_count",  # mce: where no bin has a count in between
    "examples",  # of people, in bounds that do not use it
}  # fmt: skip


def _made(price: str) -> list[bounds.Certificate]:
    return list(without_a_price() if price == "none" else at_a_price(prices()[price]))


def _verdicts(record: Mapping[str, Any]) -> set[str]:
    return {one.verdict for one in check_certificate(record)}


@pytest.mark.parametrize("price", PRICES)
def test_every_certificate_follows(price: str) -> None:
    for made in _made(price):
        found = check_certificate(made.to_dict())
        odd = [one for one in found if one.verdict != FOLLOWS]
        if made.name in NOT_CHECKED:
            assert [one.verdict for one in odd] == [CANNOT], odd
        else:
            assert not odd, odd


def _places(record: dict[str, Any]) -> Iterator[tuple[Any, ...]]:
    yield ("value",)
    yield ("failure_prob",)
    for place, _ in enumerate(record["costs"]):
        yield ("costs", place, "nats")
        yield ("costs", place, "per_example")
    for part in ("terms", "budget", "inputs"):
        for name, value in record[part].items():
            if not isinstance(value, str):
                yield (part, name)


def _edited(record: dict[str, Any], place: tuple[Any, ...], factor: float) -> dict[str, Any] | None:
    changed = copy.deepcopy(record)
    holder: Any = changed
    for key in place[:-1]:
        holder = holder[key]
    old = holder[place[-1]]
    new = old * factor
    if isinstance(old, int):
        new = round(new) if round(new) != old else old + (1 if factor > 1.0 else -1)
    if new == old or (place == ("value",) and new > 1.0):
        return None
    holder[place[-1]] = new
    return changed


@pytest.mark.parametrize("price", PRICES)
def test_no_number_can_be_changed_without_notice(price: str) -> None:
    missed = set()
    for made in _made(price):
        record = made.to_dict()
        assert made.name in NOT_CHECKED or made.value < 1.0, made.name
        for place in _places(record):
            if (
                place[-1] in FREE
                or (made.name.startswith("new_person") and place[-1] == "second_moment")
                or (made.name in NOT_CHECKED and place[-1] not in ("failure_prob", "per_example"))
            ):
                continue
            # near the best order and level the price hardly changes, and what is claimed covers the change; what pays
            # for losses without a bound is 1e-14 or so, and the parts of a probability are added up to 1e-12
            searched = price == "distribution" and str(place[-1]).startswith("transfer_")
            if str(place[-1]).startswith("unbounded") and made.name in NO_SPLIT:
                continue
            for factor in (1.2, 0.8) if searched else (1.1, 1.01, 0.99, 0.9):
                changed = _edited(record, place, factor)
                if changed is not None and DOES_NOT not in _verdicts(changed):
                    missed.add((made.name, place, factor))
    assert not missed


@pytest.mark.parametrize("price", ["independent", "distribution", "noise on all records"])
def test_what_was_compared_and_what_ran_cannot_be_changed_either(price: str) -> None:
    """Every number, and every word, of the inputs that are JSON: those compared, and the event."""
    plain, other = (bounds.maurer(risk=0.07, kl_nats=k, n=5000, failure_prob=0.02, price=prices()[price])
                    for k in (50.0, 70.0))  # fmt: skip
    for made in (plain, bounds.best_of([bounds.best_of([other, plain], budget=0.1), other], budget=0.1)):
        record = made.to_dict()
        assert _verdicts(record) == {FOLLOWS}
        for name in {"among", "privacy_event"} & set(record["inputs"]):
            whole = json.loads(record["inputs"][name])
            for place in leaves(whole):
                for factor in (1.1, 0.9):
                    changed = moved(whole, place, factor)
                    inputs = {**record["inputs"], name: json.dumps(changed)}
                    # others that were compared may have been larger than they were: nothing is claimed of them
                    if name == "among":
                        other_one = place[0] != made.inputs["chosen_position"] and place[1] == 2
                        harmless = other_one and changed[place[0]][2] >= made.value
                    else:  # what runs at more noise, or less often, is covered by the claim too
                        covered = (place[-1] == "noise_multiplier") == (factor > 1)
                        harmless = covered and price == "distribution"
                    if not harmless:
                        assert DOES_NOT in _verdicts({**record, "inputs": inputs}), (name, place, factor)
    lost = {key: value for key, value in record["inputs"].items() if key != "among"}
    assert _verdicts({**record, "inputs": lost}) == {CANNOT}


def test_words_are_judged_too() -> None:
    record = prices()["concentrated"]
    made = bounds.maurer(risk=0.07, kl_nats=50.0, n=5000, failure_prob=0.05, price=record).to_dict()
    assert made["status"] == "optimistic"
    for change in (
        {"status": "rigorous"},
        {"hypotheses": [{**one, "standing": "proved"} for one in made["hypotheses"]], "status": "rigorous"},
        {"name": "private_mcallester"}, {"name": "dp_maurer"}, {"name": "vote_private_pac_bayes"},
        {"costs": made["costs"][:-1]}, {"budget": {**made["budget"], "log partition": 0.01}}, {"terms": {}},
        {"value": None}, {"value": "inf"}, {"value": float("nan")}, {"inputs": {**made["inputs"], "n": 5000.5}},
    ):  # fmt: skip
        assert DOES_NOT in _verdicts({**made, **change}), change


def test_a_name_that_the_checker_does_not_know_is_not_believed() -> None:
    made = bounds.maurer(risk=0.07, kl_nats=50.0, n=5000, failure_prob=0.05).to_dict()
    assert _verdicts({**made, "name": "brand_new"}) == {CANNOT}
    assert _verdicts({**made, "format": "pacdp-certificate/1"}) == {CANNOT}


def test_every_public_bound_is_among_those_checked() -> None:
    """A bound that is added to `bounds` must be added to made.py, and then to the checker."""
    written = {made.name for made in everything()}
    same_names = {  # as formulas at a price, or as other functions
        "dp_gibbs_pac_bayes", "dp_ece_pac_bayes", "private_ece_pac_bayes", "hybrid_pac_bayes", "for_a_new_person",
        "new_person_monte_carlo", "new_example_monte_carlo",
    }  # fmt: skip
    for name, function in vars(bounds).items():
        returns = getattr(function, "__annotations__", {}).get("return") if callable(function) else None
        if returns is bounds.Certificate and name not in same_names:
            assert any(one.endswith(name) for one in written), f"{name} has no certificate in made.py"


def test_names_that_routes_give() -> None:
    """Of predictors, losses and examples, as `pacdp.certify` and its neighbours write them."""
    record = bounds.maurer(risk=0.07, kl_nats=50.0, n=5000, failure_prob=0.05).to_dict()
    for name in ("randomised_maurer", "half_brier_maurer", "rescaled_my_odd_loss_maurer", "finite_ensemble"):
        assert _verdicts({**record, "name": name}) == {FOLLOWS}, name
    doubled = {**record, "value": 2.0 * record["value"]}
    assert _verdicts({**doubled, "name": "vote_finite_ensemble"}) == {FOLLOWS}
    assert DOES_NOT in _verdicts({**doubled, "name": "finite_ensemble"})
    for price in ("gaussian", "distribution"):
        made = bounds.maurer(risk=0.07, kl_nats=50.0, n=5000, failure_prob=0.05, price=prices()[price]).to_dict()
        assert _verdicts({**made, "name": "randomised_hybrid_pac_bayes"}) == {FOLLOWS}


def test_people_on_a_grid_of_sizes() -> None:
    for risk in (0.0, 0.01, 0.3):
        for examples in (400, 700, 1200):
            made = bounds.new_example_kl(risk=risk, n=400, examples=examples, most_examples=3, failure_prob=0.05)
            assert _verdicts(made.to_dict()) == {FOLLOWS}, (risk, examples)


@pytest.mark.parametrize("n", [1, 2, 7, 100, 60_000, 10**9])
@pytest.mark.parametrize("risk", [0.0, 1e-9, 0.02, 0.5, 1.0])
@pytest.mark.parametrize("kl_nats", [0.0, 1e-12, 3.0, 1e5])
def test_the_grid(n: int, risk: float, kl_nats: float) -> None:
    for formula in (bounds.maurer, bounds.langford_seeger, bounds.mcallester, bounds.quadratic, bounds.thiemann):
        made = formula(risk=risk, kl_nats=kl_nats, n=n, failure_prob=1e-3)
        assert _verdicts(made.to_dict()) == {FOLLOWS}, made
    infinite = bounds.maurer(risk=risk, kl_nats=float("inf"), n=n, failure_prob=1e-3)
    assert _verdicts(infinite.to_dict()) == {FOLLOWS}
