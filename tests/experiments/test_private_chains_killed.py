"""A secret clipped chain killed at any operation on a file: bit for bit the same in the end, and always counted."""

import multiprocessing
import os
import random
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from secret_runs import KINDS, stretches
from test_export_kills import dying
from tiny_runs import RUNTIME, left_behind

from experiments import batch
from experiments.run import train
from pacdp.chains import NOISE, SecretKeys
from pacdp.ledger import Ledger
from pacdp.step import cipher

RUNS = {
    name: replace(KINDS[name], records=4, snapshots=9, snapshot_burn_in=0.0)
    for name in ("SGLD, decaying", "Entropy-SGLD")
}
"""Which write some checkpoints in the middle of a stretch."""
OPERATIONS = 170  # at least, of a whole run
ABOUT = {"delta": 1e-5, "adjacency": "add-remove"}
_open, _write, _close = os.open, os.write, os.close


def go(place: Path, name: str, at: int) -> None:
    """Train, or go on, under a key that is known here, noting each noise; die at that operation, if it is not 0."""
    run, draw = RUNS[name], SecretKeys.noised

    def noised(self: SecretKeys, *arguments: Any, stream: int, tick: int, **more: Any) -> Any:
        descriptor = _open(place / "drawn", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        _write(descriptor, b"%d\n" % (1 + tick // (run.sampler.gradients_per_step if stream == NOISE else 1)))
        _close(descriptor)
        return draw(self, *arguments, stream=stream, tick=tick, **more)

    SecretKeys.noised = noised
    cipher.new_key = lambda: bytes(range(32))
    batch.provenance = lambda **about: {"commit": None}  # which asks git, for a while
    if at:
        dying(at, at % 2 == 0)
    often = replace(RUNTIME, checkpoint_seconds=0.0)
    train(run, place / "run", often, resume=True, ledger=place / "ledger")


@pytest.fixture(scope="module")
def processes():
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["experiments.run", "sklearn.datasets"])
    return context


@pytest.mark.parametrize("name", RUNS)
def test_killed_at_any_operation_and_resumed_gives_the_uninterrupted_run(name, processes, tmp_path):
    def killed(place: Path, at: int) -> bool:
        process = processes.Process(target=go, args=(place, name, at))
        process.start()
        process.join()
        assert process.exitcode in (0, -signal.SIGKILL)
        return process.exitcode != 0

    (tmp_path / "whole").mkdir()
    assert not killed(tmp_path / "whole", 0)
    whole, book = left_behind(tmp_path / "whole" / "run"), Ledger.load(tmp_path / "whole" / "ledger")
    total, chance, kills, halfway = book.total(**ABOUT).epsilon, random.Random(3), 0, 0
    for k in range(4):
        place = tmp_path / str(k)
        place.mkdir()
        for at in (chance.randrange(20, OPERATIONS), chance.randrange(1, OPERATIONS), 0):
            if (place / "run" / "result.json").exists():
                break
            kills += killed(place, at)
            drawn = {int(step) for step in (place / "drawn").read_text().split()} if (place / "drawn").exists() else ()
            counted = stretches(place / "ledger") if (place / "ledger" / "ledger.jsonl").exists() else []
            assert all(any(first <= step <= last for first, last in counted) for step in drawn)
            halfway += bool(drawn) and not (place / "run" / "result.json").exists()
        found = left_behind(place / "run")
        assert (found["tensors"], found["rows"]) == (whole["tensors"], whole["rows"])
        assert stretches(place / "ledger") == stretches(tmp_path / "whole" / "ledger")
        assert Ledger.load(place / "ledger").total(**ABOUT).epsilon == total
    assert kills >= 4
    assert halfway >= 2
