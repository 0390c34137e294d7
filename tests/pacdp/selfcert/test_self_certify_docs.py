"""The code of docs/self_certify.md runs."""

import re
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[3] / "docs" / "self_certify.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize("place", range(4))
def test_the_page_s_code_runs(place, capsys):
    assert len(BLOCKS) == 4
    exec(BLOCKS[place], {})
    said = capsys.readouterr().out
    assert "The error of your model" in said or "held-out count" in said
