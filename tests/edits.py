"""One number of a record changed: what tests expect the checker to notice."""

import copy
import json

from pacdp.verify.certificate import check_certificate
from pacdp.verify.claim import CANNOT, DOES_NOT, FOLLOWS

UNSEEN = {
    "proofs of hypotheses", "what is told beside", "completeness", "mechanism", "surrogate", "other files", "the data",
}  # fmt: skip
"""Statements that no honest folder can show in full."""


def seen(found):
    """Verdicts on all statements but those of them that cannot be checked."""
    return {one.verdict for one in found if one.claim not in UNSEEN or one.verdict != CANNOT}


def odd(found):
    """What does not follow and need not be open, as betting is, whose losses are in no report."""
    return [one for one in found if one.verdict != FOLLOWS and one.claim not in UNSEEN
            and not (one.verdict == CANNOT and ("betting" in one.subject or "not in the file" in one.why))]  # fmt: skip


def leaves(value, free=(), at=(), kind=int | float):
    """Where the numbers are, or what is of this kind, but for fractions of 0 and those under the names in ``free``."""
    if isinstance(value, kind) and not isinstance(value, bool) and (value or isinstance(value, int)):
        yield at
    for key, part in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        if key not in free:
            yield from leaves(part, free, (*at, key), kind)


def moved(values, place, factor=0.0):
    """A copy in which one number is other by the factor, a whole number by one at least; 0 takes 1.1 or 0.9.

    A word is longer by a letter, and a list lacks its last part.
    """
    changed = copy.deepcopy(values)
    holder = changed
    for key in place[:-1]:
        holder = holder[key]
    old = holder[place[-1]]
    if isinstance(old, str | list):
        holder[place[-1]] = f"{old}x" if isinstance(old, str) else old[:-1]
        return changed
    factor = factor or (1.1 if isinstance(old, int) else 0.9)
    new = old * factor
    if isinstance(old, int):
        new = round(new) if round(new) != old else old + (1 if factor > 1.0 else -1)
    holder[place[-1]] = new
    return changed


def written(path, value):
    """The value as the JSON of this file."""
    path.write_text(json.dumps(value))


def judged(record, **inputs):
    """What the checker says of a certificate's statements, with some of its inputs replaced."""
    return {one.verdict for one in check_certificate({**record, "inputs": {**record["inputs"], **inputs}})}


WHOLE = {
    "another count of settings": lambda r: r.update(choices={"count": 5}),
    "no count of settings": lambda r: r.update(choices={"count": 0}),
    "true settings": lambda r: r.update(choices={"count": True}),
    "no rows": lambda r: r.pop("rows"),
    "proved by nobody": lambda r: [
        one.update(standing="proved") for made in r["certificates"] for one in made["hypotheses"]
    ],
    "said by nobody": lambda r: r["certificates"][-1]["hypotheses"][-1].update(by=""),
    "a certificate twice": lambda r: r["certificates"].append(r["certificates"][0]),
    "measured twice": lambda r: r["measured"].append({**r["measured"][0], "mean": 0.0, "errors": 0}),
    "more errors than examples": lambda r: r["measured"][-1].update(errors=r["n"] + 1, mean=1 + 1 / r["n"]),
    "less than no errors": lambda r: r["measured"][-1].update(errors=-1, mean=-1 / r["n"]),
}
"""Edits of a report of any route on examples."""


def _told(found):
    """What is named as what nothing determines, and why anything is open."""
    whys = [one.why for one in found]
    return {name for why in whys for name in why.partition("determines ")[2].split(", ")}, whys


def unnoticed(report, judge):
    """Places at which another number, word or length is neither noticed nor named: of each kind of place, the first."""
    told, before = _told(judge(report))
    kinds = dict[str, tuple]()
    for place in leaves(report, kind=int | float | str | list):
        kinds.setdefault(".".join(key for key in place if isinstance(key, str)), place)
    for where, place in kinds.items():
        parts = where.split(".")
        names = {".".join(parts[start:end]) for start in (0, 1) for end in range(1, len(parts) + 1)}
        if not names & told:
            found = judge(moved(report, place))
            if DOES_NOT not in {one.verdict for one in found} and _told(found)[1] == before:
                yield where
