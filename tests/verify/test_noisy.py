"""Prices of noisy sums are recomputed from what ran, what was realised and the grid: nothing of it can be changed."""

import json

import numpy as np
from made import prices

from bounds import OnceSum, RealisedPoissonSum, declared, ece_pac_bayes, maurer, poisson_sum_realised
from bounds.accounting import Composed, Gaussian, OnceAnEpoch, PoissonSampled, SelfComposed, event_to_dict
from pacdp.verify.arithmetic import ball
from pacdp.verify.certificate import check_certificate
from pacdp.verify.claim import CANNOT, DOES_NOT, FOLLOWS, Fields, Unchecked, Wrong
from pacdp.verify.events import epochs_of, noisy_sums_of, steps_of
from pacdp.verify.formulas.prices import log_moment, serves
from pacdp.verify.norms import realised_contributions, steps_of_chain
from tests.edits import judged, leaves, moved
from tests.marks import every_case, parametrize, refusal

KINDS = ("noisy sum", "realised sum", "poisson sum", "epochs", "realised poisson")


def _record(kind):
    return maurer(risk=0.07, kl_nats=50.0, n=5000, failure_prob=0.05, price=prices()[kind]).to_dict()


@parametrize("kind", ["realised sum", "realised poisson"])
def test_lists_of_numbers_cannot_be_changed(kind):
    """That of the best order above all: orders far from it have no part in the root, to nine digits."""
    record, price = _record(kind), prices()[kind]
    assert judged(record) == {FOLLOWS}
    alone = [
        RealisedPoissonSum(log_moments=(m,), orders=(a,), records=5000).charge(n=5000, failure_prob=0.05).nats
        for a, m in zip(price.orders, price._moments(), strict=True)
    ]
    for name in {"sum_orders", "sum_weights", "sum_log_moments"} & set(record["inputs"]):
        values = [float(word) for word in record["inputs"][name].split(",")]
        for factor in (1.02, 0.98):
            changed = moved(values, (int(np.argmin(alone)),), factor)
            assert DOES_NOT in judged(record, **{name: ", ".join(map(repr, changed))}), (name, factor)
    for change in ("", "1.5", "0.9, 1.5", "nan"):
        assert DOES_NOT in judged(record, sum_orders=change), change


def test_no_amount_is_below_zero_and_a_measured_price_serves_no_formula_without_a_prior():
    """Whoever writes cost and value anew beside such an amount would have all follow."""
    for kind, names in (("noisy sum", ("sum_mu", "kl_nats")), ("realised sum", ("sum_contributions",))):
        record = _record(kind)
        for name in names:
            found = check_certificate({**record, "inputs": {**record["inputs"], name: -1.0}})
            assert any("none is below 0" in one.why for one in found), name
    served = [serves("gibbs_around_", *of) for of in (("maurer", "prior"), ("catoni", "prior"))]
    assert served == [True, False]
    for name, why in (("realised_sum_kl_chernoff", "knows no"), ("one_draw_realised_sum_maurer", "nothing of one")):
        assert why in check_certificate({**record, "name": name})[0].why


@parametrize("kind", ["noisy sum", "poisson sum", "epochs"])
def test_what_ran_cannot_be_changed(kind):
    record = _record(kind)
    event = json.loads(record["inputs"]["sum_event"])
    pure = {"event": "ExponentialMechanism", "epsilon": 0.1, "adjacency": "add-remove"}
    wrong = [moved(event, place, factor) for place in leaves(event) for factor in (1.1, 0.9)]
    wrong += [{"event": "PoissonSampled", "sample_rate": 0.5, "inner": event}, pure]
    if count := event.get("count"):
        wrong += [{**event, "count": other} for other in (0, count + 0.5, str(count))]
    for other in (*wrong, {"event": "Composed", "inner": [event, pure]}):
        assert DOES_NOT in judged(record, sum_event=json.dumps(other)), other


@parametrize("times", [[10**5, 10**5], [10**3, 10**3, 10**3], [10**18]])
def test_counts_that_multiply_to_more_than_can_be_listed_are_refused_before_they_are(times):
    """In a run, on one sample, in epochs and in the settings; what cannot be listed may well have run."""
    plain = {"event": "Gaussian", "noise_multiplier": 1e9}
    nested, epochs = plain, {"event": "OnceAnEpoch", "batches": 5, "inner": plain}
    for count in times:
        nested, epochs = ({"event": "SelfComposed", "count": count, "inner": one} for one in (nested, epochs))
    several = {"event": "Composed", "inner": [{"event": "SelfComposed", "count": 6 * 10**6, "inner": plain}] * 2}
    sampled = {"event": "PoissonSampled", "sample_rate": 0.1, "inner": nested}
    sampler = Fields([("kind", "SGLD"), ("clip_norm", 1.0), ("batch_size", 1), ("step_size", 1.0), ("decay", 0.0)])
    for read, event in ((steps_of, nested), (steps_of, several), (steps_of, sampled), (epochs_of, epochs)):
        with refusal("too many to be listed", Unchecked):
            read(event)
    with refusal("too many to be listed", Unchecked):
        steps_of_chain(sampler, 10, 10**12)
    assert CANNOT in judged(_record("noisy sum"), sum_event=json.dumps(nested))
    assert len(steps_of({**several, "inner": several["inner"][:1]})) == 6 * 10**6


@every_case("kind", KINDS)
def test_a_price_pays_for_the_calibration_error_of_one_draw_and_passes_for_no_other_kind(kind):
    at = {"calibration_error": 0.02, "mean_squared_gap": 0.02, "kl_nats": 30.0, "n": 5000, "failure_prob": 0.05}
    made = ece_pac_bayes(**at, price=prices()[kind]).resting_on(declared("draws independent", "a test"))
    drawn = {**made.to_dict(), "name": "one_draw_ece", "of": "one draw"}
    assert judged(drawn) == {FOLLOWS}
    for name in {"kl_nats", "sum_mu", "sum_contributions"} & set(drawn["inputs"]):
        assert DOES_NOT in judged(drawn, **{name: drawn["inputs"][name] * 1.1}), name
    record = _record(kind)
    names = {"maurer", "dp_pac_bayes", "private_pac_bayes", *(f"{word.replace(' ', '_')}_maurer" for word in KINDS)}
    for name in names - {record["name"]}:
        assert judged({**record, "name": name}) != {FOLLOWS}, name
    left = [one for one in record["hypotheses"] if one["name"] != "records enter by noisy sums"]
    assert DOES_NOT in judged({**record, "hypotheses": left})


def test_norms_of_a_run_are_added_up_once_more():
    steps = [PoissonSampled(sample_rate=0.1, event=Gaussian(noise_multiplier=z)) for z in (2, 3.5)]
    event = Composed(events=(*steps, Gaussian(noise_multiplier=9.0)))
    norms, orders = [20.0, 0.0, 31.5], [1.1, 1.7, 2.0, 2.3, 5.0]
    made = poisson_sum_realised(event=event, squared_norms=norms, records=40, orders=orders)
    sums = list(noisy_sums_of(event_to_dict(event)))
    for order, claimed in zip(orders, made.log_moments, strict=True):
        moment = sum(norm * float(log_moment(ball(order), one)) for norm, one in zip(norms, sums, strict=True))
        assert moment * (1 - 1e-12) <= claimed <= moment * (1 + 1e-9)
    assert float(realised_contributions(norms, [1.0, 2.0, 4.0])) == 20.0 + 31.5 / 16
    for odd, why in ((norms[:2], "3 steps ran, and 2 norms were recorded"), ([1.0, -1.0, 1.0], "negative")):
        with refusal(why, Wrong):
            realised_contributions(odd, [1.0, 2.0, 4.0])


@parametrize("noise", [20.0, 100.0, 3000.0])
@parametrize("batches", [2, 50])
def test_orders_of_epochs_may_be_as_large_as_much_noise_makes_them(noise, batches):
    """A series of moments has as many terms as the order, up to 1024."""
    epoch = OnceAnEpoch(batches=batches, event=Gaussian(noise_multiplier=noise))
    price = OnceSum(event=SelfComposed(event=epoch, count=3))
    made = maurer(risk=0.1, kl_nats=5.0, n=5000, failure_prob=0.05, price=price).to_dict()
    assert DOES_NOT not in judged(made)
    for cost in made["costs"]:
        cost["nats"] *= 0.999
    assert DOES_NOT in judged(made)


@parametrize("rate", [-0.1, 1.5, float("nan")])
@parametrize("noise", [-5.0, float("nan")])
def test_rates_are_shares_and_noise_is_not_below_zero(rate, noise):
    """Two rates that are none have a product that may be one; the square of noise hides its sign."""
    plain = {"event": "Gaussian", "noise_multiplier": 5.0}
    sampled = {"event": "PoissonSampled", "sample_rate": rate, "inner": plain}
    hidden = {"event": "LastAlone", "steps": 3, "contraction": 0.5, "inner": {**plain, "noise_multiplier": noise}}
    for event in (sampled, {**sampled, "inner": sampled}, {**plain, "noise_multiplier": noise}, hidden):
        with refusal(r"rate is|multiplier is|nan is no number", Wrong):
            steps_of(event)
