"""Runs on the synthetic regression: errors, and what the predicted variance is made of."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pacdp.cli.config import Runtime
from experiments.papers.runs.bayesian_classify import privacy
from experiments.papers.runs.bayesian_config import BayesRun
from experiments.papers.runs.bayesian_curves import REACH, simulated
from experiments.papers.runs.bayesian_networks import network
from experiments.papers.runs.bayesian_posterior import Fitted, fit, member_outputs
from pacdp.cli.private.algorithms import Public
from pacdp.cli.sweep.jobs import single
from pacdp.uncertainty import Spread, gaussian_head, gaussian_nll_nats, predictive_spread

DATASET = "gaussian-process"
GRID = 101


def regress(run: BayesRun, runtime: Runtime, folder: Path) -> dict[str, Any]:
    """Train on the simulation of the run's seed; judge on its training and test points.

    Raises:
        ValueError: the numbers do not fit together.
        Diverged: a weight is not finite.
    """
    del folder
    curve = simulated(run.seed)
    public = Public(input_shape=(1,), classes=2, size=float(len(curve.x)))
    module = network(run.config, public, device=runtime.device)
    column, targets = (torch.tensor(part, dtype=torch.float32, device=runtime.device) for part in (curve.x, curve.y))
    fitted = fit(run, module, column[:, None], targets, loss=gaussian_nll_nats, public=public)
    train, test = _spread(run, fitted, column[:, None]), _spread(run, fitted, _column(curve.test_x, runtime))
    grid = np.linspace(-REACH, REACH, GRID)
    band = _spread(run, fitted, _column(grid, runtime))
    inside = np.abs(curve.test_y - test.mean) <= 2.0 * np.sqrt(test.total)
    beyond = (grid < curve.x[0]) | (grid > curve.x[-1])
    return {
        "steps": fitted.steps, "n": len(curve.x), "parameters": sum(p.numel() for p in module.parameters()),
        "members": run.members, "seconds_per_epoch": fitted.seconds_per_pass, "privacy": privacy(run, fitted),
        "train_mse": float(np.mean((train.mean - curve.y) ** 2)),
        "test_mse": float(np.mean((test.mean - curve.test_y) ** 2)),
        "noise_mse": float(np.mean(curve.test_noise**2)),
        "test_nll_nats": float(np.mean(0.5 * (np.log(2 * np.pi * test.total)
                                              + (curve.test_y - test.mean) ** 2 / test.total))),
        "coverage_two_std": float(inside.mean()),
        "epistemic_std": float(np.sqrt(test.epistemic).mean()), "aleatoric_std": float(np.sqrt(test.aleatoric).mean()),
        "epistemic_std_beyond": float(np.sqrt(band.epistemic[beyond]).mean()),
        "data": {"x": curve.x.round(4).tolist(), "y": curve.y.round(4).tolist()},
        "band": {"x": grid.round(4).tolist(), "mean": band.mean.tolist(), "epistemic": band.epistemic.tolist(),
                 "aleatoric": band.aleatoric.tolist()},
    }  # fmt: skip


REGRESS = single(regress)
"""Jobs on the regression."""


def _spread(run: BayesRun, fitted: Fitted, inputs: Tensor) -> Spread:
    members = torch.stack(list(member_outputs(run, fitted, inputs))).double().cpu()
    means, variances = gaussian_head(members)
    return predictive_spread(means.numpy(), variances.numpy())


def _column(values: np.ndarray, runtime: Runtime) -> Tensor:
    return torch.tensor(values, dtype=torch.float32, device=runtime.device)[:, None]
