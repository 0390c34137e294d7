"""Bayesian networks on a simulated regression: a draw of a Gaussian process, with noise whose deviation grows with x.

x is uniform in ±3, 400 of them, sorted; f is a Gaussian process with covariance exp(-(x - x')²/2); y is
f(x) + 0.3 |x + 2| ξ, less its mean. Training takes the 250 in the middle. (The text at hand only says "heteroscedastic
data generated from Gaussian process"; these numbers are those of the authors' published notebooks, which follow a
common tutorial.) Test targets are new noise on the same f, at new x between the outermost training inputs.
"""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float

from experiments.runs.bayesian import BayesRun, fit, member_outputs, network
from pacdp.cli.private.algorithms import Public
from pacdp.cli.runtime import Runtime
from pacdp.cli.sweep.jobs import single
from pacdp.uncertainty import Spread, gaussian_head, gaussian_nll_nats, predictive_spread

POINTS, FIRST, LAST = 400, 75, 325
TEST = 200
NOISE = 0.3
GRID = np.linspace(-5.0, 5.0, 101)
"""Where bands are drawn."""
DATASET = "gaussian-process"


class Curve(NamedTuple):
    """One simulation."""

    x: Float[np.ndarray, " n"]
    y: Float[np.ndarray, " n"]
    test_x: Float[np.ndarray, " m"]
    test_y: Float[np.ndarray, " m"]


def simulated(seed: int) -> Curve:
    """A simulation of that seed."""
    rng = np.random.default_rng((seed, 0xBDD))
    x = np.sort(rng.uniform(-3.0, 3.0, POINTS))
    test_x = np.sort(rng.uniform(x[FIRST], x[LAST - 1], TEST))
    everywhere = np.concatenate([x, test_x])
    covariance = np.exp(-0.5 * (everywhere[:, None] - everywhere) ** 2)
    values, vectors = np.linalg.eigh(covariance)
    f = vectors @ (np.sqrt(np.maximum(values, 0.0)) * rng.normal(size=len(everywhere)))
    y = f + NOISE * np.abs(everywhere + 2.0) * rng.normal(size=len(everywhere))
    y = y - y[:POINTS].mean()
    return Curve(x[FIRST:LAST], y[FIRST:LAST], test_x, y[POINTS:])


def regress(run: BayesRun, runtime: Runtime, folder: Path) -> dict[str, Any]:
    """Train on the simulation of the run's seed; judge on its training and test points."""
    curve = simulated(run.seed)
    public = Public(input_shape=(1,), classes=2, size=float(len(curve.x)))
    module = network(run.config, public, device=runtime.device)
    inputs, targets = (torch.tensor(part, dtype=torch.float32, device=runtime.device) for part in (curve.x, curve.y))
    fitted = fit(run, module, inputs[:, None], targets, loss=gaussian_nll_nats, public=public)

    def predicted(x: np.ndarray) -> Spread:
        rows = torch.tensor(x, dtype=torch.float32, device=runtime.device)[:, None]
        means, variances = gaussian_head(torch.stack(list(member_outputs(run, fitted, rows))).double().cpu())
        return predictive_spread(means.numpy(), variances.numpy())

    train, test, band = (predicted(x) for x in (curve.x, curve.test_x, GRID))
    points = [
        {"part": "band", "x": x, "mean": mean, "epistemic": epistemic, "aleatoric": aleatoric}
        for x, mean, epistemic, aleatoric in zip(GRID, band.mean, band.epistemic, band.aleatoric, strict=True)
    ]
    points += [{"part": "data", "x": x, "y": y} for x, y in zip(curve.x, curve.y, strict=True)]
    return {
        **fitted.spent,
        "train_mse": float(np.mean((train.mean - curve.y) ** 2)),
        "test_mse": float(np.mean((test.mean - curve.test_y) ** 2)),
        "epistemic_std": float(np.sqrt(test.epistemic).mean()), "aleatoric_std": float(np.sqrt(test.aleatoric).mean()),
        "points": points,
    }  # fmt: skip


REGRESS = single(regress)
