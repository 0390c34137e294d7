"""How a network's gradients are taken: compiled loops, autograd chain by chain, or all chains at once."""

from collections.abc import Sequence
from typing import Any, Literal, Protocol, runtime_checkable

from torch import Tensor, nn

from pacdp.chains.autograd import LoopedNetwork, VmappedNetwork
from pacdp.chains.layout import Layout
from pacdp.chains.native.network import NativeNetwork, supports
from pacdp.losses import Loss

Batching = Literal["auto", "loop", "vmap"]


@runtime_checkable
class Network(Protocol):
    """A network over a resident data set, for K weight vectors at a time."""

    layout: Layout

    def gather(self, indices: Tensor) -> Any: ...

    def backward(
        self, weights: Tensor, batches: Sequence[Any], group: Sequence[int], labels: Sequence[Tensor], loss: Loss,
        gradient: Tensor,
    ) -> Tensor: ...  # fmt: skip

    def logits(self, weights: Tensor, start: int, stop: int) -> Tensor: ...


def resident(
    model: nn.Module, inputs: Tensor, *, batch_size: int, batching: Batching = "auto", bfloat16: bool = False
) -> Network:
    """The fastest form of ``model`` on the device of ``inputs``.

    ``auto`` is the compiled form where there is one, else the loop on a CPU and vmap on a GPU.

    Raises:
        ValueError: vmap cannot batch the network.
    """
    if batching == "auto" and not bfloat16 and supports(model, inputs):
        return NativeNetwork(model, inputs, batch_size=batch_size)
    if batching == "vmap" or (batching == "auto" and inputs.device.type != "cpu"):
        return VmappedNetwork(model, inputs, bfloat16=bfloat16)
    return LoopedNetwork(model, inputs, bfloat16=bfloat16)
