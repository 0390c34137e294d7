"""Runs on images (accuracy, calibration, uncertainty and privacy of the members' mean prediction) and on the synthetic
regression: a draw of a Gaussian process, with noise whose deviation grows with x.

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
from torch import Tensor
from torch.nn.functional import cross_entropy

from bounds.accounting import clt_gdp
from experiments.papers.runs.bayesian import BayesRun, Fitted, fit, member_outputs, network, outputs_at, standardised
from pacdp.calibration import reliability_curve, summary
from pacdp.cli.config import Runtime
from pacdp.cli.private.algorithms import Public
from pacdp.cli.sweep.jobs import single
from pacdp.data import load
from pacdp.step.accountant import epsilon, privacy_spent
from pacdp.step.event import first, sampled_step
from pacdp.uncertainty import Spread, class_uncertainty, gaussian_head, gaussian_nll_nats, predictive_spread


def classify(run: BayesRun, runtime: Runtime, folder: Path) -> dict[str, Any]:
    """Train, judge on test data; see :func:`judged` and :func:`privacy` for what is recorded.

    Raises:
        ValueError: the data, network or budget do not fit together.
        Diverged: a weight is not finite.
    """
    del folder
    train, test = load(run.config.dataset, root=runtime.data_root)
    public = Public(input_shape=train.inputs.shape[1:], classes=train.classes, size=float(train.n))
    module = network(run.config, public, device=runtime.device)
    inputs, labels = (torch.tensor(part).to(runtime.device) for part in (train.inputs, train.labels))
    fitted = fit(run, module, standardised(inputs, run.config.dataset), labels, loss=_loss, public=public)
    seen = standardised(torch.tensor(test.inputs).to(runtime.device), run.config.dataset)
    curve = [
        {"step": step, "epochs": step * run.config.sampling.sample_rate,
         "accuracy": float((outputs_at(fitted, step, seen).argmax(-1).cpu().numpy() == test.labels).mean()),
         **_epsilon(run, fitted, step)}
        for step in run.curve_steps()
    ]  # fmt: skip
    members = np.stack([_probabilities(outputs) for outputs in member_outputs(run, fitted, seen)])
    return {
        "steps": fitted.steps, "n": train.n, "parameters": sum(p.numel() for p in module.parameters()),
        "members": len(members), "seconds_per_epoch": fitted.seconds_per_pass, "privacy": privacy(run, fitted),
        "curve": curve, **judged(members, test.labels, image=run.image),
    }  # fmt: skip


CLASSIFY = single(classify)
"""Jobs on images."""


def judged(members: np.ndarray, labels: np.ndarray, *, image: int) -> dict[str, Any]:
    """Scores and reliability curve of the mean prediction; mean uncertainties of right and of wrong predictions; the
    members' predictions of one image.
    """
    found = class_uncertainty(members)
    right = found.probabilities.argmax(-1) == labels
    confidence = found.probabilities.max(-1)
    curve = reliability_curve(found.probabilities, labels)
    parts = {"confidence": confidence, "predictive_entropy_nats": found.predictive_entropy_nats,
             "mutual_information_nats": found.mutual_information_nats,
             "variation_ratio": found.variation_ratio}  # fmt: skip
    return {
        "test": dict(summary(found.probabilities, labels)),
        "reliability": {"failure_prob": curve.failure_prob, "simultaneous": curve.simultaneous, **curve.columns()},
        "uncertainty": {
            name: {"right": _mean(values[right]), "wrong": _mean(values[~right])} for name, values in parts.items()
        },
        "image": {"index": image, "label": int(labels[image]),
                  "probabilities": np.round(members[:, image], 5).tolist()},
    }  # fmt: skip


def privacy(run: BayesRun, fitted: Fitted) -> dict[str, Any] | None:
    """What the run cost, bracketed; None without privacy. ``epsilon_clt`` is what the paper's accountant says, the
    central limit theorem of Bu, Dong, Long and Su (2020): no bound.
    """
    if fitted.event is None:
        return None
    relation: dict[str, Any] = {"delta": run.config.budget.delta, "adjacency": run.config.budget.adjacency}
    spent = privacy_spent(fitted.event, **relation)
    mu = clt_gdp(event=fitted.event).mu
    limit = sampled_step([1.0 / mu], sample_rate=1.0)
    return {**spent.to_dict(), "epsilon_clt": epsilon(limit, **relation), "epsilon_clt_status": "optimistic",
            "noise_multiplier": fitted.noise_multiplier, "clip_norm": run.config.sampling.clip_norm,
            "unit": "example"}  # fmt: skip


def _epsilon(run: BayesRun, fitted: Fitted, step: int) -> dict[str, float]:
    if fitted.event is None:
        return {}
    budget, ran = run.config.budget, first(fitted.event, step)
    return {"epsilon": epsilon(ran, delta=budget.delta, adjacency=budget.adjacency)}


def _loss(outputs: Tensor, targets: Tensor) -> Tensor:
    return cross_entropy(outputs, targets, reduction="none")


def _probabilities(outputs: Tensor) -> np.ndarray:
    return outputs.double().softmax(-1).cpu().numpy()


def _mean(values: np.ndarray) -> float | None:
    return float(values.mean()) if len(values) else None


POINTS, FIRST, LAST = 400, 75, 325
TEST = 200
NOISE = 0.3
REACH = 5.0
"""Bands are drawn on ±REACH."""


class Curve(NamedTuple):
    """One simulation."""

    x: Float[np.ndarray, " n"]
    y: Float[np.ndarray, " n"]
    test_x: Float[np.ndarray, " m"]
    test_y: Float[np.ndarray, " m"]
    test_noise: Float[np.ndarray, " m"]
    """Standard deviation of the noise at ``test_x``."""


def simulated(seed: int) -> Curve:
    """A simulation of that seed."""
    rng = np.random.default_rng((seed, 0xBDD))
    x = np.sort(rng.uniform(-3.0, 3.0, POINTS))
    test_x = np.sort(rng.uniform(x[FIRST], x[LAST - 1], TEST))
    everywhere = np.concatenate([x, test_x])
    covariance = np.exp(-0.5 * (everywhere[:, None] - everywhere) ** 2)
    values, vectors = np.linalg.eigh(covariance)
    f = vectors @ (np.sqrt(np.maximum(values, 0.0)) * rng.normal(size=len(everywhere)))
    noise = NOISE * np.abs(everywhere + 2.0)
    y = f + noise * rng.normal(size=len(everywhere))
    y = y - y[:POINTS].mean()
    return Curve(x[FIRST:LAST], y[FIRST:LAST], test_x, y[POINTS:], noise[POINTS:])


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
