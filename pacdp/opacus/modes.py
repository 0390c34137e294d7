"""Opacus's ways to per-example gradients as fast modes of the private step.

Hooks, expanded weights, functorch by layer and ghost clipping find a gradient from what layers saw, and miss what
happens elsewhere: a layer's weight used functionally, for instance. :mod:`pacdp.step.agreement` compares them with the
reference before any of them is used.
"""

import warnings
from typing import Any, cast

import torch
from torch import Tensor, nn

from pacdp.opacus.ghost import empty_sum, ghost_backward
from pacdp.opacus.modules import GhostModule, wrap
from pacdp.opacus.slopes import slopes_of_outputs
from pacdp.step.clip import Weights, clipped_sum, drop, joint_norms, row_norms
from pacdp.step.gradients import PerExampleLoss
from pacdp.step.mechanism import GradSampleMode
from pacdp.step.sums import Sum, parts
from pacdp.step.units import Units


class OpacusSums:
    """Clipped sums of examples' gradients by one of Opacus's modes; the module stays wrapped.

    Args:
        draws: forward passes whose losses are averaged before clipping.
        pre_noise: standard deviation of noise on each example's gradient before clipping; none for "ghost".
        generator: of that noise.
        most: examples at a time.
    """

    def __init__(
        self,
        module: nn.Module,
        mode: GradSampleMode,
        units: Units,
        loss: PerExampleLoss,
        *,
        clip_norm: float,
        draws: int = 1,
        pre_noise: float = 0.0,
        generator: torch.Generator | None = None,
        most: int | None = None,
    ) -> None:
        if mode == "ghost" and pre_noise > 0.0:
            raise ValueError(
                "pre_noise needs per-example gradients, which ghost clipping never forms: use mode 'hooks'"
            )
        self.wrapped = wrap(module, mode, loss_reduction="sum", clip_norm=clip_norm)
        self.wrapped.forbid_grad_accumulation()  # pyright: ignore[reportCallIssue]
        self.parameters = {name: p for name, p in module.named_parameters() if p.requires_grad}
        self.units, self.loss, self.draws, self.most = units, loss, draws, most
        self.max_grad_norm, self.pre_noise, self.generator = clip_norm, pre_noise, generator
        self.nonfinite_examples = self.examples = 0

    @property
    def params(self) -> list[Any]:
        """The trainable parameters."""
        return list(self.parameters.values())

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget all gradients of the last part."""
        del set_to_none
        for parameter in self.params:
            parameter.grad = parameter.grad_sample = None

    def __call__(self, chosen: Tensor, weights: Weights) -> Sum:
        """Forward and backward passes of one part after the other."""
        total = {name: torch.zeros_like(w) for name, w in weights.items()}
        self.nonfinite_examples, device = 0, next(iter(weights.values())).device
        seen = torch.zeros((), dtype=torch.float64, device=device)
        for part in parts(chosen, self.most):
            if not len(part):
                if isinstance(self.wrapped, GhostModule):
                    empty_sum(self.wrapped, self)
                continue
            inputs, targets = self.units.examples(part, device)
            self.zero_grad()
            seen = seen + self._backward(inputs, targets)
            own = self._own_sum()
            total = {name: own[name] if len(part) == len(chosen) else total[name] + own[name] for name in total}
        self.zero_grad()
        return Sum(total, self.nonfinite_examples, seen)

    def _backward(self, inputs: Tensor, targets: Tensor) -> Tensor | float:
        """Leave the gradients of the examples' losses, each evaluated by itself, and return the sum of the losses."""
        outputs, slopes, total = list[Tensor](), list[Tensor](), 0.0
        for _ in range(self.draws):
            own, found, losses = slopes_of_outputs(self.loss, self.wrapped(inputs), targets)
            outputs += own
            slopes += [slope / self.draws for slope in found] if self.draws > 1 else found
            total = total + losses.double().sum() / self.draws
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Full backward hook is firing")  # true, and as it should be
            if isinstance(self.wrapped, GhostModule):
                ghost_backward(self.wrapped, self, outputs, slopes)
            else:
                torch.autograd.backward(outputs, slopes)
        return total

    def _own_sum(self) -> Weights:
        if isinstance(self.wrapped, GhostModule):
            return {name: cast(Tensor, p.grad).detach() for name, p in self.parameters.items()}
        rows = {name: flat_rows(p) for name, p in self.parameters.items()}
        found, dropped = clip_rows(rows, self.max_grad_norm, self.pre_noise, self.generator)
        self.nonfinite_examples = self.nonfinite_examples + dropped
        return found


def clip_rows(
    rows: Weights, clip_norm: float, pre_noise: float = 0.0, generator: torch.Generator | None = None
) -> tuple[Weights, Tensor]:
    """The clipped sum of per-example gradients, and how many counted as zero, a number where the gradients are.

    Raises:
        ValueError: parameters with different numbers of examples, or pre-noise without a generator.
    """
    lengths = {len(r) for r in rows.values()}
    if len(lengths) > 1:
        raise ValueError(f"parameters disagree on the number of examples {sorted(lengths)}: each needs all of them")
    dropped: int | Tensor = 0
    if pre_noise > 0.0:
        if generator is None:
            raise ValueError(f"pre_noise {pre_noise} needs a pre_noise_generator")
        keep = torch.isfinite(joint_norms([row_norms(r) for r in rows.values()]))
        dropped = (~keep).sum()
        rows = {
            name: drop(drop(r, keep.to(r.device)) + _noise_like(r, pre_noise, generator), keep.to(r.device))
            for name, r in rows.items()
        }
    found = clipped_sum(rows, clip_norm)
    return found.total, dropped + (~found.finite).sum()


def flat_rows(parameter: Any) -> Tensor:
    """Per-example gradients that a backward pass left at a parameter, single precision at least."""
    rows = parameter.grad_sample
    rows = torch.cat(rows) if isinstance(rows, list) else rows
    rows = rows.to(parameter.dtype)
    return rows if rows.dtype in (torch.float32, torch.float64) else rows.float()


def _noise_like(rows: Tensor, std: float, generator: torch.Generator) -> Tensor:
    drawn = torch.empty(rows.shape, dtype=rows.dtype, device=generator.device)
    return drawn.normal_(generator=generator).mul_(std).to(rows.device)
