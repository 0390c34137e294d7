"""pacdp: networks, samplers and their certificates.

``certify`` says how wrong a network, or a law over networks, may be on new data; ``certify_predictions`` does so from
predictions, without torch; ``load_checkpoint`` and ``save_checkpoint`` read and write weights without running code;
``load_trained`` rebuilds everything that a checkpoint needs to be certified. Everything else is named in its module.
"""

import sys
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

import lazy_loader

from pacdp import _mkl as _mkl  # before torch, whoever imports it

__version__ = "0.1.0"
_named, __dir__, __all__ = lazy_loader.attach_stub(
    __name__, __file__
)  # torch takes seconds to import


def __getattr__(name: str) -> Any:
    """A public name, or a module of this package, imported when it is first asked for."""
    if name in __all__:
        return _named(name)
    if name.startswith("_") or find_spec(f"{__name__}.{name}") is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return import_module(f"{__name__}.{name}")


class _Package(ModuleType):
    """This package, in which functions keep their names when the packages ``certify`` and ``compress`` are imported."""

    def __setattr__(self, name: str, value: Any) -> None:
        own = name in ("certify", "compress") and isinstance(value, ModuleType)
        super().__setattr__(name, getattr(value, name) if own else value)


sys.modules[__name__].__class__ = _Package
