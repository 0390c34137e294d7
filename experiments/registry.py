"""All studies by name: every :class:`experiments.study.Study` that stands in a module of `experiments.papers`."""

import functools
import importlib
import pkgutil

import experiments.papers
from experiments.study import Study

_FIRST = ("certificates", "random_labels", "entropy_sgld", "entropy_sgld_cifar", "corruption", "knolle", "bayesian_dp")
"""Modules in the order in which a reader meets them; the others follow by name."""


@functools.cache
def studies() -> dict[str, Study]:
    """Every study by its name, by module and then in the order in which the module makes them."""
    found: dict[str, Study] = {}
    names = [one.name for one in pkgutil.iter_modules(experiments.papers.__path__)]
    for name in sorted(names, key=lambda name: (_FIRST.index(name) if name in _FIRST else len(_FIRST), name)):
        module = importlib.import_module(f"experiments.papers.{name}")
        found |= {value.name: value for value in vars(module).values() if isinstance(value, Study)}
    return found


def study(name: str) -> Study:
    """The study of that name.

    Raises:
        ValueError: there is none.
    """
    if name not in studies():
        raise ValueError(f"no study is called {name!r}: choose one of\n{titles()}")
    return studies()[name]


def titles() -> str:
    """A line for every study: name, title and paper."""
    width = max(map(len, studies()))
    return "\n".join(f"  {one.name:{width}}  {one.title} ({one.paper})" for one in studies().values())
