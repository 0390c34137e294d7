"""The check of annotations that runs beside the suite: what it catches, and what it leaves alone."""

import ast
import textwrap

import pytest
from jaxtyping import TypeCheckError

from tests.marks import every_case, made_once, parametrize
from tests.typed import _Wrapped, next_test, unchecked

SOURCE = '''
"""A module."""
import numba
from dataclasses import dataclass
from typing import NamedTuple, no_type_check
import numpy as np
from jaxtyping import Float

def half(x: int) -> float:
    def inner(y: int) -> str:
        return y
    return inner(x) / 2

def added(x: Float[np.ndarray, " n"], y: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    return x + y

class Pair(NamedTuple):
    x: Float[np.ndarray, " n"]
    k: int

@dataclass(frozen=True, slots=True)
class Count:
    n: int
    @property
    def twice(self) -> str:
        return 2 * self.n

@dataclass(frozen=True)
class Rows:
    x: Float[np.ndarray, "n d"]
    y: Float[np.ndarray, " n"]

@no_type_check
def free(x: int) -> str:
    return x

@numba.njit
def compiled(x: int) -> int:
    return x + 1
'''


@made_once
def module():
    names = {}
    tree = ast.fix_missing_locations(_Wrapped().visit(ast.parse(textwrap.dedent(SOURCE))))
    exec(compile(tree, "<module>", "exec"), names)
    return names


@every_case(
    "call",
    ["half('x')", "Count(1).twice", "added(np.zeros(2), np.zeros(3))", "Rows(np.zeros((2, 3)), np.zeros(3))"],
)  # fmt: skip
def test_wrong_types_and_shapes_are_caught(module, call):
    with pytest.raises(TypeCheckError):
        eval(call, module)


@parametrize(
    ("call", "expected"),
    [("half(3)", 1.5), ("Count(2).n", 2), ("free(1.0)", 1.0), ("compiled(1)", 2), ("Pair(np.ones(2), 3).k", 3)],
)
@pytest.mark.every_case
def test_what_is_right_unchecked_or_inside_passes(module, call, expected):
    assert eval(call, module) == expected


def test_checks_can_be_switched_off_and_come_back(module):
    with unchecked():
        assert eval("Count(1).twice", module) == 2
        assert eval("Rows(np.zeros((2, 3)), np.zeros(3)).y.size", module) == 3
    with pytest.raises(TypeCheckError):
        eval("Count(1).twice", module)


def test_the_first_calls_of_each_test_are_checked(module):
    for _ in range(10):
        eval("Count(1)", module)
    assert eval("Count('x').n", module) == "x"
    next_test()
    with pytest.raises(TypeCheckError):
        eval("Count('x')", module)


@pytest.mark.wrong_types
def test_they_are_off_where_a_test_is_marked(request, module):
    if request.config.pluginmanager.has_plugin("tests.typed"):
        assert eval("Count(1).twice", module) == 2
