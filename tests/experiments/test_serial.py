"""Configurations as JSON: what was written is read back, and what was read writes the same text again."""

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import get_args

import pytest

from experiments.papers.runs.held_out import HeldOutConfig
from experiments.papers.runs.p3sgd import Attack, DropBlock, Network, Plain, Private, Training
from experiments.registry import study
from pacdp import Architecture, Problem
from pacdp.algorithms import KINDS, SGLD
from pacdp.backprop import ScaleGrid
from pacdp.cli import compression_recipes
from pacdp.cli.config import Run
from pacdp.cli.private.config import Budget, PrivateConfig, Sampling
from pacdp.cli.private.methods import P3SGD, Method
from pacdp.cli.private.recipes import PRIVATE_RECIPES, private_recipe
from pacdp.cli.recipes import RECIPES, recipe
from pacdp.cli.serial import JOINED_LATER, digest, from_dict, to_dict
from pacdp.trained import sampler_to_dict

RESULTS = Path(__file__).parents[2] / "experiments" / "results"
CONFIGS = (
    Run(problem=Problem(architecture=Architecture(hidden=(3, 2))), sampler=SGLD(tau=3.0), epochs=3.0),
    HeldOutConfig(scales=ScaleGrid(largest=1.0, precision=100)),
    PrivateConfig(method=P3SGD(noise_scales=(2.0, 1.0)), budget=Budget(epsilon=2.0)),
    Training(network=Network(width=4), strategy=Plain(regulariser=DropBlock()), attack=Attack()),
    Training(strategy=Private(method=P3SGD(), sampling=Sampling(), budget=Budget())),
)


MAKERS = (
    (recipe, RECIPES), (private_recipe, PRIVATE_RECIPES), (compression_recipes.recipe, compression_recipes.RECIPES)
)  # fmt: skip


def text(config):
    return json.dumps(to_dict(config), sort_keys=True)


@pytest.mark.every_case
@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: type(config).__name__)
def test_what_was_read_is_equal_and_writes_the_same_text(config):
    again = from_dict(type(config), json.loads(text(config)))
    assert again == config
    assert text(again) == text(config)
    assert hash(again) == hash(config)  # lists have become tuples


def test_recipes_are_read_as_they_were_written():
    for make, names in MAKERS:
        made = [make(name, scale=scale, seed=3) for name in names for scale in ("smoke", "cpu", "paper")]
        assert [from_dict(type(one), json.loads(text(one))) for one in made] == made
    assert {type(private_recipe(name, scale="smoke").method) for name in PRIVATE_RECIPES} == set(get_args(Method))


@pytest.mark.wrong_types
def test_a_whole_number_stays_one_where_a_fraction_may_stand():
    config = Run(problem=Problem(), sampler=SGLD(tau=3.0), epochs=3)
    assert '"epochs": 3,' in text(config)
    assert text(from_dict(Run, json.loads(text(config)))) == text(config)


def test_records_that_a_checkpoint_holds_too_have_one_form():
    for kind in KINDS:
        sampler = kind(tau=2.0) if kind is not KINDS[0] else kind()
        assert to_dict(Run(sampler=sampler))["sampler"] == sampler_to_dict(sampler)
    assert to_dict(Run())["problem"] == Problem().to_dict()


@pytest.mark.parametrize("path", sorted(RESULTS.glob("*/cpu/config.json")), ids=lambda path: path.parts[-3])
def test_committed_configurations_are_read_and_written_alike(path):
    found = json.loads(path.read_text())
    if "study" in found:
        kinds = {job.key: type(job.config) for job in study(found["study"]).jobs(found["scale"], found["seed"])}
        runs = [(kinds[key], job["config"]) for key, job in found["jobs"].items() if key in kinds]
    else:
        runs = [(Run, run) for run in found["runs"].values()]
        assert {from_dict(Run, run).key for run in found["runs"].values()} == set(found["runs"])
    assert runs
    for kind, values in runs:
        assert text(from_dict(kind, values)) == json.dumps(values, sort_keys=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    size: int

    def __post_init__(self):
        if self.size < 0:
            raise ValueError(f"expected size >= 0, got {self.size}")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Other:
    rate: float = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class _Whole:
    part: _Part = field(default_factory=lambda: _Part(size=1))
    one: _Part | _Other | None = None
    widths: tuple[int, ...] = (1,)
    seed: int = 0
    stopping: str = field(default="planned", metadata=JOINED_LATER)


GOOD = {"part": {"size": 2}, "one": {"kind": "_Other", "rate": 1}, "widths": [3]}


def test_a_field_that_joined_later_changes_no_earlier_key():
    assert "stopping" not in to_dict(_Whole())
    assert to_dict(_Whole(stopping="listed"))["stopping"] == "listed"
    for one in (_Whole(), _Whole(stopping="listed")):
        assert from_dict(_Whole, to_dict(one)) == one
    assert Run(stopping="listed").key != Run().key


def test_the_key_is_the_hash_of_the_sorted_text():
    written = b'{"one": null, "part": {"size": 1}, "seed": 0, "widths": [1, 2.0]}'
    assert digest(_Whole(widths=(1, 2.0)), digits=8) == hashlib.sha256(written).hexdigest()[:8]  # type: ignore[arg-type]
    assert digest(Run()) == Run().key


def test_a_plain_value_with_a_default_may_be_missing():
    assert from_dict(_Whole, GOOD) == _Whole(part=_Part(size=2), one=_Other(rate=1), widths=(3,), seed=0)


@pytest.mark.every_case
@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"colour": 1}, "'colour'"),
        ({"part": {"size": 2, "colour": 1}}, "'colour'"),
        ({"part": {}}, "'size'"),
        ({"part": 3}, "_Part, got 3"),
        ({"one": {"kind": "_Whole"}}, "_Part or _Other, got '_Whole'"),
        ({"one": {"rate": 0.1}}, "_Part or _Other, got None"),
        ({"one": {"kind": ["_Part"], "size": 1}}, "_Part or _Other, got"),
        pytest.param({"widths": 3}, "'int'", marks=pytest.mark.wrong_types),
    ],
)
def test_what_does_not_belong_is_refused_in_a_sentence(change, word):
    with pytest.raises(ValueError, match=r"not the configuration .*\(_Whole\): ") as refused:
        from_dict(_Whole, GOOD | change)
    assert word in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("name", GOOD)
def test_records_and_tuples_may_not_be_missing(name):
    with pytest.raises(ValueError, match=f"_Whole has no '{name}'"):
        from_dict(_Whole, {part: value for part, value in GOOD.items() if part != name})


def test_a_record_s_own_refusal_comes_through():
    with pytest.raises(ValueError, match=r"^expected size >= 0, got -1$"):
        from_dict(_Whole, GOOD | {"part": {"size": -1}})
