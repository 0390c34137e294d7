"""Runs of every algorithm, killed at random operations on files: the same weights to the bit, a ledger never short."""

import random
from collections import Counter
from dataclasses import replace

import pytest
from cli_tools import read, rows, tensors
from secret_runs import KINDS, stretches
from tiny_runs import ALGORITHMS, left_behind, tiny

import pacdp.loop
from bounds.accounting import Composed, SelfComposed, event_from_dict, privacy_epsilon
from pacdp import load_checkpoint
from pacdp.chains import NOISE, SecretKeys
from pacdp.cli.private.config import METHODS, PEOPLE, private_recipe
from pacdp.cli.private.run import train_private
from pacdp.cli.run import train
from pacdp.cli.runtime import Training
from pacdp.random import cipher
from pacdp.step import event as events
from pacdp.store.ledger import Ledger
from tests.file_faults import Fault, carried_out, note
from tests.marks import parametrize

RUNTIME = Training(threads=1, checkpoint_seconds=0.0)
CHAINS = (*ALGORITHMS, "entropy-sgd-clipped", "entropy-sgld-clipped")
PRIVATE = tuple(METHODS)
SECRET = {name: replace(KINDS[name], records=4) for name in ("SGLD, decaying", "Entropy-SGLD")}
"""Chains whose noise is kept secret, which write some checkpoints in the middle of a stretch."""
KILLS = 12
"""Of each algorithm; with secret noise too, for the ledger's sake, where the algorithm is private."""


def chain(name):
    return tiny(name, records=4)


def private(name, *, seeded):
    found = private_recipe(f"{name}-{PEOPLE[0] if METHODS[name].by_person else 'mnist'}", scale="smoke")
    return replace(found, sampling=replace(found.sampling, steps=6), records=3, reproducible=seeded)


def secret_chain(name, place):
    """Train, or go on, under a key that is known here."""
    run, draw = SECRET[name], SecretKeys.noised

    def noised(self, *arguments, stream, tick, **more):
        note(place / "released", str(1 + tick // (run.sampler.gradients_per_step if stream == NOISE else 1)))
        return draw(self, *arguments, stream=stream, tick=tick, **more)

    SecretKeys.noised = noised  # type: ignore[method-assign]
    cipher.new_key = lambda: bytes(range(32))
    train(run, place / "run", replace(RUNTIME, resume=True, ledger=place / "ledger"))


def go(name, seeded, place):
    """What `pacdp train --resume` does, and every sum that leaves the mechanism noted as it leaves."""
    if name in CHAINS:
        train(chain(name), place / "run", replace(RUNTIME, resume=True))
        return
    if name in SECRET:
        secret_chain(name, place)
        return
    whole = pacdp.loop.PrivateStep

    def watched(**values):
        def watch(weights):
            note(place / "released", str(1 + values["number"]))

        return whole(**{**values, "watch": watch})

    pacdp.loop.PrivateStep = watched  # type: ignore[misc, assignment]
    # a seeded run goes on in no ledger, which takes a seed once
    books = None if seeded else place / "ledger"
    train_private(private(name, seeded=seeded), place / "run", Training(threads=1, resume=True, ledger=books))


def left(name, place):
    """All that a resumed run must have in common with one that was never interrupted."""
    run = place / "run"
    names = {path.name for path in run.rglob("*")} - {".lock"}
    if name in CHAINS:
        result = read(run / "result.json")
        del result["final"]["seconds"], result["rests_on"]["metrics"]
        return left_behind(run) | {"names": names, "result": result}
    if name in SECRET:
        return {"tensors": tensors(run), "rows": rows(run), "paid": stretches(place / "ledger")}
    result = {key: value for key, value in read(run / "result.json").items() if key not in ("seconds", "rests_on")}
    return {"names": names, "result": result, "rows": rows(run), "tensors": tensors(run)}


def released(name, place):
    """How often the sum of each step left the mechanism."""
    path = place / "released"
    each = len(METHODS[name].noise_scales) if name == "p3sgd" else 1  # type: ignore[union-attr]
    found = Counter(int(line) for line in path.read_text().splitlines()) if path.exists() else Counter()
    return Counter({step: -(-count // each) for step, count in found.items()})


def short(name, place, *, seeded):
    """Steps whose sums left the mechanism more often than the ledger counts them, and how much more often.

    A sum of a chain's kept key that leaves again is the same one, and tells nothing more.
    """
    found, counted = released(name, place), Counter[int]()
    if not found or (seeded and name in PRIVATE):
        return {}
    for entry in Ledger.load(place / "ledger").entries:
        counted.update(range(entry.stretch.first, entry.stretch.last + 1))
    return dict((Counter(found.keys()) if seeded else found) - counted)


def cost(name, place):
    """The event of all sums that left the mechanism, from the events that the run's checkpoint records.

    Where the last iterate alone leaves, no step has an event of its own: that of the whole run, once.
    """
    told = event_from_dict(load_checkpoint(place / "run").header["event"])
    made = [one for one, count in events.runs_of(told) for _ in range(count)]
    found = released(name, place).items()
    if len(made) == 1 < len(found):
        return told
    return Composed(events=tuple(SelfComposed(event=made[step - 1], count=count) for step, count in found))


def killed_often(name, root, *, kills, seeded=True):
    """Kill runs of the algorithm, each until it ends, until there were so many kills; how many, and runs that ended."""
    whole = root / "whole"
    whole.mkdir()
    first = carried_out(go, (name, seeded, whole), root=whole)
    assert first.exitcode == 0, first.err
    expected, tried, runs = left(name, whole), 0, 0
    chance = random.Random(f"{name}, {'seeded' if seeded else 'secret'}")
    while tried < kills or not _ended(root / str(runs)):
        place = root / str(runs)
        place.mkdir(exist_ok=True)
        at = chance.randint(1, len(first.operations) // (1 + tried % 2))
        fault = Fault(at=at, kind=chance.choice(["kill", "tear"])) if tried < kills else None
        outcome = carried_out(go, (name, seeded, place), root=place, fault=fault)
        tried += outcome.killed
        assert outcome.killed or outcome.exitcode == 0, (fault, outcome)
        if (place / "run" / "checkpoint.safetensors").exists():
            load_checkpoint(place / "run")  # a whole one, or none
        assert name in CHAINS or short(name, place, seeded=seeded) == {}, outcome
        if _ended(place):
            _require_equal(name, place, expected, seeded=seeded)
            runs += tried < kills
    return tried, runs


def _ended(place):
    return (place / "run" / "result.json").exists()


def _require_equal(name, place, expected, *, seeded):
    """The uninterrupted run's numbers; with secret noise its files, and a ledger that counts all that was released."""
    found = left(name, place)
    if name in CHAINS or seeded:
        assert found == expected
        return
    assert found["names"] == expected["names"]
    assert [row["step"] for row in found["rows"]] == [row["step"] for row in expected["rows"]]
    config = private(name, seeded=False)
    relation = {"delta": config.budget.delta, "adjacency": config.budget.adjacency}
    unit = "person" if config.method.by_person else "example"
    spent = privacy_epsilon(event=cost(name, place), **relation).lower
    assert Ledger.load(place / "ledger").total(**relation, unit=unit).epsilon >= spent


@pytest.mark.cases(2)
@pytest.mark.usefixtures("trained", "exported")  # forks have what these load at first use
@parametrize("name", [*SECRET, "entropy-sgld", "p3sgd", "dp-sgld"])
def test_a_few_kills(name, tmp_path):
    assert killed_often(name, tmp_path, kills=4)[0] == 4


@pytest.mark.slow
@pytest.mark.usefixtures("trained", "exported")
@parametrize(
    ("name", "seeded"), [(name, True) for name in (*CHAINS, *SECRET, *PRIVATE)] + [(name, False) for name in PRIVATE]
)
def test_kills_leave_the_weights_of_an_uninterrupted_run_and_a_ledger_of_all_that_was_released(name, seeded, tmp_path):
    assert killed_often(name, tmp_path, kills=KILLS, seeded=seeded)[0] == KILLS
