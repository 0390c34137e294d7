"""How many of the project's own files and functions a command enters: the journey of a reader, which may not grow."""

import sys
from contextlib import suppress
from pathlib import Path

import numpy as np

from pacdp.cli.main import main
from tests.marks import every_case

OWN = tuple(f"{Path(__file__).parents[1] / name}/" for name in ("pacdp", "bounds"))
MOST = {"a run": (84, 465), "predictions": (28, 155), "verify": (13, 124), "train": (64, 353)}
"""Files and named functions today; they are to come to (55, 240), (15, 70), (12, 60) and (50, 220)."""


def journey(arguments):
    """Files, and functions in them, that a command enters after everything was imported."""
    entered = set()

    def enter(frame, event, _):
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(OWN) and not code.co_name.startswith("<"):
            entered.add((code.co_filename, code.co_qualname))

    for watched in (None, enter):
        sys.setprofile(watched)
        with suppress(SystemExit):  # verify ends with its own status
            main(arguments)
        sys.setprofile(None)
    return len({file for file, _ in entered}), len(entered)


@every_case("what", MOST)
def test_what_a_command_enters(what, copied, tmp_path):
    labels = np.arange(200) % 3
    table = np.stack([labels, np.where(np.arange(200) % 9, labels, 0)], axis=1)
    np.savetxt(tmp_path / "p.csv", table, "%d", ",", header="label,prediction", comments="")
    given = [copied("entropy-sgld")] if what != "predictions" else ["--predictions", tmp_path / "p.csv"]
    found = journey(["certify", *map(str, given)])
    if what == "verify":
        found = journey(["verify", *map(str, given)])
    if what == "train":
        found = journey(["train", "sgld-digits", "--force", "--threads", "1", "--out", str(tmp_path / "run")])
    assert all(one <= most for one, most in zip(found, MOST[what], strict=True)), found
