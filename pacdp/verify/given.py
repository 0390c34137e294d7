"""What ``--data`` and ``--model`` give: code of whoever checks, whose failures are told by the option's name."""

import importlib
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from pacdp.verify.claim import Checks, Unchecked, Wrong
from pacdp.verify.examples import Examples

_RETURNS = {
    "--data": "inputs, labels and, if known, people",
    "--model": "the network",
}

_FAILED = (Exception, SystemExit)
"""What code that is given may end in; one that ends the program would end it with a status of its own."""


def called(
    name: str, option: str, use: Callable[[Any], Any] = lambda x: x
) -> Any:
    """What ``module:callable`` returns, as it is used; the working directory is searched for the module.

    Raises:
        ValueError: there is no such callable, it fails, or what it returns is of no use; the option is named.
    """
    module, _, attribute = name.partition(":")
    folder = str(Path.cwd())
    sys.path.insert(0, folder)
    try:
        made = getattr(importlib.import_module(module), attribute)
        return use(made())
    except _FAILED as error:
        raise ValueError(
            f"{option} {name} is no module:callable that returns {_RETURNS[option]}: {type(error).__name__}: {error}"
        ) from error
    finally:
        if folder in sys.path:  # that code may add its own
            sys.path.remove(folder)


def examples_of(given: Any) -> Examples:
    """Of a tuple, or of an object with inputs, labels and people."""
    if not isinstance(given, tuple):
        given = given.inputs, given.labels, given.people
    sizes = {len(one) for one in given if one is not None}
    if len(sizes) > 1:
        raise ValueError(f"they have different sizes, {sizes}")
    return Examples(*given)


def with_given(checks: Checks) -> Checks:
    """The same checks, of which one that fails in what --data or --model gave cannot be made."""

    def guarded(check: Callable[..., object], *given: Any) -> None:
        try:
            check(*given)
        except (Wrong, Unchecked):
            raise
        except _FAILED as error:
            raise Unchecked(
                f"what --data or --model gave does not fit: {type(error).__name__}: {error}"
            ) from error

    return {
        claim: partial(guarded, check)
        for claim, check in checks.items()
    }
