"""Matrix products of MKL whose bits do not depend on where in memory their operands lie.

A chain's vector lies at another address beside other chains than alone. MKL reads the variable at its first product in
a process; a setting that is there already is kept.
"""

import os

os.environ.setdefault("MKL_CBWR", "AUTO,STRICT")
