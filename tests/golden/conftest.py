"""One thread, so that sums of float32 have one order."""

import pytest
import torch


@pytest.fixture
def one_thread():
    """Torch on one thread, and as before afterwards."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
