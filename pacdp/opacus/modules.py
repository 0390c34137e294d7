"""Private modules: what `make_private` wraps a network in, so that a loop of one's own has clipped sums.

A private module's outputs lead a loop's backward pass to the :class:`~pacdp.opacus.guard.Guard`, which finds each
example's gradients by its own outputs; one of two ways makes of them the clipped sum of the gradients by the weights:
the reference, or :class:`pacdp.step.ghost.Ghost`.
"""

from collections.abc import Mapping, Sequence
from contextlib import nullcontext, suppress
from typing import Any

import torch
from opacus.grad_sample.gsm_base import AbstractGradSampleModule
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves, tree_map
from torch.utils.data import TensorDataset

from pacdp.layers.random import random_state, rewind
from pacdp.losses import PerExampleLoss
from pacdp.opacus.guard import Guard, form_of
from pacdp.step.clip import Clip
from pacdp.step.ghost import Ghost
from pacdp.step.sums import Reference, Sum, runs_at_once
from pacdp.step.units import ByPlace, Network, Units, rows_at, trained
from pacdp.trials import named_outputs, require_rows


class PrivateModule(AbstractGradSampleModule):
    """A network in a wrapper of Opacus's, with the clipped sum of the last batch that it was given in training.

    An empty batch never reaches the network: its outputs' shape is read off one example of zeros, without a graph.

    Args:
        watched: what else the guard is told, which watches a loop of one's own.
    """

    def __init__(self, module: nn.Module, way: "Ghost | ByReference", **watched: Any) -> None:
        super().__init__(module, loss_reduction="sum")
        self.way, self.leaves = way, list[Any]()
        self.guard = Guard(module, clipped=self.clipped_sum, next_batch=way.next_batch, **watched)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget all gradients, as the optimizer's does."""
        self.guard.forget()
        self._module.zero_grad(set_to_none)

    def forward(self, *inputs: Any, **named: Any) -> Any:
        """The network's outputs; in training they are recorded, and for an empty batch empty."""
        if not (self.training and torch.is_grad_enabled()):
            return self._module(*inputs, **named)
        if self.guard.clipped != self.clipped_sum:
            raise ValueError(
                "a copy of the private module does not train, since the optimizer has the sums of the original: train "
                "that, and take the copy for its outputs, under eval() or torch.no_grad()"
            )
        return self.guard.forward(self.remembered, inputs, named)

    def remembered(self, *inputs: Any, **named: Any) -> Any:
        """The outputs of a batch in training, remembered for its clipped sum."""
        rows = [leaf for leaf in tree_leaves((inputs, named)) if isinstance(leaf, Tensor)]
        if len(rows[0]):
            outputs = self.way(inputs, named)
            require_rows(named_outputs(outputs), len(rows[0]))
            self.leaves = tree_leaves(outputs)
            return outputs
        with torch.no_grad():
            one, options = tree_map(_one_of_zeros, (inputs, named))
            outputs = self._module(*one, **options)
        require_rows(named_outputs(outputs), 1)
        return tree_map(lambda out: _leaf(out[:0] if _is_tensor(out) else out), outputs)

    def clipped_sum(self, slopes: Sequence[Tensor | None]) -> Sum:
        """Σ_i clip_C(g_i) of the batch that passed last, by the names of the network's trained parameters.

        Args:
            slopes: each example's gradient of its own loss by every output of that pass, None where it has none; empty
                for an empty batch.
        """
        leaves, self.leaves = self.leaves, []
        if slopes:
            return self.way.sum(leaves, slopes)
        zeros = {name: torch.zeros_like(w) for name, w in trained(self._module).items()}
        return Sum(zeros, 0, 0.0)

    def remove_hooks(self) -> None:
        """Take the layers' hooks away."""
        for hook in self.way.hooks:
            hook.remove()


class ByReference:
    """Clipped sums by the reference (:class:`pacdp.step.sums.Reference`), for networks that ghost clipping cannot do.

    The forward pass has no graph. With s_i the gradient of example i's loss by its own outputs, the gradient of that
    loss by the weights is that of ⟨s_i, f(w, x_i)⟩, which the reference takes with the random numbers of the forward
    pass. Networks that it runs one example at a time have a forward pass of one example at a time, too.

    Args:
        inputs: positional arguments of the network, of at least two examples, on which it is tried.
    """

    hooks = ()

    def __init__(self, module: nn.Module, clip: Clip, *, inputs: Sequence[Any]) -> None:
        self.module, self.clip, self._by_form = module, clip, dict[str, bool]()
        self._runs_at_once(inputs, {})

    def _runs_at_once(self, inputs: Sequence[Any], named: Mapping[str, Any]) -> bool:
        """Whether several examples go through the network in one pass, tried once for each form of arguments."""
        form = form_of(inputs, named)
        if form not in self._by_form:
            two = torch.arange(2) % len(_places(inputs, named))
            rows, by_name = rows_at(two, (inputs, named))
            tried = self._reference(rows, by_name, torch.arange(2), smooth_loss)
            own = trained(tried.network.module)
            # what fails in a loop is told by the pass itself, of one example
            with suppress(ValueError) if self._by_form else nullcontext():
                self._by_form[form] = runs_at_once(tried, tried.units, own)
            self._by_form.setdefault(form, False)
        return self._by_form[form]

    def _reference(
        self, inputs: Sequence[Any], named: Mapping[str, Any], places: Tensor, loss: PerExampleLoss
    ) -> Reference:
        """Of examples whose targets are their places; they are rows of one tensor, their own or their places."""
        if named or len(inputs) != 1 or not _is_tensor(inputs[0]):
            rows, module = places, ByPlace(self.module, inputs, named)
        else:
            rows, module = inputs[0].detach(), self.module
        units = Units.group(TensorDataset(rows, places), None)
        return Reference(Network.of(module, loss), units, self.clip)

    def next_batch(self) -> None:
        """Nothing lasts from a pass to the next: each example draws weights of its own."""

    @torch.no_grad()
    def __call__(self, inputs: Sequence[Any], named: Mapping[str, Any]) -> Any:
        """The outputs of a batch of examples, without a way back into the network."""
        self._passed = inputs, named, random_state(self.module)
        if self._runs_at_once(inputs, named):
            return tree_map(_leaf, self.module(*inputs, **named))
        places = _places(inputs, named).cpu()
        each = (rows_at(place, (inputs, named)) for place in places[:, None])
        passes = [self.module(*one, **options) for one, options in each]
        require_rows(named_outputs(passes[0]), 1)
        return tree_map(
            lambda *rows: _leaf(torch.cat(rows) if _is_tensor(rows[0]) else rows[0]), *passes
        )

    def sum(self, leaves: Sequence[Any], slopes: Sequence[Tensor | None]) -> Sum:
        """The reference's sum of one batch."""
        inputs, named, before = self._passed

        def along_the_slopes(found: Any, places: Tensor) -> Tensor:
            moving = zip(tree_leaves(found), slopes, strict=True)
            return torch.stack([
                (own * s[places]).reshape(len(own), -1).sum(1) for own, s in moving if s is not None
            ]).sum(0)  # fmt: skip

        places, now = _places(inputs, named), random_state(self.module)
        reference = self._reference(inputs, named, places, along_the_slopes)
        own = trained(reference.network.module)
        rewind(self.module, before)
        vectorised = self._runs_at_once(inputs, named)
        found = reference._replace(vectorised=vectorised)(places.cpu(), own)
        rewind(self.module, now)
        total = zip(trained(self.module), own, strict=True)
        return found._replace(total={name: found.total[key] for name, key in total})


def _places(inputs: Sequence[Any], named: Mapping[str, Any]) -> Tensor:
    first = next(filter(_is_tensor, tree_leaves((inputs, named))))
    return torch.arange(len(first), device=first.device)


def network(module: nn.Module) -> nn.Module:
    """The network inside a wrapper; a bare network as it is."""
    return module._module if isinstance(module, AbstractGradSampleModule) else module


def smooth_loss(outputs: Any, targets: Tensor) -> Tensor:
    """A made-up loss of each example, of any outputs, in which every number of them counts."""
    del targets
    leaves = [x for x in tree_leaves(outputs) if _is_tensor(x) and x.is_floating_point()]
    joined = torch.cat([x.reshape(len(x), -1) for x in leaves], dim=1)
    return torch.sin(joined + torch.arange(joined.shape[1], device=joined.device)).mean(1)


def _is_tensor(leaf: Any) -> bool:
    return isinstance(leaf, Tensor)


def _leaf(output: Any) -> Any:
    return (
        output.detach().requires_grad_(output.is_floating_point()) if _is_tensor(output) else output
    )


def _one_of_zeros(leaf: Any) -> Any:
    has_none = _is_tensor(leaf) and leaf.dim() > 0 and len(leaf) == 0
    return leaf.new_zeros((1, *leaf.shape[1:])) if has_none else leaf
