"""Jobs that take no time, of which some raise, kill their process or wait to be killed."""

import os
import signal
import time
from dataclasses import dataclass, replace

from pacdp.cli.sweep.jobs import Job, single


@dataclass(frozen=True, kw_only=True)
class Small:
    """A number to be computed, and what happens on the way."""

    seed: int
    way: str = "ends"


def _compute(config, runtime, folder):
    with (folder / "tries").open("a") as tries:
        tries.write(f"{os.getpid()}\n")
    match config.way:
        case "dies":
            os.kill(os.getpid(), signal.SIGKILL)
        case "raises":
            raise KeyError("no such thing")
        case "waits once" if len(pids(folder)) == 1:
            time.sleep(3600.0)
        case "sleeps":
            time.sleep(3600.0)
        case "ignores":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            time.sleep(3600.0)
    return {"value": config.seed**2}


def _any(config):
    return "all of them"


SINGLE = single(_compute)
TOGETHER = replace(SINGLE, together=_any)


def job(seed, way="ends", *, together=False):
    """One job."""
    return Job(key=f"{way.replace(' ', '-')}-{seed}", kind=TOGETHER if together else SINGLE,
               config=Small(seed=seed, way=way), tags={"way": way, "seed": seed})  # fmt: skip


def outs(jobs, root):
    """Where each goes."""
    return [root / one.key for one in jobs]


def pids(folder):
    """The processes that have begun the job, in order."""
    path = folder / "tries"
    return [int(line) for line in path.read_text().splitlines()] if path.exists() else []


def wait_for_pid(folder, seconds=300.0):
    """The process that is at work on the job."""
    end = time.monotonic() + seconds
    while not pids(folder):
        assert time.monotonic() < end, f"nothing began in {folder}"
        time.sleep(0.01)
    return pids(folder)[0]
