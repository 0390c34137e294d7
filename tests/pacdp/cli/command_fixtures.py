"""What tests of the command and of studies share: fixtures that their ``conftest.py`` import."""

import json
import os
from functools import cache, wraps

import matplotlib as mpl
import pytest
import sklearn.datasets
import torch
from cli_tools import one_sentence, pacdp, succeed
from tyro._docstrings import _ClassTokenization

from bounds.accounting import accountant
from pacdp import objective
from pacdp.chains import network
from pacdp.cli import folder
from pacdp.step import chain_sums, set_up
from tests.schema import validate


@pytest.fixture(scope="session", autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(autouse=True)
def _style_of_the_session():
    with mpl.rc_context():
        yield


def _once(plain):
    """The function, called once for arguments that are written the same."""
    known = {}

    @wraps(plain)
    def called(*arguments):
        key = repr(arguments)
        if key not in known:
            known[key] = plain(*arguments)
        return known[key]

    return called


def _own(module):
    return all(type(one).__module__.startswith(("torch.nn.", "pacdp.")) for one in module.modules())


def _shape_of_trials(loss, inputs, labels, largest, mixes, parameters):
    """All that an objective's trials depend on beside its network."""
    return inputs.shape, largest, mixes, parameters is None, loss.function.__module__, loss.name, loss.high


def _unless_sound(module, name, passed, about):
    """The place of a check, and the check without those of ``about`` (a network, a shape) that it has passed."""
    check, sound = getattr(module, name), set()

    def called(*arguments, **more):
        network, shape = about(*arguments)
        key = f"{network}, {shape}, {more.get('clip_norm')}"
        if key in sound:
            return passed
        found = check(*arguments, **more)
        if found is passed and _own(network):
            sound.add(key)
        return found

    return module, name, called


_REMEMBERED = [
    (accountant, "_epsilon", _once(accountant._epsilon)),
    (folder, "version", cache(folder.version)),
    (folder, "_git", _once(folder._git)),
    (os, "fsync", lambda descriptor: None),
    (sklearn.datasets, "load_digits", cache(sklearn.datasets.load_digits)),
    (_ClassTokenization, "make", staticmethod(cache(_ClassTokenization.make.__wrapped__))),
    _unless_sound(objective, "require_own_examples", None, lambda model, *rest: (model, _shape_of_trials(*rest))),
    _unless_sound(chain_sums, "_disagreement", None, lambda _, given, __, inputs, *rest: (given.module, inputs.shape)),
    _unless_sound(network, "_agrees", True, lambda _, model, inputs: (model, inputs.shape)),
    _unless_sound(set_up, "disagreement", None, lambda _, given, inputs, *rest: (given.module, inputs.shape)),
    _unless_sound(
        set_up, "require_independent_examples", None, lambda module, examples, *rest: (module, examples[0].shape)
    ),
]


@pytest.fixture(scope="module", autouse=True)
def _remembered():
    """In these folders the digits, the comments beside a command's options, versions, what git says, every epsilon, and
    whether a network of the library's own layers is sound, are worked out once; no file is waited for until it is on
    the disk.
    """
    with pytest.MonkeyPatch.context() as patch:
        for module, name, known in _REMEMBERED:
            patch.setattr(module, name, known)
        yield


@pytest.fixture(scope="module", autouse=True)
def _few(few_passes):
    """Every certificate of a command's run."""


@pytest.fixture
def refused(capsys):
    """A function that runs a command which must fail, and returns its one sentence, which is all that it prints, or
    comes last.
    """

    def run(*arguments, status=(1,), alone=True):
        capsys.readouterr()
        assert pacdp(*arguments) in status, arguments
        printed = capsys.readouterr()
        assert printed.out == "", arguments
        assert "Traceback" not in printed.err
        return one_sentence(printed.err if alone else printed.err.strip().splitlines()[-1])

    return run


@pytest.fixture
def said(capsys):
    """A function that runs a command which must succeed, and returns what it prints: what JSON holds, or text."""

    def run(*arguments):
        capsys.readouterr()
        succeed(*arguments)
        printed = capsys.readouterr().out
        return json.loads(printed) if "--json" in arguments else printed

    return run


@pytest.fixture
def certify(said):
    """A function that runs `pacdp certify` and returns the report that it prints, which keeps to the schema."""

    def run(*arguments):
        report = said("certify", *arguments, "--json", "--threads", 1)
        validate(report)
        return report

    return run
