"""Cases, marks, refusals and what is left out, in few words."""

import pytest

near, parametrize = pytest.approx, pytest.mark.parametrize
made_once = pytest.fixture(scope="module")
"""A fixture that all tests of a file share."""


def every_case(names, values, **how):
    """Cases that are the point: all of them are run by default."""
    return lambda test: pytest.mark.every_case(parametrize(names, values, **how)(test))


def at_most(most, names, values, **how):
    """Cases that are dear: so many of them are run by default."""
    return lambda test: pytest.mark.cases(most)(parametrize(names, values, **how)(test))


def slow(*values, **how):
    """A case that runs where slow ones are asked for."""
    return pytest.param(*values, marks=pytest.mark.slow, **how)


def refusal(words, error=ValueError):
    """What is called within raises the error, in which the words are found."""
    return pytest.raises(error, match=words)


def left_out(patch, *trials):
    """Trials of networks that tests of something else do without: they take most of the time, and have their own."""
    for trial in trials:
        patch.setattr(f"pacdp.{trial}", lambda *_, **__: None)
