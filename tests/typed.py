"""Annotations of pacdp are checked while the suite runs, at the first calls of each function in each test:
``python -m pytest -p tests.typed``.

``unchecked`` switches the checks off while a test hands over values of wrong types, which pacdp itself is to refuse.
Functions, methods and dataclasses whose annotations carry shapes are wrapped by jaxtyping, all others by beartype
alone, which costs a tenth of that. Functions inside functions are left as they are: they would be wrapped anew at every
call of the outer one, which took most of the suite's time.
"""

import ast
import importlib.abc
import importlib.machinery
import sys
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import is_dataclass
from functools import partial, update_wrapper, wraps
from types import CodeType, FunctionType
from typing import Any

import pytest
from beartype import BeartypeConf, beartype
from jaxtyping import TypeCheckError, jaxtyped

PACKAGE = "pacdp"
_HERE = "__typed__"
_checked = beartype(conf=BeartypeConf(violation_type=TypeCheckError))
_UNCHECKED = {"no_type_check", "njit", "jit", "vectorize", "intrinsic", "overload"}


_CALLS = 2  # of a function in a test are checked: a loop that calls it a thousand times repeats its types
_on = True
_test = 0


_gated: dict[FunctionType, CodeType] = {}
"""Functions whose code is a gate until their types were checked, and that gate."""
_passed: list[FunctionType] = []
"""Those of them that have their own code again until the next test."""


@contextmanager
def unchecked():
    """While this lasts, annotations are not checked."""
    global _on  # noqa: PLW0603 - the checks of a process are on or off
    before, _on = _on, False
    for thing in _gated:
        thing.__code__ = _own(thing).__code__
    try:
        yield
    finally:
        _on = before
        if before:
            for thing, gate in _gated.items():
                thing.__code__ = gate
            _passed.clear()


def _own(thing):
    """A copy of the function that has no gate."""
    return thing.__wrapped__


def next_test():
    """From here on, first calls are those of another test."""
    global _test  # noqa: PLW0603 - a process runs one test at a time
    _test += 1
    for thing in _passed:
        thing.__code__ = _gated[thing]
    _passed.clear()


def _switched(check, thing):
    """The function, made to check its types when it is first called so: most are never called in a process.

    A wrapper costs more than most functions that it wraps. Where nothing is enclosed, the function itself stays, and
    has the code of a gate for its first calls of a test.
    """
    if not isinstance(thing, FunctionType) or thing.__closure__:
        return wraps(thing)(_first_calls(check, thing, lambda: None))
    own = FunctionType(thing.__code__, thing.__globals__, thing.__name__, thing.__defaults__)
    own.__kwdefaults__ = thing.__kwdefaults__
    del update_wrapper(own, thing).__wrapped__
    thing.__wrapped__ = own  # type: ignore[attr-defined]

    def passed():
        thing.__code__ = own.__code__
        _passed.append(thing)

    first = _first_calls(check, own, passed)
    _gated[thing] = _GATE.replace(co_consts=tuple(first if one == _CALLED else one for one in _GATE.co_consts))
    thing.__code__ = _gated[thing]
    return thing


_CALLED = "what a gate calls"
_GATE = (lambda *args, **kwargs: ("what a gate calls" or None)(*args, **kwargs)).__code__  # noqa: PLW0108


def _first_calls(check, thing, passed):
    checked: Callable[..., Any] | None = None
    test = calls = 0

    def called(*args, **kwargs):
        nonlocal checked, test, calls
        if test != _test:
            test, calls = _test, 0
        calls += 1
        if calls == _CALLS:
            passed()
        if not _on or calls > _CALLS:
            return thing(*args, **kwargs)
        if checked is None:
            checked = check(thing)
        return checked(*args, **kwargs)

    return called


def _constructed(check, thing):
    """The function, or the dataclass's own construction, switched; a tuple with names has none to check."""
    if not isinstance(thing, type):
        return _switched(check, thing)
    if is_dataclass(thing):
        thing.__init__ = _switched(check, thing.__init__)  # type: ignore[misc]
    return thing


def shaped(thing):
    """With its types and shapes checked."""
    return _constructed(partial(jaxtyped, typechecker=beartype), thing)


def plain(thing):
    """With its types checked."""
    return _constructed(_checked, thing)


class _Wrapped(ast.NodeTransformer):
    """Decorators on everything that is defined in a module or a class."""

    def visit_Module(self, node):
        self.generic_visit(node)
        places = [i for i, one in enumerate(node.body) if not _leads(one)]
        node.body.insert(places[0] if places else len(node.body), ast.parse(f"import tests.typed as {_HERE}").body[0])
        return node

    def visit_ClassDef(self, node):
        self.generic_visit(node)
        fields = [one.annotation for one in node.body if isinstance(one, ast.AnnAssign)]
        node.decorator_list.insert(0, _decorator(node, fields))  # outermost: dataclass has made its __init__ by then
        return node

    def visit_FunctionDef(self, node):
        if not any(_name(one) in _UNCHECKED for one in node.decorator_list):
            given = node.args
            every = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
            types = [one.annotation for one in every if one is not None and one.annotation is not None]
            node.decorator_list.append(_decorator(node, [*types, *([node.returns] if node.returns else [])]))
        return node  # and what is defined inside stays as it is


def _leads(node):
    """A module's docstring, or an import from the future."""
    return (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)) or (
        isinstance(node, ast.ImportFrom) and node.module == "__future__"
    )


def _name(node):
    match node:
        case ast.Call(func=inner):
            return _name(inner)
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name
    return ""


def _decorator(node, annotations):
    """``shaped`` if some annotation is an array's with a string of dimensions, else ``plain``."""
    dimensions = any(
        isinstance(one, ast.Subscript) and isinstance(one.slice, ast.Tuple) and _is_text(one.slice.elts[-1])
        for annotation in annotations
        for one in ast.walk(annotation)
    )
    made = ast.parse(f"{_HERE}.{'shaped' if dimensions else 'plain'}", mode="eval").body
    for one in ast.walk(made):
        ast.copy_location(one, node)
    return made


def _is_text(node):
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


class _Loader(importlib.machinery.SourceFileLoader):
    def get_code(self, fullname):
        """Compiled anew each time: what lies in __pycache__ is the module as it is."""
        path = self.get_filename(fullname)
        return self.source_to_code(self.get_data(path), path)

    def source_to_code(self, data, path, *, _optimize=-1):
        tree = ast.fix_missing_locations(_Wrapped().visit(ast.parse(data, path)))
        return compile(tree, path, "exec", dont_inherit=True, optimize=_optimize)


class _Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, fullname, path, target=None):
        if fullname != PACKAGE and not fullname.startswith(f"{PACKAGE}."):
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is not None and isinstance(spec.loader, importlib.machinery.SourceFileLoader):
            spec.loader = _Loader(spec.loader.name, spec.loader.path)
        return spec


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests():
    """Before anything of the suite is imported: pacdp is wrapped as it is loaded."""
    loaded = [name for name in sys.modules if name == PACKAGE or name.startswith(f"{PACKAGE}.")]
    if loaded:
        raise RuntimeError(f"{loaded[0]} is imported already, and its annotations would not be checked")
    sys.meta_path.insert(0, _Finder())
