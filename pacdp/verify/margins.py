"""What decides whether a network errs on an example."""

import numpy as np


def margins(outputs: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """The output of the own class less the largest other; of one output, it or minus it. Not above 0: an error."""
    if outputs.ndim == 1 or outputs.shape[1] == 1:
        return outputs.reshape(-1) * (2 * labels - 1)
    rows = np.arange(len(outputs))
    others = outputs.copy()
    others[rows, labels] = -np.inf
    with np.errstate(invalid="ignore"):  # infinity less infinity
        return outputs[rows, labels] - others.max(axis=1)
