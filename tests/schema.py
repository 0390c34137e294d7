"""Reports against docs/certificates.schema.json, and against the certificates that they claim to hold."""

import json
import math
from pathlib import Path

import jsonschema

from bounds import Certificate

SCHEMA = json.loads((Path(__file__).parents[1] / "docs" / "certificates.schema.json").read_text())
_REPORT = jsonschema.Draft202012Validator(SCHEMA)


def validate(report):
    """The certificates of a report that is written to disk as pacdp-certificates/2 says.

    Raises ``jsonschema.ValidationError`` where the schema says otherwise, and ValueError where JSON has no such value,
    or a certificate is none: a status that does not follow, a budget overdrawn, or a total below its costs.
    """
    written = json.loads(json.dumps(report, allow_nan=False))
    _REPORT.validate(written)
    found = [Certificate.from_dict(record) for record in written["certificates"]]
    for made, record in zip(found, written["certificates"], strict=True):
        if made.to_dict() != record:
            raise ValueError(f"{made.name} is not written as it is read: {record}")
        if made.total_nats < math.fsum(one.nats for one in made.costs):
            raise ValueError(f"the costs of {made.name} exceed their total")
    return found
