"""Triton's kernels are interpreted where no GPU is.

Triton decides when it is first imported, by whichever test needs it first, whether its own functions are interpreted.
"""

import os

import torch

os.environ.setdefault("TRITON_INTERPRET", "0" if torch.cuda.is_available() else "1")
