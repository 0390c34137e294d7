"""A network that learnt from the whole sample is certified by one that was compressed, without a further label."""

from dataclasses import replace

import compress_toys as toys
import numpy as np
import pytest
import torch
from compress_toys import LEARNERS, clouds, descend
from sklearn.tree import DecisionTreeClassifier

import bounds
import pacdp
from pacdp import Settings, certify
from pacdp.certify import BoundSet, Surrogate
from pacdp.certify.networks import disagreements
from pacdp.compress import Groups
from pacdp.data import DataError, Dataset
from pacdp.losses import margins
from pacdp.verify.claim import DOES_NOT, FOLLOWS
from pacdp.verify.report import check_report
from tests.edits import seen
from tests.marks import made_once, near, parametrize, refusal
from tests.pacdp.toys import pair
from tests.schema import validate

DATA, FRESH = clouds(n=600), clouds(n=500, seed=7)


@made_once
def found():
    return pacdp.compress(LEARNERS["kernel"], DATA, groups=Groups(sizes=(4,)))


@made_once
def network():
    """Trained on all of the sample."""
    made = toys.network()
    with torch.random.fork_rng():
        torch.manual_seed(0)
        descend(made, *pair(DATA), steps=400)
    return made.eval()


@parametrize("kind", ["network", "estimator"])
def test_a_head_start_that_errs_on_none_is_kept_as_it_was(kind):
    """Before, training the network on whose state_dict it was moved what had been certified with k = 0."""
    (inputs, labels), other = pair(clouds(n=80, seed=3)), clouds(n=80, seed=4)
    learner = start = state = DecisionTreeClassifier().fit(inputs, labels)
    if kind == "network":
        start = torch.nn.Linear(2, 3)
        descend(start, inputs, labels, steps=400)
        right = start(inputs).argmax(1) == labels
        inputs, labels = inputs[right], labels[right]
        learner, state = toys.written(model=torch.nn.Linear(2, 3)), start.state_dict()
    made = pacdp.compress(learner, (inputs, labels), start=state, start_rows=other, expected=(sizes := [9]))
    before, value = made.network(other.inputs), made.certificate.value
    sizes.append(70)
    if kind == "network":
        torch.nn.init.zeros_(start.weight)
    else:
        start.fit(inputs, (labels + 1) % 3)
    assert made.kept == 0
    assert torch.equal(made.network(other.inputs), before)
    assert made.certificate.value == value


def test_the_certificate_is_the_sum_of_what_both_halves_say(found, network):
    made = found.certify_other(network, FRESH)
    (certificate,) = made.certificates
    with torch.no_grad():
        mine = network(torch.tensor(FRESH.inputs)).argmax(1)
    k = int((mine != found(FRESH.inputs).argmax(1)).sum())
    assert certificate.inputs["k"] == k
    assert 0 < k < 0.2 * FRESH.n
    of_h = bounds.compression(k=found.kept, n=DATA.n, failure_prob=0.025)
    expected = of_h.value + bounds.clopper_pearson_upper(k, FRESH.n, 0.025)
    assert certificate.value == near(expected, rel=1e-12)
    assert certificate.failure_prob == near(0.05)
    assert certificate.status == "rigorous"
    assert certificate.hypothesis("learner saw picked records alone").standing == "declared"
    assert certificate.hypothesis("neither network saw the unlabelled rows").standing == "declared"
    test = clouds(n=20_000, seed=11)
    with torch.no_grad():
        error = float((margins(network(torch.tensor(test.inputs)), torch.tensor(test.labels)) <= 0).double().mean())
    assert error < certificate.value < 0.4
    assert made.measured[0].errors == k


@pytest.mark.parametrize("three", [Settings.tried(3), replace(Settings.declared("the test"), count=3)])
def test_a_surrogate_that_is_one_of_several_is_paid_for_with_all_of_them(found, network, three):
    of_three = replace(found, settings=three)
    made = of_three.certify_other(network, FRESH)
    spent = made.certificates[0].budget
    assert spent["surrogate"] == near(0.025 / 3)
    assert 3 * sum(spent.values()) == near(0.05)
    assert "(95% confidence; " in made.headline()
    assert seen(check_report(made.to_dict())) == {FOLLOWS}
    own = Surrogate(network=found.network, certificate=of_three.certificate_at(0.025), saw=found.saw)
    with refusal("is one of 3, each of which may fail"):
        certify(network, FRESH, surrogate=own, settings=Settings.tried(2))
    again = certify(network, FRESH, surrogate=own, settings=three)
    assert again.certificates == made.certificates


def test_the_report_follows_and_its_count_cannot_be_changed(found, network):
    made = found.certify_other(network, FRESH)
    assert made.certificates == found.certify_other(network, torch.tensor(FRESH.inputs)).certificates, "no label"
    report = made.to_dict()
    validate(report)
    assert seen(check_report(report)) == {FOLLOWS}
    report["measured"][0]["errors"] -= 1
    report["measured"][0]["mean"] = report["measured"][0]["errors"] / FRESH.n
    assert {one.claim for one in check_report(report) if one.verdict == DOES_NOT} == {"measured errors"}


def refused(found, network, rows, words, **how):
    with refusal(words, DataError):
        found.certify_other(network, rows, **how)


def test_rows_that_either_saw_are_refused(found, network):
    planted = Dataset(inputs=np.concatenate([FRESH.inputs, DATA.inputs[:2]]), classes=3, name="clouds",
                      labels=np.concatenate([FRESH.labels, 1 - DATA.labels[:2] // 2]))  # fmt: skip
    refused(found, network, planted, "2 of the unlabelled rows are among the sample")
    refused(found, network, torch.tensor(FRESH.inputs).repeat(2, 1), "repeats")
    words = "500 of the unlabelled rows are among the network's rows"
    refused(found, network, FRESH, words, seen=FRESH)
    both = found.certify_other(network, FRESH, seen=DATA.rows()).certificates[0]
    assert both.hypothesis("neither network saw the unlabelled rows").standing == "proved"
    settings = Settings.chosen_on(FRESH)
    with refusal("test set's rows and the bound's rows share 1", DataError):
        pacdp.compress(LEARNERS["kernel"], DATA, groups=Groups(sizes=(4,)), settings=settings, test=planted)
    made = pacdp.compress(LEARNERS["kernel"], DATA, groups=Groups(sizes=(4,)), settings=settings)
    refused(made, network, FRESH, "500 of the unlabelled rows are among the rows that the settings were chosen")
    learner, other = LEARNERS["adam"], clouds(n=300, seed=2)
    start = learner.train(None, *pair(other), round=1, seed=9)
    made = pacdp.compress(learner, DATA, groups=5, start=start, start_rows=other)
    refused(made, network, other, "300 of the unlabelled rows are among the rows of the head start")


@pytest.mark.wrong_types
def test_what_can_be_no_data_is_no_evidence(found, network):
    for given, call in {
        "seen": lambda: found.certify_other(network, FRESH, seen=True),
        "start_rows": lambda: pacdp.compress(LEARNERS["adam"], DATA, groups=5, start={}, start_rows="a.npz"),
        "rows": lambda: Settings.chosen_on(FRESH.inputs),
    }.items():
        with refusal(f"{given} must be data, or the rows of data"):
            call()


def test_a_held_out_count_serves_as_well(network):
    part = clouds(n=800, seed=5)
    count = certify(network, data=BoundSet.part(part), failure_prob=0.025, ask="error")
    of_h = next(one for one in count.certificates if one.name == "new_examples_clopper_pearson")
    saw = {"the sample": DATA.rows(), "others": part.rows()}
    surrogate = Surrogate(network=network, certificate=of_h, saw=saw)
    made = certify(lambda x: 2.0 * network(x), FRESH, surrogate=surrogate, failure_prob=0.05)
    (certificate,) = made.certificates
    assert certificate.inputs["k"] == 0
    assert certificate.value == near(of_h.value + bounds.clopper_pearson_upper(0, FRESH.n, 0.025))
    assert any("least of several" in one for one in made.remarks), "before, nothing said whose choice is paid for"
    of_two = bounds.best_of([of_h, of_h], budget=0.05)
    paid = Surrogate(network=network, certificate=of_two, saw=saw)
    assert certify(network, FRESH, surrogate=paid, failure_prob=0.1).remarks == ()


def test_ties_and_nans_are_differences_and_classes_must_agree(found):
    one = torch.tensor([[1.0, 0.0, 0.0], [1.0, 1.0, 0.0], [torch.nan, 1.0, 0.0], [0.0, 2.0, 1.0], [0.0, 1.0, 2.0]])
    other = torch.tensor([[2.0, 0.0, 0.0], [3.0, 1.0, 0.0], [0.0, 1.0, 0.0], [0.0, 2.0, 2.0], [0.0, 2.0, 1.0]])
    assert disagreements(one, other).tolist() == [False, True, True, True, True]
    assert disagreements(other, one).tolist() == [False, True, True, True, True]
    single = torch.tensor([1.0, -1.0, 0.0, 1.0])
    assert disagreements(single, torch.tensor([[2.0], [-1.0], [0.0], [-1.0]])).tolist() == [False, False, True, True]
    with refusal("outputs are probabilities"):  # each above 0, and so the second class
        disagreements(torch.sigmoid(torch.arange(-9.0, 9.0)), torch.arange(-9.0, 9.0))
    with refusal("networks of the same classes, got 2 and 3"):
        found.certify_other(lambda inputs: inputs[:, 0], FRESH)
    with refusal("of people"):
        found.certify_other(lambda inputs: inputs, clouds(people=60))
    with refusal("must pay for the surrogate's certificate"):
        certify(
            lambda inputs: inputs,
            FRESH,
            surrogate=Surrogate(network=found, certificate=found.certificate, saw=found.saw),
        )


def test_learners_of_pacdp_s_own_name_the_precision_that_they_take():
    """Before, doubles ended in torch's words, and so did the next run on the same images in single precision."""
    inputs, labels = torch.tensor(DATA.inputs[:200]), torch.tensor(DATA.labels[:200])
    with refusal("in single precision, got torch.float64"):
        pacdp.compress(LEARNERS["kernel"], (inputs.double(), labels))
    assert pacdp.compress(LEARNERS["kernel"], (inputs, labels)).kept < 200
