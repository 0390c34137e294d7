"""Matrix products of MKL whose bits do not depend on where in memory their operands lie.

A chain's vector lies at another address beside other chains than alone. MKL reads the variable at its first product in
a process; a setting that is there already is kept.
"""

import ctypes
import os
from importlib.util import find_spec
from pathlib import Path

os.environ.setdefault("MKL_CBWR", "AUTO,STRICT")

_STRICT, _COMPATIBLE = 0x10000, 3


def branch() -> int | None:
    """The instructions that MKL decided for, as the number that it has for them; None where torch has no MKL that says.

    It is another one where a variable of MKL's says so, and where torch took a product before this module was there.
    """
    torch = find_spec("torch")
    assert torch is not None
    assert torch.origin is not None
    try:
        mkl = ctypes.CDLL(str(Path(torch.origin).with_name("lib") / "libtorch_cpu.so"))
        return 256 * int(mkl.mkl_serv_cbwr_get(-1)) + int(mkl.mkl_serv_cbwr_get_auto_branch())
    except (OSError, AttributeError):
        return None


def steady(found: int | None) -> bool:
    """Whether the bits of a product do not depend on where in memory its operands lie, in that branch."""
    return found is None or bool(found // 256 & _STRICT) or found // 256 == _COMPATIBLE
