"""Products that keep float32's 23 bits, whatever the process lets torch round: clipping counts on them.

A gradient is clipped by its norm, to a radius smaller by 64 units of the last place. A product that rounds its factors
to the 10 bits of TF32 (or the 7 of bfloat16, on a CPU) adds up to 2⁻¹⁰ of what it sums, beyond that margin: one record
would move the sum by more than the clip norm. torch keeps one setting for all threads of a process, and users set it
for speed, so what needs the bits asks for them where it needs them. Without such a setting nothing is touched.
``torch.autocast`` is another such setting, of a thread: under it products of float32 factors are rounded as well, and
their sums.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch

_get: Any = torch._C._get_fp32_precision_getter
_set: Any = torch._C._set_fp32_precision_setter
_PRODUCTS, _CONVOLUTIONS = ("matmul",), ("conv", "rnn")
_KEYS = tuple(
    (backend, kind) for backend in ("cuda", "mkldnn") for kind in _PRODUCTS + _CONVOLUTIONS
)
_REDUCED = ("tf32", "bf16")
_OLDER: tuple[tuple[bool, Any, Any, Any], ...] = (
    (False, torch.get_float32_matmul_precision, torch.set_float32_matmul_precision, "highest"),
    (True, torch._C._get_cudnn_allow_tf32, torch._C._set_cudnn_allow_tf32, False),
)
"""The older settings: whether of convolutions, how they are read and written, and the value that keeps all bits."""

_LOCK = threading.Lock()
_within = list[object]()  # whoever is within now
_before = list[tuple[list[Any], dict[tuple[str, str], str]]]()
"""What was set before them: the older settings, None where a newer one disagrees, and the newer ones."""


@contextmanager
def full_precision(device: torch.device, *, convolutions: bool = False) -> Iterator[None]:
    """Within, products of float32 matrices on ``device`` keep all bits, with ``convolutions`` these do too.

    Threads may be within at once: what was set before the first is set again after the last. Autocast is off.
    """
    backend = "mkldnn" if device.type == "cpu" else "cuda"
    kinds = _PRODUCTS + _CONVOLUTIONS if convolutions else _PRODUCTS
    own = object()
    with _LOCK:
        _within.append(own)
        if any(_get(backend, kind) in _REDUCED for kind in kinds):
            older = [_unless_mixed(read) for _, read, *_ in _OLDER]
            _before.append((older, {key: _get(*key) for key in _KEYS}))
            _raise(convolutions)
    kind = device.type
    rounds = torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind)
    try:
        with torch.autocast(kind, enabled=False) if rounds else nullcontext():
            yield
    finally:
        with _LOCK:
            _within.remove(own)
            if not _within and _before:
                _restore(*_before[0])
                _before.clear()


def reduced() -> list[tuple[str, str]]:
    """Where torch was told that float32's products may keep fewer bits: backends, and kinds of products."""
    return [key for key in _KEYS if _get(*key) in _REDUCED]


def _unless_mixed(setting: Any) -> Any:
    try:
        return setting()
    except RuntimeError:
        return None


def _raise(convolutions: bool) -> None:
    for (of_convolutions, _, write, full), now in zip(_OLDER, _before[-1][0], strict=True):
        # the older setting goes with the newer, or torch refuses to read either
        if now not in (None, full) and convolutions >= of_convolutions:
            write(full)
    for backend, kind in _KEYS:
        if _get(backend, kind) in _REDUCED and (convolutions or kind in _PRODUCTS):
            _set(backend, kind, "ieee")


def _restore(older: list[Any], newer: dict[tuple[str, str], str]) -> None:
    for (_, read, write, _), before in zip(_OLDER, older, strict=True):
        if before is not None and before != _unless_mixed(read):
            write(before)
    for key, value in newer.items():
        if _get(*key) != value:
            _set(*key, "none")  # what a more general setting says, if that is it
        if _get(*key) != value:
            _set(*key, value)
