"""The run of a compression: its rules by a slow twin, its certificate, resuming after kill -9, people, head starts."""

import copy
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import ClassVar

import numpy as np
import pytest
import torch
from compress_toys import LEARNERS, clouds, descend, estimator, network, written
from numpy.random import default_rng
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import FixedThresholdClassifier, GridSearchCV
from sklearn.neighbors import KNeighborsClassifier, NearestCentroid
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.svm import SVC
from torch import equal
from torch.nn import Linear, Module

import bounds
import pacdp
from pacdp import Settings
from pacdp.compress import Groups, KernelRidge, Looks, Stop, Torch, View
from pacdp.compress.run import Records, Rule, carry_out
from pacdp.errors import CheckpointError
from pacdp.losses import margins
from pacdp.store.checkpoint import load_checkpoint, save_checkpoint
from tests.file_faults import Fault, carried_out
from tests.marks import every_case, near, parametrize, refusal
from tests.pacdp.draws import rand
from tests.pacdp.small_networks import Made
from tests.pacdp.toys import pair
from tests.refusals import refuses
from tests.typed import unchecked

DATA, ALL = clouds(), {**LEARNERS, "estimator": estimator()}
every_learner = parametrize("own", ALL.values(), ids=ALL)


def slow_twin(own, data, groups, rounds, seed):
    """The definition, record by record: the worst by margin, ties by u, so that every error comes first."""
    inputs, labels = pair(data)
    u = default_rng([seed, 0]).random(data.n)
    picked, state, said = [], None, []
    margin = np.zeros(data.n)
    for number in range(1, rounds + 1):
        rest = [z for z in range(data.n) if z not in picked]
        if not any(margin[z] <= 0 for z in rest):
            break
        rest.sort(key=lambda z: (margin[z], u[z]))
        picked += rest[: groups.at(len(picked))]
        state = own.train(state, inputs[picked], labels[picked], round=number, seed=seed)
        outputs = torch.cat([own.outputs(state, own.view(inputs))])
        margin = margins(outputs, labels).double().numpy()
        said.append((number, len(picked), sum(margin[z] <= 0 for z in range(data.n) if z not in picked)))
    return picked, said


@every_learner
def test_a_run_is_that_of_the_definition(own):
    data, groups = DATA, Groups(sizes=(6, 3), starts=(0, 12))
    stop = Stop(no_errors_left=True, rounds=(8,))
    records = Records.of(data.inputs, data.labels, seed=5)
    trace = carry_out(Rule(learner=own, groups=groups, stop=stop, seed=5), records)
    picked, said = slow_twin(own, data, groups, 8, 5)
    assert [tuple(line)[:3] for line in trace.rounds] == said
    assert trace.picks.tolist() == picked
    assert trace.best.kept == trace.best.picked + len(trace.errors) == len(trace.kept)


@every_learner
def test_every_learner_is_certified_and_its_certificate_is_of_what_was_kept(own):
    data, test = clouds(), clouds(seed=1)
    how = {"groups": 5, "test": test, "stop": Stop(rounds=(5, 10, 15))}
    found = pacdp.compress(own, data, **how)
    made = found.certificate
    assert made.status == "rigorous"
    assert made.inputs["k"] == found.kept < data.n
    assert made.budget["bound"] == near(0.05 / 3)
    assert made.failure_prob == near(0.05)
    plain = bounds.compression(k=found.kept, n=data.n, failure_prob=made.inputs["failure_prob"])
    assert made.value == plain.value
    assert made.hypothesis("learner saw picked records alone").standing == "declared"
    wrong = margins(found(data.inputs), torch.tensor(data.labels)) <= 0
    left = np.setdiff1d(np.flatnonzero(wrong.numpy()), found.trace.picks[: found.trace.best.picked])
    assert left.tolist() == found.trace.errors.tolist()
    assert found.report.error("weights", "test") < made.value
    assert found.report.error("weights", "bound") == near(float(wrong.double().mean()), abs=1e-12)
    assert pacdp.compress(own, data, **how).certificate == made


def test_labels_without_a_rule_are_certified_at_chance():
    coins = default_rng(3).integers(3, size=DATA.n)
    found = pacdp.compress(estimator(), replace(DATA, labels=coins), groups=10)
    assert found.certificate.value >= 2 / 3
    assert found.kept >= 150


def test_expected_sizes_choose_the_weights():
    found = pacdp.compress(estimator(), DATA, groups=2)
    chosen = pacdp.compress(estimator(), DATA, groups=2, expected=(found.kept,))
    assert chosen.certificate.value < found.certificate.value
    assert "weight_sizes" in chosen.certificate.inputs


def test_numbers_of_numpy_are_numbers():
    plain = pacdp.compress(estimator(), DATA, groups=Groups(sizes=(10, 5), starts=(0, 20)), stop=Stop(rounds=(2, 4)),
                           seed=3, expected=(40,), settings=Settings.tried(2))  # fmt: skip
    with unchecked():
        groups = Groups(sizes=tuple(np.array([10, 5])), starts=np.array([0, 20]))
        given = {"seed": np.int64(3), "expected": (np.int64(40),), "settings": Settings.tried(np.int64(2))}
        found = pacdp.compress(estimator(), DATA, groups=groups, stop=Stop(rounds=range(2, 5, 2)), **given)
    assert found.report.to_dict() == plain.report.to_dict()


def test_all_settings_that_were_tried_are_paid():
    one, three = (
        pacdp.compress(estimator(), DATA, groups=5, settings=Settings.tried(count, "the test")) for count in (1, 3)
    )
    assert three.certificate.failure_prob == one.certificate.failure_prob / 3
    assert three.certificate.value > one.certificate.value


def test_one_number_an_example_is_a_table_of_one_column():
    columns = [DATA.inputs.reshape(DATA.n, -1)[:, 0], DATA.inputs.reshape(DATA.n, -1)[:, :1]]
    own, other = (pacdp.compress(estimator(), (x, DATA.labels), groups=20, stop=Stop(rounds=(2,))) for x in columns)
    assert own.certificate == other.certificate
    assert equal(own(columns[0]), other(columns[1]))


RULES = {
    "a threshold": FixedThresholdClassifier(LogisticRegression(), threshold=0.9),
    "centroids": NearestCentroid(priors=[0.9, 0.1]),
    "the largest output": LogisticRegression(),
}


@every_case("name", RULES)
def test_what_predict_answers_is_what_is_certified(name):
    data = clouds(classes=2)
    found = pacdp.compress(RULES[name], data, groups=20, stop=Stop(rounds=(3,)))
    said = torch.from_numpy(found.trace.best_state.predict(data.inputs))
    assert equal(found(data.inputs).argmax(dim=1), said)
    assert found.report.measured[0].errors == int((said.numpy() != data.labels).sum())


class Centred:
    """A learner of one's own that keeps the mean of what it learnt from beside its state."""

    record, view = {}, staticmethod(lambda inputs: inputs)

    def train(self, state, inputs, labels, *, round, seed):
        self.mean = inputs.mean(0)
        return {"means": torch.stack([(inputs - self.mean)[labels == k].sum(0) for k in range(3)])}

    def outputs(self, state, viewed):
        return -torch.cdist(viewed - self.mean, state["means"])


def test_what_is_returned_goes_on_as_it_was_certified():
    """Whatever becomes of the learner and the network that were handed over, also in the next call."""
    own, module, far = Centred(), network(), (DATA.inputs + 99.0, DATA.labels)
    for learner in (own, Torch(network=module, train_network=descend)):
        found = pacdp.compress(learner, DATA, groups=20, stop=Stop(rounds=(2,)))
        said = found(DATA.inputs)
        pacdp.compress(learner, far, groups=20, stop=Stop(rounds=(1,)))
        module.insert(1, torch.nn.Tanh())
        assert equal(found(DATA.inputs), said)


class Upwards(Module):
    """Works in place on what it is given."""

    def __init__(self):
        super().__init__()
        self.layer = Linear(2, 3)

    def forward(self, inputs):
        inputs -= 0.5
        return self.layer(inputs.clamp_(min=-1.0))


def test_networks_and_estimators_may_write_on_what_they_are_given():
    data = clouds(n=1000)
    steps = [make_pipeline(StandardScaler(copy=change), SVC()) for change in (False, True)]
    found = [pacdp.compress(one, data, groups=20, stop=Stop(rounds=(3,))) for one in (*steps, written(model=Upwards()))]
    assert found[0].kept == found[1].kept
    assert all(equal(one(data.inputs), one(data.inputs)) for one in found)


def test_groups_begin_where_they_say():
    assert [Groups(sizes=(4, 1), starts=(0, 6)).at(picked) for picked in (0, 5, 6, 100)] == [4, 4, 1, 1]


class Extra(Module):
    """Saves a dictionary beside its tensors."""

    def get_extra_state(self):
        return {"shift": 0.0}


def logarithms(inputs):
    assert (inputs > 0).all()
    return np.log(inputs)


def best_copy(model, inputs, labels):
    """Training as with early stopping: a copy is trained and returned, and the network itself left alone."""
    best = copy.deepcopy(model)
    descend(best, inputs, labels)
    return best


def wrapper(model, inputs, labels):
    """Training of a wrapper, which is returned, in place."""
    whole = torch.nn.DataParallel(model)
    descend(whole, inputs, labels)
    return whole


def test_training_may_return_its_network_and_estimators_see_rows_of_the_sample_alone():
    in_place = pacdp.compress(written(), DATA)
    for train in (best_copy, wrapper):
        assert equal(pacdp.compress(written(train), DATA)(DATA.inputs), in_place(DATA.inputs)), train
    positive = np.exp(DATA.inputs), DATA.labels
    found = pacdp.compress(make_pipeline(FunctionTransformer(logarithms), SVC(C=100.0)), positive)
    assert found.kept == pacdp.compress(SVC(C=100.0), DATA).kept
    halves = pacdp.compress(
        written(model=written().network.bfloat16()), (torch.tensor(DATA.inputs).bfloat16(), DATA.labels)
    )
    assert halves.kept < DATA.n


REFUSED = {
    "no group": (lambda: Groups(sizes=()), "expected"),
    "rounds backwards": (lambda: Stop(rounds=(3, 2)), "expected"),
    "a head start that saw the records": (
        lambda: pacdp.compress(LEARNERS["adam"], DATA, start={}, start_rows=DATA.rows()),
        "rows and the bound's rows share"),
    "a failure probability as text": (
        lambda: pacdp.compress(LEARNERS["adam"], DATA, failure_prob="0.05"), "failure_prob must be a real number"),
    "an end that is neither": (lambda: Stop(no_errors_left="no", rounds=(1,)), "expected no_errors_left as True or"),
    "a sample that ran out": (
        lambda: pacdp.compress(LEARNERS["kernel"], clouds(n=9), groups=10).kept, "the sample ran out"),
    "answers where the sample ran out": (
        lambda: pacdp.compress(estimator(), clouds(n=9), groups=10)(DATA.inputs), "the sample ran out"),
    "a size beyond the sample, before any work": (
        lambda: pacdp.compress(written(train=None), DATA, expected=(300,)), "sizes below n = 300"),
    "a size without a list": (lambda: pacdp.compress(estimator(), DATA, expected=20), "expected .* got int '20'"),
    "sizes in an array": (lambda: pacdp.compress(estimator(), DATA, expected=np.array([9, 20])), "got ndarray"),
    "a tolerance of nobody": (lambda: pacdp.compress(estimator(), DATA, tolerance=0.1), "the data name no people"),
    "scores of pairs of classes": (
        lambda: pacdp.compress(SVC(decision_function_shape="ovo"), (np.arange(60.0)[:, None], np.arange(60) // 20)),
        "set decision_function_shape='ovr'"),
    "scores of pairs behind a search": (
        lambda: pacdp.compress(GridSearchCV(SVC(decision_function_shape="ovo"), {"C": [1.0]}, cv=2), DATA, groups=30),
        "set decision_function_shape='ovr'"),
    "a kind of estimator": (lambda: pacdp.compress(type(estimator()), DATA), "have fit and predict, got <class"),
    "regression": (lambda: pacdp.compress(LinearRegression(), DATA), "learner must be a classifier"),
    "training that fails": (
        lambda: pacdp.compress(written(lambda m, x, y: {}["k"]), DATA), "train_network failed with KeyError"),
    "training that exchanges a layer": (
        lambda: pacdp.compress(written(lambda m, x, y: m.append(Linear(3, 4))), DATA), "'3.weight' has another shape"),
    "training that returns another network": (
        lambda: pacdp.compress(written(lambda m, x, y: Linear(2, 3)), DATA), "return none with other layers or names"),
    "fewer outputs than classes": (
        lambda: pacdp.compress(written(lambda m, x, y: None, Linear(2, 2)), DATA), "from 0 to 1, .* got 0 to 2"),
    "a state that is no tensor": (lambda: written(model=Extra()), "keeps dict as '_extra_state' of its state_dict"),
    "settings for more records than a group": (
        lambda: pacdp.compress(KNeighborsClassifier(50), DATA), "Expected n_neighbors .* take larger groups"),
    "a kernel without width": (lambda: KernelRidge(classes=3, width=0.0), "width must be positive"),
    "outputs that are no tensor": (
        lambda: pacdp.compress(written(lambda m, x, y: None, Made(lambda own, x: None, out=written().network)), DATA),
        "the network returned NoneType: let it return a dense tensor"),
    "another precision": (
        lambda: pacdp.compress(written(model=written().network.double()), DATA), "failed with RuntimeError"),
    "inputs in a list": (
        lambda: pacdp.compress(estimator(), (DATA.inputs.tolist(), DATA.labels)), "inputs and labels both as arrays"),
    "labels below 0": (
        lambda: pacdp.compress(estimator(), (DATA.inputs, DATA.labels - 1)), "expected labels from 0"),
    "labels far above 0": (
        lambda: pacdp.compress(estimator().estimator, (DATA.inputs, DATA.labels * 10**12)), "numbered from 0 on"),
    "a class that the estimator lacks": (
        lambda: pacdp.compress(estimator(), (DATA.inputs, DATA.labels + 1)), "expected labels from 0 to 2, .* 1 to 3"),
    "inputs of 8 bits": (
        lambda: pacdp.compress(estimator(), (torch.tensor(DATA.inputs).to(torch.float8_e4m3fn), DATA.labels)),
        "inputs in data are torch.float8_e4m3fn, in which nothing"),
    "weights of 8 bits": (
        lambda: written(model=written().network.to(torch.float8_e4m3fn)), "of network has 8 bits"),
    **{f"{name} of {bad!r}": (partial(pacdp.compress, estimator(), DATA, **{name: bad}), f"{name} must")
       for name, bad in (("groups", True), ("groups", 2.5), ("seed", -1), ("every", "10"), ("every", float("nan")))},
    "pixels below 0": (lambda: View(pixels=-1), "pixels must be"),
    "gradients of what is no image": (lambda: View(gradients=True)(torch.zeros(4, 5)), "square ones .* got shape"),
    "shifts of what is no image": (lambda: View(shift=1)(torch.zeros(4, 5)), "data must be images where view shifts"),
}  # fmt: skip


test_compressions_that_make_no_sense_are_refused = pytest.mark.wrong_types(refuses(REFUSED))


def test_people_are_the_records():
    data = clouds(people=60)
    found = pacdp.compress(LEARNERS["kernel"], data, groups=2, tolerance=0.25)
    made = found.certificate
    assert made.inputs["n"] == data.units < data.n
    assert made.hypothesis("records independent").unit == "person"
    assert made.measures == "share of people with more than 0.25 of their examples in error"
    wrong = (margins(found(data.inputs), torch.tensor(data.labels)) <= 0).numpy()
    shares = np.array([wrong[data.people == one].mean() for one in np.unique(data.people)])
    left = np.setdiff1d(np.flatnonzero(shares > 0.25), found.trace.picks)
    assert left.tolist() == found.trace.errors.tolist() == []
    assert found.report.error("weights", "bound", made.measures) == near((shares > 0.25).mean())


def test_a_head_start_saw_none_of_the_records_and_saves_some():
    data, other = clouds(), clouds(seed=2, n=200)
    own = replace(LEARNERS["adam"], steps=200)
    before = own.train(None, *pair(other), round=1, seed=9)
    own = replace(own, steps=1, learning_rate=1e-3)  # not to forget it
    stop = Stop(no_errors_left=False, rounds=(3,))
    plain = pacdp.compress(own, data, groups=4, stop=stop)
    found = pacdp.compress(own, data, groups=4, stop=stop, start=before, start_rows=other.rows())
    assert found.kept < plain.kept
    assert found.certificate.hypothesis("prior saw none of these rows").standing == "proved"
    assert found.report.rows["prior"]["n"] == other.n


def test_a_head_start_that_errs_on_no_record_needs_none():
    """Before, the run once more on no record ended in a sentence of torch's."""
    rule = Linear(2, 2, bias=False)
    with torch.no_grad():
        rule.weight.copy_(torch.tensor([[-1.0, 0.0], [1.0, 0.0]]))
    data, other = (clouds(seed=seed, classes=2) for seed in (0, 2))
    data, other = (replace(one, labels=(one.inputs[:, 0] > 0).astype(np.int64)) for one in (data, other))
    found = pacdp.compress(written(model=rule), data, start=rule.state_dict(), start_rows=other)
    assert found.kept == found.report.error("weights", "bound") == 0
    assert found.certificate.value == bounds.compression(k=0, n=data.n, failure_prob=0.05).value


def test_threads_compress_what_each_would_alone():
    """Before, the first weights that learners share became those that one of them had trained on the sample."""

    def kept(seed):
        return pacdp.compress(LEARNERS["adam"], DATA, groups=20, seed=seed).trace.kept.tolist()

    alone = [kept(seed) for seed in range(3)]
    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(kept, range(3))) == alone
    assert [kept(seed) for seed in range(3)] == alone


class Killed(Exception):
    pass


class Counted:
    """Goes on from a state that is more than tensors."""

    record: ClassVar = {"kind": "Counted"}

    def __init__(self, packed):
        self.inner, self.packed = written(), packed

    def view(self, inputs):
        return inputs

    def train(self, state, inputs, labels, **how):
        weights, calls = ((state["w"], state["calls"]) if self.packed else state) if state else (None, 0)
        weights = self.inner.train(weights, inputs, labels, **how)
        return {"w": weights, "calls": calls + 1} if self.packed else (weights, calls + 1)

    def outputs(self, state, viewed):
        return self.inner.outputs(state["w"] if self.packed else state[0], viewed)


@parametrize("packed", [True, False])
def test_a_state_that_is_more_than_tensors_is_made_again_round_by_round(tmp_path, packed):
    """Before, one in a dictionary ended in an AttributeError, and another was said to look at other records."""
    file, rounds = tmp_path / "k.safetensors", []
    how = {"groups": 20, "stop": Stop(no_errors_left=False, rounds=(2, 4)), "every": 0.0, "file": file}

    def stopped(line):
        rounds.append(line.number)
        if rounds == [1, 2, 3]:
            raise Killed

    with pytest.raises(Killed):
        pacdp.compress(Counted(packed), DATA, progress=stopped, **how)
    went_on = pacdp.compress(Counted(packed), DATA, progress=stopped, **how)
    whole = pacdp.compress(Counted(packed), DATA, **{**how, "file": None})
    assert rounds == [1, 2, 3, 3, 4]
    assert went_on.certificate == whole.certificate
    assert equal(went_on(DATA.inputs), whole(DATA.inputs))


@parametrize("name", ["entropy-sgld", "kernel", "estimator"])
def test_a_file_goes_on_where_it_stands_and_is_no_other_run_s(tmp_path, name):
    file, rounds = tmp_path / "k.safetensors", []

    def stopped(line):
        rounds.append(line.number)
        if rounds == [1, 2, 3, 4, 5]:
            raise Killed

    records, stop = (Records.of(DATA.inputs, DATA.labels, seed=0), Stop(no_errors_left=False, rounds=(9,)))
    rule = Rule(learner=ALL[name], groups=Groups(sizes=(4,)), stop=stop, seed=0)
    run = partial(carry_out, rule, records, every=0.0)
    with pytest.raises(Killed):
        run(file=file, progress=stopped)
    went_on = run(file=file, progress=stopped)
    assert rounds == [1, 2, 3, 4, 5, *range(5, 10)]
    whole = run()
    assert went_on.picks.tolist() == whole.picks.tolist()
    assert went_on.rounds == whole.rounds
    for part, tensor in (whole.best_state if name != "estimator" else {}).items():
        assert equal(went_on.best_state[part], tensor), part
    with refusal("other data or settings", CheckpointError):
        carry_out(replace(rule, seed=1), records, file=file)


def test_a_file_is_known_by_first_weights_and_not_by_addresses_of_memory(tmp_path):
    file, run = tmp_path / "k.safetensors", partial(pacdp.compress, data=DATA, groups=20, stop=Stop(rounds=(2,)))
    run(written(), file=file)
    run(written(), file=file)
    with refusal("other first weights: .* torch.manual_seed", CheckpointError):
        run(written(model=network().apply(lambda layer: [one.data.mul_(2) for one in layer.parameters()])), file=file)
    with refusal("or did not begin its file", Looks):
        run(written(train=lambda *given: descend(*given, steps=3)), file=file)
    for _ in range(2):
        scaled = make_pipeline(FunctionTransformer(lambda x: 2 * x), LogisticRegression())
        run(scaled, file=tmp_path / "s.safetensors")


@parametrize("change", [
    lambda state: state["rounds"][-1, 3:].fill_(8), lambda state: state["rounds"][-1, 2:].copy_(torch.tensor([0, 8])),
    lambda state: state["picks"].add_(1000), lambda state: state.pop("rounds"),
])  # fmt: skip
def test_counts_of_a_file_are_those_of_its_records(tmp_path, change):
    """Before, a k that somebody had written into the file was certified, with the errors left out."""
    how = {"groups": 4, "stop": Stop(no_errors_left=False, rounds=(2,)), "file": tmp_path / "k.safetensors"}
    noise = replace(DATA, labels=default_rng(0).integers(0, DATA.classes, DATA.n))
    made = pacdp.compress(LEARNERS["kernel"], noise, **how)
    assert pacdp.compress(LEARNERS["kernel"], noise, **how).certificate == made.certificate
    found = load_checkpoint(how["file"])
    state = {name: one.clone() for name, one in found.state.items()}
    change(state)
    if "rounds" in state and not int(state["rounds"][-1, 2]):
        state["errors"] = state["errors"][:0]
    save_checkpoint(how["file"], replace(found, state=state))
    with refusal(r"holds no run|other records than|that the data do not have", CheckpointError):
        pacdp.compress(LEARNERS["kernel"], noise, **how)


def test_a_file_s_run_ends_where_the_rule_lets_it(tmp_path):
    """Before, a header that named the best of all rounds was certified as if no choice had been made."""
    noise = replace(DATA, labels=default_rng(0).integers(0, DATA.classes, DATA.n))
    run = partial(pacdp.compress, LEARNERS["kernel"], noise, groups=4)
    late, early = (Stop(no_errors_left=False, rounds=(r,)) for r in (3, 2))
    run(stop=late, file=tmp_path / "late")
    run(stop=early, file=tmp_path / "early")
    found, other = (load_checkpoint(tmp_path / name) for name in ("late", "early"))
    header = {**found.header, "compression": {**found.header["compression"], "best": 2}}
    state = {**found.state, "errors": other.state["errors"]}
    save_checkpoint(tmp_path / "late", replace(found, header=header, state=state, model=other.model))
    with refusal("ends after round 2, where this run may not end", CheckpointError):
        run(stop=late, file=tmp_path / "late")


def compressed(file):
    """The rounds that were made now, and the certificate."""
    rounds, stop = [], Stop(no_errors_left=False, rounds=(12,))
    made = pacdp.compress(LEARNERS["kernel"], DATA, groups=2, stop=stop, file=file, every=0.0,
                          progress=lambda line: rounds.append(line.number))  # fmt: skip
    return rounds, made.certificate


def test_a_run_goes_on_after_a_kill_bit_for_bit(tmp_path):
    _, whole = compressed(tmp_path / "whole")
    assert carried_out(compressed, (tmp_path / "killed",), root=tmp_path, fault=Fault(at=40)).killed
    rounds, rest = compressed(tmp_path / "killed")
    assert 1 < rounds[0] < 12
    assert rest == whole
    assert (tmp_path / "killed").read_bytes() == (tmp_path / "whole").read_bytes()


def test_columns_that_a_kernel_machine_remembers_are_those_it_would_compute():
    inputs, labels = pair(DATA)
    own, batch = LEARNERS["kernel"], torch.tensor(clouds(seed=3).inputs)
    for places in (*map(range, (10, 63, 64, 65, 130, 200, 70)), range(100, 200)):  # the last forget what does not fit
        picked = inputs[list(places)]
        for each in (own, replace(own, width=0.5)):
            state = each.train(None, picked, labels[list(places)], round=1, seed=0)
            assert equal(each.outputs(state, batch), each.outputs(state, batch.clone())), places
            kernel = torch.exp(-torch.cdist(batch, picked).square() / (2 * each.width**2))
            assert torch.allclose(each.outputs(state, batch), kernel @ state["coefficients"], atol=2e-3)


def test_a_view_of_pictures_has_their_colours_beside_gradients_each_image_by_itself():
    images = rand((7, 3, 16, 16))
    view = View(gradients=True, upright=False, pixels=4, cells=3, scale=2.0)
    seen = view(images)
    assert seen.shape == (7, 12 * 9 + 3 * 16)
    for part in (seen[:, : 12 * 9], seen[:, 12 * 9 :]):
        assert torch.allclose(part.norm(dim=1), torch.tensor(2.0))
    assert equal(view(images[3:5]), seen[3:5])


@parametrize("alike", (1, 5))
def test_neighbours_with_equal_labels_are_remarked_upon(alike):
    data = clouds()
    labels = data.labels.repeat(alike)
    inputs = data.inputs.repeat(alike, axis=0) + default_rng(1).normal(0.0, 0.01, (len(labels), 2)).astype(np.float32)
    found = pacdp.compress(estimator(), (inputs, labels), groups=20).report
    assert any("the label of the row before" in one for one in found.remarks) == (alike > 1)
