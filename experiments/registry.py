"""All sections in the order of the page, and all studies by name."""

import functools
import importlib

from experiments.study import Section, Study

PAPERS: tuple[str, ...] = ("dziugaite_roy", "random_labels", "knolle", "zhang_bu", "p3sgd")
OURS: tuple[str, ...] = ("certificates", "all_data", "small_samples", "calibration_frontier", "temperature_map",
                         "private_priors")  # fmt: skip
"""Modules of `experiments.papers` and of `experiments.ours`, in the order in which a reader meets them."""


@functools.cache
def sections() -> dict[str, Section]:
    """By the name of the module that makes it."""
    modules = [f"papers.{name}" for name in PAPERS] + [f"ours.{name}" for name in OURS]
    return {name: importlib.import_module(f"experiments.{name}").SECTION for name in modules}


@functools.cache
def studies() -> dict[str, Study]:
    """Every study by its name.

    Raises:
        ValueError: two studies have one name.
    """
    found = [study for section in sections().values() for study in section.studies]
    by_name = {study.name: study for study in found}
    if len(by_name) < len(found):
        raise ValueError("two studies have one name: their results would lie in one folder")
    return by_name
