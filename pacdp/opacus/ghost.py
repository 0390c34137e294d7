"""Ghost clipping: norms and sums of gradients without a gradient of any example.

A backward pass from each example's gradients by the network's outputs finds every example's gradient norm. Where all
layers are linear and used once, factor_i times the gradients are added up layer by layer from what that pass met
("book-keeping", Bu, Wang, Zha and Karypis 2023); elsewhere a second backward pass adds them up. An example whose
gradient is NaN would poison the sum whatever its factor (0·NaN = NaN), so the batch is run again with that example's
inputs replaced by those of another one, at factor 0, with the same masks and weight draws.

What happens outside the layers is missed, a layer's weight used functionally for instance: :mod:`pacdp.step.agreement`
compares with the reference before ghost clipping is used.
"""

import warnings
from typing import Any, cast

import torch
from opacus.grad_sample import GradSampleModuleFastGradientClipping
from torch import Tensor, nn
from torch.autograd import grad
from torch.utils._pytree import tree_leaves

from pacdp.layers.random import random_state, rewind
from pacdp.opacus.ghost_norms import NORM_SAMPLERS, is_linear, linear_sum
from pacdp.opacus.guard import hooks_of
from pacdp.opacus.modules import PrivateModule
from pacdp.opacus.slopes import slopes_of_outputs
from pacdp.step.clip import Clip, Clipping, Weights, clip_factors, joint_norms
from pacdp.step.gradients import PerExampleLoss
from pacdp.step.precision import full_precision
from pacdp.step.sums import Sum, added_up, parts
from pacdp.step.units import Units, rows_at

_PLAIN = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)


class GhostModule(PrivateModule, GradSampleModuleFastGradientClipping):
    """Clipped sums by ghost clipping.

    It keeps what a second forward pass of the same batch needs, and of a network of linear layers, each used once, what
    went into each layer and the gradients at what came out: ``seen``, from which the gradients are added up.
    """

    NORM_SAMPLERS = NORM_SAMPLERS
    replayable: tuple[tuple[Any, ...], dict[str, Any], Any] | None
    given: list[Tensor]
    seen: dict[nn.Module, Tensor]
    slopes: dict[nn.Module, Tensor]

    def __init__(self, module: nn.Module, clip: Clip) -> None:
        super().__init__(module, loss_reduction="sum")
        self.clip = clip
        self.forget()

    def capture_activations_hook(
        self, module: nn.Module, forward_input: Any, _forward_output: Any
    ) -> None:
        """Opacus's, and what goes into the layer."""
        super().capture_activations_hook(module, forward_input, _forward_output)
        if self.hooks_enabled and module.training and torch.is_grad_enabled():
            self.all_seen &= module not in self.seen and is_linear(
                module, forward_input[0], _forward_output
            )
            self.seen[module] = forward_input[0].detach()

    def capture_backprops_hook(
        self,
        module: nn.Module,
        _forward_input: Any,
        forward_output: Any,
        loss_reduction: str,
        batch_first: bool,
    ) -> None:
        """Opacus's, and the gradients at what comes out of the layer."""
        if self.hooks_enabled and self.all_seen:
            self.slopes[module] = forward_output[0].detach()
        super().capture_backprops_hook(
            module, _forward_input, forward_output, loss_reduction, batch_first
        )

    def can_add_up(self) -> bool:
        """Whether each parameter belongs to a linear layer, without hooks, that the last forward pass used once."""
        own = [
            id(p)
            for layer in self.seen
            for p in layer.parameters()
            if p.requires_grad and not any(hooks_of(p))
        ]
        return self.all_seen and sorted(own) == sorted(map(id, self.trainable_parameters))

    def outputs_of(self, *inputs: Any, **named: Any) -> Any:
        """The outputs of a batch; inputs and the state of the random layers are kept."""
        if not (self.training and torch.is_grad_enabled()):
            return super().outputs_of(*inputs, **named)
        self.replayable = (inputs, named, random_state(self))
        found = super().outputs_of(*inputs, **named)
        self.given = _with_gradients(found)
        return found

    def get_norm_sample(self) -> Tensor:
        """Norm of each example's whole gradient, double precision."""
        norms = [cast(Any, parameter)._norm_sample for parameter in self.trainable_parameters]
        if any(norm is None for norm in norms):
            raise ValueError(
                "the loss does not depend on all layers of the network, of which ghost clipping needs the norms: use "
                "grad_sample_mode='reference', or leave those layers out"
            )
        return joint_norms(norms)

    def clipped_sum(self, outputs: list[Tensor], slopes: list[Tensor]) -> Sum:
        """See :class:`pacdp.opacus.modules.PrivateModule`.

        Norms and sums keep full precision: what is added up must be as long as it was found to be.
        """
        names = [name for name, p in self._module.named_parameters() if p.requires_grad]
        sums, empty = list[Tensor | None](), torch.zeros(0)
        clip = clip_factors(empty, self.clip)
        if len(outputs[0]):
            with warnings.catch_warnings():
                warnings.filterwarnings(
                    "ignore", message="Full backward hook is firing"
                )  # true, and as it should be
                sums, clip = self._sums(outputs, slopes)
        self.forget()
        pairs = zip(self.trainable_parameters, sums or [None] * len(names), strict=True)
        total = [torch.zeros_like(p) if one is None else one.detach() for p, one in pairs]
        if clip.scale != 1.0:
            total = [clip.scale * one for one in total]
        nonfinite, within = (~clip.finite).sum(), clip.within.sum()
        return Sum(dict(zip(names, _usable(total), strict=True)), nonfinite, 0.0, within)

    def _sums(
        self, outputs: list[Tensor], slopes: list[Tensor]
    ) -> tuple[list[Tensor | None], Clipping]:
        """By parameter, None where no path leads to it and without the scale; and how each example was clipped."""
        device, by_layer = outputs[0].device, self.can_add_up()
        with full_precision(device, convolutions=True):
            grad(outputs, self._reached(), slopes, retain_graph=not by_layer, allow_unused=True)
        kinds = {slopes[0].dtype, *(parameter.dtype for parameter in self.trainable_parameters)}
        coarsest = max(kinds, key=lambda kind: torch.finfo(kind).eps)
        clip = clip_factors(self.get_norm_sample(), self.clip, coarsest)
        factors, finite = clip.factors, clip.finite
        self.disable_hooks()
        try:
            if not bool(finite.all()):
                outputs, source = (
                    self._without(outputs, finite) if bool(finite.any()) else ([], finite)
                )
                slopes, by_layer = [slope[source] for slope in slopes], False
            with full_precision(device, convolutions=True):
                if by_layer:
                    return self._added_up(factors), clip
                if not outputs:
                    return [], clip
                scaled = [_scaled(slope, factors) for slope in slopes]
                return [*grad(outputs, self.trainable_parameters, scaled, allow_unused=True)], clip
        finally:
            self.enable_hooks()

    def _added_up(self, factors: Tensor) -> list[Tensor | None]:
        """The same sums, of the layers that a backward pass has met."""
        found = dict[nn.Parameter, Tensor]()
        for layer, inputs in self.seen.items():
            found |= linear_sum(layer, inputs, _scaled(self.slopes[layer], factors))
        return [found[parameter] for parameter in self.trainable_parameters]

    def _reached(self) -> list[nn.Parameter]:
        """The parameters that a backward pass must reach to go through all layers: of a plain layer, its bias."""
        passed = [layer.weight for layer in self._module.modules() if _has_plain_bias(layer)]
        skipped = {id(weight) for weight in passed}
        return [
            parameter for parameter in self.trainable_parameters if id(parameter) not in skipped
        ]

    def _without(self, outputs: list[Tensor], finite: Tensor) -> tuple[list[Tensor], Tensor]:
        """These outputs again, with a finite example in each place of one that is not, and which that is."""
        assert self.replayable is not None
        places = [k for one in outputs for k, given in enumerate(self.given) if given is one]
        if len(places) != len(outputs):
            raise ValueError(
                "an example's gradient is not finite, and the loss takes outputs of several forward passes: use "
                "grad_sample_mode='reference'"
            )
        inputs, named, state = self.replayable
        source = torch.where(
            finite, torch.arange(len(finite), device=finite.device), finite.int().argmax()
        )
        now = random_state(self)
        rewind(self, state)
        inputs, named = rows_at(source, (inputs, named))
        again = _with_gradients(
            self._module(*inputs, **named)
        )  # in the precision of the first forward
        rewind(self, now)
        return [again[k] for k in places], source

    def forget(self) -> None:
        """Let go of the last batch, and of the norms of its gradients, which are private."""
        for parameter in self.trainable_parameters:
            cast(Any, parameter)._norm_sample = None
        self.replayable, self.given, self.seen, self.slopes, self.all_seen = None, [], {}, {}, True


class GhostSums:
    """Clipped sums of examples' gradients by ghost clipping; the module stays wrapped.

    Args:
        most: examples at a time.
    """

    def __init__(
        self,
        module: nn.Module,
        units: Units,
        loss: PerExampleLoss,
        clip: Clip,
        *,
        most: int | None = None,
    ) -> None:
        self.wrapped, self.units, self.loss, self.most = (
            GhostModule(module, clip),
            units,
            loss,
            most,
        )

    def at(self, clip_norm: float) -> "GhostSums":
        """These sums, from now on with another clip norm."""
        self.wrapped.clip = self.wrapped.clip._replace(norm=clip_norm)
        return self

    def __call__(self, chosen: Tensor, weights: Weights) -> Sum:
        """Forward and backward passes of one part after the other."""
        device = next(iter(weights.values())).device
        return added_up(weights, (self._part(part, device) for part in parts(chosen, self.most)))

    def _part(self, part: Tensor, device: torch.device) -> Sum:
        inputs, targets = self.units.examples(part, device)
        outputs, slopes, losses = slopes_of_outputs(self.loss, self.wrapped(inputs), targets)
        return self.wrapped.clipped_sum(outputs, slopes)._replace(loss=losses.double().sum())


def _with_gradients(outputs: Any) -> list[Tensor]:
    return [x for x in tree_leaves(outputs) if isinstance(x, Tensor) and x.requires_grad]


def _has_plain_bias(layer: nn.Module) -> bool:
    """Whether a gradient reaches the layer's weight only where it reaches its bias."""
    return (
        type(layer) in _PLAIN and layer.bias is not None and cast(Tensor, layer.bias).requires_grad
    )


def _scaled(slope: Tensor, factors: Tensor) -> Tensor:
    return factors.detach().to(slope.device, slope.dtype).view(-1, *[1] * (slope.dim() - 1)) * slope


def _usable(sums: list[Tensor]) -> list[Tensor]:
    """The sums, or zeros where one of them is not finite."""
    if sums[0].device.type != "cpu":  # without a wait
        usable = torch.stack([total.isfinite().all().to(sums[0].device) for total in sums]).all()
        return [total.masked_fill(~usable.to(total.device), 0.0) for total in sums]
    # a sum is quicker than a look at each number, and finite only if all of them are
    if all(bool(total.sum().isfinite()) or bool(total.isfinite().all()) for total in sums):
        return sums
    return [torch.zeros_like(total) for total in sums]
