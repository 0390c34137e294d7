"""Refusals of what the accountant's questions take, one sentence each."""

from bounds import _check


def delta_in_range(delta: float) -> None:
    """delta must be a probability that promises something."""
    _check.real(delta=delta)
    if not 0.0 < delta < 1.0:
        raise ValueError(
            f"delta must lie strictly between 0 and 1, got {delta!r}; pass a number well below one over the number of "
            f"records."
        )
