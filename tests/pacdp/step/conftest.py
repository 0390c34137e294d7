"""The toys of private training are shared, and the networks' first layers have inputs without gradients."""

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1] / "private"))


def pytest_collection_modifyitems(items):
    for item in items:
        if item.path.parent == Path(__file__).parent:
            item.add_marker(pytest.mark.filterwarnings("ignore:Full backward hook is firing"))
