"""How far a download has come."""

from typing import Protocol, runtime_checkable


@runtime_checkable
class Progress(Protocol):
    """A progress bar as pooch drives it; tqdm's bars fit, and so does a few lines around any other."""

    total: float | None

    def update(self, n: int, /) -> object:
        """Another `n` bytes have arrived."""
        ...

    def reset(self) -> object:
        """Start again from zero."""
        ...

    def close(self) -> object:
        """The download is over."""
        ...
