"""Workers that are killed: their runs start again, one that always kills its worker is given up, the others finish."""

import logging
import os
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path
from subprocess import PIPE

import psutil
import pytest
from small_jobs import job, outs, pids, wait_for_pid
from sweeps import ended, tries, two_workers, values
from tiny_runs import RUNTIME

from pacdp.cli.sweep.batches import carry_out
from pacdp.cli.sweep.workers import Workers
from tests.marks import parametrize, refusal, slow

ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *filter(None, sys.path)])}


@pytest.fixture(params=["processes", slow("dask")])
def two(request):
    """Two workers of either backend, with so many retries; no forks of this process, whose threads hold locks."""
    return partial(two_workers, request)


@parametrize(("end", "how"), [("kill", {"retries": 2}), slow("suspend", {"limit": 20.0})])
def test_a_killed_or_stopped_worker_s_batch_starts_again_and_the_others_go_on(end, how, two, tmp_path):
    jobs = [job(0, "waits once", together=True), job(1, together=True), job(2, together=True), job(3)]
    ended_by_us = []

    def stop():
        ended_by_us.append(psutil.Process(wait_for_pid(tmp_path / jobs[0].key)))
        getattr(ended_by_us[0], end)()

    stopper = threading.Thread(target=stop)
    stopper.start()
    found = ended(jobs, tmp_path, two(**how))
    stopper.join()
    assert found == dict.fromkeys(range(4))
    assert values(jobs, tmp_path) == [0, 1, 4, 9]
    assert tries(jobs, tmp_path)[0] >= 2
    assert end != "kill" or tries(jobs, tmp_path) == [2, 1, 1, 1], "what was finished is not run again"
    ended_by_us[0].wait(300.0)
    assert not ended_by_us[0].is_running()


@pytest.mark.slow
def test_a_run_that_always_kills_its_worker_is_given_up_and_the_others_finish(two, tmp_path):
    jobs = [job(0, together=True), job(1, "dies", together=True), job(2)]
    given_up = "its worker died 2 times, 1 of them with nothing beside it: given up"
    assert ended(jobs, tmp_path, two(retries=0)) == {0: None, 1: given_up, 2: None}
    assert values(jobs[::2], tmp_path) == [0, 4]


@pytest.mark.slow
def test_stopped_in_the_middle_the_rest_can_be_resumed(tmp_path):
    jobs = [job(0, "waits once"), job(1), job(2)]
    sweep = carry_out(jobs, outs(jobs, tmp_path), RUNTIME, workers=Workers(workers=2))
    first = [next(sweep), next(sweep)]
    pid = wait_for_pid(tmp_path / jobs[0].key)
    sweep.close()
    assert sorted(first) == [(1, None), (2, None)]
    assert not psutil.pid_exists(pid), "its processes end with it"
    assert ended(jobs, tmp_path) == dict.fromkeys(range(3))
    assert tries(jobs, tmp_path) == [2, 1, 1]


@pytest.mark.slow
def test_workers_end_with_the_process_that_started_them_however_it_ends(tmp_path):
    jobs = [job(0, "waits once")]
    program = (
        "import sys; from pathlib import Path; from small_jobs import job; from pacdp.cli.runtime import Training;"
        "from pacdp.cli.sweep.batches import carry_out; from pacdp.cli.sweep.workers import Workers;"
        "list(carry_out([job(0, 'waits once')], [Path(sys.argv[1])], Training(), workers=Workers(limit=3600.0)))"
    )
    (out,) = outs(jobs, tmp_path)
    with subprocess.Popen([sys.executable, "-c", program, str(out)], env=ENVIRONMENT) as parent:
        worker = psutil.Process(wait_for_pid(out))
        parent.kill()
    assert worker.pid != parent.pid
    end = time.monotonic() + 300.0
    while (error := ended(jobs, tmp_path)[0]) is not None:
        assert "another process is at work" in error
        assert time.monotonic() < end
        time.sleep(0.2)
    assert pids(out)[0] == worker.pid
    assert len(pids(out)) == 2


@pytest.mark.slow
def test_a_scheduler_that_is_lost_is_one_sentence_and_its_runs_can_be_resumed(tmp_path):
    pytest.importorskip("distributed")
    program = (
        "import time, distributed\n"
        "if __name__ == '__main__':\n"
        "    print(distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address='127.0.0.1:0')"
        ".scheduler_address, flush=True)\n"
        "    time.sleep(3600.0)\n"
    )
    jobs = [job(0, "waits once"), job(1), job(2)]
    own = outs(jobs, tmp_path)
    (tmp_path / "cluster.py").write_text(program)
    with subprocess.Popen([sys.executable, tmp_path / "cluster.py"], env=ENVIRONMENT, text=True,
                          stdout=PIPE, stderr=subprocess.DEVNULL) as scheduler:  # fmt: skip
        workers = Workers(workers=2, dask=scheduler.stdout.readline().strip())

        def kill():
            wait_for_pid(own[0])
            scheduler.kill()

        killer = threading.Thread(target=kill)
        killer.start()
        with refusal("the Dask scheduler has gone: start again, what is finished is kept", RuntimeError):
            ended(jobs, tmp_path, workers)
        killer.join()
        assert not logging.getLogger("distributed.client").isEnabledFor(logging.ERROR)  # with a traceback
    psutil.wait_procs([psutil.Process(pid) for pid in pids(own[0]) if psutil.pid_exists(pid)], timeout=300.0)
    assert ended(jobs, tmp_path) == dict.fromkeys(range(3))
    assert len(pids(own[0])) == 2
    assert values(jobs, tmp_path) == [0, 1, 4]
