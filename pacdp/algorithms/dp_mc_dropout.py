"""DP-MC-Dropout: DP-SGD on a network with dropout, whose masks are also drawn at prediction (Gal and Ghahramani 2016).

Each example has its own mask in every dropout layer, independent of all others, so its clipped gradient is a function
of that example and its own draws. N masks may be averaged before clipping.
"""

from dataclasses import dataclass

from pacdp.algorithms.algorithm import Descent
from pacdp.layers.priors import Prior
from pacdp.layers.regularise import Regulariser, prior_gradient
from pacdp.schedules import Schedule
from pacdp.step.mechanism import Mechanism


@dataclass(frozen=True, slots=True, kw_only=True)
class DPMCDropout(Descent):
    """Settings of DP-MC-Dropout; the network's dropout layers are made by :func:`pacdp.private.with_example_dropout`.

    Formal guarantee: that of :class:`pacdp.private.DPSGD`; masks are independent of the data.
    """

    mechanism: Mechanism
    noise_multiplier: Schedule | float
    learning_rate: Schedule | float
    draws: int = 1
    """Masks an example a step."""
    momentum: float = 0.0
    prior: Prior | None = None
    """A Normal of public size n is the weight decay under which dropout approximates variational inference."""

    def __post_init__(self) -> None:
        if self.draws < 1:
            raise ValueError(f"draws must be at least 1, got {self.draws}")
        if self.mechanism.grad_sample_mode == "ghost" and self.draws > 1:
            raise ValueError(
                f"ghost clipping sees each layer once a step: use draws=1 or mode 'hooks', got {self.draws}"
            )

    @property
    def data_free_gradient(self) -> Regulariser | None:
        """The prior's, over the public size."""
        return prior_gradient(self.prior, self.mechanism.public_size)
