"""``python -m pacdp.cli`` is the command `pacdp`; Ctrl-C is answered in a sentence before it is loaded, too."""

import sys
from io import TextIOWrapper


def run() -> None:
    """Load the command and run it, see :func:`pacdp.cli.main.main`.

    A letter that standard output has no code for, as on Windows and in the locale C, is written as Python escapes it.
    """
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        from pacdp.cli.main import main

        main()
    except KeyboardInterrupt:
        print("pacdp: stopped", file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    run()
