"""Fixtures of the tests of studies, which are carried out by the command."""

from command_fixtures import _few, _one_thread, _remembered, _style_of_the_session, refused, said  # noqa: F401
