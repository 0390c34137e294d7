"""The progress of studies: counts, times and lines."""

import io

import pytest
from rich.console import Console
from small_jobs import job

from experiments.watch import Watch


class _Clock:
    now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture(params=[False, True], ids=["plain", "terminal"])
def console(request):
    return Console(file=io.StringIO(), force_terminal=request.param, width=150, highlight=False)


def test_counts_times_and_lines(console):
    clock = _Clock()
    jobs = [("a", job(0)), ("a", job(1)), ("a", job(2)), ("a", job(3)), ("b", job(4))]
    with Watch(jobs=jobs, console=console, clock=clock) as watch:
        watch.ended(0, None)
        a, b = watch.studies["a"], watch.studies["b"]
        assert (a.done, a.found, a.waiting, a.left(0.0)) == (1, 1, 3, None)
        clock.now = 10.0
        watch.started([1, 2])
        watch.started([1])
        assert (a.running, a.waiting, b.waiting, a.left(15.0)) == (2, 1, 1, None)
        clock.now = 16.0
        watch.ended(1, None)
        assert (a.done, a.running, a.left(16.0)) == (2, 1, 12.0)
        watch.ended(2, "went [wrong]")
        watch.ended(3, None)
        clock.now = 100.0
        assert (a.done, a.failed, a.ended) == (3, 1, 16.0)
        shown = Console(width=120, file=io.StringIO())
        shown.print(watch.table())
        table = shown.file.getvalue()
        assert "3/4" in table
        assert "0:00:06" in table
        assert "[wrong]" in table
    text = console.file.getvalue()
    assert "[3/4] a ends-2 (way=ends seed=2): FAILED: went [wrong]" in text
    assert console.is_terminal or text.splitlines()[0] == "[1/4] a ends-0 (way=ends seed=0): finished"
