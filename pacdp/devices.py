"""The device that work goes to, where a thread's current one decides: Triton, CUDA graphs and compiled programs.

torch's own operations go where their tensors are. What launches for itself goes to the current device of its thread,
which is the first one unless somebody says otherwise.
"""

from contextlib import AbstractContextManager, nullcontext

import torch


def current(device: torch.device) -> AbstractContextManager[object]:
    """Within, ``device`` is the current one of this thread where it is a GPU."""
    return torch.cuda.device(device) if device.type == "cuda" else nullcontext()
