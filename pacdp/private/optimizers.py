"""Opacus's optimizers with a fixed divisor, noise by the logical step, and gradients that may be NaN.

Both compute, at logical step t,

    p.grad = (Σ_i clip_C(g_i) + N(0, (σ_t C)² I)) / expected_batch_size        σ_t = noise_schedule(t)

then record (σ_t, q), then add the data-free gradient (a prior's, a KL's), then let the wrapped optimizer step. t counts
noisy updates: physical batches that are parts of one logical batch do not move it.

Formal guarantee: adding or removing one example moves Σ_i clip_C(g_i) by at most C in Euclidean norm, for any example:
one whose gradient is NaN or infinite contributes exactly zero, and an empty batch is a zero sum. Up to the rounding of
the sum.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
from opacus.optimizers import DPOptimizer
from opacus.optimizers.optimizer import _check_processed_flag, _mark_as_processed
from opacus.optimizers.optimizer_fast_gradient_clipping import DPOptimizerFastGradientClipping
from opacus.optimizers.utils import params
from torch import Tensor
from torch.optim import Optimizer

from pacdp.private.clipping import clip_factors, drop, joint_norms, row_norms
from pacdp.private.schedules import Schedule
from pacdp.step.noise import Randomness, add_noise

DataFreeGradient = Callable[[], None]


class _FixedNormaliser:
    """What follows clipping, the same for both optimizers."""

    max_grad_norm: Any
    expected_batch_size: Any

    def _set_up(self, schedule: Schedule, randomness: Randomness, data_free_gradient: DataFreeGradient | None) -> None:
        self.noise_schedule = schedule
        self.randomness = randomness
        self.data_free_gradient = data_free_gradient
        self.logical_step = 0
        self.nonfinite_examples = 0

    def add_noise(self) -> None:
        """Noise of standard deviation σ_t C on every coordinate of the clipped sum."""
        self.noise_multiplier = float(self.noise_schedule(self.logical_step))
        if not (math.isfinite(self.noise_multiplier) and self.noise_multiplier >= 0.0):
            raise ValueError(
                f"noise_schedule({self.logical_step}) must be a finite number >= 0, got {self.noise_multiplier}"
            )
        std = self.noise_multiplier * self.max_grad_norm
        parameters = _parameters(self)
        for p in parameters:
            _check_processed_flag(p.summed_grad)
        for p, noised in zip(parameters, self._noised([p.summed_grad for p in parameters], std), strict=True):
            p.grad = noised.to(p.dtype).view_as(p)
            _mark_as_processed(p.summed_grad)

    def _noised(self, totals: list[Tensor], std: float) -> list[Tensor]:
        return [add_noise(total, std=std, randomness=self.randomness) for total in totals]

    def scale_grad(self) -> None:
        """Divide by the expected batch size, whatever the actual one and whatever the loss's reduction."""
        for p in _parameters(self):
            p.grad /= self.expected_batch_size

    def pre_step(self, closure: Callable[[], float] | None = None) -> Any:
        """Opacus's, then the data-free gradient; the logical step moves on only if a noisy update was made."""
        done = super().pre_step(closure)  # pyright: ignore[reportAttributeAccessIssue]
        if done:
            self.logical_step += 1
            if self.data_free_gradient is not None:
                self.data_free_gradient()
        return done


class PrivateOptimizer(_FixedNormaliser, DPOptimizer):
    """Clips gradients that a private module left in ``p.grad_sample``.

    Args:
        optimizer: any ``torch.optim`` optimizer; it sees privatised gradients only.
        noise_schedule: noise multiplier σ_t as a function of the logical step.
        clip_norm: C.
        expected_batch_size: the public divisor.
        randomness: source of the noise.
        pre_noise: standard deviation of noise added to each example's gradient before clipping (Chen, Wu and Hong
            2020, Knolle et al. 2021). It reduces the bias of clipping and buys no privacy.
        pre_noise_generator: its source.
        data_free_gradient: adds to ``p.grad``, after the noise, a gradient that depends on no data.

    ``nonfinite_examples`` counts the gradients that were dropped: it is private data, not for publication.
    """

    def __init__(self, optimizer: Optimizer, *, noise_schedule: Schedule, clip_norm: float,
                 expected_batch_size: float, randomness: Randomness, loss_reduction: str = "mean",
                 pre_noise: float = 0.0, pre_noise_generator: torch.Generator | None = None,
                 data_free_gradient: DataFreeGradient | None = None) -> None:  # fmt: skip
        super().__init__(optimizer, noise_multiplier=noise_schedule(0), max_grad_norm=clip_norm,
                         expected_batch_size=expected_batch_size, loss_reduction=loss_reduction)  # pyright: ignore  # fmt: skip
        self._set_up(noise_schedule, randomness, data_free_gradient)
        if pre_noise > 0.0 and pre_noise_generator is None:
            raise ValueError(f"pre_noise {pre_noise} needs a pre_noise_generator")
        self.pre_noise, self.pre_noise_generator = pre_noise, pre_noise_generator

    @property
    def accumulated_iterations(self) -> int:
        """1: a Poisson batch is one batch, however it was cut."""
        return 1

    def clip_and_accumulate(self) -> None:
        """Add the clipped per-example gradients to ``p.summed_grad``."""
        parameters = _parameters(self)
        for p in parameters:
            _check_processed_flag(p.grad_sample)
        rows = [_precise(self._get_flat_grad_sample(p).to(p.dtype)) for p in parameters]
        lengths = {len(r) for r in rows}
        if len(lengths) > 1:
            raise ValueError(f"parameters disagree on the number of examples {sorted(lengths)}: each needs all of them")
        norms = joint_norms([row_norms(r) for r in rows])
        keep = torch.isfinite(norms)
        if not bool(keep.all()):
            self.nonfinite_examples += int((~keep).sum())
            rows = [drop(r, keep.to(r.device)) for r in rows]
        if self.pre_noise > 0.0:
            rows = [drop(r + self._pre_noise_like(r), keep.to(r.device)) for r in rows]
            norms = joint_norms([row_norms(r) for r in rows])
        factors = clip_factors(norms, self.max_grad_norm, _coarsest(rows)).factors
        for p, r in zip(parameters, rows, strict=True):
            total = torch.einsum("i,i...->...", factors.to(device=r.device, dtype=r.dtype), r)
            p.summed_grad = total if p.summed_grad is None else p.summed_grad + total
            _mark_as_processed(p.grad_sample)

    def _pre_noise_like(self, rows: Tensor) -> Tensor:
        assert self.pre_noise_generator is not None
        drawn = torch.empty(rows.shape, dtype=rows.dtype, device=self.pre_noise_generator.device)
        return drawn.normal_(generator=self.pre_noise_generator).mul_(self.pre_noise).to(rows.device)


class GhostOptimizer(_FixedNormaliser, DPOptimizerFastGradientClipping):
    """The same after ghost clipping: the clipped sum arrives in ``p.grad``, per-example gradients never exist."""

    def __init__(self, optimizer: Optimizer, *, noise_schedule: Schedule, clip_norm: float,
                 expected_batch_size: float, randomness: Randomness, loss_reduction: str = "mean",
                 data_free_gradient: DataFreeGradient | None = None) -> None:  # fmt: skip
        super().__init__(optimizer, noise_multiplier=noise_schedule(0), max_grad_norm=clip_norm,
                         expected_batch_size=expected_batch_size, loss_reduction=loss_reduction)  # pyright: ignore  # fmt: skip
        self._set_up(noise_schedule, randomness, data_free_gradient)

    def accumulate(self) -> None:
        """Add ``p.grad`` to ``p.summed_grad``, which takes it over where it is the first."""
        for p in _parameters(self):
            p.summed_grad = p.grad.detach() if p.summed_grad is None else p.summed_grad.add_(p.grad.detach())
            p.grad = None


def _parameters(optimizer: Any) -> list[Any]:
    """Opacus hangs per-example and summed gradients onto the parameters as attributes."""
    return params(optimizer)


def _precise(rows: Tensor) -> Tensor:
    """``rows`` in single precision at least."""
    return rows if rows.dtype in (torch.float32, torch.float64) else rows.float()


def _coarsest(rows: list[Tensor]) -> torch.dtype:
    return torch.float32 if any(r.dtype == torch.float32 for r in rows) else torch.float64
