"""docs/certificates.schema.json says what the code writes, and refuses what no reader should believe."""

import copy
from typing import get_args

import jsonschema
import pytest
from reports import REAL, handmade

from bounds import hypotheses
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


@pytest.mark.parametrize("route", REAL)
def test_what_every_route_writes_is_valid(route):
    report = REAL[route]().to_dict(subject={"checkpoint": "here"}, provenance={})
    assert validate(report)
    assert report["route"] == route


def _edits():
    """Each way to spoil a report: a path into it, and what to put there; None takes the entry away."""
    report = handmade()
    yield from (((name,), None) for name in report)
    yield from ((("certificates", 0, name), None) for name in report["certificates"][0])
    yield from ((("certificates", 0, "hypotheses", 0, name), None) for name in ("name", "standing", "by", "unit"))
    yield from ((("certificates", 0, "costs", 0, name), None) for name in ("name", "nats", "per_example"))
    yield from ((("measured", 0, name), None) for name in report["measured"][0])
    yield ("format",), "pacdp-certificates/1"
    yield ("n",), 0
    yield ("failure_prob",), 1.0
    yield ("certificates", 0, "value"), 1.5
    yield ("certificates", 0, "status"), "optimistic"
    yield ("certificates", 1, "status"), "rigorous"
    yield ("certificates", 0, "hypotheses", 0, "name"), "all is well"
    yield ("certificates", 0, "hypotheses", 0, "standing"), "assumed"
    yield ("certificates", 0, "hypotheses", 1, "unit"), "person"
    yield ("certificates", 0, "costs", 0, "nats"), "-inf"
    yield ("certificates", 0, "budget"), {"Monte Carlo": 0.04, "PAC step": 0.04}


@pytest.mark.every_case
@pytest.mark.parametrize(("path", "value"), list(_edits()), ids=str)
def test_a_spoilt_report_is_refused(path, value):
    report = copy.deepcopy(handmade())
    place = report
    for step in path[:-1]:
        place = place[step]
    if value is None:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    with pytest.raises((jsonschema.ValidationError, ValueError)):
        validate(report)
