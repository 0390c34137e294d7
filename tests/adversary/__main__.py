"""Plays many worlds and writes their part of docs/coverage.md: ``python -m tests.adversary --worlds 20000``."""

import argparse
import sys
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

from pacdp.store.files import replacing
from tests.adversary import networks
from tests.adversary.doors import DOORS, complaints, worlds
from tests.adversary.harness import FAILURE, LEVEL, MARK, Tally, tally

PAGE = Path(__file__).parents[2] / "docs" / "coverage.md"
_HEAD = """
Here every public door is put to finite laws that break habits: atoms, copies and near copies, labels that are coins,
sorted rows, people who share inputs, huge ones and people of one record, groups and weights made from the errors,
learners that memorise, networks that hold rows, count calls, mix batches or write (of {cheats} kinds). A world misses
if anything is false that is printed to hold together with 80% confidence. The p-value is that of "no world misses with
a probability above {failure:g}", paid for all habits; below {level:.1g} a door is false. Honest worlds may not be
refused. The last column counts the misses if limits were multiplied by a factor, which the same test must notice.
`python -m tests.adversary --worlds {worlds}` writes this part.

|door|worlds|refused|missed|p-value|missed with smaller limits|
|---|---|---|---|---|---|
"""


def main():
    """Play the worlds on all cores, write the section; 1 if a door is false or has no power."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--worlds", type=int, default=20_000, help="of all doors together")
    parser.add_argument("--processes", type=int, help="by default one a core")
    given = parser.parse_args()
    count = given.worlds
    text, wrong = (
        MARK + _HEAD.format(failure=FAILURE, level=LEVEL / len(DOORS), worlds=count, cheats=len(networks.FOUND)),
        [],
    )
    with ProcessPoolExecutor(given.processes) as pool:
        for door in DOORS:
            own = worlds(door, count)
            found = Tally()
            for one in pool.map(partial(tally, door), [own[k : k + 50] for k in range(0, len(own), 50)]):
                found.join(one)
            text += _line(door, found)
            wrong += complaints(door, found)
            print(_line(door, found), dict(found.played), dict(found.refused), dict(found.missed), flush=True)
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(MARK)
    after = rest[rest.index("\n## ") + 1 :] if "\n## " in rest else ""
    with replacing(PAGE) as file:
        file.write((before.rstrip("\n") + "\n\n" + text + ("\n" + after if after else "")).encode())
    print(*wrong, sep="\n")
    return int(bool(wrong))


def _line(door, found):
    played, missed, p = found.played.total(), found.missed.total(), found.p_value()
    smaller = "" if door.cheats else f"{found.faulty.total():,} at {door.fault:g}"
    return f"|{door.name}|{played:,}|{found.refused.total():,}|{missed:,}|{p:.2g}|{smaller}|\n"


if __name__ == "__main__":
    sys.exit(main())
