"""Torch modules in one call: the default training, one's own, and what is refused."""

from functools import lru_cache
from itertools import count, cycle
from os import devnull
from threading import Lock
from types import ModuleType, SimpleNamespace

import numpy as np
import polars as pl
import torch
from numpy.random import default_rng
from numpy.testing import assert_allclose
from torch import nn
from torch.nn import Linear, ReLU, Sequential
from torch.nn.functional import cross_entropy
from torch.optim import SGD
from torch.utils.data import DataLoader, Dataset, Subset, TensorDataset, random_split

from pacdp import self_certify
from pacdp.backprop import Examples, FitSettings, fit
from pacdp.data import DataError
from pacdp.selfcert.examples import given, split
from pacdp.selfcert.plan import HELD_OUT, NOISY, PAC_BAYES
from tests.marks import every_case, near, parametrize, refusal
from tests.pacdp.same import left_alone
from tests.pacdp.toys import seeded

QUICK = FitSettings(epochs=20, batch_size=32, step_size=0.02)


def problem(n=300, *, seed=0):
    rng = default_rng(seed)
    x = rng.uniform(-1.0, 1.0, (n, 4)).astype(np.float32)
    return x, (x[:, 0] > 0).astype(np.int64)


def network():
    with torch.random.fork_rng(devices=[]):
        torch.set_rng_state(seeded().get_state())
        return Sequential(Linear(4, 8), ReLU(), Linear(8, 2))


def test_a_network_gets_three_certificates_and_predicts_with_the_smallest():
    x, y = problem()
    module = network()
    with left_alone(module):
        found = self_certify(module, (x, y), routes=[HELD_OUT, PAC_BAYES, NOISY], settings=QUICK)
    assert [one.route for one in found.tried if one.certificate] == [HELD_OUT, PAC_BAYES, NOISY]
    assert found.certificate.status == "rigorous"
    assert np.mean(found.predict(x) != y) < found.certificate.value < 0.5
    assert_allclose(found.predict_proba(x).sum(axis=1), 1.0)
    assert module.training
    drawn = found.tried[1].certificate
    kept = drawn.hypothesis("prior saw none of these rows")
    assert (kept.standing, drawn.name) == ("declared", "one_draw_disintegrated")


def test_the_draw_that_is_certified_is_the_one_that_predicts():
    x, y = problem(400, seed=3)
    found = self_certify(network(), (x, y), routes=PAC_BAYES, settings=QUICK, train_share=0.5, seed=2)
    _, bound = split(given((x, y)), train=found.train, seed=2)
    assert np.mean(found.predict(bound.inputs) != bound.labels) == near(found.tried[0].error)


def of_a_graph(pairs):
    """Inputs that a network made, with its gradients."""
    inputs, labels = pairs.tensors
    return inputs.requires_grad_() * 1.0, labels


@parametrize("form", [lambda pairs: tuple(pairs.tensors), lambda pairs: pairs, of_a_graph])
def test_datasets_of_pairs_and_tensors_say_what_arrays_say(form):
    x, y = problem()
    arrays, found = (
        self_certify(network(), data, routes=HELD_OUT, settings=QUICK).certificate
        for data in ((x, y), form(TensorDataset(torch.tensor(x), torch.tensor(y))))
    )
    assert found.value == arrays.value


@parametrize("block", [torch.no_grad, torch.inference_mode])
def test_models_are_trained_in_blocks_where_torch_takes_no_gradients(block):
    x, y = problem()
    plain = self_certify(network(), (x, y), routes=[HELD_OUT, PAC_BAYES], settings=QUICK).certificate
    with block():
        data = torch.tensor(x), torch.tensor(y)
        found = self_certify(network(), data, routes=[HELD_OUT, PAC_BAYES], settings=QUICK)
        assert torch.is_grad_enabled() is False
    assert found.certificate.value == plain.value


def test_a_class_that_training_does_not_see_keeps_its_output():
    x, y = problem(100)
    names = np.array(["cat", "dog", "emu"])[y]
    _, bound = split(given((x, names)), train=50, seed=0)
    names[bound.places[0]] = "emu"
    module = Sequential(Linear(4, 3))
    found = self_certify(module, (x, names), settings=QUICK, train_share=0.5)
    assert [one.route for one in found.tried if one.certificate] == [HELD_OUT, PAC_BAYES]
    assert found.predict_proba(x).shape == (100, 3)
    for one in found.tried:
        said = one.predictor.predict(bound.inputs)
        assert one.error == near(np.mean(said != names[bound.places]))


def test_a_training_function_of_one_s_own_sees_the_training_part_alone():
    x, y = problem(200)
    seen = []

    def train(module, inputs, labels):
        seen.append(inputs)
        optimizer = SGD(module.parameters(), lr=1.0)
        for _ in range(60):
            optimizer.zero_grad()
            cross_entropy(module(inputs), labels).backward()
            optimizer.step()

    found = self_certify(network(), (x, y), train=train, routes=HELD_OUT)
    assert [len(each) for each in seen] == [found.train]
    assert np.mean(found.predict(x) != y) < 0.2
    versioned = nn.Sequential(network(), Versioned())  # a state of which not all are numbers
    again = self_certify(versioned, (x, y), train=train, routes=HELD_OUT).certificate
    assert again.value == found.certificate.value


class Versioned(nn.Identity):
    """A layer whose state names a version."""

    def get_extra_state(self):
        return {"version": 1}

    def set_extra_state(self, state):
        assert state == {"version": 1}


class Trainer:
    """Trains on rows of its own, whatever it is called with."""

    def __init__(self, rows):
        self.rows = rows

    def fit(self, module, _inputs, _labels):
        assert module(torch.as_tensor(self.rows)).isfinite().all()


def closing_over(rows):
    return lambda module, _inputs, _labels: module(torch.as_tensor(np.asarray(rows)))


def with_default(rows):
    return lambda module, _inputs, _labels, kept=rows: module(torch.as_tensor(kept))


def naming_globals(rows):
    """A function that reads a global variable of its module."""
    names = {"ROWS": rows}
    exec("def train(module, inputs, labels): return [each for each in ROWS] and None", names)
    return names["train"]


def naming_a_module(rows):
    names = {"mine": ModuleType("mine")}
    names["mine"].data = rows
    exec("def train(module, inputs, labels): return mine.data and None", names)
    return names["train"]


@parametrize("hold", [closing_over, with_default, naming_globals, naming_a_module, lambda rows: Trainer(rows).fit])
@parametrize(
    "form",
    [
        lambda x: x,
        lambda x: [torch.tensor(each) for each in x],
        lambda x: pl.DataFrame(x).with_columns(pl.first().cast(pl.Int64)),
        lambda x: TensorDataset(torch.tensor(x)),
        lambda x: DataLoader(TensorDataset(torch.tensor(x)), batch_size=10),
        lambda x: [x[:5], x[95:]],
    ],
)
@every_case("double", [False, True])
def test_a_training_function_with_the_bound_s_rows_at_hand_is_refused(hold, form, double):
    """It could train on them: the count of errors on them would say nothing of new examples."""
    x, y = problem(100)
    x = x.astype(np.float64) if double else x
    x[:, 0] = np.round(9 * x[:, 0])
    with refusal("train, or the model, refers to .* of the 50 inputs that the bound rests on", DataError):
        self_certify(network(), (x, y), train=hold(form(x)), routes=HELD_OUT, train_share=0.5)


def cached(rows):
    @lru_cache
    def load():
        return rows

    return load


def in_a_package(rows):
    names = naming_a_module(rows).__globals__
    names["mine"].data = ModuleType("mine.data")
    names["mine"].data.data, names["mine"].data.mine = rows, names["mine"]
    return names["mine"]


@parametrize("held", [lambda rows: SimpleNamespace(data=rows), lambda rows: cycle([rows]), cached, in_a_package])
def test_rows_in_global_variables_of_other_kinds_are_found_and_counters_are_no_rows(held):
    x, y = problem(60)
    names = {"HELD": held(x[:40])}
    exec("def train(module, inputs, labels): return HELD.data.data and None", names)
    with refusal("refers to .* of the 30 inputs that the bound rests on", DataError):
        self_certify(network(), (x, y), train=names["train"], routes=HELD_OUT, train_share=0.5)
    with open(devnull) as file:
        names = {"HELD": [count(), file, held(np.ones((40, 4)))]}
        exec("def train(module, inputs, labels): return len(HELD) and None", names)
        self_certify(network(), (x, y), train=names["train"], routes=HELD_OUT)


@parametrize(
    "form",
    [
        lambda x, y: np.column_stack([x, y]),
        lambda x, y: np.column_stack([np.arange(len(y)), y, x]).astype(np.float64),
        lambda x, y: [[*map(float, one), int(label)] for one, label in zip(x, y, strict=True)],
        lambda x, y: [{"name": "?", **dict(enumerate(map(float, one))), "y": 1} for one in x],
        lambda x, y: np.rec.fromarrays([*x.T, y]),
        lambda x, y: np.column_stack([x.astype(object), y.astype(str)]),
        lambda x, y: {"label": y, **dict(enumerate(x.T.copy()))},
        lambda x, y: pl.DataFrame(x).with_columns(pl.lit("?").alias("name"), pl.Series("y", y)),
    ],
)
def test_rows_that_stand_beside_labels_in_a_table_are_found(form):
    """As all columns of a file do, of which inputs and labels were cut."""
    x, y = problem(60)
    with refusal("refers to .* of the 30 inputs that the bound rests on", DataError):
        self_certify(network(), (x, y), train=naming_globals(form(x[:40], y[:40])), routes=HELD_OUT, train_share=0.5)
    others = naming_globals(form(*problem(60, seed=1)))
    self_certify(network(), (x, y), train=others, routes=HELD_OUT, train_share=0.5)


def test_all_labels_beside_scaled_rows_in_a_table_are_found():
    x, y = problem(60)
    with refusal("refers to all labels, or to the data set", DataError):
        self_certify(network(), (x, y), train=naming_globals(np.column_stack([x / 3, y])), routes=HELD_OUT)
    beside = [(place, int(label), 0.5) for place, label in enumerate(y)]
    with refusal("refers to all labels, or to the data set", DataError):
        self_certify(network(), (x, y), train=naming_globals(beside), routes=HELD_OUT)


def test_a_method_of_the_model_that_reads_the_bound_s_rows_is_refused_and_a_width_is_not():
    """As ``train_dataloader`` of a LightningModule reads a data set of its notebook."""
    x, y = problem(100)
    names = {"ROWS": torch.tensor(x)}
    exec("def loader(self): return ROWS\ndef first(self): self.net.load_state_dict(WEIGHTS, len(ROWS))", names)

    class Loads(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = network()

        def forward(self, inputs):
            return self.net(inputs)

    how = {"train": lambda module, *_: module.eval(), "routes": HELD_OUT, "train_share": 0.5}
    for name, method in (("__init__", names["first"]), ("train_dataloader", names["loader"])):
        kind = type("Kind", (Loads,), {name: method})
        module = kind.__new__(kind)
        Loads.__init__(module)
        if name == "__init__":
            self_certify(module, (x, y), **how)
            continue
        with refusal("or the model, refers to 50 of the 50 inputs", DataError):
            self_certify(module, (x, y), **how)


def going_on():
    """A training that keeps the network of its first call, and goes on with it in the next ones."""
    kept = []

    def train(module, inputs, _labels):
        kept.append(kept[0] if kept else module)
        for p in kept[0].parameters():
            nn.init.normal_(p)
        kept[0](inputs)
        return kept[0]

    return train


def test_what_training_keeps_and_goes_on_with_is_not_what_predicts():
    """A moving average that a trainer keeps over two calls: the first predictor is the one that was certified."""
    (x, y), train = problem(100), going_on()
    found = self_certify(network(), (x, y), train=train, routes=HELD_OUT)
    before = found.predict_proba(x)
    self_certify(network(), (x, y), train=train, routes=HELD_OUT, seed=1)
    assert_allclose(found.predict_proba(x), before)


class Photos(Dataset):
    """Bytes with the channels last, and names of files, that are scaled one by one, as image data sets do."""

    def __init__(self, n=60):
        rng = np.random.default_rng(0)
        self.data = rng.integers(0, 256, (n, 5, 5, 3), dtype=np.uint8)
        self.samples = [(f"{k}.png", int(rng.integers(2))) for k in range(n)]
        self.targets = [label for _, label in self.samples]

    def __len__(self):
        return len(self.data)

    def __getitem__(self, k):
        image = torch.tensor(self.data[k]).permute(2, 0, 1) / 255.0
        return (image - torch.tensor([0.5, 0.4, 0.3])[:, None, None]).flatten(), self.targets[k]


@parametrize("what", ["data set", "labels in a loader of another", "labels"])
def test_training_over_the_data_set_itself_or_by_all_labels_is_refused(what):
    """A loop over the loader of its notebook learns the bound's examples, whose rows stand nowhere."""
    data = Photos()
    x, y = (torch.stack([one for one, _ in data]), torch.tensor(data.targets))
    held = {"data set": data, "labels in a loader of another": DataLoader(Photos()), "labels": 3 - y}[what]
    if what == "data set":
        data.targets = dict(enumerate(data.targets))
    names = {"HELD": held}
    exec("def train(module, inputs, labels): return [one for one in HELD] and None", names)
    module = nn.Linear(75, 2)
    given = (x, y) if what == "labels" else data
    for routes in (HELD_OUT, ["compression"]):
        with refusal("train, or the model, refers to all labels, or to the data set", ValueError):
            self_certify(module, given, train=names["train"], routes=routes)
    honest = {"HELD": [torch.ones(60), torch.arange(60) % 2, Photos(50)]}
    exec("def train(module, inputs, labels): return [one for one in HELD] and None", honest)
    self_certify(module, given, train=honest["train"], routes=HELD_OUT)


@parametrize("data", [Photos(), TensorDataset(*(torch.tensor(one) for one in problem(60)))])
def test_of_a_split_made_before_the_other_part_may_be_looked_at_and_the_whole_may_not(data):
    """As for early stopping; the whole data set has the bound's examples, too."""
    given, other = random_split(data, [0.7, 0.3], generator=seeded())
    module = nn.Linear(data[0][0].numel(), 2)
    names = {"HELD": DataLoader(other)}
    exec("def train(module, inputs, labels): return [one for one in HELD] and None", names)
    self_certify(module, given, train=names["train"], routes=HELD_OUT)
    for held in (data, Subset(data, given.indices[-9:])):
        names["HELD"] = DataLoader(held)
        with refusal("train, or the model, refers to", DataError):
            self_certify(module, given, train=names["train"], routes=HELD_OUT)


def test_what_training_leaves_for_another_call_and_what_was_learnt_before_are_remarked_upon():
    """Weights of early stopping that outlive a call hold what the next call's bound rests on."""
    x, y = problem(60)

    class Stopping:
        best = None

        def __call__(self, module, _inputs, _labels):
            self.best = {name: one.clone() for name, one in module.state_dict().items()}

    for train, said in ((Stopping(), True), (lambda module, *_: module.eval(), False)):
        found = self_certify(network(), (x, y), train=train, routes=HELD_OUT)
        assert any("train leaves something in best" in one for one in found.report.remarks) == said
    learnt = fit(network(), Examples(torch.tensor(x), torch.tensor(y)), settings=QUICK, generator=seeded())
    for module, said in ((learnt, True), (network(), False)):
        found = self_certify(module, (x, y), train=lambda *_: None, routes=HELD_OUT)
        assert any("of all examples as it was given" in one for one in found.report.remarks) == said


def test_a_module_that_keeps_a_tensor_of_its_graph_is_copied_and_where_there_is_no_copy_it_is_refused():
    """It had no copy, so that the first predictor went on with the training of the next call."""

    class Keeps(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = network()

        def forward(self, inputs):
            outputs = self.net(inputs)
            if self.training:
                self.last = outputs
            return outputs

    (x, y), train = problem(100), going_on()
    found = self_certify(Keeps(), (x, y), train=train, routes=HELD_OUT)
    before = found.predict_proba(x)
    self_certify(Keeps(), (x, y), train=train, routes=HELD_OUT, seed=1)
    assert_allclose(found.predict_proba(x), before)
    with refusal("train must leave a network that can be copied"):
        self_certify(network(), (x, y), train=lambda module, *_: setattr(module, "lock", Lock()), routes=HELD_OUT)


@parametrize("how", [torch.no_grad, torch.inference_mode])
def test_a_call_without_gradients_trains_with_them(how):
    x, y = problem(60)
    with how():
        found = self_certify(network(), (x, y), routes=[HELD_OUT, PAC_BAYES], settings=QUICK)
    count, drawn = found.tried
    assert drawn.predictor.function.module is not count.predictor.function  # which may be on another device


class Bytes(nn.Module):
    """Scales bytes, and nothing else, as image networks do."""

    def __init__(self):
        super().__init__()
        self.net = network()

    def forward(self, inputs):
        return self.net(inputs.float() / 127.5 - 1.0 if inputs.dtype == torch.uint8 else inputs)


@parametrize("routes", [HELD_OUT, PAC_BAYES, NOISY])
def test_answers_are_those_that_were_certified_whatever_form_inputs_have(routes):
    x, y = problem(100)
    images = torch.tensor(127.5 * (x + 1.0)).round().to(torch.uint8)
    found = self_certify(Bytes(), (images, y), routes=routes, settings=QUICK if routes != NOISY else None)
    expected = found.predict_proba(images)
    for form in (images.numpy(), images.float(), images.numpy().tolist(), images.long(), images.double().numpy()):
        assert_allclose(found.predict_proba(form), expected, rtol=1e-6)
    if routes != NOISY:  # which trains on numbers in single precision
        with refusal("inputs must be whole numbers of torch.uint8"):
            found.predict(x)


def test_a_network_with_the_bound_s_rows_and_training_that_ends_with_nan_are_refused():
    x, y = problem(100)
    module = network()
    module.register_buffer("held", torch.tensor(x))
    with refusal("holds", DataError):
        self_certify(module, (x, y), routes=HELD_OUT, settings=QUICK)
    wild = FitSettings(epochs=5, optimizer="sgd", step_size=1e30)
    for how in ({"train": lambda module, *_: nn.init.constant_(module[0].weight, torch.nan)}, {"settings": wild}):
        with refusal("your model diverged"):
            self_certify(network(), (x, y), routes=HELD_OUT, **how)
