"""Every command that writes, under every fault of the disk: what must hold after it, and after the next try."""

import json
import re
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).parent
FOLDERS = (HERE / "pacdp" / "cli", HERE / "experiments" / "studies")
sys.path[:0] = [str(one) for one in FOLDERS if str(one) not in sys.path]

import tiny_study  # noqa: E402
from cli_tools import QUICK, tensors  # noqa: E402

from experiments import page, registry  # noqa: E402
from pacdp import load_checkpoint  # noqa: E402
from pacdp.cli.main import main  # noqa: E402
from pacdp.store.ledger import Ledger  # noqa: E402
from tests.file_faults import KINDS, Fault, Kind, carried_out, places  # noqa: E402

Words = Sequence[str]
SHORT = tuple("1" if one == "2" else one for one in QUICK)
"""With one record."""
SMALL = ("--problem.architecture.hidden", "8", *QUICK)
PRIVATE = ("--sampling.steps", "4", "--records", "2", "--hidden", "4", "--threads", "1")
SEEDED = ("--reproducible", "--no-ledger", *PRIVATE)
NOT_OURS = ("notes.txt", "table.csv", ".tmpmine", ".download.partial", "figure.jpg")
"""A user's files, in every folder that a command is given."""
_ENDS = {".png": b"IEND\xaeB`\x82", ".pdf": b"%%EOF", ".html": b"</html>"}


class World(NamedTuple):
    """A command, which a user gives again after a fault, and what lies there before."""

    name: str
    words: Words
    """Of the command; "@" stands for the folder."""
    before: Sequence[Words] = ()
    """Commands that make what it works on."""
    refused: str = ""
    """What the next try may say, once the first one has done all that it was to do."""
    theirs: Sequence[str] = ()
    """Folders in which a user keeps files."""
    same: Callable[[Path], Any] = lambda place: None
    """What must be equal to what is left without a fault, besides the names of the files."""


def _weights(place):
    return tensors(place / "run")


def _second_chain(place):
    return tensors(place / "run" / "chain-01")


def _table(place):
    return (place / "results" / "table.csv").read_bytes()


def _limit(place):
    return Ledger.load(place / "ledger").limit


_CHAIN = ("train", "sgld-digits2", "--out", "@/run", *SMALL)
_OLD = ("train", "sgd-digits2", "--out", "@/run", *SMALL[:2], *SHORT)
_DP = ("train", "dp-sgd-mnist", "--out", "@/run")
_COMPRESS = ("compress", "kernel-digits", "--out", "@/run", "--problem.train-size", "100", "--groups.sizes", "20")
_LIMIT = ("ledger", "limit", "@/ledger", "--epsilon", "9", "--delta", "1e-3", "--adjacency", "add-remove")
_STUDY = ("experiment", "tiny", "--smoke", "--seed", "1", "--out", "@/results", "--runs", "@/runs")
FINISHED = {"theirs": ["run"], "same": _weights, "refused": "holds a finished run"}
WORLDS = (
    World("train", (*_CHAIN, "--resume"), **FINISHED),
    World("train --force", (*_CHAIN, "--force"), [_OLD, ("certify", "@/run", *QUICK[-2:]), ("plot", "@/run")],
          theirs=["run"], same=_weights),
    World("train --chains", (*_OLD, "--chains", "2", "--resume"), same=_second_chain),
    World("train, private", (*_DP, *SEEDED, "--resume"), **FINISHED),
    World("compress", (*_COMPRESS, "--resume"), **FINISHED),
    World("certify", ("certify", "@/run", *QUICK[-2:]), [_OLD, ("certify", "@/run", "--seed", "5", *QUICK[-2:])],
          theirs=["run"]),
    World("certify --out", ("certify", "@/run", "--out", "@/new/report.json", *QUICK[-2:]), [_OLD]),
    World("plot", ("plot", "@/run"), [_OLD]),
    World("report", ("report", "@/run"), [_OLD, ("certify", "@/run", *QUICK[-2:])], theirs=["run"]),
    World("export", ("export", "@/run", "@/out", *QUICK[-2:]), [(*_DP, *PRIVATE)], refused="exists"),
    World("ledger limit", _LIMIT, same=_limit),
    World("experiment", _STUDY, theirs=["runs"], same=_table),
    World("results", ("results", "--results", "@/kept", "--out", "@/docs/results.md"), [_STUDY], theirs=["docs"]),
)  # fmt: skip


@dataclass(slots=True, kw_only=True)
class Tally:
    """Faults tried by kind, and sentences on those after which something was lost."""

    tried: Counter[Kind] = field(default_factory=Counter)
    lost: list[str] = field(default_factory=list)


def given(words, place):
    """Give the command in this process, in which there is one study."""
    sys.modules["experiments.papers.tiny"] = tiny_study
    registry._MODULES, page.TEN, page.HEADLINES = ["papers.tiny"], (), ()
    registry.sections.cache_clear()
    registry.studies.cache_clear()
    main([word.replace("@", str(place)) for word in words])


def prepared(world, place):
    """The folder as it is before the command."""
    place.mkdir(parents=True)
    for words in world.before:
        made = carried_out(given, (words, place), root=place)
        assert made.exitcode == 0, made.err
    if world.name == "results":
        (place / "kept").mkdir()
        (place / "results").rename(place / "kept" / "tiny")
    for folder in world.theirs:
        (place / folder).mkdir(exist_ok=True)
        for name in NOT_OURS:
            (place / folder / name).write_text(f"mine: {name}")
    return place


def put_to(world, root, *, choose):
    """Try the command under the faults that are chosen among all of each kind."""
    fresh, tally = prepared(world, root / "fresh"), Tally()
    whole = Path(shutil.copytree(fresh, root / "whole"))
    first = carried_out(given, (world.words, whole), root=whole)
    assert first.exitcode == 0, first.err
    expected, states = (names_of(whole), world.same(whole)), set()
    for kind in KINDS:
        for at in choose(kind, places(first.operations, kind)):
            place = Path(shutil.copytree(fresh, root / f"{kind}-{at}"))
            outcome = carried_out(given, (world.words, place), root=place, fault=Fault(at=at, kind=kind))
            tally.tried[kind] += 1
            wrong, state = at_once(world, place, outcome), _state(place)
            if state not in states:  # what agrees in names and sizes is taken up once
                states.add(state)
                wrong += after_the_next_try(world, place, expected)
            for sentence in wrong:
                tally.lost.append(f"{world.name}, {kind} at {at} ({outcome.operations[-1]}): {sentence}")
            shutil.rmtree(place)
    return tally


def at_once(world, place, outcome):
    """What was lost by a fault, in sentences."""
    wrong = [] if outcome.killed or outcome.exitcode == 0 else _more_than_a_sentence(outcome)
    return wrong + _half_written(place) + _touched(world, place)


def after_the_next_try(world, place, expected):
    """What a fault left that the next try does not get over, in sentences."""
    again, wrong = carried_out(given, (world.words, place), root=place), []
    if again.exitcode:
        wrong += _more_than_a_sentence(again)
        if not world.refused or world.refused not in again.err:
            wrong.append(f"the next try says: {again.err.strip()[-300:]}")
    wrong += _half_written(place) + _touched(world, place)
    names, same = expected
    if names_of(place) != names:
        wrong.append(f"the next try leaves {sorted(names_of(place) ^ names)} more or less")
    elif world.same(place) != same:
        wrong.append("the next try ends otherwise than without a fault")
    return wrong


def _state(place):
    found = [path for path in place.rglob("*") if not path.is_dir()]
    return frozenset(
        (re.sub(r"\.\d+\.partial|tmp\d+", "", str(one.relative_to(place))), one.stat().st_size) for one in found
    )


def names_of(place):
    """The names of all files but locks and lists."""
    found = {str(path.relative_to(place)) for path in place.rglob("*") if not path.is_dir()}
    return {name for name in found if not name.endswith((".lock", ".pacdp"))}


def _more_than_a_sentence(outcome):
    last = outcome.err.strip().split("\n")[-1]
    fine = outcome.exitcode == 1 and last.startswith("pacdp: ") and "Traceback" not in outcome.err
    return [] if fine else [f"exit status {outcome.exitcode}, {outcome.err.strip()[-600:]}"]


def _touched(world, place):
    theirs = [place / folder / name for folder in world.theirs for name in NOT_OURS]
    return [f"{one.name} of the user is not what it was" for one in theirs
            if not one.exists() or one.read_text() != f"mine: {one.name}"]  # fmt: skip


def _half_written(place):
    """Files under their own name that are not whole."""
    wrong = []
    for path in place.rglob("*"):
        if path.is_dir() or path.name in NOT_OURS or path.name.endswith(".partial") or ".partial" in str(path.parent):
            continue
        try:
            if path.suffix in (".json", ".head"):
                json.loads(path.read_text())
            elif path.suffix == ".safetensors":
                load_checkpoint(path)
            elif path.suffix in _ENDS and not path.read_bytes().rstrip(b"\n").endswith(_ENDS[path.suffix]):
                raise ValueError("its end is missing")
        except ValueError as error:
            wrong.append(f"{path.name} is not whole: {error}")
    return wrong
