"""Which calls ask a tensor for its values, for which a GPU would be waited for."""

import torch
from torch.overrides import TorchFunctionMode

_ASK = set((
    "item tolist numpy cpu nonzero __bool__ __float__ __int__ __index__ is_nonzero equal unique "
    "masked_select allclose"
).split())  # fmt: skip


class Reads(TorchFunctionMode):
    """Names of the calls, in order; of tensors of whole numbers too, which private steps have on the CPU anyway."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_function__(self, function, types, args=(), kwargs=None):
        name = getattr(function, "__name__", str(function))
        masks = name == "__getitem__" and any(
            isinstance(one, torch.Tensor) and one.dtype == torch.bool
            for one in (args[1] if isinstance(args[1], tuple) else (args[1],))
        )
        if name in _ASK or masks:
            self.seen.append(name)
        return function(*args, **(kwargs or {}))
