"""Private steps of this tree beside those of an older commit.

Each tree takes its steps in a process of its own (``serve_steps.py``). The two take turns, so that a drifting clock
touches both alike, and are started anew a few times, since where a process finds its memory is worth a percent. Times
are processor time of one thread, in which waiting for others on the machine does not count.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO

from benchmarks.timing import spread

SCRIPT = Path(__file__).with_name("serve_steps.py")
TREE = Path(__file__).resolve().parents[1]
LAUNCHES, ROUNDS, STEPS = 3, 15, 2  # steps a turn


def against(commit: str, cases: Iterable[tuple[str, str]]) -> dict[str, object]:
    """Milliseconds a step now and then, for each network and mode, and their ratios.

    Args:
        commit: of this repository; its files are taken from git, so that nothing but the commit counts.
    """
    whole = _git("rev-parse", "--verify", f"{commit}^{{commit}}").decode().strip()
    found: dict[str, object] = {"commit": whole}
    with TemporaryDirectory() as folder:
        subprocess.run(["tar", "-x", "-C", folder], input=_git("archive", whole), check=True)
        trees = {"now": TREE, "then": Path(folder).resolve()}
        for case in cases:
            found[", ".join(case)] = _compare(trees, case)
            print("against", whole[:7], *case, found[", ".join(case)], flush=True)
    return found


def _compare(trees: Mapping[str, Path], case: tuple[str, str]) -> dict[str, object]:
    seconds: dict[str, list[float]] = {label: [] for label in trees}
    ratios: list[float] = []
    for _ in range(LAUNCHES):
        with ExitStack() as stack:
            started = {label: _start(stack, tree, case) for label, tree in trees.items()}
            for turn in range(ROUNDS):
                order = list(started) if turn % 2 else list(reversed(started))
                own = {label: _answer(started[label]) for label in order}
                ratios.append(min(own["now"]) / min(own["then"]))
                for label, values in own.items():
                    seconds[label] += values
    least = {label: min(values) for label, values in seconds.items()}
    return {
        **{f"{label}, ms": spread(values, 1e3) for label, values in seconds.items()},
        "now / then, least": round(least["now"] / least["then"], 3),
        "now / then, of each round": spread(ratios, 1.0),
    }


def _start(stack: ExitStack, tree: Path, case: tuple[str, str]) -> subprocess.Popen[str]:
    command = [sys.executable, "-P", "-W", "ignore", SCRIPT, *case, str(STEPS)]
    there = {**os.environ, "PYTHONPATH": str(tree)}
    if there.get("PACDP_DATA"):
        there["PACDP_DATA"] = str(
            Path(there["PACDP_DATA"]).absolute()
        )  # each tree is another working directory
    process = stack.enter_context(
        subprocess.Popen(
            command, cwd=tree, env=there, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
    )
    stack.callback(_stream(process.stdin).close)  # which ends it
    used = json.loads(_stream(process.stdout).readline() or "null")
    if used != str(tree):
        raise RuntimeError(f"the steps of {tree} could not be started there, but in {used}")
    return process


def _answer(process: subprocess.Popen[str]) -> list[float]:
    _stream(process.stdin).write("\n")
    _stream(process.stdin).flush()
    return json.loads(_stream(process.stdout).readline())


def _stream(stream: IO[str] | None) -> IO[str]:
    assert stream is not None
    return stream


def _git(*arguments: str) -> bytes:
    return subprocess.run(["git", *arguments], cwd=TREE, stdout=subprocess.PIPE, check=True).stdout
