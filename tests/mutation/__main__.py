"""Changes ``bounds`` in small ways, a sample for every file, and counts which changes its tests notice.

python -m tests.mutation                     # the sample of docs/mutation.json; 1 if a score is below the one there
python -m tests.mutation --write             # the same, and writes docs/mutation.json and docs/mutation.md
python -m tests.mutation --only kl --all     # every mutant of bounds/kl.py
"""

import argparse
import hashlib
import json
import os
import shutil
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path

from tests.mutation.mutants import of_file
from tests.mutation.page import committed, judged, reasons, score, write
from tests.mutation.targets import TARGETS, suite_of
from tests.mutation.trial import Outcome, durations, prepared, tried

ROOT = Path(__file__).parents[2]


def main():
    """Try the sample, print what survived, compare with what is committed; 1 if a score fell."""
    asked = _asked()
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ.setdefault(name, "1")
    files = [f"bounds/{name}.py" for name in TARGETS if not asked.only or name in asked.only]
    known, began = reasons(), time.perf_counter()
    with tempfile.TemporaryDirectory() as place:
        bench = _Bench(Path(place), {test for file in files for test in suite_of(file)}, asked.journal)
        chosen = {file: sample(of_file(ROOT, file), asked.each, asked.seed) for file in files}
        work = [one for file in files for one in chosen[file] if asked.again or one.key not in known]
        with ThreadPoolExecutor(asked.workers) as pool:
            found = dict(zip((one.key for one in work), pool.map(bench.tried, work), strict=True))
    rows = [_row(file, chosen[file], found, known) for file in files]
    record = {"seed": asked.seed, "each": asked.each, "files": rows}
    minutes = (bench.seconds + sum(outcome.seconds for outcome in found.values())) / 60.0
    clock = (time.perf_counter() - began) / 60.0
    print(f"{len(work)} mutants, {minutes:.1f} processor minutes, {clock:.1f} by the clock")
    undone = [key for key in found if key in known and found[key].fate != "survived"]
    print("".join(f"listed as equivalent, yet noticed: {key}\n" for key in undone), end="")
    fallen = judged(record, committed())
    print("".join(f"{line}\n" for line in fallen), end="")
    if asked.write:
        write(record, minutes=minutes)
    return int(bool(undone or (fallen and not asked.write)))


def sample(every, each, seed):
    """``each`` mutants of least hash, in the order of the file: an edit elsewhere in it hardly changes the choice."""

    def order(one):
        return hashlib.sha256(f"{seed} {one.key}".encode()).hexdigest()

    chosen = {one.key for one in sorted(every, key=order)[:each]}
    return [one for one in every if one.key in chosen]


class _Bench:
    """A copy of ``bounds`` whose tests pass, and how long they take; mutants are tried on copies of it."""

    def __init__(self, place, tests, journal):
        self.place, self.context, self.seconds = place, prepared(), 0.0
        self.lock, self.started = threading.Lock(), 0
        whole = place / "whole"
        shutil.copytree(ROOT / "bounds", whole / "bounds")
        outcome = tried(self.context, whole, sorted(tests), limit=3600.0)
        if outcome.fate != "survived":
            raise SystemExit(f"the tests fail without a mutant: {outcome.by}\n{(whole / 'log').read_text()[-2000:]}")
        self.seconds, self.taken = outcome.seconds, durations(whole)
        self.journal, self.known = journal, dict[str, Outcome]()
        if journal and journal.exists():
            lines = map(json.loads, journal.read_text(encoding="utf-8").splitlines())
            self.known = {line.pop("key"): Outcome(**line) for line in lines}

    def tried(self, one):
        """What the tests of its file say of the mutant."""
        if one.key in self.known:
            return self.known[one.key]
        with self.lock:
            self.started += 1
            root = self.place / str(self.started)
        shutil.copytree(self.place / "whole" / "bounds", root / "bounds")
        path = root / one.file
        path.write_bytes(one.applied(path.read_bytes()))
        tests = suite_of(one.file)
        usual = sum(self.taken.get(test, 0.0) for test in {test.partition("::")[0] for test in tests})
        outcome = tried(self.context, root, tests, limit=30.0 + 4.0 * usual)
        shutil.rmtree(root)
        print(f"{outcome.fate:8} {outcome.seconds:5.1f}s {one.file}:{one.line} {one.before} -> {one.after}", flush=True)
        if self.journal:
            with self.lock, self.journal.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"key": one.key, **asdict(outcome)}) + "\n")
        return outcome


def _row(file, chosen, found, known):
    fates = [found[one.key].fate if one.key in found else "survived" for one in chosen]
    left = [one for one, fate in zip(chosen, fates, strict=True) if fate == "survived" and one.key not in known]
    row = {
        "file": file,
        "mutants": len(of_file(ROOT, file)),
        "tried": len(chosen),
        "killed": fates.count("killed"),
        "timeout": fates.count("timeout"),
        "equivalent": sum(one.key in known and fate == "survived" for one, fate in zip(chosen, fates, strict=True)),
        "survived": [{"line": one.line, "before": one.before, "after": one.after} for one in left],
    }
    return {**row, "score": score([row])}


def _asked():
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__.partition("\n")[0])
    before = committed()
    parser.add_argument("--only", nargs="+", choices=TARGETS, metavar="FILE", help="files of bounds, such as kl")
    parser.add_argument("--each", type=int, default=before.get("each", 16), help="mutants of a file")
    parser.add_argument("--all", dest="each", action="store_const", const=None, help="every mutant")
    parser.add_argument("--seed", type=int, default=before.get("seed", 0), help="another seed is another sample")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--journal", type=Path, help="a file of what was found, from which a stopped run goes on")
    parser.add_argument("--again", action="store_true", help="try mutants that are listed as equivalent, too")
    parser.add_argument("--write", action="store_true", help="write docs/mutation.json and docs/mutation.md")
    asked = parser.parse_args()
    if asked.write and asked.only:
        parser.error("--write is for all files: leave out --only")
    return asked


if __name__ == "__main__":
    sys.exit(main())
