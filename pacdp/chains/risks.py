"""What an empirical risk says at weights: estimates from minibatches, and means over a whole data set."""

from typing import NamedTuple

from jaxtyping import Float
from torch import Tensor


class Estimate(NamedTuple):
    """What minibatches say of the risk at K weight vectors; all on the device of the weights."""

    gradient: Float[Tensor, "chains dim"]
    """Estimate of the gradient of each chain's mean loss. A buffer that the next call overwrites."""
    loss: Float[Tensor, " chains"]
    """Mean loss of the minibatch; unbiased for the empirical risk under uniform batches."""
    error: Float[Tensor, " chains"]
    """Mean 0-1 loss of the minibatch."""
    squared_norms: Float[Tensor, " chains"] | None = None
    """Where they are kept, Σ_i ‖g_i‖² over the records of the batch, g_i all that record i adds to batch_size times the
    gradient (float64, rounded up). Records are the data set's people, where it names them, else examples."""


class Risks(NamedTuple):
    """Means over a whole data set, accumulated in double precision."""

    loss: float
    error: float
    ramp: float
    errors: int
    """The number of examples in error, an exact count."""
    n: int
