"""Plain values, tensors and how a machine rounds, as digests: two draws of one key are the same where these agree."""

import hashlib
import os
import platform
import re
import secrets
from importlib.metadata import version
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

import pacdp
from pacdp import _mkl
from pacdp.step.precision import reduced

_SWITCH = re.compile(
    r"_get_\w+_(enabled|deterministic\w*|algorithms|benchmark|reduction|accumulation|backend)"
)
"""Of torch's settings those that choose kernels."""


_VARIABLES = ("MKL_", "DNNL_", "ONEDNN_", "ATEN_", "KMP_")
"""How variables begin that choose kernels of torch's libraries."""
_COMPILED = ("OPT", "LOOP_VECTORIZE", "SLP_VECTORIZE", "DISABLE_JIT")
"""Of numba's settings those by which its loops add up in another order."""


def identity(*things: Any) -> str:
    """SHA-256, in hex digits, of plain values and tensors, and of lists and tuples of them."""

    def said(thing: Any) -> str:
        if isinstance(thing, list | tuple):
            return f"[{','.join(map(said, thing))}]"
        if isinstance(thing, Tensor):
            content = thing.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
            held = hashlib.sha256(content.numpy().tobytes()).hexdigest()
            return f"{thing.dtype}{tuple(thing.shape)}{held}"
        return repr(thing)

    return hashlib.sha256(said(things).encode()).hexdigest()


def versions() -> dict[str, str]:
    """Of Python and of the packages that round numbers."""
    return {
        "python": platform.python_version(),
        "pacdp": pacdp.__version__,
        "torch": torch.__version__,
        "numba": version("numba"),
    }


@torch.no_grad()
def arithmetic(device: torch.device) -> list[str]:
    """Versions, and a digest of all that decides how sums on a device are rounded: a seed draws for one rounding.

    That is what torch was told (threads, kernels, precision, autocast), the processor, MKL's instructions, those that
    numba compiles loops to, the variables of the libraries, and, for what says nothing of itself, what some products
    and sums of fixed numbers come to. Where the bits of a product depend on its place in memory, it is another one each
    time.
    """
    from numba.core.registry import cpu_target  # which help does without

    from pacdp.random.kernels import config

    kind = device.type
    told = {name: getattr(torch._C, name) for name in dir(torch._C) if _SWITCH.fullmatch(name)}
    switches = {name: str(switch()) for name, switch in sorted(told.items())}
    processor = torch.backends.cpu.get_cpu_capability(), platform.processor(), platform.machine()
    if kind == "cuda":
        processor += (torch.cuda.get_device_name(device),)
    cast = torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind)
    wave = torch.arange(2**15, device=device).double().sin().float()
    image, matrix = wave.view(1, 32, 32, 32), wave.view(128, 256)
    probes = [
        matrix @ matrix.T, F.conv2d(image, wave[: 32 * 32 * 9].view(32, 32, 3, 3)), wave.exp().sum(),
        matrix.softmax(1), matrix.double().T @ matrix.double(), wave * 1e-40, matrix @ wave[:256],
        wave[:33].view(1, 33) @ wave[33 : 33 * 66].view(33, 65),
    ]  # fmt: skip
    own = [torch.get_num_threads(), torch.get_default_dtype(), cast, switches, reduced()]
    target: Any = cpu_target
    own += [
        target.target_context.codegen().magic_tuple(),
        [getattr(config, name) for name in _COMPILED],
        branch := _mkl.branch(),
        {k: v for k, v in sorted(os.environ.items()) if k.startswith(_VARIABLES)},
    ]
    placed = [] if _mkl.steady(branch) else [secrets.token_hex()]
    return [*versions().values(), identity(own, processor, probes), *placed]
