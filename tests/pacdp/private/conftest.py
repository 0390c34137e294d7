"""What tests of private training leave out where others look at it."""

import pytest

from tests.marks import left_out


@pytest.fixture
def known_network(monkeypatch):
    """Audits leave out the look at the network before each run: it takes half of their time, and has its own tests."""
    left_out(monkeypatch, "loop.require_apart", "step.set_up.disagreement")
