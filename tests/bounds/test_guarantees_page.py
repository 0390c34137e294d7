"""docs/guarantees.md names tests that exist, and every public function that promises something."""

import inspect
import re
from pathlib import Path

from cells import CELLS

import bounds
from bounds.hypotheses import NAMES

HERE = Path(__file__).parent
PAGE = (HERE.parents[1] / "docs" / "guarantees.md").read_text(encoding="utf-8")


def test_every_test_named_on_the_page_exists():
    files = list(HERE.parent.rglob("test_*.py"))
    source = "\n".join(path.read_text(encoding="utf-8") for path in files)
    named = re.findall(r"`(test_\w+?)(?:\.py|\.\.\.)?`", PAGE)
    assert len(named) > 15
    missing = [name for name in named if f"def {name}" not in source and name not in {f.stem for f in files}]
    assert missing == []


def test_every_function_with_a_formal_guarantee_is_on_the_page():
    public = {name: thing for name, thing in vars(bounds).items() if name[0] != "_" and not inspect.ismodule(thing)}
    promising = [name for name, thing in public.items() if "Formal guarantee" in (thing.__doc__ or "")]
    assert len(promising) > 20
    assert [name for name in promising if f"`{name}" not in PAGE] == []


def test_every_public_name_is_in_the_table():
    table = PAGE.split("## Where to find what")[1]
    public = [name for name, thing in vars(bounds).items() if name[0] != "_" and not inspect.ismodule(thing)]
    assert len(public) > 80
    assert [name for name in public if f"`{name}`" not in table and f"`{name}." not in table] == []


def test_every_formula_at_every_price_has_its_line():
    table = PAGE.split("**Formula × price.**")[1].split("## ")[0]
    lines = {line.split("`")[1]: line for line in table.splitlines() if line.startswith("| `")}
    for cell in CELLS:
        assert f"`{cell.name}`" in lines[cell.formula.split()[0]], cell
    assert len(lines) == len({cell.formula.split()[0] for cell in CELLS})


def test_every_hypothesis_is_explained():
    table = PAGE.split("### Rigorous and optimistic")[1].split("### ")[0]
    assert re.findall(r"^\| ([A-Za-z ]+) \|", table, re.MULTILINE)[1:] == list(NAMES)


def test_docstrings_cite_sections_that_exist():
    headings = re.findall(r"^#+ (.+)$", PAGE, re.MULTILINE)
    cited = set()
    for path in (HERE.parents[1] / "bounds").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        cited |= set(re.findall(r'"([A-Z][^"\n]+)"\)? in docs/guarantees\.md', text))
        cited |= set(re.findall(r'docs/guarantees\.md, "([^"\n]+)"', text))
    assert len(cited) >= 5
    assert cited <= set(headings)
