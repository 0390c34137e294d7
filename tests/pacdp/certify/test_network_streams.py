"""A network as it is, on examples from loaders, in keywords, with any bounded loss: the same numbers, or a sentence."""

import itertools
import mmap
from typing import Any

import numpy as np
import pytest
import torch
from numpy import array_equal
from sklearn.dummy import DummyClassifier
from torch import Tensor, equal
from torch.nested import nested_tensor
from torch.nn import Dropout, Linear, Module, Sequential
from torch.utils.data import (
    BatchSampler,
    ConcatDataset,
    DataLoader,
    DistributedSampler,
    RandomSampler,
    Subset,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
    default_collate,
)

from pacdp import Network, certify, certify_predictions
from pacdp.certify import BoundSet, ClippedError, Finite
from pacdp.certify.loaders import bound_set
from pacdp.data import DataError
from tests.marks import every_case, near, parametrize, refusal
from tests.pacdp.certify.stream_toys import (
    ALL,
    FORMS,
    GENERATOR,
    INPUTS,
    JITTER,
    LABELS,
    NET,
    PEOPLE,
    RECORDS,
    SLOPES,
    TWICE,
    Bar,
    Bulk,
    Centred,
    Endless,
    Ends,
    Fetched,
    Lacking,
    Opened,
    Output,
    Pairs,
    PassedOn,
    Stream,
    collated,
    drawn,
    in_bulk,
    longest,
    one_with_a_gap,
    padded_where_they_lie,
    part,
    shown,
    those_there,
)
from tests.schema import validate


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


def test_single_outputs_that_may_be_cut_elsewhere_are_remarked_upon():
    """A least-squares fit to 0 and 1 answers about 0.5, a logit about 0."""
    labels = (INPUTS[:, 0] > 0).long()
    fitted = certify(lambda x: 0.5 + 0.3 * x[:, 0].clamp(-2, 2), (INPUTS, labels), ask="error")
    assert any("if yours is cut at 0.5, return z - 0.5" in one for one in fitted.remarks)
    for slope in (0.1, 0.3, 1.0, 5.0):
        assert not certify(lambda x, slope=slope: slope * x[:, 0], (INPUTS, labels), ask="error").remarks


def test_outputs_that_are_no_numbers_are_remarked_upon():
    """They were called ties alone, and what the other rows take them for was not said."""
    said = "7 rows of your network have an output that is NaN: each counts as an error"
    assert not certify(NET, ALL, ask="error").remarks
    least = INPUTS[:, 0].sort().values[7]
    found = certify(lambda x: NET(x).where(x[:, :1] >= least, torch.nan), ALL, ask="brier")
    assert found.remarks[0].startswith(said)


def test_what_numpy_is_told_to_raise_is_the_callers_own():
    """Tiny probabilities and weights underflow, which is no error."""
    far, two = Network(network=lambda x: 1e3 * NET(x)), Finite(networks=[NET, Linear(6, 3).eval()])
    for law, data in ((far, ALL), (far, (*ALL, PEOPLE)), (two, ALL)):
        whole = shown(certify(law, data))
        with np.errstate(all="raise"):
            assert shown(certify(law, data)) == whole
            assert np.geterr()["under"] == "raise"


def test_pairs_that_share_items_are_remarked_upon():
    def joined(first, second):
        return NET(first[:, :6] * second[:, :6])

    items, (i, j) = torch.randn(25, 16), torch.triu_indices(25, 25, 1)
    pairs = {"first": items[i], "second": items[j], "labels": torch.arange(300) % 3}
    found = certify(joined, [pairs], ask="error").remarks
    assert [one.split(" different rows in")[0] for one in found] == ["'first' has 23", "'second' has 23"]
    others = {**pairs, "first": torch.randn(300, 16), "second": torch.ones(300, 16)}
    for apart in (others, {**pairs, "people": np.arange(300) // 2}):
        assert not any("different rows" in one for one in certify(joined, [apart], ask="error").remarks)


def test_losses_whose_neighbours_are_alike_are_remarked_upon():
    """Overlapping windows of one series, say; a random order brings none of it."""
    inputs = torch.linspace(0.0, 9.0, 300).sin()[:, None]
    loss, targets = ClippedError(at=2.0), torch.zeros(300)
    found = certify(lambda x: x, (inputs, targets), loss=loss).remarks
    assert any("a loss on the same side of the median as the row before" in one for one in found)
    for order in (torch.randperm(300), inputs[:, 0].abs().argsort()):
        assert not certify(lambda x: x, (inputs[order], targets), loss=loss).remarks


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


REFUSED = {
    "a network in train mode": (Sequential(Linear(6, 3), Dropout()), ALL, "train mode"),
    "no logits": (lambda x: {"scores": NET(x)}, ALL, "returned dict with scores"),
    "an error of its own": (lambda x: {}["pixels"], ALL, "KeyError: 'pixels'"),
    "a batch of one part": (NET, DataLoader(TensorDataset(INPUTS)), "got list|as \\(inputs, labels\\)"),
    "nothing": (NET, [], "no examples"),
    "gaps": (NET, (np.ma.masked_greater(INPUTS.numpy(), 1), LABELS), "inputs in data are a masked array"),
    "people in some batches": (NET, [part(0, 50), (*part(50, 300), PEOPLE[50:])], "all or none"),
    "no network": ({"weight": INPUTS}, ALL, "expected law to be a network, as a module or a function"),
    "an estimator": (DummyClassifier(), ALL, "DummyClassifier: .* an estimator's answers to certify_predictions"),
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
    "padded batches without a mask, and without examples that are lacking": (
        lambda inputs, taken: inputs.mean(dim=1, keepdim=True) * SLOPES,
        DataLoader(Lacking(), batch_size=50, collate_fn=those_there), "others that collate_fn"),
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
    "no end of a stream": (NET, DataLoader(Stream(), batch_size=70, drop_last=True), "last batch by drop_last"),
    "no end of listed places": (
        NET, DataLoader(Pairs(), batch_size=70, sampler=range(300), drop_last=True), "last batch by drop_last"),
    "no end of one process's places": (
        NET, DataLoader(Pairs(), 70, sampler=DistributedSampler(Pairs(), 1, 0, shuffle=False), drop_last=True),
        "last batch by drop_last"),
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
    "probabilities of one class, weighted": (
        lambda x: sum(0.1 * (40 * NET(x)[:, 0]).sigmoid() for _ in range(10)), (INPUTS, LABELS % 2),
        "the outputs are probabilities"),
    "probabilities of one class, weighted in half precision": (
        lambda x: sum(0.1 * (40 * NET(x)[:, 0]).bfloat16().sigmoid() for _ in range(10)), (INPUTS, LABELS % 2),
        "the outputs are probabilities"),
    "probabilities, weighted": (
        lambda x: sum(0.1 * (40 * NET(x)).softmax(1) for _ in range(10)), ALL, "the outputs are probabilities"),
    "probabilities of which one is below nothing": (
        lambda x: 1.0 - sum(0.1 * (40 * NET(x)[:, 0]).sigmoid() for _ in range(10)), (INPUTS, LABELS % 2),
        "the outputs are probabilities"),
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
    "whole numbers of 16 bits": (
        ByColumn().eval(), torch.cat([KINDS, (9 * INPUTS).long()[:, :4].abs()], dim=1).to(torch.uint16)),
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
    for sampler in (RandomSampler(Pairs()), SubsetRandomSampler(range(300)), DistributedSampler(Pairs(), 1, 0)):
        shuffled = DataLoader(Pairs(), batch_size=70, sampler=sampler, drop_last=True)
        assert certify(NET, shuffled, ask="error").n == 280
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


HIDDEN = {
    "by a large clip": ClippedError(at=1e4),
    "of several outputs": ClippedError(at=1e4, kind="squared"),
    "by a function": lambda z, y: ((z - y) / 1e4).abs().clamp(max=1.0),
}


@every_case("name", HIDDEN)
def test_a_loss_that_is_small_beside_its_range_hides_no_mixing(name):
    columns = slice(0, 3) if "several" in name else 0
    inputs, loss = INPUTS.clamp(-2.0, 2.0), HIDDEN[name]
    targets = inputs[:, columns] + 0.1

    def own(x):
        return x.clamp(-2.0, 2.0)[:, columns]

    assert certify(own, (inputs, targets), loss=loss).certificates[0].value < 0.02
    with refusal("other examples of its batch"):
        certify(lambda x: own(x) - own(x).mean(0), (inputs, targets), loss=loss)


def test_a_loss_may_write_on_outputs():
    targets = INPUTS[:, 0] + 0.1
    plain = certify(lambda x: x[:, 0], (INPUTS, targets), loss=ClippedError(at=1.0)).certificates[0]
    written = certify(lambda x: x[:, 0].clone(), (INPUTS, targets), loss=lambda z, y: z.sub_(y).abs_().clamp_(max=1.0))
    assert written.certificates[0].value == near(plain.value)
