"""Compiled loops, cached on disk so that an edit of anything they take in is seen.

Numba's cache looks at the file of a function alone. What a loop takes in from other files (generators of numbers,
vector code) would stay as it was when the loop was last compiled. So there is one folder of cached loops for each state
of the files that loops take something from: it is named by their hash.
"""

import functools
import hashlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numba
from numba.core import config as numbas_config
from numba.misc.appdirs import AppDirs

from bounds._arithmetic import cached

config: Any = numbas_config
_HERE = Path(__file__).parents[1]


def kernel(under: Path | None = None, **options: Any) -> Callable[[Callable[..., Any]], Any]:
    """A decorator: compile at the first call, to run without the interpreter's lock; ``options`` are those of numba.

    What the function takes in from another file must lie in one of :func:`sources`, unless ``under`` names another
    folder for what is compiled.
    """

    def compiled(function: Callable[..., Any]) -> Any:
        before = config.CACHE_DIR
        config.CACHE_DIR = str(
            under or folder()
        )  # read when the decorator is applied, and not later
        try:
            return cached(lambda cache: numba.njit(nogil=True, cache=cache, **options)(function))
        finally:
            config.CACHE_DIR = before

    return compiled


def sources() -> list[Path]:
    """The files that loops may take something in from: compiled code of ``pacdp.chains.native``, and Philox's forms."""
    return [
        *sorted((_HERE / "chains/native").glob("*.py")),
        *sorted((_HERE / "random").glob("philox*.py")),
    ]


@functools.cache
def folder() -> Path:
    """Where loops are cached: under NUMBA_CACHE_DIR, or where numba keeps what has no place beside its source."""
    root = config.CACHE_DIR or AppDirs(appname="numba", appauthor=False).user_cache_dir
    return Path(root) / f"pacdp-{fingerprint(sources())}"


def fingerprint(files: Iterable[Path]) -> str:
    """Sixteen hex digits of the contents of these files, in order."""
    found = hashlib.sha256()
    for path in files:
        content = path.read_bytes()
        found.update(f"{path.name} {len(content)}\n".encode() + content)
    return found.hexdigest()[:16]
