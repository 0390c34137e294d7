"""What is wrong on a command line beside what tyro says of it."""

import difflib
from collections.abc import Iterable


def require_failure_prob(given: float | None) -> None:
    """Refuse a --failure-prob that is no probability."""
    if given is not None and not 0.0 < given < 1.0:
        raise ValueError(
            f"--failure-prob must lie strictly between 0 and 1, got {given}: 0.05 is customary"
        )


def nearest(word: str, known: Iterable[str]) -> str:
    """The end of a sentence about an unknown word: what was meant, or what there is."""
    known = list(known)
    near = difflib.get_close_matches(word, known, n=1)
    return f"did you mean {near[0]}?" if near else f"choose one of {', '.join(known)}"
