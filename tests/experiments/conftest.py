"""What tests of the command share; the runs themselves are in ``tests.shared_runs``."""

import json
from functools import cache

import pytest
import sklearn.datasets
import torch
from cli_tools import one_sentence, pacdp, succeed
from tyro._docstrings import _ClassTokenization

from bounds.accounting import accountant
from tests.schema import validate


@pytest.fixture(scope="session", autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session", autouse=True)
def _remembered():
    """The digits, the comments beside a command's options and every epsilon are worked out once."""
    plain, known = accountant._epsilon, {}

    def epsilon(*arguments):
        key = repr(arguments)
        if key not in known:
            known[key] = plain(*arguments)
        return known[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(accountant, "_epsilon", epsilon)
        patch.setattr(sklearn.datasets, "load_digits", cache(sklearn.datasets.load_digits))
        patch.setattr(_ClassTokenization, "make", staticmethod(cache(_ClassTokenization.make.__wrapped__)))
        yield


@pytest.fixture(scope="module", autouse=True)
def _few(few_passes):
    """Every certificate of a command's run."""


@pytest.fixture
def refused(capsys):
    """A function that runs a command which must fail, and returns its one sentence, which comes last."""

    def run(*arguments):
        capsys.readouterr()
        assert pacdp(*arguments) in (1, 2), arguments
        printed = capsys.readouterr()
        assert printed.out == "", arguments
        assert "Traceback" not in printed.err
        return one_sentence(printed.err.strip().splitlines()[-1])

    return run


@pytest.fixture
def certify(capsys):
    """A function that runs `pacdp certify` and returns the report that it prints, which keeps to the schema."""

    def run(*arguments):
        capsys.readouterr()
        succeed("certify", *arguments, "--json", "--threads", 1)
        report = json.loads(capsys.readouterr().out)
        validate(report)
        return report

    return run
