"""Private steps of this tree beside those of an older commit.

Each tree takes its steps in a process of its own (``serve_steps.py``). The two take turns, so that a drifting clock
touches both alike, and are started anew a few times, since where a process finds its memory is worth a percent. Times
are processor time of one thread, in which waiting for others on the machine does not count.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from subprocess import PIPE, Popen
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.timing import spread

TREE = Path(__file__).resolve().parents[1]
SCRIPT = Path(__file__).with_name("serve_steps.py")
LAUNCHES, ROUNDS, STEPS = 3, 15, 2  # steps a turn


@contextmanager
def trees(commit: str | None) -> Iterator[dict[str, Path]]:
    """This tree as "now" and, where a commit is named, its files as git has them as "then"."""
    with TemporaryDirectory() as folder:
        found = {"now": TREE}
        if commit:
            files = subprocess.run(["git", "archive", commit], cwd=TREE, stdout=PIPE, check=True)
            subprocess.run(["tar", "-x", "-C", folder], input=files.stdout, check=True)
            found["then"] = Path(folder).resolve()
        yield found


def environment(tree: Path) -> dict[str, str]:
    """Variables under which Python imports that tree, from whatever folder it is started in."""
    found = {**os.environ, "PYTHONPATH": str(tree)}
    if found.get("PACDP_DATA"):
        found["PACDP_DATA"] = str(Path(found["PACDP_DATA"]).absolute())
    return found


def against(commit: str, cases: Iterable[tuple[str, str]]) -> dict[str, object]:
    """Milliseconds a step now and then, for each network and mode, and their ratios."""
    found: dict[str, object] = {"commit": commit}
    with trees(commit) as both:
        for case in cases:
            found[", ".join(case)] = _compare(both, case)
            print("against", commit, *case, found[", ".join(case)], flush=True)
    return found


def _compare(both: Mapping[str, Path], case: tuple[str, str]) -> dict[str, object]:
    seconds: dict[str, list[float]] = {label: [] for label in both}
    ratios: list[float] = []
    for _ in range(LAUNCHES):
        with ExitStack() as stack:
            started = {
                label: stack.enter_context(_start(tree, case)) for label, tree in both.items()
            }
            if [_answer(one) for one in started.values()] != [str(tree) for tree in both.values()]:
                raise RuntimeError(f"the steps of {both} could not be started there")
            for turn in range(ROUNDS):
                order = sorted(started, reverse=bool(turn % 2))
                own = {label: _answer(started[label]) for label in order}
                ratios.append(min(own["now"]) / min(own["then"]))
                for label, values in own.items():
                    seconds[label] += values
    return {
        **{f"{label}, ms": spread(values, 1e3) for label, values in seconds.items()},
        "now / then, least": round(min(seconds["now"]) / min(seconds["then"]), 3),
        "now / then, of each round": spread(ratios, 1.0),
    }


def _start(tree: Path, case: tuple[str, str]) -> Popen[str]:
    command = [sys.executable, "-P", "-W", "ignore", SCRIPT, *case, str(STEPS)]
    return Popen(
        command, cwd=tree, env=environment(tree), text=True, bufsize=1, stdin=PIPE, stdout=PIPE
    )


def _answer(process: Popen[str]) -> Any:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("\n")
    return json.loads(process.stdout.readline() or "null")
