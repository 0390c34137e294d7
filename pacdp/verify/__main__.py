"""``python -m pacdp.verify PATH``."""

import sys

from pacdp.verify.report import main

sys.exit(main())
