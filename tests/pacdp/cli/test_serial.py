"""Configurations as JSON: what was written is read back, and what was read writes the same text again."""

import hashlib
import json
from dataclasses import dataclass, field
from typing import get_args

import pytest

from pacdp.cli import compressing
from pacdp.cli.config import RECIPES, Run, recipe
from pacdp.cli.private.config import PRIVATE_RECIPES, Method, private_recipe
from pacdp.cli.serial import JOINED_LATER, digest, from_dict, to_dict
from tests.marks import every_case, parametrize, refusal

MAKERS = (
    (recipe, RECIPES), (private_recipe, PRIVATE_RECIPES), (compressing.recipe, compressing.RECIPES)
)  # fmt: skip


def text(config):
    return json.dumps(to_dict(config), sort_keys=True)


def test_what_was_written_is_read():
    made = [
        make(name, scale=scale, seed=3)
        for make, names in MAKERS for name in names for scale in ("smoke", "cpu", "paper")
    ]  # fmt: skip
    for one in made:
        again = from_dict(type(one), json.loads(text(one)))
        assert again == one
        assert hash(again) == hash(one)  # lists have become tuples
    assert {type(private_recipe(name, scale="smoke").method) for name in PRIVATE_RECIPES} == set(get_args(Method))


record = dataclass(frozen=True, slots=True, kw_only=True)


@record
class _Part:
    size: int


@record
class _Other:
    rate: float = 0.5


@record
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


@every_case(
    ("change", "word"),
    [
        ({"colour": 1}, "'colour'"),
        ({"part": 3}, "_Part, got 3"),
        ({"one": {"kind": "_Whole"}}, "_Part or _Other, got '_Whole'"),
        pytest.param({"widths": 3}, "'int'", marks=pytest.mark.wrong_types),
    ],
)
def test_what_does_not_belong_is_refused_in_a_sentence(change, word):
    with refusal(r"not the configuration .*\(_Whole\): ") as refused:
        from_dict(_Whole, GOOD | change)
    said = str(refused.value)
    assert word in said
    assert "\n" not in said


@parametrize("name", GOOD)
def test_records_and_tuples_may_not_be_missing(name):
    with refusal(f"_Whole has no '{name}'"):
        from_dict(_Whole, {part: value for part, value in GOOD.items() if part != name})
