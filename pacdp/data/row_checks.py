"""What certificates ask of rows: apart from those of a prior or a test, covered by a privacy claim, no copies."""

import numpy as np

from pacdp.data.errors import DataError
from pacdp.data.hashing import pair_hashes
from pacdp.data.rows import Rows

FEW = 0.01
"""The largest share of rows that may repeat an input, or recur among others, before copies are suspected."""


def require_apart(a: Rows, b: Rows, names: tuple[str, str] = ("a's rows", "b's rows")) -> None:
    """Refuse two sets of rows that share an example, an input under another label, or a person.

    Raises:
        DataError: they do; the sentence counts all three.
    """
    common = np.intersect1d(a.examples, b.examples)
    shared, people = a.shared(b), a.shared_people(b)
    relabelled = a.shared_inputs(b) - len(np.unique(a.inputs[np.isin(a.examples, common)]))
    if not (shared or relabelled or people):
        return
    found = [_count(shared, "example")] if shared else []
    if relabelled:
        found.append(
            f"{_count(relabelled, 'more input' if shared else 'input')} under another label"
        )
    if people:
        found.append(_count(people, "person", "people"))
    raise DataError(
        f"{names[0]} and {names[1]} share {_listed(found)}: set rows aside by their place before anything is fitted, "
        "because what was fitted to a row says nothing of new ones, and rows left out for recurring leave another law."
    )


def require_covers(claim: Rows, bound: Rows) -> None:
    """Refuse a bound on rows of which a privacy claim says nothing.

    A claim by people covers them only with all the examples that the bound counts as theirs.

    Raises:
        DataError: the claim lacks an example, or the bound counts people and the claim does not, or counts others.
    """
    missing = bound.missing_from(claim)
    if missing:
        raise DataError(
            f"the privacy claim covers {_count(claim.n, 'example')}, and {missing} of the bound's "
            f"{bound.n} are not among them: certify the rows that the private run had."
        )
    if bound.owners is None:
        return
    if claim.owners is None:
        raise DataError(
            "the privacy claim covers one example at a time and the bound counts people, who have several: train with "
            "privacy by person."
        )
    others = np.setdiff1d(
        pair_hashes(bound.examples, bound.owners), pair_hashes(claim.examples, claim.owners)
    )
    if len(others):
        raise DataError(
            f"{_count(len(others), 'example')} of the bound belong to other people than in the privacy claim: give "
            "both the same people."
        )


def require_plain(rows: Rows, *, most: float = FEW, name: str = "the bound's rows") -> None:
    """Refuse rows that repeat each other more often than real data do, because then n counts copies.

    The rule is that at most one row in a hundred has an input that an earlier row had, whatever the labels. Data as
    people collect them have some: 26 of 5,216 and 6 of 624 X-rays of `pacdp.data.load("xrays")` are repeats, byte for
    byte, none of MNIST, the digits and the malaria cells. An independent sample of a continuous law has none; of a law
    on few points (a small table of categories) it has many, rightly, and then ``most`` is the caller's to raise. With
    people a repeat under the same person is harmless, because n counts people, and only repeats under one more person
    count. The rule finds copies that blow n up; it proves no independence. Leaving repeats out is no way around it:
    what is left is a sample of another law, in which whatever recurs weighs less.

    Args:
        most: the largest share of repeats.

    Raises:
        DataError: there are more; the sentence counts them.
    """
    if rows.repeats > most * rows.pairs:
        whose = "" if rows.owners is None else " of different people"
        raise DataError(
            f"{name} hold {_count(rows.repeats, 'repeat')} among {_count(rows.pairs, 'input')}{whose}, more than "
            f"{most:.3g} of them: where they are copies, say with people= which examples are one person's, because n "
            "must not count copies; where each is a draw of its own, let pacdp.certify_predictions count the answers."
        )


def _count(number: int, thing: str, several: str = "") -> str:
    return f"{number} {thing if number == 1 else several or f'{thing}s'}"


def _listed(parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
