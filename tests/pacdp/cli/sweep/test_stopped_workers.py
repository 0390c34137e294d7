"""Workers that are stopped or never come to an end: nobody waits for them for ever, and the others go on."""

import os
from functools import partial
from math import inf

import psutil
import pytest
from small_jobs import job, outs, pids
from sweeps import ended, tries, two_workers

from pacdp.cli.sweep import batches
from pacdp.cli.sweep.life import TICK, Watched
from pacdp.cli.sweep.workers import Workers

LATE = "it took longer than {:g} s: raise --limit and start again, it goes on from its last checkpoint"


@pytest.fixture(params=["processes", "dask"])
def two(request):
    """Two workers of either backend."""

    return partial(two_workers, request)


class _SoonLate(Watched):
    """A batch that is late as soon as its first job has begun, if that is one that never ends."""

    def __init__(self, folder, effort):
        self._tried = len(pids(folder))
        super().__init__(folder, effort)

    def look(self):
        super().look()
        folder = self._file.parent
        if folder.name.startswith(("sleeps", "ignores")) and len(pids(folder)) > self._tried:
            self.seconds = inf


@pytest.mark.slow
def test_what_shares_a_batch_with_a_run_that_never_ends_is_carried_out(two, tmp_path, monkeypatch):
    monkeypatch.setattr(batches, "Watched", _SoonLate)
    jobs = [job(0, "sleeps", together=True), job(1, together=True), job(2), job(3, "raises")]
    found = ended(jobs, tmp_path, two(limit=3600.0))
    assert found == {0: LATE.format(3600), 1: None, 2: None, 3: "KeyError: 'no such thing'"}
    assert tries(jobs, tmp_path) == [2, 1, 1, 1]


def test_one_worker_with_a_limit_is_a_process_and_a_run_that_ignores_sigterm_ends(tmp_path, monkeypatch):
    monkeypatch.setattr(batches, "Watched", _SoonLate)
    jobs = [job(0), job(1, "ignores")]
    assert ended(jobs, tmp_path, Workers(limit=3600.0)) == {0: None, 1: LATE.format(3600)}
    assert os.getpid() not in [pid for out in outs(jobs, tmp_path) for pid in pids(out)]
    assert not psutil.pid_exists(pids(tmp_path / jobs[1].key)[0])


@pytest.mark.slow
def test_a_computation_that_lets_no_other_thread_run_is_no_dead_worker(tmp_path):
    jobs = [job(0, "holds"), job(1)]
    assert ended(jobs, tmp_path, Workers(workers=2, heartbeat=2.0, retries=0)) == {0: None, 1: None}
    assert tries(jobs, tmp_path) == [1, 1]


class _World:
    """A clock, a worker's folder and its processor time, all by hand."""

    def __init__(self, folder, *, here):
        self.now, self.worked, self.folder, self.touches = 0.0, 0, folder, 0
        folder.mkdir(exist_ok=True)
        self.watched = Watched(folder, (lambda: self.worked) if here else None, clock=lambda: self.now)

    def pass_by(self, seconds, *, touches=False, works=False, looks=True):
        for _ in range(int(seconds * 2)):
            self.now += 0.5
            self.worked += works
            if touches:
                self.touches += 1
                os.utime(self.folder / ".alive", ns=(self.touches, self.touches))
            if looks:
                self.watched.look()
        self.watched.look()
        return self.watched.seconds, self.watched.silence

    def begin(self):
        (self.folder / ".alive").touch()
        self.watched.look()


@pytest.mark.parametrize("here", [False, True])
def test_time_counts_from_the_first_touch_and_silence_from_the_last_sign(here, tmp_path):
    world = _World(tmp_path, here=here)
    assert world.pass_by(50, works=True) == (0.0, 0.0)
    assert world.pass_by(50) == (0.0, 50.0 if here else 0.0), "what has not begun elsewhere has no life to show"
    world.begin()
    assert world.pass_by(20, touches=True) == (20.0, 0.0)
    assert world.pass_by(30, works=True) == (50.0, 0.0 if here else 30.0)
    assert world.pass_by(30) == (80.0, 30.0 if here else 60.0)
    assert world.pass_by(1, touches=True) == (81.0, 0.0)
    later, silence = world.pass_by(1e6, looks=False)
    assert max(later - 81.0, silence) <= 2 * TICK, "time in which nobody looked is nobody's silence"
