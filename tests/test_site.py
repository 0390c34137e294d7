"""The documentation site: every page is reached, examples are notebooks, and no page asks the network for anything."""

import re
from pathlib import Path

import pytest

import bounds
import pacdp
from bounds import accounting
from site_tools.check import requests

ROOT = Path(__file__).parents[1]
NAVIGATION = re.findall(r": ([\w/]+\.md)$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.MULTILINE)
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


def test_the_navigation_has_every_page_and_every_example_once():
    pages = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    made = {f"examples/{path.stem}.md" for path in EXAMPLES}
    reference = {f"reference/{name}.md" for name in ("bounds", "accounting", "pacdp")}
    assert sorted(NAVIGATION) == sorted(pages | made | reference | {"index.md"}), "name the page in mkdocs.yml"


def test_mathematics_pages_open_with_what_they_are_for():
    for name in ("guarantees", "notation", "accounting", "noise", "entropy_sgld", "samplers", "chains", "diagnostics",
                 "certificates"):  # fmt: skip
        _, first, *_ = (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8").split("\n\n")
        assert first.startswith("This page is for"), name


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_examples_are_notebooks_that_begin_with_a_title(path):
    text = path.read_text(encoding="utf-8")
    assert text.startswith("# %% [markdown]\n# # ")
    code = [cell.partition("\n")[2] for cell in text.split("# %%")[1:] if not cell.startswith(" [markdown]")]
    assert len(code) >= 2
    for cell in code:
        compile(cell, str(path), "exec")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('<a href="https://elsewhere.org">a link is followed by people</a><script src="assets/a.js"></script>', 0),
        ('<script src="https://elsewhere.org/mathjax.js"></script>', 1),
        ('<link rel="stylesheet" href="//elsewhere.org/font.css"><link rel="canonical" href="https://own.org">', 1),
        ('<img src="http://elsewhere.org/badge.svg"><p style="background: url(https://elsewhere.org/x.png)">', 2),
        ("<style>@import 'https://elsewhere.org/a.css';</style>", 1),
    ],
)
def test_the_check_of_the_site_sees_every_request(text, found, tmp_path):
    (tmp_path / "index.html").write_text(f"<html><body>{text}</body></html>")
    assert len(requests(tmp_path)) == found


def test_the_check_of_the_site_reads_styles(tmp_path):
    (tmp_path / "a.css").write_text("body { font: url('https://elsewhere.org/a.woff2') } p { background: url(a.png) }")
    assert requests(tmp_path) == ["a.css: https://elsewhere.org/a.woff2"]


def test_every_public_name_is_on_a_page_of_reference():
    from site_tools.reference import pages

    found = pages()
    for package, place in ((bounds, "bounds"), (accounting, "accounting"), (pacdp, "pacdp")):
        shown = set(re.findall(r"^::: [\w.]+\.(\w+)$", found[f"reference/{place}.md"], re.MULTILINE))
        functions = {name for name in dir(package) if name[0].isupper() and callable(getattr(package, name))}
        assert {name for name in functions if getattr(package, name).__module__.startswith(place[:5])} <= shown
