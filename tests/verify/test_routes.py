"""Fresh reports of every route of `pacdp.certify` follow."""

import json

import numpy as np
import pytest
import torch
from made import verdicts
from numpy.random import default_rng
from torch import nn

import bounds
from bounds import (
    Accounted,
    GaussianDP,
    PureDP,
    Sharp,
    clopper_pearson_upper,
    disintegrated,
    gibbs_pac_bayes,
    kl_chernoff,
    maurer,
)
from bounds.accounting import Gaussian, PoissonSampled, SelfComposed, privacy_record
from bounds.refined import ExcessStep
from pacdp import GaussianPosterior, HeldOut, Network, Prior, Private, certify
from pacdp.certify import BoundSet, DataFree, Finite, MonteCarlo
from pacdp.data.rows import Rows
from pacdp.features import anchored_head, nearest, ridge_heads
from pacdp.verify import loss
from pacdp.verify.claim import DOES_NOT
from pacdp.verify.report import check_report
from tests.edits import WHOLE, leaves, moved, odd, unnoticed
from tests.marks import every_case, parametrize

N = 400
EVENT = SelfComposed(event=PoissonSampled(sample_rate=0.05, event=Gaussian(noise_multiplier=30.0)), count=200)
_OTHERS = Rows.of(np.full((3, 5), np.float32(9.3)), np.arange(3), np.array([10_000, 10_001, 10_002]))


def _sets(*, people=False):
    rng = default_rng(3)
    found = []
    for start in (0, N):
        inputs = torch.tensor(rng.normal(size=(N, 5)), dtype=torch.float32)
        labels = (inputs[:, 0] + 0.5 * torch.tensor(rng.normal(size=N)) > 0).long()
        whose = start + np.arange(N) // 4 if people else None
        found.append(BoundSet(inputs=inputs, labels=labels, people=whose))
    return found[0], found[1]


def _network(shift=0.0):
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(5, 2)).eval()
    with torch.no_grad():
        network[0].weight[:] = torch.tensor([[-1.0, 0, 0, 0, 0], [1.0, 0, 0, 0, 0]])
        network[0].bias[:] = torch.tensor([shift, -shift])
    return network


def _gaussian(source, data, test, **more):
    network = _network()
    prior = GaussianPosterior.around(network, std=0.2)
    law = GaussianPosterior(means={k: v + 0.01 for k, v in prior.means.items()}, stds=prior.stds)
    effort = MonteCarlo(passes=3)
    return certify(law, data, prior=Prior(law=prior, source=source), network=network, test=test, monte_carlo=effort,
                   **more)  # fmt: skip


def _head():
    rows = torch.eye(5).repeat(2, 1)
    how = {"ridge": 1.0, "tau": 20.0, "normaliser": N, "seed": 0, "provenance": "none"}
    return anchored_head(rows, (rows[:, 0] > 0).long(), classes=2, **how)


def _undrawn(data):
    how = {"classes": 2, "ridge": 1.0, "share": 1.0, "bias": 1.0, "tau": 20.0, "normaliser": N, "provenance": "none"}
    return nearest(ridge_heads(torch.eye(5), **how), data.inputs, data.labels)


def _claims():
    return {
        "gaussian": GaussianDP(mu=0.02, adjacency="add-remove", status="accounted"),
        "composed": privacy_record(event=EVENT, adjacency="add-remove"),
        "stationary": PureDP(epsilon=0.01, adjacency="replace-one", status="assumes stationarity"),
    }


ROUTES = {
    "independent prior": lambda data, test: _gaussian(DataFree(), data, test),
    "held-out prior": lambda data, test: _gaussian(HeldOut(rows=_OTHERS), data, test),
    **{
        f"private prior, {name}": lambda data, test, claim=claim: _gaussian(Private(privacy=claim), data, test)
        for name, claim in _claims().items()
    },
    "private and held-out prior": lambda data, test: _gaussian(
        Private(privacy=_claims()["gaussian"], seen=HeldOut(rows=_OTHERS)), data, test
    ),
    "one network": lambda data, test: certify(_network(), data, test=test, ask=["error", "calibration"]),
    "a released network": lambda data, test: certify(
        Network(network=_network()), data, prior=Private(privacy=_claims()["gaussian"]), test=test
    ),
    "a drawn head": lambda data, test: certify(_head(), data, prior=HeldOut(rows=_OTHERS), test=test),
    "undrawn heads": lambda data, test: certify(_undrawn(data), data, prior=HeldOut(rows=_OTHERS), test=test),
    "finitely many": lambda data, test: certify(Finite(networks=[_network(), _network(0.3)]), data, test=test),
}
PRIVATE = {"finitely many", "a released network", "a drawn head", "undrawn heads"}
FREE = {
    "reference", "by", "prior", "choices", "high",  # told, or compared with the run's folder
    "unbounded_prob", "unbounded privacy loss", "transfer_alpha", "transfer_level",  # see test_certificates
}  # fmt: skip


SILENT = {
    "names no rows": lambda r: r.update(rows=None),
    "rows under two names": lambda r: r["rows"].update(test=r["rows"]["bound"]),
    "nothing of settings": lambda r: r.update(choices=None),
    "names no rows of the test": lambda r: r["rows"].pop("test"),
    "rows without a digest": lambda r: r["rows"]["bound"].update(digest=None),
    "more people than rows": lambda r: r["rows"]["test"].update(n=1, people=r["n"]),
}


every_route = parametrize("name", ROUTES)


@pytest.mark.every_case
@every_route
def test_every_route(name):
    counts_people = name not in PRIVATE and "privat" not in name  # others need a claim about them
    for people in {False, counts_people}:
        report = ROUTES[name](*_sets(people=people)).to_dict()
        assert report["certificates"]
        assert not odd(check_report(report))
        told = " ".join(one.why for one in check_report(report))
        private = (report["prior"] or {}).get("source") == "Private"
        assert ("what ran for" in told) == (private and "composed" not in name)
        if name in ("one network", "independent prior"):
            assert not [*unnoticed(json.loads(json.dumps(report)), check_report)]
        for why, edit in (WHOLE | SILENT).items():
            edited = json.loads(json.dumps(report))
            edit(edited)
            found = check_report(edited)
            noticed = DOES_NOT in verdicts(found) or any("rows, which are null" in one.why for one in found)
            assert noticed or (people and "errors" in why), why


@pytest.mark.every_case
@every_route
def test_no_number_of_any_route_changes_without_notice(name, monkeypatch):
    """One number after the other, by a tenth: of each certificate beside the rest of its report, and of that rest."""
    monkeypatch.setattr(loss, "SECONDS", 0.0)  # the first grid decides
    report = json.loads(json.dumps(ROUTES[name](*_sets()).to_dict()))
    whole, missed = report["certificates"], []
    for made in [*whole, None]:
        report["certificates"] = (
            [made] if made else [one for one in whole if one["of"] == "randomised"][:2] or whole[:1]
        )
        parts = {"certificates": [made]} if made else {k: v for k, v in report.items() if k != "certificates"}
        for place in leaves(parts, FREE):
            if DOES_NOT not in verdicts(check_report(moved(report, place))):
                missed.append((made and made["name"], *place))
    covered = {(None, "privacy", "event", "inner", "sample_rate")}  # what runs less often costs less than was paid
    untold = {(None, "measured", k, "mean") for k, one in enumerate(report["measured"])
              if (one["of"], one["on"]) == ("ensemble", "test")}  # fmt: skip
    untold |= {(None, "monte_carlo", k, "seed") for k in range(9)}  # draws are not made again
    # nor errors of each network counted, so that verify names these as what nothing determines
    untold |= {(None, "details", "best"), *((None, "details", "weights", k) for k in range(9))}
    assert set(missed) <= covered | untold


def test_a_prior_that_saw_some_rows_freely_saw_none_of_these():
    """Every certificate at the price of its privacy says so, and none can keep silent about it."""
    name = "prior saw none of these rows"
    report = ROUTES["private and held-out prior"](*_sets()).to_dict()
    paying = [one for one in report["certificates"] if "privacy_notion" in one["inputs"]]
    for made in paying:
        assert [one["standing"] for one in made["hypotheses"] if one["name"] == name] == ["proved"], made["name"]
        made["hypotheses"] = [one for one in made["hypotheses"] if one["name"] != name]
    wrong = {one.claim for one in check_report(report) if one.verdict == DOES_NOT}
    assert wrong == {"hypotheses", "hypotheses of the prior"}
    for edit in (
        {"source": "HeldOut"},
        {"source": None},
        {"privacy": {"adjacency": "replace-one", "status": "accounted"}},
    ):
        edited = {**report, "prior": {**report["prior"], **edit}}
        assert DOES_NOT in verdicts(check_report(edited))
    for drawn in ("a drawn head", "undrawn heads"):
        report = ROUTES[drawn](*_sets()).to_dict()
        for made in report["certificates"]:
            made["hypotheses"] = [one for one in made["hypotheses"] if one["name"] != name]
        assert DOES_NOT in verdicts(check_report(report), "hypotheses of the prior")


@parametrize("people", [False, True])
def test_draws_are_of_the_records(people):
    """Of ten times as many there would be more terms, and a smaller bound."""
    report = json.loads(json.dumps(ROUTES["independent prior"](*_sets(people=people)).to_dict()))
    assert not odd(check_report(report))
    for one in report["monte_carlo"]:
        for name in ("people" if people else "n", "total"):
            one[name] *= 10
    (said,) = [one for one in check_report(report) if one.claim == "measured errors"]
    assert "the records of draws" in said.why or people
    assert said.verdict == DOES_NOT


def test_a_vote_is_certified_by_the_errors_of_those_who_vote():
    report = json.loads(json.dumps(ROUTES["finitely many"](*_sets()).to_dict()))
    (place,) = [at for at, one in enumerate(report["certificates"]) if one["of"] == "vote"]
    made = report["certificates"][place]
    told = {**made["inputs"], "risk": made["inputs"]["risk"] / 2}
    other = maurer(**told).to_dict()
    made |= {"value": 2 * other["value"], "inputs": other["inputs"], "terms": other["terms"]}
    wrong = [one.claim for one in check_report(report) if one.verdict == DOES_NOT]
    assert wrong == ["measured errors"]


@parametrize("people", [False, True])
def test_a_risk_cannot_be_called_by_another_name(people):
    """Calibration, or that of a new person, where every loss is one of pacdp's own; nor a record by another unit."""
    report = ROUTES["one network"](*_sets(people=people)).to_dict()
    for place, made in enumerate(report["certificates"]):
        one = next(one for one in made["hypotheses"] if one["name"] == "records independent")
        for holder, name, other in ((made, "measures", "ECE"), (made, "measures", "0-1 risk of a new document"),
                                    (one, "unit", "document" if people else "person")):  # fmt: skip
            said, holder[name] = holder[name], other
            found = check_report(json.loads(json.dumps(report)))
            holder[name] = said
            assert said == other or "ECE" in said or DOES_NOT in verdicts(found), (place, name, other)
    report = json.loads(json.dumps(ROUTES["independent prior"](*_sets(people=people)).to_dict()))
    for a, b in (("0-1 risk", "half the Brier risk"), ("half the Brier risk", "0-1 risk")):
        (made, *_) = (
            one for one in report["certificates"] if (one["of"], one["measures"][: len(a)]) == ("randomised", a)
        )
        edited = {**report, "certificates": [{**made, "measures": made["measures"].replace(a, b)}]}
        assert {one.claim for one in check_report(edited) if one.verdict == DOES_NOT} & {"measured errors", "labels"}


def test_a_nested_report_is_read_too():
    """Studies put the certificates of other priors under ``references``."""
    report = ROUTES["one network"](*_sets()).to_dict()
    report["details"] |= {"references": {"again": ROUTES["independent prior"](*_sets()).to_dict()}}
    assert not odd(check_report(report))
    report["details"]["references"]["again"]["certificates"][0]["value"] *= 0.9
    assert DOES_NOT in verdicts(check_report(report))


DAMAGED = {
    "subject": lambda r: r.update(subject="x"),
    "certificates": lambda r: r.update(certificates=[7]),
    "details": lambda r: r.update(details=[[]]),
    "name": lambda r: r["certificates"][0].pop("name"),
    "measures": lambda r: r["certificates"][0].update(measures=None),
    "hypotheses": lambda r: r["certificates"][0].update(hypotheses=None),
    "nats": lambda r: [one["costs"] and one["costs"][0].pop("nats") for one in r["certificates"]],
    "loss": lambda r: r["measured"][0].pop("loss"),
}


def test_what_is_of_another_kind_is_named_and_does_not_follow():
    """In a sentence that names the entry, and what helps; nothing of Python's own stands before it."""
    report = json.loads(json.dumps(ROUTES["independent prior"](*_sets()).to_dict()))
    for name, edit in DAMAGED.items():
        edited = json.loads(json.dumps(report))
        edit(edited)
        wrong = [one.why for one in check_report(edited) if one.verdict == DOES_NOT]
        assert any(repr(name) in why and "check the file as it was written" in why for why in wrong), (name, wrong)


def test_examples_are_not_counted_where_people_are_the_records():
    """A certificate of as many records as there are examples is smaller, and every number of it follows."""
    report = ROUTES["independent prior"](*_sets(people=True)).to_dict()
    (place,) = [at for at, made in enumerate(report["certificates"]) if made["name"] == "test_set_new_person_kl"]
    made = report["certificates"][place]
    other = kl_chernoff(risk=made["inputs"]["risk"], n=report["examples"], failure_prob=made["failure_prob"]).to_dict()
    made |= {"value": other["value"], "costs": other["costs"], "inputs": {**made["inputs"], "n": report["examples"]}}
    wrong = [one for one in check_report(report) if one.verdict == DOES_NOT]
    assert [one.claim for one in wrong] == ["certificates agree with it"]


def test_people_have_as_many_examples_as_the_report_says():
    """With three times as many of each person's there would be as many effective people as people."""
    report = json.loads(json.dumps(ROUTES["independent prior"](*_sets(people=True)).to_dict()))
    (made,) = (one for one in report["certificates"] if one["name"] == "test_set_new_person_kl")
    made["inputs"]["examples"] *= 3
    assert [one.claim for one in check_report(report) if one.verdict == DOES_NOT] == ["certificates agree with it"]


@parametrize("name", ["clopper_pearson", "new_person_clopper_pearson"])
def test_people_who_gave_several_examples_are_no_count_of_errors(name):
    """The mean of people's own errors is bounded by betting, whose losses are in no file; a count would follow."""
    for route in ("one network", "independent prior"):
        report = json.loads(json.dumps(ROUTES[route](*_sets(people=True)).to_dict()))
        (made, *_) = (one for one in report["certificates"] if one["name"].endswith("new_person_betting"))
        at = {"n": report["n"], "failure_prob": made["failure_prob"]}
        errors = round(made["inputs"]["risk"] * at["n"])
        own = {"k": errors} if name == "clopper_pearson" else {"risk": errors / at["n"], "examples": at["n"]}
        whole = {"on": "test" if made["name"].startswith("test") else "bound", "of": made["of"], "loss": "zero-one"}
        for one in report["measured"]:
            if whole.items() <= one.items():
                one |= {"errors": errors, "mean": errors / at["n"]}
        made |= {
            "name": made["name"].replace("new_person_betting", name), "inputs": {**own, **at}, "costs": [], "terms": {},
            "value": clopper_pearson_upper(errors, at["n"], at["failure_prob"]),
            "budget": {"test set" if name == "clopper_pearson" else "bound": made["failure_prob"]},
        }  # fmt: skip
        report["details"].pop("statements", None)
        units = [one for one in check_report(report) if one.claim == "units"]
        assert [one.verdict for one in units] == [DOES_NOT]
        assert f"{report['examples']} examples" in units[0].why


@parametrize("networks", [0.1, 0.5, 0])
def test_networks_are_counted_in_whole_numbers(networks):
    """A tenth of a network would leave ten times the failure probability for the best one."""
    report = json.loads(json.dumps(ROUTES["finitely many"](*_sets()).to_dict()))
    (made,) = (one for one in report["certificates"] if one["name"] == "one_of_finitely_many")
    told = made["inputs"]
    told |= {"networks": networks, "tail": told["failure_prob"] / (networks or 0.1)}
    made["value"] = clopper_pearson_upper(told["k"], told["n"], told["tail"])
    assert {one.claim for one in check_report(report) if one.verdict == DOES_NOT} == {"value", "weights of networks"}


def _counted(made, **own):
    """What takes the place of a certificate: another one's numbers under its name, for the same predictor."""
    return {**made.to_dict(), "hypotheses": own.pop("hypotheses"), **own}


def _seen_by_nobody(report, of):
    """Declared of the predictor, as of one on new rows, and the errors that were measured of it."""
    (said,) = (one for one in report["measured"] if (one["of"], one["on"], one["loss"]) == (of, "bound", "zero-one"))
    test = next(one for one in report["certificates"] if one["name"] == "test_set_clopper_pearson")
    return said["mean"], {"of": of, "measures": "0-1 risk", "hypotheses": test["hypotheses"]}


def _of_its_own_rows(report):
    """Weights that learnt from the bound's rows, as if these were new to them."""
    risk, own = _seen_by_nobody(report, "mean weights")
    return _counted(kl_chernoff(risk=risk, n=N, failure_prob=0.05), **own)


def _private_itself(report):
    """A draw that the bound's rows chose, at the price of the prior that it is drawn near."""
    risk, own = _seen_by_nobody(report, "one draw")
    made = next(one for one in report["certificates"] if one["name"] == "one_draw_private_disintegrated")
    price = Accounted(privacy=_claims()["gaussian"])
    own["hypotheses"] = [one for one in made["hypotheses"] if one["name"] != "draws independent"]
    return _counted(kl_chernoff(risk=risk, n=N, failure_prob=0.05, price=price), **own)


def _at_no_price(report):
    """A draw near a prior that saw these rows, as if it had seen none."""
    old = next(one for one in report["certificates"] if one["name"] == "one_draw_private_disintegrated")
    inputs = {name: old["inputs"][name] for name in ("risk", "log_density_ratio", "n", "failure_prob")}
    free = [one for one in old["hypotheses"] if one["name"] not in ("privacy covers these rows",)]
    return _counted(disintegrated(**inputs), of="one draw", measures="0-1 risk", hypotheses=free)


def _at_a_bare_epsilon(report):
    """The smallest there is, beside a promise that says another."""
    old = next(one for one in report["certificates"] if one["name"] == "private_kl_chernoff")
    made = kl_chernoff(risk=old["inputs"]["risk"], n=N, failure_prob=0.05, price=Sharp(epsilon=1e-9))
    return _counted(made, of=old["of"], measures="0-1 risk", hypotheses=old["hypotheses"])


def _at_no_divergence(report):
    """A draw that the bound's rows chose, as if it were the prior, by what is said of a mean over draws."""
    old = next(one for one in report["certificates"] if one["name"] == "one_draw_disintegrated")
    made = maurer(risk=old["inputs"]["risk"], kl_nats=0.0, n=N, failure_prob=0.05)
    return _counted(made, of="one draw", measures="0-1 risk", hypotheses=old["hypotheses"])


def _under_another_name(report):
    """The mean over draws from a law that moved, said of one network, which no list of names holds."""
    old = next(one for one in report["certificates"] if one["name"] == "randomised_private_pac_bayes")
    return {**old, "name": "private_pac_bayes", "of": "w\u0435ights"}


def _by_a_log_partition(report):
    """What a chain draws, and there is none."""
    old = next(one for one in report["certificates"] if one["name"] == "one_draw_disintegrated")
    law = {"log_partition_lower_nats": -60.0, "tau": 300.0, "loss_low": 0.0, "loss_high": 4.0, "error_loss": 0.6}
    made = gibbs_pac_bayes(**law, n=N, failure_prob=0.045, log_partition_failure_prob=0.005)
    return _counted(made, of="randomised", measures="0-1 risk", hypotheses=old["hypotheses"])


CHEAPER = {
    _of_its_own_rows: "independent prior",
    _private_itself: "private prior, gaussian",
    _at_no_price: "private and held-out prior",
    _at_a_bare_epsilon: "a released network",
    _at_no_divergence: "independent prior",
    _by_a_log_partition: "held-out prior",
    _under_another_name: "private prior, gaussian",
}


@every_case("edit", CHEAPER)
def test_a_certificate_is_at_the_price_of_what_saw_the_rows(edit):
    """What else it says follows: hypotheses, costs and value."""
    report = json.loads(json.dumps(ROUTES[CHEAPER[edit]](*_sets()).to_dict()))
    report["details"].pop("at_price_zero", None)
    report["certificates"].append(json.loads(json.dumps(edit(report))))
    wrong = {one.claim for one in check_report(report) if one.verdict == DOES_NOT}
    assert wrong == {"hypotheses of the prior"}


EXCESS = {"shares": (0.5, 0.0, 0.0), "kl_nats": 0.0, "n": N - 1}
FREE_NUMBERS = {
    "split_kl": {"levels": [0.0, 0.5, 1.0], "shares": [0.0, 0.0]},
    "recursive": {"risk": 0.1, "steps": [ExcessStep(**EXCESS)], "gamma": 0.3},
    "unexpected_bernstein": {"risk": 0.1, "second_moment": 0.01},
}


@every_case("name", FREE_NUMBERS)
def test_a_bound_of_numbers_that_no_report_measures_is_in_none(name):
    """Shares of levels, the excess of one network over another, second moments; by itself a certificate follows."""
    report = json.loads(json.dumps(ROUTES["independent prior"](*_sets()).to_dict()))
    (old,) = (one for one in report["certificates"] if one["name"] == "one_draw_disintegrated")
    made = getattr(bounds, name)(**FREE_NUMBERS[name], kl_nats=0.0, n=N, failure_prob=0.05)
    said = _counted(made, of="Gibbs classifier", measures="0-1 risk", hypotheses=old["hypotheses"])
    report["certificates"].append(json.loads(json.dumps(said)))
    wrong = {(one.subject, one.claim) for one in check_report(report) if one.verdict == DOES_NOT}
    assert wrong == {("report", "measured errors")}


def test_every_network_is_paid_for():
    """The union counts those that have weights, and the ensemble's divergence is that of the weights."""
    report = json.loads(json.dumps(ROUTES["finitely many"](*_sets()).to_dict()))
    assert "weights of networks" not in {one.claim for one in check_report(report) if one.verdict == DOES_NOT}
    for made in report["certificates"]:
        told = made["inputs"]
        if made["name"] == "one_of_finitely_many":
            told |= {"networks": 1, "tail": told["failure_prob"]}
            made["value"] = clopper_pearson_upper(told["k"], told["n"], told["tail"])
        else:
            other = maurer(**{**told, "kl_nats": 0.0}).to_dict()
            made |= {part: other[part] for part in ("inputs", "costs", "terms")}
            made["value"] = other["value"] * (2 if made["of"] == "vote" else 1)
        found = check_report({**report, "certificates": [made]})
        assert "weights of networks" in {one.claim for one in found if one.verdict == DOES_NOT}
