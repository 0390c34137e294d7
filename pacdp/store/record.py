"""The plain frozen records that travel between the rooms of pacdp, and values by their names."""

from typing import Any

from bounds.record import record as record

Values = dict[str, Any]
"""Values by their names: a JSON object, or what a function is called with."""
