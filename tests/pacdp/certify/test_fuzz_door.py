"""Any call of the one door, sensible or not: a sentence, or certificates of which everything checkable is true."""

import functools
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from torch import nn

import bounds
from pacdp import (
    Assessment,
    BoundSet,
    DataFree,
    Finite,
    GaussianPosterior,
    HeldOut,
    MonteCarlo,
    Network,
    NoPrivacy,
    Prior,
    Private,
    Settings,
    certify,
)
from pacdp.data import Split, index_hash
from pacdp.losses import Loss
from tests.schema import validate

pytestmark = pytest.mark.wrong_types
DIM = 3
ALWAYS = {"records independent", "new data follow the same law", "settings fixed beforehand"}
ODD = [None, -1, 0, 0.5, 2.5, True, math.nan, math.inf, "x", [], {}, 10**400, object()]


def rows_of(kind: str, n: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Examples of one of four worlds that share no row; "ab" is two of them together."""
    if len(kind) > 1:
        parts = [rows_of(one, n) for one in kind]
        return torch.cat([inputs for inputs, _ in parts]), torch.cat([labels for _, labels in parts])
    generator = torch.Generator().manual_seed(ord(kind))
    return torch.randn(40, DIM, generator=generator)[:n], torch.randint(0, 2, (40,), generator=generator)[:n]


def placed(draw: Any, n: int) -> dict[str, Any]:
    if not draw(st.booleans()):
        return {}
    start = draw(st.sampled_from([0, 0, 20]))
    indices = np.arange(start, start + n)
    return {"indices": Split(indices, index_hash(indices)), "data_hash": draw(st.sampled_from(["", "one", "two"]))}


@st.composite
def sets(draw: Any, kinds: list[str]) -> tuple[str, dict[str, Any]]:
    """The world of the rows, and the arguments of a BoundSet, seldom with something odd among them."""
    kind, n = draw(st.sampled_from(kinds)), draw(st.integers(1, 16))
    inputs, labels = rows_of(kind, n)
    arguments: dict[str, Any] = {"inputs": inputs.clone(), "labels": labels.clone(), **placed(draw, len(labels))}
    match draw(st.integers(0, 24)):
        case 0:
            arguments["labels"] = draw(
                st.sampled_from([labels + 1, labels - 1, labels.float(), labels[:-1], labels * 9])
            )
        case 1:
            others = [inputs[:, :1], inputs.double(), inputs * math.nan, inputs * 1e38, inputs[0, 0], inputs.long()]
            arguments["inputs"] = draw(st.sampled_from([*others, inputs[:, :, None]]))
        case 2:
            arguments[draw(st.sampled_from([*arguments]))] = draw(st.sampled_from(ODD))
        case 3:
            arguments["people"] = draw(st.sampled_from([[0], np.array([0.5]), np.arange(len(labels)) - 1]))
        case 4:
            arguments["inputs"] = torch.zeros_like(inputs)
        case x if x < 10:
            arguments["people"] = np.arange(len(labels)) % draw(st.integers(1, 16)) + 100 * ord(kind[0])
    return kind, arguments


def linear(outputs: int, seed: int, *, bias: bool = True, width: int = DIM) -> nn.Module:
    module = nn.Linear(width, outputs, bias=bias).eval()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for value in module.parameters():
            value.copy_(torch.randn(value.shape, generator=generator))
    return module


class Odd(nn.Linear):
    """Outputs that no certificate may rest on."""

    def __init__(self, kind: int) -> None:
        super().__init__(DIM, 2)
        self.kind = kind

    def forward(self, inputs: torch.Tensor) -> Any:
        out = super().forward(inputs)
        kinds: list[Callable[[], Any]] = [
            lambda: {"logits": out},
            lambda: (out, out),
            lambda: out[:1],
            lambda: out * math.nan,
            lambda: out - out.mean(0),
            lambda: out.cumsum(0),
            lambda: inputs.mul_(1.5) @ self.weight.T,
            lambda: out[:, :, None],
            out.long,
            lambda: nn.functional.dropout(out),
            lambda: {}[0],
            lambda: out.sum(1),
            lambda: torch.zeros_like(out),
            lambda: out * math.inf,
            lambda: out[:, :1],
            lambda: nn.functional.softmax(out, 0),
        ]
        return kinds[self.kind]()


@st.composite
def networks(draw: Any) -> nn.Module:
    match draw(st.integers(0, 11)):
        case 0:
            return Odd(draw(st.integers(0, 15))).eval()
        case 1:
            return linear(2, 0, width=DIM + 1)
        case 2:
            return nn.Sequential(nn.Linear(DIM, 2), nn.BatchNorm1d(2)).train(draw(st.booleans()))
        case 3:
            return nn.Sequential(nn.Linear(DIM, 2), nn.Dropout()).train()
        case _:
            return linear(draw(st.sampled_from([1, 2, 3])), draw(st.integers(0, 3)), bias=draw(st.booleans()))


def privacy(draw: Any) -> bounds.PrivacyClaim:
    adjacency = draw(st.sampled_from(["add-remove", "replace-one"]))
    status = draw(st.sampled_from(["accounted", "exact mechanism", "assumes stationarity", "approximate accountant"]))
    size = draw(st.sampled_from([0.0, 1e-6, 0.05, 1.0, 300.0, math.inf]))
    both = {"adjacency": adjacency, "status": status}
    return draw(
        st.sampled_from([
            bounds.PureDP(epsilon=size, **both), bounds.GaussianDP(mu=size, **both),
            bounds.ApproxDP(epsilon=size, delta=1e-6, **both), bounds.ZeroConcentratedDP(rho=size, **both),
        ])
    )  # fmt: skip


def held_out(draw: Any, overlaps: list[tuple[str, str]]) -> HeldOut:
    """With the worlds that it must not share with the bound or with a test set."""
    if draw(st.booleans()):
        kind = draw(st.sampled_from(["p", "p", "q", "a", "t"]))
        overlaps += [("prior", kind)]
        return HeldOut(rows=BoundSet(**dict(zip(("inputs", "labels"), rows_of(kind, 12), strict=True))).rows)
    start = draw(st.sampled_from([0, 100]))
    indices = np.arange(start, start + 12)
    return HeldOut(indices=Split(indices, index_hash(indices)), data_hash=draw(st.sampled_from(["", "one"])))


def source(draw: Any, seen: list[tuple[str, str]], people: Any) -> Any:
    match draw(st.integers(0, 9)):
        case 0 | 1 | 2:
            return DataFree()
        case 3 | 4 | 5:
            return held_out(draw, seen)
        case 6 | 7 | 8:
            kind = draw(st.sampled_from(["", "", "a", "ab", "b", "at"]))
            rows = None
            if kind:
                seen += [("claim", kind)]
                inputs, labels = rows_of(kind, 40)
                owners = None if people is None else np.arange(len(labels))
                rows = BoundSet(inputs=inputs, labels=labels, people=owners).rows
            return Private(
                privacy=privacy(draw),
                seen=held_out(draw, seen) if draw(st.integers(0, 3)) == 0 else None,
                rows=rows,
                unit=draw(st.sampled_from(["example", "person"])),
            )
        case _:
            return draw(st.sampled_from([NoPrivacy(reason="none"), privacy(draw), *ODD]))


def seldom(draw: Any, usual: Any, odd: list[Any]) -> Any:
    return draw(st.sampled_from(odd)) if draw(st.integers(0, 30)) == 0 else usual


@st.composite
def calls(draw: Any) -> dict[str, Any]:
    """A plan of a call; what may fail is built inside the test."""
    seen: list[tuple[str, str]] = []
    data, test = draw(sets(["a", "a", "a", "ab"])), draw(st.one_of(st.none(), sets(["t", "t", "t", "a", "tb"])))
    plan: dict[str, Any] = {"data": data, "test": test, "seen": seen, "route": draw(st.sampled_from("ggnnf"))}
    plan["network"] = draw(networks())
    odd = [(0.0, 0.3), (0.0, 0.0), (-1.0, 0.3), (1e30, 0.3)]
    plan["std"] = seldom(draw, (draw(st.sampled_from([0.01, 0.3])), 0.3), odd)
    plan["prior network"] = seldom(
        draw, plan["network"], [linear(1, 9), linear(2, 9, bias=False), linear(3, 9).double()]
    )
    plan["count"] = draw(st.sampled_from([1, 1, 1, 2, 1000]))
    plan["settings rows"] = draw(st.sampled_from([None, None, None, "s", "a", "t"]))
    plan["choice"] = seldom(draw, draw(st.sampled_from([0.0, 0.0, 1.5])), ODD)
    plan["options"] = {
        "failure_prob": seldom(draw, draw(st.sampled_from([0.05, 1e-9, 0.9])), ODD),
        "seed": seldom(draw, draw(st.integers(0, 2**40)), ODD),
    }
    plan["monte carlo"] = {
        "passes": seldom(draw, draw(st.integers(1, 2)), ODD[1:]), "share": seldom(draw, 0.1, ODD),
        "batch_size": seldom(draw, draw(st.integers(1, 20)), ODD[1:]),
        "group_size": seldom(draw, draw(st.integers(1, 30)), ODD[1:]),
    }  # fmt: skip
    plan["losses"] = seldom(draw, (), [3, (nn.functional.mse_loss,), *(
        (Loss(name=name, low=0.0, high=1.0, function=function),)
        for name, function in (
            ("mean", lambda f, y: f.mean()), ("far", lambda f, y: 5.0 + f[:, 0]), ("fails", lambda f, y: f @ y),
            ("mixes", lambda f, y: f[:, 0].softmax(0)), ("brier", lambda f, y: f[:, 0].sigmoid()),
            ("own", lambda f, y: f.reshape(len(f), -1)[:, 0].sigmoid()), ("nan", lambda f, y: f[:, 0] * math.nan),
        ))])  # fmt: skip
    plan["formulas"] = seldom(draw, draw(st.sampled_from([(), (bounds.quadratic, bounds.mcallester)])),
                              [3, (3,), (bounds.kl_chernoff,), (lambda **given: 1.0,)])  # fmt: skip
    plan["finite"] = {"epsilon": seldom(draw, draw(st.sampled_from([None, 0.5])), ODD), "seed": seldom(draw, 1, ODD),
                      "weights": seldom(draw, None, [np.ones(2), np.zeros(2), np.ones(3), *ODD])}  # fmt: skip
    plan["source"] = source(draw, seen, data[1].get("people")) if draw(st.booleans()) else DataFree()
    return plan


def made(plan: dict[str, Any]) -> tuple[Assessment, BoundSet, Settings]:
    data = BoundSet(**plan["data"][1])
    test = None if plan["test"] is None else BoundSet(**plan["test"][1])
    chosen = Settings.tried(plan["count"], "the test")
    if plan["settings rows"]:
        inputs, labels = rows_of(plan["settings rows"], 10)
        chosen = replace(chosen, elsewhere=BoundSet(inputs=inputs, labels=labels).rows)
    options: dict[str, Any] = {"test": test, "settings": chosen, **plan["options"]}
    match plan["route"]:
        case "g":
            laws = [GaussianPosterior.around(plan[name], std=std) for name, std in
                    zip(("network", "prior network"), plan["std"], strict=True)]  # fmt: skip
            prior = Prior(law=laws[1], source=plan["source"], choice_nats=plan["choice"])
            found = certify(
                laws[0], data, prior=prior, network=plan["network"], monte_carlo=MonteCarlo(**plan["monte carlo"]),
                losses=plan["losses"], formulas=plan["formulas"], **options,
            )  # fmt: skip
        case "n":
            found = certify(Network(network=plan["network"], scores=False), data, prior=plan["source"], **options)
        case _:
            law = Finite(networks=[plan["network"], linear(2, 5)], **plan["finite"])
            found = certify(law, data, prior=plan["source"], **options)
    return found, data, chosen


def check(plan: dict[str, Any]) -> bool:
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
        assert best.failure_prob == pytest.approx(math.fsum(one.failure_prob for one in rigorous))
        assert best.failure_prob <= failure_prob * len(rigorous) / chosen.count * (1 + 1e-12)
    assert found.headline()
    return True


def require_no_overlap(plan: dict[str, Any]) -> None:
    """Certificates were made: the rows were those that may make them."""
    data, test = plan["data"][0], "" if plan["test"] is None else plan["test"][0]
    n = len(plan["data"][1]["labels"])
    if len({tuple(row) for row in plan["data"][1]["inputs"].flatten(1).tolist()}) == n:  # zeros and NaN are other rows
        assert not set(data) & set(test) or not torch.equal(
            plan["data"][1]["inputs"][:1], plan["test"][1]["inputs"][:1]
        )
    changed = any(
        not torch.equal(each[1]["inputs"], rows_of(each[0], 40)[0][: len(each[1]["inputs"])])
        for each in (plan["data"], plan["test"])
        if each is not None and len(each[0]) == 1
    )
    if changed:
        return
    for who, kind in plan["seen"]:
        if who == "prior":
            assert not set(kind) & set(data + test), f"the prior saw {kind}"
        else:
            assert set(data) <= set(kind), f"the claim is about {kind}"
            assert not set(kind) & set(test), f"the claim is about {kind}"
    if plan["settings rows"]:
        assert not set(plan["settings rows"]) & set(data + test)


def require_invariants(one: bounds.Certificate, found: Assessment, private: bool, source: Any) -> None:
    assert 0.0 <= one.value <= 1.0
    assert one.failure_prob <= found.failure_prob * (1 + 1e-12)
    assert math.fsum(one.budget.values()) <= one.failure_prob * (1 + 1e-12)
    assert bounds.Certificate.from_dict(one.to_dict()) == one
    assert bounds.Certificate.from_json(one.to_json()) == one
    needed = {each.name for each in one.hypotheses}
    assert needed >= ALWAYS, one.name
    on = "test" if one.name.startswith("test_set") else "bound"
    chosen = one.of == "private choice"
    if on == "bound" and private and not chosen:
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
FUZZ = functools.partial(
    settings, phases=[Phase.generate], deadline=None, database=None, derandomize=True, suppress_health_check=CHECKS
)


@FUZZ(max_examples=150)
@given(calls())
def test_a_sentence_or_true_certificates(plan):
    check(plan)


@pytest.mark.slow
@FUZZ(max_examples=10_000)
@given(calls())
def test_a_sentence_or_true_certificates_in_ten_thousand_calls(plan):
    check(plan)


def test_the_calls_are_neither_all_good_nor_all_bad():
    found = []

    @FUZZ(max_examples=60)
    @given(calls())
    def counted(plan):
        found.append((plan["route"], check(plan)))

    counted()
    for route in "gnf":
        assert {good for each, good in found if each == route} == {True, False}
