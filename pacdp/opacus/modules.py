"""Private modules: what `make_private` wraps a network in, so that a loop of one's own has clipped sums.

A private module's outputs lead a loop's backward pass to the :class:`~pacdp.opacus.guard.Guard`, which finds each
example's gradients by its own outputs; the module makes of them the clipped sum of the gradients by the weights. Here
by the reference; :mod:`pacdp.opacus.ghost` is the other way.
"""

from collections.abc import Iterator, Sequence
from typing import Any, cast

import torch
from opacus.grad_sample.gsm_base import AbstractGradSampleModule
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves, tree_map
from torch.utils.data import TensorDataset

from pacdp.layers.random import RandomState, random_state, rewind
from pacdp.losses import PerExampleLoss
from pacdp.opacus.guard import Guard
from pacdp.step.clip import Clip
from pacdp.step.sums import Reference, Sum, runs_at_once
from pacdp.step.units import ByPlace, Network, Units, rows_at, trained


class PrivateModule:
    """A network in a wrapper of Opacus's, with clipped sums; Opacus's crash on empty batches.

    An empty batch never reaches the network: its outputs' shape is read off one example of zeros, without a graph.
    """

    guard: Guard | None = None
    """What watches a loop of one's own."""

    def forward(self, *inputs: Any, **named: Any) -> Any:
        """The network's outputs; for an empty batch, empty outputs. In training they are recorded under a guard."""
        if self.guard is None or not (cast(nn.Module, self).training and torch.is_grad_enabled()):
            return self._outputs(*inputs, **named)
        return self.guard.forward(self._outputs, inputs, named)

    def outputs_of(self, *inputs: Any, **named: Any) -> Any:
        """The outputs of a batch of examples."""
        return super().forward(*inputs, **named)  # pyright: ignore[reportAttributeAccessIssue]

    def clipped_sum(self, outputs: list[Tensor], slopes: list[Tensor]) -> Sum:
        """Σ_i clip_C(g_i) by the names of the network's trained parameters.

        Args:
            outputs: those of the last forward pass that the loss depends on.
            slopes: each example's gradient of its own loss by them.
        """
        raise NotImplementedError

    def _outputs(self, *inputs: Any, **named: Any) -> Any:
        tensors = [leaf for leaf in tree_leaves((inputs, named)) if isinstance(leaf, Tensor)]
        if not tensors:
            raise ValueError(
                "a private module needs a tensor with a batch dimension among its inputs, got none"
            )
        module = cast(nn.Module, self)
        if len(tensors[0]) > 0 or not (module.training and torch.is_grad_enabled()):
            return self.outputs_of(*inputs, **named)
        with torch.no_grad():
            one, options = tree_map(_one_of_zeros, (inputs, named))
            outputs = network(module)(*one, **options)
        return tree_map(lambda out: _leaf(out[:0]), outputs)


class ReferenceModule(PrivateModule, AbstractGradSampleModule):
    """Clipped sums by the reference (:class:`pacdp.step.sums.Reference`), for networks that ghost clipping cannot do.

    The forward pass has no graph. With s_i the gradient of example i's loss by its own outputs, the gradient of that
    loss by the weights is that of ⟨s_i, f(w, x_i)⟩, which the reference takes with the random numbers of the forward
    pass. Networks that it runs one example at a time have a forward pass of one example at a time, too.

    Args:
        inputs: positional arguments of the network, of at least two examples, on which it is tried.
    """

    def __init__(self, module: nn.Module, clip: Clip, *, inputs: Sequence[Any]) -> None:
        super().__init__(module, loss_reduction="sum")
        self.clip = clip
        self._passed: tuple[Sequence[Any], dict[str, Any], RandomState, list[Any]] | None = None
        places = torch.arange(2)
        tried = Units.group(TensorDataset(places, places), None)
        reference = Reference(Network.of(ByPlace(module, inputs), smooth_loss), tried, clip)
        self._at_once = runs_at_once(reference, tried, trained(reference.network.module))

    def outputs_of(self, *inputs: Any, **named: Any) -> Any:
        """The outputs of a batch; in training, what the clipped sum needs is remembered."""
        if not (self.training and torch.is_grad_enabled()):
            return self._module(*inputs, **named)
        before = random_state(self._module)
        with torch.no_grad():
            if self._at_once:
                outputs = self._module(*inputs, **named)
            else:
                passes = [
                    self._module(*one, **options) for one, options in _one_by_one((inputs, named))
                ]
                outputs = tree_map(_joined, *passes)
        outputs = tree_map(_leaf, outputs)
        self._passed = inputs, named, before, tree_leaves(outputs)
        return outputs

    def clipped_sum(self, outputs: list[Tensor], slopes: list[Tensor]) -> Sum:
        """See :class:`PrivateModule`.

        Raises:
            ValueError: outputs of several forward passes.
        """
        weights = trained(self._module)
        if not len(outputs[0]):
            return Sum({name: torch.zeros_like(w) for name, w in weights.items()}, 0, 0.0)
        inputs, named, before, leaves = self._passed or ((), {}, None, [])
        slope_of = {id(output): slope for output, slope in zip(outputs, slopes, strict=True)}
        if before is None or not slope_of.keys() <= set(map(id, leaves)):
            raise ValueError(
                "the loss is computed of outputs of several forward passes, of which the last one is remembered: call "
                "the network once a batch, and put what calls it several times into module"
            )

        def along_the_slopes(found: Any, places: Tensor) -> Tensor:
            pairs = zip(
                tree_leaves(found), (slope_of.get(id(leaf)) for leaf in leaves), strict=True
            )
            return torch.stack(
                [
                    (own * s[places]).reshape(len(own), -1).sum(1)
                    for own, s in pairs
                    if s is not None
                ]
            ).sum(0)

        reference, now = (
            self._by_example(inputs, named, along_the_slopes),
            random_state(self._module),
        )
        own = trained(reference.network.module)
        rewind(self._module, before)
        found = reference(torch.arange(len(outputs[0])), own)
        rewind(self._module, now)
        self._passed = None
        return found._replace(
            total={name: found.total[key] for name, key in zip(weights, own, strict=True)}
        )

    def remove_hooks(self) -> None:
        """Nothing is hooked."""

    def _by_example(
        self, inputs: Sequence[Any], named: dict[str, Any], loss: PerExampleLoss
    ) -> Reference:
        """The reference on one batch, whose targets are the places of its examples."""
        first = next(leaf for leaf in tree_leaves((inputs, named)) if isinstance(leaf, Tensor))
        places = torch.arange(len(first), device=first.device)
        plain = len(inputs) == 1 and not named and inputs[0] is first
        module, rows = (
            (self._module, first.detach())
            if plain
            else (ByPlace(self._module, inputs, named), places)
        )
        return Reference(
            Network.of(module, loss),
            Units.group(TensorDataset(rows, places), None),
            self.clip,
            vectorised=self._at_once,
        )


def network(module: nn.Module) -> nn.Module:
    """The network inside a wrapper; a bare network as it is."""
    inner = getattr(module, "_module", None)
    return inner if isinstance(inner, nn.Module) else module


def smooth_loss(outputs: Any, targets: Tensor) -> Tensor:
    """A made-up loss of each example, of any outputs, in which every number of them counts."""
    del targets
    leaves = [x for x in tree_leaves(outputs) if isinstance(x, Tensor) and x.is_floating_point()]
    joined = torch.cat([x.reshape(len(x), -1) for x in leaves], dim=1)
    return torch.sin(joined + torch.arange(joined.shape[1], device=joined.device)).mean(1)


def _one_by_one(inputs: Any) -> Iterator[Any]:
    n = next(len(leaf) for leaf in tree_leaves(inputs) if isinstance(leaf, Tensor))
    return (rows_at(place, inputs) for place in torch.arange(n)[:, None])


def _joined(*leaves: Any) -> Any:
    return torch.cat(leaves) if isinstance(leaves[0], Tensor) else leaves[0]


def _leaf(output: Any) -> Any:
    return (
        output.detach().requires_grad_(output.is_floating_point())
        if isinstance(output, Tensor)
        else output
    )


def _one_of_zeros(leaf: Any) -> Any:
    return (
        leaf.new_zeros((1, *leaf.shape[1:]))
        if isinstance(leaf, Tensor) and leaf.dim() > 0
        else leaf
    )
