"""Opacus's gradient-sampling modules, made to take empty Poisson batches in every mode.

Opacus 1.6 crashes on an empty batch with expanded weights, with functorch on convolutions, and wherever a forward
cannot reshape nothing. Here an empty batch never reaches the network: its output shape is read off one example of
zeros, no graph is built, and every parameter is given its zero per-example gradients.
"""

from typing import Any, cast

import torch
from opacus.grad_sample import GradSampleModule, GradSampleModuleFastGradientClipping
from opacus.grad_sample.functorch import ft_compute_per_sample_gradient
from opacus.grad_sample.grad_sample_module import create_or_accumulate_grad_sample, promote_current_grad_sample
from opacus.grad_sample.gsm_exp_weights import GradSampleModuleExpandedWeights
from opacus.utils.module_utils import trainable_parameters
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves, tree_map

from pacdp.layers.random import random_state
from pacdp.opacus import bayes_gradients as bayes_gradients  # registers them
from pacdp.opacus.ghost_norms import NORM_SAMPLERS, is_linear
from pacdp.opacus.guard import Guard, hooks_of
from pacdp.step.clip import joint_norms
from pacdp.step.mechanism import GradSampleMode

_PLAIN = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)
MODES: tuple[GradSampleMode, ...] = ("hooks", "functorch", "ew", "ghost")
"""Those of Opacus; the private step has its reference besides."""


class EmptyBatches:
    """The forward pass that the three modules below share."""

    guard: Guard | None = None
    """What watches a loop of one's own."""

    def forward(self, *inputs: Any, **named: Any) -> Any:
        """The network's outputs; for an empty batch, empty outputs. In training they are recorded under a guard."""
        if self.guard is None or not (cast(nn.Module, self).training and torch.is_grad_enabled()):
            return self._outputs(*inputs, **named)
        return self.guard.forward(self._outputs, inputs, named)

    def _outputs(self, *inputs: Any, **named: Any) -> Any:
        tensors = [leaf for leaf in tree_leaves((inputs, named)) if isinstance(leaf, Tensor)]
        if not tensors:
            raise ValueError("a private module needs a tensor with a batch dimension among its inputs, got none")
        module = cast(nn.Module, self)
        if len(tensors[0]) > 0 or not (module.training and torch.is_grad_enabled()):
            return super().forward(*inputs, **named)  # pyright: ignore[reportAttributeAccessIssue]
        if not isinstance(self, GradSampleModuleFastGradientClipping):
            set_empty_gradients(module)
        with torch.no_grad():
            one, options = tree_map(_one_of_zeros, (inputs, named))
            outputs = network(module)(*one, **options)
        return tree_map(lambda out: out[:0].detach().requires_grad_(out.is_floating_point()), outputs)


class PrivateModule(EmptyBatches, GradSampleModule):
    """Hooks, and functorch where a layer has no grad sampler of its own (or everywhere, in mode "functorch")."""

    def capture_backprops_hook(
        self, module: nn.Module, _forward_input: Any, forward_output: Any, loss_reduction: str, batch_first: bool
    ) -> None:
        """Opacus's, which copies per-example gradients into zeros; not so where each parameter has been used once."""
        trained: list[Any] = [parameter for _, parameter in trainable_parameters(module)]
        if not (self.hooks_enabled and all(map(_used_once, trained))):
            super().capture_backprops_hook(module, _forward_input, forward_output, loss_reduction, batch_first)
            return
        activations, backprops = self.rearrange_grad_samples(
            module=module, backprops=forward_output[0].detach(), loss_reduction=loss_reduction, batch_first=batch_first
        )
        sampler = None if self.force_functorch else self.GRAD_SAMPLERS.get(type(module))
        rows_of = (sampler or ft_compute_per_sample_gradient)(module, cast(Any, activations), backprops)
        layer, borrowed = cast(Any, module), {leaf.untyped_storage().data_ptr() for leaf in (*activations, backprops)}
        for parameter, rows in rows_of.items():
            own = rows.is_contiguous() and rows.untyped_storage().data_ptr() not in borrowed
            if parameter.requires_grad and own and len(rows) == layer.max_batch_len:
                parameter._current_grad_sample = rows
            else:
                create_or_accumulate_grad_sample(param=parameter, grad_sample=rows, max_batch_len=layer.max_batch_len)
        for parameter in trained:
            parameter._forward_counter -= 1
            promote_current_grad_sample(parameter)
        if not layer.activations:
            del layer.max_batch_len


class ExpandedWeightsModule(EmptyBatches, GradSampleModuleExpandedWeights):
    """PyTorch's expanded weights."""


class GhostModule(EmptyBatches, GradSampleModuleFastGradientClipping):
    """Ghost clipping: norms without gradients.

    It keeps what a second forward pass of the same batch needs, and of a network of linear layers, each used once, what
    went into each layer and the gradients at what came out: ``seen``, from which the gradients are added up.
    """

    NORM_SAMPLERS = NORM_SAMPLERS
    replayable: tuple[tuple[Any, ...], dict[str, Any], Any] | None
    seen: dict[nn.Module, Tensor]
    slopes: dict[nn.Module, Tensor]

    def __init__(self, module: nn.Module, **options: Any) -> None:
        super().__init__(module, **options)
        self.forget()

    def capture_activations_hook(self, module: nn.Module, forward_input: Any, _forward_output: Any) -> None:
        """Opacus's, and what goes into the layer."""
        super().capture_activations_hook(module, forward_input, _forward_output)
        if self.hooks_enabled and module.training and torch.is_grad_enabled():
            self.all_seen &= module not in self.seen and is_linear(module, forward_input[0], _forward_output)
            self.seen[module] = forward_input[0].detach()

    def capture_backprops_hook(
        self, module: nn.Module, _forward_input: Any, forward_output: Any, loss_reduction: str, batch_first: bool
    ) -> None:
        """Opacus's, and the gradients at what comes out of the layer."""
        if self.hooks_enabled and self.all_seen:
            self.slopes[module] = forward_output[0].detach()
        super().capture_backprops_hook(module, _forward_input, forward_output, loss_reduction, batch_first)

    def can_add_up(self) -> bool:
        """Whether each parameter belongs to a linear layer, without hooks, that the last forward pass used once."""
        own = [id(p) for layer in self.seen for p in layer.parameters() if p.requires_grad and not any(hooks_of(p))]
        return self.all_seen and sorted(own) == sorted(map(id, self.trainable_parameters))

    def forward(self, *inputs: Any, **named: Any) -> Any:
        """The network's outputs; inputs and the state of the random layers are kept for :meth:`replay`."""
        if self.training and torch.is_grad_enabled():
            self.replayable = (inputs, named, random_state(self))
        return super().forward(*inputs, **named)

    def reached(self) -> list[nn.Parameter]:
        """The parameters that a backward pass must reach to go through all layers: of a plain layer, its bias."""
        passed = [layer.weight for layer in self._module.modules() if has_plain_bias(layer)]
        skipped = {id(weight) for weight in passed}
        return [parameter for parameter in self.trainable_parameters if id(parameter) not in skipped]

    def get_norm_sample(self) -> Tensor:
        """Norm of each example's whole gradient, double precision."""
        norms = joint_norms([cast(Any, parameter)._norm_sample for parameter in self.trainable_parameters])
        self.per_sample_gradient_norms = norms
        return norms

    def forget(self) -> None:
        """Let go of the last batch."""
        self.replayable, self.seen, self.slopes, self.all_seen = None, {}, {}, True


def wrap(module: nn.Module, mode: GradSampleMode, *, loss_reduction: str, clip_norm: float) -> nn.Module:
    """``module`` with per-example gradients (or their norms) after each backward pass.

    Raises:
        ValueError: another mode.
    """
    match mode:
        case "hooks" | "functorch":
            return PrivateModule(module, loss_reduction=loss_reduction, force_functorch=mode == "functorch")
        case "ew":
            return ExpandedWeightsModule(module, loss_reduction=loss_reduction)
        case "ghost":
            return GhostModule(module, loss_reduction=loss_reduction, max_grad_norm=cast(int, clip_norm))
    raise ValueError(f"grad_sample_mode must be one of {', '.join(MODES)}, got {mode!r}")


def has_plain_bias(layer: nn.Module) -> bool:
    """Whether a gradient reaches the layer's weight only where it reaches its bias."""
    return type(layer) in _PLAIN and layer.bias is not None and cast(Tensor, layer.bias).requires_grad


def network(module: nn.Module) -> nn.Module:
    """The network inside a wrapper; a bare network as it is."""
    inner = getattr(module, "_module", None)
    return inner if isinstance(inner, nn.Module) else module


def set_empty_gradients(module: nn.Module) -> None:
    """Give every trainable parameter the per-example gradients of an empty batch."""
    for parameter in module.parameters():
        if parameter.requires_grad and getattr(parameter, "grad_sample", None) is None:
            parameter.grad_sample = parameter.new_zeros((0, *parameter.shape))  # pyright: ignore


def _used_once(parameter: Any) -> bool:
    first = not hasattr(parameter, "_current_grad_sample") and parameter.grad_sample is None
    return first and parameter._forward_counter == 1


def _one_of_zeros(leaf: Any) -> Any:
    return leaf.new_zeros((1, *leaf.shape[1:])) if isinstance(leaf, Tensor) and leaf.dim() > 0 else leaf
