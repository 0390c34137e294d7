"""docs/certificates.schema.json says what the code writes, and refuses what no reader should believe."""

from typing import get_args

import jsonschema
import pytest
from report_pages import changed
from reports import handmade

from bounds import hypotheses
from tests.marks import every_case
from tests.schema import SCHEMA, validate


def test_the_words_of_the_schema_are_those_of_the_code():
    known = SCHEMA["$defs"]["hypothesis"]["properties"]
    assert known["name"]["enum"] == list(hypotheses.NAMES)
    assert known["standing"]["enum"] == list(get_args(hypotheses.Standing))
    assert sorted(SCHEMA["required"]) == sorted(SCHEMA["properties"]) == sorted(handmade())
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


def test_a_report_made_by_hand_is_valid():
    found = validate(handmade())
    assert [made.status for made in found] == ["rigorous", "optimistic", "rigorous", "rigorous"]


def _edits():
    """Each way to spoil a report: a place in it, and what to put there; None takes the entry away."""
    report = handmade()
    parts = {"": report, "certificates/0/": report["certificates"][0], "measured/0/": report["measured"][0],
             "certificates/0/hypotheses/0/": ("name", "standing", "by", "unit"),
             "certificates/0/costs/0/": ("name", "nats", "per_example")}  # fmt: skip
    for above, names in parts.items():
        yield from ((above + name, None) for name in names)
    yield from (
        ("format", "pacdp-certificates/1"),
        ("n", 0),
        ("failure_prob", 1.0),
        ("certificates/0/value", 1.5),
        ("certificates/0/status", "optimistic"),
        ("certificates/1/status", "rigorous"),
        ("certificates/0/hypotheses/0/name", "all is well"),
        ("certificates/0/hypotheses/0/standing", "assumed"),
        ("certificates/0/hypotheses/1/unit", "person"),
        ("certificates/0/costs/0/nats", "-inf"),
        ("certificates/0/budget", {"Monte Carlo": 0.04, "PAC step": 0.04}),
    )


@every_case(("path", "value"), list(_edits()), ids=str)
def test_a_spoilt_report_is_refused(path, value):
    report = changed(handmade(), path, value)
    with pytest.raises((jsonschema.ValidationError, ValueError)):
        validate(report)
