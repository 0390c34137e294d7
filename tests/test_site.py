"""The documentation site: examples are notebooks, and no page asks the network for anything."""

from pathlib import Path

from site_tools.check import requests

ROOT = Path(__file__).parents[1]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


def test_examples_are_notebooks_that_begin_with_a_title():
    for path in EXAMPLES:
        text = path.read_text(encoding="utf-8")
        assert text.startswith("# %% [markdown]\n# # "), path.name
        cells = [cell.partition("\n")[2] for cell in text.split("# %%")[1:] if not cell.startswith(" [markdown]")]
        assert len(cells) >= 2
        for cell in cells:
            compile(cell, str(path), "exec")


PAGE = """<a href="https://o.org">a link is followed by people</a><script src="assets/a.js"></script>
<script src="https://o.org/1"></script><link rel="canonical" href="https://own.org"><img src="http://o.org/3">
<link rel="stylesheet" href="//o.org/2"><p style="background: url(https://o.org/4)">
<style>@import 'https://o.org/5';</style>"""


def test_the_check_of_the_site_sees_every_request(tmp_path):
    (tmp_path / "index.html").write_text(PAGE)
    (tmp_path / "a.css").write_text("body { font: url('https://o.org/6') } p { background: url(a.png) }")
    assert sorted(found[-1] for found in requests(tmp_path)) == list("123456")
