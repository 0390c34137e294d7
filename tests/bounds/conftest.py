"""Makes the slow twins in tests/oracles importable and hypothesis repeatable."""

import sys
from pathlib import Path

from hypothesis import settings

sys.path.insert(0, str(Path(__file__).parents[1] / "oracles"))

settings.register_profile("bounds", derandomize=True, deadline=None, database=None)
settings.load_profile("bounds")
