"""What tests of certificates share."""

import pytest


@pytest.fixture(scope="module", autouse=True)
def _few(few_passes):
    """Every certificate of a chain."""
