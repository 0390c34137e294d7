"""The lines that docs/compression.md shows run, and say what the page says."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "compression.md").read_text(encoding="utf-8")
BLOCKS = [block for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL) if "pacdp.compress" in block]


def test_the_page_begins_with_five_lines():
    assert len(BLOCKS) == 3
    assert len([line for line in BLOCKS[0].splitlines() if line.strip()]) == 5


@pytest.mark.parametrize("block", BLOCKS, ids=["scikit-learn", "torch", "untouched"])
def test_the_pages_python_runs(block, capsys):
    exec(block, {})
    said = capsys.readouterr().out
    value = float(re.search(r"0\.\d+", said).group())
    assert 0.05 < value < 0.35
    words = "The error of the weights on new data is at most", "torch.Size([360, 10])"
    assert any(one in said for one in words) or int(said.split()[1]) < 36
