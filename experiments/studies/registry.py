"""All studies by name. A line makes a study: its module is imported when the study is asked for."""

import importlib

from experiments.studies.study import Study

STUDIES = {
    "certificates": "experiments.certificates.study:STUDY",
    "random-labels": "experiments.random_labels:STUDY",
}
"""Where the study of each name is: module:attribute."""


def study(name: str) -> Study:
    """The study of that name.

    Raises:
        ValueError: there is none.
    """
    if name not in STUDIES:
        raise ValueError(f"no study is called {name!r}: choose one of\n{titles()}")
    module, attribute = STUDIES[name].split(":")
    found: Study = getattr(importlib.import_module(module), attribute)
    return found


def titles() -> str:
    """A line for every study: name, title and paper."""
    width = max(map(len, STUDIES))
    found = (study(name) for name in STUDIES)
    return "\n".join(f"  {one.name:{width}}  {one.title} ({one.paper})" for one in found)
