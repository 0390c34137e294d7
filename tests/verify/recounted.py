"""What tests give to ``--data`` and ``--model``."""

from typing import Any

DATA: Any = None
MODEL: Any = None


def data() -> Any:
    """Inputs and labels."""
    return DATA


def model() -> Any:
    """A network."""
    return MODEL
