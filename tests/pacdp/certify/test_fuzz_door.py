"""Any call of the one door, sensible or not: a sentence, or certificates of which everything checkable is true."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from torch import equal, nn
from torch.nn import BatchNorm1d, Dropout, Linear, Sequential

import bounds
from pacdp import GaussianPosterior, HeldOut, Network, Prior, Private, Settings, certify
from pacdp.certify import BoundSet, DataFree, Finite, MonteCarlo, NoPrivacy
from pacdp.data import Split, index_hash
from tests.marks import near, parametrize, slow
from tests.pacdp.toys import seeded
from tests.schema import validate

pytestmark = pytest.mark.wrong_types
DIM = 3
ALWAYS = {"records independent", "new data follow the same law", "settings fixed beforehand"}
ODD = [None, -1, 0, 0.5, 2.5, True, math.nan, math.inf, "x", [], {}, 10**400, object()]


def rows_of(kind, n):
    """Examples of one of four worlds that share no row; "ab" is two of them together."""
    if len(kind) > 1:
        parts = [rows_of(one, n) for one in kind]
        return torch.cat([inputs for inputs, _ in parts]), torch.cat([labels for _, labels in parts])
    generator = seeded(ord(kind))
    return torch.randn(40, DIM, generator=generator)[:n], torch.randint(0, 2, (40,), generator=generator)[:n]


def one_of(draw, *values):
    return draw(st.sampled_from(values))


def seldom(draw, usual, odd):
    return one_of(draw, *odd) if draw(st.integers(0, 30)) == 0 else usual


def bound_set(kind, n, people=None):
    inputs, labels = rows_of(kind, n)
    return BoundSet(inputs=inputs, labels=labels, people=people)


def placed(draw, n):
    if not draw(st.booleans()):
        return {}
    start = one_of(draw, 0, 0, 20)
    indices = np.arange(start, start + n)
    return {"indices": Split(indices, index_hash(indices)), "data_hash": one_of(draw, "", "one", "two")}


@st.composite
def sets(draw, kinds):
    """The world of the rows, and the arguments of a BoundSet, seldom with something odd among them."""
    kind, n = draw(st.sampled_from(kinds)), draw(st.integers(1, 16))
    inputs, labels = rows_of(kind, n)
    arguments = {"inputs": inputs.clone(), "labels": labels.clone(), **placed(draw, len(labels))}
    match draw(st.integers(0, 24)):
        case 0:
            arguments["labels"] = one_of(draw, labels + 1, labels - 1, labels.float(), labels[:-1], labels * 9)
        case 1:
            others = [inputs[:, :1], inputs.double(), inputs * math.nan, inputs * 1e38, inputs[0, 0], inputs.long()]
            arguments["inputs"] = one_of(draw, *others, inputs[:, :, None])
        case 2:
            arguments[one_of(draw, *arguments)] = draw(st.sampled_from(ODD))
        case 3:
            arguments["people"] = one_of(draw, [0], np.array([0.5]), np.arange(len(labels)) - 1)
        case 4:
            arguments["inputs"] = torch.zeros_like(inputs)
        case x if x < 10:
            arguments["people"] = np.arange(len(labels)) % draw(st.integers(1, 16)) + 100 * ord(kind[0])
    return kind, arguments


def linear(outputs, seed, *, bias=True, width=DIM):
    module = Linear(width, outputs, bias=bias).eval()
    generator = seeded(seed)
    with torch.no_grad():
        for value in module.parameters():
            value.copy_(torch.randn(value.shape, generator=generator))
    return module


ODD_OUTPUTS = [
    lambda x, out: {"logits": out},
    lambda x, out: out[:1],
    lambda x, out: out * math.nan,
    lambda x, out: out - out.mean(0),
    lambda x, out: x.mul_(1.5)[:, :2],
    lambda x, out: out[:, :, None],
    lambda x, out: out.long(),
    lambda x, out: nn.functional.dropout(out),
    lambda x, out: {}[0],
    lambda x, out: out.sum(1),
    lambda x, out: torch.zeros_like(out),
    lambda x, out: out * math.inf,
    lambda x, out: out[:, :1],
]


class Odd(Linear):
    """Outputs that no certificate may rest on."""

    def __init__(self, kind):
        super().__init__(DIM, 2)
        self.kind = kind

    def forward(self, inputs):
        return ODD_OUTPUTS[self.kind](inputs, super().forward(inputs))


@st.composite
def networks(draw):
    match draw(st.integers(0, 11)):
        case 0:
            return Odd(draw(st.integers(0, len(ODD_OUTPUTS) - 1))).eval()
        case 1:
            return linear(2, 0, width=DIM + 1)
        case 2:
            return Sequential(Linear(DIM, 2), BatchNorm1d(2)).train(draw(st.booleans()))
        case 3:
            return Sequential(Linear(DIM, 2), Dropout()).train()
        case _:
            return linear(one_of(draw, 1, 2, 3), draw(st.integers(0, 3)), bias=draw(st.booleans()))


def privacy(draw):
    adjacency = one_of(draw, "add-remove", "replace-one")
    status = one_of(draw, "accounted", "exact mechanism", "assumes stationarity", "approximate accountant")
    size = one_of(draw, 0.0, 1e-6, 0.05, 1.0, 300.0, math.inf)
    both = {"adjacency": adjacency, "status": status}
    return one_of(draw, 
            bounds.PureDP(epsilon=size, **both), bounds.GaussianDP(mu=size, **both),
            bounds.ApproxDP(epsilon=size, delta=1e-6, **both), bounds.ZeroConcentratedDP(rho=size, **both),
        )  # fmt: skip


def held_out(draw, overlaps):
    """With the worlds that it must not share with the bound or with a test set."""
    if draw(st.booleans()):
        kind = one_of(draw, "p", "p", "q", "a", "t")
        overlaps += [("prior", kind)]
        return HeldOut(rows=bound_set(kind, 12).rows)
    start = one_of(draw, 0, 100)
    indices = np.arange(start, start + 12)
    return HeldOut(indices=Split(indices, index_hash(indices)), data_hash=one_of(draw, "", "one"))


def source(draw, seen, people):
    match draw(st.integers(0, 9)):
        case 0 | 1 | 2:
            return DataFree()
        case 3 | 4 | 5:
            return held_out(draw, seen)
        case 6 | 7 | 8:
            kind = one_of(draw, "", "", "a", "ab", "b", "at")
            rows = None
            if kind:
                seen += [("claim", kind)]
                rows = bound_set(kind, 40, None if people is None else np.arange(40 * len(kind))).rows
            return Private(
                privacy=privacy(draw),
                seen=held_out(draw, seen) if draw(st.integers(0, 3)) == 0 else None,
                rows=rows,
                unit=one_of(draw, "example", "person"),
            )
        case _:
            return one_of(draw, NoPrivacy(reason="none"), privacy(draw), *ODD)


@st.composite
def calls(draw):
    """A plan of a call; what may fail is built inside the test."""
    seen = []
    data, test = (draw(sets(["a", "a", "a", "ab"])), draw(st.one_of(st.none(), sets(["t", "t", "t", "a", "tb"]))))
    plan = {"data": data, "test": test, "seen": seen, "route": draw(st.sampled_from("gnf"))}
    plan["network"] = draw(networks())
    odd = [(0.0, 0.3), (0.0, 0.0), (-1.0, 0.3), (1e30, 0.3)]
    plan["std"] = seldom(draw, (one_of(draw, 0.01, 0.3), 0.3), odd)
    plan["prior network"] = seldom(
        draw, plan["network"], [linear(1, 9), linear(2, 9, bias=False), linear(3, 9).double()]
    )
    plan["count"] = one_of(draw, 1, 1, 1, 2, 1000)
    plan["settings rows"] = one_of(draw, None, None, None, "s", "a", "t")
    plan["choice"] = seldom(draw, one_of(draw, 0.0, 0.0, 1.5), ODD)
    plan["options"] = {
        "failure_prob": seldom(draw, one_of(draw, 0.05, 1e-9, 0.9), ODD),
        "seed": seldom(draw, draw(st.integers(0, 2**40)), ODD),
    }
    plan["monte carlo"] = {
        "passes": seldom(draw, draw(st.integers(1, 2)), ODD[1:]), "share": seldom(draw, 0.1, ODD),
        "batch_size": seldom(draw, draw(st.integers(1, 20)), ODD[1:]),
    }  # fmt: skip
    plan["source"] = source(draw, seen, data[1].get("people")) if draw(st.booleans()) else DataFree()
    return plan


def made(plan):
    data = BoundSet(**plan["data"][1])
    test = None if plan["test"] is None else BoundSet(**plan["test"][1])
    chosen = Settings.tried(plan["count"], "the test")
    if plan["settings rows"]:
        chosen = replace(chosen, elsewhere=bound_set(plan["settings rows"], 10).rows)
    options = {"test": test, "settings": chosen, **plan["options"]}
    if plan["route"] != "g":
        del options["seed"]
    match plan["route"]:
        case "g":
            laws = [GaussianPosterior.around(plan[name], std=std) for name, std in
                    zip(("network", "prior network"), plan["std"], strict=True)]  # fmt: skip
            prior = Prior(law=laws[1], source=plan["source"], choice_nats=plan["choice"])
            found = certify(
                laws[0], data, prior=prior, network=plan["network"], monte_carlo=MonteCarlo(**plan["monte carlo"]),
                **options,
            )  # fmt: skip
        case "n":
            found = certify(
                Network(network=plan["network"]), data, prior=plan["source"], **options,
                **({} if isinstance(plan["source"], Private) else {"ask": ["error", "calibration"]}),
            )  # fmt: skip
        case _:
            law = Finite(networks=[plan["network"], linear(2, 5)])
            found = certify(law, data, prior=plan["source"], **options)
    return found, data, chosen


def check(plan):
    """Whether certificates came out, all that is false having been refused."""
    try:
        found, data, chosen = made(plan)
    except ValueError:
        return False
    require_no_overlap(plan)
    failure_prob = plan["options"]["failure_prob"]
    assert found.n == data.units == (data.n if data.people is None else len(set(data.people.tolist())))
    assert (found.unit, found.examples) == (data.unit, data.n)
    assert found.failure_prob * chosen.count <= failure_prob * (1 + 1e-12)
    assert [one.to_dict() for one in validate(found.to_dict())] == [one.to_dict() for one in found.certificates]
    private = isinstance(plan["source"], Private | bounds.PrivacyClaim)
    for one in found.certificates:
        require_invariants(one, found, private, plan["source"])
    rigorous = [one for one in found.certificates if one.status == "rigorous" and one.measures == "0-1 risk"]
    if rigorous and len(rigorous) * found.failure_prob < 1.0:
        best = found.best()
        assert best.value == min(one.value for one in rigorous)
        assert best.failure_prob == near(math.fsum(one.failure_prob for one in rigorous))
        assert best.failure_prob <= failure_prob * len(rigorous) / chosen.count * (1 + 1e-12)
    assert found.headline()
    return True


def require_no_overlap(plan):
    """Certificates were made: the rows were those that may make them."""
    sets = [plan[name] for name in ("data", "test") if plan[name] is not None]
    if any(not equal(own["inputs"], rows_of(kind, len(own["labels"]) // len(kind))[0]) for kind, own in sets):
        return  # the rows were changed, and are others
    data, test = sets[0][0], "".join(kind for kind, _ in sets[1:])
    assert not set(data) & set(test)
    for who, kind in plan["seen"]:
        assert who == "prior" or set(data) <= set(kind), f"the claim is about {kind}"
        assert not set(kind) & set(data + test if who == "prior" else test), f"{who}: {kind} was seen"
    assert not set(plan["settings rows"] or "") & set(data + test)


def require_invariants(one, found, private, source):
    assert 0.0 <= one.value <= 1.0
    assert one.failure_prob <= found.failure_prob * (1 + 1e-12)
    assert math.fsum(one.budget.values()) <= one.failure_prob * (1 + 1e-12)
    assert bounds.Certificate.from_dict(one.to_dict()) == one
    assert bounds.Certificate.from_json(one.to_json()) == one
    needed = {each.name for each in one.hypotheses}
    assert needed >= ALWAYS, one.name
    on = "test" if one.name.startswith("test_set") else "bound"
    if on == "bound" and private:
        assert needed >= {"privacy covers these rows", "noise secret or independent"}, one.name
    else:
        assert needed & {"prior saw none of these rows", "predictor saw none of these rows"}, one.name
    claim = source.privacy if isinstance(source, Private) else source
    if on == "bound" and private and claim.status in ("assumes stationarity", "approximate accountant"):
        assert one.status == "optimistic"
    else:
        assert one.status == "rigorous"
    if one.of in ("randomised", "one draw") and on == "bound":
        assert "draws independent" in needed, one.name
    if one.hypothesis("records independent").unit != found.unit:
        assert on == "test"
    empirical = found.error(one.of, on)
    likely = one.failure_prob < 0.2  # beyond, a bound may fail so often that it lies below
    if empirical is not None and likely and one.measures.startswith("0-1 risk"):
        assert one.value >= empirical * (1 - 1e-12), f"{one.name} lies below what was measured"
    if "n" in one.inputs and on == "bound":
        assert one.inputs["n"] == found.n, one.name


CHECKS = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much, HealthCheck.large_base_example]
FUZZ = {"phases": [Phase.generate], "deadline": None, "database": None, "derandomize": True}


@parametrize("tries", [300, slow(10_000)])
def test_calls_get_a_sentence_or_true_certificates_and_neither_always(tries):
    found = set()

    @settings(max_examples=tries, suppress_health_check=CHECKS, **FUZZ)
    @given(calls())
    def tried(plan):
        found.add((plan["route"], check(plan)))

    tried()
    assert found == {(route, good) for route in "gnf" for good in (True, False)}
