"""One run of some tests against one copy of ``bounds``, in a process of its own that a limit ends."""

import json
import multiprocessing
import os
import random
import resource
import sys
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PRELOADED = "pytest hypothesis.strategies numba scipy.stats scipy.optimize mpmath dp_accounting torch".split()
_CASES = 100
_MEMORY = 16 * 2**30  # address space, of which compilers and libraries reserve much and use little
_NICE = 10
_SAID = "said.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How it ended: ``killed`` by a test or at import, ``timeout``, or ``survived``; processor seconds it took."""

    fate: str
    by: str
    seconds: float


class _Some:
    """Of a test with many cases some, always the same; and the name of the first that failed."""

    def __init__(self):
        self.failed, self.taken = "", defaultdict[str, float](float)

    def pytest_collection_modifyitems(self, items):
        """Keep at most ``_CASES`` cases of each test."""
        groups = defaultdict[str, list[Any]](list)
        for item in items:
            groups[item.nodeid.partition("[")[0]].append(item)
        kept = set(map(id, items))
        for name, group in groups.items():
            if len(group) > _CASES and "_refusals.py" not in name:  # a table of refusals is one test
                kept -= {*map(id, group)} - {*map(id, random.Random(name).sample(group, _CASES))}
        items[:] = [item for item in items if id(item) in kept]

    def pytest_runtest_logreport(self, report):
        """Note what failed first, and how long the tests of a file take."""
        self.taken[report.nodeid.partition("::")[0]] += getattr(report, "duration", 0.0)
        if report.failed and not self.failed:
            self.failed = report.nodeid

    def pytest_collectreport(self, report):
        """A file that cannot be imported has failed."""
        self.pytest_runtest_logreport(report)


def prepared():
    """Where processes come from: forks of one that has loaded the libraries, but neither ``bounds`` nor tests."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    return context


def tried(context, root, tests, *, limit):
    """What the tests say of the ``bounds`` under ``root`` within ``limit`` processor seconds."""
    process = context.Process(target=_run, args=(str(root), tests, limit), daemon=True)
    process.start()
    process.join(6 * limit)  # by the clock, for what sleeps
    if process.is_alive():
        process.kill()
        process.join()
    if not (root / _SAID).exists():
        return Outcome(fate="timeout", by="", seconds=limit)
    said = _said(root)
    if said["code"] not in (0, 1, 2):
        raise RuntimeError(f"pytest ended with {said['code']} on {tests}; see {root / 'log'}.")
    return Outcome(fate="killed" if said["code"] else "survived", by=said["by"], seconds=said["seconds"])


def durations(root):
    """Seconds that the tests of each file took there."""
    return _said(root)["taken"]


def _said(root):
    return json.loads((root / _SAID).read_text(encoding="utf-8"))


def _run(root, tests, limit):
    import pytest

    os.nice(max(0, _NICE - os.nice(0)))
    resource.setrlimit(resource.RLIMIT_CPU, (int(limit) + 1, int(limit) + 1))
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    log = os.open(f"{root}/log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(log, 1)
    os.dup2(log, 2)
    sys.dont_write_bytecode = True  # bytecode is known by second and size, which a mutant may share with another
    sys.path.insert(0, root)
    os.environ["PYTHONPATH"] = root
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # looking for plugins takes longer than most tests
    noted, code = _Some(), 1
    for name in [name for name in sys.modules if name.partition(".")[0] == "bounds"]:
        del sys.modules[name]  # where the server of forks was started for something else
    try:
        import bounds

        if not str(bounds.__file__).startswith(root):
            code = 3
        else:
            options = ["-x", "-q", "-p", "no:cacheprovider", "-m", "not slow", "--cases", "0", "--tb=short"]
            code = int(pytest.main([*options, *tests], plugins=[noted]))
    finally:
        used = resource.getrusage(resource.RUSAGE_SELF)
        said = {
            "code": code,
            "by": noted.failed or ("import" if code else ""),
            "seconds": used.ru_utime + used.ru_stime,
            "taken": noted.taken,
        }
        Path(root, _SAID).write_text(json.dumps(said), encoding="utf-8")
        os._exit(0)
