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

_LOCK = threading.Lock()
_within = list[object]()  # whoever is within now
_before = list[tuple[Any, Any, dict[tuple[str, str], str]]]()


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
            _before.append(_settings())
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


def _settings() -> tuple[Any, Any, dict[tuple[str, str], str]]:
    """The older settings of products and of cuDNN, None where a newer one disagrees; the newer ones."""
    older = (torch.get_float32_matmul_precision, torch._C._get_cudnn_allow_tf32)
    return *(_unless_mixed(one) for one in older), {key: _get(*key) for key in _KEYS}


def _unless_mixed(setting: Any) -> Any:
    try:
        return setting()
    except RuntimeError:
        return None


def _raise(convolutions: bool) -> None:
    products, cudnn, _ = _before[-1]
    if products not in (
        None,
        "highest",
    ):  # the older setting goes with the newer, or torch refuses to read either
        torch.set_float32_matmul_precision("highest")
    if convolutions and cudnn:
        torch._C._set_cudnn_allow_tf32(False)
    for backend, kind in _KEYS:
        if _get(backend, kind) in _REDUCED and (convolutions or kind in _PRODUCTS):
            _set(backend, kind, "ieee")


def _restore(products: Any, cudnn: Any, newer: dict[tuple[str, str], str]) -> None:
    if products is not None and products != _unless_mixed(torch.get_float32_matmul_precision):
        torch.set_float32_matmul_precision(products)
    if cudnn is not None and cudnn != _unless_mixed(torch._C._get_cudnn_allow_tf32):
        torch._C._set_cudnn_allow_tf32(cudnn)
    for key, value in newer.items():
        if _get(*key) != value:
            _set(*key, "none")  # what a more general setting says, if that is it
        if _get(*key) != value:
            _set(*key, value)
