"""Fixtures of the command's tests; the runs themselves are in ``tests.shared_runs``."""

from command_fixtures import (  # noqa: F401
    _few,
    _one_thread,
    _remembered,
    _style_of_the_session,
    certify,
    refused,
    said,
)
