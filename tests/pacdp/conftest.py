"""One thread a test process: the machine is shared, and tiny tensors gain nothing from more."""

import torch

torch.set_num_threads(1)
