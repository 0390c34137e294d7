"""One thread a test process: tiny tensors gain nothing from more."""

import torch

torch.set_num_threads(1)
