"""What proves that a network saw none of the examples, and what only looks so."""

import itertools
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import equal
from torch.nn import Module
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
)

import bounds
from pacdp import GaussianPosterior, HeldOut, Prior, Private, Settings, certify
from pacdp.certify import BoundSet, DataFree, Finite, Surrogate
from pacdp.certify.evidence import rows_of
from pacdp.certify.loaders import bound_set
from pacdp.data import DataError, Rows
from pacdp.data import Dataset as Images
from pacdp.store.record import Values
from tests.marks import every_case, parametrize, refusal
from tests.pacdp.certify.stream_toys import (
    ALL,
    FORMS,
    INPUTS,
    JITTER,
    LABELS,
    NET,
    PEOPLE,
    Bar,
    Jittered,
    Listed,
    Pairs,
    PassedOn,
    Stream,
    drawn,
    in_bulk,
)

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


def test_two_sets_of_inputs_in_a_list_are_not_read_as_inputs_and_targets():
    two = [INPUTS[:10].clone(), INPUTS[10:20].clone()]
    with refusal("seen is a list of two arrays of one shape, which may be inputs and targets or two sets of inputs"):
        rows_of(two, "seen")
    assert rows_of((*two,), "seen").n == 10


def test_rows_of_another_width_prove_nothing_of_what_was_seen():
    with refusal("inputs of 7 and of 6 numbers", DataError):
        certify(NET, ALL, seen=(torch.cat([INPUTS, LABELS[:, None]], dim=1) + 1.0, LABELS))
    fractions = INPUTS.numpy().astype(float) / 3  # which the network read in single precision
    with refusal("of double and of single precision", DataError):
        certify(NET, (torch.tensor(fractions).float(), LABELS), seen=(fractions, LABELS.numpy()))


class Flat(Module):
    def forward(self, x):
        return Sums()(x.flatten(1))


def test_images_with_channels_first_prove_nothing_of_those_with_channels_last():
    """The same images were proved to be others, since their numbers stand in another order."""
    first = torch.randn(300, 3, 4, 4, generator=torch.Generator().manual_seed(0))
    last, other = first.permute(0, 2, 3, 1).contiguous(), torch.sin(first)
    shown = rows_of((last, LABELS), "seen")
    for seen in ((last, LABELS), [(last, LABELS)], shown, Rows.from_arrays(shown.to_arrays())):
        for data in ((first, LABELS), BoundSet(inputs=first, labels=LABELS)):
            kept = (
                certify(Flat().eval(), data, seen=seen).certificates[0].hypothesis("predictor saw none of these rows")
            )
            assert kept.standing == "declared"
            assert "the axes [4, 4, 3] and [3, 4, 4]" in kept.by
    for same in (other, other.flatten(1), other[:, None]):
        kept = certify(Flat().eval(), (first, LABELS), seen=(same, LABELS))
        assert kept.certificates[0].hypothesis("predictor saw none of these rows").standing == "proved"


def test_of_two_networks_it_is_said_which_one_saw_what():
    """Of a network of which nobody said what it saw the examples were called others than those named as seen by it."""
    known = certify(NET, OTHERS, seen=ALL, ask="error", failure_prob=0.02).certificates[0]
    by = Surrogate(network=NET, certificate=known, saw={"its own": ALL})
    rows = torch.cos(3.0 * INPUTS)
    for seen in (None, HeldOut(rows=rows_of(ALL, "seen"))):
        said = certify(NET, rows, seen=seen, surrogate=by, failure_prob=0.9).headline()
        assert "300 examples without labels)" in said
        assert "that the surrogate's certificate is that network's, which you say" in said
        assert ("neither network saw those without labels" in said) == (seen is None)
    unsaid = replace(by, certificate=certify(NET, OTHERS, ask="error", failure_prob=0.02).certificates[0])
    said = certify(NET, rows, seen=ALL, surrogate=unsaid, failure_prob=0.9).headline()
    assert "the surrogate had seen none of the examples of its certificate" in said


def test_one_column_of_fractions_and_a_batch_of_few_bits_hide_no_double_precision():
    generator = torch.Generator().manual_seed(0)
    last = torch.randn(300, 1, generator=generator, dtype=torch.float64)
    codes = torch.cat([torch.rand(300, 99, generator=generator).lt(0.3), last], dim=1)  # width 100
    halves = torch.cat([torch.full((1, 6), 0.5), INPUTS[1:].double() / 3])
    for rows, batch in ((codes, 300), (codes, 50), (halves, 1)):
        seen = DataLoader(TensorDataset(rows, LABELS), batch_size=batch)
        with refusal("of double and of single precision", DataError):
            certify(Sums().eval(), DataLoader(TensorDataset(rows.float(), LABELS), batch_size=batch), seen=seen)


class Two(Module):
    def forward(self, image, meta):
        return Sums()(image.float()) + Sums()(meta.float())


@parametrize("change", [torch.Tensor.float, lambda image: image / 255, torch.Tensor.double])
def test_one_of_several_inputs_in_another_form_proves_nothing(change):
    raw = torch.randint(0, 256, (300, 6), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)

    def batches(image, meta):
        return [{"image": image, "meta": meta, "labels": LABELS}]

    kept = certify(Two().eval(), batches(change(raw), INPUTS + 0.1), seen=batches(raw, INPUTS + 0.2))
    standing = kept.certificates[0].hypothesis("predictor saw none of these rows").standing
    assert standing == ("declared" if change(raw).amax() <= 1.0 else "proved")
    again = Rows.from_arrays(rows_of(batches(raw, INPUTS), "seen").to_arrays())
    assert not again.silent(rows_of(batches(raw.float(), INPUTS), "seen"))


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


class Late(Jittered):
    """A stream whose first batch alone comes again."""

    def __iter__(self):
        return iter([*zip(INPUTS[:50], LABELS[:50], strict=True), *list(super().__iter__())[50:]])


STREAMS = {
    "random transforms from the second batch on": lambda: DataLoader(Late(), batch_size=50),
    "random transforms": lambda: DataLoader(Jittered(), batch_size=50),
    "a stream without a loader": lambda: itertools.chain(DataLoader(Jittered(), batch_size=50)),
    "a generator": lambda: ((x, y) for x, y in zip(INPUTS.split(50), LABELS.split(50), strict=True)),
    "a map": lambda: map(tuple, DataLoader(TensorDataset(*ALL), batch_size=50)),
}


@every_case("stream", STREAMS)
def test_streams_whose_next_reading_is_another_prove_nothing(stream):
    far = INPUTS + 9.0, LABELS
    for data, seen in ((far, STREAMS[stream]()), (STREAMS[stream](), far)):
        kept = certify(NET, data, seen=seen, ask="error").certificates[0].hypothesis("predictor saw none of these rows")
        assert kept.standing == "declared"
        assert "rows of a stream are others at another reading" in kept.by
    assert bound_set(STREAMS[stream]()).rows.silent(Rows.of(*far))
    assert not bound_set(DataLoader(Stream(), batch_size=50)).rows.silent(Rows.of(*far))


def test_rows_of_a_random_split_are_looked_at_in_the_order_of_their_data_set():
    """People with eight rows after another stand apart in a split by examples."""
    whole = TensorDataset(INPUTS, torch.arange(300) // 8 * 7 % 5 % 2)
    places = torch.randperm(300, generator=torch.Generator().manual_seed(0))[:200].tolist()
    for part in (Subset(whole, places), Subset(Changed(whole, torch.sin), places)):
        for data in (part, DataLoader(part, batch_size=50)):
            (remark,) = certify(NET, data, ask="error").remarks
            assert "the label of the row before" in remark
    law = GaussianPosterior.around(NET, std=0.01)
    found = certify(law, Subset(whole, places), prior=Prior(law=law, source=DataFree()), network=NET)
    assert "the label of the row before" in found.remarks[0]
    held, people = TensorDataset(*ALL, torch.from_numpy(PEOPLE)), PEOPLE[places]
    found = certify(NET, Subset(held, places), ask="error")
    assert found.statements == certify(NET, (INPUTS[places], LABELS[places], people), ask="error").statements


def test_default_types_of_torch_do_not_decide_which_examples_are_tried():
    torch.set_default_dtype(torch.bfloat16)
    try:
        assert certify(NET, DataLoader(TensorDataset(*ALL), batch_size=300), ask="error").n == 300
    finally:
        torch.set_default_dtype(torch.float32)


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_nested_tensors_are_told_so():
    nested = torch.nested.nested_tensor([*INPUTS])
    with refusal("must be a dense tensor that holds values, got a nested one"):
        certify(NET, (nested, LABELS))
    with refusal("the network returned Tensor of torch.float32 and nested"):
        certify(lambda x: torch.nested.nested_tensor([*x]), ALL)


def test_one_folder_under_two_transforms_is_refused_and_two_folders_are_not():
    same, other = Listed(torch.sin), Listed(torch.cos)
    for held in ([same, other], [Subset(same, range(200)), Subset(other, range(199, 300))]):
        with refusal("the data set gives (300|1) of its (600|301) examples again"):
            certify(NET, DataLoader(ConcatDataset(held), batch_size=50, shuffle=True), ask="error")
    for parts in (
        [same, Listed(torch.cos, range(300, 600))],
        [Subset(same, range(200)), Subset(other, range(200, 300))],
    ):
        certify(NET, DataLoader(ConcatDataset(parts), batch_size=50, shuffle=True), ask="error")


class Changed(torch.utils.data.Dataset):
    """Another data set's examples under a transform."""

    def __init__(self, inner, transform=None):
        self.inner, self.transform = inner, transform

    def __len__(self):
        return len(self.inner)

    def __getitem__(self, k):
        x, y = self.inner[k]
        return (x if self.transform is None else self.transform(x)), y


def test_what_hands_on_another_data_set_gives_that_ones_examples():
    data = Pairs()
    for held in (
        ConcatDataset([data, Changed(data, torch.sin)]),
        ConcatDataset([Subset(data, range(200)), Changed(Subset(data, range(199, 300)), torch.cos)]),
        Changed(Changed(Subset(data, [0, 0, *range(1, 200)])), lambda x: x + 0.01 * torch.randn(6)),
    ):
        with refusal("of its .* examples again"):
            certify(NET, held, ask="error")
    for held in (
        Changed(Subset(data, range(200)), torch.sin),
        ConcatDataset([Changed(Subset(data, range(150)), torch.sin), Subset(data, range(150, 300))]),
    ):
        assert certify(NET, held, ask="error").n == len(held)


def test_places_of_one_data_set_are_told_under_any_transform():
    """Two random splits of two data sets that differ by their transforms have rows of other hashes."""
    one, other = Listed(torch.sin), Listed(torch.cos)
    seen = Subset(one, range(200))
    for data in (Subset(other, range(199, 300)), Changed(Subset(one, range(199, 300)), torch.cos)):
        for given in (seen, DataLoader(seen, shuffle=True), DataLoader(one, sampler=SubsetRandomSampler(range(200)))):
            with refusal("the rows that the network saw and the bound's rows give 1 of the same examples", DataError):
                certify(NET, data, seen=given, ask="error")
        law = GaussianPosterior.around(NET, std=0.01)
        known = certify(NET, Subset(one, range(200)), ask="error").certificates[0]
        by = Surrogate(network=NET, certificate=known, saw={"its own": seen})
        around: Values = {"law": law, "network": NET}
        held = Prior(law=law, source=HeldOut(rows=rows_of(seen, "seen")))
        for asked in (
            {"law": NET, "test": seen},
            {"law": NET, "settings": Settings.chosen_on(seen)},
            {"law": NET, "surrogate": by, "failure_prob": 0.2},
            {**around, "prior": held},
            {**around, "prior": Prior(law=law, source=DataFree()), "test": seen},
        ):
            with refusal("give 1 of the same examples", DataError):
                certify(data=data, **asked)
    for data in (Subset(other, range(200, 300)), Listed(torch.cos, range(300, 600)), STREAMS["a generator"]()):
        certify(NET, data, seen=seen, ask="error")


def test_tensors_are_one_data_set_however_often_one_is_made_of_them():
    def split(part, transform):
        return Changed(Subset(TensorDataset(INPUTS, LABELS), part), transform)

    with refusal("the rows that the network saw and the bound's rows give 1 of the same examples", DataError):
        certify(NET, split(range(199, 300), torch.cos), seen=split(range(200), torch.sin))
    assert certify(NET, split(range(200, 300), torch.cos), seen=split(range(200), torch.sin), ask="error").n == 100


def test_images_kept_in_lists_are_the_same_under_two_transforms():
    one, other = Kept(torch.sin), Kept(torch.cos)
    with refusal("give 1 of the same examples", DataError):
        certify(NET, Subset(other, range(199, 300)), seen=Subset(one, range(200)), ask="error")


class Kept(torch.utils.data.Dataset):
    def __init__(self, transform):
        self.images, self.labels, self.transform = [one.clone() for one in INPUTS], LABELS.tolist(), transform

    def __len__(self):
        return len(self.images)

    def __getitem__(self, k):
        return self.transform(self.images[k]), self.labels[k]


def test_recordings_that_begin_and_end_alike_are_several():
    inputs = torch.randn(6, 500, 6)
    inputs[:, :40] = inputs[:, -40:] = 0.0
    known = [Recording(one.numpy()) for one in inputs]
    assert certify(NET, ConcatDataset(known), ask="error").n == 6 * 5
    with refusal("gives 5 of its 10 examples again"):
        certify(NET, ConcatDataset([known[0], Recording(inputs[0].numpy().copy())]), ask="error")


class Recording(torch.utils.data.Dataset):
    """Windows of one recording."""

    def __init__(self, signal):
        self.signal, self.starts = signal, list(range(50, 450, 80))

    def __len__(self):
        return len(self.starts)

    def __getitem__(self, k):
        return torch.from_numpy(self.signal[self.starts[k]]), 0


class Named(Module):
    def forward(self, inputs, **_):
        return NET(inputs)


def test_keys_that_say_whose_an_example_is_are_remarked_upon():
    batch = {"inputs": INPUTS, "labels": LABELS, "patient_id": torch.from_numpy(PEOPLE)}
    slides = {"inputs": INPUTS, "labels": LABELS, "slide_id": torch.from_numpy(PEOPLE)}
    assert any("is given 'slide_id'" in one for one in certify(Named().eval(), [slides]).remarks)
    said = "the network is given 'patient_id', and n counts examples"
    assert any(said in one for one in certify(Named().eval(), [batch]).remarks)
    for other in ({**batch, "people": PEOPLE}, {**batch, "patient_id": INPUTS[:, 0], "people": PEOPLE}):
        assert not any(said in one for one in certify(Named().eval(), [other]).remarks)


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
