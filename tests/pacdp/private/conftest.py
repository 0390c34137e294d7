"""The networks' first layers have inputs without gradients, which torch's hooks remark upon."""

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1] / "step"))


def pytest_collection_modifyitems(items):
    for item in items:
        if "private" in str(item.path.parent.name):
            item.add_marker(pytest.mark.filterwarnings("ignore:Full backward hook is firing"))
