"""The networks' first layers have inputs without gradients, which torch's hooks remark upon."""

import sys
from pathlib import Path

import pytest

from tests.marks import left_out

sys.path.append(str(Path(__file__).parents[1] / "step"))


@pytest.fixture
def known_network(monkeypatch):
    """Audits leave out the look at the network before each run: it takes half of their time, and has its own tests."""
    left_out(monkeypatch, "loop._check_examples", "step.agreement.disagreement")


def pytest_collection_modifyitems(items):
    for item in items:
        if "private" in str(item.path.parent.name):
            item.add_marker(pytest.mark.filterwarnings("ignore:Full backward hook is firing"))
