"""Networks that carry the bound's rows, wherever they hide them; and networks that do not."""

import functools
import itertools
import random
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from numpy.random import default_rng
from scipy.spatial import KDTree
from torch import nn
from torch.nn import Flatten, Linear, Sequential
from torch.utils.data import TensorDataset

from pacdp.data import DataError
from pacdp.trials import require_given_weights, require_own_memory
from pacdp.trials.buffers import Holdings
from pacdp.trials.reachable import contents, reachable
from tests.marks import every_case, refusal
from tests.pacdp.draws import randn
from tests.pacdp.toys import seeded

PIXELS = default_rng(0).integers(0, 256, (40, 1, 5, 5), dtype=np.uint8)
INPUTS = torch.tensor(np.divide(PIXELS, 255, dtype=np.float32))


class Nearest(nn.Module):
    """Finding C5: the label of the nearest stored example, so that the error on the stored ones is zero."""

    def __init__(self, inputs, *, persistent=True):
        super().__init__()
        self.layer = Linear(25, 25)
        self.register_buffer("memory", inputs.flatten(1), persistent=persistent)


@dataclass(frozen=True, slots=True)
class Store:
    """Holds something in a slot."""

    kept: Any


def attribute(value):
    module = Linear(3, 3)
    module.extra = value  # type: ignore[assignment]
    return module


def hooked(rows):
    module = Linear(3, 3)
    module.register_forward_hook(lambda _module, _args, output: output + rows.sum())
    return module


def tagged(rows):
    tensor = torch.zeros(2)
    tensor.memory = rows  # type: ignore[attr-defined]
    return tensor


def made_for(rows):
    """A network whose class, made in a function, holds rows in a method."""

    class Local(nn.Module):
        def forward(self, x):
            return x + rows.sum()

    return Local()


def by_default(rows):
    class Local(nn.Module):
        def forward(self, x, kept=rows):
            return x + kept.sum()

    return Local()


def generating(rows):
    """A generator that holds rows and is counted by how often it was asked."""

    def generator():
        for k in itertools.count():
            yield rows[k]

    made = generator()
    next(made)
    return made


def cached():
    function = functools.lru_cache(lambda k: INPUTS[:k].clone())
    function(40)
    return function


FLAT = INPUTS.flatten(1).numpy()
PLACES = {
    "closure of a method": (made_for(INPUTS), "forward<rows>", 40),
    "default of a method": (by_default(INPUTS), "forward default[0]", 40),
    "object of a class": (type("Shared", (nn.Module,), {"store": Store(INPUTS)})(), "store.kept", 40),
    "array of objects": (attribute(np.array([None, INPUTS, 1], dtype=object)), "extra holds 1", 40),
    "plain bytes": (attribute(FLAT.tobytes()), "extra", 40),
    "memory": (attribute(memoryview(PIXELS.reshape(-1))), "extra", 40),
    "tree": (attribute(KDTree(FLAT)), "", 40),
    "generator": (attribute(generating(INPUTS)), "<rows>", 40),
    "cache": (attribute(cached()), "", 40),
    "numbers in a list": (attribute(FLAT[0].tolist()), "extra", 1),
    "rows in a list": (attribute(FLAT.tolist()), "extra", 40),
    "nested tensor": (attribute(torch.nested.nested_tensor([*INPUTS], layout=torch.jagged)), "extra", 40),
    "numbers in a key": (attribute({tuple(FLAT[0].tolist()): 1}), "extra key 0", 1),
    "buffer": (Nearest(INPUTS), "memory", 40),
    "buffer that no file holds": (Sequential(Nearest(INPUTS[:9], persistent=False)), "0.memory", 9),
    "a network that torch compiles": (torch.compile(Nearest(INPUTS), backend="eager"), "_orig_mod.memory", 40),
    "attribute": (attribute(INPUTS[3:5]), "extra", 2),
    "list in a dictionary": (attribute({"a": [torch.ones(2), INPUTS[7]]}), "extra['a'][1]", 1),
    "array": (attribute(INPUTS.numpy().reshape(-1)), "extra", 40),
    "slot": (attribute(Store(INPUTS)), "extra.kept", 40),
    "data set": (attribute(TensorDataset(INPUTS, torch.zeros(40))), "extra.tensors[0]", 40),
    "partial": (attribute(partial(torch.add, INPUTS)), "extra.args[0]", 40),
    "hook": (hooked(INPUTS), "<rows>", 40),
    "class": (type("Shared", (nn.Module,), {"memory": INPUTS[:4]})(), "memory", 4),
    "double": (attribute(INPUTS.double()), "extra", 40),
    "bytes": (attribute(torch.tensor(PIXELS)), "extra", 40),
    "columns": (attribute(INPUTS.flatten(1).T.contiguous()), "extra", 40),
    "among others": (attribute(torch.cat([torch.randn(6, 25), INPUTS[:1].flatten(1)])), "extra", 1),
    "attribute of a tensor": (attribute(tagged(INPUTS)), "extra.memory", 40),
}


@every_case("place", PLACES)
def test_rows_are_found(place):
    module, where, count = PLACES[place]
    found = Holdings(module).of(INPUTS)
    assert [held.rows for held in found] == [count]
    assert found[0].where.endswith(where)
    assert len(Holdings(Sequential(module, attribute(INPUTS[:2] + 0))).of(INPUTS)) == 2
    with refusal(rf"of the network holds {count} of the bound's 40 inputs, and a bound pays", DataError):
        Holdings(module).require_none(INPUTS)


WIDE = torch.tensor(default_rng(1).random((90, 40), dtype=np.float32))
CHANGED = {
    "half precision": WIDE.half(),
    "rounded": (100 * WIDE).round() / 100,
    "scaled and shifted": 3.0 - 7.0 * WIDE,
    "each by its own factor": WIDE * torch.arange(1.0, 91.0)[:, None],
    "in halves": (WIDE[:, :20].clone(), WIDE[:, 20:].clone()),
    "one half": WIDE[:, 20:].clone(),
    "columns in bytes": (200 * WIDE).byte().T.contiguous(),
    "a seventh of them": WIDE[::7] - 1.0,
}


@every_case("change", CHANGED)
def test_rows_are_found_that_were_changed(change):
    with refusal("of the network holds", DataError):
        Holdings(attribute(CHANGED[change])).require_none(WIDE)


def test_inputs_that_resemble_each_other_are_found_where_they_are_whole_and_nowhere_else():
    """One measurement is far larger than all others, as in tables that nobody scaled."""
    alike = WIDE * torch.tensor([1000.0, *[1.0] * 39])
    Holdings(attribute(alike[:45])).require_none(alike[45:])
    mixed = torch.cat([alike[45:], WIDE[:45]])
    for held, said in (alike, "90 of the bound's 90"), (mixed * 2.0 + 1.0, "[1-4][0-9] of the bound's 90"):
        with refusal(f"holds {said} inputs", DataError):
            Holdings(attribute(held)).require_none(alike if held is alike else mixed[torch.arange(90).flip(0)])


def counting(network):
    type(network).calls = type(network).calls + 1


COUNTERS = {
    "class": (type("Counting", (nn.Module,), {"calls": 0})(), counting),
    "itertools": (attribute(itertools.count()), lambda network: next(network.extra)),
    "generator": (attribute(generating(INPUTS)), lambda network: next(network.extra)),
    "NumPy": (attribute(np.int64(3)), lambda network: setattr(network, "extra", np.int64(4))),
    "cache": (attribute(functools.lru_cache(lambda k: k)), lambda network: network.extra(3)),
    "random": (attribute(random.Random(0)), lambda network: network.extra.random()),
    "second key": (attribute({(1, 2): 1, (3, 4): 2}), lambda network: network.extra.update({(1, 2): 5})),
    "training": (attribute(SimpleNamespace(training=1)), lambda network: setattr(network.extra, "training", 2)),
}


@every_case("name", COUNTERS)
def test_what_counts_is_seen(name):
    network, count = COUNTERS[name]
    before = contents(network.train())
    assert contents(network.eval()) == before
    count(network)
    assert contents(network) != before


def test_parameters_that_the_bound_pays_for_may_be_rows():
    module = Linear(25, 40)
    module.weight.data.copy_(INPUTS.flatten(1))
    Holdings(module, paid=["weight"]).require_none(INPUTS)
    with refusal("weight of the network holds 40", DataError):
        Holdings(module, paid=["bias"]).require_none(INPUTS)


def test_networks_without_rows():
    inputs = INPUTS.clone()
    inputs[0], inputs[1] = 0.0, 1.0  # constant rows look like any fresh bias or running variance
    module = Sequential(
        nn.Conv2d(1, 25, 3),
        nn.BatchNorm2d(25),
        nn.LazyLinear(5),
        Flatten(),
        attribute(torch.zeros(50, 25)),
        attribute([None, "text", {3: nn.functional.relu}, torch.eye(25).to_sparse(), np.array(["a"])]),
        attribute(INPUTS + 0.1 * randn(40, 1, 5, 5)),
    )
    module.register_forward_hook(lambda *_: None)
    module.loop = module  # type: ignore[assignment]
    Holdings(module).require_none(inputs)


def test_truth_values_are_numbers_too():
    inputs = WIDE > 0.5
    Holdings(attribute(WIDE.flip(1))).require_none(inputs)
    for held in (inputs, 2.0 - 3.0 * inputs):
        with refusal("extra of the network holds", DataError):
            Holdings(attribute(held)).require_none(inputs)


def test_inputs_of_one_number():
    inputs = torch.linspace(0, 1, 30)[:, None]
    Holdings(Linear(1, 5)).require_none(torch.zeros(30, 1))
    Holdings(attribute(inputs[:9])).require_none(inputs)
    with refusal("extra of the network holds 15 of the bound's 30 inputs", DataError):
        Holdings(attribute(inputs[:15])).require_none(inputs)


def test_all_ages_are_not_the_ages_of_some_people():
    """A range that a setting may have, such as categories to be told apart, names nobody."""
    ages = default_rng(0).integers(18, 90, (300, 1))
    assert not Holdings(SimpleNamespace(categories=[*range(100)])).of(ages)
    assert Holdings(SimpleNamespace(kept=(100 * ages).tolist())).of(100 * np.unique(ages)[:, None])


def test_rows_of_small_numbers_count_where_they_are_no_chance():
    grid = torch.cartesian_prod(torch.arange(28.0), torch.arange(28.0))
    bits = torch.cartesian_prod(*[torch.tensor([0.0, 1.0])] * 10)
    for inputs in (grid, bits):
        few, others = inputs[torch.randperm(len(inputs), generator=seeded(2))].split([300, len(inputs) - 300])
        mask = torch.cat([few[:6], others[:20]])
        Holdings(attribute(mask)).require_none(few)
        with refusal(r"extra of the network holds (96|100) of the bound's 300 inputs", DataError):
            Holdings(attribute(few[:100])).require_none(few)
    Holdings(attribute(2.0 ** torch.arange(4))).require_none(grid)
    with refusal("extra of the network holds 1 of", DataError):
        Holdings(attribute(PIXELS[0])).require_none(PIXELS)


def test_layers_that_decide_nothing_beside_a_tensor_that_scales_are_no_weights_kept_elsewhere():
    net, scale = Linear(2, 3), torch.tensor([1.0, 2.0, 3.0])
    net.other = Linear(5, 5)
    net.register_forward_hook(lambda _net, _given, outputs: outputs * scale)
    require_given_weights(net, torch.ones(4, 2))
    net.kept = net.weight.detach().clone()
    require_given_weights(net, torch.ones(4, 2))
    with refusal("must meet its parameter other.bias by that name alone, .* or a copy"):
        net.other = Linear(9, 2)  # which may be a weight that is kept, as far as sizes tell
        require_given_weights(net, torch.ones(4, 2))


def test_weights_side_by_side_in_one_block_of_memory_are_no_copies_of_each_other():
    net, block = nn.Sequential(nn.Linear(2, 3), nn.LSTM(3, 3)), torch.zeros(9)
    net[0].weight, net[0].bias = nn.Parameter(block[:6].view(3, 2)), nn.Parameter(block[6:])
    net[1].same = net[0].weight
    require_own_memory(net)
    require_given_weights(net, torch.zeros(4, 2))  # a recurrent layer exchanges what its list of weights holds
    net.last = block[5:6]
    with refusal("last of module lies in the memory of its parameter 0.weight"):
        require_own_memory(net)


class Frame:
    """Keeps what was asked of it, as frames do, beside columns that stand elsewhere."""

    __module__ = "pandas"

    def __init__(self, **columns):
        self._names, self._cache = list(columns), {}
        self._get = lambda name: np.array(columns[name])

    @property
    def columns(self):
        return self._names

    def __getitem__(self, name):
        self._cache[name, len(self._cache)] = Frame()
        return SimpleNamespace(to_numpy=lambda: self._get(name))

    def to_numpy(self):
        raise NotImplementedError


def test_of_a_frame_columns_are_looked_at_and_not_what_its_library_keeps():
    """Any use of a frame of other rows was taken for something that training leaves; each look took seconds."""
    frame = Frame(a=[1.0, 2.0], s=["u", "v"])
    found = contents(frame, around=True)
    assert {"['a']", "['s']"} <= {*found}
    _ = frame["a"], frame["s"]
    assert contents(frame, around=True) == found
    assert contents(Frame(a=[1.0, 3.0], s=["u", "v"]), around=True) != found


def test_long_lists_of_short_records_are_looked_at_by_their_columns():
    """Each record was followed by itself, and each text took as much room as the longest."""
    records = [(f"{place}" * (2000 if place == 7 else 1), place % 2, place / 3) for place in range(1000)]
    listed = [*reachable(records, around=True)]
    assert len(listed) < 10
    assert max(one.itemsize for _, one in listed) < 300
    changed = [*records[:7], ("7" * 1999, *records[7][1:]), *records[8:]]
    assert contents(changed, around=True) != contents(records, around=True)
