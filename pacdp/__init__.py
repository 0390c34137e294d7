"""pacdp: networks, samplers and their certificates.

``certify`` turns a law over networks, a prior and examples into certificates; ``load_checkpoint`` and
``save_checkpoint`` read and write weights without running code; ``load_trained`` rebuilds everything that a checkpoint
needs to be certified.
"""

import sys
from types import ModuleType
from typing import Any

import lazy_loader

from pacdp import _mkl as _mkl  # before torch, whoever imports it

__version__ = "0.1.0"
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(
    __name__, __file__
)  # torch takes seconds to import


class _Package(ModuleType):
    """This package, in which functions keep their names when the packages ``certify`` and ``compress`` are imported."""

    def __setattr__(self, name: str, value: Any) -> None:
        own = name in ("certify", "compress") and isinstance(value, ModuleType)
        super().__setattr__(name, getattr(value, name) if own else value)


sys.modules[__name__].__class__ = _Package
