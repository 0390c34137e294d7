"""Stochastic gradient descent with heavy-ball momentum: the zero-noise limit of SGLD.

v ← momentum v + ∇R̂(w; batch),   w ← w - h_t v,   h_t = step_size t^-decay
"""

from typing import ClassVar

from torch import Tensor

from bounds.record import record
from pacdp.algorithms.chain import Chain, Coefficients, step_sizes
from pacdp.algorithms.sampler import Info, Motion, Potential
from pacdp.chains import NOISE, Keys, langevin
from pacdp.schedules import Factor
from pacdp.step.event import NoPrivacy


@record
class SGD(Chain):
    """Settings of a run of SGD."""

    State: ClassVar = Motion
    step_size: float = 0.1
    decay: float | Factor = 0.0
    """h_t = step_size t^-decay, or step_size decay(t) for a function of t = 1, 2, ..."""
    momentum: float = 0.0
    batch_size: int = 128

    def coefficients(self, t: int) -> Coefficients:
        """h_t and the momentum."""
        return {"rate": step_sizes(self.step_size, self.decay, t), "momentum": self.momentum}

    @staticmethod
    def transition(
        potential: Potential, state: Motion, c: Coefficients, keys: Keys, tick: int | Tensor
    ) -> tuple[Motion, Info]:
        """One minibatch step."""
        w, v = state.weights, state.velocity
        estimate = potential.estimate(w, keys, tick)
        here = {"keys": keys, "stream": NOISE, "tick": tick}  # no noise is drawn
        v = langevin(v, keep=c["momentum"], gradient=estimate.gradient, rate=-1.0, **here)
        w = langevin(w, gradient=v, rate=c["rate"], **here)
        return Motion(w, v, state.step + 1), Info(estimate.loss, estimate.error)

    def target_privacy(self, *, oscillation: float, n: int, step: int | None) -> NoPrivacy:
        """Nothing."""
        del oscillation, n, step
        return NoPrivacy(reason="SGD adds no noise, so its weights reveal the data without limit")
