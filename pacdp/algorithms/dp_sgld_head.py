"""DP-SGLD of a linear head on fixed features, of which the last iterate alone is released.

    w ← (1 - hλ) w - (h/n) (Σ_i ∇ℓ_i(w) + N(0, (σ C)² I)),      ℓ_i the cross-entropy, w_0 = 0

on all records at every step. Rows x, with the 1 of the bias, have norm at most B = √(row_norm² + 1), so that the mean
loss has a Hessian between 0 and B²/2 and gradients of norm at most √2 B, whatever the data (of up to n records). A step
therefore contracts by c = max(|1 - hλ|, |1 - h(λ + B²/2)|), and forgets what a record did to the steps before
("Last iterate" in docs/guarantees.md): with c < 1 epsilon stops growing with the number of steps.

None of this holds with momentum or Adam, whose step is no contraction in the norm of the noise; with batches that are
secret; where gradients of several classes are clipped, which no convex loss has; or with layers below that learn.
"""

import math

import torch
from torch import Tensor, nn

from bounds.accounting import Event, Gaussian, LastAlone, ridge_head
from bounds.record import record
from pacdp.algorithms.algorithm import Algorithm
from pacdp.errors import require_positive
from pacdp.losses import cross_entropies
from pacdp.schedules import value_at
from pacdp.step.clip import without_subnormals
from pacdp.step.event import joined
from pacdp.step.mechanism import Mechanism
from pacdp.step.release import PrivateStep
from pacdp.step.units import Network

_SHORTER = 1.0 - 2.0**-16
"""Covers the rounding of single precision, so that clipping at C ≥ √2 B changes no gradient."""


class Shortened(nn.Module):
    """Rows no longer than ``norm``; each is scaled by a rule that looks at that row alone."""

    def __init__(self, norm: float) -> None:
        super().__init__()
        self.norm = norm

    def forward(self, rows: Tensor) -> Tensor:
        """x min(1, norm/‖x‖)."""
        norms = rows.double().norm(dim=1, keepdim=True)
        factors = (self.norm * _SHORTER / norms).clamp(max=1.0).to(rows.dtype)
        return rows * without_subnormals(factors)


@record
class DPSGLDHead(Algorithm):
    """Settings of DP-SGLD on a linear head.

    Formal guarantee: the weights after the last planned step, released alone, are ``LastAlone`` of the run's event,
    add-remove adjacency among data sets of at most as many records as the divisor says. Earlier iterates, averages and
    traces of the run are not covered.

    Raises ValueError where a step does not contract, or for momentum.
    """

    NAME = "DP-SGLD head"
    RELEASES_LAST = True
    step_size: float = 0.23
    """h."""
    ridge: float = 0.01
    """λ, on every weight and bias."""
    row_norm: float = 4.0
    """To which rows of features are shortened."""
    momentum: float = 0.0
    """None but 0 is covered."""

    def __post_init__(self) -> None:
        require_positive(step_size=self.step_size, ridge=self.ridge, row_norm=self.row_norm)
        if self.momentum != 0.0:
            raise ValueError(
                f"momentum must be 0, got {self.momentum}: its noise enters the velocity alone, and no norm is known "
                "in which such a step contracts, so that nothing is promised of the last iterate"
            )
        _ = self.contraction

    @property
    def least_clip_norm(self) -> float:
        """√2 B, beyond which no gradient is clipped."""
        return math.sqrt(2.0 * (self.row_norm**2 + 1.0))

    @property
    def contraction(self) -> float:
        """c, proved from the loss and the norm of the rows."""
        norm = math.sqrt(self.row_norm**2 + 1.0)
        numbers = {"ridge": self.ridge, "row_norm": norm, "n": 1, "classes": 2}
        head = ridge_head(step_sizes=[self.step_size], noises=[1.0], **numbers)
        return min(1.0, head.contractions[0])

    def network(
        self,
        module: nn.Module,
        *,
        generator: torch.Generator,
        device: torch.device | str | None = None,
    ) -> nn.Module:
        """The linear layer of ``module`` behind rows that are shortened.

        Raises:
            ValueError: it has other layers that learn.
        """
        del generator, device
        layers = [layer for layer in module.modules() if not [*layer.children()]]
        if [type(layer) for layer in layers] != [nn.Flatten, nn.Linear]:
            raise ValueError(
                f"{self.NAME} takes one linear layer on fixed features, since no contraction is proved of a network "
                "whose layers below learn: give architecture linear"
            )
        return nn.Sequential(layers[0], Shortened(self.row_norm), layers[1])

    def require(
        self, network: Network, mechanism: Mechanism, *, units: int, targets: Tensor
    ) -> None:
        """Refuse a run of which the contraction is not proved."""
        if targets.is_floating_point() or targets.ndim != 1:
            raise ValueError(
                f"{self.NAME} takes one class a record, a whole number: of other targets cross-entropy need be neither "
                "convex nor as flat as the contraction assumes"
            )
        layers = [type(layer) for layer in network.module.children()]
        own = [layer for layer in network.module.children() if isinstance(layer, Shortened)]
        if layers != [nn.Flatten, Shortened, nn.Linear] or own[0].norm != self.row_norm:
            raise ValueError(
                f"{self.NAME} trains what its network() makes of a linear layer: rows shortened to row_norm, and that "
                "layer"
            )
        if network.loss is not cross_entropies or network.fixed:
            raise ValueError(
                f"{self.NAME} has its contraction from pacdp.losses.cross_entropies, and from ridge on every weight: "
                "give that loss, and freeze none"
            )
        if any(p.dtype not in (torch.float32, torch.float64) for p in network.module.parameters()):
            raise ValueError(
                f"{self.NAME} takes weights in single precision at least: coarser ones round the shrinking away"
            )
        if any(bool(p.any()) for p in network.module.parameters()):
            raise ValueError(f"{self.NAME} starts at weights that are 0, which are public")
        if mechanism.sample_rate != 1.0:
            raise ValueError(
                f"sample_rate must be 1, got {mechanism.sample_rate}: {self.NAME} takes all records at every step, as "
                "no price is proved for the last iterate on secret batches"
            )
        if mechanism.clipping != "flat" or mechanism.clip_norm < self.least_clip_norm:
            raise ValueError(
                f"clip_norm must be at least {self.least_clip_norm:.6g}, with flat clipping, got "
                f"{mechanism.clip_norm} and {mechanism.clipping!r}: clipped gradients of several classes are those of "
                "no convex loss, so that a step that clips need not contract; lower row_norm instead"
            )
        if units > mechanism.expected_batch_size:
            raise ValueError(
                f"the sum over {units} records is divided by {mechanism.expected_batch_size:g}: give a public size "
                "that is no smaller, or steps may not contract"
            )

    def noises(self, step: int, mechanism: Mechanism) -> tuple[float, ...]:
        """The sum is released once, within the run's folder; the noise is the same at every step."""
        if mechanism.noise_multiplier is None:
            raise ValueError(f"{self.NAME} needs a noise_multiplier: give the mechanism one")
        first, noise = (value_at(t, noise_multiplier=mechanism.noise_multiplier) for t in (0, step))
        if noise != first:
            raise ValueError(f"noise_multiplier must be the same at every step of {self.NAME}")
        return (noise,)

    def promise(self, mechanism: Mechanism, steps: int) -> Event | None:
        """The last of ``steps`` iterates alone: a record moves a step by hC/n at most, noise is σ times that."""
        noises = {self.noises(t, mechanism) for t in range(steps)}
        alike = (Gaussian(noise_multiplier=noise) for (noise,) in noises)
        last = (LastAlone(steps=steps, contraction=self.contraction, event=one) for one in alike)
        return joined(*last)

    def update(self, step: PrivateStep) -> int:
        """One step of the formula above."""
        mechanism = step.mechanism
        (noise,) = self.noises(step.number, mechanism)
        released = step.release(noise)
        for name, weight in step.weights.items():
            weight.mul_(1.0 - self.step_size * self.ridge)
            moved = released[name].to(weight.dtype).view_as(weight)
            weight.sub_(moved, alpha=self.step_size / mechanism.expected_batch_size)
        return 0
