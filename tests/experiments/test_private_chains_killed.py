"""A secret clipped chain killed at any operation on a file: bit for bit the same in the end, and always counted."""

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from secret_runs import KINDS, stretches
from tiny_runs import RUNTIME, left_behind

from pacdp.chains import NOISE, SecretKeys
from pacdp.cli import batch
from pacdp.cli.run import train
from pacdp.ledger import Ledger
from pacdp.step import cipher
from tests.file_faults import Fault, carried_out, note

RUNS = {
    name: replace(KINDS[name], records=4, snapshots=9, snapshot_burn_in=0.0)
    for name in ("SGLD, decaying", "Entropy-SGLD")
}
"""Which write some checkpoints in the middle of a stretch."""
OPERATIONS = 170  # at least, of a whole run
ABOUT = {"delta": 1e-5, "adjacency": "add-remove"}


def go(place: Path, name: str) -> None:
    """Train, or go on, under a key that is known here, noting each noise."""
    run, draw = RUNS[name], SecretKeys.noised

    def noised(self: SecretKeys, *arguments: Any, stream: int, tick: int, **more: Any) -> Any:
        note(place / "drawn", str(1 + tick // (run.sampler.gradients_per_step if stream == NOISE else 1)))
        return draw(self, *arguments, stream=stream, tick=tick, **more)

    SecretKeys.noised = noised
    cipher.new_key = lambda: bytes(range(32))
    batch.provenance = lambda **about: {"commit": None}  # which asks git, for a while
    often = replace(RUNTIME, checkpoint_seconds=0.0)
    train(run, place / "run", often, resume=True, ledger=place / "ledger")


@pytest.mark.parametrize("name", RUNS)
def test_killed_at_any_operation_and_resumed_gives_the_uninterrupted_run(name, tmp_path):
    def killed(place: Path, at: int) -> bool:
        """Killed at that operation, if it is not 0."""
        fault = Fault(at=at, kind="tear" if at % 2 else "kill") if at else None
        outcome = carried_out(go, (place, name), root=place, fault=fault)
        assert outcome.killed or outcome.exitcode == 0, outcome.err
        return outcome.killed

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
