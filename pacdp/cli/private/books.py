"""Which ledger counts a private run: the folder that was named, by default ``ledger`` beside the run's folder."""

import os
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from pacdp.store.ledger import Ledger
from pacdp.store.reservation import Books, NoLedger


def beside(run: Path) -> Path:
    """The ledger that counts a run where no other is named: runs of one folder share it."""
    return (run if run.name not in ("", "..") else Path(os.path.abspath(run))).parent / "ledger"


def counted_beside(run: Path, header: Mapping[str, Any] | None = None) -> Path:
    """The ledger of a run that was begun, where none is named: that of one of several chains lies beside all of them.

    Args:
        header: of the run's checkpoint, which says what counts it.
    """
    named = Path(os.path.abspath(run))
    places = [beside(run)]
    if re.fullmatch(r"chain-\d{2,}", named.name):
        places.append(beside(named.parent))
    receipt = ((header or {}).get("ledger") or {}).get("receipt")
    for place in places:
        with suppress(ValueError):
            if (place / "ledger.jsonl").exists():
                if receipt is not None:
                    counting(place, receipt)
                return place
    return places[-1]


def books_of(ledger: Path | None, run: Path, *, before: Mapping[str, Any] | None) -> Books:
    """The books that count the run; for a new one a ledger is started in the folder if there is none.

    Args:
        before: the header of the checkpoint that the run goes on from.

    Raises:
        ValueError: the ledger is damaged, cannot be written, lies in the run's own folder, or is not the one that
            counts the steps before.
    """
    if ledger is None:
        NoLedger().require(((before or {}).get("ledger") or {}).get("receipt"))
        return NoLedger()
    if Path(os.path.abspath(ledger)).is_relative_to(Path(os.path.abspath(run))):
        raise ValueError(
            f"the ledger {ledger} would lie in the run's own folder: name another by --ledger"
        )
    if before is None:
        return Ledger.open(ledger)
    counted = before.get("ledger")
    if counted is None:
        raise ValueError(
            f"{run} was started without a ledger: go on with --no-ledger, and enter the whole run when it is exported "
            "(pacdp export --correct)"
        )
    return counting(ledger, counted["receipt"])


def counting(ledger: Path, receipt: Mapping[str, Any]) -> Ledger:
    """The ledger that has counted a run's steps.

    Raises:
        ValueError: there is none in the folder, or it is another one.
    """
    if not (ledger / "ledger.jsonl").exists():
        raise ValueError(
            f"the run's steps are counted in a ledger, and {ledger} holds none: name the one that the run was started "
            "with by --ledger"
        )
    book = Ledger.load(ledger)
    book.require(receipt)
    return book
