"""``python -m pacdp.verify PATH``."""

import os
import sys
from io import TextIOWrapper

from pacdp.verify.report import UNREADABLE, main

if isinstance(sys.stdout, TextIOWrapper):
    # a letter without a code there is no verdict
    sys.stdout.reconfigure(errors="backslashreplace")
try:
    status = main()
    sys.stdout.flush()
except OSError as error:  # nobody reads on, or a disk is full: that is no verdict
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    print(
        f"pacdp verify: cannot write what was found: {error}",
        file=sys.stderr,
    )
    status = UNREADABLE
sys.exit(status)
