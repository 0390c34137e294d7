"""The lines that docs/compression.md shows run, and say what the page says."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "compression.md").read_text(encoding="utf-8")
BLOCKS = [block for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL) if "pacdp.compress" in block]


@pytest.mark.parametrize("block", BLOCKS, ids=["scikit-learn", "torch", "untouched"])
def test_the_pages_python_runs(block, capsys):
    exec(block, {})
    said = capsys.readouterr().out
    assert 0.05 < float(re.search(r"0\.\d+", said).group()) < 0.35
