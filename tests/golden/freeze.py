"""Write golden.json: ``python -m tests.golden.freeze`` adds the sections that it does not hold yet, and changes none.

A section is frozen anew only by taking it out of the file by hand. The file was first written at commit b1452c7.
"""

import json
import math
from pathlib import Path
from typing import Any

import torch

from tests.golden.sections import SECTIONS

GOLDEN = Path(__file__).with_name("golden.json")


def load() -> dict[str, dict[str, Any]]:
    """The frozen results by section and key."""
    return json.loads(GOLDEN.read_text(), parse_constant=_infinite) if GOLDEN.is_file() else {}


def text(frozen: dict[str, dict[str, Any]]) -> str:
    """JSON with a line a key; infinity is written as JSON's usual extension."""
    sections = []
    for section, results in sorted(frozen.items()):
        lines = [f"{json.dumps(key)}: {json.dumps(_trimmed(value))}" for key, value in sorted(results.items())]
        sections.append(f"{json.dumps(section)}: {{\n" + ",\n".join(lines) + "\n}")
    return "{\n" + ",\n".join(sections) + "\n}\n"


def _trimmed(value: Any) -> Any:
    """Without the fields that are not compared."""
    if isinstance(value, dict):
        return {name: _trimmed(part) for name, part in value.items() if part is not None}
    return value


def _infinite(word: str) -> float:
    if word == "NaN":
        raise ValueError("golden.json must not hold NaN: no result of the package is one")
    return math.inf if word == "Infinity" else -math.inf


def main() -> None:
    """Compute what is missing and write the file."""
    torch.set_num_threads(1)
    frozen = load()
    for name, section in SECTIONS.items():
        if name not in frozen:
            frozen[name] = section.results()
            print(name, len(frozen[name]))
    GOLDEN.write_text(text(frozen))


if __name__ == "__main__":
    main()
