"""The lines that README.md and docs/compression.md show run, and say what the pages say."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "compression.md").read_text(encoding="utf-8")
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = [block for text in (README, PAGE) for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL)
          if "pacdp.compress" in block]  # fmt: skip


def test_readme_and_page_show_the_same_five_lines():
    assert len(BLOCKS) == 4
    assert BLOCKS[0] == BLOCKS[1]
    assert len([line for line in BLOCKS[0].splitlines() if line.strip()]) == 5


@pytest.mark.parametrize("block", BLOCKS[1:], ids=["scikit-learn", "torch", "untouched"])
def test_the_pages_python_runs(block, capsys):
    exec(block, {})
    said = capsys.readouterr().out
    value = float(re.search(r"0\.\d+", said).group())
    assert 0.05 < value < 0.35
    words = "The error of the weights on new data is at most", "torch.Size([360, 10])"
    assert any(one in said for one in words) or int(said.split()[1]) < 36
