"""Workers that never come to an end: nobody waits for them for ever, and the others go on."""

import os
from functools import partial

import psutil
import pytest
from small_jobs import job, outs, pids
from sweeps import ended, tries, two_workers

from pacdp.cli.sweep.workers import Workers

LATE = "it took longer than {:g} s: raise --limit and start again, it goes on from its last checkpoint"


@pytest.fixture(params=["processes", "dask"])
def two(request):
    """Two workers of either backend."""

    return partial(two_workers, request)


@pytest.mark.slow
def test_what_shares_a_batch_with_a_run_that_never_ends_is_carried_out(two, tmp_path):
    jobs = [job(0, "sleeps", together=True), job(1, together=True), job(2), job(3, "raises")]
    found = ended(jobs, tmp_path, two(limit=30.0))
    assert found == {0: LATE.format(30), 1: None, 2: None, 3: "KeyError: 'no such thing'"}
    assert tries(jobs, tmp_path) == [2, 1, 1, 1]


def test_one_worker_with_a_limit_is_a_process_and_a_run_that_ignores_sigterm_ends(tmp_path):
    jobs = [job(0), job(1, "ignores")]
    assert ended(jobs, tmp_path, Workers(limit=8.0)) == {0: None, 1: LATE.format(8)}
    assert os.getpid() not in [pid for out in outs(jobs, tmp_path) for pid in pids(out)]
    assert not psutil.pid_exists(pids(tmp_path / jobs[1].key)[0])
