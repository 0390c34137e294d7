"""One thread a test process: tiny tensors gain nothing from more. Private training and its steps share their toys."""

import sys
from pathlib import Path

import pytest
import torch

torch.set_num_threads(1)
SHARING = [Path(__file__).parent / name for name in ("private", "step")]
sys.path.extend(map(str, SHARING))


def pytest_collection_modifyitems(items):
    for item in items:
        if item.path.parent in SHARING:  # first layers have inputs without gradients, which torch's hooks remark upon
            item.add_marker(pytest.mark.filterwarnings("ignore:Full backward hook is firing"))
