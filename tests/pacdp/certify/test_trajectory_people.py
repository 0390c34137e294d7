"""Chains whose records are people: what one adds to a sum is their own mean gradient, and people are counted."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.random import default_rng
from torch.func import functional_call
from torch.testing import assert_close

from pacdp import Prior, load_checkpoint, load_trained
from pacdp import certify as certify_law
from pacdp.algorithms import SGHMC, SGLD
from pacdp.certify import BoundSet
from pacdp.certify.priors import NoisySum
from pacdp.certify.trajectory import around, realised_price, train_certified
from pacdp.chains import SQUARED_NORMS, Keys
from pacdp.cli.config import Run
from pacdp.cli.folder import Folder
from pacdp.data import load
from pacdp.errors import CheckpointError
from pacdp.objective import Objective
from pacdp.verify.folder import check_folder
from pacdp.verify.report import check_report
from tests.edits import UNSEEN, seen
from tests.marks import every_case, made_once, near, refusal
from tests.pacdp.certify.trajectory_toys import (
    LOSS,
    NETWORKS,
    by_func,
    certified,
    kept,
    network,
    problem,
    replayed,
    rewritten,
    verdicts,
)  # fmt: skip
from tests.pacdp.toys import toy_data
from tests.schema import validate

EACH = 3
"""Digits of each writer in these tests."""


def with_people(data, *, start=0):
    """The same examples, ``EACH`` a person, mostly of one class, so that a person's gradients add up."""
    owner = np.empty(data.n, dtype=np.int64)
    owner[np.argsort(data.labels, kind="stable")] = start + np.arange(data.n) // EACH
    return replace(data, people=owner, unit="writer")


@every_case("name", NETWORKS)
def test_kept_norms_are_those_of_each_person_s_mean(name):
    """Of 17 people with 1 to 12 examples; the gradient is the mean over people of these."""
    owner = np.repeat(np.arange(17, dtype=np.int64), [12, 9, 7, 6, 5, *[3] * 4, *[2] * 4, *[1] * 4])
    people = default_rng(1).permutation(owner)
    data = replace(toy_data(n=len(owner), classes=3, shape=(1, 4, 4)), people=people, unit="writer")
    objective = Objective(network(name), LOSS, data, batch_size=data.n, keep_norms=True, every_record=True)
    weights, keys = objective.weights(), Keys.derive([3])
    kept, rows = objective.estimate(weights, keys, 5), by_func(objective, weights)
    means = {key: torch.stack([one[people == k].mean(dim=0) for k in range(17)]) for key, one in rows.items()}
    exact = sum(float(one.square().sum()) for one in means.values()) * (data.n / 17) ** 2
    assert exact <= float(kept.squared_norms) <= exact * (1.0 + 1e-4)
    whole = {key: one.mean(dim=0) for key, one in means.items()}
    assert_close(kept.gradient[0].double(), objective.layout.flatten(whole), rtol=1e-4, atol=1e-6)


def test_steps_do_not_depend_on_how_many_examples_people_gave():
    """Everybody's examples twice: the same gradient, and the same contributions over the variance of the noise."""
    data = with_people(toy_data(n=60, classes=3, shape=(1, 4, 4)))
    twice = replace(data, inputs=np.repeat(data.inputs, 2, axis=0), labels=np.repeat(data.labels, 2),
                    people=np.repeat(data.people, 2))  # fmt: skip
    model, settings = network("linear"), SGHMC(tau=300.0, step_size=1.0, base_std=30.0)
    once, again = (train_certified(model, one, settings=settings, steps=5) for one in (data, twice))
    for name, found in once.weights.items():
        assert_close(found, again.weights[name], rtol=1e-4, atol=1e-6)
    spent = [made.certificate.inputs["sum_contributions"] for made in (once, again)]
    assert spent[0] == near(spent[1], rel=1e-4)
    # where no gradient can be taken, and where products are rounded
    for context in (torch.inference_mode(), torch.autocast("cpu", dtype=torch.bfloat16)):
        with context:
            inside = train_certified(network("linear"), data, settings=settings, steps=5)
        assert inside.certificate.value == once.certificate.value


def test_a_network_of_one_s_own_is_certified_for_a_new_person():
    people = np.minimum(99, np.arange(300))
    data = replace(toy_data(n=300, classes=3, shape=(1, 4, 4)), people=people, unit="person")
    settings = SGHMC(tau=300.0, step_size=1.0, base_std=30.0)
    found, other = (
        train_certified(network("linear"), each, settings=settings, steps=10)
        for each in (data, replace(data, people=None, unit="example"))
    )
    made, alone = found.certificate, other.certificate
    outputs = functional_call(network("linear"), found.weights, torch.tensor(data.inputs))
    wrong = outputs.argmax(dim=1).numpy() != data.labels
    assert made.inputs["risk"] == near(np.append(wrong[:99], wrong[99:].mean()).mean(), rel=1e-12)
    assert (made.status, made.measures, made.inputs["n"]) == ("rigorous", "0-1 risk of a new person", 100)
    assert alone.inputs["n"] == 300
    assert made.value > alone.value  # fewer records


PROBLEM, FULL = problem(), kept(1437, 500.0)
RUN = Run(problem=PROBLEM, sampler=FULL, epochs=8.0, records=2)


@made_once
def writers():
    """The digits, with writers, in place of the digits without them."""

    def loaded(name, **how):
        train_set, test_set = load(name)
        return with_people(train_set), with_people(test_set, start=10_000)

    with pytest.MonkeyPatch.context() as patch:
        for place in ("pacdp.problem.load", "pacdp.cli.run.load"):
            patch.setattr(place, loaded)
        yield


@made_once
def folder(writers, tmp_path_factory):
    return certified(RUN, tmp_path_factory.mktemp("people"))


def by_examples(path):
    """Σ over examples in place of people, as a share of what was kept at the first step."""
    trained = load_trained(path)
    data, _ = PROBLEM.data()
    plain = Objective(trained.objective.model, trained.objective.loss, replace(data, people=None, unit="example"),
                      batch_size=1437, keep_norms=True, every_record=True)  # fmt: skip
    first = trained.checkpoint.trace["kept.0.weights"]
    norms = plain.estimate(first[None], Keys.derive([0]), 0).squared_norms
    return float(norms[0] / trained.checkpoint.trace[SQUARED_NORMS][0])


def test_a_run_on_people_is_certified_and_verified(folder):
    path, report = folder
    validate(report)
    first = report["certificates"][0]
    assert (first["name"], first["of"], first["status"]) == ("realised_sum_maurer", "weights", "rigorous")
    assert (first["measures"], first["inputs"]["n"]) == ("0-1 risk of a new person", 479)
    assert (report["n"], report["unit"], report["examples"]) == (479, "person", 1437)
    independent = next(one for one in first["hypotheses"] if one["name"] == "records independent")
    assert (independent["standing"], independent["unit"]) == ("declared", "person")
    assert all(made["status"] == "rigorous" for made in report["certificates"])
    assert load_checkpoint(path).header["people"]["count"] == report["n"]
    assert seen(check_folder(path, report)) == {"follows"}
    odd = [one for one in check_report(report) if one.verdict != "follows" and one.claim not in UNSEEN]
    assert [(one.claim, one.why) for one in odd] == [("value", "the losses of the people are not in the file")]
    assert replayed(path, PROBLEM) == {"norms of steps 0, 3": "follows", "noise": "follows"}
    assert replayed(path, PROBLEM, known=False)["norms of steps 0, 3"] == "cannot be checked"


def test_planted_examples_counted_as_people_are_caught(folder, tmp_path):
    path, report = folder
    share = by_examples(path)
    assert share < 0.95
    # norms of single examples, all else as it should be: a number a step shows no record, the data show it
    out = rewritten(path, tmp_path / "norms", norms=lambda norms: share * norms)
    assert replayed(out, PROBLEM)["norms of steps 0, 3"] == "does not follow"
    # every example a record in the report
    certificates = [{**made, "inputs": {**made["inputs"], "n": 1437}} for made in report["certificates"]]
    counted = {**report, "n": 1437, "unit": "example", "certificates": certificates}
    assert verdicts(path, counted)["norms"] == "does not follow"
    # or in the checkpoint
    for number, changed in enumerate((lambda people: {}, lambda people: {"people": {**people, "count": 1437}})):
        out = rewritten(path, tmp_path / str(number),
                        header=lambda own, changed=changed: own | changed(own.pop("people")))  # fmt: skip
        assert verdicts(out, report)["norms"] == "does not follow"
        assert replayed(out, PROBLEM)["norms of steps 0, 3"] == "does not follow"
        with refusal("its run and data make it", CheckpointError):
            load_trained(out)


def test_prices_of_examples_and_of_people_do_not_stand_for_each_other(folder):
    path, _ = folder
    trained = load_trained(path)
    examples, people = BoundSet.behind(trained.objective), BoundSet.of_records(trained.objective)
    price = realised_price(FULL, trained.checkpoint.trace[SQUARED_NORMS], steps=8, n=1437)
    law = around(trained.objective, trained.weights, std=0.3)
    for bound, unit in ((people, "example"), (examples, "person")):
        prior = Prior(law=law, source=NoisySum(price=price, unit=unit))
        with refusal("keep the norms of the records that are counted"):
            certify_law(law, bound, prior=prior, network=trained.objective.model)


def test_other_people_than_those_of_the_run_are_refused(folder, monkeypatch):
    path, _ = folder
    monkeypatch.setattr("pacdp.problem.load", lambda name, **how: load(name))
    with refusal("its run and data make it", CheckpointError):
        load_trained(path)


def test_a_clipped_chain_counts_the_errors_of_examples_whoever_gave_them(tmp_path, monkeypatch):
    """Its promise is about examples; people who gave many and err on all are no single record."""

    def loaded(name, **how):
        for first, each in zip((0, 10_000), load(name), strict=True):
            whose = first + np.where(each.labels < 5, 1 + np.arange(each.n), 0)
            yield replace(each, people=whose, unit="writer")

    for place in ("pacdp.problem.load", "pacdp.cli.run.load"):
        monkeypatch.setattr(place, loaded)
    clipped = SGLD(tau=10.0, step_size=1e-3, batch_size=32, clip_norm=1.0)
    path, report = certified(Run(problem=problem(train_size=100), sampler=clipped, epochs=0.5, records=1), tmp_path)
    counted = next(one for one in report["measured"] if (one["of"], one["on"]) == ("weights", "bound"))
    own = [one for one in report["certificates"] if one["name"].endswith("sum_kl_chernoff")]
    assert [one["inputs"]["risk"] for one in own] == [near(counted["errors"] / 100, rel=1e-9)]
    assert {one["status"] for one in report["certificates"]} == {"optimistic"}
    assert "does not follow" not in seen(check_report(report))
    (row,) = Folder(path).rows()
    assert "bounds" not in row  # which the console would call rigorous
