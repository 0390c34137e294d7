"""A network as it is, on examples from loaders, in keywords, with any bounded loss: the same numbers, or a sentence."""

import itertools
import mmap
import threading
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from numpy import array_equal
from torch import Tensor, equal
from torch.nested import nested_tensor
from torch.nn import BatchNorm1d, Dropout, Linear, Module, Sequential, Tanh
from torch.utils.data import (
    BatchSampler,
    ConcatDataset,
    DataLoader,
    Dataset,
    DistributedSampler,
    IterableDataset,
    RandomSampler,
    Subset,
    TensorDataset,
    WeightedRandomSampler,
    default_collate,
)

import bounds
from pacdp import HeldOut, Network, Private, Settings, certify, certify_predictions
from pacdp.certify import BoundSet, ClippedError, Finite, Surrogate
from pacdp.certify.evidence import rows_of
from pacdp.certify.loaders import bound_set
from pacdp.data import DataError, Rows
from pacdp.data import Dataset as Images
from pacdp.store.record import Values
from tests.marks import every_case, near, parametrize, refusal
from tests.pacdp.toys import seeded
from tests.schema import validate

GENERATOR = seeded(5)
INPUTS = torch.randn(300, 6, generator=GENERATOR)
LABELS = torch.randint(0, 3, (300,), generator=GENERATOR)
ALL = INPUTS, LABELS
PEOPLE = np.arange(300, dtype=np.int64) // 3
SLOPES = torch.tensor([1.0, -2.0, 0.5])
NET = Sequential(Linear(6, 8), BatchNorm1d(8), Tanh(), Linear(8, 3)).eval()


@dataclass
class Output:
    logits: Tensor
    loss: float = 0.0


class Pairs(Dataset):
    def __len__(self):
        return 300

    def __getitem__(self, k):
        return INPUTS[k], LABELS[k]


class Jitter(Pairs):
    """Examples that are moved a little at every look, so that no two rows of a copy are equal."""

    def __getitem__(self, k):
        return INPUTS[k] + 0.01 * torch.randn(6), LABELS[k]


class Endless(Dataset):
    def __getitem__(self, k):
        return INPUTS[k % 300], LABELS[k % 300]


JITTER = Jitter()
TWICE: Any = torch.tensor([*range(300), 7])


def drawn(sampler):
    return DataLoader(JITTER, batch_size=50, sampler=sampler)


def collated(made):
    """A loader whose function makes batches of a list of inputs and a list of labels."""
    return DataLoader(
        Pairs(), batch_size=50, collate_fn=lambda given: made(*map(torch.stack, zip(*given, strict=True)))
    )


def longest(inputs, labels):
    """Rows of other lengths, to the longest of their batch."""
    lengths = 3 + (inputs[:, 0] > 0) + 2 * (inputs[:, 1] > 0)
    taken = (torch.arange(6) < lengths[:, None])[:, : int(lengths.max())].float()
    return {"inputs": inputs[:, : taken.shape[1]] * taken, "taken": taken, "labels": labels}


def padded_where_they_lie(records):
    """Batches of dictionaries whose rows are padded in the dictionaries themselves."""
    width = max(int((one["inputs"] != 0).sum()) for one in records)
    for one in records:
        one["inputs"] = torch.nn.functional.pad(one["inputs"], (0, max(0, width - len(one["inputs"]))))
    return {key: torch.stack([one[key] for one in records]) for key in ("inputs", "labels")}


RECORDS: Any = [{"inputs": row[: 3 + k % 4], "labels": label} for k, (row, label) in enumerate(zip(*ALL, strict=True))]


class Stream(IterableDataset):
    def __iter__(self):
        return iter(zip(INPUTS, LABELS, strict=True))


class Ends(Pairs):
    """One that says with StopIteration that it is at its end, in the middle."""

    def __getitem__(self, k):
        return next(iter([super().__getitem__(k)] if k < 100 else []))


class Fetched(Pairs):
    """One that reads a batch at a time."""

    def __getitems__(self, places):
        return list(zip(INPUTS[places], LABELS[places], strict=True))


class Centred(Fetched):
    def __getitems__(self, places):
        return list(zip(INPUTS[places] - INPUTS[places].mean(0), LABELS[places], strict=True))


class Bulk(Pairs):
    """One that makes a batch of a list of places."""

    def __getitem__(self, k):
        return INPUTS[k] - INPUTS[k].mean(0), LABELS[k]


def in_bulk(data):
    return DataLoader(data, sampler=BatchSampler(range(300), 50, False), batch_size=None)


class PassedOn:
    """What stands around a loader, and hands its batches on as a function of them, as tutorials write it."""

    def __init__(self, loader, how=None):
        self.loader, self.how = loader, how

    def __iter__(self):
        return (self.how(*one) if self.how else one for one in self.loader)


class Bar(PassedOn):
    """One that has no copy, as a progress bar."""

    def __init__(self, loader):
        super().__init__(loader)
        self.lock = threading.Lock()


class Opened(Pairs):
    """One that opens its file where it is read first."""

    file = None

    def __getitem__(self, k):
        self.file = "a position, which all that were forked afterwards move"
        return super().__getitem__(k)


def one_with_a_gap(inputs):
    return torch.where(inputs == INPUTS[7], torch.nan, inputs)


def shown(found):
    """Up to the rounding of outputs, which differs with the size of batches."""
    return [
        (made.name, round(made.value, 6), made.measures, made.status) for made in found.certificates
    ], found.measured


def part(start, end):
    return INPUTS[start:end], LABELS[start:end]


FORMS = {
    "arrays": (INPUTS.numpy(), LABELS.numpy()),
    "a data set": Pairs(),
    "a shuffling loader": DataLoader(Pairs(), batch_size=37, shuffle=True, generator=seeded(1)),
    "an iterable data set": DataLoader(Stream(), batch_size=64),
    "a list of batches with empty ones": [part(0, 0), ALL, part(0, 0)],
    "arrays backwards": (INPUTS.numpy()[::-1], LABELS.numpy()[::-1]),
    "labels with a further axis": (INPUTS, LABELS[:, None]),
    "labels in a list": (INPUTS.numpy(), LABELS.tolist()),
    "a bound set": BoundSet(inputs=INPUTS, labels=LABELS),
    "people": [(*part(k, k + 50), PEOPLE[k : k + 50]) for k in range(0, 300, 50)],
}


@parametrize("form", FORMS)
def test_every_form_of_the_examples_gives_what_tensors_at_once_give(form):
    whole = certify(NET, BoundSet(inputs=INPUTS, labels=LABELS, people=PEOPLE if form == "people" else None))
    found = certify(NET, FORMS[form])
    assert (shown(found), found.unit, found.n) == (shown(whole), whole.unit, whole.n)
    if "axis" not in form:
        assert found.rows == whole.rows
    validate(found.to_dict(subject=None, provenance={}) | {"provenance": None})


WRAPPED = [lambda z: {"logits": z}, Output, lambda z: (z, "attention")]


@parametrize("form", WRAPPED, ids=["a dictionary", "a dataclass", "a tuple"])
def test_logits_are_found_in_what_networks_return(form):
    found = certify(lambda inputs: form(NET(inputs)), ALL)
    assert shown(found) == shown(certify(NET, ALL))


def binary(inputs):
    return 9.0 * NET(inputs)[:, 0]  # of which some lie outside [0, 1], however the network was drawn


@parametrize(
    ("logits", "scores"),
    [(NET, lambda x: NET(x).softmax(dim=1)),
     (lambda x: 40.0 * NET(x), lambda x: (40.0 * NET(x)).softmax(dim=1)),
     (binary, lambda x: torch.stack([binary(x).neg().sigmoid(), binary(x).sigmoid()], dim=1))],
    ids=["three classes", "almost certain", "one logit"],
)  # fmt: skip
def test_a_network_of_probabilities_has_the_certificates_of_its_logits(logits, scores):
    """The calibration error among them, which a second softmax would change."""
    labels = LABELS % 2 if logits is binary else LABELS
    bound, test = (BoundSet(inputs=INPUTS[at], labels=labels[at]) for at in (slice(200), slice(200, 300)))
    found, twin = (
        certify(Network(network=function, scores=given), bound, test=test, ask=["error", "calibration"])
        for function, given in ((scores, True), (logits, False))
    )
    assert [made.measures for made in found.certificates] == ["0-1 risk", "ECE"]
    assert shown(found) == shown(twin)


@parametrize("scale", [1e-20, 1.0, 1e4])
def test_areas_and_ranks_are_of_the_logits_whose_probabilities_are_equal(scale):
    net, labels = (lambda x: scale * x[:, :4]), LABELS % 4
    ours = INPUTS[:, :4].gather(1, labels[:, None])
    ranks = (INPUTS[:, :4] >= ours).sum(dim=1)
    found = certify(net, (INPUTS, labels), ask=["top-1", "top-2", "top-3"]).statements
    assert [one.measured for one in found] == near([float((ranks > k).double().mean()) for k in (1, 1, 2, 3)])
    gone = certify(lambda x: net(x).index_fill(1, torch.tensor(3), torch.nan), (INPUTS, labels), ask="top-3")
    assert [one.measured for one in gone.statements] == [1.0, 1.0]
    labels = torch.arange(300) % 2
    logits = 50.0 + INPUTS[:, 0].abs() - 9.0 * labels
    for net in (lambda x: x[:, 0], lambda x: torch.stack([0.0 * x[:, 0], x[:, 0]], dim=1)):
        found = certify(net, (logits[:, None], labels), ask="auc").statements
        assert [one.measured for one in found if one.family == "auc"] == [0.0]


def test_batches_in_keywords():
    def network(*, values, scale):
        return NET(values * scale[:, None])

    batches = [
        {"values": INPUTS[at], "scale": torch.ones(60), "labels": LABELS[at]} for at in torch.arange(300).split(60)
    ]
    found = certify(network, batches)
    assert found.certificates[0].value == certify(NET, ALL).certificates[0].value
    with refusal("repeats", DataError):
        certify(network, [batches[0], *batches])
    swapped = [{**one, "values": one["scale"], "scale": one["values"]} for one in batches]
    with refusal("does not accept inputs"):
        certify(network, swapped)
    for seen in (ALL, [{"words": one["values"], "scale": one["scale"], "labels": one["labels"]} for one in batches]):
        with refusal("other keywords", DataError):
            certify(network, batches, seen=seen)
    with refusal("share 300", DataError):
        certify(network, batches, seen=[dict(reversed(one.items())) for one in batches])
    with refusal("other keywords than"):
        certify(lambda values, scale=1: NET(values), [*batches[:4], {"values": INPUTS[240:], "labels": LABELS[240:]}])


WORDS, LENGTHS, PLACE = torch.randint(0, 90, (300, 24), generator=GENERATOR), LABELS[:, None] * 9 + 1, torch.arange(24)
TABLE = torch.randn(24, generator=GENERATOR)
SAME = {"table": TABLE.expand(300, 24), "places": PLACE.expand(300, 24)}
TEXTS = {"words": WORDS, "mask": (PLACE < LENGTHS).long(), "labels": LABELS, **SAME}


class Words(Module):
    """As networks of words are called; it may keep some of its inputs, as networks with causal masks do."""

    def __init__(self, **kept):
        super().__init__()
        self.table, self.kept = Linear(24, 3), kept

    def forward(self, *, words, mask, places, table):
        return self.table((words * mask + 0 * places).float() / 90 + 0 * table)


def test_networks_that_are_called_by_keywords_hold_none_of_the_words_but_may_hold_masks_and_places():
    texts = [{name: one[at] for name, one in TEXTS.items()} for at in torch.arange(300).split([60, 120, 119, 1])]
    plain = {"table": TABLE, "causal": torch.ones(24, 24).tril(), "places": torch.arange(48), "ones": torch.ones(24)}
    assert certify(Words(**plain).eval(), texts).certificates
    for held in (WORDS[100:150].clone(), WORDS[70:130] / 90.0):
        with refusal("of the network holds", DataError):
            certify(Words(held=held).eval(), texts)


@parametrize("kind", ["absolute", "squared"])
def test_regression_is_certified_by_its_clipped_error(kind):
    net, loss = Linear(6, 1).eval(), ClippedError(at=0.7, kind=kind)
    targets = INPUTS.sum(dim=1)
    found = certify(net, DataLoader(TensorDataset(INPUTS, targets), batch_size=50), loss=loss)
    share = np.minimum(np.abs(net(INPUTS).detach().squeeze(1).numpy() - targets.numpy()) / 0.7, 1.0)
    losses = (share if kind == "absolute" else share**2).astype(np.float64)
    (made,) = found.certificates
    assert found.measured[0].mean == near(losses.mean(), rel=1e-6)
    # a loss rounded otherwise is bet on in another order: they are rounded as they were
    rounded = torch.cat([loss(net(x), y) for x, y in zip(INPUTS.split(50), targets.split(50), strict=True)])
    by_table = certify_predictions(losses={"x": rounded.detach().double().numpy()}).certificates[0].value
    assert made.value == near(by_table)
    assert certify(lambda x: net(x).squeeze(), (INPUTS, targets), loss=loss).certificates == certify(
        net, (INPUTS, targets), loss=loss).certificates  # fmt: skip
    assert torch.equal(loss(net(INPUTS)[:, None], targets), loss(net(INPUTS), targets))
    assert "clipped at 0.7" in found.headline()
    assert made.value > losses.mean()


SEEN = {**FORMS, "a data set of numbers": Images("d", INPUTS.numpy(), LABELS.numpy(), 3)}
SEEN["rows"] = Rows.of(*ALL)


@every_case("form", SEEN)
def test_whatever_can_be_data_can_be_what_was_seen(form):
    with refusal("share 300 ", DataError):
        certify(NET, ALL, seen=SEEN[form])
    made = certify(NET, (INPUTS + 1.0, LABELS), seen=SEEN[form]).certificates[0]
    assert made.hypothesis("predictor saw none of these rows").standing == "proved"


CLAIM = bounds.PureDP(epsilon=0.1, adjacency="add-remove", status="exact mechanism")
NO_EVIDENCE = [True, "train.npz", INPUTS, {}, Private(privacy=CLAIM)]


@pytest.mark.wrong_types
@every_case("saw", NO_EVIDENCE, ids=lambda saw: type(saw).__name__)
def test_what_can_be_no_data_is_no_evidence(saw):
    with refusal("seen must be data"):
        certify(NET, ALL, seen=saw)


OTHERS = INPUTS + 1.0, LABELS
SURROGATE = Surrogate(network=NET, certificate=certify(NET, ALL).certificates[0], saw={"a": ALL})
WITH: dict[str, tuple[Any, Values]] = {
    "seen": (ALL, {"seen": JITTER}),
    "seen that is handed on": (ALL, {"seen": PassedOn(drawn(RandomSampler(JITTER)))}),
    "seen that is drawn as it is handed on": (
        ALL,
        {"seen": PassedOn(DataLoader(Pairs()), lambda x, y: (x + torch.rand(6), y))},
    ),
    "seen in bulk": (ALL, {"seen": in_bulk(JITTER)}),
    "data beside seen": (JITTER, {"seen": OTHERS}),
    "a loader beside a test set": (drawn(RandomSampler(JITTER)), {"test": OTHERS}),
    "test": (ALL, {"test": JITTER}),
    "data beside settings": (JITTER, {"settings": Settings.chosen_on(OTHERS)}),
    "data of a surrogate": (JITTER, {"surrogate": SURROGATE, "failure_prob": 0.2}),
    "data of a list": (JITTER, {"law": Finite(networks=[NET]), "prior": HeldOut(rows=Rows.of(*OTHERS))}),
}


@every_case("data", WITH)
def test_rows_that_are_drawn_anew_prove_nothing(data):
    (given, how), state = WITH[data], torch.get_rng_state()
    with refusal("must be the same rows at every reading"):
        certify(**{"law": NET, "data": given, **how})
    assert equal(state, torch.get_rng_state())


LEAVING_OUT = {
    "a last batch": (DataLoader(Pairs(), batch_size=37, shuffle=True, drop_last=True), "by drop_last"),
    "draws": (drawn(RandomSampler(Pairs(), replacement=True)), "by its RandomSampler"),
    "draws by weight": (drawn(WeightedRandomSampler([1.0] * 300, 300)), "by its WeightedRandomSampler"),
    "draws in batches": (
        DataLoader(Pairs(), batch_sampler=BatchSampler(RandomSampler(Pairs(), num_samples=200), 50, False)),
        "by its RandomSampler"),
    "a share of each epoch": (drawn(RandomSampler(Pairs(), num_samples=200)), "by its RandomSampler"),
    "a last batch under a bar": (
        Bar(DataLoader(Pairs(), batch_size=37, shuffle=True, drop_last=True)), "by drop_last"),
    "one process of two": (drawn(DistributedSampler(Pairs(), 2, 0)), "by its DistributedSampler"),
}  # fmt: skip


@every_case("name", LEAVING_OUT)
def test_loaders_that_leave_out_others_at_every_reading_prove_nothing_of_what_was_seen(name):
    loader, why = LEAVING_OUT[name]
    with refusal(f"seen must be all that was seen, and its loader leaves out others at every reading .{why}"):
        certify(NET, OTHERS, seen=loader)


def test_loaders_that_read_all_of_their_places_say_what_was_seen():
    for loader in (DataLoader(Pairs(), batch_size=50, shuffle=True, drop_last=True),
                   DataLoader(Pairs(), batch_size=7, sampler=range(200))):  # fmt: skip
        kept = certify(NET, OTHERS, seen=loader).certificates[0].hypothesis("predictor saw none of these rows")
        assert kept.standing == "proved"


def test_rows_of_another_width_prove_nothing_of_what_was_seen():
    with refusal("inputs of 7 and of 6 numbers", DataError):
        certify(NET, ALL, seen=(torch.cat([INPUTS, LABELS[:, None]], dim=1) + 1.0, LABELS))
    fractions = INPUTS.numpy().astype(float) / 3  # which the network read in single precision
    with refusal("of double and of single precision", DataError):
        certify(NET, (torch.tensor(fractions).float(), LABELS), seen=(fractions, LABELS.numpy()))


@parametrize("key", ["label", "person"])
def test_a_batch_that_tells_the_network_its_labels_is_refused(key):
    batch = {"labels": LABELS, "people": LABELS, key: LABELS, "inputs": INPUTS}
    with refusal(f"under two keys, and the network would be told those of '{key}'"):
        certify(lambda inputs, **told: NET(inputs), [batch])


@parametrize(("kind", "other"), [(torch.float16, torch.float32), (torch.bfloat16, torch.float32),
                                 (torch.float16, torch.bfloat16)])  # fmt: skip
def test_rows_of_half_precision_prove_nothing_of_rows_that_were_not_rounded(kind, other):
    rounded, whole = ((INPUTS.to(one).float(), LABELS) for one in (kind, other))
    for data, seen in ((whole, rounded), (rounded, whole)):
        kept = certify(NET, data, seen=seen).certificates[0].hypothesis("predictor saw none of these rows")
        assert kept.standing == "declared"
        assert "of half precision and others are not" in kept.by


def padded(lengths):
    """A batch for each length: 20 examples of so many numbers, padded by zeros to the longest of the batch."""
    return [(torch.cat([INPUTS[:20], torch.zeros(20, more)], dim=1) + k, LABELS[:20]) for k, more in enumerate(lengths)]


def test_rows_that_are_padded_batch_by_batch_prove_nothing_of_what_was_seen():
    """An example beside longer ones is another row, and no hash tells that it was seen."""
    network = Sums().eval()
    for data, seen in ((padded([0, 2]), padded([3, 5])), (padded([0]), padded([3, 5])), (padded([0, 2]), padded([7]))):
        kept = certify(network, data, seen=seen).certificates[0].hypothesis("predictor saw none of these rows")
        assert kept.standing == "declared"
        assert "inputs have several widths" in kept.by


def test_rows_read_back_prove_no_more_than_the_data_did():
    streams = padded([3, 5]), [(INPUTS[20:40], LABELS[20:40]), (INPUTS[40:60].double(), LABELS[40:60])]
    for seen in map(rows_of, streams, ("seen", "seen")):
        for kept in (seen, Rows.from_arrays(seen.to_arrays())):
            found = certify(Sums().eval(), padded([0]), seen=kept)
            assert found.certificates[0].hypothesis("predictor saw none of these rows").standing == "declared"


def test_bytes_prove_nothing_of_the_same_images_scaled():
    raw = torch.randint(0, 256, (300, 6), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    scaled = (raw / 255, LABELS)
    for seen in (raw, raw.float(), raw.double()):
        kept = certify(NET, scaled, seen=(seen, LABELS)).certificates[0].hypothesis("predictor saw none of these rows")
        assert kept.standing == "declared"
        assert "fractions" in kept.by
    others = certify(NET, scaled, seen=((255 - raw).flip(1) / 254, LABELS))
    assert others.certificates[0].hypothesis("predictor saw none of these rows").standing == "proved"


class Sums(Module):
    def forward(self, x):
        return torch.stack([x.sum(1), -x.sum(1), x[:, 0]], dim=1)


REFUSED = {
    "a network in train mode": (Sequential(Linear(6, 3), Dropout()), ALL, "train mode"),
    "no logits": (lambda x: {"scores": NET(x)}, ALL, "returned dict with scores"),
    "an error of its own": (lambda x: {}["pixels"], ALL, "KeyError: 'pixels'"),
    "a batch of one part": (NET, DataLoader(TensorDataset(INPUTS)), "got list|as \\(inputs, labels\\)"),
    "nothing": (NET, [], "no examples"),
    "gaps": (NET, (np.ma.masked_greater(INPUTS.numpy(), 1), LABELS), "inputs in data are a masked array"),
    "people in some batches": (NET, [part(0, 50), (*part(50, 300), PEOPLE[50:])], "all or none"),
    "no network": ({"weight": INPUTS}, ALL, "expected law to be a network, as a module or a function"),
    "names of people": (NET, (INPUTS, LABELS, ["a"] * 300), "people in data are no tensor"),
    "people that are none": (NET, (INPUTS, LABELS, None), "people in data are no tensor"),
    "classes": (lambda x: NET(x).argmax(1), ALL, "Tensor of torch.int64.* a dense tensor of logits, in floats"),
    "draws with replacement": (NET, drawn(RandomSampler(Pairs(), replacement=True)), "by a RandomSampler"),
    "more draws than examples": (NET, drawn(RandomSampler(Pairs(), num_samples=900)), "by a RandomSampler"),
    "draws by weight": (NET, drawn(WeightedRandomSampler([1.0, 0.1] * 150, 99, replacement=False)), "more often"),
    "draws of whole batches": (
        NET, DataLoader(JITTER, batch_sampler=BatchSampler(RandomSampler(Pairs(), replacement=True), 50, False)),
        "by a RandomSampler"),
    "draws of whole batches by weight": (
        NET, drawn(BatchSampler(WeightedRandomSampler([1.0, 0.1] * 150, 99, replacement=False), 50, False)),
        "by a WeightedRandomSampler"),
    "batches brought to mean 0": (NET, collated(lambda x, y: (x - x.mean(0), y)), "others that collate_fn"),
    "batches that tell labels": (NET, collated(lambda x, y: (x + y.sum(), y)), "others that collate_fn"),
    "padded batches without a mask": (
        lambda inputs, taken: inputs.mean(dim=1, keepdim=True) * SLOPES, collated(longest),
        "others that collate_fn .* pad to one length"),
    "batches in an order of their own": (
        NET, collated(lambda x, y: (x[x[:, 0].argsort()], y[x[:, 0].argsort()])), "or its place, .* keep their order"),
    "an axis squeezed away": (lambda x: NET(x).squeeze(), ALL, r"shape .3,.: keep the axis .* as \.squeeze\(1\) does"),
    "two rows an example": (
        NET, collated(lambda x, y: (torch.cat([x, -x]), torch.cat([y, y]))), "64 rows of 32 examples, and n counts"),
    "rows padded where they lie": (
        lambda inputs: inputs.mean(dim=1, keepdim=True) * SLOPES,
        DataLoader(RECORDS, batch_size=50, collate_fn=padded_where_they_lie), "others that collate_fn"),
    "batches brought to mean 0 where they are fetched": (NET, Subset(Centred(), range(200)), "or __getitems__ of its"),
    "batches brought to mean 0 that are handed on": (
        NET, PassedOn(collated(lambda x, y: (x - x.mean(0), y))), "others that collate_fn"),
    "batches brought to mean 0 as they are handed on": (
        NET, PassedOn(collated(lambda x, y: (x, y)), lambda x, y: (x - x.mean(0), y)), "others that collate_fn"),
    "padded batches under a bar": (
        lambda inputs, taken: inputs.mean(dim=1, keepdim=True) * SLOPES, Bar(collated(longest)),
        "others that collate_fn"),
    "batches brought to mean 0 where they are read in bulk": (NET, in_bulk(Bulk()), "or __getitems__ of its"),
    "draws by weight that are handed on": (
        NET, PassedOn(drawn(WeightedRandomSampler([1.0, 0.1] * 150, 99, replacement=False))), "more often"),
    "a stream by several workers under a bar": (
        NET, Bar(PassedOn(DataLoader(Stream(), num_workers=2))), "each of which may read the whole stream"),
    "a data set that ends early": (NET, DataLoader(Ends(), batch_size=50), "ends after 2 of 6 batches"),
    "no last batch": (
        NET, DataLoader(Pairs(), batch_size=70, drop_last=True), "last batch by drop_last, .* set drop_last=False"),
    "a stream by several workers": (
        NET, DataLoader(Stream(), num_workers=2), "each of which may read the whole stream.* give it num_workers=1"),
    "probabilities of one class": (
        lambda x: NET(x)[:, 0].sigmoid(), (INPUTS, LABELS % 2), "outputs are probabilities.* if they are logits z"),
    "probabilities of a column": (
        lambda x: NET(x)[:, :1].sigmoid(), (INPUTS, LABELS % 2), "the outputs are probabilities"),
    "probabilities, and a gap": (
        lambda x: NET(one_with_a_gap(x))[:, 0].sigmoid(), (INPUTS, LABELS % 2), "the outputs are probabilities"),
    "probabilities of few examples": (
        lambda x: NET(x)[:, 0].sigmoid(), (INPUTS[:9], LABELS[:9] % 2), "the outputs are probabilities"),
    "probabilities": (lambda x: NET(x).softmax(1), ALL, "the outputs are probabilities.* scores=True"),
    "probabilities in half precision": (
        lambda x: (20 * NET(x)).bfloat16().softmax(1), ALL, "are probabilities.* divide each row by its sum"),
    "a probability of each class": (
        lambda x: NET(x).sigmoid(), ALL, "the outputs are probabilities.* z - 1 if they are logits z"),
    "decisions": (lambda x: torch.eye(3)[NET(x).argmax(1)], ALL, "the outputs are probabilities.* scores=True"),
    "decisions of a column": (
        lambda x: (NET(x)[:, 0] > 0).float(), (INPUTS, LABELS % 2), "the outputs are probabilities"),
    "a list with one twice": (NET, drawn([*range(9), 7]), "gives 1 of its 10 examples again"),
    "a place from the end": (NET, Subset(JITTER, [*range(300), -1]), "gives 1 of its 301 examples again"),
    "a part twice": (NET, Subset(JITTER, TWICE), "gives 1 of its 301 examples again"),
    "a data set twice": (NET, DataLoader(ConcatDataset([Subset(JITTER, range(9)), JITTER])), "gives 9 of its 309"),
    "what cannot be read": (NET, Subset(JITTER, [*range(7), 300]), "batch 0 of the data cannot be read: IndexError"),
    "sparse logits": (lambda x: NET(x).to_sparse(), ALL, "a dense tensor of logits"),
    "no length": (NET, Endless(), "Endless has no length"),
    "sparse numbers": (NET, (INPUTS.to_sparse(), LABELS), "must be a dense tensor"),
    "rows of other lengths": (NET, (nested_tensor([*INPUTS], layout=torch.jagged), LABELS), "be a dense tensor"),
    "no numbers": (NET, (INPUTS.to("meta"), LABELS), "must be a dense tensor"),
    "several inputs in a tuple": (NET, [((INPUTS, INPUTS), LABELS)], "are no tensor .* by keyword in a dictionary"),
    "examples in no batch": (NET, Stream(), "an axis of examples, as a DataLoader gives it to single"),
    "one number for all": (lambda x, k: NET(x), [{"x": INPUTS, "k": 3, "labels": LABELS}], "an axis of examples"),
}  # fmt: skip


class ByColumn(Module):
    """Kinds in the first two columns, each with a table of its own, beside numbers."""

    def __init__(self, few=5, many=90):
        super().__init__()
        torch.manual_seed(3)
        self.few, self.many, self.last = torch.nn.Embedding(few, 4), torch.nn.Embedding(many, 4), Linear(12, 3)

    def forward(self, x):
        kinds = self.few(x[:, 0].long()), self.many(x[:, 1].long())
        return self.last(torch.cat([*kinds, x[:, 2:6].float()], dim=1))


def within(x):
    assert bool(((x >= 0) & (x <= 1)).all()), "pixels lie between 0 and 1"
    return 5 * NET(x)


KINDS = torch.stack([torch.arange(300) % 5, torch.arange(300) * 7 % 90], dim=1)
TABLES = {
    "kinds beside numbers": (ByColumn().eval(), torch.cat([KINDS.float(), INPUTS[:, :4]], dim=1)),
    "whole numbers": (ByColumn().eval(), torch.cat([KINDS, (9 * INPUTS).long()[:, :4]], dim=1)),
    "a range that is asserted": (within, INPUTS.sigmoid()),
    "roots of matrices": (
        lambda x: NET(torch.linalg.cholesky(x).flatten(1)[:, :6]),
        INPUTS[:, :3, None] * INPUTS[:, None, :3] + torch.eye(3)),
}  # fmt: skip


@every_case("name", TABLES)
def test_networks_that_take_no_made_up_numbers_are_tried_on_examples(name):
    network, inputs = TABLES[name]
    own = torch.cat([network(one[None]) for one in inputs]).argmax(1)
    measured = certify(network, (inputs, LABELS), ask="error").statements[0].measured
    assert measured == near(float((own != LABELS).double().mean()))
    with refusal("depends on the other examples"):
        certify(lambda x: network(x) - network(x).mean(0), (inputs, LABELS))


def test_batches_that_are_handed_on_are_those_of_their_loader():
    plain = certify(NET, ALL, ask="error").certificates[0].value
    loader = collated(lambda x, y: (x.view(-1, 2, 3), y))
    for one in (PassedOn, Bar):
        data = one(PassedOn(loader, lambda x, y: (x.flatten(1), y)))
        assert certify(NET, data, ask="error").certificates[0].value == plain
        two: Any = PassedOn(data)
        two.other = drawn(WeightedRandomSampler([1.0], 9))
        assert certify(NET, two, ask="error").n == 300


def test_loaders_with_a_function_of_their_own_are_read_where_each_example_is_its_own():
    plain = certify(NET, ALL, ask="error").certificates[0].value
    assert certify(NET, collated(lambda x, y: (2 * x / 2, y)), ask="error").certificates[0].value == plain
    whose = collated(lambda x, y: (torch.cat([x, -x]), torch.cat([y, y]), torch.arange(2 * len(x))))
    assert certify(NET, whose, ask="error").n == 100  # people are numbered anew in each batch

    def masked(inputs, taken):
        return (inputs * taken).sum(dim=1, keepdim=True) / taken.sum(dim=1, keepdim=True) * SLOPES

    assert certify(masked, collated(longest), ask="error").n == 300
    assert equal(bound_set(collated(lambda x, y: (x, y))).inputs, INPUTS)
    rows, one = torch.empty(50, 6), torch.empty(50, dtype=torch.int64)
    again = ((rows.copy_(INPUTS[k : k + 50]), one.copy_(LABELS[k : k + 50])) for k in range(0, 300, 50))
    assert all(map(equal, ((found := bound_set(again)).inputs, found.labels), ALL))
    for data in (Fetched(), DataLoader(Subset(Fetched(), range(300)), batch_size=50), TensorDataset(*ALL)):
        assert certify(NET, data, ask="error").certificates[0].value == plain
    with pytest.warns(DeprecationWarning, match="is deprecated"):
        frozen = torch.jit.freeze(torch.jit.script(NET))
    assert certify(frozen, ALL, ask="error").certificates[0].value == plain
    opened = DataLoader(data := Opened(), 50, num_workers=1, collate_fn=lambda given: (*default_collate(given),))
    assert certify(NET, opened, seen=(INPUTS + 9, LABELS), ask="error").n == 300
    assert data.file is None
    assert certify(NET, DataLoader(Pairs(), batch_size=70, shuffle=True, drop_last=True), ask="error").n == 280
    for mixed in (lambda x, y: (x - x.mean(0), y), lambda x, y: (x[:, : 3 + int(x.max() > 2)], y)):
        with refusal("others that collate_fn of the loader, or __getitems__ of its data set, puts into its batch"):
            bound_set(collated(mixed))


class Worst:
    """Errors, which it adds up as it goes."""

    worst = torch.tensor(0.0)

    def __call__(self, outputs, labels):
        errors = outputs.argmax(dim=1) != labels
        self.worst = self.worst + errors.sum()
        return errors


LOSSES = {
    "a mean": (lambda z, y: z.sum(dim=1).sigmoid().mean(), "one number for each"),
    "a column": (lambda z, y: z.sigmoid()[:, :1], "got .1, 1.: .* drop a last axis of one"),
    "beyond one, at the end": (lambda z, y: 1.0 + (y == 2) * (len(y) == 50) * z[:, 0].abs(), r"in \[0, 1\]"),
    "an error of its own": (lambda z, y: z["logits"], "the loss failed"),
    "one that keeps the errors": (Worst(), "the loss changes worst"),
    "sizes that are no real numbers": (lambda z, y: (z.argmax(1) != y) * 1j, "got complex ones"),
    "targets that are no real numbers": (lambda z, y: ClippedError(at=1.0)(z[:, 0], y + 5j), "got complex ones"),
    "targets that double precision rounds": (
        lambda z, y: ClippedError(at=500.0)(z[:, 0], 17 * 10**17 + y),
        r"must be below 2\*\*53",
    ),
    "targets turned over": (
        lambda z, y: ClippedError(at=1.0)(z.new_zeros(len(z), 2, 3), z.new_zeros(len(z), 3, 2)),
        "of one shape, got",
    ),
    "one that pairs all with all": (
        lambda z, y: (z[:, :1] - y).abs().clamp(max=1.0).mean(dim=1),
        r"depends on the other .* a loss= of outputs \[n, 1\] less labels \[n\] pairs all",
    ),
    "one that looks at the others": (lambda z, y: (z[:, 0] > z[:, 0].mean()).double(), "depends on the other"),
}
OF_LOSSES = [(NET, [part(0, 125), part(125, 250), part(250, 300)], said, loss) for loss, said in LOSSES.values()]


@pytest.mark.wrong_types
@every_case(
    ("network", "data", "said", "loss"), [(*row, None) for row in REFUSED.values()] + OF_LOSSES, ids=[*REFUSED, *LOSSES]
)
def test_what_does_not_fit_is_refused_in_a_sentence(network, data, said, loss):
    with refusal(said) as caught:
        certify(network, data, loss=loss)
    assert "\n" not in str(caught.value)


def test_what_was_written_on_a_private_mapping_and_memory_that_no_file_backs_stay(tmp_path):
    np.save(tmp_path / "numbers.npy", INPUTS.numpy())
    mapped = np.load(tmp_path / "numbers.npy", mmap_mode="c")
    held = np.ndarray(INPUTS.shape, np.float32, buffer=mmap.mmap(-1, INPUTS.numpy().nbytes))
    held[:] = INPUTS.numpy()
    for array in (mapped, held):
        array += 1.0
        certify(Network(network=NET, batch_size=64), (array, LABELS))
        assert array_equal(array, INPUTS.numpy() + 1.0)


PLACES = torch.zeros(300, 3), torch.zeros(300, dtype=torch.float64)


def into_one_tensor(inputs):
    return PLACES[0].resize_(len(inputs), 3).copy_(NET(inputs))


def loss_into_one_tensor(outputs, labels):
    return PLACES[1].resize_(len(labels)).copy_(outputs.argmax(dim=1) != labels)


class IntoOneBatch:
    """A loader that writes every batch where the one before it was."""

    def __iter__(self):
        batch = tuple(map(Tensor.clone, part(0, 50)))
        for start in range(0, 300, 50):
            for held, own in zip(batch, part(start, start + 50), strict=True):
                held.copy_(own)
            yield batch


@parametrize(("loss", "data"), [(None, ALL), (loss_into_one_tensor, ALL), (None, IntoOneBatch())])
def test_what_is_written_into_one_tensor_batch_by_batch_is_counted_as_it_was(loss, data):
    found = certify(Network(network=into_one_tensor, batch_size=50), data, loss=loss).measured[0].mean
    assert found == near(float((NET(INPUTS).argmax(dim=1) != LABELS).double().mean()))


class Attribute(Module):
    """A network that keeps something of what it saw."""

    def __init__(self, keep):
        super().__init__()
        self.net, self.keep, self.seen = NET, keep, None

    def forward(self, x):
        out = self.net(x)
        self.seen = self.keep(self.seen, out)
        return out if self.seen is None else out + self.seen


def above(size, change):
    """Outputs changed in batches of so many rows and more."""
    return lambda x: change(NET(x)) if len(x) >= size else NET(x)


CALLS = itertools.count()
MIXED = {
    "mixes from 300": (above(300, lambda z: z - z.mean(0)), [part(0, 300)], "other examples of its batch"),
    "another loss from 300": (above(300, lambda z: z * 0), [part(0, 300)], "other examples of its batch"),
    "a larger batch later": (
        above(200, lambda z: z - z.mean(0)),
        [part(0, 100), part(100, 300)],
        "other examples of its batch",
    ),
    "counts": (Attribute(lambda seen, out: (seen or 0) + 1).eval(), ALL, "other examples|changes seen"),
    "mixes smaller batches that come later": (
        lambda x: NET(x) - (NET(x).mean(0) if len(x) == 40 else 0.0),
        [part(0, 100), *(part(k, k + 40) for k in range(100, 300, 40))],
        "other examples of its batch",
    ),
    "mixes a few places of a smaller batch": (
        lambda x: torch.cat([NET(x[:4]), NET(x[4:9]) - (NET(x).mean(0) if len(x) == 100 else 0.0), NET(x[9:])]),
        [part(0, 200), part(200, 300)],
        "other examples of its batch",
    ),
    "mixes from a call on that is counted where nothing looks": (
        lambda x: NET(x) - (NET(x).mean(0) if next(CALLS) > 60 else 0.0),
        DataLoader(Pairs(), batch_size=5),
        "other examples of its batch",
    ),
    "mixes by a word that comes later": (
        lambda ids: NET(ids / 300) - (NET(ids / 300).mean(0) if (ids > 250).any() else 0.0),
        [{"ids": at[:, None].expand(-1, 6), "labels": LABELS[at]} for at in torch.arange(300).split(100)],
        "other examples of its batch",
    ),
    "mixes far below one": (lambda x: 1e-7 * NET(x).mean(0) + 1e-9 * NET(x), ALL, "other examples of its batch"),
    "mixes beside a large number": (
        lambda x: 1e3 + 0.5 * NET(x).mean(0) + 1e-3 * NET(x),
        ALL,
        "other examples of its batch",
    ),
    "overwrites inputs": (lambda x: NET(x.mul_(1.5)), ALL, "changes its inputs"),
    "overwrites inputs in large batches": (
        lambda x: NET(x.mul_(1.5) if len(x) > 50 else x * 1.5),
        ALL,
        "changes its inputs",
    ),
    "adapts late": (
        Attribute(lambda seen, out: out.detach().mean() if len(out) == 7 else seen).eval(),
        DataLoader(Pairs(), batch_size=293),
        "other examples|changes seen",
    ),
}


@every_case("name", MIXED)
def test_networks_are_tried_at_the_batches_that_they_meet(name):
    network, data, words = MIXED[name]
    before = INPUTS.clone()
    with refusal(words):
        certify(network, data)
    assert torch.equal(INPUTS, before)
