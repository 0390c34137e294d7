"""The checker is written to be read: formulas are short and name what they recompute, lines hold little."""

import ast
import inspect
import io
import re
import tokenize
from pathlib import Path

import pacdp.verify
from pacdp.verify import formulas
from pacdp.verify.formulas import prices, transfer

FOLDER = Path(pacdp.verify.__file__).parent
GUARANTEES = (FOLDER.parents[1] / "docs" / "guarantees.md").read_text()
HEADINGS = set(re.findall(r"^#+ (.+)$", GUARANTEES, re.MULTILINE))
LAYOUT = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}


def test_a_formula_is_short_and_names_a_section_of_the_guarantees():
    table = [*formulas.FORMULAS.values(), *prices.PRICES.values(), transfer.check]
    table += [transfer.gaussian, transfer.concentrated, transfer.approximate]
    for function in table:
        name, said = function.__name__, inspect.getdoc(function) or ""
        assert HEADINGS & set(re.findall(r'"([^"]+)"', said)), f"{name} names no section: {said}"
        body = inspect.getsource(function).replace(said, "")
        assert len(body.strip().splitlines()) <= (15 if function is not transfer.check else 40), name


def test_no_function_is_long_and_lines_hold_few_tokens():
    tokens, lines = 0, 0
    for path in FOLDER.rglob("*.py"):
        text = path.read_text()
        free = set[int]()
        assert len(text.splitlines()) <= 400, path.name
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef):
                assert node.end_lineno - node.lineno < 40, (path.name, node.name)
            said = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
            if said or isinstance(node, ast.Import | ast.ImportFrom):
                free |= set(range(node.lineno, node.end_lineno + 1))
        counted = [one.start[0] for one in tokenize.generate_tokens(io.StringIO(text).readline)
                   if one.type not in LAYOUT and one.start[0] not in free]  # fmt: skip
        tokens, lines = tokens + len(counted), lines + len(set(counted))
    assert tokens <= 8 * lines, f"{tokens} tokens in {lines} lines of code"
