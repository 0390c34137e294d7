"""What the stages of a recipe take."""

import time


class Clock:
    """Seconds by stage: wall clock, and CPU time of this process with all its threads."""

    def __init__(self) -> None:
        self.wall: dict[str, float] = {}
        self.cpu: dict[str, float] = {}
        self._last = (time.perf_counter(), time.process_time())

    def lap(self, stage: str) -> None:
        """Note what has passed since the last stage."""
        now = (time.perf_counter(), time.process_time())
        self.wall[stage], self.cpu[stage] = (round(b - a, 2) for a, b in zip(self._last, now, strict=True))
        self._last = now
